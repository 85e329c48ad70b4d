"""Human-relative robustness: bars of HMRI and MRSI, colored by category of model."""

from collections.abc import Iterator
from itertools import product

from eyechart.reports.html.charts.chart import (
    BARS,
    INK,
    Chart,
    Spec,
    axis,
    escape,
    interval_bar,
    labels,
    make_chart,
    names_axis,
    note,
    rounded,
    slug,
    template,
)
from eyechart.reports.series.human_index import HumanIndex, ScoreBar, human_index
from eyechart.reports.series.palette import CATEGORY_COLORS, CATEGORY_PATTERNS
from eyechart.reports.series.report import Part
from eyechart.scores.registry import PROPERTIES

ROW, AROUND = 30, 130
"""Height of a bar, and of the margins around all bars, in px."""


def index_charts(part: Part, part_index: int) -> Iterator[Chart]:
    """Yield charts of the means over corruptions, then of each corruption."""
    for space, letter in product(part.spaces, PROPERTIES):
        for corruption in ("", *part.corruptions):
            index = human_index(part, space, letter, corruption)
            if index is not None:
                yield _chart(index, part_index, space)


def _chart(index: HumanIndex, part_index: int, space: str) -> Chart:
    # If no model has a category, each has an individual color.
    by_category = any(model.category for model in index.models)
    names = labels(index.models)
    data = [
        _trace(bar, panel, names[bar.model.name], by_category)
        for panel, bars in enumerate((index.hmri, index.mrsi))
        for bar in bars
    ]
    layout = {**_layout(index.letter, len(index.hmri)), "showlegend": by_category}
    identity = slug("human-index", part_index, space, index.corruption or "mean", index.letter)
    return make_chart(
        "human-index", index.title, index.in_words(), data, layout, part=part_index, space=space,
        corruption=index.corruption, letter=index.letter, id=identity,
    )  # fmt: skip


def _trace(bar: ScoreBar, panel: int, label: str, by_category: bool) -> Spec:
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
        "meta": {"model": model.name, "each": [bar.at], "of": "x"},
    }


def _layout(letter: str, count: int) -> Spec:
    height = AROUND + ROW * count
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
