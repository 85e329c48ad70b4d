"""A one-sentence verdict on each model: how it compares with humans, and where it falls behind.

Every claim is based on a statistical test; with insufficient data, no claim is made. A model
that is not compared with humans is judged by mCE, R_a, R_p or its errors.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isnan

from markupsafe import Markup

from eyechart.core.phrases import listed, plural
from eyechart.humans.transfer import bare_name
from eyechart.pipeline.scoring.caveats import MARK
from eyechart.reports.html.html_table import (
    counted,
    counted_of,
    delta,
    estimated,
    images_behind,
    number,
    percent,
    span,
    style_of,
)
from eyechart.reports.series.report import ModelEntry, TestSection, lacks_data
from eyechart.reports.titles import corruption_words, short_names
from eyechart.results.curve_results import HumanComparison
from eyechart.results.model_results import SpaceResults
from eyechart.results.published_results import implied_areas, is_packaged, packaged_caution
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


Compared = Mapping[str, HumanComparison]
"""Comparisons of one model and property with humans, by corruption."""


@dataclass(frozen=True)
class Basis:
    """The comparison with humans that decides the verdict on a model.

    `tone`: how the verdict is marked, and its badge.
    """

    space: str
    letter: str
    compared: Compared
    tone: tuple[str, str]


def basis_of(section: TestSection, model: ModelEntry) -> Basis | None:
    """Return the comparison with humans that decides the verdict; None if there is none."""
    # Accuracy before consistency; the first comparison with humans decides the verdict.
    for space, letter in ((space, letter) for letter in PROPERTIES for space in section.spaces):
        scores = model.space(space)
        if scores is not None and f"hmri_{letter}" in scores.means:
            compared = human_comparisons(section, model, space, letter)
            tone = BADGES[n_ahead(compared, "humans") > 0, n_ahead(compared, "model") > 0]
            if not scores.means[f"hmri_{letter}"].is_known:
                tone = NO_HUMANS
            elif scores.verdict:
                tone = NO_CLAIM
            return Basis(space, letter, compared, tone)
    return None


def human_comparisons(section: TestSection, model: ModelEntry, space: str, letter: str) -> Compared:
    """Return how a model compares with humans under each corruption that means include."""
    scores = model.space(space)
    corruptions = {} if scores is None else scores.corruptions
    return {
        name: humans
        for name, results in corruptions.items()
        if name in section.standings.board.averaged_corruptions and letter in results.properties
        if (humans := results.properties[letter].humans) is not None
    }


def is_ahead(humans: HumanComparison, side: str) -> bool:
    """Return whether "humans" or "model" is significantly ahead, Holm-corrected."""
    # Ranges are from the test of one corruption; only the p-value is corrected for their number.
    p_value = humans.p_humans if side == "humans" else humans.p_model
    return p_value < SIGNIFICANT and any(lead.who == side for lead in humans.tested)


def n_ahead(compared: Compared, side: str) -> int:
    """Return the number of corruptions under which "humans" or "model" leads significantly."""
    return sum(is_ahead(humans, side) for humans in compared.values())


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


def verdict_on(section: TestSection, model: ModelEntry) -> Verdict:
    """Return the verdict on a model in one test, with the corruptions it was trained on."""
    basis, details = basis_of(section, model), Markup("")
    if basis is None:
        tone = NO_CLAIM if lacks_data([model], section.standings.space) else NO_HUMANS
        text = _without_humans(section, model)
    elif basis.tone == NO_HUMANS:
        tone, text = NO_HUMANS, NO_AREA
    elif basis.tone == NO_CLAIM:
        tone, text = NO_CLAIM, _no_claim(model, basis)
    else:
        tone, text = basis.tone, _compared_with_humans(model, basis)
        details = _lead_details(basis)
    details = Markup("{} {}").format(details, _trained_on(section, model)).strip()
    return Verdict(model, *tone, text, details)


def too_few(model: ModelEntry, space: str) -> Markup:
    """Return the available and the required number of images: "5 images in 3 categories; …".

    The required number is in the evaluation's note on insufficient data.
    """
    scores = model.results.spaces[space]
    needed = scores.verdict.partition("(")[2].partition(";")[0]
    text = images_behind(scores, space)
    return text + (Markup("; {} are needed").format(needed) if needed else Markup(""))


def _trained_on(section: TestSection, model: ModelEntry) -> Markup:
    """Return which corruptions of the test a model was trained on; "" if there are none."""
    if not model.results.marked:
        return Markup("")
    text = Markup(
        "{} It was trained on {} of the {} {}, {}: their scores, and means over them, do not"
        " measure robustness to unseen corruptions."
    )
    names = listed([corruption_words(name) for name in model.results.marked])
    known, total = len(model.results.marked), len(section.corruptions)
    return text.format(MARK, counted(known), counted(total), plural(total, "corruption"), names)


def about_humans(section: TestSection) -> str:
    """Return a sentence on how a test's models were compared with humans, or why they were not."""
    humans = [
        score.humans
        for model in section.models
        for space in model.results.spaces.values()
        for corruption in space.corruptions.values()
        for score in corruption.properties.values()
        if score.humans is not None
    ]
    asked = section.runs[0].config.human_names
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
        return f"Humans responded to {listed(list(whose))}{more}.{how}{chance}{_caution(section)}"
    if not asked:
        return "No human reference was requested, so models are compared with each other only."
    return (
        "No human responses apply to these corruptions, so models are compared with each other"
        " only; the last section lists the reasons under “What was skipped, and why”."
    )


