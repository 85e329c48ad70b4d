"""A one-sentence verdict on each model: how it compares with humans, and where it falls behind.

Every claim is based on a statistical test; with insufficient data, no claim is made. A model
that is not compared with humans is judged by mCE, R_a, R_p or its errors.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import isnan

from markupsafe import Markup

from eyechart.core.phrases import plural
from eyechart.humans.transfer import bare_name
from eyechart.pipeline.scoring.caveats import MARK
from eyechart.reports.html.html_table import (
    NumberCell,
    Numbers,
    Style,
    counted,
    delta,
    images_behind,
    numbers_of,
    percent,
    style_of,
)
from eyechart.reports.series.report import ModelEntry, Part, Report, Steps, lacks_data
from eyechart.reports.titles import corruption_words, listed, short_names
from eyechart.results.curve_results import HumanComparison
from eyechart.results.human_caution import implied_areas, is_packaged, packaged_caution
from eyechart.scores.registry import PROPERTIES, SCORES
from eyechart.stats.p_values import SIGNIFICANT

BADGES = {
    (False, False): ("even", "no significant difference from humans"),
    (True, False): ("behind", "behind humans"),
    (False, True): ("ahead", "ahead of humans"),
    (True, True): ("mixed", "partly behind and partly ahead of humans"),
}
"""Tone and badge, by whether humans lead significantly anywhere and whether the model does."""

NO_CLAIM = ("unclear", "insufficient data")
NO_HUMANS = ("unclear", "not compared with humans")


@dataclass(frozen=True)
class HumanScores:
    """A model compared with humans under one corruption, and its location in results.json."""

    corruption: str
    humans: HumanComparison
    numbers: Numbers
    path: Steps

    def cell(self, style: Style, *steps: str | int) -> NumberCell:
        """Return the number at this path within the comparison."""
        return self.numbers.cell(style, *self.path, *steps)

    def is_ahead(self, side: str) -> bool:
        """Return whether "humans" or "model" is significantly ahead, Holm-corrected."""
        # Ranges are from the test of one corruption; only the p-value is corrected for their
        # number.
        p_value = self.humans.p_humans if side == "humans" else self.humans.p_model
        return p_value < SIGNIFICANT and any(lead.who == side for lead in self.humans.tested)


Compared = Sequence[HumanScores]
"""Comparisons of one model and property with humans, by corruption."""


@dataclass(frozen=True)
class Basis:
    """The comparison with humans that decides the verdict on a model.

    `tone`: how the verdict is marked, and its badge.
    """

    space: str
    letter: str
    compared: Compared
    numbers: Numbers
    tone: tuple[str, str]

    def n_ahead(self, side: str) -> int:
        """Return the number of corruptions under which "humans" or "model" leads significantly."""
        return n_ahead(self.compared, side)


def basis_of(report: Report, part: Part, model: ModelEntry) -> Basis | None:
    """Return the comparison with humans that decides the verdict; None if there is none."""
    numbers = numbers_of(report, model)
    # Accuracy before consistency; the first comparison with humans decides the verdict.
    for space, letter in ((space, letter) for letter in PROPERTIES for space in part.spaces):
        scores = model.space(space)
        if scores is not None and f"hmri_{letter}" in scores.means:
            compared = list(human_scores(numbers, part, model, space, letter))
            tone = BADGES[n_ahead(compared, "humans") > 0, n_ahead(compared, "model") > 0]
            if not scores.means[f"hmri_{letter}"].is_known:
                tone = NO_HUMANS
            elif scores.verdict:
                tone = NO_CLAIM
            return Basis(space, letter, compared, numbers, tone)
    return None


def human_scores(
    numbers: Numbers, part: Part, model: ModelEntry, space: str, letter: str
) -> Iterator[HumanScores]:
    """Yield how a model compares with humans under each corruption that means include."""
    scores = model.space(space)
    for corruption, results in ({} if scores is None else scores.corruptions).items():
        humans = results.properties[letter].humans if letter in results.properties else None
        if humans is not None and corruption in part.standings.board.counted:
            path = model.path(space, "corruptions", corruption, PROPERTIES[letter], "humans")
            yield HumanScores(corruption, humans, numbers, path)


def n_ahead(compared: Compared, side: str) -> int:
    """Return the number of corruptions under which "humans" or "model" leads significantly."""
    return sum(scores.is_ahead(side) for scores in compared)


WIDE = 0.1
"""Minimum distance between the bounds of HMRI for them to be mentioned."""

MIN_ERROR = 0.01
"""Minimum error rate for a corruption to be mentioned."""

AREA_CLAIMS = {
    "r_a": "is correct in {} of its predictions if every visual change is equally likely (Rₐ {})",
    "r_p": "gives the same prediction as for the clean image in {} of cases, if every visual"
    " change is equally likely (Rₚ {})",
}
"""Wording of areas for a model that is not compared with humans."""

HOW_SHOWN = {
    "geirhos": " Humans saw each image for a fifth of a second; more time might help them."
}
"""Notes on how experiments showed images to humans, by human reference."""

NO_AREA = Markup("cannot be compared with humans, who recognized nothing under these corruptions.")


@dataclass(frozen=True)
class Verdict:
    """The verdict on one model, whose name precedes `text`.

    `tone`: key of the verdict's color; `badge`: the verdict in a few words; `details`: further
    findings.
    """

    model: ModelEntry
    tone: str
    badge: str
    text: Markup
    details: Markup | str = ""


def verdict_on(report: Report, part: Part, model: ModelEntry) -> Verdict:
    """Return the verdict on a model in one test, with the corruptions it was trained on."""
    verdict = _verdict(report, part, model)
    details = Markup("{} {}").format(verdict.details, _trained_on(part, model)).strip()
    return replace(verdict, details=details)


def _verdict(report: Report, part: Part, model: ModelEntry) -> Verdict:
    numbers = numbers_of(report, model)
    basis = basis_of(report, part, model)
    if basis is None:
        tone = NO_CLAIM if lacks_data([model], part.standings.space) else NO_HUMANS
        return Verdict(model, *tone, _without_humans(part, model, numbers))
    means, compared = (numbers, model.path(basis.space), basis.letter), basis.compared
    if basis.tone == NO_HUMANS:
        return Verdict(model, *NO_HUMANS, NO_AREA)
    if basis.tone == NO_CLAIM:
        return Verdict(model, *NO_CLAIM, _no_claim(model, basis))
    return Verdict(
        model, *basis.tone, _compared_with_humans(*means, compared), _lead_details(compared)
    )


def too_few(model: ModelEntry, space: str, numbers: Numbers) -> Markup:
    """Return the available and the required number of images: "5 images in 3 categories; …".

    The required number is in the evaluation's note on insufficient data.
    """
    scores = model.results.spaces[space]
    text = images_behind(numbers, model, space)
    needed = scores.verdict.partition("(")[2].partition(";")[0]
    return text + (Markup("; {} are needed").format(needed) if needed else Markup(""))


def _trained_on(part: Part, model: ModelEntry) -> Markup:
    """Return which corruptions of the test a model was trained on; "" if there are none."""
    if not model.results.marked:
        return Markup("")
    text = Markup(
        "{} It was trained on {} of the {} {}, {}: their scores, and means over them, do not"
        " measure robustness to unseen corruptions."
    )
    names = listed([corruption_words(name) for name in model.results.marked])
    known, total = len(model.results.marked), len(part.corruptions)
    return text.format(MARK, counted(known), counted(total), plural(total, "corruption"), names)


def about_humans(part: Part) -> str:
    """Return a sentence on how a test's models were compared with humans, or why they were not."""
    humans = [
        score.humans
        for model in part.models
        for space in model.results.spaces.values()
        for corruption in space.corruptions.values()
        for score in corruption.properties.values()
        if score.humans is not None
    ]
    asked = part.runs[0].config.human_names
    if humans:
        # Without the last words, which say whether responses are direct or transferred.
        whose = dict.fromkeys(
            comparison.about.split("), ")[0].removesuffix(")") + ")" for comparison in humans
        )
        alike = any(comparison.kind != "direct" for comparison in humans)
        more = "; their responses are also used for corruptions that look alike" if alike else ""
        corrected = any(comparison.corrected_for_chance for comparison in humans)
        chance = " Human and model curves are corrected for chance." if corrected else ""
        how = "".join(text for name, text in HOW_SHOWN.items() if name in asked)
        return f"Humans responded to {listed(list(whose))}{more}.{how}{chance}{_caution(part)}"
    if not asked:
        return "No human reference was requested, so models are compared with each other only."
    return (
        "No human responses apply to these corruptions, so models are compared with each other"
        " only; the last section lists the reasons under “What was skipped, and why”."
    )


