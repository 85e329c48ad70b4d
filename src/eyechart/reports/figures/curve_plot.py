"""Curves over visual change as a picture: a panel per corruption, models in colour, people grey."""

import os
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from eyechart.core.arguments import as_folder
from eyechart.core.files import file_in
from eyechart.reports.names import short_names
from eyechart.reports.series.report import COLOURS, PEOPLE_COLOUR
from eyechart.results.schema import (
    CorruptionResults,
    HumanComparison,
    PropertyResults,
    Results,
    SpaceResults,
    check_results,
)
from eyechart.scores.registry import PROPERTIES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FILE = "curves.png"
STYLES = {"a": "-", "p": "--"}
COLUMNS = 4
FEW = 3
"""Models up to which bands and bins can be told apart; files have them of any number."""

INCHES = 0.085
"""Of a letter in the legend."""

LETTERS = 12
"""Of a title, per inch."""


def draw_curves(results: Results, out: str | os.PathLike[str]) -> list[Path]:
    """Write a PNG for each label space into a folder, and return their paths.

    A folder that is missing is made.
    Accuracy is solid, consistency dashed, with bands of 95 % if there are few models, pale where
    nothing was observed.
    """
    check_results(results)
    folder = as_folder(out, "out")
    names = dict.fromkeys(name for model in results.models for name in model.spaces)
    paths: list[Path] = []
    for name in names:
        if not _has_curve(results, name):
            continue
        paths.append(folder / (FILE if not paths else f"curves-{name}.png"))
        _draw_space(results, name, paths[-1])
    return paths


def _has_curve(results: Results, name: str) -> bool:
    return any(
        own.curve is not None
        for model in results.models
        if name in model.spaces
        for score in model.spaces[name].corruptions.values()
        for own in score.properties.values()
    )


def _draw_space(results: Results, name: str, path: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    models = [model for model in results.models if name in model.spaces]
    spaces = [model.spaces[name] for model in models]
    names = short_names([model.name for model in models])
    corruptions = list(spaces[0].corruptions)
    count = len(corruptions)
    columns = min(COLUMNS, count)
    rows = -(-count // columns)
    width = max(4.6, 3.1 * columns + 0.4)
    figure = Figure(figsize=(width, 2.6 * rows + 1.1), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    for place, axis in enumerate(axes.flat):
        if place >= count:
            axis.set_axis_off()
            continue
        corruption = corruptions[place]
        axis.set_title(corruption, fontsize=10)
        scores = [space[corruption] for space in spaces]
        _panel(axis, scores, names, _people(results, corruption))
        if place + columns >= count:
            axis.set_xlabel("visual change Δv")
            axis.tick_params(labelbottom=True)
        if place % columns == 0:
            axis.set_ylabel("share of answers")
    title = textwrap.fill(_title(results, name, spaces[0]), int(width * LETTERS))
    figure.suptitle(title, fontsize=11, x=0.01, ha="left")
    handles: dict[str, Any] = {}
    for axis in axes.flat:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    figure.legend(
        list(handles.values()),
        list(handles),
        loc="outside lower left",
        ncols=max(1, int(width / (INCHES * max(map(len, handles), default=1) + 0.7))),
        frameon=False,
    )
    with file_in(path.parent, path.name) as temporary:
        figure.savefig(temporary, dpi=110, format="png")


def _title(results: Results, name: str, space: SpaceResults) -> str:
    where = "16 categories" if name == "entry16" else "own classes"
    fit = results.config["fit"]
    bins = fit["bins"] - (fit["binning"] == "paper")
    return (
        f"{results.config['suite']}: {space.pictures} pictures, {where},"
        f" {bins} bins of at least {fit['least']:g} answers"
        + (f": {space.verdict}" if space.verdict else "")
    )


def _people(results: Results, corruption: str) -> HumanComparison | None:
    """Return people's curve for a corruption, from whichever label space has one."""
    for model in results.models:
        for space in model.spaces.values():
            for own in space[corruption].properties.values():
                # curves that are corrected for chance are on another scale than the models'
                if own.people is not None and not own.people.corrected_for_chance:
                    return own.people
    return None


def _panel(
    axis: "Axes",
    scores: Sequence[CorruptionResults],
    names: Sequence[str],
    people: HumanComparison | None,
) -> None:
    axis.set(xlim=(0, 1), ylim=(0, 1.02))
    axis.grid(alpha=0.25, linewidth=0.6)
    axis.spines[["top", "right"]].set_visible(False)
    for number, (name, score) in enumerate(zip(names, scores, strict=True)):
        colour = COLOURS[number % len(COLOURS)]
        for letter, own in score.properties.items():
            label = f"{name}, {PROPERTIES[letter]}"
            _draw(axis, own, colour, STYLES[letter], label, letter == "a", len(names) <= FEW)
    if people is not None:
        line = people.line
        delta_v, values, low, high = (
            np.array(each, dtype=float)
            for each in (line.delta_v, line.values, line.low95, line.high95)
        )
        axis.fill_between(delta_v, low, high, color=PEOPLE_COLOUR, alpha=0.12, linewidth=0)
        axis.plot(
            delta_v, values, color=PEOPLE_COLOUR, linewidth=1.4, linestyle=":",
            label="people, accuracy among 16 categories",
        )  # fmt: skip
    if not axis.lines:
        reasons = [own.note for own in scores[0].properties.values() if own.note]
        why = textwrap.fill(("no curve", *reasons)[-1], 36)
        axis.text(0.5, 0.5, why, ha="center", va="center", color="#777777", fontsize=8)


def _draw(
    axis: "Axes",
    score: PropertyResults,
    colour: str,
    style: str,
    label: str,
    with_points: bool,
    with_band: bool,
) -> None:
    curve = score.curve
    if curve is None:
        return
    delta_v, values, low, high = (
        np.array(each, dtype=float)
        for each in (curve.delta_v, curve.values, curve.low95, curve.high95)
    )
    seen = _is_observed(delta_v, score)
    if with_band:
        axis.fill_between(delta_v, low, high, color=colour, alpha=0.13, linewidth=0)
    axis.plot(delta_v, values, color=colour, linewidth=1, linestyle=style, alpha=0.35)
    axis.plot(
        delta_v, np.where(seen, values, np.nan), color=colour, linewidth=1.7, linestyle=style,
        label=label,
    )  # fmt: skip
    if with_points and with_band:
        edges, rates = (np.array(each, dtype=float) for each in (curve.bin_edges, curve.bin_rates))
        middles = (edges[:-1] + edges[1:]) / 2
        usable = _is_observed(middles, score)
        axis.plot(middles[usable], rates[usable], ".", color=colour, markersize=3, alpha=0.6)


def _is_observed(delta_v: NDArray[np.float64], score: PropertyResults) -> NDArray[np.bool_]:
    """Return which of these visual changes lie in an observed range."""
    within = np.zeros(len(delta_v), dtype=np.bool_)
    for start, end in score.observed:
        within |= (start <= delta_v) & (delta_v <= end)
    return within
