"""Errors at fixed severities: mCE against clean error, CE by corruption, errors by severity."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.transforms import ScaledTranslation

from eyechart.reports.figures.drawings import Drawing, Drawings, suite_words
from eyechart.reports.figures.panels import key, label_outer, panels
from eyechart.reports.figures.paper_style import (
    COLUMN,
    DENSE,
    INK,
    MUTED,
    PAGE,
    Look,
    drawable,
    legend,
    looks_of,
)
from eyechart.reports.series.model_errors import (
    MEANS,
    ErrorColumn,
    ErrorScores,
    SeverityPanel,
    error_columns,
    errors_of,
    mean_error_points,
    severity_panels,
    why_no_mce,
)
from eyechart.reports.series.report import ModelEntry, Report
from eyechart.reports.words import suite_title
from eyechart.stats.estimate import Estimate

HEIGHT, BARS_HEIGHT = 1.3, 1.75
BASELINE: dict[str, Any] = {"color": MUTED, "linewidth": 0.8, "linestyle": (0, (1, 2))}
HATCHES = ("", "//", "..", "\\\\", "xx", "--", "++", "oo")
WIDTH = 0.8
"""Of the bars of one corruption together, in distances between two corruptions."""

MEAN = ErrorColumn("", "mean", "mCE")


def plan_errors(report: Report) -> Drawings:
    """Return mCE and errors by severity of each test that has them."""
    drawings, notes = [], []
    for part in report.parts:
        words, rows = suite_words(report, part), errors_of(part)
        suite = suite_title(part.suite)
        if any(mean_error_points(rows, mean) for mean in MEANS):
            caption = (
                f"mCE and relative mCE against the error on clean pictures, {suite}, next to"
                f" {rows[0].errors.baseline}; error bars: 95 %."
            )
            drawings.append(Drawing(("mce", *words), caption, partial(draw_mce, rows)))
        else:
            notes.append(f"{suite}: {why_no_mce(part)}")
        series = severity_panels(part, part.standings.space)
        if series:
            caption = f"Error by severity under the corruptions of {suite}."
            make = partial(draw_severity, series, part.models)
            drawings.append(Drawing(("severity", *words), caption, make))
        else:
            notes.append(f"No errors by severity of {suite}: its severities are continuous.")
    return Drawings(tuple(drawings), tuple(notes))


def plan_error_bars(report: Report) -> Drawings:
    """Return the bars of each test whose errors are divided by a baseline's."""
    drawings = []
    for part in report.parts:
        rows = errors_of(part)
        if rows:
            caption = (
                f"Corruption errors (CE) on {suite_title(part.suite)}, in percent of those of"
                f" {rows[0].errors.baseline}; error bars: 95 %."
            )
            make = partial(draw_error_bars, part.suite, rows)
            drawings.append(Drawing(("ce-bars", *suite_words(report, part)), caption, make))
    return Drawings(tuple(drawings))


def draw_mce(rows: Sequence[ErrorScores]) -> Figure:
    """Return mCE (full marks) and relative mCE (open marks) over clean error, all in percent."""
    looks = looks_of(tuple(row.model for row in rows))
    figure = Figure(figsize=(COLUMN, 2.3))
    axes = figure.subplots()
    for row in rows:
        for mean in MEANS:
            for point in mean_error_points([row], mean):
                look = looks[row.model.name]
                _mark(axes, 100 * point.clean_error, point.score, look, full=mean == "mce")
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


def _mark(axes: Axes, clean: float, score: Estimate, look: Look, full: bool) -> None:
    value = 100 * score.value
    # an interval without an end is drawn to the point alone
    ends = [100 * end if np.isfinite(end) else value for end in score.interval95]
    # side by side, so that no interval hides the other
    shift = ScaledTranslation((-2.5 if full else 2.5) / 72, 0, axes.figure.dpi_scale_trans)
    where = axes.transData + shift
    axes.update_datalim([(clean, end) for end in (*ends, value)])
    axes.plot([clean, clean], ends, color=look.colour, linewidth=0.8, transform=where)
    axes.plot(
        clean, value, marker=look.marker, color=look.colour, markersize=4.5,
        markerfacecolor=look.colour if full else "white", linestyle="", transform=where,
    )  # fmt: skip


def draw_severity(series: Sequence[SeverityPanel], models: tuple[ModelEntry, ...]) -> Figure:
    """Return a panel per corruption: the error of each model at each severity, in percent."""
    looks = looks_of(models)
    figure, axes = panels(len(series), HEIGHT)
    for panel_axes, panel in zip(axes, series, strict=True):
        panel_axes.set_title(drawable(panel.title, 20))
        for line in panel.lines:
            look = looks[line.model.name]
            panel_axes.plot(
                line.severities, [100 * error for error in line.errors], color=look.colour,
                marker=look.marker, markersize=2.8, linewidth=1, linestyle=look.dash,
            )  # fmt: skip
            panel_axes.set_xticks(line.severities)
        panel_axes.set_ylim(0, 102)
        panel_axes.set_yticks([0, 50, 100])
    label_outer(axes, "severity", "error (%)")
    handles = [
        key(look.name, look.colour, marker=look.marker, markersize=2.8, linestyle=look.dash)
        for look in looks.values()
    ]
    legend(figure, handles)
    return figure


def draw_error_bars(suite: str, rows: Sequence[ErrorScores]) -> Figure:
    """Return the CE of each model under each corruption, and mCE where there is one, in percent."""
    columns = error_columns(suite, rows, relative=False)
    if any(row.errors.mce is not None for row in rows):
        columns.append(MEAN)
    figure = Figure(figsize=(PAGE, BARS_HEIGHT))
    axes = figure.subplots()
    looks = looks_of(tuple(row.model for row in rows))
    wide = WIDTH / len(rows)
    for index, row in enumerate(rows):
        values = [
            row.errors.mce if column is MEAN else row.errors.ce.get(column.corruption)
            for column in columns
        ]
        shift = (index - (len(rows) - 1) / 2) * wide
        look = {"width": 0.9 * wide, "color": looks[row.model.name].colour, "hatch": _hatch(index)}
        for middle, score in enumerate(values):
            if score is not None and score.is_known:
                _draw_bar(axes, middle + shift, score, look)
    axes.axhline(100, **BASELINE)
    for index in range(1, len(columns)):
        if columns[index].group != columns[index - 1].group:
            axes.axvline(index - 0.5, color=BASELINE["color"], linewidth=0.4)
    axes.set_xticks(range(len(columns)), [drawable(column.title, 18) for column in columns],
                    rotation=40, ha="right", rotation_mode="anchor")  # fmt: skip
    axes.set_xlim(-0.6, len(columns) - 0.4)
    axes.set_ylim(bottom=0)
    axes.grid(axis="x", visible=False)
    axes.set_ylabel("CE (%)")
    legend(figure, [
        Patch(facecolor=look.colour, edgecolor="white", hatch=_hatch(index), linewidth=0,
              label=look.name)
        for index, look in enumerate(looks.values())
    ])  # fmt: skip
    return figure


def _hatch(index: int) -> str:
    """Return what tells a model's bars from others without colour."""
    return HATCHES[index % len(HATCHES)] * (DENSE // 2)


def _draw_bar(axes: Axes, index: float, score: Estimate, look: dict[str, Any]) -> None:
    value = 100 * score.value
    axes.bar(index, value, edgecolor="white", linewidth=0, **look)
    ends = [100 * end if np.isfinite(end) else value for end in score.interval95]
    axes.plot([index, index], ends, color="black", linewidth=0.6)
