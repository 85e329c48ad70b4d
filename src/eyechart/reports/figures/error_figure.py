"""Errors at fixed severities: mCE against clean error, and the error at each severity."""

from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.transforms import ScaledTranslation

from eyechart.reports.figures.panels import key, label_outer, panels
from eyechart.reports.figures.plan import Plan, Plans, suite_words
from eyechart.reports.figures.style import COLUMN, INK, MUTED, Look, drawable, legend, looks_of
from eyechart.reports.series.report import Part, Report, Shown
from eyechart.reports.words import corruption_title, suite_title
from eyechart.results.schema import Estimate, NormalizedErrors, SpaceResults

HEIGHT = 1.3
BASELINE: dict[str, Any] = {"color": MUTED, "linewidth": 0.8, "linestyle": (0, (1, 2))}

Errors = tuple[Shown, SpaceResults, NormalizedErrors]


def errors_of(part: Part) -> list[Errors]:
    """Return the models of a test that have corruption errors, in the space it is ranked in."""
    found = []
    for model in part.models:
        for space in (part.standings.space, *part.spaces):
            own = model.space(space)
            if own is not None and own.corruption_error is not None and own.corruption_error.ce:
                found.append((model, own, own.corruption_error))
                break
    return found


def plan_errors(report: Report) -> Plans:
    """Return mCE and errors by severity of each test that has them."""
    plans, notes = [], []
    for part in report.parts:
        words, errors = suite_words(report, part), errors_of(part)
        suite = suite_title(part.suite)
        if any(_points(own) for own in errors):
            caption = (
                f"mCE and relative mCE against the error on clean pictures, {suite}, next to"
                f" {errors[0][2].baseline}; error bars: 95 %."
            )
            plans.append(Plan(("mce", *words), caption, partial(draw_mce, errors)))
        else:
            notes.append(f"{suite}: {_why_no_mce(part)}")
        space = part.standings.space
        if any(
            _by_severity(model, space, name) for model in part.models for name in part.corruptions
        ):
            caption = f"Error by severity under the corruptions of {suite}."
            plans.append(Plan(("severity", *words), caption, partial(draw_severity, part, space)))
        else:
            notes.append(f"No errors by severity of {suite}: its severities are continuous.")
    return Plans(tuple(plans), tuple(notes))


def _why_no_mce(part: Part) -> str:
    spaces = [model.space(space) for model in part.models for space in part.spaces]
    errors = [own.corruption_error for own in spaces if own is not None]
    given = [own.note for own in errors if own is not None and own.note]
    return (*given, "No mCE: there are no errors of a baseline to divide by.")[0]


def _points(errors: Errors) -> list[Estimate]:
    _, space, own = errors
    if space.clean_accuracy is None or space.clean_accuracy.value is None:
        return []
    return [each for each in (own.mce, own.relative_mce) if each is not None]


def draw_mce(errors: list[Errors]) -> Figure:
    """Return mCE (full marks) and relative mCE (open marks) over clean error, all in percent."""
    looks = looks_of(tuple(model for model, _, _ in errors))
    figure = Figure(figsize=(COLUMN, 2.3))
    axes = figure.subplots()
    for model, space, own in errors:
        if space.clean_accuracy is None or space.clean_accuracy.value is None:
            continue
        clean = 100 * (1 - space.clean_accuracy.value)
        look = looks[model.name]
        _mark(axes, clean, own.mce, look, full=True)
        _mark(axes, clean, own.relative_mce, look, full=False)
    axes.axhline(100, **BASELINE)
    axes.margins(x=0.12)
    axes.autoscale_view()
    axes.set(xlabel="error on clean pictures (%)", ylabel="mCE, relative mCE (%)")
    kinds = [
        key("mCE", INK, marker="o", linestyle="", markersize=4.5),
        key("relative mCE", INK, marker="o", linestyle="", markersize=4.5, markerfacecolor="none"),
    ]
    models = [
        key(look.name, look.colour, marker=look.marker, linestyle="", markersize=4.5)
        for look in looks.values()
    ]
    baseline = Line2D([], [], label="baseline: 100 %", **BASELINE)
    legend(figure, [*kinds, *models, baseline])
    return figure


def _mark(axes: Axes, clean: float, number: Estimate | None, look: Look, full: bool) -> None:
    if number is None or number.value is None:
        return
    value = 100 * number.value
    low, high = (value if end is None else 100 * end for end in number.interval95)
    # an interval without an upper end is drawn to the point alone
    ends = [end if np.isfinite(end) else value for end in (low, high)]
    # side by side, so that no interval hides the other
    shift = ScaledTranslation((-2.5 if full else 2.5) / 72, 0, axes.figure.dpi_scale_trans)
    where = axes.transData + shift
    axes.update_datalim([(clean, end) for end in (*ends, value)])
    axes.plot([clean, clean], ends, color=look.colour, linewidth=0.8, transform=where)
    axes.plot(
        clean, value, marker=look.marker, color=look.colour, markersize=4.5,
        markerfacecolor=look.colour if full else "white", linestyle="", transform=where,
    )  # fmt: skip


def _by_severity(model: Shown, space: str, corruption: str) -> dict[float, float]:
    own = model.space(space)
    score = None if own is None else own.corruptions.get(corruption)
    found = {} if score is None else score.error_by_severity
    return {float(level): found[level] for level in sorted(found, key=float)}


def draw_severity(part: Part, space: str) -> Figure:
    """Return a panel per corruption: the error of each model at each severity, in percent."""
    looks = looks_of(part.models)
    shown = [
        name
        for name in part.corruptions
        if any(_by_severity(model, space, name) for model in part.models)
    ]
    figure, axes = panels(len(shown), HEIGHT)
    for own, name in zip(axes, shown, strict=True):
        own.set_title(drawable(corruption_title(name), 20))
        for model in part.models:
            errors = _by_severity(model, space, name)
            look = looks[model.name]
            own.plot(
                list(errors), [100 * each for each in errors.values()], color=look.colour,
                marker=look.marker, markersize=2.8, linewidth=1, linestyle=look.dash,
            )  # fmt: skip
            own.set_xticks(list(errors))
        own.set_ylim(0, 102)
        own.set_yticks([0, 50, 100])
    label_outer(axes, "severity", "error (%)")
    handles = [
        key(look.name, look.colour, marker=look.marker, markersize=2.8, linestyle=look.dash)
        for look in looks.values()
    ]
    legend(figure, handles)
    return figure
