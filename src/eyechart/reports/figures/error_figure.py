"""Figures of errors at fixed severities: mCE against clean error, CE, error by severity.

CE is also written as LaTeX tables, grouped as noise, blur, weather, digital.
"""

from collections.abc import Sequence
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.transforms import ScaledTranslation

from eyechart.pipeline.scoring.caveats import MEANING
from eyechart.reports.figures.paper_style import (
    COLUMN,
    DENSE,
    INK,
    MUTED,
    PAGE,
    Drawing,
    ModelStyle,
    Planned,
    drawable,
    key,
    label_outer,
    legend,
    model_styles,
    panels,
    suite_words,
)
from eyechart.reports.latex import MADE_BY, plain, table_line, tabular, tex, upright
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
from eyechart.reports.titles import corruption_title, suite_title
from eyechart.scores.registry import SCORES
from eyechart.stats.estimate import Estimate

HEIGHT, BARS_HEIGHT = 1.3, 1.75
BASELINE: dict[str, Any] = {"color": MUTED, "linewidth": 0.8, "linestyle": (0, (1, 2))}
HATCHES = ("", "//", "..", "\\\\", "xx", "--", "++", "oo")
WIDTH = 0.8
"""Total width of the bars of one corruption, relative to the distance between two corruptions."""

MEAN = ErrorColumn("", "mean", "mCE")

WRITTEN_AS = SCORES["mce"]
"""All errors in a table are in percent, with as many decimals as mCE. CE of single corruptions has
fewer decimals, because a table has many of them.
"""

QUERY, NO_NUMBER = "$^?$", "--"
UNSURE = "its 95 percent interval is undetermined, because the baseline may have no errors"


def plan_errors(report: Report) -> Planned:
    """Return figures of mCE and of errors by severity for each test that has them."""
    for section in report.sections:
        words, rows = suite_words(report, section), errors_of(section)
        suite = suite_title(section.suite)
        if any(mean_error_points(rows, mean) for mean in MEANS):
            caption = (
                f"mCE and relative mCE against the error on clean images, {suite}, relative to"
                f" {rows[0].errors.baseline}; error bars: 95 %."
            )
            yield Drawing(("mce", *words), caption, partial(draw_mce, rows))
        else:
            yield f"{suite}: {why_no_mce(section)}"
        series = severity_panels(section, section.standings.space)
        if series:
            caption = f"Error by severity under the corruptions of {suite}."
            make = partial(draw_severity, series, section.models)
            yield Drawing(("severity", *words), caption, make)
        else:
            yield f"No errors by severity for {suite}: its severities are continuous."


def plan_error_bars(report: Report) -> Planned:
    """Return a bar chart of CE for each test that has a baseline."""
    for section in report.sections:
        rows = errors_of(section)
        if rows:
            caption = (
                f"Corruption errors (CE) on {suite_title(section.suite)}, as percentages of the"
                f" errors of {rows[0].errors.baseline}; error bars: 95 %."
            )
            make = partial(draw_error_bars, section.suite, rows)
            yield Drawing(("ce-bars", *suite_words(report, section)), caption, make)


def draw_mce(rows: Sequence[ErrorScores]) -> Figure:
    """Return a plot of mCE (filled) and relative mCE (open) against clean error, in percent."""
    looks = model_styles(tuple(row.model for row in rows))
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
    axes.set(xlabel="error on clean images (%)", ylabel="mCE, relative mCE (%)")
    kinds = [
        key("mCE", INK, marker="o", linestyle="", markersize=4.5),
        key("relative mCE", INK, marker="o", linestyle="", markersize=4.5, markerfacecolor="none"),
    ]
    models = [
        key(look.name, look.color, marker=look.marker, linestyle="", markersize=4.5)
        for look in looks.values()
    ]
    baseline = Line2D([], [], label="baseline: 100 %", **BASELINE)
    legend(figure, [*kinds, *models, baseline])
    return figure


def _mark(axes: Axes, clean: float, score: Estimate, look: ModelStyle, full: bool) -> None:
    value, ends = 100 * score.value, _ends(score)
    # Slightly shifted, so that no interval hides another.
    shift = ScaledTranslation((-2.5 if full else 2.5) / 72, 0, axes.figure.dpi_scale_trans)
    where = axes.transData + shift
    # Autoscaling ignores what is drawn with a transformation other than `transData`.
    axes.update_datalim([(clean, end) for end in (*ends, value)])
    axes.plot([clean, clean], ends, color=look.color, linewidth=0.8, transform=where)
    axes.plot(
        clean, value, marker=look.marker, color=look.color, markersize=4.5,
        markerfacecolor=look.color if full else "white", linestyle="", transform=where,
    )  # fmt: skip


def _ends(score: Estimate) -> list[float]:
    # An undetermined interval is drawn with length zero.
    return [100 * (end if np.isfinite(end) else score.value) for end in score.interval95]


def draw_severity(series: Sequence[SeverityPanel], models: tuple[ModelEntry, ...]) -> Figure:
    """Return a figure with a panel per corruption: each model's error by severity, in percent."""
    looks = model_styles(models)
    figure, axes = panels(len(series), HEIGHT)
    for panel_axes, panel in zip(axes, series, strict=True):
        panel_axes.set_title(drawable(corruption_title(panel.corruption), 20))
        for line in panel.lines:
            look = looks[line.model.name]
            panel_axes.plot(
                line.severities, [100 * error for error in line.errors], color=look.color,
                marker=look.marker, markersize=2.8, linewidth=1, linestyle=look.dash,
            )  # fmt: skip
            panel_axes.set_xticks(line.severities)
        panel_axes.set_ylim(0, 102)
        panel_axes.set_yticks([0, 50, 100])
    label_outer(axes, "severity", "error (%)")
    handles = [
        key(look.name, look.color, marker=look.marker, markersize=2.8, linestyle=look.dash)
        for look in looks.values()
    ]
    legend(figure, handles)
    return figure


