"""The curves over visual change in one panel, the areas between them, and descriptions in words.

Panels are built from results only; renderers decide the look of lines, bands and colors.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from eyechart.core.phrases import listed
from eyechart.reports.number_text import delta_v_text, estimate_text
from eyechart.reports.series.palette import AREAS
from eyechart.reports.series.report import ModelEntry, TestSection, lacks_data
from eyechart.reports.titles import corruption_words, ranges_in_words, space_title
from eyechart.results.curve_results import HumanComparison, ModelCurve, Numbers, SampledCurve
from eyechart.results.model_results import PropertyResults
from eyechart.scores.curve_significance import Lead
from eyechart.scores.registry import PROPERTIES, SCORES

PROPERTY_TITLES = {"a": "fraction correct", "p": "fraction unchanged"}
"""The quantity drawn over visual change, by the property's letter."""

Range = tuple[float, float]


@dataclass(frozen=True, eq=False)
class CurveSeries:
    """A model's curve under a corruption.

    `line` is the curve on the panel's scale; `curve` is the curve on its native scale, with its
    bins.
    """

    model: ModelEntry
    score: PropertyResults
    line: SampledCurve
    curve: ModelCurve

    @property
    def area(self) -> float | None:
        """The area under the curve."""
        return None if self.score.robustness is None else self.score.robustness.value

    def rates(self, min_per_bin: float) -> list[Range]:
        """Return the center and the rate of each bin that has the minimum count."""
        edges = [edge for edge in self.curve.bin_edges if edge is not None]
        bins = zip(pairwise(edges), self.curve.bin_counts, self.curve.bin_rates, strict=True)
        return [
            ((low + high) / 2, rate)
            for (low, high), count, rate in bins
            if count is not None and rate is not None and count >= min_per_bin
        ]


@dataclass(frozen=True, eq=False)
class CurvePanel:
    """All curves of one property ("a" or "p") under one corruption in one label space.

    `humans`: the comparison that contains the human curve. `notes`: why models have no curve.
    `is_corrected`: whether the scale is corrected for chance. `is_compared`: whether models are
    compared with humans, on any scale.
    """

    corruption: str
    space: str
    letter: str
    curves: tuple[CurveSeries, ...]
    humans: HumanComparison | None
    notes: tuple[str, ...]
    is_corrected: bool
    is_compared: bool

    @property
    def gaps(self) -> list[Range]:
        """The ranges of Δv without observations, according to the first model's samples."""
        return gaps(self.curves[0].score.observed)

    def area_text(self, area: float) -> str:
        """Return the area under a curve as text, formatted like R."""
        return SCORES[f"r_{self.letter}"].text(area)

    def in_words(self) -> str:
        """Return a description of the panel: the best model, crossings, and missing curves.

        With insufficient data, areas are listed and models are not compared.
        """
        models = [curve.model for curve in self.curves]
        order = [_order(self), _crossing(self)]
        if lacks_data(models, self.space):
            areas = [
                f"{self.area_text(curve.area)} for {curve.model.short}"
                for curve in self.curves
                if curve.area is not None
            ]
            order = [f"the area under the curve is {listed(areas)}" if areas else ""]
        seen = "every Δv was observed"
        if self.gaps:
            seen = f"nothing was observed at Δv {ranges_in_words(self.gaps)}"
        sentences = (*order, _humans(self), seen)
        return (
            f"{PROPERTY_TITLES[self.letter].capitalize()} over visual change Δv under"
            f" {corruption_words(self.corruption)}, among {space_title(self.space)}:"
            f" {'; '.join(text for text in sentences if text)}."
        )


