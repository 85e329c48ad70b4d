"""The four areas between a model's curve and people's: below each, and where one is ahead."""

from functools import partial

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from eyechart.reports.figures.curve_figure import property_of
from eyechart.reports.figures.panels import (
    VISUAL_CHANGE,
    key,
    label_outer,
    panels,
    real,
    unit_square,
)
from eyechart.reports.figures.plan import Plan, Plans, suite_words
from eyechart.reports.figures.style import PEOPLE, SMALL, drawable, legend
from eyechart.reports.series.palette import AREAS
from eyechart.reports.series.report import Part, Report, Shown
from eyechart.reports.words import corruption_title, suite_title
from eyechart.results.schema import HumanComparison
from eyechart.scores.evaluation import PROPERTIES

HEIGHT = 1.6
NUMBER = 24
"""Room for a number before its name, in points."""
BOTH = "#e4e4e4"
TINTS = {"people": "#fbe9c6", "model": "#cfe4f1"}
HATCHES = {"people": "/" * 5, "model": "\\" * 5}

Shape = tuple[str, str, HumanComparison]
"""A corruption, the letter of a property, and people next to the model there."""


def plan_areas(report: Report) -> Plans:
    """Return a figure for each model that stands next to people."""
    plans, notes = [], []
    for part in report.parts:
        for model in part.models:
            shapes = _shapes(part, model)
            if not shapes:
                notes.append(
                    f"No areas of {suite_title(part.suite)}: there are no people to compare with."
                )
                continue
            words = ("areas", *suite_words(report, part), model.short)
            caption = (
                f"{model.short} next to people: areas below both curves, and where one is ahead."
            )
            plans.append(Plan(words, caption, partial(draw_areas, model, shapes)))
    return Plans(tuple(plans), tuple(notes))


def _shapes(part: Part, model: Shown) -> list[Shape]:
    return [
        (corruption, letter, score.people)
        for letter in PROPERTIES
        for corruption in part.corruptions
        for space in part.spaces
        for score in [property_of(model, space, corruption, letter)]
        if score is not None and score.people is not None
    ]


def draw_areas(model: Shown, shapes: list[Shape]) -> Figure:
    """Return a panel for each corruption and property that a model and people have."""
    figure, axes = panels(len(shapes), HEIGHT)
    several = len({letter for _, letter, _ in shapes}) > 1
    for own, (corruption, letter, people) in zip(axes, shapes, strict=True):
        _draw_panel(own, people)
        title = drawable(corruption_title(corruption))
        own.set_title(f"{title}, $s_{letter}$" if several else title)
    label = " and ".join(dict.fromkeys(PROPERTIES[letter] for _, letter, _ in shapes))
    label_outer(axes, VISUAL_CHANGE, label)
    legend(
        figure,
        [
            key("people", PEOPLE, linewidth=1.6),
            key(drawable(model.short), AREAS["model"][1], linestyle="--", linewidth=1.6),
            Patch(facecolor=BOTH, label="below both curves"),
            *(
                Patch(
                    facecolor=TINTS[who], edgecolor=AREAS[who][1], hatch=HATCHES[who], linewidth=0,
                    label=f"{who} ahead",
                )
                for who in ("people", "model")
            ),
        ],
    )  # fmt: skip
    return figure


def _draw_panel(axes: Axes, people: HumanComparison) -> None:
    unit_square(axes)
    change = real(people.line.delta_v)
    theirs, own = real(people.line.values), real(people.model_line.values)
    lower = [min(pair) for pair in zip(theirs, own, strict=True)]
    axes.fill_between(change, lower, color=BOTH, linewidth=0)
    for who, top, bottom in (("people", theirs, own), ("model", own, theirs)):
        axes.fill_between(
            change, bottom, top, where=top >= bottom, interpolate=True, facecolor=TINTS[who],
            edgecolor=AREAS[who][1], hatch=HATCHES[who], linewidth=0,
        )  # fmt: skip
    axes.plot(change, theirs, color=PEOPLE, linewidth=1.6)
    axes.plot(change, own, color=AREAS["model"][1], linestyle="--", linewidth=1.6)
    areas = people.areas
    rows = (
        ("people", areas.human),
        ("model", areas.model),
        ("people ahead", areas.human_ahead),
        ("model ahead", areas.model_ahead),
        ("HMRI", people.hmri.value),
        ("MRSI", people.mrsi.value),
    )
    numbers = ["–" if value is None else f"{value:.3f}" for _, value in rows]
    for text, shift in (("\n".join(numbers), 0), ("\n".join(name for name, _ in rows), NUMBER)):
        axes.annotate(
            text, (0.04, 0.03), (shift, 0), xycoords="axes fraction",
            textcoords="offset points", fontsize=SMALL, va="bottom",
        )  # fmt: skip
