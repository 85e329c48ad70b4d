"""How much corruptions of a benchmark overlap, and which were selected: a heat map of a file."""

import math
from collections.abc import Sequence

from eyechart.reports.html.charts.chart import INK, MUTED, PAPER, Chart, Spec, escape, numbers
from eyechart.reports.number_text import MISSING
from eyechart.reports.series.overlap import OverlapPanel, overlap_in_words, overlap_labels

FEW = 16
"""Corruptions up to which each cell's score fits into it."""

DEEP = "#0072B2"
GREY = f"{MUTED}/0.25"


def overlap_chart(overlap: OverlapPanel) -> Chart:
    """Return the heat map."""
    names = _labels(overlap)
    heat: Spec = {
        "type": "heatmap",
        "x": names,
        "y": names,
        "z": [
            numbers(None if math.isnan(score) else score for score in row) for row in overlap.scores
        ],
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
        "overlap", "overlap", -1, "", "", "How much corruptions overlap", overlap_in_words(overlap),
        {"data": data, "layout": _layout(overlap)},
    )  # fmt: skip


def _unknown_cells(overlap: OverlapPanel, names: Sequence[str]) -> Spec:
    """Return the cells without a score, grey, for plotly leaves cells without a number empty."""
    cells: Spec = {
        "type": "heatmap",
        "x": list(names),
        "y": list(names),
        "z": [[1 if math.isnan(score) else None for score in row] for row in overlap.scores],
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
        cells["text"] = [[MISSING if math.isnan(n) else "" for n in row] for row in overlap.scores]
    return cells


def _labels(overlap: OverlapPanel) -> list[str]:
    """Return what corruptions are called; those selected are marked."""
    return [
        f"<b>✓ {escape(text)}</b>" if name in overlap.selected else escape(text)
        for name, text in zip(overlap.names, overlap_labels(overlap.names), strict=True)
    ]


def _layout(overlap: OverlapPanel) -> Spec:
    size = len(overlap.names)
    selected = [index for index, name in enumerate(overlap.names) if name in overlap.selected]
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