def _caution(section: TestSection) -> str:
    """Return a caution about the packaged human reference; "" if it is not used."""
    areas = {
        name: score.accuracy.humans.areas.human
        for model in section.models
        for space in model.results.spaces.values()
        for name, score in space.corruptions.items()
        if score.accuracy is not None and score.accuracy.humans is not None
        if is_packaged(score.accuracy.humans.reference)
    }
    if not areas:
        return ""
    # The published areas weight all Δv equally and are not comparable with other densities.
    uniform = section.runs[0].config.fit.density == "uniform"
    return f" {packaged_caution(areas if uniform else {})}"


# Compared with humans


def _compared_with_humans(model: ModelEntry, basis: Basis) -> Markup:
    letter, compared = basis.letter, basis.compared
    means = model.results.spaces[basis.space].means
    hmri, mrsi = (means[f"{name}_{letter}"] for name in ("hmri", "mrsi"))
    text = Markup("reaches {} of human {} over {} (HMRI {})").format(
        estimated(percent, hmri),
        PROPERTIES[letter],
        _which(compared),
        number(style_of(SCORES[f"hmri_{letter}"]), hmri.value),
    )
    superiority = number(style_of(SCORES[f"mrsi_{letter}"]), mrsi.value)
    # MRSI is above 0 wherever curves cross by chance, so that only a test makes it a lead.
    if n_ahead(compared, "model"):
        more = Markup(" and is ahead of humans by {} of its area (MRSI {})")
        text += more.format(estimated(percent, mrsi), superiority)
    elif n_ahead(compared, "humans"):
        more = Markup(" and is nowhere significantly ahead of humans (MRSI {})")
        text += more.format(superiority)
    return text + _farthest_behind(basis) + "."


def _which(compared: Compared) -> Markup:
    """Return the number of corruptions, and how many of them humans saw directly."""
    direct = sum(humans.kind == "direct" for humans in compared.values())
    text = counted_of(len(compared), "corruption")
    if direct == len(compared):
        return text + " that humans saw"
    if not direct:
        return text + " that look like those humans saw"
    seen, alike = counted(direct), counted(len(compared) - direct)
    return text + Markup(", {} that humans saw and {} that look alike").format(seen, alike)


def _lead_details(basis: Basis) -> Markup:
    """Return further findings: where humans or the model lead, and unobserved ranges."""
    compared, text = basis.compared, Markup("")
    humans, model = (n_ahead(compared, side) for side in ("humans", "model"))
    if humans or model:
        text = Markup(
            "At some visual changes, humans lead significantly under {} of the {}, and the"
            " model leads under {} (corrected for the number of corruptions); both can lead under"
            " the same corruption. "
        ).format(
            counted(humans) if humans else "none",
            counted_of(len(compared), "corruption"),
            counted(model) if model else "none",
        )
        text += _first_behind(compared)
    text += _open(compared)
    if basis.letter == "a":
        text += below_crowd(compared)
    return Markup(text.rstrip())


def below_crowd(compared: Compared) -> Markup:
    """Return where the packaged human area is smaller than the area implied by the VCR paper.

    The comparisons are those of accuracy.
    """
    implied, area = implied_areas(), style_of(SCORES["r_a"])
    areas = [
        Markup("{} {} against {}").format(
            corruption_words(corruption),
            number(area, humans.areas.human),
            area(implied[bare_name(corruption)]),
        )
        for corruption, humans in compared.items()
        if is_packaged(humans.reference) and bare_name(corruption) in implied
    ]
    if not areas:
        return Markup("")
    return Markup(
        " The packaged human reference is less accurate than the VCR paper’s participants (area:"
        " {}); compared with these participants, the model would usually score lower."
    ).format(Markup("; ").join(areas))


