"""Heat map of the overlap of a benchmark's corruptions, with the selected ones marked."""

import math

from eyechart.reports.html.charts.chart import (
    INK,
    MUTED,
    PAPER,
    Chart,
    Spec,
    escape,
    make_chart,
    names_axis,
    numbers,
)
from eyechart.reports.number_text import MISSING
from eyechart.reports.series.overlap import OverlapPanel, overlap_in_words, overlap_labels
from eyechart.reports.series.palette import BLUE

FEW = 16
"""Maximum number of corruptions for which a cell has room for its score."""

GRAY = f"{MUTED}/0.25"


def overlap_chart(overlap: OverlapPanel) -> Chart:
    """Return the heat map."""
    heat = _cells(overlap, PAPER, BLUE, "%{z:.2f}") | {
        "z": [
            numbers(None if math.isnan(score) else score for score in row) for row in overlap.scores
        ],
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
    }
    if len(overlap.names) <= FEW:
        heat |= {"texttemplate": "%{z:.2f}", "textfont": {"size": 10}}
    data = [heat, _unknown_cells(overlap)] if overlap.has_undetermined else [heat]
    title = "How much corruptions overlap"
    return make_chart("overlap", title, overlap_in_words(overlap), data, _layout(overlap))


def _cells(overlap: OverlapPanel, low: str, high: str, text: str) -> Spec:
    """Return a heat map with a color scale between two colors, without printed values."""
    names = [
        f"<b>✓ {escape(label)}</b>" if name in overlap.selected else escape(label)
        for name, label in zip(overlap.names, overlap_labels(overlap.names), strict=True)
    ]
    return {
        "type": "heatmap",
        "x": names,
        "y": names,
        "z": [],
        "zmin": 0,
        "zmax": 1,
        "colorscale": [[0, low], [1, high]],
        "hoverongaps": False,
        "xgap": 1,
        "ygap": 1,
        "hovertemplate": f"%{{y}} and %{{x}}: {text}<extra></extra>",
        "meta": {"model": ""},
    }


def _unknown_cells(overlap: OverlapPanel) -> Spec:
    """Return the cells without a score in gray, because plotly leaves them empty."""
    is_unknown = [[math.isnan(score) for score in row] for row in overlap.scores]
    cells = _cells(overlap, GRAY, GRAY, "undetermined") | {
        "z": [[1 if unknown else None for unknown in row] for row in is_unknown],
        "showscale": False,
    }
    if len(overlap.names) <= FEW:
        # Plotly would derive the text color from the cell's color, ignoring its transparency.
        cells |= {"texttemplate": "%{text}", "textfont": {"size": 10, "color": INK}}
        # A text for all cells would be drawn over the numbers of the other heat map.
        cells["text"] = [[MISSING if unknown else "" for unknown in row] for row in is_unknown]
    return cells


def _layout(overlap: OverlapPanel) -> Spec:
    size = len(overlap.names)
    selected = [index for index, name in enumerate(overlap.names) if name in overlap.selected]
    return {
        "height": 160 + max(22, min(40, 640 // size)) * size,
        "xaxis": {"type": "category", "tickangle": -60, "showgrid": False, "ticks": ""},
        "yaxis": names_axis(),
        "shapes": [
            {
                "type": "rect", "x0": at - 0.5, "x1": at + 0.5, "y0": at - 0.5, "y1": at + 0.5,
                "line": {"color": INK, "width": 2},
            }
            for at in selected
        ],
    }  # fmt: skip