def _caution(part: Part) -> str:
    """Return a caution about the packaged human reference; "" if it is not used."""
    areas = {
        name: score.accuracy.humans.areas.human
        for model in part.models
        for space in model.results.spaces.values()
        for name, score in space.corruptions.items()
        if score.accuracy is not None and score.accuracy.humans is not None
        if is_packaged(score.accuracy.humans.reference)
    }
    if not areas:
        return ""
    # The published areas weight all Δv equally and are not comparable with other densities.
    uniform = part.runs[0].config.fit.density == "uniform"
    return f" {packaged_caution(areas if uniform else {})}"


# Compared with humans


def _compared_with_humans(numbers: Numbers, path: Steps, letter: str, compared: Compared) -> Markup:
    names = [f"{name}_{letter}" for name in ("hmri", "mrsi")]
    hmri, mrsi = ((*path, "means", name) for name in names)
    index, superiority = (
        numbers.cell(style_of(SCORES[name]), *path, "means", name, "value") for name in names
    )
    text = Markup("reaches {} of human {} over {} (HMRI {})").format(
        numbers.estimate(percent, *hmri),
        PROPERTIES[letter],
        _which(compared),
        index,
    )
    # MRSI is above 0 wherever curves cross by chance, so that only a test makes it a lead.
    if n_ahead(compared, "model"):
        more = Markup(" and is ahead of humans by {} of its area (MRSI {})")
        text += more.format(numbers.estimate(percent, *mrsi), superiority)
    elif n_ahead(compared, "humans"):
        more = Markup(" and is nowhere significantly ahead of humans (MRSI {})")
        text += more.format(superiority)
    return text + _farthest_behind(compared, letter) + "."