def curve_panel(
    models: Sequence[ModelEntry],
    space: str,
    corruption: str,
    letter: str,
    *,
    human_scale: bool = False,
) -> CurvePanel:
    """Return the curves of models under a corruption, in their order, and the human curve.

    With `human_scale`, all curves are corrected for chance if the comparison with humans is.
    Otherwise models keep their native scale, and the human curve is left out if its scale differs.
    """
    curves, notes = [], []
    humans: HumanComparison | None = None
    is_compared = False
    for model in models:
        score = property_of(model, space, corruption, letter)
        if score is None:
            continue
        comparison = score.humans
        is_compared |= comparison is not None
        if comparison is not None and humans is None:
            humans = comparison if human_scale or not comparison.corrected_for_chance else None
        if score.curve is None:
            notes += [score.note] if score.note else []
            continue
        line = comparison.model_line if human_scale and comparison is not None else score.curve
        curves.append(CurveSeries(model, score, line, score.curve))
    return CurvePanel(
        corruption=corruption,
        space=space,
        letter=letter,
        curves=tuple(curves),
        humans=humans,
        notes=tuple(notes),
        is_corrected=humans is not None and humans.corrected_for_chance,
        is_compared=is_compared,
    )


def run_panels(models: Sequence[ModelEntry], space: str, corruption: str) -> list[CurvePanel]:
    """Return accuracy and consistency under a corruption, on the human scale if there is one.

    If models are compared with humans only in another label space, the human curve of that space is
    used, provided that it has the same scale.
    """
    panels = []
    spaces = dict.fromkeys(name for model in models for name in model.results.spaces)
    for letter in PROPERTIES:
        panel = curve_panel(models, space, corruption, letter, human_scale=True)
        if panel.humans is None:
            elsewhere = (curve_panel(models, name, corruption, letter) for name in spaces)
            humans = next((panel.humans for panel in elsewhere if panel.humans is not None), None)
            panel = replace(panel, humans=humans)
        panels.append(panel)
    return panels


def curve_panels(section: TestSection, space: str, letter: str) -> list[CurvePanel]:
    """Return a panel for each corruption of a test, even if no curve could be fitted."""
    return [curve_panel(section.models, space, name, letter) for name in section.corruptions]


def best_space(section: TestSection, corruption: str) -> str | None:
    """Return the first label space with a human comparison, or else the first one with a curve."""
    fitted = [space for space in section.spaces if fitted_letters(section, space, corruption)]
    with_humans = [space for space in fitted if has_humans(section, space, corruption)]
    return (*with_humans, *fitted, None)[0]


def fitted_letters(section: TestSection, space: str, corruption: str) -> list[str]:
    """Return the properties that have a curve under a corruption."""
    return [
        letter
        for letter in PROPERTIES
        if curve_panel(section.models, space, corruption, letter).curves
    ]


def has_humans(section: TestSection, space: str, corruption: str) -> bool:
    """Return whether models are compared with humans under a corruption."""
    panels = (curve_panel(section.models, space, corruption, letter) for letter in PROPERTIES)
    return any(panel.is_compared for panel in panels)


def property_of(
    model: ModelEntry, space: str, corruption: str, letter: str
) -> PropertyResults | None:
    """Return a model's accuracy ("a") or consistency ("p") under a corruption; None if missing."""
    scores = model.space(space)
    score = None if scores is None else scores.corruptions.get(corruption)
    return None if score is None else score.properties.get(letter)


def gaps(observed: Sequence[Range]) -> list[Range]:
    """Return the ranges of [0, 1] without observations."""
    missing, end = [], 0.0
    for start, stop in sorted(observed):
        if start > end:
            missing.append((end, start))
        end = max(end, stop)
    return [*missing, (end, 1.0)] if end < 1 else missing


def crossings(delta_v: Numbers, first: Numbers, second: Numbers) -> list[float]:
    """Return the positions where two curves on the same grid cross, by linear interpolation."""
    points = [
        (at, one - two)
        for at, one, two in zip(delta_v, first, second, strict=True)
        if at is not None and one is not None and two is not None
    ]
    # Where the curves touch, neither is above the other.
    apart = [(at, gap) for at, gap in points if abs(gap) > 1e-9]
    return [
        # Root of the straight line through both differences.
        at + (to - at) * gap / (gap - later)
        for (at, gap), (to, later) in pairwise(apart)
        if gap * later < 0
    ]


