"""Models by ImageNet-C's accuracy, by R_a and by R_p: three bars each, with ranks beside them.

Scores and ranks come from comparing runs; no results.json has them.
"""

from collections.abc import Iterator, Mapping, Sequence

from eyechart.reports.html.charts.chart import (
    BARS,
    Chart,
    Spec,
    axis,
    error_bar,
    escape,
    labels,
    names_axis,
    numbers,
    rounded,
    slug,
    template,
)
from eyechart.reports.series.palette import CHANGE, WAYS
from eyechart.reports.series.report import Report, Shown
from eyechart.reports.words import corruption_title, corruption_words, listed
from eyechart.results.rankings import Discrete, Rankings

ROW, AROUND = 60, 120
"""Height of a model's bars, and of what is around all, in pixels."""


TEXT: Spec = {
    "textposition": "inside",
    "insidetextanchor": "start",
    "textangle": 0,
    "hovertemplate": "%{y}: %{x:.3f}, rank %{text}<extra>%{fullData.name}</extra>",
}
"""Ranks, at the foot of their bars."""


def rank_charts(report: Report) -> Iterator[Chart]:
    """Yield a chart for each corruption that both ImageNet-C and VCR have."""
    if report.discrete is None:
        return
    shown = {own.name: own for own in report.models}
    for rankings in report.discrete.corruptions:
        yield _chart(report.discrete, rankings, shown)


def changed(rankings: Rankings) -> set[str]:
    """Return the models that change places with another by more than chance."""
    sure = [swap for _, _, swap in rankings.swaps if rankings.is_sure(swap)]
    return {name for swap in sure for name in (swap.first, swap.second)}


def _chart(discrete: Discrete, rankings: Rankings, shown: Mapping[str, Shown]) -> Chart:
    first = next(iter(rankings.ranks.values()))
    order = sorted(discrete.models, key=lambda name: first.ranks[name])
    models = [shown[name] for name in order]
    names = labels(models)
    data = [
        _bar(rankings, way, place, model, names[model.name])
        for place, way in enumerate(rankings.ranks)
        for model in models
    ]
    data += [
        _triangle(model, names[model.name]) for model in models if model.name in changed(rankings)
    ]
    return Chart(
        slug("ranks", rankings.what),
        "ranks",
        -1,
        "",
        rankings.what,
        f"{corruption_title(rankings.what)}: models by fixed and by continuous strengths",
        _alt(rankings, shown),
        {"data": data, "layout": _layout(len(models))},
    )


def _bar(rankings: Rankings, way: str, place: int, model: Shown, label: str) -> Spec:
    score, ranking = rankings.scores[way][model.name], rankings.ranks[way]
    rank, ends = ranking.ranks[model.name], ranking.intervals[model.name]
    colour, pattern = WAYS[place % len(WAYS)]
    return {
        "type": "bar",
        "name": escape(way_title(way)),
        "legendgroup": way,
        "offsetgroup": way,
        "x": [rounded(score.value)],
        "y": [label],
        "error_x": error_bar([score.value], [score.interval]),
        "marker": {"color": colour, "pattern": {"shape": pattern}},
        "text": [_rank(rank, ends)],
        "meta": {
            "model": model.name,
            "way": way,
            "rank": rounded(rank),
            "ranks": numbers(ends),
            "from": "comparison",
        },
    }


def way_title(way: str) -> str:
    """Return how a way to rank is called in a legend."""
    return {"R_a": "Rₐ on VCR", "R_p": "Rₚ on VCR"}.get(way, way)


def _rank(rank: float, ends: Sequence[float]) -> str:
    low, high = ends
    return f"{rank:g}" if low == high == rank else f"{rank:g} ({low:g}–{high:g})"


def _triangle(model: Shown, label: str) -> Spec:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "changes places by more than chance",
        "legendgroup": "changes",
        "x": [-0.025],
        "y": [label],
        "cliponaxis": False,
        "marker": {"symbol": "triangle-right", "size": 12, "color": CHANGE},
        "hovertemplate": "%{y} changes places<extra></extra>",
        "meta": {"model": model.name, "from": "comparison"},
    }


def _layout(count: int) -> Spec:
    return {
        "height": AROUND + ROW * count,
        "template": template(bar={**BARS, **TEXT}),
        "barmode": "group",
        "bargap": 0.2,
        "xaxis": axis("share of answers right or unchanged", range=[-0.05, 1.02]),
        "yaxis": names_axis(),
    }


def _alt(rankings: Rankings, shown: Mapping[str, Shown]) -> str:
    said = []
    for way, ranking in rankings.ranks.items():
        best = min(ranking.ranks, key=lambda name: ranking.ranks[name])
        said.append(f"{way_title(way)} puts {shown[best].short} first")
    moved = [shown[name].short for name in shown if name in changed(rankings)]
    more = f"{listed(moved)} change places by more than chance" if moved else (
        "no two models change places by more than chance"
    )  # fmt: skip
    return f"Under {corruption_words(rankings.what)}: {', '.join(said)}; {more}."
