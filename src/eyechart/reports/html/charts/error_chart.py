"""Charts of mCE against clean error, and of the error at each published severity."""

from collections.abc import Iterator, Mapping, Sequence

from eyechart.reports.html.charts.chart import (
    INTERVAL,
    Chart,
    Spec,
    axis,
    error_bar,
    escape,
    interval_bar,
    make_chart,
    numbers,
    rounded,
    shortened,
)
from eyechart.reports.series.model_errors import (
    MEANS,
    Mean,
    MeanErrorPoint,
    SeverityLine,
    errors_in,
    mean_error_points,
    mean_errors_in_words,
    severity_panels,
)
from eyechart.reports.series.palette import SYMBOLS
from eyechart.reports.series.report import Part

SEVERITY_LAYOUT: Spec = {
    "height": 340,
    "xaxis": axis("severity", dtick=1),
    "yaxis": axis("error rate", range=[0, 1.02], tickformat=".0%"),
}


def mce_charts(part: Part, index: int) -> Iterator[Chart]:
    """Yield a chart for each label space in which models have an mCE."""
    for space in part.spaces:
        rows = errors_in(part, space)
        panels = {name: points for name in MEANS if (points := mean_error_points(rows, name))}
        if not panels:
            continue
        baseline = escape(shortened(part.standings.board.baseline))
        highest = max(_highest(point) for points in panels.values() for point in points)
        yield make_chart(
            "mce",
            "Errors under corruption against errors on clean images",
            mean_errors_in_words(part, panels),
            [
                _point(point, panel, number)
                for panel, points in enumerate(panels.values())
                for number, point in enumerate(points)
            ],
            _mce_layout(list(panels), baseline, highest),
            part=index,
            space=space,
        )


def _point(point: MeanErrorPoint, panel: int, number: int) -> Spec:
    axes = "" if panel == 0 else "2"
    look = {**INTERVAL, "color": point.model.color}
    ends = point.row.clean_interval
    return {
        "type": "scatter",
        "mode": "markers",
        "name": escape(point.model.short),
        "legendgroup": point.model.name,
        "x": [rounded(point.clean_error)],
        "y": [rounded(point.value)],
        "customdata": [[point.clean_text, point.text]],
        "error_x": {} if ends is None else {**look, **error_bar([point.clean_error], [ends])},
        "error_y": {**look, **interval_bar(point.score)},
        "marker": {
            "color": point.model.color,
            "size": 10,
            "symbol": SYMBOLS[number % len(SYMBOLS)],
        },
        "xaxis": f"x{axes}",
        "yaxis": f"y{axes}",
        "hovertemplate": "clean error %{customdata[0]}, %{customdata[1]}"
        "<extra>%{fullData.name}</extra>",
        "meta": {"model": point.model.name, "each": [point.at]},
    }


def _highest(point: MeanErrorPoint) -> float:
    """Return the upper limit of the interval of a model's error on clean images."""
    ends = point.row.clean_interval
    return point.clean_error if ends is None else ends[1]


def _mce_layout(names: Sequence[Mean], baseline: str, highest: float) -> Spec:
    def label(name: Mean) -> str:
        return f"{MEANS[name]}, % of {baseline}'s errors"

    # 0.01 keeps a width if no model has an error on clean images.
    wide = rounded(max(highest, 0.01) * 1.06)
    layout: Spec = {
        "height": 400,
        "xaxis": axis("error on clean images", tickformat=".0%", range=[0, wide]),
        "yaxis": axis(label(names[0]), tickformat=".0%"),
    }
    if len(names) > 1:
        layout["xaxis"]["domain"] = [0, 0.42]
        layout["xaxis2"] = {**layout["xaxis"], "domain": [0.6, 1], "anchor": "y2"}
        layout["yaxis2"] = {**layout["yaxis"], **axis(label(names[1])), "anchor": "x2"}
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


def severity_charts(part: Part, index: int, dashes: Mapping[str, str]) -> Iterator[Chart]:
    """Yield a chart for each label space and corruption with published severities."""
    for space in part.spaces:
        for panel in severity_panels(part, space):
            traces = [
                _severity_trace(line, number, dashes[line.model.name])
                for number, line in enumerate(panel.lines)
            ]
            yield make_chart(
                "severity", f"{panel.title}: errors by severity", panel.in_words(), traces,
                SEVERITY_LAYOUT, part=index, space=space, corruption=panel.corruption,
            )  # fmt: skip


def _severity_trace(line: SeverityLine, number: int, dash: str) -> Spec:
    color = line.model.color
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": escape(line.model.short),
        "x": numbers(line.severities),
        "y": numbers(line.errors),
        "customdata": list(line.texts),
        "line": {"color": color, "dash": dash},
        "marker": {"symbol": SYMBOLS[number % len(SYMBOLS)], "size": 8, "color": color},
        "hovertemplate": "severity %{x}: %{customdata}<extra>%{fullData.name}</extra>",
        "meta": {"model": line.model.name, "each": list(line.at)},
    }
