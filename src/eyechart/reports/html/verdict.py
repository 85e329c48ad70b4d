"""A verdict on each model in a sentence: how near it comes to people, and where it falls behind.

Every claim rests on a test of the evaluation; where there are too few pictures none is made.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import isnan

from markupsafe import Markup

from eyechart.humans.transfer import bare_name
from eyechart.pipeline.caveats import MARK
from eyechart.reports.html.alone import without_people
from eyechart.reports.html.cells import (
    Estimated,
    NumberCell,
    Numbers,
    count,
    counted,
    delta,
    percent,
    score,
)
from eyechart.reports.series.report import ModelEntry, Part, Report
from eyechart.reports.words import corruption_words, listed, plural
from eyechart.results.curve_results import HumanComparison
from eyechart.results.human_caution import implied_areas, is_packaged, packaged_caution
from eyechart.scores.registry import PROPERTIES

WIDE = 0.1
"""Bounds of HMRI farther apart than this are worth a sentence."""

BADGES = {
    (False, False): ("even", "no clear difference from people"),
    (True, False): ("behind", "behind people"),
    (False, True): ("ahead", "ahead of people"),
    (True, True): ("mixed", "behind people here, ahead there"),
}
"""By whether people are clearly ahead under any corruption, and whether the model is."""

LEVEL = 0.05
"""Of p-values, corrected for the number of corruptions, below which somebody is ahead."""

HOW_SHOWN = {
    "geirhos": " They saw each picture for a fifth of a second only, and might do better with more."
}
"""What must be known of an experiment before it is compared with."""

NO_CLAIM = ("unclear", "too few pictures for a claim")
NO_PEOPLE = ("unclear", "not compared with people")
NO_AREA = Markup("cannot be set beside people, who recognised nothing under these corruptions.")


@dataclass(frozen=True)
class Verdict:
    """What is said of one model, whose name goes before `text`.

    `tone`: how it is marked; `badge`: the verdict in a few words; `details`: what supports it.
    """

    model: ModelEntry
    tone: str
    badge: str
    text: Markup
    details: Markup | str = ""


@dataclass(frozen=True)
class Near:
    """People's scores of one model under one corruption, and where they stand in results.json."""

    corruption: str
    people: HumanComparison
    path: tuple[str | int, ...]


def verdict_on(report: Report, part: Part, model: ModelEntry) -> Verdict:
    """Return the verdict on a model of a part, and what of it it was trained for."""
    verdict = _verdict(report, part, model)
    details = Markup("{} {}").format(verdict.details, _trained_on(part, model)).strip()
    return replace(verdict, details=details)


def _verdict(report: Report, part: Part, model: ModelEntry) -> Verdict:
    numbers = Numbers(model.run, report.runs[model.run].results)
    home = ("models", model.index, "spaces")
    for space, letter in ((space, letter) for letter in "ap" for space in part.spaces):
        scores = model.space(space)
        if scores is not None and f"hmri_{letter}" in scores.means:
            near = list(_near(part, model, space, letter))
            path = (*home, space)
            if not scores.means[f"hmri_{letter}"].is_known:
                return Verdict(model, *NO_PEOPLE, NO_AREA)
            if scores.verdict:
                return Verdict(model, *NO_CLAIM, _no_claim(numbers, path, letter, near))
            tone, badge = BADGES[_ahead(near, "people") > 0, _ahead(near, "model") > 0]
            text = _next_to_people(numbers, path, letter, near)
            return Verdict(model, tone, badge, text, _details(numbers, near))
    return Verdict(model, *NO_PEOPLE, without_people(part, model, numbers))


def _trained_on(part: Part, model: ModelEntry) -> Markup:
    """Return which corruptions of the test a model was trained on, if any."""
    if not model.results.marked:
        return Markup("")
    text = Markup(
        "{} It was trained on {} of the {} {}, {}: scores there, and means over them, are no test"
        " of unforeseen corruption."
    )
    names = listed([corruption_words(name) for name in model.results.marked])
    known, total = len(model.results.marked), len(part.corruptions)
    return text.format(MARK, counted(known), counted(total), plural(total, "corruption"), names)


