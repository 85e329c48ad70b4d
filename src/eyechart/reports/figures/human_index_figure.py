"""Figures for one corruption: HMRI and MRSI of every model, and the underlying curves.

Without human data, robustness replaces HMRI and MRSI.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from eyechart.humans.transfer import bare_name
from eyechart.reports.figures.curve_figure import size
from eyechart.reports.figures.drawings import Drawing, Planned, planned, suite_words
from eyechart.reports.figures.panels import (
    FEW,
    VISUAL_CHANGE,
    draw_bars,
    draw_humans,
    draw_line,
    key,
    letters,
    real,
    unit_square,
)
from eyechart.reports.figures.paper_style import (
    INK,
    PAGE,
    Look,
    category_patches,
    legend,
    looks_of,
)
from eyechart.reports.series.curves import (
    CurvePanel,
    best_space,
    curve_panel,
    fitted_letters,
    has_humans,
)
from eyechart.reports.series.human_index import ScoreBar, score_bars
from eyechart.reports.series.palette import HUMAN_COLOR
from eyechart.reports.series.report import Part, Report
from eyechart.reports.words import corruption_title, suite_title
from eyechart.scores.registry import PROPERTIES, SCORES

ROW = 0.155
"""Height of a bar with its margin, in inches."""

BARE = 0.62
"""Height of the title and axis of a row, in inches."""


@planned
def plan_human_index(report: Report) -> Planned:
    """Return a figure for each corruption under which a curve could be fitted."""
    for part in report.parts:
        alone = []
        for corruption in part.corruptions:
            space = best_space(part, corruption)
            if space is None:
                suite = suite_title(part.suite)
                yield f"No curves for {corruption} ({suite}): none could be fitted."
                continue
            if not has_humans(part, space, corruption):
                alone.append(corruption)
            words = ("curves", *suite_words(report, part), bare_name(corruption))
            make = partial(draw_human_index, part, space, corruption)
            yield Drawing(words, _caption(part, space, corruption), make)
        if alone:
            yield (
                "No human curves, because there are too few human responses, if any, to these"
                f" corruptions of {suite_title(part.suite)}:"
                f" {'all' if alone == list(part.corruptions) else ', '.join(alone)}."
            )


def _caption(part: Part, space: str, corruption: str) -> str:
    humans = has_humans(part, space, corruption)
    title = "HMRI, MRSI and curves compared with humans" if humans else "robustness and curves"
    return (
        f"{corruption_title(corruption)}: {title}, {size(part, space)}; error bars: 95 %, bands:"
        " 83 %, pale lines: not observed."
    )


def draw_human_index(part: Part, space: str, corruption: str) -> Figure:
    """Return a figure with a row for accuracy and one for consistency: bar panels and curves."""
    rows = fitted_letters(part, space, corruption)
    looks = looks_of(part.models, by_category=True)
    height = max(1.75, ROW * len(part.models) + BARE)
    figure = Figure(figsize=(PAGE, height * len(rows) + 0.1))
    with_humans = has_humans(part, space, corruption)
    widths = (1, 1, 1.15) if with_humans else (1, 1)
    grid = figure.add_gridspec(len(rows), len(widths), width_ratios=widths)
    named = letters()
    has_gaps = False
    for index, letter in enumerate(rows):
        panel = curve_panel(part.models, space, corruption, letter, human_scale=True)
        bars = _bars(panel)
        for column, (name, sign) in enumerate(bars):
            # A single score takes the space of both panels.
            cells = slice(column, column + 1) if len(bars) > 1 else slice(0, len(widths) - 1)
            axes = figure.add_subplot(grid[index, cells], title=f"{next(named)} {sign}")
            series = score_bars(part.models, space, SCORES[f"{name}_{letter}"], corruption)
            _draw_bars(axes, series, looks, is_share=name != "mrsi")
            axes.tick_params(labelleft=column == 0)
        scale = ", chance-corrected" if panel.is_corrected else ""
        title = f"{next(named)} {PROPERTIES[letter]} $s_{letter}${scale}"
        axes = figure.add_subplot(grid[index, -1], title=title)
        _draw_curves(axes, panel, looks)
        has_gaps |= panel.has_gaps
    legend(figure, [*category_patches(part.models), *_keys(with_humans, has_gaps)])
    return figure


def _bars(panel: CurvePanel) -> list[tuple[str, str]]:
    """Return the name (without its property suffix) and symbol of each score drawn as bars."""
    if panel.humans is not None:
        return [("hmri", rf"$HMRI_{panel.letter}$"), ("mrsi", rf"$MRSI_{panel.letter}$")]
    return [("r", rf"$\mathcal{{R}}_{panel.letter}$")]


def _keys(with_humans: bool, has_gaps: bool) -> list[Line2D]:
    """Return the legend entries of the lines."""
    keys = [key("Humans, with 83 % band", HUMAN_COLOR, linewidth=1.8)] if with_humans else []
    keys.append(key("95 % interval", INK, linewidth=0.8))
    if has_gaps:
        keys.append(key("pale: not observed", INK, linewidth=0.9, alpha=0.4))
    return keys


def _draw_bars(
    axes: Axes, bars: Sequence[ScoreBar], looks: dict[str, Look], is_share: bool
) -> None:
    """Draw a bar for each model, best at the top, with its value and 95 % interval."""
    in_order = [looks[bar.model.name] for bar in bars]
    values = real([bar.value for bar in bars])
    low = real([bar.interval95[0] for bar in bars])
    high = real([bar.interval95[1] for bar in bars])
    # A missing score keeps its row: a bar of length 0, labeled with a dash.
    draw_bars(axes, in_order, np.nan_to_num(values), (low, high), [bar.text for bar in bars])
    # 0.05 gives the axis a width where MRSI is 0 or missing for every model.
    top = np.nanmax(np.r_[high, values, 0.05])
    axes.set_xlim(0, 1 if is_share else min(1, 1.25 * top))
    axes.tick_params(axis="y", pad=26)
    if is_share:
        _draw_keys(axes, in_order)


def _draw_keys(axes: Axes, looks: Sequence[Look]) -> None:
    """Draw each model's line style between its name and its bar."""
    for index, look in enumerate(looks):
        axes.annotate(
            "", (-3, index), (-24, index),
            xycoords=("axes points", "data"), textcoords=("axes points", "data"),
            arrowprops={
                "arrowstyle": "-", "color": look.color, "linestyle": look.dash, "linewidth": 1.2,
                "shrinkA": 0, "shrinkB": 0,
            },
            annotation_clip=False,
        )  # fmt: skip


def _draw_curves(axes: Axes, panel: CurvePanel, looks: dict[str, Look]) -> None:
    """Draw the models' curves and the human curve."""
    unit_square(axes)
    axes.set_xlabel(VISUAL_CHANGE)
    if panel.humans is not None:
        draw_humans(axes, panel.humans.line)
    for curve in panel.curves:
        look = looks[curve.model.name]
        draw_line(
            axes, curve.line, color=look.color, dash=look.dash, observed=curve.score.observed,
            band=0.14 if len(looks) <= FEW else 0,
        )  # fmt: skip
