"""What curves over visual change show, in words: who is best, where they cross, what is missing."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from eyechart.reports.html.charts.chart import PROPERTY_NAMES, PROPERTY_TITLES
from eyechart.reports.series.report import Part, Shown
from eyechart.reports.words import corruption_words, listed, places, space_title
from eyechart.results.schema import HumanComparison, ModelCurve, Numbers, PropertyResults


@dataclass(frozen=True, eq=False)
class Drawn:
    """A model's curve in one chart, and where it stands in its run's results."""

    shown: Shown
    own: PropertyResults
    curve: ModelCurve
    at: tuple[object, ...]

    @property
    def area(self) -> float | None:
        """The area below the curve."""
        return None if self.own.robustness is None else self.own.robustness.value


def drawn_curves(part: Part, space: str, corruption: str, letter: str) -> list[Drawn]:
    """Return the curves of the models that have one, in the order of the part."""
    found = []
    for shown in part.models:
        scores = shown.space(space)
        score = scores.corruptions.get(corruption) if scores else None
        own = score.properties.get(letter) if score else None
        if own is not None and own.curve is not None:
            at = ("spaces", space, "corruptions", corruption, PROPERTY_NAMES[letter])
            found.append(Drawn(shown, own, own.curve, at))
    return found


def people_of(drawn: Sequence[Drawn]) -> tuple[Drawn, HumanComparison] | None:
    """Return people next to these curves, and whose results say so, if on the same scale."""
    for each in drawn:
        if each.own.people is not None and not each.own.people.corrected_for_chance:
            return each, each.own.people
    return None


def gaps(observed: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the ranges of 0…1 in which nothing was observed."""
    found, end = [], 0.0
    for start, stop in sorted(observed):
        if start > end:
            found.append((end, start))
        end = max(end, stop)
    return [*found, (end, 1.0)] if end < 1 else found


def crossings(delta_v: Numbers, first: Numbers, second: Numbers) -> list[float]:
    """Return where two curves on one grid cross, between points as straight lines do."""
    points = [
        (at, one - two)
        for at, one, two in zip(delta_v, first, second, strict=True)
        if at is not None and one is not None and two is not None
    ]
    # points where they touch say nothing about which is above
    apart = [(at, gap) for at, gap in points if abs(gap) > 1e-9]
    return [
        at + (to - at) * gap / (gap - later)
        for (at, gap), (to, later) in pairwise(apart)
        if gap * later < 0
    ]


def curves_in_words(corruption: str, letter: str, space: str, drawn: Sequence[Drawn]) -> str:
    """Return what a chart of curves shows."""
    said = [_order(drawn), _crossing(drawn), _people(drawn), _missing(drawn)]
    return (
        f"{PROPERTY_TITLES[letter].capitalize()} over visual change Δv under"
        f" {corruption_words(corruption)}, among {space_title(space)}:"
        f" {'; '.join(text for text in said if text)}."
    )


def _order(drawn: Sequence[Drawn]) -> str:
    known = [(each.area, each.shown.short) for each in drawn if each.area is not None]
    if not known:
        return ""
    (most, best), (least, worst) = max(known), min(known)
    if len(known) > 1 and most == least:
        return f"the areas below all curves are {most:.3f}"
    if len(known) == 1:
        return f"the area below the curve of {best} is {most:.3f}"
    return (
        f"{best} has the largest area below its curve, {most:.3f}; {worst} the least, {least:.3f}"
    )


def _crossing(drawn: Sequence[Drawn]) -> str:
    """Return where the curves of the two models with the largest areas cross."""
    known = [each for each in drawn if each.area is not None]
    known.sort(key=lambda each: (each.area, each.shown.short), reverse=True)
    if len(known) < 2:
        return ""
    first, second = known[0].curve, known[1].curve
    found = crossings(first.delta_v, first.values, second.values)
    if not found:
        return ""
    where = listed([f"{place:.2f}" for place in found])
    if len(found) > 3:
        where = f"{len(found)} places"
    return f"{known[0].shown.short} and {known[1].shown.short} cross at {where}"


def _people(drawn: Sequence[Drawn]) -> str:
    found = people_of(drawn)
    if found is None:
        corrected = any(each.own.people is not None for each in drawn)
        return "people are compared on another scale, corrected for chance" if corrected else ""
    area = found[1].areas.human
    return "" if area is None else f"people's area is {area:.3f}"


def _missing(drawn: Sequence[Drawn]) -> str:
    empty = gaps(drawn[0].own.observed)
    return f"nothing was observed at Δv {places(empty)}" if empty else "all of Δv was observed"
