"""Errors next to a baseline's, against errors on clean pictures: mCE and relative mCE."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from eyechart.reports.html.charts.chart import (
    INTERVAL,
    Chart,
    Spec,
    axis,
    error_bar,
    escape,
    interval_bar,
    rounded,
    shortened,
    slug,
)
from eyechart.reports.series.palette import SYMBOLS
from eyechart.reports.series.report import Part, Shown
from eyechart.reports.words import space_title
from eyechart.results.schema import Estimate

SCORES = {"mce": "mCE", "relative_mce": "relative mCE"}


@dataclass(frozen=True, eq=False)
class Point:
    """A model's mean error next to a baseline's, and its accuracy on clean pictures."""

    shown: Shown
    clean: Estimate
    score: Estimate
    at: str


def mce_charts(part: Part, place: int) -> Iterator[Chart]:
    """Yield a chart for each label space in which models have an mCE."""
    for space in part.spaces:
        panels = {name: points for name in SCORES if (points := _points(part, space, name))}
        if not panels:
            continue
        baseline = escape(shortened(part.standings.board.baseline))
        highest = max(_highest(point) for points in panels.values() for point in points)
        yield Chart(
            slug("mce", place, space),
            "mce",
            place,
            space,
            "",
            "Errors under corruption against errors on clean pictures",
            _alt(part, space, panels),
            {
                "data": [
                    _point(point, panel, number)
                    for panel, points in enumerate(panels.values())
                    for number, point in enumerate(points)
                ],
                "layout": _layout(list(panels), baseline, highest),
            },
        )


def _points(part: Part, space: str, name: str) -> list[Point]:
    found = []
    for shown in part.models:
        own = shown.space(space)
        errors = own.corruption_error if own else None
        score = getattr(errors, name) if errors else None
        if own and own.clean_accuracy and own.clean_accuracy.value is not None and score:
            if score.value is None:
                continue
            at = shown.pointer("spaces", space, "corruption_error", name, "value")
            found.append(Point(shown, own.clean_accuracy, score, at))
    return found


def _point(point: Point, panel: int, number: int) -> Spec:
    end = "" if panel == 0 else "2"
    clean = 1 - (point.clean.value or 0.0)
    low, high = point.clean.interval95
    name = escape(point.shown.short)
    look = {**INTERVAL, "color": point.shown.colour}
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "legendgroup": point.shown.name,
        "x": [rounded(clean)],
        "y": [rounded(point.score.value)],
        "error_x": {}
        if low is None or high is None
        else {**look, **error_bar([clean], [(1 - high, 1 - low)])},
        "error_y": {**look, **interval_bar(point.score)},
        "marker": {
            "color": point.shown.colour,
            "size": 10,
            "symbol": SYMBOLS[number % len(SYMBOLS)],
        },
        "xaxis": f"x{end}",
        "yaxis": f"y{end}",
        "hovertemplate": "clean error %{x:.1%}, %{y:.1%}<extra>%{fullData.name}</extra>",
        "meta": {"model": point.shown.name, "each": [point.at]},
    }


def _highest(point: Point) -> float:
    """Return the upper end of a model's error on clean pictures."""
    low = point.clean.interval95[0]
    return 1 - (low if low is not None else point.clean.value or 0.0)


def _layout(names: Sequence[str], baseline: str, highest: float) -> Spec:
    def own(name: str) -> str:
        return f"{SCORES[name]}, % of {baseline}'s"

    wide = rounded(max(highest, 0.01) * 1.06)
    layout: Spec = {
        "height": 400,
        "xaxis": axis("error on clean pictures", tickformat=".0%", range=[0, wide]),
        "yaxis": axis(own(names[0]), tickformat=".0%"),
    }
    if len(names) > 1:
        layout["xaxis"]["domain"] = [0, 0.42]
        layout["xaxis2"] = {**layout["xaxis"], "domain": [0.6, 1], "anchor": "y2"}
        layout["yaxis2"] = {**layout["yaxis"], **axis(own(names[1])), "anchor": "x2"}
        layout["meta"] = {
            "narrow": {
                "height": 720,
                "xaxis.domain": [0, 1],
                "xaxis2.domain": [0, 1],
                "yaxis.domain": [0.58, 1],
                "yaxis2.domain": [0, 0.42],
            }
        }
    return layout


def _alt(part: Part, space: str, panels: Mapping[str, Sequence[Point]]) -> str:
    said = []
    for name, points in panels.items():
        best = min(points, key=lambda point: point.score.value or 0.0)
        said.append(f"{best.shown.short} has the lowest {SCORES[name]}, {best.score.value:.1%}")
    points = next(iter(panels.values()))
    clean = max(points, key=lambda point: point.clean.value or 0.0)
    wrong = 1 - (clean.clean.value or 0.0)
    return (
        f"Errors next to those of {part.standings.board.baseline} against errors on clean pictures,"
        f" among {space_title(space)}; lower is better: {', '.join(said)}; {clean.shown.short} has"
        f" the lowest error on clean pictures, {wrong:.1%}."
    )