def draw_error_bars(suite: str, rows: Sequence[ErrorScores]) -> Figure:
    """Return a bar chart of CE by corruption and model, and of mCE where available, in percent."""
    columns = error_columns(suite, rows, relative=False)
    if any(row.errors.mce is not None for row in rows):
        columns.append(MEAN)
    figure = Figure(figsize=(PAGE, BARS_HEIGHT))
    axes = figure.subplots()
    looks = model_styles(tuple(row.model for row in rows))
    wide = WIDTH / len(rows)
    for index, row in enumerate(rows):
        values = [
            row.errors.mce if column is MEAN else row.errors.ce.get(column.corruption)
            for column in columns
        ]
        shift = (index - (len(rows) - 1) / 2) * wide
        for middle, score in enumerate(values):
            if score is not None and score.is_known:
                axes.bar(
                    middle + shift, 100 * score.value, edgecolor="white", linewidth=0,
                    width=0.9 * wide, color=looks[row.model.name].color, hatch=_hatch(index),
                )  # fmt: skip
                axes.plot([middle + shift] * 2, _ends(score), color="black", linewidth=0.6)
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
        Patch(facecolor=look.color, edgecolor="white", hatch=_hatch(index), linewidth=0,
              label=look.name)
        for index, look in enumerate(looks.values())
    ])  # fmt: skip
    return figure


def _hatch(index: int) -> str:
    """Return the hatch that distinguishes a model's bars without color."""
    return HATCHES[index % len(HATCHES)] * (DENSE // 2)


def plan_error_tables(report: Report) -> Planned:
    """Return the tables of CE and relative CE for each test that has them."""
    for section in report.sections:
        rows = errors_of(section)
        for relative, name in ((False, "corruption-errors"), (True, "relative-corruption-errors")):
            if any(row.by_corruption(relative) for row in rows):
                make = partial(error_table, section.suite, rows, relative)
                words = (name, *suite_words(report, section))
                yield Drawing(words, _table_caption(rows, relative), make, (".tex",))


def _table_caption(rows: Sequence[ErrorScores], relative: bool) -> str:
    title = "Relative corruption errors" if relative else "Corruption errors"
    return f"{title} and their mean, as percentages of {rows[0].errors.baseline}'s errors."


def error_table(suite: str, rows: Sequence[ErrorScores], relative: bool) -> str:
    """Return a LaTeX table with a row for each model, best first, in percent."""
    columns = error_columns(suite, rows, relative)
    names = [column.corruption for column in columns]
    by_group = groupby(columns, key=lambda column: column.group)
    groups = [(group, len(list(members))) for group, members in by_group]
    head = ["Model", "Error", "Rel. mCE" if relative else "mCE"]
    lines = []
    for errors in rows:
        trained_on = [name for name in names if name in errors.model.results.marked]
        scores = errors.by_corruption(relative)
        clean, mean = errors.clean_error, _number(errors.mean(relative), bool(trained_on))
        cells = [NO_NUMBER if clean is None else WRITTEN_AS.text(clean), mean]
        cells += [_number(scores.get(name), name in trained_on, is_short=True) for name in names]
        lines.append([tex(errors.model.short), *cells])
    has_marks = any(row.model.results.marked for row in rows)
    return "\n".join(
        [
            f"{MADE_BY} {plain(_table_caption(rows, relative))}",
            r"% This table needs \usepackage{booktabs} and \usepackage{graphicx}.",
            *([rf"% $^\dagger$: {MEANING}."] if has_marks else []),
            *([f"% {QUERY}: {UNSURE}."] if _has_undetermined(rows, relative) else []),
            *tabular(
                " ".join(["lrr", *("r" * count for _, count in groups)]),
                [*_group_lines(groups), table_line([*head, *(upright(c.title) for c in columns)])],
                lines,
            ),
            "",
        ]
    )


def _group_lines(groups: Sequence[tuple[str, int]]) -> list[str]:
    """Return the row of group names and the rules below it; empty if there are no groups."""
    if not any(group for group, _ in groups):
        return []
    # Model, error and mean precede the groups; LaTeX counts columns from 1.
    cells, rules, start = ["", "", ""], [], 4
    for group, count in groups:
        end = start + count - 1
        cells.append(rf"\multicolumn{{{count}}}{{c}}{{{tex(group.capitalize())}}}")
        rules.append(rf"\cmidrule(lr){{{start}-{end}}}")
        start = end + 1
    return [table_line(cells), "".join(rules)]


def _number(number: Estimate | None, is_marked: bool, is_short: bool = False) -> str:
    if number is None or not number.is_known:
        return NO_NUMBER
    marks = (r"$^\dagger$" if is_marked else "") + (QUERY if _is_undetermined(number) else "")
    return WRITTEN_AS.text(number.value, is_short=is_short) + marks


def _is_undetermined(number: Estimate | None) -> bool:
    return number is not None and not number.has_interval


def _has_undetermined(rows: Sequence[ErrorScores], relative: bool) -> bool:
    means = (row.mean(relative) for row in rows)
    scores = (score for row in rows for score in row.by_corruption(relative).values())
    return any(map(_is_undetermined, (*means, *scores)))
