"""One corruption in full: HMRI and MRSI of every model, and the curves behind them.

Where there are no people: robustness and the curves.
"""

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from eyechart.humans.transfer import bare_name
from eyechart.reports.figures.curve_figure import people_of, property_of, size
from eyechart.reports.figures.panels import (
    FEW,
    VISUAL_CHANGE,
    draw_line,
    draw_people,
    key,
    letters,
    real,
    unit_square,
)
from eyechart.reports.figures.plan import Plan, Plans, suite_words
from eyechart.reports.figures.style import (
    INK,
    PAGE,
    PEOPLE,
    SMALL,
    Look,
    category_patches,
    legend,
    looks_of,
)
from eyechart.reports.series.report import Part, Report, Shown
from eyechart.reports.words import corruption_title, suite_title
from eyechart.results.schema import Estimate, PropertyResults
from eyechart.scores.evaluation import PROPERTIES

ROW = 0.155
"""Height of a bar with its room, in inches."""

BARE = 0.62
"""Height of a row's title and axis, in inches."""

Bar = tuple[str, str]
"""A score of `_number`, and its sign."""


def plan_people_index(report: Report) -> Plans:
    """Return a figure for each corruption under which a curve could be fitted."""
    plans, notes = [], []
    for part in report.parts:
        alone = []
        for corruption in part.corruptions:
            space = best_space(part, corruption)
            if space is None:
                notes.append(
                    f"No curves of {corruption} ({suite_title(part.suite)}): none could be fitted."
                )
                continue
            if not _has_people(part, space, corruption):
                alone.append(corruption)
            words = ("curves", *suite_words(report, part), bare_name(corruption))
            make = partial(draw_people_index, part, space, corruption)
            plans.append(Plan(words, _caption(part, space, corruption), make))
        if alone:
            notes.append(
                f"Drawn without people, whose answers do not speak for them, or too few:"
                f" {'all' if alone == list(part.corruptions) else ', '.join(alone)} of"
                f" {suite_title(part.suite)}."
            )
    return Plans(tuple(plans), tuple(notes))


def best_space(part: Part, corruption: str) -> str | None:
    """Return the label space with people if there is one, else the first with a curve."""
    fitted = [space for space in part.spaces if list(_rows(part, space, corruption))]
    nearer = [space for space in fitted if _has_people(part, space, corruption)]
    return (*nearer, *fitted, None)[0]


def _has_people(part: Part, space: str, corruption: str) -> bool:
    return any(people_of(part, space, corruption, letter) for letter in PROPERTIES)


def _rows(part: Part, space: str, corruption: str) -> Iterator[str]:
    """Yield the properties that have a curve."""
    for letter in PROPERTIES:
        own = [property_of(model, space, corruption, letter) for model in part.models]
        if any(score is not None and score.curve is not None for score in own):
            yield letter


def _caption(part: Part, space: str, corruption: str) -> str:
    people = _has_people(part, space, corruption)
    what = "HMRI, MRSI and curves next to people" if people else "robustness and curves"
    return (
        f"{corruption_title(corruption)}: {what}, {size(part, space)}; error bars: 95 %, bands:"
        " 83 %, pale lines: not observed."
    )


def draw_people_index(part: Part, space: str, corruption: str) -> Figure:
    """Return a row each for accuracy and consistency: bars, bars, curves."""
    rows = list(_rows(part, space, corruption))
    looks = looks_of(part.models, by_category=True)
    height = max(1.75, ROW * len(part.models) + BARE)
    figure = Figure(figsize=(PAGE, height * len(rows) + 0.1))
    with_people = _has_people(part, space, corruption)
    widths = (1, 1, 1.15) if with_people else (1, 1)
    grid = figure.add_gridspec(len(rows), len(widths), width_ratios=widths)
    named = letters()
    pale = False
    for place, letter in enumerate(rows):
        scores = _scores(part, space, corruption, letter)
        bars = _bars(scores, letter)
        for column, (kind, sign) in enumerate(bars):
            # a single score takes the room of both
            cells = slice(column, column + 1) if len(bars) > 1 else slice(0, len(widths) - 1)
            axes = figure.add_subplot(grid[place, cells], title=f"{next(named)} {sign}")
            _draw_bars(axes, part.models, scores, looks, kind)
            axes.tick_params(labelleft=column == 0)
        title = f"{next(named)} {PROPERTIES[letter]} $s_{letter}${_scale(scores)}"
        axes = figure.add_subplot(grid[place, -1], title=title)
        pale |= _draw_curves(axes, part.models, scores, looks)
    legend(figure, [*category_patches(part.models), *_keys(with_people, pale)])
    return figure


