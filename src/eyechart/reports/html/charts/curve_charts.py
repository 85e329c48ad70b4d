"""Curves over visual change: models and humans, the areas between them, and human experiments."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise, product

from eyechart.reports.html.charts.chart import (
    HUMANS,
    INK,
    INTERVAL,
    MUTED,
    Chart,
    Spec,
    axis,
    error_bar,
    escape,
    grid,
    make_chart,
    note,
    numbers,
    shortened,
    slug,
)
from eyechart.reports.series.curves import (
    PROPERTY_TITLES,
    AreaPanel,
    CurvePanel,
    CurveSeries,
    area_panels,
    curve_panel,
    ranges_ahead,
)
from eyechart.reports.series.human_curves import (
    HumanLine,
    human_experiments,
    human_panels,
)
from eyechart.reports.series.palette import AREAS, COLORS, DASHES
from eyechart.reports.series.report import Report, TestSection
from eyechart.reports.titles import corruption_title, corruption_words, space_title
from eyechart.results.curve_results import HumanExperiment, Numbers, SampledCurve
from eyechart.scores.registry import PROPERTIES

SCALE = 1000
"""Bands and rates are stored as integers in units of 1/SCALE: finer than a chart's pixels."""

HEIGHT = 440
WIDE = 0.06
"""Minimum width of an unobserved range that fits a vertical label."""


def curve_charts(section: TestSection, index: int, dashes: Mapping[str, str]) -> Iterator[Chart]:
    """Yield a chart for each label space, corruption and property that has a curve."""
    min_per_bin = section.runs[0].config.fit.min_per_bin
    for space, corruption, letter in product(section.spaces, section.corruptions, PROPERTIES):
        panel = curve_panel(section.models, space, corruption, letter)
        if panel.curves:
            traces = [_model_trace(curve, dashes[curve.model.name]) for curve in panel.curves]
            if panel.humans is not None:
                traces.append(_human_trace(panel.humans.line))
            traces.append(_counts_trace(panel.curves[0]))
            title = (
                f"{corruption_title(corruption)}: {PROPERTIES[letter]} among {space_title(space)}"
            )
            yield make_chart(
                "curves", title, panel.in_words(), traces,
                _curve_layout(panel, min_per_bin), section=index, space=space,
                corruption=corruption, letter=letter,
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


def _model_trace(series: CurveSeries, dash: str) -> Spec:
    meta = {
        "model": series.model.name,
        "observed": [numbers(ends) for ends in series.score.observed],
        "bands": both_bands(series.line),
        "rates": whole(series.curve.bin_rates),
    }
    look = {"color": series.model.color, "dash": dash}
    return line_trace(
        escape(series.model.short), series.line.delta_v, series.line.values, look, meta
    )


def _human_trace(line: SampledCurve) -> Spec:
    meta = {"model": HUMANS, "bands": both_bands(line)}
    look = {"color": INK, "width": 3}
    return line_trace("Humans", line.delta_v, line.values, look, meta)


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
        "meta": {"model": ""},
    }


def _curve_layout(panel: CurvePanel, min_per_bin: float) -> Spec:
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
        "shapes": [
            *(
                {
                    "type": "rect",
                    "x0": start,
                    "x1": end,
                    "y0": 0,
                    "y1": 1,
                    "yref": "y domain",
                    "fillcolor": f"{MUTED}/0.12",
                    "line": {"width": 0},
                    "layer": "below",
                }
                for start, end in panel.gaps
            ),
            *needed,
        ],
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


MOST = 4
"""Maximum number of models in one chart; only the first models of a test are shown."""

PANEL = 300
"""Height of a panel, in px."""

SURE = 1.04
"""Position above all curves at which ranges with disjoint 83 % bands are marked."""


def area_charts(section: TestSection, index: int) -> Iterator[Chart]:
    """Yield a chart for each corruption and property in which models are compared with humans."""
    for space, corruption, letter in product(section.spaces, section.corruptions, PROPERTIES):
        panels = area_panels(section, space, corruption, letter)
        if panels:
            first, count, name = panels[:MOST], len(panels), PROPERTIES[letter]
            title = f"{corruption_title(corruption)}: areas of {name} for humans and model"
            selection = ""
            if len(first) < count:
                title += f", the first {len(first)} of {count} models"
                selection = f" ({len(first)} of {count} models)"
            words = "; ".join(panel.in_words() for panel in first)
            alt = (
                f"Human and model curves of {name} under {corruption_words(corruption)}{selection},"
                f" shaded where one is ahead: {words}."
            )
            yield make_chart(
                "areas", title, alt, _area_traces(first), _area_layout(first, letter),
                section=index, space=space, corruption=corruption, letter=letter,
            )  # fmt: skip


def _area_traces(panels: Sequence[AreaPanel]) -> list[Spec]:
    data: list[Spec] = []
    for number, panel in enumerate(panels):
        axes = {"xaxis": f"x{number + 1}", "yaxis": f"y{number + 1}"}
        human, model = panel.comparison.line, panel.comparison.model_line
        look: Spec = {"color": INK, "width": 3}
        meta: Spec = {"model": HUMANS, "with": panel.model.name}
        line = line_trace("Humans", human.delta_v, human.values, look, meta)
        # Usually all models are compared with one human curve, which is stored once per chart.
        if number and human == panels[0].comparison.line:
            del line["y"]
            meta["same"] = 0
        human_place = len(data)
        data.append({**line, **axes, "legendgroup": HUMANS})
        meta = {"model": panel.model.name, "against": human_place}
        look = {"color": AREAS["model"][1]}
        line = line_trace("model", model.delta_v, model.values, look, meta)
        data.append({**line, **axes, "legendgroup": "model"})
        data += [{**significant, **axes} for significant in _significant(panel)]
    return data


