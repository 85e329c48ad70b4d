"""A short summary of each model's robustness, for the first screen of the page.

It covers accuracy on clean images, the main score under corruption, the worst corruption, and
whether humans or the model are ahead. Verdicts with all details are in `verdict`.
"""

from dataclasses import dataclass

from markupsafe import Markup

from eyechart.core.phrases import plural
from eyechart.reports.html.html_table import (
    Numbers,
    counted,
    marked,
    numbers_of,
    percent,
    style_of,
)
from eyechart.reports.html.verdict import NO_CLAIM, NO_HUMANS, Basis, basis_of, too_few
from eyechart.reports.series.break_points import break_points, first_break
from eyechart.reports.series.model_scores import MainScore, is_mean_marked, main_score
from eyechart.reports.series.report import ModelEntry, Part, Report, lacks_data
from eyechart.reports.titles import corruption_words, short_names
from eyechart.scores.registry import BASELINE, PROPERTIES, RANKED_ELSEWHERE, SCORES, Score, find

CLAIMS = {
    "ahead": "At some visual changes, it is ahead of humans under {model} of {all}; it is behind"
    " under none",
    "behind": "At some visual changes, it is behind humans under {humans} of {all}; it is ahead"
    " under none",
    "mixed": "Mixed results compared with humans: at some visual changes, it is behind under"
    " {humans} of {all}, and ahead under {model}",
    "even": "No significant difference from humans under {all}",
}
"""Wording for significant leads at some visual changes, by the tone of the verdict."""


@dataclass(frozen=True)
class ModelSummary:
    """The summary of one model, whose name precedes `text`.

    See `Verdict` for the meaning of `tone` and `badge`.
    """

    model: ModelEntry
    tone: str
    badge: str
    text: Markup


def summarize(report: Report, part: Part, model: ModelEntry) -> ModelSummary:
    """Return the summary of a model in one test."""
    main, numbers = main_score(part), numbers_of(report, model)
    basis = basis_of(report, part, model)
    tone, badge = NO_HUMANS if basis is None else basis.tone
    if lacks_data([model], main.space):
        tone, badge = NO_CLAIM
    name, breaks = _breaks(main, model, numbers)
    text = _accuracy(report, main, model, numbers) + _worst(main, model, numbers, name)
    if breaks:
        text = breaks + " It " + text
    return ModelSummary(model, tone, badge, text + ". " + _humans(main, model, numbers, basis))


def _breaks(main: MainScore, model: ModelEntry, numbers: Numbers) -> tuple[str, Markup]:
    """Return the corruption under which the model breaks first, and a sentence about it.

    Both are empty without break points; the name is empty if no break point was reached.
    """
    space = model.space(main.space)
    points = {} if space is None else break_points(space)
    if space is None or not points:
        return "", Markup("")
    n_tested = Markup("{} {}").format(counted(len(points)), plural(len(points), "corruption"))
    name = first_break(points)
    # Without labels there is no accuracy, and consistency breaks instead.
    letter = "a" if space.corruptions[name].accuracy is not None else "p"
    path = model.path(main.space, "corruptions", name, PROPERTIES[letter])
    style = style_of(SCORES[f"dv50_{letter}"], is_short=True)
    point = numbers.break_point(style, *path, "break_point")
    if not points[name].is_known:
        return "", Markup("does not break under any of {} (Δv₅₀ {}).").format(n_tested, point)
    text = Markup("breaks at Δv {} under <strong>{}</strong>").format(point, corruption_words(name))
    if len(points) > 1:
        text += Markup(", first of {}").format(n_tested)
    humans = numbers.get(*path, "humans")
    if humans is not None and humans.human_break_point is not None:
        is_known = humans.human_break_point.is_known
        end = "value" if is_known else "limit"
        human = numbers.cell(style, *path, "humans", "human_break_point", end)
        text += Markup("; humans at {}{}").format("" if is_known else "> ", human)
    return name, text + "."


def _accuracy(report: Report, main: MainScore, model: ModelEntry, numbers: Numbers) -> Markup:
    """Return the accuracy on clean images, then the main score under corruption."""
    scores, path = model.space(main.space), model.path(main.space)
    mean = _mean(report, main, model)
    if scores is None or scores.clean_accuracy is None:
        return mean
    clean = numbers.estimate(percent, *path, "clean_accuracy")
    # "is correct for … and for …", "is correct for … and incorrect for …"
    more = mean.removeprefix("is correct ").removeprefix("is ")
    return Markup("is correct for {} of clean images and {}").format(clean, Markup(more))


