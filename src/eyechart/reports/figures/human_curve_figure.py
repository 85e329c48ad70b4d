"""Figures of human curves, grouped by classes of corruptions that look alike or by experiment."""

import textwrap
from collections.abc import Sequence
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from eyechart.humans.reference import Reference, title
from eyechart.reports.figures.paper_style import (
    COLUMN,
    DASHES,
    MARKERS,
    PAGE,
    VISUAL_CHANGE,
    Drawing,
    Planned,
    drawable,
    letters,
    real,
    unit_square,
)
from eyechart.reports.series.human_curves import (
    HumanLine,
    HumanPanel,
    RatePoint,
    human_experiments,
    human_panels,
    rate_points,
    reference_line,
    reference_panels,
)
from eyechart.reports.series.palette import COLORS, HUMAN_COLOR, PROPERTY_COLORS
from eyechart.reports.series.report import Report
from eyechart.scores.registry import PROPERTIES
from eyechart.scores.scoring import Fit
from eyechart.stats.intervals import CONFIDENCE, PUBLISHED_LEVEL

HEIGHT = 2.3
GRAY = "#777777"
PER_ROW = 3
WIDTH, TALL = 4.2, 4.1
"""Width and height of the panel of an experiment, in inches."""


def plan_humans(report: Report) -> Planned:
    """Return figures of human accuracy and consistency, where they were measured."""
    experiments = [one for group in human_experiments(report).values() for one in group]
    if not experiments:
        yield "No human curves: no run has human responses."
        return
    for letter, name in PROPERTIES.items():
        series = human_panels(experiments, letter)
        if not series:
            yield f"No curves of human {name}: the responses do not contain the required data."
            continue
        caption = (
            f"Human {name} over visual change, for similar and dissimilar corruptions; bands: 83 %."
        )
        label = f"human {name} $s_{letter}^h$"
        yield Drawing(("humans", name), caption, partial(draw_human_panels, series, label))


def draw_by_class(
    reference: Reference, property_name: str, level: float = PUBLISHED_LEVEL, fit: Fit | None = None
) -> Figure:
    """Return a figure with a panel per similarity class and a curve per corruption shown to humans.

    Dissimilar and untested corruptions have separate panels.

    Args:
        reference: Human responses.
        property_name: "accuracy" or "consistency".
        level: Confidence level of the bands.
        fit: How curves are fitted.

    Raises:
        UsageError: If no experiment has a curve for this property.
    """
    letter = next(letter for letter, name in PROPERTIES.items() if name == property_name)
    series = reference_panels(reference, letter, level, fit or Fit())
    figure = draw_human_panels(series, f"human {property_name}", _chance(reference))
    figure.suptitle(_heading(reference, level), x=0.01, ha="left")
    return figure


def draw_human_panels(
    series: Sequence[HumanPanel], label: str, chance: float | None = None
) -> Figure:
    """Return a figure with the panels in a row; `chance` is drawn as the accuracy of guessing."""
    figure = Figure(figsize=(PAGE if len(series) > 1 else COLUMN, HEIGHT), layout="constrained")
    grid = figure.subplots(1, len(series), sharey=True, squeeze=False)[0]
    for axes, letter, panel in zip(grid, letters(), series, strict=False):
        axes.set_title(f"{letter} {drawable(panel.short_title)}")
        unit_square(axes)
        axes.set_xlabel(VISUAL_CHANGE)
        for index, line in enumerate(panel.lines):
            _draw_line(axes, line, index)
        if chance is not None:
            _draw_chance(axes, chance)
        axes.legend(loc="lower left" if chance is None else (0.02, 0.1))
    grid[0].set_ylabel(label)
    return figure


def _draw_line(axes: Axes, line: HumanLine, index: int) -> None:
    """Draw a curve with its band and rates, pale where it was not observed."""
    color = COLORS[index % len(COLORS)]
    dash, marker = DASHES[index % len(DASHES)], MARKERS[index % len(MARKERS)]
    change, values = real(line.delta_v), real(line.values)
    axes.fill_between(change, real(line.low), real(line.high), color=color, alpha=0.18, linewidth=0)
    if line.is_observed is not None:
        axes.plot(change, values, color=color, linestyle=dash, linewidth=0.9, alpha=0.4)
        values = np.where(line.is_observed, values, np.nan)
    axes.plot(change, values, color=color, linestyle=dash, label=drawable(line.title, 30))
    _draw_points(axes, line.points, color, marker)


