"""How near models come to people: bars of HMRI and MRSI, coloured by the kind of model."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from eyechart.reports.html.charts.chart import (
    BARS,
    INK,
    PROPERTY_NAMES,
    Chart,
    Spec,
    axis,
    escape,
    interval_bar,
    labels,
    model_pointer,
    names_axis,
    note,
    rounded,
    slug,
    template,
)
from eyechart.reports.series.palette import CATEGORY_COLOURS, CATEGORY_PATTERNS
from eyechart.reports.series.report import Part, Shown
from eyechart.reports.words import corruption_title, corruption_words
from eyechart.results.schema import Estimate

SCORES = ("hmri", "mrsi")
ROW, AROUND = 30, 130
"""Height of a bar, and of what is around all of them, in pixels."""


@dataclass(frozen=True, eq=False)
class Bars:
    """HMRI and MRSI of a model, and where each stands in its run's results."""

    shown: Shown
    scores: tuple[Estimate, Estimate]
    at: tuple[str, str]

    @property
    def hmri(self) -> float:
        """How much of people's area the model reaches."""
        return self.scores[0].value or 0.0


def index_charts(part: Part, place: int) -> Iterator[Chart]:
    """Yield charts of the means over corruptions, then of each corruption."""
    for space in part.spaces:
        for letter in PROPERTY_NAMES:
            for corruption in ("", *part.corruptions):
                bars = _bars(part, space, letter, corruption)
                if bars:
                    yield _chart(place, space, letter, corruption, bars)


def _bars(part: Part, space: str, letter: str, corruption: str) -> list[Bars]:
    """Return the models that are compared with people, the nearest to people first."""
    found = []
    for shown in part.models:
        own = _of(shown, space, letter, corruption)
        if own is not None and own.scores[0].value is not None:
            found.append(own)
    return sorted(found, key=lambda each: -each.hmri)


def _of(shown: Shown, space: str, letter: str, corruption: str) -> Bars | None:
    scores = shown.space(space)
    if scores is None:
        return None
    if not corruption:
        keys = [f"{name}_{letter}" for name in SCORES]
        if not all(key in scores.means for key in keys):
            return None
        at = tuple(model_pointer(shown, "spaces", space, "means", key, "value") for key in keys)
        return Bars(shown, (scores.means[keys[0]], scores.means[keys[1]]), (at[0], at[1]))
    own = scores.corruptions.get(corruption)
    score = own.properties.get(letter) if own else None
    if score is None or score.people is None:
        return None
    steps = ("spaces", space, "corruptions", corruption, PROPERTY_NAMES[letter], "people")
    at = tuple(model_pointer(shown, *steps, name, "value") for name in SCORES)
    return Bars(shown, (score.people.hmri, score.people.mrsi), (at[0], at[1]))


def _chart(place: int, space: str, letter: str, corruption: str, bars: Sequence[Bars]) -> Chart:
    what = corruption_title(corruption) if corruption else "Mean over corruptions"
    # where nobody said what kind of model any is, each has its own colour
    by_category = any(each.shown.category for each in bars)
    names = labels([each.shown for each in bars])
    data = [
        _trace(each, panel, names[each.shown.name], by_category)
        for panel in range(2)
        for each in bars
    ]
    return Chart(
        slug("people-index", place, space, corruption or "mean", letter),
        "people-index",
        place,
        space,
        corruption,
        f"{what}: {PROPERTY_NAMES[letter]} next to people",
        _alt(letter, corruption, bars),
        {"data": data, "layout": {**_layout(letter, len(bars)), "showlegend": by_category}},
        letter,
    )


def _trace(bars: Bars, panel: int, label: str, by_category: bool) -> Spec:
    shown, number = bars.shown, bars.scores[panel]
    title, colour = CATEGORY_COLOURS[shown.category] if by_category else ("", shown.colour)
    pattern = CATEGORY_PATTERNS[shown.category] if by_category else ""
    return {
        "type": "bar",
        "name": title or escape(shown.short),
        "legendgroup": title,
        "x": [rounded(number.value)],
        "y": [label],
        **({"xaxis": "x2", "yaxis": "y2"} if panel else {}),
        "error_x": interval_bar(number),
        "marker": {"color": colour, "pattern": {"shape": pattern}},
        "meta": {"model": shown.name, "each": [bars.at[panel]], "of": "x"},
    }


def _layout(letter: str, count: int) -> Spec:
    height = AROUND + ROW * count
    sub = {"a": "ₐ", "p": "ₚ"}[letter]
    return {
        "height": height,
        "template": template(bar=BARS),
        "xaxis": axis(f"HMRI{sub}: share of people reached", range=[0, 1.04], domain=[0, 0.6]),
        "yaxis": names_axis(),
        "xaxis2": axis(
            f"MRSI{sub}: ahead of people", domain=[0.66, 1], rangemode="tozero", nticks=4,
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
            note("people", 1, 1, yref="y domain", yanchor="bottom", xanchor="center")
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


def _alt(letter: str, corruption: str, bars: Sequence[Bars]) -> str:
    where = f"under {corruption_words(corruption)}" if corruption else "in the mean of corruptions"
    first, last = bars[0], bars[-1]
    said = f"{first.shown.short} comes nearest to people's {PROPERTY_NAMES[letter]}, HMRI"
    said += f" {first.hmri:.3f}"
    if len(bars) > 1:
        said += f"; {last.shown.short} least, {last.hmri:.3f}"
    ahead = max(bars, key=lambda each: each.scores[1].value or 0.0)
    most = ahead.scores[1].value or 0.0
    more = f"; {ahead.shown.short} is most ahead of people, MRSI {most:.3f}"
    return f"Next to people, {where}: {said}{more if most > 0 else '; none is ahead of people'}."