def about_people(part: Part) -> str:
    """Return a sentence on how a part's models were compared with people, or why they were not."""
    scores = [
        score
        for model in part.models
        for space in model.results.spaces.values()
        for corruption in space.corruptions.values()
        for score in corruption.properties.values()
    ]
    people = [score.people for score in scores if score.people is not None]
    asked = part.runs[0].config.human_names
    if people:
        # without how each is used: shown directly, or transferred
        whose = dict.fromkeys(
            comparison.about.split("), ")[0].removesuffix(")") + ")" for comparison in people
        )
        alike = any(comparison.kind != "direct" for comparison in people)
        more = "; they also stand for corruptions that look alike" if alike else ""
        corrected = any(comparison.corrected_for_chance for comparison in people)
        chance = " Both sides are corrected for chance." if corrected else ""
        how = "".join(text for name, text in HOW_SHOWN.items() if name in asked)
        return f"People’s answers are to {listed(list(whose))}{more}.{how}{chance}{_caution(part)}"
    if not asked:
        return "No answers of people were asked for, so models are compared with each other only."
    return (
        "No answers of people could be set against these, so models are compared with each other"
        " only; why is said at the end, under what was skipped."
    )


def _caution(part: Part) -> str:
    """Return how the packaged reference compares with the published crowd, where it is used."""
    areas = {
        name: score.accuracy.people.areas.human
        for model in part.models
        for space in model.results.spaces.values()
        for name, score in space.corruptions.items()
        if score.accuracy is not None and score.accuracy.people is not None
        if is_packaged(score.accuracy.people.reference)
    }
    if not areas:
        return ""
    uniform = part.runs[0].config.fit.density == "uniform"
    return f" {packaged_caution(areas if uniform else {})}"


def _near(part: Part, model: ModelEntry, space: str, letter: str) -> Iterator[Near]:
    scores = model.space(space)
    assert scores is not None
    name = PROPERTIES[letter]
    for corruption, results in scores.corruptions.items():
        people = results.properties[letter].people if letter in results.properties else None
        if people is not None and corruption in part.standings.board.counted:
            path = ("models", model.index, "spaces", space, "corruptions", corruption, name)
            yield Near(corruption, people, (*path, "people"))


def _ahead(near: list[Near], side: str) -> int:
    """Return under how many corruptions one is clearly ahead, somewhere along visual change."""
    return sum(_is_ahead(comparison, side) for comparison in near)


def _is_ahead(comparison: Near, side: str) -> bool:
    """Whether one is ahead by more than chance, however many corruptions there are."""
    p_value = comparison.people.p_people if side == "people" else comparison.people.p_model
    return p_value < LEVEL and any(lead.who == side for lead in comparison.people.tested)


def _reach(numbers: Numbers, path: tuple[str | int, ...], letter: str) -> tuple[Estimated, ...]:
    """Return HMRI and MRSI as shares in percent."""
    names = (f"hmri_{letter}", f"mrsi_{letter}")
    return tuple(numbers.estimate(percent, *path, "means", name) for name in names)


def _as_score(numbers: Numbers, path: tuple[str | int, ...], name: str) -> NumberCell:
    return numbers.cell(score, *path, "means", name, "value")


def _next_to_people(
    numbers: Numbers, path: tuple[str | int, ...], letter: str, near: list[Near]
) -> Markup:
    hmri, mrsi = _reach(numbers, path, letter)
    text = Markup("reaches {} of people’s {} over {} (HMRI {})").format(
        hmri, PROPERTIES[letter], _which(near), _as_score(numbers, path, f"hmri_{letter}")
    )
    if _ahead(near, "model"):
        more = Markup(" and is ahead of them by {} of its own (MRSI {})")
        text += more.format(mrsi, _as_score(numbers, path, f"mrsi_{letter}"))
    elif _ahead(near, "people"):
        more = Markup(" and is nowhere ahead of them by more than chance (MRSI {})")
        text += more.format(_as_score(numbers, path, f"mrsi_{letter}"))
    return text + _farthest_behind(numbers, near, letter) + "."


def _which(near: list[Near]) -> Markup:
    """Return how many corruptions there are, and how many of them people saw themselves."""
    direct = sum(comparison.people.kind == "direct" for comparison in near)
    text = Markup("{} {}").format(counted(len(near)), plural(len(near), "corruption"))
    if direct == len(near):
        return text + " that people saw"
    if not direct:
        return text + " that look like those people saw"
    seen, alike = counted(direct), counted(len(near) - direct)
    return text + Markup(", {} that people saw and {} that look alike").format(seen, alike)


def _details(numbers: Numbers, near: list[Near]) -> Markup:
    """Return what else is known: where either is clearly ahead, and what nobody looked at."""
    text = Markup("")
    if _ahead(near, "people") or _ahead(near, "model"):
        text = Markup(
            "Somewhere along visual change people lead under {} of the {}, by more than chance and"
            " corrected for their number; the model leads under {} (both can). "
        )
        people, model = (_some(_ahead(near, side)) for side in ("people", "model"))
        text = text.format(people, counted(len(near)), model) + _first_behind(numbers, near)
    return Markup((text + _open(numbers, near) + _below_crowd(numbers, near)).rstrip())


