"""Chart of every model's main score under every corruption, worst first, next to human areas."""

from collections.abc import Iterator

from eyechart.reports.html.charts.chart import (
    HUMANS,
    INK,
    INTERVAL,
    PAPER,
    Chart,
    Spec,
    axis,
    error_bar,
    escape,
    make_chart,
    names_axis,
    numbers,
)
from eyechart.reports.series.main_score import MainScore, main_score
from eyechart.reports.series.palette import SYMBOLS
from eyechart.reports.series.report import ModelEntry, Part
from eyechart.reports.words import corruption_title
from eyechart.scores.registry import SCORES

ROW, MORE, AROUND = 27, 7, 80
"""Height of a corruption's row, of each additional model in it, and of the margins, in px."""

LOWEST = 300
"""Minimum height of the chart, in px."""

APART = 4
"""Maximum number of models that are drawn side by side with their intervals."""


def main_score_charts(part: Part, index: int) -> Iterator[Chart]:
    """Yield the chart of a test if at least one corruption has a score."""
    main = main_score(part)
    if main.corruptions:
        yield make_chart(
            "main-score", main.title, main.in_words(), _traces(main), _layout(main), part=index,
            space=main.space,
        )  # fmt: skip


def _traces(main: MainScore) -> list[Spec]:
    traces = [_model(main, model, number) for number, model in enumerate(main.models)]
    return [*traces, *([_humans(main)] if main.humans else [])]


def _model(main: MainScore, model: ModelEntry, number: int) -> Spec:
    by_corruption = {score.corruption: score for score in main.of(model)}
    scores = [by_corruption[name] for name in main.corruptions if name in by_corruption]
    values = [score.number.value for score in scores]
    has_intervals = len(main.models) <= APART and all(s.number.has_interval for s in scores)
    ends = error_bar(values, [score.number.interval95 for score in scores]) if has_intervals else {}
    return {
        "type": "scatter",
        "mode": "markers",
        "orientation": "h",
        "name": escape(model.short),
        "offsetgroup": f"model {number}",
        "x": numbers(values),
        "y": [escape(corruption_title(score.corruption)) for score in scores],
        "customdata": [score.text for score in scores],
        "error_x": {**INTERVAL, "color": model.color, "width": 0, **ends} if ends else {},
        "marker": {
            "color": model.color,
            "size": 9,
            "symbol": SYMBOLS[number % len(SYMBOLS)],
            "line": {"color": PAPER, "width": 1},
        },
        "hovertemplate": "%{y}: %{customdata}<extra>%{fullData.name}</extra>",
        "meta": {"model": model.name, "each": [score.at for score in scores], "of": "x"},
    }


def _humans(main: MainScore) -> Spec:
    return {
        "type": "scatter",
        "mode": "markers",
        "orientation": "h",
        "name": "Humans",
        # On a separate axis, so that it is on the line of the corruption and not next to models.
        "yaxis": "y2",
        "x": numbers(area.value for area in main.humans),
        "y": [escape(corruption_title(area.corruption)) for area in main.humans],
        "customdata": [SCORES["r_a"].text(area.value) for area in main.humans],
        "marker": {
            "color": INK,
            "size": 20,
            "symbol": "line-ns-open",
            "line": {"color": INK, "width": 3},
        },
        "hovertemplate": "%{y}: %{customdata}<extra>Humans</extra>",
        "meta": {"model": HUMANS, "each": [area.at for area in main.humans], "of": "x"},
    }


def _layout(main: MainScore) -> Spec:
    assert main.score is not None
    n_models = len(main.models)
    n_apart = n_models if n_models <= APART else 1
    titles = [escape(corruption_title(name)) for name in main.corruptions]
    # Two axes have the same rows only if both name all of them: humans may have fewer.
    rows = names_axis(
        showgrid=True, autorange=False, range=[len(titles) - 0.5, -0.5],
        categoryorder="array", categoryarray=titles,
    )  # fmt: skip
    layout: Spec = {
        "height": max(LOWEST, AROUND + (ROW + MORE * (n_apart - 1)) * len(main.corruptions)),
        "xaxis": axis(main.axis_title, rangemode="tozero"),
        "yaxis": rows,
        "showlegend": n_models > 1 or bool(main.humans),
    }
    if main.score.is_percent:
        layout["xaxis"]["tickformat"] = ".0%"
    else:
        layout["xaxis"]["range"] = [0, 1.02]
    if main.humans:
        layout["yaxis2"] = {
            **layout["yaxis"], "overlaying": "y", "showticklabels": False, "showgrid": False,
        }  # fmt: skip
    if n_models <= APART:
        layout["scattermode"] = "group"
    return layout