def _which(compared: Compared) -> Markup:
    """Return the number of corruptions, and how many of them humans saw directly."""
    direct = sum(scores.humans.kind == "direct" for scores in compared)
    text = Markup("{} {}").format(counted(len(compared)), plural(len(compared), "corruption"))
    if direct == len(compared):
        return text + " that humans saw"
    if not direct:
        return text + " that look like those humans saw"
    seen, alike = counted(direct), counted(len(compared) - direct)
    return text + Markup(", {} that humans saw and {} that look alike").format(seen, alike)


def _lead_details(compared: Compared) -> Markup:
    """Return further findings: where humans or the model lead, and unobserved ranges."""
    text = Markup("")
    humans, model = (n_ahead(compared, side) for side in ("humans", "model"))
    if humans or model:
        text = Markup(
            "At some visual changes, humans lead significantly under {} of the {} {}, and the"
            " model leads under {} (corrected for the number of corruptions); both can lead under"
            " the same corruption. "
        ).format(
            *(counted(humans) if humans else "none", counted(len(compared))),
            *(plural(len(compared), "corruption"), counted(model) if model else "none"),
        )
        text += _first_behind(compared)
    return Markup((text + _open(compared) + below_crowd(compared)).rstrip())


def below_crowd(compared: Compared) -> Markup:
    """Return where the packaged human area is smaller than the area implied by the VCR paper."""
    implied, area = implied_areas(), style_of(SCORES["r_a"])
    areas = [
        Markup("{} {} against {}").format(
            corruption_words(scores.corruption),
            scores.cell(area, "areas", "human"),
            area(implied[bare_name(scores.corruption)]),
        )
        for scores in compared
        if is_packaged(scores.humans.reference)
        and bare_name(scores.corruption) in implied
        and scores.path[-2] == PROPERTIES["a"]
    ]
    if not areas:
        return Markup("")
    return Markup(
        " The packaged human reference is less accurate than the VCR paper’s participants (area:"
        " {}); compared with these participants, the model would usually score lower."
    ).format(Markup("; ").join(areas))


def _farthest_behind(compared: Compared, letter: str) -> Markup:
    """Return where humans are farthest ahead, within ranges of a significant lead."""
    if not n_ahead(compared, "humans") and not n_ahead(compared, "model"):
        return Markup("; the difference is not significant under any of them")
    # Only where the test finds humans ahead: elsewhere the largest difference may be noise.
    gaps = [
        (human - model, scores, index)
        for scores in compared
        if scores.is_ahead("humans")
        for index, (change, human, model) in enumerate(
            zip(
                scores.humans.line.delta_v,
                scores.humans.line.values,
                scores.humans.model_line.values,
                strict=True,
            )
        )
        if change is not None and human is not None and model is not None
        if any(
            lead.who == "humans" and lead.start <= change <= lead.end
            for lead in scores.humans.tested
        )
    ]
    if not gaps:
        return Markup("")
    _, scores, index = max(gaps, key=lambda gap: gap[0])
    return Markup(
        "; it is farthest behind under {} at a visual change (Δv) of {}, where {} of its"
        " predictions are {} and {} of human responses"
    ).format(
        corruption_words(scores.corruption),
        scores.cell(delta, "line", "delta_v", index),
        scores.cell(percent, "model_line", "values", index),
        "correct" if letter == "a" else "unchanged",
        scores.cell(percent, "line", "values", index),
    )


