"""Distribution of visual change in a test set, and its coverage, as bars."""

from collections.abc import Iterator, Sequence

from eyechart.reports.html.charts.chart import (
    HATCH,
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
from eyechart.reports.series.palette import SUITE_COLORS
from eyechart.reports.series.report import Report
from eyechart.reports.series.visual_change import (
    Spread,
    covered_in,
    covered_in_words,
    histogram_of,
)
from eyechart.reports.words import corruption_title, corruption_words

PANEL, ROW, AROUND = 170, 30, 120
"""Heights of a panel, of a bar, and of the margins, in px."""


def histogram_charts(report: Report, index: int) -> Iterator[Chart]:
    """Yield a chart for each corruption of a test, unless VCR's chart shows both suites."""
    for corruption in report.parts[index].corruptions:
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
            _layout(spreads),
            part=index,
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
            [_bars(spreads) for spreads in sets],
            _coverage_layout(len(sets[-1]), len(sets)),
            part=index,
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
        "meta": {
            "model": "",
            "from": spread.pointer("histogram"),
            "rows": spread.coverage.rows,
        },
    }


def _look(suite: str) -> Spec:
    color, pattern = SUITE_COLORS.get(suite, SUITE_COLORS[""])
    return {"color": color, "pattern": {**HATCH, "shape": pattern}}


def _layout(spreads: Sequence[Spread]) -> Spec:
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


def _bars(spreads: Sequence[Spread]) -> Spec:
    suite = spreads[0].suite
    return {
        "type": "bar",
        "orientation": "h",
        "name": escape(spreads[0].suite_title),
        "x": numbers(spread.coverage.paper for spread in spreads),
        "y": [escape(spread.title) for spread in spreads],
        "marker": _look(suite),
        "texttemplate": "%{x:.1%}",
        "textposition": "auto",
        "hovertemplate": "%{y}: %{x:.1%} of Δv<extra>%{fullData.name}</extra>",
        "meta": {
            "model": "",
            "each": [spread.pointer("paper") for spread in spreads],
            "of": "x",
        },
    }


def _coverage_layout(rows: int, sets: int) -> Spec:
    return {
        "height": AROUND + rows * (12 + (ROW - 12) * sets),
        "bargap": 0.25,
        "xaxis": axis("fraction of visual change covered", range=[0, 1.02], tickformat=".0%"),
        "yaxis": names_axis(),
        "showlegend": sets > 1,
    }
