"""People's curves over visual change as a picture: bands, conditions, and what they stand for."""

from pathlib import Path
from typing import Any

import numpy as np

from eyechart.core.errors import UsageError
from eyechart.humans.reference import Reference, title
from eyechart.humans.transfer import members_of
from eyechart.images.files import UNREADABLE

COLOURS = {"accuracy": "#1f4e79", "consistency": "#a0522d"}
GREY = "#777777"
GRID = np.linspace(0, 1, 401)
PER_ROW = 3
WIDTH, HEIGHT = 4.2, 4.1
SOFTWARE = "eyechart humans plot"
"""Written into the file, so that a picture of somebody else is never taken for ours."""


def draw_reference(reference: Reference, path: Path, level: float = 0.95) -> None:
    """Write a PNG: for every experiment its curves with their bands, and the rates behind them."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    experiments = reference.answers.experiments
    if not experiments:
        raise UsageError(f"{reference.name} holds answers to clean pictures only.")
    columns = min(PER_ROW, len(experiments))
    rows = -(-len(experiments) // columns)
    figure = Figure(figsize=(WIDTH * columns, HEIGHT * rows + 0.6), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    for place, experiment in enumerate(experiments):
        _draw(grid.flat[place], reference, experiment, level)
    for spare in grid.flat[len(experiments) :]:
        spare.set_axis_off()
    for axes in grid[-1]:
        axes.set_xlabel("visual change Δv")
    for axes in grid[:, 0]:
        axes.set_ylabel("share of answers")
    chance = ", corrected for chance" if reference.corrected else ""
    figure.suptitle(
        f"People: {reference.name}, {reference.choices} choices{chance}."
        f"\nCurves with {100 * level:g} % bands; dots: conditions or bins",
        fontsize=9,
        x=0.01,
        ha="left",
    )
    figure.savefig(path, format="png", metadata={"Software": SOFTWARE})


def is_drawn(path: Path) -> bool:
    """Whether a file is a picture that `draw_reference` wrote."""
    from PIL import Image

    try:
        with Image.open(path) as picture:
            return picture.info.get("Software") == SOFTWARE
    except UNREADABLE:
        return False


def _draw(axes: Any, reference: Reference, experiment: str, level: float) -> None:
    shown = [
        which
        for which in ("accuracy", "consistency")
        if _draw_curve(axes, reference, experiment, which, level)
    ]
    if not reference.corrected:
        axes.axhline(1 / reference.choices, color=GREY, linewidth=0.8, linestyle=":")
        axes.annotate("chance", (0.01, 1 / reference.choices + 0.01), color=GREY, fontsize=7)
    own = reference.size_in_words(experiment)
    axes.set_title(title(experiment), fontsize=10, loc="left", fontweight="bold")
    axes.annotate(
        f"{own}\nfor {_wrapped(members_of(experiment))}",
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


def _draw_curve(axes: Any, reference: Reference, experiment: str, which: str, level: float) -> bool:
    curve = reference.curve(experiment, which)
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