def _order(panel: CurvePanel) -> str:
    areas = [(curve.area, curve.model.short) for curve in panel.curves if curve.area is not None]
    if not areas:
        return ""
    (largest, best), (smallest, worst) = max(areas), min(areas)
    if len(areas) > 1 and largest == smallest:
        return f"the areas under all curves are {panel.area_text(largest)}"
    if len(areas) == 1:
        return f"the area under the curve of {best} is {panel.area_text(largest)}"
    return (
        f"{best} has the largest area under its curve, {panel.area_text(largest)}; {worst} the"
        f" smallest, {panel.area_text(smallest)}"
    )


def _crossing(panel: CurvePanel) -> str:
    """Return where the curves of the two models with the largest areas cross."""
    ranked = [curve for curve in panel.curves if curve.area is not None]
    ranked.sort(key=lambda series: (series.area, series.model.short), reverse=True)
    if len(ranked) < 2:
        return ""
    first, second = ranked[0], ranked[1]
    crossed = crossings(first.curve.delta_v, first.curve.values, second.curve.values)
    if not crossed:
        return ""
    where = listed([delta_v_text(delta_v) for delta_v in crossed])
    if len(crossed) > 3:
        where = f"{len(crossed)} places"
    return f"the curves of {first.model.short} and {second.model.short} cross at {where}"


def _humans(panel: CurvePanel) -> str:
    if panel.humans is None:
        apart = "humans are compared on a different scale, corrected for chance"
        return apart if panel.is_compared else ""
    return f"the human area is {panel.area_text(panel.humans.areas.human)}"


@dataclass(frozen=True, eq=False)
class AreaPanel:
    """A model compared with humans under one corruption, by one property ("a" or "p")."""

    model: ModelEntry
    corruption: str
    letter: str
    comparison: HumanComparison

    @property
    def areas(self) -> tuple[tuple[str, str], ...]:
        """The four areas with their labels, formatted like the score R."""
        areas, text = self.comparison.areas, SCORES[f"r_{self.letter}"].text
        return (
            ("human area", text(areas.human)),
            ("model area", text(areas.model)),
            (AREAS["humans"][0], text(areas.human_ahead)),
            (AREAS["model"][0], text(areas.model_ahead)),
        )

    @property
    def scores(self) -> tuple[tuple[str, str], ...]:
        """HMRI and MRSI with their labels."""
        hmri, mrsi = (SCORES[f"{name}_{self.letter}"] for name in ("hmri", "mrsi"))
        return (
            ("HMRI", estimate_text(self.comparison.hmri, hmri)),
            ("MRSI", estimate_text(self.comparison.mrsi, mrsi)),
        )

    def in_words(self) -> str:
        """Return a sentence that says who is ahead in which ranges of Δv."""
        sentences = [
            f"{verb} ahead at Δv {ranges_in_words(ranges)}"
            for side, verb in (("humans", "humans are"), ("model", "the model is"))
            if (ranges := ranges_ahead(self.comparison.leads, side))
        ]
        return f"{self.model.short}: {listed(sentences) or 'neither is ahead'}"


def ranges_ahead(leads: Iterable[Lead], side: str) -> list[Range]:
    """Return the ranges in which "humans" or "model" is ahead."""
    return [(lead.start, lead.end) for lead in leads if lead.who == side]


def area_panels(section: TestSection, space: str, corruption: str, letter: str) -> list[AreaPanel]:
    """Return a panel for each model that is compared with humans under a corruption.

    There is none with insufficient data, which do not show who is ahead.
    """
    if lacks_data(section.models, space):
        return []
    return [
        AreaPanel(curve.model, corruption, letter, curve.score.humans)
        for curve in curve_panel(section.models, space, corruption, letter).curves
        if curve.score.humans is not None
    ]


def area_panels_of(section: TestSection, model: ModelEntry) -> list[AreaPanel]:
    """Return all panels of one model: accuracy first, corruptions in the test's order."""
    return [
        panel
        for letter in PROPERTIES
        for corruption in section.corruptions
        for space in section.spaces
        for panel in area_panels(section, space, corruption, letter)
        if panel.model is model
    ]
