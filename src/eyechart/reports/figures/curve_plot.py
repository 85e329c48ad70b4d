"""Curves over visual change as a picture: a panel per corruption, models in colour, people grey."""

import os
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from eyechart.core.arguments import as_folder
from eyechart.core.files import file_in
from eyechart.reports.names import short_names
from eyechart.reports.series.report import COLOURS, PEOPLE_COLOUR
from eyechart.scores.evaluation import (
    CorruptionScore,
    Evaluation,
    PeopleScore,
    PropertyScore,
    SpaceScore,
    check_evaluation,
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
GRID = np.linspace(0, 1, 201)


def draw_curves(evaluation: Evaluation, out: str | os.PathLike[str]) -> list[Path]:
    """Write a PNG for each label space into a folder, and return their paths.

    A folder that is missing is made.
    Accuracy is solid, consistency dashed, with bands of 95 % if there are few models, pale where
    nothing was observed.
    """
    check_evaluation(evaluation)
    folder = as_folder(out, "out")
    names = dict.fromkeys(space.space for model in evaluation.models for space in model.spaces)
    paths: list[Path] = []
    for name in names:
        if not _has_curve(evaluation, name):
            continue
        paths.append(folder / (FILE if not paths else f"curves-{name}.png"))
        _draw_space(evaluation, name, paths[-1])
    return paths


def _has_curve(evaluation: Evaluation, name: str) -> bool:
    return any(
        own.curve is not None
        for model in evaluation.models
        if (space := model.space(name)) is not None
        for score in space.corruptions
        for own in score.properties.values()
    )


def _draw_space(evaluation: Evaluation, name: str, path: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    own = [space for model in evaluation.models if (space := model.space(name)) is not None]
    names = short_names(
        [model.name for model in evaluation.models if model.space(name) is not None]
    )
    first = own[0]
    people = [_people(evaluation, place) for place in range(len(first.corruptions))]
    count = len(first.corruptions)
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
        scores = [space.corruptions[place] for space in own]
        _panel(axis, scores, names, people[place])
        if place + columns >= count:
            axis.set_xlabel("visual change Δv")
            axis.tick_params(labelbottom=True)
        if place % columns == 0:
            axis.set_ylabel("share of answers")
    title = textwrap.fill(_title(evaluation, first), int(width * LETTERS))
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


def _title(evaluation: Evaluation, space: SpaceScore) -> str:
    where = "16 categories" if space.space == "entry16" else "own classes"
    fit = evaluation.config["fit"]
    bins = fit["bins"] - (fit["binning"] == "paper")
    return (
        f"{evaluation.config['suite']}: {space.pictures} pictures, {where},"
        f" {bins} bins of at least {fit['least']:g} answers"
        + (f": {space.verdict}" if space.verdict else "")
    )


def _people(evaluation: Evaluation, place: int) -> PeopleScore | None:
    """Return people's curve for a corruption, from whichever label space has one."""
    for model in evaluation.models:
        for space in model.spaces:
            for own in space.corruptions[place].properties.values():
                # curves that are corrected for chance are on another scale than the models'
                if own.people is not None and not own.people.corrected:
                    return own.people
    return None


def _panel(
    axis: "Axes",
    scores: Sequence[CorruptionScore],
    names: Sequence[str],
    people: PeopleScore | None,
) -> None:
    axis.set_title(scores[0].corruption, fontsize=10)
    axis.set(xlim=(0, 1), ylim=(0, 1.02))
    axis.grid(alpha=0.25, linewidth=0.6)
    axis.spines[["top", "right"]].set_visible(False)
    for number, (name, score) in enumerate(zip(names, scores, strict=True)):
        colour = COLOURS[number % len(COLOURS)]
        for letter, own in score.properties.items():
            label = f"{name}, {PROPERTIES[letter]}"
            _draw(axis, own, colour, STYLES[letter], label, letter == "a", len(names) <= FEW)
    if people is not None:
        low, high = people.curve.band(GRID, 0.95)
        axis.fill_between(GRID, low, high, color=PEOPLE_COLOUR, alpha=0.12, linewidth=0)
        axis.plot(
            GRID, people.curve(GRID), color=PEOPLE_COLOUR, linewidth=1.4, linestyle=":",
            label="people, accuracy among 16 categories",
        )  # fmt: skip
    if not axis.lines:
        reasons = [own.why for own in scores[0].properties.values() if own.why]
        why = textwrap.fill(("no curve", *reasons)[-1], 36)
        axis.text(0.5, 0.5, why, ha="center", va="center", color="#777777", fontsize=8)


def _draw(
    axis: "Axes",
    score: PropertyScore,
    colour: str,
    style: str,
    label: str,
    with_points: bool,
    with_band: bool,
) -> None:
    curve = score.curve
    if curve is None:
        return
    values = curve(GRID)
    low, high = curve.band(GRID, 0.95)
    seen = curve.is_observed(GRID)
    if with_band:
        axis.fill_between(GRID, low, high, color=colour, alpha=0.13, linewidth=0)
    axis.plot(GRID, values, color=colour, linewidth=1, linestyle=style, alpha=0.35)
    axis.plot(
        GRID, np.where(seen, values, np.nan), color=colour, linewidth=1.7, linestyle=style,
        label=label,
    )  # fmt: skip
    if with_points and with_band:
        usable = curve.usable
        middles = curve.bins.centres
        axis.plot(
            middles[usable], curve.bins.rates[usable], ".", color=colour, markersize=3, alpha=0.6
        )
