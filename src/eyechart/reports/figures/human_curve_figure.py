"""People's own curves with 83 % bands: corruptions that look alike to them, and the others."""

from functools import partial

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from eyechart.reports.figures.panels import (
    VISUAL_CHANGE,
    draw_line,
    letters,
    unit_square,
)
from eyechart.reports.figures.plan import Plan, Plans
from eyechart.reports.figures.style import COLUMN, DASHES, MARKERS, PAGE, drawable
from eyechart.reports.series.report import COLOURS, Report
from eyechart.results.schema import HumanCurve, HumanExperiment

HEIGHT = 2.3
KINDS = {
    "noise": "similar: noise", "blur": "similar: blur", "": "dissimilar", "?": "untested",
}  # fmt: skip
"""Panels by the class that experiments belong to; without a test nobody knows if they have one."""

Shown = tuple[HumanExperiment, HumanCurve]


def plan_people(report: Report) -> Plans:
    """Return people's accuracy and consistency, as far as they were asked."""
    experiments = _experiments(report)
    if not experiments:
        return Plans(notes=("No curves of people: no run has answers of people.",))
    plans, notes = [], []
    for name, sign in (("accuracy", "s_a^h"), ("consistency", "s_p^h")):
        found = [(own, line) for own in experiments if (line := getattr(own, name)) is not None]
        if not found:
            notes.append(f"No {name} of people: their answers do not tell it.")
            continue
        caption = f"People's {name} over visual change, similar and dissimilar; bands: 83 %."
        label = f"people's {name} ${sign}$"
        plans.append(Plan(("people", name), caption, partial(draw_people_lines, found, label)))
    return Plans(tuple(plans), tuple(notes))


def _experiments(report: Report) -> list[HumanExperiment]:
    """Return each experiment once, whichever runs have it."""
    found: dict[tuple[str, str], HumanExperiment] = {}
    for run in report.runs:
        for own in run.results.people:
            found.setdefault((own.name, own.size), own)
    return list(found.values())


def draw_people_lines(shown: list[Shown], label: str) -> Figure:
    """Return a panel for each class of corruptions that look alike, and one for the others."""
    found = {_panel(own) for own, _ in shown}
    others = sorted(found - set(KINDS))
    kinds = [kind for kind in [*KINDS, *others] if kind in found]
    figure = Figure(figsize=(PAGE if len(kinds) > 1 else COLUMN, HEIGHT))
    grid = figure.subplots(1, len(kinds), sharey=True, squeeze=False)[0]
    for axes, letter, kind in zip(grid, letters(), kinds, strict=False):
        axes.set_title(f"{letter} {KINDS.get(kind, f'similar: {drawable(kind)}')}")
        _draw_panel(axes, [each for each in shown if _panel(each[0]) == kind])
    grid[0].set_ylabel(label)
    return figure


def _panel(own: HumanExperiment) -> str:
    return own.kind or ("" if own.tested else "?")


def _draw_panel(axes: Axes, shown: list[Shown]) -> None:
    unit_square(axes)
    axes.set_xlabel(VISUAL_CHANGE)
    for place, (experiment, own) in enumerate(shown):
        colour = COLOURS[place % len(COLOURS)]
        dash, marker = DASHES[place % len(DASHES)], MARKERS[place % len(MARKERS)]
        line = draw_line(axes, own.line, colour=colour, dash=dash, band=0.18)
        line.set_label(drawable(experiment.title, 30))
        for point in own.points:
            low, high = point.interval83
            axes.errorbar(
                point.delta_v[1],
                point.rate,
                yerr=[[max(0.0, point.rate - low)], [max(0.0, high - point.rate)]],
                fmt=marker, markersize=2.6, color=colour, elinewidth=0.7,
            )  # fmt: skip
    axes.legend(loc="lower left")
