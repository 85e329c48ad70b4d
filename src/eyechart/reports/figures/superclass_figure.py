"""Accuracy on seen and unseen kinds of superclasses against accuracy on ImageNet-1K.

It is Fig. 6 of the ImageNet-C paper, with intervals.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from eyechart.reports.figures.plan import Plan, Plans
from eyechart.reports.figures.style import COLUMN, INK, MARKERS, drawable, legend
from eyechart.reports.names import short_names
from eyechart.reports.series.report import COLOURS
from eyechart.structure.study_results import (
    AccuracyEstimate,
    SuperclassModelScore,
    SuperclassResults,
)

HEIGHT = 2.6
"""In inches, without the legend."""

SIZE = 4
"""Of a mark, in points."""

KINDS = (("seen", COLOURS[0], True), ("unseen", COLOURS[1], False))
"""What is tested, its colour, and whether its marks are filled."""


def plan_superclasses(results: Sequence[SuperclassResults]) -> Plans:
    """Return a figure for each study, and a sentence on models whose place in it is not known."""
    plans, notes = [], []
    for number, own in enumerate(results, start=1):
        known = [model for model in own.models if model.imagenet_accuracy is not None]
        if len(known) < len(own.models):
            missing = next(each for each in own.models if each.imagenet_accuracy is None)
            notes.append(
                f"Not in the figure, for their accuracy on ImageNet-1K is not known:"
                f" {len(own.models) - len(known)} of {len(own.models)} models, such as"
                f" {missing.name}; give --imagenet-accuracy to structure superclass."
            )
        if known:
            words = ("superclasses",) if len(results) == 1 else ("superclasses", str(number))
            caption = (
                "Accuracy on superclasses, of kinds that ImageNet-1K has (seen) and has not"
                f" (unseen), against accuracy on ImageNet-1K before tuning, of {len(known)} models."
                " 95 % intervals, from resampled synsets."
            )
            plans.append(Plan(words, caption, partial(draw, known)))
    return Plans(tuple(plans), tuple(notes))


def draw(models: Sequence[SuperclassModelScore]) -> Figure:
    """Return the scatter plot, in percent; a model has one kind of mark, filled where seen."""
    figure = Figure(figsize=(COLUMN, HEIGHT))
    axes = figure.subplots()
    handles: list[Any] = [
        Line2D([], [], color=colour, marker="o", linestyle="", markersize=SIZE,
               markerfacecolor=colour if is_filled else "white", label=f"{kind} kinds")
        for kind, colour, is_filled in KINDS
    ]  # fmt: skip
    names = short_names([own.name for own in models])
    for place, (own, name) in enumerate(zip(models, names, strict=True)):
        marker = MARKERS[place % len(MARKERS)]
        for kind, colour, is_filled in KINDS:
            share: AccuracyEstimate = getattr(own, kind)
            ends = [[100 * abs(end - share.value)] for end in share.interval]
            axes.errorbar(
                [100 * float(own.imagenet_accuracy or 0)], [100 * share.value], ends,
                fmt=marker, color=colour, markersize=SIZE, elinewidth=0.8, capsize=1.5,
                markerfacecolor=colour if is_filled else "white",
            )  # fmt: skip
        handles.append(
            Line2D([], [], color=INK, marker=marker, linestyle="", markersize=SIZE,
                   label=drawable(name))
        )  # fmt: skip
    axes.set_xlabel("ImageNet-1K accuracy (%)")
    axes.set_ylabel("superclass accuracy (%)")
    legend(figure, handles)
    return figure
