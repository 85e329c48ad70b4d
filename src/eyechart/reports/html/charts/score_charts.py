"""Charts of scores: main scores, HMRI and MRSI, ranks, mean errors, and errors by severity."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from eyechart.reports.html.charts.chart import (
    BARS,
    HUMANS,
    INK,
    INTERVAL,
    PAPER,
    Chart,
    Spec,
    axis,
    error_bar,
    escape,
    interval_bar,
    labels,
    make_chart,
    names_axis,
    note,
    numbers,
    rounded,
    shortened,
    slug,
    template,
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
from eyechart.reports.series.model_scores import (
    HumanIndex,
    MainScore,
    RankPanel,
    ScoreBar,
    human_index,
    main_score,
    rank_panels,
    way_title,
)
from eyechart.reports.series.palette import (
    CATEGORY_COLORS,
    CATEGORY_PATTERNS,
    CHANGE,
    SYMBOLS,
    WAYS,
)
from eyechart.reports.series.report import ModelEntry, Report, TestSection
from eyechart.reports.titles import corruption_title
from eyechart.scores.registry import PROPERTIES

SCORE_ROW, MORE, SCORE_MARGIN = 27, 7, 80
"""Height of a corruption's row, of each additional model in it, and of the margins, in px."""

LOWEST = 300
"""Minimum height of the chart, in px."""

APART = 4
"""Maximum number of models that are drawn side by side with their intervals."""


def main_score_charts(section: TestSection, index: int) -> Iterator[Chart]:
    """Yield the chart of a test if at least one corruption has a score."""
    main = main_score(section)
    if main.corruptions:
        traces = [_model_scores(main, model, number) for number, model in enumerate(main.models)]
        if main.humans:
            traces.append(_human_areas(main))
        yield make_chart(
            "main-score", main.title, main.in_words(), traces,
            _main_score_layout(main), section=index, space=main.space,
        )  # fmt: skip


def _model_scores(main: MainScore, model: ModelEntry, number: int) -> Spec:
    known = main.of(model)
    scores = {name: known[name] for name in main.corruptions if name in known}
    values = [score.value for score in scores.values()]
    has_intervals = len(main.models) <= APART and all(s.has_interval for s in scores.values())
    intervals = [score.interval95 for score in scores.values()]
    ends = error_bar(values, intervals) if has_intervals else {}
    return {
        "type": "scatter",
        "mode": "markers",
        "orientation": "h",
        "name": escape(model.short),
        "offsetgroup": f"model {number}",
        "x": numbers(values),
        "y": [escape(corruption_title(name)) for name in scores],
        "customdata": [main.text(value) for value in values],
        "error_x": {**INTERVAL, "color": model.color, "width": 0, **ends} if ends else {},
        "marker": {
            "color": model.color,
            "size": 9,
            "symbol": SYMBOLS[number % len(SYMBOLS)],
            "line": {"color": PAPER, "width": 1},
        },
        "hovertemplate": "%{y}: %{customdata}<extra>%{fullData.name}</extra>",
        "meta": {"model": model.name},
    }


def _human_areas(main: MainScore) -> Spec:
    return {
        "type": "scatter",
        "mode": "markers",
        "orientation": "h",
        "name": "Humans",
        # On a separate axis, so that it is on the line of the corruption and not next to models.
        "yaxis": "y2",
        "x": numbers(main.humans.values()),
        "y": [escape(corruption_title(name)) for name in main.humans],
        "customdata": [main.text(area) for area in main.humans.values()],
        "marker": {
            "color": INK,
            "size": 20,
            "symbol": "line-ns-open",
            "line": {"color": INK, "width": 3},
        },
        "hovertemplate": "%{y}: %{customdata}<extra>Humans</extra>",
        "meta": {"model": HUMANS},
    }