def _draw_points(
    axes: Axes, points: Sequence[RatePoint], color: str, marker: str, with_range: bool = False
) -> None:
    """Draw rates with their intervals; `with_range` also draws the Δv range of each rate."""
    for point in points:
        start, middle, end = point.delta_v
        low, high = point.ends
        axes.errorbar(
            middle,
            point.rate,
            xerr=[[middle - start], [end - middle]] if with_range else None,
            # matplotlib raises an error for negative lengths.
            yerr=[[max(0.0, point.rate - low)], [max(0.0, high - point.rate)]],
            fmt=marker,
            markersize=3.5 if with_range else 2.6,
            color=color,
            elinewidth=0.8 if with_range else 0.7,
            alpha=0.9 if with_range else None,
        )


def draw_reference(
    reference: Reference, level: float = CONFIDENCE, fit: Fit | None = None
) -> Figure:
    """Return a figure with a panel per experiment: its curves with bands, and the underlying rates.

    `level` is the confidence level of the bands; `fit` defaults to the fit of `evaluate`.
    """
    reference.check_curves()
    experiments = reference.experiments
    columns = min(PER_ROW, len(experiments))
    rows = -(-len(experiments) // columns)
    figure = Figure(figsize=(WIDTH * columns, TALL * rows + 0.6), layout="constrained")
    grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    for axes, experiment in zip(grid.flat, experiments, strict=False):
        _draw_experiment(axes, reference, experiment, level, fit or Fit())
    for spare in grid.flat[len(experiments) :]:
        spare.set_axis_off()
    for axes in grid[-1]:
        axes.set_xlabel("visual change Δv")
    for axes in grid[:, 0]:
        axes.set_ylabel("accuracy, consistency")
    figure.suptitle(f"{_heading(reference, level)}; dots: conditions or bins", x=0.01, ha="left")
    return figure


def _draw_experiment(
    axes: Axes, reference: Reference, experiment: str, level: float, fit: Fit
) -> None:
    for property_name, color in PROPERTY_COLORS.items():
        line = reference_line(reference, experiment, property_name, level, fit)
        if line is None:
            continue
        change = real(line.delta_v)
        axes.fill_between(
            change, real(line.low), real(line.high), color=color, alpha=0.18, linewidth=0
        )
        axes.plot(change, real(line.values), color=color, linewidth=1.8, label=property_name)
        points = rate_points(reference, experiment, property_name, level)
        _draw_points(axes, points, color, "o", with_range=True)
    chance = _chance(reference)
    if chance is not None:
        _draw_chance(axes, chance)
    members = textwrap.fill(", ".join(reference.similar.members_of(experiment)), 44)
    axes.set_title(title(experiment), fontsize=10, loc="left", fontweight="bold")
    axes.annotate(
        f"{reference.size_in_words(experiment)}\nfor {members}",
        (0.03, 0.12),
        xycoords="axes fraction",
        fontsize=7,
        color=HUMAN_COLOR,
        va="bottom",
    )
    if len(axes.get_legend_handles_labels()[1]) > 1:
        axes.legend(frameon=False, fontsize=8, loc=(0.02, 0.34))
    axes.set(xlim=(0, 1), ylim=(0, 1.02))
    axes.spines[["top", "right"]].set_visible(False)


def _chance(reference: Reference) -> float | None:
    """Return the accuracy of guessing; None if curves are corrected for chance."""
    return None if reference.corrected else 1 / reference.choices


def _draw_chance(axes: Axes, chance: float) -> None:
    axes.axhline(chance, color=GRAY, linewidth=0.8, linestyle=":")
    axes.annotate("chance", (0.01, chance + 0.01), color=GRAY, fontsize=7)


def _heading(reference: Reference, level: float) -> str:
    corrected = ", corrected for chance" if reference.corrected else ""
    return (
        f"Humans: {drawable(reference.name)}, {reference.choices} choices{corrected}; bands:"
        f" {100 * level:g} %"
    )
