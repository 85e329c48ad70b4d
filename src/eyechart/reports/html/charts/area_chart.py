"""The four areas between people's curve and a model's: below each, and where one is ahead.

As the study's second figure: the area of both is green, hatched yellow where people are ahead and
hatched blue where the model is. charts.js fills between a trace and the one that `meta.against`
names; a trace whose `meta.same` names another has that one's values.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from eyechart.reports.html.charts.chart import (
    INK,
    PEOPLE,
    PROPERTY_NAMES,
    PROPERTY_TITLES,
    Chart,
    Spec,
    axis,
    escape,
    model_pointer,
    note,
    numbers,
    shortened,
    slug,
)
from eyechart.reports.html.charts.curve_chart import line_trace
from eyechart.reports.series.curves import Drawn, drawn_curves
from eyechart.reports.series.palette import AREAS
from eyechart.reports.series.report import Part
from eyechart.reports.words import corruption_title, corruption_words, listed, places
from eyechart.results.schema import HumanComparison

MOST = 4
"""Models in one chart; of more, the first of the part are shown."""

PANEL = 300
"""Height of one, in pixels."""

SURE = 1.04
"""Where ranges are marked in which 83 % bands are apart: above all curves."""


@dataclass(frozen=True, eq=False)
class Panel:
    """One model next to people."""

    drawn: Drawn
    people: HumanComparison


def area_charts(part: Part, place: int) -> Iterator[Chart]:
    """Yield a chart for each corruption and property that people are compared in."""
    for space in part.spaces:
        for corruption in part.corruptions:
            for letter, name in PROPERTY_NAMES.items():
                panels = [
                    Panel(drawn, drawn.own.people)
                    for drawn in drawn_curves(part, space, corruption, letter)
                    if drawn.own.people is not None
                ]
                if panels:
                    few = panels[:MOST]
                    yield Chart(
                        slug("areas", place, space, corruption, letter),
                        "areas",
                        place,
                        space,
                        corruption,
                        _title(corruption, name, len(few), len(panels)),
                        _alt(corruption, name, few, len(panels)),
                        {"data": _traces(few), "layout": _layout(few, letter)},
                        letter,
                    )


def _title(corruption: str, name: str, count: int, of: int) -> str:
    which = f", the first {count} of {of} models" if count < of else ""
    return f"{corruption_title(corruption)}: areas of {name} between people and model{which}"


def _traces(panels: Sequence[Panel]) -> list[Spec]:
    data: list[Spec] = []
    for number, panel in enumerate(panels):
        axes = {"xaxis": f"x{number + 1}", "yaxis": f"y{number + 1}"}
        people, at = panel.people, (*panel.drawn.at, "people")
        shown = panel.drawn.shown
        look: Spec = {"color": INK, "width": 3}
        meta: Spec = {
            "model": PEOPLE,
            "with": shown.name,
            "at": model_pointer(shown, *at, "line", "values"),
        }
        line = line_trace(PEOPLE, people.line, look, meta)
        if number and people.line == panels[0].people.line:
            del line["y"]
            meta["same"] = 0
        place = len(data)
        data.append({**line, **axes, "legendgroup": PEOPLE})
        meta = {
            "model": shown.name,
            "at": model_pointer(shown, *at, "model_line", "values"),
            "against": place,
        }
        look = {"color": AREAS["model"][1]}
        line = line_trace("model", people.model_line, look, meta)
        data.append({**line, **axes, "legendgroup": "model"})
        data += [{**sure, **axes} for sure in _sure(panel)]
    return data


def _sure(panel: Panel) -> list[Spec]:
    """Return a line above the curves for the ranges in which bands of 83 % are apart."""
    found: list[Spec] = []
    for who in ("people", "model"):
        ends = [(own.start, own.end) for own in panel.people.significant if own.who == who]
        if not ends:
            continue
        name = f"{who} ahead by more than the 83 % bands"
        found.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": name,
                "legendgroup": name,
                "x": [x for start, end in ends for x in (*numbers((start, end)), None)],
                "y": [y for _ in ends for y in (SURE, SURE, None)],
                "line": {"color": AREAS[who][1], "width": 6},
                "hoverinfo": "name",
                "meta": {"model": panel.drawn.shown.name},
            }
        )
    return found


def _layout(panels: Sequence[Panel], letter: str) -> Spec:
    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    corrected = any(panel.people.corrected_for_chance for panel in panels)
    title = PROPERTY_TITLES[letter] + (", corrected for chance" if corrected else "")
    layout: Spec = {"height": PANEL * rows + 60, "annotations": []}
    narrow: Spec = {"height": PANEL * len(panels) + 60}
    for number, panel in enumerate(panels):
        own = f"axis{number + 1}" if number else "axis"
        row, column = divmod(number, columns)
        last = number + columns >= len(panels)
        layout[f"x{own}"] = axis(
            "visual change Δv" if last else "", range=[0, 1], anchor=f"y{number + 1}",
            domain=_slot(column, columns, 0.15),
        )  # fmt: skip
        layout[f"y{own}"] = axis(
            title if column == 0 else "", range=[0, 1.08], anchor=f"x{number + 1}",
            domain=_slot(rows - 1 - row, rows, 0.2), tickvals=[0, 0.25, 0.5, 0.75, 1],
        )  # fmt: skip
        narrow[f"x{own}.domain"] = [0, 1]
        narrow[f"x{own}.title.text"] = "visual change Δv" if number == len(panels) - 1 else ""
        narrow[f"y{own}.domain"] = _slot(len(panels) - 1 - number, len(panels), 0.2)
        narrow[f"y{own}.title.text"] = title
        layout["annotations"] += _notes(panel, number + 1)
    layout["meta"] = {"narrow": narrow, "areas": {who: list(own) for who, own in AREAS.items()}}
    return layout


def _slot(place: int, count: int, between: float) -> list[float | None]:
    """Return the part of 0…1 that is the place-th of so many, with so much of it between."""
    size = 1 / (count - between) if count > 1 else 1
    return numbers((place * size, min(1.0, place * size + size * (1 - between))))


def _notes(panel: Panel, number: int) -> list[Spec]:
    areas, people = panel.people.areas, panel.people
    where = {"xref": f"x{number} domain", "yref": f"y{number} domain", "xanchor": "left"}
    known = {
        "people's area": areas.human,
        "model's area": areas.model,
        "people ahead": areas.human_ahead,
        "model ahead": areas.model_ahead,
    }
    lines = [f"{name} {value:.3f}" for name, value in known.items() if value is not None]
    scores = [
        f"{name} {own.value:.2f}"
        for name, own in (("HMRI", people.hmri), ("MRSI", people.mrsi))
        if own.value is not None
    ]
    head = f"<b>{escape(shortened(panel.drawn.shown.short))}</b> {', '.join(scores)}"
    return [
        note(head, 0, 1.02, yanchor="bottom", **where),
        note("<br>".join(lines), 0.03, 0.03, yanchor="bottom", align="left", **where),
    ]


def _alt(corruption: str, name: str, panels: Sequence[Panel], of: int) -> str:
    said = [_panel_in_words(panel) for panel in panels]
    which = f" ({len(panels)} of {of} models)" if len(panels) < of else ""
    return (
        f"People's and models' curves of {name} under {corruption_words(corruption)}{which},"
        f" shaded where one is ahead: {'; '.join(said)}."
    )


def _panel_in_words(panel: Panel) -> str:
    ahead = {
        who: [(own.start, own.end) for own in panel.people.leads if own.who == who]
        for who in ("people", "model")
    }
    said = [
        f"{'people are' if who == 'people' else 'the model is'} ahead at Δv {places(ranges)}"
        for who, ranges in ahead.items()
        if ranges
    ]
    return f"{panel.drawn.shown.short}: {listed(said) or 'nobody is ahead'}"
