"""Errors at each of the published levels of severity, for suites that have them."""

from collections.abc import Iterator, Mapping, Sequence

from eyechart.reports.html.charts.chart import (
    Chart,
    Spec,
    axis,
    escape,
    numbers,
    slug,
)
from eyechart.reports.series.palette import SYMBOLS
from eyechart.reports.series.report import Part, Shown
from eyechart.reports.words import corruption_title, corruption_words, space_title

Levels = Mapping[str, float]


def severity_charts(part: Part, place: int, dashes: Mapping[str, str]) -> Iterator[Chart]:
    """Yield a chart for each label space and corruption with levels."""
    for space in part.spaces:
        for corruption in part.corruptions:
            drawn = [
                (shown, levels)
                for shown in part.models
                if (levels := _levels(shown, space, corruption))
            ]
            if drawn:
                steps = ("spaces", space, "corruptions", corruption, "error_by_severity")
                yield Chart(
                    slug("severity", place, space, corruption),
                    "severity",
                    place,
                    space,
                    corruption,
                    f"{corruption_title(corruption)}: errors by severity",
                    _alt(corruption, space, drawn),
                    {
                        "data": [
                            _trace(shown, levels, number, dashes[shown.name], steps)
                            for number, (shown, levels) in enumerate(drawn)
                        ],
                        "layout": _layout(),
                    },
                )


def _levels(shown: Shown, space: str, corruption: str) -> Levels:
    scores = shown.space(space)
    own = scores.corruptions.get(corruption) if scores else None
    return own.error_by_severity if own else {}


def _trace(shown: Shown, levels: Levels, number: int, dash: str, steps: Sequence[object]) -> Spec:
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": escape(shown.short),
        "x": numbers(float(level) for level in levels),
        "y": numbers(levels.values()),
        "line": {"color": shown.colour, "dash": dash},
        "marker": {"symbol": SYMBOLS[number % len(SYMBOLS)], "size": 8, "color": shown.colour},
        "hovertemplate": "severity %{x}: %{y:.1%}<extra>%{fullData.name}</extra>",
        "meta": {
            "model": shown.name,
            "each": [shown.pointer(*steps, level) for level in levels],
        },
    }


def _layout() -> Spec:
    return {
        "height": 340,
        "xaxis": axis("severity", dtick=1),
        "yaxis": axis("share of answers wrong", range=[0, 1.02], tickformat=".0%"),
    }


def _alt(corruption: str, space: str, drawn: Sequence[tuple[Shown, Levels]]) -> str:
    level = max((level for _, levels in drawn for level in levels), key=float)
    known = [(levels[level], shown.short) for shown, levels in drawn if level in levels]
    (least, best), (most, worst) = min(known), max(known)
    said = f"at level {level} {best} has fewest, {least:.1%}, {worst} most, {most:.1%}"
    if least == most:
        said = f"at level {level} {'all have' if len(known) > 1 else f'{best} has'} {least:.1%}"
    return (
        f"Share of wrong answers at each severity of {corruption_words(corruption)}, among"
        f" {space_title(space)}: {said}."
    )
