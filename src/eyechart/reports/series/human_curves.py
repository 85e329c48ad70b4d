"""The human curves of experiments; corruptions that look alike share a panel.

Panels can be built from the results of runs or from a human reference, with the same outcome.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from eyechart.core.errors import UsageError
from eyechart.core.phrases import listed
from eyechart.humans.reference import Reference, title
from eyechart.reports.number_text import delta_v_text
from eyechart.reports.series.curves import PROPERTY_TITLES, Range, crossings
from eyechart.reports.series.report import Report
from eyechart.results.curve_results import HumanExperiment, Numbers
from eyechart.scores.registry import PROPERTIES
from eyechart.scores.scoring import Fit, human_curve

GRID = np.linspace(0, 1, 401)
"""Values of Δv at which curves of a reference are drawn."""

FIRST = ("noise", "blur")
"""Classes whose panels come first, as in the VCR study."""

LOOKALIKES = {"noise": "noises", "blur": "blurs"}


@dataclass(frozen=True)
class RatePoint:
    """The rate in one condition or bin.

    `delta_v`: low, middle and high visual change. `ends`: confidence interval of the rate.
    """

    delta_v: tuple[float, float, float]
    rate: float
    ends: Range
    n_responses: int


@dataclass(frozen=True, eq=False)
class HumanLine:
    """One experiment's curve, its band, and the underlying rates.

    `is_observed`: whether there were responses at each point of the curve; None if not recorded.
    """

    name: str
    title: str
    delta_v: Numbers
    values: Numbers
    low: Numbers
    high: Numbers
    points: tuple[RatePoint, ...] = ()
    is_observed: tuple[bool, ...] | None = None

    def falls(self) -> str:
        """Return a phrase that says at which Δv the curve falls below one half."""
        crossed = crossings(self.delta_v, self.values, (0.5,) * len(self.values))
        if not crossed:
            return "does not cross one half"
        return f"falls below one half at {delta_v_text(crossed[0])}"


@dataclass(frozen=True, eq=False)
class HumanPanel:
    """The curves of one class of corruptions that look alike.

    `similar_class`: name of the class; "" for corruptions without a class.
    `is_tested`: whether similarity to other corruptions was tested.
    `letter`: the property, "a" or "p".
    """

    similar_class: str
    is_tested: bool
    letter: str
    lines: tuple[HumanLine, ...]

    @property
    def key(self) -> str:
        """A short, unique name of the panel."""
        return self.similar_class or ("other" if self.is_tested else "untested")

    @property
    def short_title(self) -> str:
        """A short title of the class."""
        if self.similar_class:
            return f"similar: {self.similar_class}"
        return "dissimilar" if self.is_tested else "untested"

    @property
    def title(self) -> str:
        """The title of the class in sentences about humans."""
        if self.similar_class:
            kinds = LOOKALIKES.get(self.similar_class, self.similar_class)
            return f"{kinds}, which look alike to them"
        if self.is_tested:
            return "corruptions that look like no other tested corruption"
        return "corruptions not tested for similarity"

    def in_words(self) -> str:
        """Return where each curve falls below one half."""
        return (
            f"{PROPERTY_TITLES[self.letter].capitalize()} for humans over visual change Δv,"
            f" {self.title}, with 83 % bands:"
            f" {listed([f'{line.title} {line.falls()}' for line in self.lines])}."
        )


def human_experiments(report: Report) -> dict[tuple[int, int], list[HumanExperiment]]:
    """Return the experiments that runs were compared with, by the first test and run that use them.

    Tests and runs are given by their indices in the report.
    """
    seen: set[tuple[str, str]] = set()
    collected: dict[tuple[int, int], list[HumanExperiment]] = {}
    for index, section in enumerate(report.sections):
        for run in section.runs:
            for experiment in run.results.humans:
                # The same experiment in several runs is shown once; image sizes have separate
                # curves.
                if (experiment.name, experiment.size) not in seen:
                    seen.add((experiment.name, experiment.size))
                    collected.setdefault((index, report.runs.index(run)), []).append(experiment)
    return collected


def human_panels(experiments: Iterable[HumanExperiment], letter: str) -> list[HumanPanel]:
    """Return a report's panels of human curves for one property, with 83 % bands."""
    members = []
    for experiment in experiments:
        curve = experiment.accuracy if letter == "a" else experiment.consistency
        if curve is not None:
            line = HumanLine(
                name=experiment.name,
                title=experiment.title,
                delta_v=curve.line.delta_v,
                values=curve.line.values,
                # The VCR paper calls corruptions similar if these bands overlap everywhere.
                low=curve.line.low83,
                high=curve.line.high83,
                points=tuple(
                    RatePoint(point.delta_v, point.rate, point.interval83, point.n_responses)
                    for point in curve.points
                ),
            )
            is_tested = bool(experiment.kind) or experiment.tested
            members.append((experiment.kind, is_tested, line))
    return _panels(members, letter)


def reference_panels(reference: Reference, letter: str, level: float, fit: Fit) -> list[HumanPanel]:
    """Return the panels of a reference with bands of a given confidence level.

    Raises:
        UsageError: If no experiment has a curve for this property.
    """
    reference.check_curves()
    members = []
    for experiment in reference.experiments:
        line = reference_line(reference, experiment, PROPERTIES[letter], level, fit)
        if line is not None:
            name = reference.similar.name_of(experiment)
            is_tested = bool(name) or reference.similar.is_tested(experiment)
            members.append((name, is_tested, line))
    if not members:
        raise UsageError(
            f"{reference.name} has no human {PROPERTIES[letter]}: give another reference."
        )
    return _panels(members, letter)


def reference_line(
    reference: Reference, experiment: str, property_name: str, level: float, fit: Fit
) -> HumanLine | None:
    """Return an experiment's "accuracy" or "consistency" curve; None if there is none."""
    curve, _ = human_curve(reference, experiment, property_name, fit)
    if curve is None:
        return None
    low, high = curve.band(GRID, level)
    return HumanLine(
        name=experiment,
        title=title(experiment),
        delta_v=tuple(GRID),
        values=tuple(curve(GRID)),
        low=tuple(low),
        high=tuple(high),
        is_observed=tuple(map(bool, curve.is_observed(GRID))),
    )


def rate_points(
    reference: Reference, experiment: str, property_name: str, level: float
) -> list[RatePoint]:
    """Return the rates of an experiment; empty if its curve is corrected for chance."""
    # Rates of conditions are not corrected for chance, so that they would not match the curve.
    if reference.corrected:
        return []
    return [
        RatePoint(point.delta_v, point.rate, point.interval(level), point.n_responses)
        for point in reference.points(experiment, property_name)
    ]


def _panels(members: Sequence[tuple[str | None, bool, HumanLine]], letter: str) -> list[HumanPanel]:
    """Return a panel per similarity class, and one each for dissimilar and untested corruptions."""
    lines: dict[tuple[str, bool], list[HumanLine]] = {}
    for name, is_tested, line in members:
        lines.setdefault((name or "", is_tested), []).append(line)

    def order(panel: tuple[str, bool]) -> tuple[bool, bool, int, str]:
        name, is_tested = panel
        rank = FIRST.index(name) if name in FIRST else len(FIRST)
        # False sorts before True: classes come first, untested corruptions last.
        return not name, not is_tested, rank, name

    return [HumanPanel(*panel, letter, tuple(lines[panel])) for panel in sorted(lines, key=order)]
