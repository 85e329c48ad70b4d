"""Human curves of each experiment, grouped by corruptions that look alike."""

from collections.abc import Iterable, Iterator
from itertools import groupby

from eyechart.reports.html.charts.chart import (
    HUMANS,
    INTERVAL,
    Chart,
    Spec,
    axis,
    error_bar,
    escape,
    make_chart,
    numbers,
    slug,
)
from eyechart.reports.html.charts.curve_chart import bands, line_trace
from eyechart.reports.series.curves import PROPERTY_TITLES
from eyechart.reports.series.human_curves import (
    HumanLine,
    ReportExperiment,
    human_experiments,
    human_panels,
)
from eyechart.reports.series.palette import COLORS, DASHES
from eyechart.reports.series.report import Report
from eyechart.scores.registry import PROPERTIES


def human_charts(report: Report) -> Iterator[Chart]:
    """Yield charts of the human responses that the runs were compared with, without duplicates."""
    reported = human_experiments(report)
    by_run = groupby(reported, key=lambda experiment: (experiment.part, experiment.run))
    for (index, run), experiments in by_run:
        yield from experiment_charts(list(experiments), index, run)


def experiment_charts(
    experiments: Iterable[ReportExperiment], index: int, run: int
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
                part=index, letter=letter, id=slug("humans", index, run, panel.key, letter),
            )  # fmt: skip


def _line_traces(line: HumanLine, number: int) -> list[Spec]:
    color, name = COLORS[number % len(COLORS)], escape(line.title)
    meta = {
        "model": HUMANS,
        "at": f"{line.at}/line/values",
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
        "meta": {
            "model": HUMANS,
            "each": [f"{line.at}/points/{index}/rate" for index in range(len(points))],
        },
    }
    return [{**curve, "legendgroup": line.name}, dots]