def _mean(report: Report, main: MainScore, model: ModelEntry) -> Markup:
    scores = model.space(main.space)
    name = main.overall.name
    errors = None if scores is None else scores.corruption_error
    # Errors relative to the model itself carry no information.
    if BASELINE in main.overall.needs and errors is not None and errors.baseline != model.name:
        baseline = short_names([errors.baseline])[0]
        number = _overall(report, main, model, name)
        return Markup(main.overall.predicate).format(
            value=number, baseline=baseline, corruptions=_n(main)
        )
    for other in (name, *RANKED_ELSEWHERE):
        score = SCORES[other]
        if not score.predicate or BASELINE in score.needs:
            continue
        if find(scores, score.overall_path) is not None:
            number = _overall(report, main, model, other)
            return Markup(score.predicate).format(value=number, corruptions=_n(main))
    return Markup("has no score over all corruptions")


def _overall(report: Report, main: MainScore, model: ModelEntry, name: str) -> Markup:
    path = model.path(main.space, *SCORES[name].overall_path)
    number = numbers_of(report, model).estimate(percent, *path)
    run = report.runs[model.run]
    return Markup("{}").format(marked(number, is_mean_marked(run, model.results, main.space, name)))


def _n(main: MainScore) -> Markup:
    """Return the number of corruptions over which means are taken."""
    number = len(main.part.standings.board.counted)
    return Markup("{} {}").format(counted(number), plural(number, "corruption"))


def _worst(main: MainScore, model: ModelEntry, numbers: Numbers, named: str) -> Markup:
    """Return the corruption with the worst score, or "" if the text already named it (`named`)."""
    worst = main.worst(model)
    if worst is None or worst.corruption == named:
        return Markup("")
    number = marked(
        numbers.estimate(percent, *worst.path), worst.corruption in model.results.marked
    )
    return Markup("; worst under <b>{}</b>, {}{}").format(
        corruption_words(worst.corruption), _before(worst.score), number
    )


def _before(score: Score) -> str:
    """Return the words before a score; "" before an area, which is worded as an accuracy."""
    return "" if score.group == "curve" else f"{score.axis.partition(':')[0]} "


def _humans(main: MainScore, model: ModelEntry, numbers: Numbers, basis: Basis | None) -> Markup:
    """Return who is ahead, or why this cannot be decided."""
    if lacks_data([model], main.space):
        return Markup("Insufficient data: {}.").format(too_few(model, main.space, numbers))
    if basis is None:
        asked = main.part.runs[0].config.human_names
        why = "no comparison was requested"
        if asked:
            why = "no human responses apply to these corruptions"
        return Markup("Not compared with humans: {}.").format(why)
    if basis.tone == NO_CLAIM:
        few = too_few(model, basis.space, basis.numbers)
        return Markup("Insufficient data for a comparison with humans: {}.").format(few)
    if basis.tone == NO_HUMANS:
        return Markup("Not compared with humans, who recognized nothing under these corruptions.")
    index = f"hmri_{basis.letter}"
    hmri = basis.numbers.estimate(
        style_of(SCORES[index], is_short=True), *model.path(basis.space), "means", index
    )
    n_compared = len(basis.compared)
    claim = Markup(CLAIMS[basis.tone[0]]).format(
        humans=counted(basis.n_ahead("humans")),
        model=counted(basis.n_ahead("model")),
        all=Markup("{} {}").format(counted(n_compared), plural(n_compared, "corruption")),
    )
    return claim + Markup(" (HMRI {}{}).").format(hmri, _lowest(basis))


def _lowest(basis: Basis) -> Markup:
    """Return the corruption with the lowest HMRI; "" if there is only one."""
    known = [scores for scores in basis.compared if scores.humans.hmri.is_known]
    if len(known) < 2:
        return Markup("")
    lowest = min(known, key=lambda scores: scores.humans.hmri.value)
    value = lowest.cell(style_of(SCORES[f"hmri_{basis.letter}"], is_short=True), "hmri", "value")
    return Markup("; lowest under {}, {}").format(corruption_words(lowest.corruption), value)
