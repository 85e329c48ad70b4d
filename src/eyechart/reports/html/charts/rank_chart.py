"""Chart of ImageNet-C accuracy, R_a and R_p: three bars per model, labeled with its ranks."""

from collections.abc import Iterator

from eyechart.reports.html.charts.chart import (
    BARS,
    Chart,
    Spec,
    axis,
    error_bar,
    escape,
    labels,
    make_chart,
    names_axis,
    numbers,
    rounded,
    template,
)
from eyechart.reports.series.palette import CHANGE, WAYS
from eyechart.reports.series.ranks import RankPanel, rank_panels, way_title
from eyechart.reports.series.report import ModelEntry, Report

ROW, AROUND = 60, 120
"""Height of a model's bars, and of the margins around all bars, in px."""


TEXT: Spec = {
    "textposition": "inside",
    "insidetextanchor": "start",
    "textangle": 0,
    "hovertemplate": "%{y}: %{customdata}, rank %{text}<extra>%{fullData.name}</extra>",
}
"""Style of the ranks, which are printed at the base of the bars."""


def rank_charts(report: Report) -> Iterator[Chart]:
    """Yield a chart for each corruption that ImageNet-C and VCR share."""
    for panel in rank_panels(report):
        yield _chart(panel)


def _chart(panel: RankPanel) -> Chart:
    names = labels(panel.models)
    data = [
        _bar(panel, way, model, names[model.name]) for way in panel.ways for model in panel.models
    ]
    data += [
        _triangle(model, names[model.name]) for model in panel.models if model.name in panel.changed
    ]
    title = f"{panel.title}: models by fixed and by continuous strengths"
    layout = _layout(len(panel.models))
    return make_chart("ranks", title, panel.in_words(), data, layout, corruption=panel.corruption)


def _bar(panel: RankPanel, way: str, model: ModelEntry, label: str) -> Spec:
    score, rank = panel.score(way, model), panel.rank(way, model)
    ends = panel.rank_interval(way, model)
    color, pattern = WAYS[panel.ways.index(way) % len(WAYS)]
    return {
        "type": "bar",
        "name": escape(way_title(way)),
        "legendgroup": way,
        "offsetgroup": way,
        "x": [rounded(score.value)],
        "y": [label],
        "customdata": [panel.score_text(way, model)],
        "error_x": error_bar([score.value], [score.interval95]),
        "marker": {"color": color, "pattern": {"shape": pattern}},
        "text": [_rank(rank, ends)],
        "meta": {
            "model": model.name,
            "way": way,
            "rank": rounded(rank),
            "ranks": numbers(ends),
            "from": "comparison",
        },
    }


def _rank(rank: float, ends: tuple[float, float]) -> str:
    low, high = ends
    return f"{rank:g}" if low == high == rank else f"{rank:g} ({low:g}–{high:g})"


def _triangle(model: ModelEntry, label: str) -> Spec:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "changes ranks significantly",
        "legendgroup": "changes",
        "x": [-0.025],
        "y": [label],
        "cliponaxis": False,
        "marker": {"symbol": "triangle-right", "size": 12, "color": CHANGE},
        "hovertemplate": "%{y} changes ranks<extra></extra>",
        "meta": {"model": model.name, "from": "comparison"},
    }


def _layout(count: int) -> Spec:
    return {
        "height": AROUND + ROW * count,
        "template": template(bar={**BARS, **TEXT}),
        "barmode": "group",
        "bargap": 0.2,
        "xaxis": axis("fraction correct or unchanged", range=[-0.05, 1.02]),
        "yaxis": names_axis(),
    }
