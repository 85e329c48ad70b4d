"""How much corruptions of a benchmark overlap, and which were selected: a heat map of a file."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

import numpy as np

from eyechart.overlap.clustering import cluster_order
from eyechart.overlap.matrix_file import read_matrix
from eyechart.overlap.scores import OverlapMatrix
from eyechart.reports.html.charts.chart import INK, MUTED, PAPER, Chart, Spec, escape, numbers
from eyechart.reports.terminal.overlap_tables import UNKNOWN
from eyechart.reports.words import corruption_title, corruption_words, listed

FEW = 16
"""Corruptions up to which each cell's score fits into it."""

DEEP = "#0072B2"
GREY = f"{MUTED}/0.25"


@dataclass(frozen=True)
class Overlap:
    """Overlapping scores of every two corruptions; `scores[i][j]`: of the names i and j.

    They are 0 or more, above 1 now and then, and NaN where they are undetermined.
    `selected`: the names that a benchmark without overlaps keeps. `threshold`: above which two
    corruptions are not kept together, None if nobody said. `note`: what a reader must know.
    """

    names: tuple[str, ...]
    scores: tuple[tuple[float, ...], ...]
    selected: tuple[str, ...] = ()
    threshold: float | None = None
    note: str = ""

    @property
    def has_undetermined(self) -> bool:
        """Whether there are cells without a score."""
        return any(math.isnan(score) for row in self.scores for score in row)


def read_overlap(path: Path) -> Overlap:
    """Return the scores in a CSV file: names in its first row and column, numbers between.

    An empty cell is an undetermined score. A last column `selected` may say yes or no for each
    corruption.
    """
    stored = read_matrix(path)
    return as_overlap(stored.matrix, stored.selected)


def as_overlap(
    matrix: OverlapMatrix, selected: Sequence[str] = (), threshold: float | None = None
) -> Overlap:
    """Return a matrix as it is shown."""
    scores = tuple(tuple(map(float, row)) for row in matrix.scores)
    return Overlap(matrix.names, scores, tuple(selected), threshold)


def clustered(overlap: Overlap) -> Overlap:
    """Return the same scores in an order in which corruptions that overlap are neighbours."""
    order = cluster_order(np.array(overlap.scores))
    return in_order(overlap, [overlap.names[place] for place in order])


def in_order(overlap: Overlap, names: Sequence[str]) -> Overlap:
    """Return the scores of these corruptions alone, in this order; all must have scores."""
    at = {name: place for place, name in enumerate(overlap.names)}
    order = [at[name] for name in names]
    return replace(
        overlap,
        names=tuple(names),
        scores=tuple(tuple(overlap.scores[one][two] for two in order) for one in order),
        selected=tuple(name for name in overlap.selected if name in names),
    )


def overlap_chart(overlap: Overlap) -> Chart:
    """Return the heat map."""
    names = _labels(overlap)
    heat: Spec = {
        "type": "heatmap",
        "x": names,
        "y": names,
        "z": [numbers(None if math.isnan(own) else own for own in row) for row in overlap.scores],
        "zmin": 0,
        "zmax": 1,
        "colorscale": [[0, PAPER], [1, DEEP]],
        "hoverongaps": False,
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
    data = [heat, _unknown_cells(overlap, names)] if overlap.has_undetermined else [heat]
    return Chart(
        "overlap", "overlap", -1, "", "", "How much corruptions overlap", _alt(overlap),
        {"data": data, "layout": _layout(overlap)},
    )  # fmt: skip


def _unknown_cells(overlap: Overlap, names: Sequence[str]) -> Spec:
    """Return the cells without a score, grey, for plotly leaves cells without a number empty."""
    cells: Spec = {
        "type": "heatmap",
        "x": list(names),
        "y": list(names),
        "z": [[1 if math.isnan(own) else None for own in row] for row in overlap.scores],
        "zmin": 0,
        "zmax": 1,
        "colorscale": [[0, GREY], [1, GREY]],
        "showscale": False,
        "hoverongaps": False,
        "xgap": 1,
        "ygap": 1,
        "hovertemplate": "%{y} and %{x}: undetermined<extra></extra>",
        "meta": {"model": ""},
    }
    if len(names) <= FEW:
        # plotly would choose a colour by that of the cell, and not see the page through it
        cells |= {"texttemplate": "%{text}", "textfont": {"size": 10, "color": INK}}
        # a text for all would be drawn over the numbers of the others
        cells["text"] = [[UNKNOWN if math.isnan(n) else "" for n in row] for row in overlap.scores]
    return cells


def overlap_titles(names: Sequence[str]) -> list[str]:
    """Return what corruptions are called; two of one name with the suite that they are from."""
    titles = [corruption_title(name) for name in names]
    return [
        f"{title} ({name.rpartition('/')[0].upper()})"
        if titles.count(title) > 1 and "/" in name
        else title
        for name, title in zip(names, titles, strict=True)
    ]


def _labels(overlap: Overlap) -> list[str]:
    """Return what corruptions are called, each another; those selected are marked."""
    texts = [corruption_words(name) for name in overlap.names]
    if len(set(texts)) < len(texts):
        texts = overlap_titles(overlap.names)
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
    highest = _highest(overlap, overlap.names)
    if highest is None:
        said = "none of them is determined"
    else:
        score, one, two = highest
        said = f"{corruption_words(one)} and {corruption_words(two)} overlap most, {score:.2f}"
    if overlap.selected:
        titles = listed([corruption_words(name) for name in overlap.selected])
        said += f"; selected are {titles}"
    among = _highest(overlap, overlap.selected)
    if among is not None:
        said += f", which overlap by {among[0]:.2f} at most"
    if overlap.threshold is not None:
        said += f" (threshold {overlap.threshold:g})"
    if overlap.has_undetermined and highest is not None:
        said += "; grey cells are undetermined"
    return f"Overlapping scores of {len(overlap.names)} corruptions: {said}." + (
        f" {overlap.note}" if overlap.note else ""
    )


def _highest(overlap: Overlap, names: Sequence[str]) -> tuple[float, str, str] | None:
    """Return the highest score of two of these corruptions, and which two; None if none has one."""
    at = {name: place for place, name in enumerate(overlap.names)}
    known = []
    for one, two in combinations(names, 2):
        both = (overlap.scores[at[one]][at[two]], overlap.scores[at[two]][at[one]])
        known += [(score, one, two) for score in both if not math.isnan(score)]
    return max(known, default=None)
