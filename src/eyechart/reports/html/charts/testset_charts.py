"""Charts of test sets: how they are distributed over visual change, and overlap of corruptions."""

import math
from collections.abc import Iterator, Sequence

from eyechart.reports.html.charts.chart import (
    HATCH,
    INK,
    MUTED,
    PAPER,
    Chart,
    Spec,
    axis,
    escape,
    make_chart,
    names_axis,
    note,
    numbers,
    rounded,
)
from eyechart.reports.number_text import MISSING
from eyechart.reports.series.overlap import OverlapPanel, overlap_in_words, overlap_labels
from eyechart.reports.series.palette import BLUE, SUITE_COLORS
from eyechart.reports.series.report import Report
from eyechart.reports.series.visual_change import Spread, covered_in, covered_in_words, histogram_of
from eyechart.reports.titles import corruption_title, corruption_words

PANEL, ROW, AROUND = 170, 30, 120
"""Heights of a panel, of a bar, and of the margins, in px."""


def histogram_charts(report: Report, index: int) -> Iterator[Chart]:
    """Yield a chart for each corruption of a test, unless VCR's chart shows both suites."""
    for corruption in report.sections[index].corruptions:
        spreads = histogram_of(report, index, corruption)
        if not spreads:
            continue
        words = "; ".join(spread.in_words() for spread in spreads)
        yield make_chart(
            "histogram",
            f"{corruption_title(corruption)}: visual change in the test set",
            f"Percentage of images in {len(spreads[0].coverage.histogram)} bins of visual change Δv"
            f" under {corruption_words(corruption)}: {words}.",
            [_histogram(panel, spread) for panel, spread in enumerate(spreads)],
            _histogram_layout(spreads),
            section=index,
            corruption=corruption,
        )


def coverage_charts(report: Report, index: int) -> Iterator[Chart]:
    """Yield a chart of a test's coverage, with VCR next to ImageNet-C if the report has both."""
    sets = covered_in(report, index)
    if sets:
        suites = [spreads[0].suite_title for spreads in sets]
        yield make_chart(
            "coverage",
            f"How much of the visual change range is covered: {' and '.join(suites)}",
            f"{'; '.join(covered_in_words(spreads) for spreads in sets)}.",
            [_coverage_bars(spreads) for spreads in sets],
            {
                "height": AROUND + len(sets[-1]) * (12 + (ROW - 12) * len(sets)),
                "bargap": 0.25,
                "xaxis": axis(
                    "fraction of visual change covered", range=[0, 1.02], tickformat=".0%"
                ),
                "yaxis": names_axis(),
                "showlegend": len(sets) > 1,
            },
            section=index,
        )


def _histogram(panel: int, spread: Spread) -> Spec:
    step = 1 / len(spread.coverage.histogram)
    return {
        "type": "bar",
        "name": escape(spread.suite_title),
        "x0": rounded(step / 2),
        "dx": rounded(step),
        "y": numbers(spread.percentages),
        "width": rounded(step),
        "yaxis": "y" if panel == 0 else "y2",
        "showlegend": False,
        "marker": _look(spread.suite),
        "hovertemplate": "Δv %{x:.2f}: %{y:.1f} % of images<extra></extra>",
        "meta": {"model": ""},
    }


def _look(suite: str) -> Spec:
    color, pattern = SUITE_COLORS.get(suite, SUITE_COLORS[""])
    return {"color": color, "pattern": {**HATCH, "shape": pattern}}


def _histogram_layout(spreads: Sequence[Spread]) -> Spec:
    high = max(max(spread.percentages) for spread in spreads)
    count = len(spreads)
    layout: Spec = {
        "height": PANEL * count + 90,
        "bargap": 0,
        "xaxis": axis("visual change Δv", range=[0, 1], anchor="y" if count == 1 else "y2"),
        "annotations": [],
    }
    for panel, spread in enumerate(spreads):
        axis_name = "yaxis" if panel == 0 else "yaxis2"
        domain = [0, 1] if count == 1 else [[0.56, 1], [0, 0.44]][panel]
        layout[axis_name] = axis(
            "% of images", range=[0, rounded(high * 1.12)], domain=domain, nticks=4
        )
        text = f"<b>{escape(spread.suite_title)}</b>, {spread.coverage.rows:,} images"
        where = {"xref": "x domain", "yref": f"{'y' if panel == 0 else 'y2'} domain"}
        layout["annotations"].append(
            note(text, 0, 1, xanchor="left", yanchor="bottom", **where)
        )  # fmt: skip
    return layout


def _coverage_bars(spreads: Sequence[Spread]) -> Spec:
    return {
        "type": "bar",
        "orientation": "h",
        "name": escape(spreads[0].suite_title),
        "x": numbers(spread.coverage.paper for spread in spreads),
        "y": [escape(corruption_title(spread.corruption)) for spread in spreads],
        "marker": _look(spreads[0].suite),
        "texttemplate": "%{x:.1%}",
        "textposition": "auto",
        "hovertemplate": "%{y}: %{x:.1%} of Δv<extra>%{fullData.name}</extra>",
        "meta": {"model": ""},
    }


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
    return make_chart("overlap", title, overlap_in_words(overlap), data, _overlap_layout(overlap))


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


def _overlap_layout(overlap: OverlapPanel) -> Spec:
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
