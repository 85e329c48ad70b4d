"""Curves over visual change: each model's, people's, with bands and the answers behind them.

A trace is a curve; what charts.js draws around it when it is looked at stands in `meta`: `bands`
(95 % and 83 %, at every second point, in thousandths), `rates` of the bins, `observed` ranges.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from eyechart.reports.html.charts.chart import (
    INK,
    MUTED,
    PEOPLE,
    PROPERTY_NAMES,
    PROPERTY_TITLES,
    Chart,
    Spec,
    axis,
    escape,
    grid,
    model_pointer,
    note,
    numbers,
    slug,
)
from eyechart.reports.series.curves import (
    Drawn,
    curves_in_words,
    drawn_curves,
    gaps,
    people_of,
)
from eyechart.reports.series.report import Part
from eyechart.reports.words import corruption_title, space_title
from eyechart.results.schema import HumanComparison, SampledCurve

SCALE = 1000
"""Bands and rates of bins are whole numbers of one part of this: a chart has fewer pixels."""

HEIGHT = 440
WIDE = 0.06
"""Of a range without observations, for words that stand upright to fit into."""


def curve_charts(part: Part, place: int, dashes: Mapping[str, str]) -> Iterator[Chart]:
    """Yield a chart for each label space, corruption and property that has a curve."""
    for space in part.spaces:
        for corruption in part.corruptions:
            for letter, name in PROPERTY_NAMES.items():
                drawn = drawn_curves(part, space, corruption, letter)
                if not drawn:
                    continue
                yield Chart(
                    slug("curves", place, space, corruption, letter),
                    "curves",
                    place,
                    space,
                    corruption,
                    f"{corruption_title(corruption)}: {name} among {space_title(space)}",
                    curves_in_words(corruption, letter, space, drawn),
                    {"data": _traces(drawn, dashes), "layout": _layout(part, drawn[0], letter)},
                    letter,
                )


def bands(line: SampledCurve, levels: Sequence[str] = ("95", "83")) -> Spec:
    """Return a curve's bands: low and high by level."""
    thin = 2 if len(line.values) % 2 else 1
    ends = {"95": (line.low95, line.high95), "83": (line.low83, line.high83)}
    return {
        "scale": SCALE,
        "thin": thin,
        **{level: [whole(end[::thin]) for end in ends[level]] for level in levels},
    }


def whole(values: Sequence[float | None]) -> list[int | None]:
    """Return shares as whole numbers of one part of SCALE."""
    return [None if value is None else round(value * SCALE) for value in values]


def line_trace(name: str, line: SampledCurve, look: Spec, meta: Spec) -> Spec:
    """Return a curve."""
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        **grid(line.delta_v),
        "y": numbers(line.values),
        "line": look,
        "meta": meta,
    }


def _traces(drawn: Sequence[Drawn], dashes: Mapping[str, str]) -> list[Spec]:
    people = people_of(drawn)
    return [
        *(_model_trace(each, dashes[each.shown.name]) for each in drawn),
        *([_people_trace(*people)] if people is not None else []),
        _counts_trace(drawn[0]),
    ]


def _model_trace(drawn: Drawn, dash: str) -> Spec:
    shown, curve = drawn.shown, drawn.curve
    meta = {
        "model": shown.name,
        "at": model_pointer(shown, *drawn.at, "curve", "values"),
        "observed": [numbers(each) for each in drawn.own.observed],
        "bands": bands(curve),
        "rates": whole(curve.bin_rates),
    }
    return line_trace(escape(shown.short), curve, {"color": shown.colour, "dash": dash}, meta)


def _people_trace(drawn: Drawn, people: HumanComparison) -> Spec:
    meta = {
        "model": PEOPLE,
        "at": model_pointer(drawn.shown, *drawn.at, "people", "line", "values"),
        "bands": bands(people.line),
    }
    return line_trace(PEOPLE, people.line, {"color": INK, "width": 3}, meta)


def _counts_trace(drawn: Drawn) -> Spec:
    edges = [edge for edge in drawn.curve.bin_edges if edge is not None]
    return {
        "type": "bar",
        "name": "answers",
        "x": numbers((low + high) / 2 for low, high in pairwise(edges)),
        "y": numbers(drawn.curve.bin_counts),
        "width": numbers(high - low for low, high in pairwise(edges)),
        "yaxis": "y2",
        "showlegend": False,
        "marker": {"color": MUTED},
        "hovertemplate": "Δv %{x:.2f}: %{y:,} answers<extra></extra>",
        "meta": {"model": "", "at": model_pointer(drawn.shown, *drawn.at, "curve", "bin_counts")},
    }


def _layout(part: Part, first: Drawn, letter: str) -> Spec:
    least = float(part.runs[0].config["fit"]["least"])
    empty = gaps(first.own.observed)
    needed = {
        "type": "line", "x0": 0, "x1": 1, "y0": least, "y1": least, "yref": "y2",
        "line": {"color": INK, "width": 1, "dash": "dot"},
    }  # fmt: skip
    return {
        "height": HEIGHT,
        "xaxis": axis("visual change Δv", range=[0, 1], anchor="y2"),
        "yaxis": axis(PROPERTY_TITLES[letter], range=[0, 1.02], domain=[0.29, 1]),
        "yaxis2": axis("answers", domain=[0, 0.17], rangemode="tozero", nticks=3),
        "shapes": [*(_shade(start, end) for start, end in empty), needed],
        "annotations": [
            *(
                note("not observed", (start + end) / 2, 0.5, textangle=-90)
                for start, end in empty
                if end - start >= WIDE
            ),
            note(
                f"dotted: {least:g} needed",
                1,
                1,
                xref="x domain",
                yref="y2 domain",
                xanchor="right",
                yanchor="bottom",
            ),
        ],
        "meta": {"least": least},
    }


def _shade(start: float, end: float) -> Spec:
    return {
        "type": "rect", "x0": start, "x1": end, "y0": 0, "y1": 1, "yref": "y domain",
        "fillcolor": f"{MUTED}/0.12", "line": {"width": 0}, "layer": "below",
    }  # fmt: skip
