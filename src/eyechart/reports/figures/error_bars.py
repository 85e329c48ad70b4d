"""Corruption errors of models beside each other: a bar per model and corruption, by group."""

from collections.abc import Sequence
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from eyechart.reports.figures.error_figure import BASELINE, Errors, errors_of
from eyechart.reports.figures.plan import Plan, Plans, suite_words
from eyechart.reports.figures.style import DENSE, PAGE, drawable, legend, looks_of
from eyechart.reports.series.report import Report
from eyechart.reports.words import groups_of, suite_title, title_below
from eyechart.results.schema import Estimate

HEIGHT = 1.75
HATCHES = ("", "//", "..", "\\\\", "xx", "--", "++", "oo")
WIDTH = 0.8
"""Of the bars of one corruption together, in distances between two corruptions."""

MEAN = "mean"


def plan_error_bars(report: Report) -> Plans:
    """Return the bars of each test whose errors are divided by a baseline's."""
    plans = []
    for part in report.parts:
        errors = errors_of(part)
        if errors:
            caption = (
                f"Corruption errors (CE) on {suite_title(part.suite)}, in percent of those of"
                f" {errors[0][2].baseline}; error bars: 95 %."
            )
            make = partial(draw_error_bars, part.suite, errors)
            plans.append(Plan(("ce-bars", *suite_words(report, part)), caption, make))
    return Plans(tuple(plans))


def draw_error_bars(suite: str, errors: list[Errors]) -> Figure:
    """Return the CE of each model under each corruption, and mCE where there is one, in percent."""
    names = list(dict.fromkeys(name for _, _, own in errors for name in own.ce))
    groups = groups_of(suite, names)
    columns = [(group, name) for group, members in groups for name in members]
    titles = [title_below(group, name) for group, name in columns]
    if any(own.mce is not None for _, _, own in errors):
        columns, titles = [*columns, (MEAN, MEAN)], [*titles, "mCE"]
    figure = Figure(figsize=(PAGE, HEIGHT))
    axes = figure.subplots()
    looks = looks_of(tuple(model for model, _, _ in errors))
    wide = WIDTH / len(errors)
    for place, (model, _, own) in enumerate(errors):
        values = [own.mce if name == MEAN else own.ce.get(name) for _, name in columns]
        shift = (place - (len(errors) - 1) / 2) * wide
        at = [own_place + shift for own_place in range(len(columns))]
        _bars(axes, at, values, 0.9 * wide, looks[model.name].colour, _hatch(place))
    axes.axhline(100, **BASELINE)
    for place in range(1, len(columns)):
        if columns[place][0] != columns[place - 1][0]:
            axes.axvline(place - 0.5, color=BASELINE["color"], linewidth=0.4)
    axes.set_xticks(range(len(columns)), [drawable(title, 18) for title in titles], rotation=40,
                    ha="right", rotation_mode="anchor")  # fmt: skip
    axes.set_xlim(-0.6, len(columns) - 0.4)
    axes.set_ylim(bottom=0)
    axes.grid(axis="x", visible=False)
    axes.set_ylabel("CE (%)")
    legend(figure, [
        Patch(facecolor=look.colour, edgecolor="white", hatch=_hatch(place), linewidth=0,
              label=look.name)
        for place, look in enumerate(looks.values())
    ])  # fmt: skip
    return figure


def _hatch(place: int) -> str:
    """Return what tells a model's bars from others without colour."""
    return HATCHES[place % len(HATCHES)] * (DENSE // 2)


def _bars(
    axes: Axes,
    at: Sequence[float],
    values: list[Estimate | None],
    width: float,
    colour: str,
    hatch: str,
) -> None:
    for place, number in zip(at, values, strict=True):
        if number is None or number.value is None:
            continue
        value = 100 * number.value
        axes.bar(place, value, width, color=colour, hatch=hatch, edgecolor="white", linewidth=0)
        ends = [value if end is None or not np.isfinite(end) else 100 * end
                for end in number.interval95]  # fmt: skip
        axes.plot([place, place], ends, color="black", linewidth=0.6)