def _first_behind(compared: Compared) -> Markup:
    """Return where the model first falls significantly behind humans; "" if it never does."""
    leads = [
        (lead.start, scores, index)
        for scores in compared
        if scores.is_ahead("humans")
        for index, lead in enumerate(scores.humans.tested)
        if lead.who == "humans"
    ]
    if not leads:
        return Markup("")
    _, scores, index = min(leads, key=lambda lead: lead[0])
    ends = (scores.cell(delta, "tested", index, end) for end in ("start", "end"))
    text = Markup("The model first falls significantly behind humans under {}, at Δv {} to {}. ")
    return text.format(corruption_words(scores.corruption), *ends)


def _open(compared: Compared) -> Markup:
    """Return a sentence on the uncertainty of HMRI due to unobserved ranges; "" if it is small."""
    widths = [
        (high - low, scores)
        for scores in compared
        for low, high in [scores.humans.hmri_bounds]
        if not isnan(low) and not isnan(high)
    ]
    width, widest = max(widths, key=lambda pair: pair[0], default=(0.0, None))
    if widest is None or width < WIDE:
        return Markup("")
    # The bounds of HMRI of both properties are formatted alike.
    style = style_of(SCORES["hmri_a"], is_short=True)
    span = widest.numbers.span(style, *widest.path, "hmri_bounds")
    text = Markup("Not every visual change was tested: under {}, HMRI may be anywhere from {}.")
    return text.format(corruption_words(widest.corruption), span)


def _no_claim(model: ModelEntry, basis: Basis) -> Markup:
    numbers, path = basis.numbers, model.path(basis.space)
    indices = (
        numbers.estimate(style_of(SCORES[name], is_short=True), *path, "means", name)
        for name in (f"hmri_{basis.letter}", f"mrsi_{basis.letter}")
    )
    return Markup(
        "cannot be compared with humans, because the data are insufficient ({}). On these data, it"
        " reaches HMRI {} and MRSI {} over {} {}."
    ).format(
        too_few(model, basis.space, numbers),
        *indices,
        *(counted(len(basis.compared)), plural(len(basis.compared), "corruption")),
    )


# Without humans


def _without_humans(part: Part, model: ModelEntry, numbers: Numbers) -> Markup:
    """Return a verdict by the first available score: mCE, R_a, R_p or the error."""
    space = part.standings.space
    scores = model.space(space)
    if scores is None:
        return Markup("has no scores in the label space of this test.")
    if scores.verdict:
        text = Markup("cannot be judged: the data are insufficient ({}). On these data, it {}.")
        return text.format(too_few(model, space, numbers), _claim(part, model, numbers))
    return _claim(part, model, numbers) + _hardest(model, numbers, space) + "."


def _claim(part: Part, model: ModelEntry, numbers: Numbers) -> Markup:
    path = model.path(part.standings.space)
    scores = model.results.spaces[part.standings.space]
    errors = scores.corruption_error
    # A mean over some of the corruptions does not describe the whole test; no leaderboard has it.
    present = part.standings.scores
    if "mce" in present and errors is not None and errors.baseline == model.name:
        return Markup("is the baseline by whose errors the other models’ errors are divided (mCE)")
    if errors is not None and errors.mce is not None:
        mce = numbers.estimate(percent, *path, "corruption_error", "mce")
        baseline = short_names([errors.baseline])[0]
        return Markup("makes {} as many errors as {} (mCE)").format(mce, baseline)
    for name, text in AREA_CLAIMS.items():
        if name in present and name in scores.means:
            value = numbers.cell(style_of(SCORES[name]), *path, "means", name, "value")
            return Markup(text).format(numbers.estimate(percent, *path, "means", name), value)
    if "error" in scores.means:
        error = numbers.estimate(percent, *path, "means", "error")
        return Markup("is incorrect in {} of its predictions for corrupted images").format(error)
    return Markup("has no score over all corruptions")


def _hardest(model: ModelEntry, numbers: Numbers, space: str) -> Markup:
    """Return the corruption with the highest error rate."""
    errors = {
        name: results.error.value
        for name, results in model.results.spaces[space].corruptions.items()
        if results.error is not None and results.error.is_known
    }
    worst = max(errors, key=lambda name: errors[name], default="")
    # With one corruption, "errs most" would be trivial.
    if len(errors) < 2 or errors[worst] < MIN_ERROR:
        return Markup("")
    error = numbers.cell(percent, *model.path(space, "corruptions", worst, "error", "value"))
    return Markup("; it errs most under {} ({})").format(corruption_words(worst), error)
