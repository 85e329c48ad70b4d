"""People's curves over visual change as a picture: bands, conditions, and what they stand for."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from eyechart.core.errors import UsageError
from eyechart.curves.curve import Curve
from eyechart.humans.reference import Reference, title
from eyechart.humans.similarity import LEVEL
from eyechart.reports.figures.style import DASHES, drawable
from eyechart.reports.series.report import COLOURS as MEMBERS
from eyechart.scores.scoring import Fit

COLOURS = {"accuracy": "#1f4e79", "consistency": "#a0522d"}
GREY = "#777777"
GRID = np.linspace(0, 1, 401)
PER_ROW = 3
WIDTH, HEIGHT = 4.2, 4.1
PANEL = 2.4
"""Side of a panel of a class, in inches."""

DISSIMILAR, UNTESTED = "dissimilar", "untested"
LONERS = (DISSIMILAR, UNTESTED)


def draw_reference(reference: Reference, level: float = 0.95, fit: Fit | None = None) -> Figure:
    """Return a panel for every experiment: its curves with their bands, and the rates behind them.

    `level`: of the bands. `fit`: how curves are fitted, as `evaluate` does it unless given.
    """
    reference.check_curves()
    experiments = reference.experiments
    columns = min(PER_ROW, len(experiments))
    rows = -(-len(experiments) // columns)
    figure = Figure(figsize=(WIDTH * columns, HEIGHT * rows + 0.6), layout="constrained")
    grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    for place, experiment in enumerate(experiments):
        _draw(grid.flat[place], reference, experiment, level, fit or Fit())
    for spare in grid.flat[len(experiments) :]:
        spare.set_axis_off()
    for axes in grid[-1]:
        axes.set_xlabel("visual change Δv")
    for axes in grid[:, 0]:
        axes.set_ylabel("accuracy, consistency")
    figure.suptitle(f"{_heading(reference, level)}; dots: conditions or bins", x=0.01, ha="left")
    return figure


def draw_by_class(
    reference: Reference, which: str, level: float = LEVEL, fit: Fit | None = None
) -> Figure:
    """Return a panel per similarity class with a curve for each corruption that was shown.

    Corruptions that were found dissimilar, and untested ones, have a panel of their own.
    `which`: "accuracy" or "consistency". `level`: of the bands.

    Raises:
        UsageError: no experiment has such a curve.
    """
    reference.check_curves()
    panels: dict[str, list[tuple[str, Curve]]] = {}
    for experiment in reference.experiments:
        curve = reference.curve(experiment, which, **(fit or Fit()).human_options())
        if curve is not None:
            panels.setdefault(_class_title(reference, experiment), []).append((experiment, curve))
    if not panels:
        raise UsageError(f"{reference.name} has no {which} of humans: give another reference.")
    # classes first, then what is in none
    names = sorted(panels, key=lambda name: (name in LONERS, name))
    figure = Figure(figsize=(PANEL * len(names), PANEL + 0.3), layout="constrained")
    row = figure.subplots(1, len(names), sharey=True, squeeze=False)[0]
    for axes, name in zip(row, names, strict=True):
        axes.set_title(drawable(name))
        for place, (experiment, curve) in enumerate(panels[name]):
            _draw_member(axes, experiment, curve, level, place)
        _draw_chance(axes, reference)
        axes.set(xlim=(0, 1), ylim=(0, 1.02), xlabel="visual change Δv")
        axes.legend(loc=(0.02, 0.1))
    row[0].set_ylabel(f"human {which}")
    figure.suptitle(_heading(reference, level), x=0.01, ha="left")
    return figure


def _class_title(reference: Reference, experiment: str) -> str:
    name = reference.similar.name_of(experiment)
    if name:
        return f"similar: {name}"
    return DISSIMILAR if reference.similar.is_tested(experiment) else UNTESTED


def _draw_member(axes: Axes, experiment: str, curve: Curve, level: float, place: int) -> None:
    colour, dash = MEMBERS[place % len(MEMBERS)], DASHES[place % len(DASHES)]
    low, high = curve.band(GRID, level)
    axes.fill_between(GRID, low, high, color=colour, alpha=0.18, linewidth=0)
    axes.plot(GRID, curve(GRID), color=colour, linestyle=dash, linewidth=0.9, alpha=0.4)
    seen = np.where(curve.is_observed(GRID), curve(GRID), np.nan)
    axes.plot(GRID, seen, color=colour, linestyle=dash, label=drawable(title(experiment)))


def _heading(reference: Reference, level: float) -> str:
    chance = ", corrected for chance" if reference.corrected else ""
    return (
        f"Humans: {drawable(reference.name)}, {reference.choices} choices{chance}; bands:"
        f" {100 * level:g} %"
    )


def _draw(axes: Any, reference: Reference, experiment: str, level: float, fit: Fit) -> None:
    shown = [
        which
        for which in ("accuracy", "consistency")
        if _draw_curve(axes, reference, experiment, which, level, fit)
    ]
    _draw_chance(axes, reference)
    own = reference.size_in_words(experiment)
    axes.set_title(title(experiment), fontsize=10, loc="left", fontweight="bold")
    axes.annotate(
        f"{own}\nfor {_wrapped(reference.similar.members_of(experiment))}",
        (0.03, 0.12),
        xycoords="axes fraction",
        fontsize=7,
        color="#444444",
        va="bottom",
    )
    if len(shown) > 1:
        axes.legend(frameon=False, fontsize=8, loc=(0.02, 0.34))
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1.02)
    axes.spines[["top", "right"]].set_visible(False)


def _draw_chance(axes: Axes, reference: Reference) -> None:
    """Draw what guessing gives, unless curves are corrected for it."""
    if not reference.corrected:
        axes.axhline(1 / reference.choices, color=GREY, linewidth=0.8, linestyle=":")
        axes.annotate("chance", (0.01, 1 / reference.choices + 0.01), color=GREY, fontsize=7)


def _draw_curve(
    axes: Any, reference: Reference, experiment: str, which: str, level: float, fit: Fit
) -> bool:
    curve = reference.curve(experiment, which, **fit.human_options())
    if curve is None:
        return False
    colour = COLOURS[which]
    low, high = curve.band(GRID, level)
    axes.fill_between(GRID, low, high, color=colour, alpha=0.18, linewidth=0)
    axes.plot(GRID, curve(GRID), color=colour, linewidth=1.8, label=which)
    if reference.corrected:
        return True
    for point in reference.points(experiment, which):
        start, middle, end = point.delta_v
        bottom, top = point.interval(level)
        axes.errorbar(
            middle,
            point.rate,
            xerr=[[middle - start], [end - middle]],
            yerr=[[max(0.0, point.rate - bottom)], [max(0.0, top - point.rate)]],
            fmt="o",
            markersize=3.5,
            color=colour,
            ecolor=colour,
            elinewidth=0.8,
            alpha=0.9,
        )
    return True


def _wrapped(names: tuple[str, ...], width: int = 44) -> str:
    import textwrap

    return "\n".join(textwrap.wrap(", ".join(names), width))