def _bars(scores: dict[str, PropertyResults], letter: str) -> list[Bar]:
    if any(score.people is not None for score in scores.values()):
        return [("hmri", rf"$HMRI_{letter}$"), ("mrsi", rf"$MRSI_{letter}$")]
    return [("robustness", rf"$\mathcal{{R}}_{letter}$")]


def _scale(scores: dict[str, PropertyResults]) -> str:
    people = [score.people for score in scores.values() if score.people is not None]
    return ", less chance" if any(own.corrected_for_chance for own in people) else ""


def _keys(with_people: bool, pale: bool) -> list[Line2D]:
    """Return the legend's entries of lines."""
    found = [key("People, with 83 % band", PEOPLE, linewidth=1.8)] if with_people else []
    found.append(key("95 % interval", INK, linewidth=0.8))
    if pale:
        found.append(key("pale: not observed", INK, linewidth=0.9, alpha=0.4))
    return found


def _scores(part: Part, space: str, corruption: str, letter: str) -> dict[str, PropertyResults]:
    found = {model.name: property_of(model, space, corruption, letter) for model in part.models}
    return {name: score for name, score in found.items() if score is not None}


def _number(score: PropertyResults | None, kind: str) -> Estimate | None:
    if score is None:
        return None
    if kind == "robustness":
        return score.robustness
    if score.people is None:
        return None
    return score.people.hmri if kind == "hmri" else score.people.mrsi


def _draw_bars(
    axes: Axes,
    models: Sequence[Shown],
    scores: dict[str, PropertyResults],
    looks: dict[str, Look],
    kind: str,
) -> None:
    """Draw a bar for each model, best on top, with its number and its 95 % interval."""
    found = [_number(scores.get(model.name), kind) for model in models]
    own = [looks[model.name] for model in models]
    values = real([None if each is None else each.value for each in found])
    low = real([None if each is None else each.interval95[0] for each in found])
    high = real([None if each is None else each.interval95[1] for each in found])
    places = np.arange(len(models))
    axes.barh(
        places,
        np.nan_to_num(values),
        height=thickness(len(models)),
        color=[look.colour for look in own],
        hatch=[look.hatch for look in own],
        edgecolor="white",
        linewidth=0,
    )
    axes.hlines(places, low, high, color=INK, linewidth=0.8)
    top = np.nanmax(np.r_[high, values, 0.05])
    axes.set_xlim(0, 1 if kind != "mrsi" else min(1, 1.25 * top))
    axes.set_ylim(len(models) - 0.4, -0.6)
    axes.set_yticks(places, [look.name for look in own])
    axes.tick_params(axis="y", length=0, pad=26)
    axes.grid(axis="y", visible=False)
    for place, value in enumerate(values):
        axes.text(
            1.02, place, "–" if np.isnan(value) else f"{value:.2f}",
            transform=axes.get_yaxis_transform(), fontsize=SMALL, va="center",
        )  # fmt: skip
    if kind != "mrsi":
        _draw_keys(axes, own)


def thickness(bars: int) -> float:
    """Return how thick bars are, in rows: fewer are thinner, as their rows are higher."""
    return 0.72 * min(1.0, (bars + 2) / 8)


def _draw_keys(axes: Axes, looks: Sequence[Look]) -> None:
    """Draw each model's line between its name and its bar."""
    for place, look in enumerate(looks):
        axes.annotate(
            "", (-3, place), (-24, place),
            xycoords=("axes points", "data"), textcoords=("axes points", "data"),
            arrowprops={
                "arrowstyle": "-", "color": look.colour, "linestyle": look.dash, "linewidth": 1.2,
                "shrinkA": 0, "shrinkB": 0,
            },
            annotation_clip=False,
        )  # fmt: skip


def _draw_curves(
    axes: Axes, models: Sequence[Shown], scores: dict[str, PropertyResults], looks: dict[str, Look]
) -> bool:
    """Draw the curves, people's with them; return whether a part of any was not observed."""
    unit_square(axes)
    axes.set_xlabel(VISUAL_CHANGE)
    people = next((own.people for own in scores.values() if own.people is not None), None)
    if people is not None:
        draw_people(axes, people.line)
    pale = False
    for model in models:
        score = scores.get(model.name)
        if score is None or score.curve is None:
            continue
        # on people's scale, which may be corrected for chance
        line = score.curve if score.people is None else score.people.model_line
        draw_line(
            axes, line, colour=looks[model.name].colour, dash=looks[model.name].dash,
            observed=score.observed, band=0.14 if len(models) <= FEW else 0,
        )  # fmt: skip
        pale |= sum(end - start for start, end in score.observed) < 0.98
    return pale
