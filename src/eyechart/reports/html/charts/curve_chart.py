"""Curves over visual change: models and humans, with bands and the rates of their bins.

A trace is a curve; the data that charts.js draws around it on hover is in `meta`: `bands` (95 % and
83 %, at every second point, in thousandths), `rates` of the bins, `observed` ranges.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise, product

from eyechart.reports.html.charts.chart import (
    HUMANS,
    INK,
    MUTED,
    Chart,
    Spec,
    axis,
    escape,
    grid,
    make_chart,
    note,
    numbers,
)
from eyechart.reports.series.curves import (
    PROPERTY_TITLES,
    CurvePanel,
    CurveSeries,
    HumanSeries,
    curve_panel,
)
from eyechart.reports.series.report import Part
from eyechart.reports.words import space_title
from eyechart.results.curve_results import Numbers, SampledCurve
from eyechart.scores.registry import PROPERTIES

SCALE = 1000
"""Bands and rates are stored as integers in units of 1/SCALE: finer than a chart's pixels."""

HEIGHT = 440
WIDE = 0.06
"""Minimum width of an unobserved range that fits a vertical label."""


def curve_charts(part: Part, index: int, dashes: Mapping[str, str]) -> Iterator[Chart]:
    """Yield a chart for each label space, corruption and property that has a curve."""
    min_per_bin = part.runs[0].config.fit.min_per_bin
    for space, corruption, letter in product(part.spaces, part.corruptions, PROPERTIES):
        panel = curve_panel(part.models, space, corruption, letter)
        if panel.curves:
            title = f"{panel.title}: {PROPERTIES[letter]} among {space_title(space)}"
            yield make_chart(
                "curves", title, panel.in_words(), _traces(panel, dashes),
                _layout(panel, min_per_bin), part=index, space=space, corruption=corruption,
                letter=letter,
            )  # fmt: skip


def bands(ends: Mapping[str, tuple[Numbers, Numbers]]) -> Spec:
    """Return a curve's bands: low and high by level."""
    # Every second point, if that includes both ends.
    thin = 2 if len(next(iter(ends.values()))[0]) % 2 else 1
    return {
        "scale": SCALE,
        "thin": thin,
        **{level: [whole(end[::thin]) for end in both] for level, both in ends.items()},
    }


def both_bands(line: SampledCurve) -> Spec:
    """Return the 95 % and 83 % bands of a curve in the results."""
    return bands({"95": (line.low95, line.high95), "83": (line.low83, line.high83)})


def whole(values: Sequence[float | None]) -> list[int | None]:
    """Return rates as integers in units of 1/SCALE."""
    return [None if value is None else round(value * SCALE) for value in values]


def line_trace(name: str, delta_v: Numbers, values: Numbers, look: Spec, meta: Spec) -> Spec:
    """Return a curve as a trace."""
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        **grid(delta_v),
        "y": numbers(values),
        "line": look,
        "meta": meta,
    }


def _traces(panel: CurvePanel, dashes: Mapping[str, str]) -> list[Spec]:
    return [
        *(_model_trace(curve, dashes[curve.model.name]) for curve in panel.curves),
        *([_human_trace(panel.humans)] if panel.humans is not None else []),
        _counts_trace(panel.curves[0]),
    ]


def _model_trace(series: CurveSeries, dash: str) -> Spec:
    meta = {
        "model": series.model.name,
        "at": series.model.pointer(*series.at, "curve", "values"),
        "observed": [numbers(ends) for ends in series.score.observed],
        "bands": both_bands(series.line),
        "rates": whole(series.curve.bin_rates),
    }
    look = {"color": series.model.color, "dash": dash}
    return line_trace(
        escape(series.model.short), series.line.delta_v, series.line.values, look, meta
    )


def _human_trace(humans: HumanSeries) -> Spec:
    meta = {
        "model": HUMANS,
        "at": humans.model.pointer(*humans.at, "values"),
        "bands": both_bands(humans.line),
    }
    look = {"color": INK, "width": 3}
    return line_trace("Humans", humans.line.delta_v, humans.line.values, look, meta)


def _counts_trace(series: CurveSeries) -> Spec:
    edges = [edge for edge in series.curve.bin_edges if edge is not None]
    return {
        "type": "bar",
        "name": "predictions",
        "x": numbers((low + high) / 2 for low, high in pairwise(edges)),
        "y": numbers(series.curve.bin_counts),
        "width": numbers(high - low for low, high in pairwise(edges)),
        "yaxis": "y2",
        "showlegend": False,
        "marker": {"color": MUTED},
        "hovertemplate": "Δv %{x:.2f}: %{y:,} predictions<extra></extra>",
        "meta": {"model": "", "at": series.model.pointer(*series.at, "curve", "bin_counts")},
    }


def _layout(panel: CurvePanel, min_per_bin: float) -> Spec:
    # The default estimator uses bins with any number of samples: there is no minimum to draw.
    needed = [] if not min_per_bin else [{
        "type": "line", "x0": 0, "x1": 1, "y0": min_per_bin, "y1": min_per_bin, "yref": "y2",
        "line": {"color": INK, "width": 1, "dash": "dot"},
    }]  # fmt: skip
    label = f"dotted: minimum of {min_per_bin:g}" if min_per_bin else ""
    return {
        "height": HEIGHT,
        "xaxis": axis("visual change Δv", range=[0, 1], anchor="y2"),
        "yaxis": axis(PROPERTY_TITLES[panel.letter], range=[0, 1.02], domain=[0.29, 1]),
        "yaxis2": axis("predictions", domain=[0, 0.17], rangemode="tozero", nticks=3),
        "shapes": [*(_shade(start, end) for start, end in panel.gaps), *needed],
        "annotations": [
            *(
                note("not observed", (start + end) / 2, 0.5, textangle=-90)
                for start, end in panel.gaps
                if end - start >= WIDE
            ),
            note(
                label,
                1,
                1,
                xref="x domain",
                yref="y2 domain",
                xanchor="right",
                yanchor="bottom",
            ),
        ],
        "meta": {"min_per_bin": min_per_bin},
    }


def _shade(start: float, end: float) -> Spec:
    return {
        "type": "rect", "x0": start, "x1": end, "y0": 0, "y1": 1, "yref": "y domain",
        "fillcolor": f"{MUTED}/0.12", "line": {"width": 0}, "layer": "below",
    }  # fmt: skip