def _below_crowd(numbers: Numbers, near: list[Near]) -> Markup:
    """Return where the packaged human area is below the one that the VCR paper implies."""
    implied = implied_areas()
    collected = [
        Markup("{} {} against {}").format(
            corruption_words(comparison.corruption),
            numbers.cell(score, *comparison.path, "areas", "human"),
            f"{implied[bare_name(comparison.corruption)]:.3f}",
        )
        for comparison in near
        if is_packaged(comparison.people.reference)
        and bare_name(comparison.corruption) in implied
        and comparison.path[-2] == PROPERTIES["a"]
    ]
    if not collected:
        return Markup("")
    text = Markup(
        " Its humans, the packaged reference, are below the crowd that the VCR paper implies (area:"
        " {}), against which it would as a rule score lower."
    )
    return text.format(Markup("; ").join(collected))


def _some(number: int) -> NumberCell | str:
    return counted(number) if number else "none"


def _farthest_behind(numbers: Numbers, near: list[Near], letter: str) -> Markup:
    """Return where people are farthest ahead, within ranges where they clearly are."""
    if not _ahead(near, "people") and not _ahead(near, "model"):
        return Markup("; under none of them is the difference more than chance")
    collected = [
        (value - mine, comparison, index)
        for comparison in near
        if _is_ahead(comparison, "people")
        for index, (change, value, mine) in enumerate(
            zip(
                comparison.people.line.delta_v,
                comparison.people.line.values,
                comparison.people.model_line.values,
                strict=True,
            )
        )
        if change is not None and value is not None and mine is not None
        if any(
            lead.who == "people" and lead.start <= change <= lead.end
            for lead in comparison.people.tested
        )
    ]
    if not collected:
        return Markup("")
    _, comparison, index = max(collected, key=lambda candidate: candidate[0])
    change = numbers.cell(delta, *comparison.path, "line", "delta_v", index)
    mine, human = (
        numbers.cell(percent, *comparison.path, line, "values", index)
        for line in ("model_line", "line")
    )
    text = Markup(
        "; it is farthest behind under {} at a visual change (Δv) of {}, where {} of its answers"
        " are {} and {} of people’s"
    )
    word = "right" if letter == "a" else "unchanged"
    return text.format(corruption_words(comparison.corruption), change, mine, word, human)


def _first_behind(numbers: Numbers, near: list[Near]) -> Markup:
    """Return where the model falls behind first, by visual change, if it clearly does."""
    collected = [
        (lead.start, comparison, index)
        for comparison in near
        if _is_ahead(comparison, "people")
        for index, lead in enumerate(comparison.people.tested)
        if lead.who == "people"
    ]
    if not collected:
        return Markup("")
    _, comparison, index = min(collected, key=lambda candidate: candidate[0])
    lead = (*comparison.path, "tested", index)
    start, end = (numbers.cell(delta, *lead, name) for name in ("start", "end"))
    text = Markup("It clearly falls behind first under {}, at Δv {} to {}. ")
    return text.format(corruption_words(comparison.corruption), start, end)


def _open(numbers: Numbers, near: list[Near]) -> Markup:
    """Return how much unobserved ranges leave open, where that is much."""
    widths = {
        comparison.corruption: comparison.people.hmri_bounds[1] - comparison.people.hmri_bounds[0]
        for comparison in near
        if not any(isnan(end) for end in comparison.people.hmri_bounds)
    }
    if not widths or max(widths.values()) < WIDE:
        return Markup("")
    widest = max(near, key=lambda comparison: widths.get(comparison.corruption, -1))
    span = numbers.span(delta, *widest.path, "hmri_bounds")
    text = Markup("Not every visual change was tested: under {} HMRI may be anywhere from {}.")
    return text.format(corruption_words(widest.corruption), span)


def _no_claim(
    numbers: Numbers, path: tuple[str | int, ...], letter: str, near: list[Near]
) -> Markup:
    pictures, classes = (numbers.cell(count, *path, name) for name in ("pictures", "classes"))
    hmri, mrsi = (
        numbers.estimate(delta, *path, "means", name)
        for name in (f"hmri_{letter}", f"mrsi_{letter}")
    )
    return Markup(
        "cannot be judged next to people: {} {} of {} {} are too few for a claim. As far as they"
        " go, it reaches HMRI {} and MRSI {} over {} {}."
    ).format(
        pictures,
        plural(int(pictures.value or 0), "picture"),
        classes,
        plural(int(classes.value or 0), "category"),
        hmri,
        mrsi,
        counted(len(near)),
        plural(len(near), "corruption"),
    )