def _main_score_layout(main: MainScore) -> Spec:
    n_models = len(main.models)
    n_apart = n_models if n_models <= APART else 1
    titles = [escape(corruption_title(name)) for name in main.corruptions]
    # Two axes have the same rows only if both name all of them: humans may have fewer.
    rows = names_axis(
        showgrid=True, autorange=False, range=[len(titles) - 0.5, -0.5],
        categoryorder="array", categoryarray=titles,
    )  # fmt: skip
    layout: Spec = {
        "height": max(
            LOWEST, SCORE_MARGIN + (SCORE_ROW + MORE * (n_apart - 1)) * len(main.corruptions)
        ),
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


INDEX_ROW, INDEX_MARGIN = 30, 130
"""Height of a bar, and of the margins around all bars, in px."""


def index_charts(section: TestSection, section_index: int) -> Iterator[Chart]:
    """Yield charts of the means over corruptions, then of each corruption."""
    for space, letter in product(section.spaces, PROPERTIES):
        for corruption in ("", *section.corruptions):
            index = human_index(section, space, letter, corruption)
            if index is not None:
                yield _index_chart(index, section_index, space)


def _index_chart(index: HumanIndex, section_index: int, space: str) -> Chart:
    # If no model has a category, each has an individual color.
    by_category = any(model.category for model in index.models)
    names = labels(index.models)
    data = [
        _index_bar(bar, panel, names[bar.model.name], by_category)
        for panel, bars in enumerate((index.hmri, index.mrsi))
        for bar in bars
    ]
    layout = {**_index_layout(index.letter, len(index.hmri)), "showlegend": by_category}
    identity = slug("human-index", section_index, space, index.corruption or "mean", index.letter)
    return make_chart(
        "human-index", index.title, index.in_words(), data, layout, section=section_index,
        space=space, corruption=index.corruption, letter=index.letter, id=identity,
    )  # fmt: skip


def _index_bar(bar: ScoreBar, panel: int, label: str, by_category: bool) -> Spec:
    model = bar.model
    title, color = CATEGORY_COLORS[model.category] if by_category else ("", model.color)
    pattern = CATEGORY_PATTERNS[model.category] if by_category else ""
    return {
        "type": "bar",
        "name": title or escape(model.short),
        "legendgroup": title,
        "x": [rounded(bar.value)],
        "y": [label],
        "customdata": [bar.text],
        **({"xaxis": "x2", "yaxis": "y2"} if panel else {}),
        "error_x": {} if bar.number is None else interval_bar(bar.number),
        "marker": {"color": color, "pattern": {"shape": pattern}},
        "meta": {"model": model.name},
    }


def _index_layout(letter: str, count: int) -> Spec:
    height = INDEX_MARGIN + INDEX_ROW * count
    sub = {"a": "ₐ", "p": "ₚ"}[letter]
    return {
        "height": height,
        "template": template(bar=BARS),
        "xaxis": axis(
            f"HMRI{sub}: fraction of human area reached", range=[0, 1.04], domain=[0, 0.6],
        ),
        "yaxis": names_axis(),
        "xaxis2": axis(
            f"MRSI{sub}: fraction above humans", domain=[0.66, 1], rangemode="tozero", nticks=4,
            anchor="y2",
        ),
        "yaxis2": names_axis(anchor="x2", matches="y", showticklabels=False),
        "shapes": [
            {
                "type": "line", "x0": 1, "x1": 1, "y0": 0, "y1": 1, "yref": "y domain",
                "line": {"color": INK, "width": 1.5, "dash": "dash"},
            }
        ],
        "annotations": [
            note("Humans", 1, 1, yref="y domain", yanchor="bottom", xanchor="center")
        ],
        "meta": {
            "narrow": {
                "height": 2 * height - 40,
                "xaxis.domain": [0, 1],
                "xaxis2.domain": [0, 1],
                "yaxis.domain": [0.58, 1],
                "yaxis2.domain": [0, 0.42],
                "yaxis2.showticklabels": True,
            }
        },
    }  # fmt: skip


RANK_ROW, RANK_MARGIN = 60, 120
"""Height of a model's bars, and of the margins around all bars, in px."""


RANK_TEXT: Spec = {
    "textposition": "inside",
    "insidetextanchor": "start",
    "textangle": 0,
    "hovertemplate": "%{y}: %{customdata}, rank %{text}<extra>%{fullData.name}</extra>",
}
"""Style of the ranks, which are printed at the base of the bars."""


def rank_charts(report: Report) -> Iterator[Chart]:
    """Yield a chart for each corruption that ImageNet-C and VCR share."""
    for panel in rank_panels(report):
        names = labels(panel.models)
        data = [
            _rank_bar(panel, way, model, names[model.name])
            for way in panel.ways
            for model in panel.models
        ]
        data += [
            _triangle(model, names[model.name])
            for model in panel.models
            if model.name in panel.changed
        ]
        corruption = panel.rankings.subject
        title = f"{corruption_title(corruption)}: models by fixed and by continuous strengths"
        layout = {
            "height": RANK_MARGIN + RANK_ROW * len(panel.models),
            "template": template(bar={**BARS, **RANK_TEXT}),
            "barmode": "group",
            "bargap": 0.2,
            "xaxis": axis("fraction correct or unchanged", range=[-0.05, 1.02]),
            "yaxis": names_axis(),
        }
        yield make_chart("ranks", title, panel.in_words(), data, layout, corruption=corruption)


def _rank_bar(panel: RankPanel, way: str, model: ModelEntry, label: str) -> Spec:
    score, ranking = panel.score(way, model), panel.rankings.ranks[way]
    rank, (low, high) = ranking.ranks[model.name], ranking.intervals[model.name]
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
        "text": [f"{rank:g}" if low == high == rank else f"{rank:g} ({low:g}–{high:g})"],
        "meta": {"model": model.name},
    }


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
        "meta": {"model": model.name},
    }


