"""How much corruptions of a benchmark overlap, and which were selected: a heat map of a file."""

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from eyechart.core.errors import UsageError
from eyechart.reports.charts.chart import INK, PAPER, Chart, Spec, escape, numbers
from eyechart.reports.words import corruption_words, listed

FEW = 16
"""Corruptions up to which each cell's score fits into it."""

SELECTED = "selected"
DEEP = "#0072B2"


@dataclass(frozen=True)
class Overlap:
    """Overlapping scores, 0…1, of every two corruptions; `scores[i][j]`: of the names i and j.

    `selected`: the names that a benchmark without overlaps keeps. `threshold`: above which two
    corruptions are not kept together, None if nobody said. `note`: what a reader must know.
    """

    names: tuple[str, ...]
    scores: tuple[tuple[float, ...], ...]
    selected: tuple[str, ...] = ()
    threshold: float | None = None
    note: str = ""


def read_overlap(path: Path) -> Overlap:
    """Return the scores in a CSV file: names in its first row and column, numbers 0…1 between.

    A last column `selected` may say yes or no for each corruption.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = [row for row in csv.reader(file) if any(cell.strip() for cell in row)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not a CSV file in UTF-8"
        raise UsageError(f"{path} cannot be read as overlapping scores: {why}.") from None
    if len(rows) < 3:
        raise UsageError(
            f"{path} must have a first row and a first column of corruption names and at least two"
            f" corruptions, got {len(rows)} rows."
        )
    heads = [cell.strip() for cell in rows[0][1:]]
    marked = bool(heads) and heads[-1].lower() == SELECTED
    names = heads[:-1] if marked else heads
    _check_names(path, names, [row[0].strip() for row in rows[1:]])
    scores, chosen = [], []
    for name, row in zip(names, rows[1:], strict=True):
        if len(row) != len(heads) + 1:
            raise UsageError(
                f"{path} must have {len(heads) + 1} cells in every row, got {len(row)} in that of"
                f" {name}."
            )
        scores.append(tuple(_score(path, name, cell) for cell in row[1 : len(names) + 1]))
        if marked and _is_yes(path, name, row[-1]):
            chosen.append(name)
    return Overlap(tuple(names), tuple(scores), tuple(chosen))


def _check_names(path: Path, across: Sequence[str], down: Sequence[str]) -> None:
    if not all(across) or not all(down):
        raise UsageError(f"{path} must name every corruption in its first row and first column.")
    double = [name for place, name in enumerate(across) if name in across[:place]]
    if double:
        raise UsageError(f"{path} must name every corruption once, got {double[0]} twice.")
    if list(across) != list(down):
        raise UsageError(
            f"{path} must be square, with the same names in the same order across and down; got"
            f" {len(across)} across and {len(down)} down"
            + (f", such as {_differs(across, down)}." if len(across) == len(down) else ".")
        )


def _differs(across: Sequence[str], down: Sequence[str]) -> str:
    one, two = next(pair for pair in zip(across, down, strict=True) if pair[0] != pair[1])
    return f"{one} where there is {two}"


def _score(path: Path, name: str, cell: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 1:
        raise UsageError(
            f"{path} must hold overlapping scores between 0 and 1, got '{cell.strip()}' in the row"
            f" of {name}."
        )
    return value


def _is_yes(path: Path, name: str, cell: str) -> bool:
    word = cell.strip().lower()
    if word not in ("yes", "no"):
        raise UsageError(
            f"{path} must say yes or no in its column {SELECTED}, got '{cell.strip()}' for {name}."
        )
    return word == "yes"


def overlap_chart(overlap: Overlap) -> Chart:
    """Return the heat map."""
    names = _labels(overlap)
    heat: Spec = {
        "type": "heatmap",
        "x": names,
        "y": names,
        "z": [numbers(row) for row in overlap.scores],
        "zmin": 0,
        "zmax": 1,
        "colorscale": [[0, PAPER], [1, DEEP]],
        "xgap": 1,
        "ygap": 1,
        "colorbar": {
            "title": {"text": "overlap", "side": "top"},
            "orientation": "h",
            "thickness": 10,
            "len": 0.6,
            "x": 0,
            "xanchor": "left",
            "y": 1,
            "yanchor": "bottom",
        },
        "hovertemplate": "%{y} and %{x}: %{z:.2f}<extra></extra>",
        "meta": {"model": ""},
    }
    if len(names) <= FEW:
        heat |= {"texttemplate": "%{z:.2f}", "textfont": {"size": 10}}
    return Chart(
        "overlap", "overlap", -1, "", "", "How much corruptions overlap", _alt(overlap),
        {"data": [heat], "layout": _layout(overlap)},
    )  # fmt: skip


def _labels(overlap: Overlap) -> list[str]:
    """Return what corruptions are called, each another; those selected are marked."""
    texts = [corruption_words(name) for name in overlap.names]
    if len(set(texts)) < len(texts):
        texts = list(overlap.names)
    return [
        f"<b>✓ {escape(text)}</b>" if name in overlap.selected else escape(text)
        for name, text in zip(overlap.names, texts, strict=True)
    ]


def _layout(overlap: Overlap) -> Spec:
    size = len(overlap.names)
    selected = [place for place, name in enumerate(overlap.names) if name in overlap.selected]
    return {
        "height": 160 + max(22, min(40, 640 // size)) * size,
        "xaxis": {"type": "category", "tickangle": -60, "showgrid": False, "ticks": ""},
        "yaxis": {"type": "category", "autorange": "reversed", "showgrid": False, "ticks": ""},
        "shapes": [
            {
                "type": "rect", "x0": at - 0.5, "x1": at + 0.5, "y0": at - 0.5, "y1": at + 0.5,
                "line": {"color": INK, "width": 2},
            }
            for at in selected
        ],
    }  # fmt: skip


def _alt(overlap: Overlap) -> str:
    score, one, two = _highest(overlap, overlap.names)
    said = f"{corruption_words(one)} and {corruption_words(two)} overlap most, {score:.2f}"
    if overlap.selected:
        titles = listed([corruption_words(name) for name in overlap.selected])
        said += f"; selected are {titles}"
    if len(overlap.selected) > 1:
        said += f", which overlap by {_highest(overlap, overlap.selected)[0]:.2f} at most"
    if overlap.threshold is not None:
        said += f" (threshold {overlap.threshold:g})"
    return f"Overlapping scores of {len(overlap.names)} corruptions: {said}." + (
        f" {overlap.note}" if overlap.note else ""
    )


def _highest(overlap: Overlap, names: Sequence[str]) -> tuple[float, str, str]:
    """Return the highest score of two of these corruptions, and which two."""
    at = {name: place for place, name in enumerate(overlap.names)}
    return max(
        (max(overlap.scores[at[one]][at[two]], overlap.scores[at[two]][at[one]]), one, two)
        for one, two in combinations(names, 2)
    )
