"""Charts of the areas under the human curve and a model's curve, and where one is ahead.

Colors follow Fig. 2 of the VCR study: the common area is green, the area by which humans are ahead
is hatched yellow, and the area by which the model is ahead is hatched blue. charts.js fills between
a trace and the trace named by `meta.against`. A trace with `meta.same` uses the values of the trace
that it names.
"""

from collections.abc import Iterator, Sequence
from itertools import product

from eyechart.reports.html.charts.chart import (
    HUMANS,
    INK,
    Chart,
    Spec,
    axis,
    escape,
    make_chart,
    note,
    numbers,
    shortened,
)
from eyechart.reports.html.charts.curve_chart import line_trace
from eyechart.reports.series.areas import AreaPanel, area_panels
from eyechart.reports.series.curves import PROPERTY_TITLES
from eyechart.reports.series.palette import AREAS
from eyechart.reports.series.report import Part
from eyechart.reports.words import corruption_words
from eyechart.scores.registry import PROPERTIES

MOST = 4
"""Maximum number of models in one chart; only the first models of a test are shown."""

PANEL = 300
"""Height of a panel, in px."""

SURE = 1.04
"""Position above all curves at which ranges with disjoint 83 % bands are marked."""


def area_charts(part: Part, index: int) -> Iterator[Chart]:
    """Yield a chart for each corruption and property in which models are compared with humans."""
    for space, corruption, letter in product(part.spaces, part.corruptions, PROPERTIES):
        panels = area_panels(part, space, corruption, letter)
        if panels:
            first, count = panels[:MOST], len(panels)
            yield make_chart(
                "areas", _title(first, count), _alt(first, count), _traces(first),
                _layout(first, letter), part=index, space=space, corruption=corruption,
                letter=letter,
            )  # fmt: skip


def _title(panels: Sequence[AreaPanel], n_models: int) -> str:
    selection = f", the first {len(panels)} of {n_models} models" if len(panels) < n_models else ""
    return (
        f"{panels[0].title}: areas of {PROPERTIES[panels[0].letter]} for humans and"
        f" model{selection}"
    )


def _traces(panels: Sequence[AreaPanel]) -> list[Spec]:
    data: list[Spec] = []
    for number, panel in enumerate(panels):
        axes = {"xaxis": f"x{number + 1}", "yaxis": f"y{number + 1}"}
        human, model = panel.comparison.line, panel.comparison.model_line
        look: Spec = {"color": INK, "width": 3}
        meta: Spec = {
            "model": HUMANS,
            "with": panel.model.name,
            "at": panel.model.pointer(*panel.at, "line", "values"),
        }
        line = line_trace("Humans", human.delta_v, human.values, look, meta)
        # Usually all models are compared with one human curve, which is stored once per chart.
        if number and human == panels[0].comparison.line:
            del line["y"]
            meta["same"] = 0
        human_place = len(data)
        data.append({**line, **axes, "legendgroup": HUMANS})
        meta = {
            "model": panel.model.name,
            "at": panel.model.pointer(*panel.at, "model_line", "values"),
            "against": human_place,
        }
        look = {"color": AREAS["model"][1]}
        line = line_trace("model", model.delta_v, model.values, look, meta)
        data.append({**line, **axes, "legendgroup": "model"})
        data += [{**significant, **axes} for significant in _significant(panel)]
    return data


def _significant(panel: AreaPanel) -> Iterator[Spec]:
    """Yield a line above the curves for the ranges in which the 83 % bands are disjoint."""
    for side in ("humans", "model"):
        ranges = panel.significant(side)
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


def _layout(panels: Sequence[AreaPanel], letter: str) -> Spec:
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


def _alt(panels: Sequence[AreaPanel], n_models: int) -> str:
    selection = f" ({len(panels)} of {n_models} models)" if len(panels) < n_models else ""
    return (
        f"Human and model curves of {PROPERTIES[panels[0].letter]} under"
        f" {corruption_words(panels[0].corruption)}{selection}, shaded where one is ahead:"
        f" {'; '.join(panel.in_words() for panel in panels)}."
    )