def _farthest_behind(basis: Basis) -> Markup:
    """Return where humans are farthest ahead, within ranges of a significant lead."""
    compared = basis.compared
    if not n_ahead(compared, "humans") and not n_ahead(compared, "model"):
        return Markup("; the difference is not significant under any of them")
    # Only where the test finds humans ahead: elsewhere the largest difference may be noise.
    gaps = [
        (human - model, corruption, change, model, human)
        for corruption, humans in compared.items()
        if is_ahead(humans, "humans")
        for change, human, model in zip(
            humans.line.delta_v, humans.line.values, humans.model_line.values, strict=True
        )
        if change is not None and human is not None and model is not None
        if any(lead.who == "humans" and lead.start <= change <= lead.end for lead in humans.tested)
    ]
    if not gaps:
        return Markup("")
    _, corruption, change, model, human = max(gaps, key=lambda gap: gap[0])
    return Markup(
        "; it is farthest behind under {} at a visual change (Δv) of {}, where {} of its"
        " predictions are {} and {} of human responses"
    ).format(
        corruption_words(corruption),
        number(delta, change),
        number(percent, model),
        "correct" if basis.letter == "a" else "unchanged",
        number(percent, human),
    )


def _first_behind(compared: Compared) -> Markup:
    """Return where the model first falls significantly behind humans; "" if it never does."""
    leads = [
        (lead, corruption)
        for corruption, humans in compared.items()
        if is_ahead(humans, "humans")
        for lead in humans.tested
        if lead.who == "humans"
    ]
    if not leads:
        return Markup("")
    lead, corruption = min(leads, key=lambda pair: pair[0].start)
    text = Markup("The model first falls significantly behind humans under {}, at Δv {} to {}. ")
    ends = (number(delta, end) for end in (lead.start, lead.end))
    return text.format(corruption_words(corruption), *ends)


def _open(compared: Compared) -> Markup:
    """Return a sentence on the uncertainty of HMRI due to unobserved ranges; "" if it is small."""
    widths = {
        corruption: high - low
        for corruption, humans in compared.items()
        for low, high in [humans.hmri_bounds]
        if not isnan(low) and not isnan(high)
    }
    widest = max(widths, key=lambda corruption: widths[corruption], default="")
    if not widths or widths[widest] < WIDE:
        return Markup("")
    # The bounds of HMRI of both properties are formatted alike.
    bounds = span(style_of(SCORES["hmri_a"], is_short=True), compared[widest].hmri_bounds)
    text = Markup("Not every visual change was tested: under {}, HMRI may be anywhere from {}.")
    return text.format(corruption_words(widest), bounds)


def _no_claim(model: ModelEntry, basis: Basis) -> Markup:
    means = model.results.spaces[basis.space].means
    indices = (
        estimated(style_of(SCORES[name], is_short=True), means[name])
        for name in (f"hmri_{basis.letter}", f"mrsi_{basis.letter}")
    )
    return Markup(
        "cannot be compared with humans, because the data are insufficient ({}). On these data, it"
        " reaches HMRI {} and MRSI {} over {}."
    ).format(too_few(model, basis.space), *indices, counted_of(len(basis.compared), "corruption"))


# Without humans


def _without_humans(section: TestSection, model: ModelEntry) -> Markup:
    """Return a verdict by the first available score: mCE, R_a, R_p or the error."""
    space = section.standings.space
    scores = model.space(space)
    if scores is None:
        return Markup("has no scores in the label space of this test.")
    claim = _claim(section, model, scores)
    if scores.verdict:
        text = Markup("cannot be judged: the data are insufficient ({}). On these data, it {}.")
        return text.format(too_few(model, space), claim)
    return claim + _hardest(scores) + "."


def _claim(section: TestSection, model: ModelEntry, scores: SpaceResults) -> Markup:
    errors = scores.corruption_error
    # A mean over some of the corruptions does not describe the whole test; no leaderboard has it.
    present = section.standings.scores
    if "mce" in present and errors is not None and errors.baseline == model.name:
        return Markup("is the baseline by whose errors the other models’ errors are divided (mCE)")
    if errors is not None and errors.mce is not None:
        baseline = short_names([errors.baseline])[0]
        return Markup("makes {} as many errors as {} (mCE)").format(
            estimated(percent, errors.mce), baseline
        )
    for name, text in AREA_CLAIMS.items():
        if name in present and name in scores.means:
            area = scores.means[name]
            value = number(style_of(SCORES[name]), area.value)
            return Markup(text).format(estimated(percent, area), value)
    if "error" in scores.means:
        error = estimated(percent, scores.means["error"])
        return Markup("is incorrect in {} of its predictions for corrupted images").format(error)
    return Markup("has no score over all corruptions")


def _hardest(scores: SpaceResults) -> Markup:
    """Return the corruption with the highest error rate."""
    errors = {
        name: results.error.value
        for name, results in scores.corruptions.items()
        if results.error is not None and results.error.is_known
    }
    worst = max(errors, key=lambda name: errors[name], default="")
    # With one corruption, "errs most" would be trivial.
    if len(errors) < 2 or errors[worst] < MIN_ERROR:
        return Markup("")
    error = number(percent, errors[worst])
    return Markup("; it errs most under {} ({})").format(corruption_words(worst), error)