SEVERITY_LAYOUT: Spec = {
    "height": 340,
    "xaxis": axis("severity", dtick=1),
    "yaxis": axis("error rate", range=[0, 1.02], tickformat=".0%"),
}


def mce_charts(section: TestSection, index: int) -> Iterator[Chart]:
    """Yield a chart for each label space in which models have an mCE."""
    for space in section.spaces:
        rows = errors_in(section, space)
        panels = {name: points for name in MEANS if (points := mean_error_points(rows, name))}
        if not panels:
            continue
        baseline = escape(shortened(section.standings.board.baseline))
        # The upper limits of the intervals of errors on clean images.
        highest = max(
            point.clean_error if ends is None else ends[1]
            for points in panels.values()
            for point in points
            for ends in [point.row.clean_interval]
        )
        yield make_chart(
            "mce",
            "Errors under corruption against errors on clean images",
            mean_errors_in_words(section, panels),
            [
                _mean_error_point(point, panel, number)
                for panel, points in enumerate(panels.values())
                for number, point in enumerate(points)
            ],
            _mce_layout(list(panels), baseline, highest),
            section=index,
            space=space,
        )


def _mean_error_point(point: MeanErrorPoint, panel: int, number: int) -> Spec:
    axes = "" if panel == 0 else "2"
    model, ends = point.row.model, point.row.clean_interval
    look = {**INTERVAL, "color": model.color}
    return {
        "type": "scatter",
        "mode": "markers",
        "name": escape(model.short),
        "legendgroup": model.name,
        "x": [rounded(point.clean_error)],
        "y": [rounded(point.score.value)],
        "customdata": [[point.clean_text, point.text]],
        "error_x": {} if ends is None else {**look, **error_bar([point.clean_error], [ends])},
        "error_y": {**look, **interval_bar(point.score)},
        "marker": {
            "color": model.color,
            "size": 10,
            "symbol": SYMBOLS[number % len(SYMBOLS)],
        },
        "xaxis": f"x{axes}",
        "yaxis": f"y{axes}",
        "hovertemplate": "clean error %{customdata[0]}, %{customdata[1]}"
        "<extra>%{fullData.name}</extra>",
        "meta": {"model": model.name},
    }


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


def severity_charts(section: TestSection, index: int, dashes: Mapping[str, str]) -> Iterator[Chart]:
    """Yield a chart for each label space and corruption with published severities."""
    for space in section.spaces:
        for panel in severity_panels(section, space):
            traces = [
                _severity_trace(line, number, dashes[line.model.name])
                for number, line in enumerate(panel.lines)
            ]
            yield make_chart(
                "severity", f"{corruption_title(panel.corruption)}: errors by severity",
                panel.in_words(), traces,
                SEVERITY_LAYOUT, section=index, space=space, corruption=panel.corruption,
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
        "meta": {"model": line.model.name},
    }