def _significant(panel: AreaPanel) -> Iterator[Spec]:
    """Yield a line above the curves for the ranges in which the 83 % bands are disjoint."""
    for side in ("humans", "model"):
        ranges = ranges_ahead(panel.comparison.significant, side)
        if ranges:
            name = f"{AREAS[side][0]} by more than the 83 % bands"
            yield {
                "type": "scatter",
                "mode": "lines",
                "name": name,
                "legendgroup": name,
                # None interrupts the line between two ranges.
                "x": [x for start, end in ranges for x in (*numbers((start, end)), None)],
                "y": [y for _ in ranges for y in (SURE, SURE, None)],
                "line": {"color": AREAS[side][1], "width": 6},
                "hoverinfo": "name",
                "meta": {"model": panel.model.name},
            }


def _area_layout(panels: Sequence[AreaPanel], letter: str) -> Spec:
    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    corrected = any(panel.comparison.corrected_for_chance for panel in panels)
    title = PROPERTY_TITLES[letter] + (", corrected for chance" if corrected else "")
    layout: Spec = {"height": PANEL * rows + 60, "annotations": []}
    narrow: Spec = {"height": PANEL * len(panels) + 60}
    for number, panel in enumerate(panels):
        axis_name = f"axis{number + 1}" if number else "axis"
        row, column = divmod(number, columns)
        last = number + columns >= len(panels)
        layout[f"x{axis_name}"] = axis(
            "visual change Δv" if last else "", range=[0, 1], anchor=f"y{number + 1}",
            domain=_slot(column, columns, 0.15),
        )  # fmt: skip
        layout[f"y{axis_name}"] = axis(
            title if column == 0 else "", range=[0, 1.08], anchor=f"x{number + 1}",
            domain=_slot(rows - 1 - row, rows, 0.2), tickvals=[0, 0.25, 0.5, 0.75, 1],
        )  # fmt: skip
        narrow[f"x{axis_name}.domain"] = [0, 1]
        narrow[f"x{axis_name}.title.text"] = "visual change Δv" if number == len(panels) - 1 else ""
        narrow[f"y{axis_name}.domain"] = _slot(len(panels) - 1 - number, len(panels), 0.2)
        narrow[f"y{axis_name}.title.text"] = title
        layout["annotations"] += _notes(panel, number + 1)
    layout["meta"] = {"narrow": narrow, "areas": {side: list(look) for side, look in AREAS.items()}}
    return layout


def _slot(index: int, count: int, between: float) -> list[float | None]:
    """Return the range of slot `index` if `count` slots with gaps in between fill [0, 1]."""
    # No gap follows the last slot, so that all slots with their gaps fill [0, 1].
    size = 1 / (count - between) if count > 1 else 1
    return numbers((index * size, min(1.0, index * size + size * (1 - between))))


def _notes(panel: AreaPanel, number: int) -> list[Spec]:
    where = {"xref": f"x{number} domain", "yref": f"y{number} domain", "xanchor": "left"}
    lines = [f"{name} {text}" for name, text in panel.areas]
    scores = [f"{name} {text}" for name, text in panel.scores]
    head = f"<b>{escape(shortened(panel.model.short))}</b> {', '.join(scores)}"
    return [
        note(head, 0, 1.02, yanchor="bottom", **where),
        note("<br>".join(lines), 0.03, 0.03, yanchor="bottom", align="left", **where),
    ]


def human_charts(report: Report) -> Iterator[Chart]:
    """Yield charts of the human responses that the runs were compared with, without duplicates."""
    for (index, run), experiments in human_experiments(report).items():
        yield from experiment_charts(experiments, index, run)


def experiment_charts(
    experiments: Sequence[HumanExperiment], index: int, run: int
) -> Iterator[Chart]:
    """Yield a chart for each property and class of corruptions that look alike."""
    for letter, name in PROPERTIES.items():
        for panel in human_panels(experiments, letter):
            traces = [
                trace
                for number, line in enumerate(panel.lines)
                for trace in _line_traces(line, number)
            ]
            layout = {
                "height": 380,
                "xaxis": axis("visual change Δv", range=[0, 1]),
                "yaxis": axis(PROPERTY_TITLES[letter], range=[0, 1.02]),
            }
            yield make_chart(
                "humans", f"Humans under {panel.title}: {name}", panel.in_words(), traces, layout,
                section=index, letter=letter, id=slug("humans", index, run, panel.key, letter),
            )  # fmt: skip


def _line_traces(line: HumanLine, number: int) -> list[Spec]:
    color, name = COLORS[number % len(COLORS)], escape(line.title)
    meta = {
        "model": HUMANS,
        "bands": {**bands({"83": (line.low, line.high)}), "always": True},
    }
    look = {"color": color, "dash": DASHES[number % len(DASHES)]}
    curve = line_trace(name, line.delta_v, line.values, look, meta)
    points = line.points
    dots: Spec = {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "legendgroup": line.name,
        "x": numbers(point.delta_v[1] for point in points),
        "y": numbers(point.rate for point in points),
        "error_y": {
            **INTERVAL,
            **error_bar([point.rate for point in points], [point.ends for point in points]),
            "color": color,
        },
        "marker": {"color": color, "size": 6},
        "customdata": [point.n_responses for point in points],
        "hovertemplate": "Δv %{x:.2f}: %{y:.3f}, %{customdata}"
        " responses<extra>%{fullData.name}</extra>",
        "meta": {"model": HUMANS},
    }
    return [{**curve, "legendgroup": line.name}, dots]
