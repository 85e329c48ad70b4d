"""Figures of scores: the main score under every corruption, HMRI and MRSI, and ranks of models."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from eyechart.humans.transfer import bare_name
from eyechart.reports.figures.curve_figures import size_in_words
from eyechart.reports.figures.paper_style import (
    COLUMN,
    FEW,
    INK,
    PAGE,
    VISUAL_CHANGE,
    Drawing,
    ModelStyle,
    Planned,
    category_patches,
    draw_bars,
    draw_humans,
    draw_line,
    drawable,
    key,
    legend,
    letters,
    model_styles,
    real,
    suite_words,
    unit_square,
)
from eyechart.reports.series.curves import (
    CurvePanel,
    best_space,
    curve_panel,
    fitted_letters,
    has_humans,
)
from eyechart.reports.series.model_scores import (
    MainScore,
    RankPanel,
    ScoreBar,
    main_score,
    rank_panels,
    score_bars,
)
from eyechart.reports.series.palette import CHANGE, HUMAN_COLOR
from eyechart.reports.series.report import Report, TestSection
from eyechart.reports.titles import corruption_title, suite_title
from eyechart.scores.registry import PROPERTIES, SCORES

CORRUPTION_ROW, MORE, AROUND = 0.19, 0.05, 0.55
"""Height in inches of a corruption's row, of each further model in it, and of the axis."""

APART, SPREAD = 4, 0.6
"""Maximum number of models drawn side by side, and the fraction of a row that they occupy."""


def plan_main_scores(report: Report) -> Planned:
    """Return a figure for each test in which at least one corruption has a score."""
    for section in report.sections:
        main = main_score(section)
        if not main.corruptions:
            suite = suite_title(section.suite)
            yield f"No scores by corruption for {suite}: no corruption has one."
            continue
        caption = f"{main.title}; {main.axis_title}; lines: 95 % intervals."
        words = ("scores", *suite_words(report, section))
        yield Drawing(words, caption, partial(draw_main_scores, main))


def draw_main_scores(main: MainScore) -> Figure:
    """Return a figure with a row for each corruption, the worst at the top."""
    looks = model_styles(main.section.models)
    rows = {name: row for row, name in enumerate(main.corruptions)}
    is_apart = len(main.models) <= APART
    height = (CORRUPTION_ROW + MORE * (len(main.models) - 1 if is_apart else 0)) * len(
        rows
    ) + AROUND
    figure = Figure(figsize=(COLUMN, height))
    axes = figure.subplots()
    # The inner points of an even division: a single model is on the row itself.
    offsets = np.linspace(-0.5, 0.5, len(main.models) + 2)[1:-1] * SPREAD * is_apart
    for model, offset in zip(main.models, offsets, strict=True):
        look = looks[model.name]
        scores = main.of(model)
        places = np.array([rows[name] for name in scores]) + offset
        scale = main.score.scale
        values = [scale * number.value for number in scores.values()]
        axes.plot(values, places, look.marker, color=look.color, markersize=4)
        if is_apart:
            ends = np.array([number.interval95 for number in scores.values()]) * scale
            axes.hlines(places, *ends.T, color=look.color, linewidth=0.9)
    for name, area in main.humans.items():
        axes.plot(area, rows[name], "|", color=HUMAN_COLOR, markersize=9, mew=2)
    axes.set_yticks(list(rows.values()), [drawable(corruption_title(name)) for name in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlim(0, None if main.score.is_percent else 1)
    axes.set_xlabel(drawable(main.axis_title))
    handles = [
        key(look.name, look.color, marker=look.marker, markersize=4, linewidth=0.9)
        for look in looks.values()
    ]
    if main.humans:
        mark = {"marker": "|", "markersize": 9, "mew": 2, "linestyle": ""}
        handles.append(key("Humans", HUMAN_COLOR, **mark))
    legend(figure, handles)
    return figure


BAR_ROW = 0.155
"""Height of a bar with its margin, in inches."""

BARE = 0.62
"""Height of the title and axis of a row, in inches."""


def plan_human_index(report: Report) -> Planned:
    """Return a figure for each corruption under which a curve could be fitted."""
    for section in report.sections:
        alone = []
        for corruption in section.corruptions:
            space = best_space(section, corruption)
            if space is None:
                suite = suite_title(section.suite)
                yield f"No curves for {corruption} ({suite}): none could be fitted."
                continue
            title = "HMRI, MRSI and curves compared with humans"
            if not has_humans(section, space, corruption):
                alone.append(corruption)
                title = "robustness and curves"
            caption = (
                f"{corruption_title(corruption)}: {title}, {size_in_words(section, space)}; error"
                " bars: 95 %, bands: 83 %, pale lines: not observed."
            )
            words = ("curves", *suite_words(report, section), bare_name(corruption))
            yield Drawing(words, caption, partial(draw_human_index, section, space, corruption))
        if alone:
            yield (
                "No human curves, because there are too few human responses, if any, to these"
                f" corruptions of {suite_title(section.suite)}:"
                f" {'all' if alone == list(section.corruptions) else ', '.join(alone)}."
            )


def draw_human_index(section: TestSection, space: str, corruption: str) -> Figure:
    """Return a figure with a row for accuracy and one for consistency: bar panels and curves."""
    rows = fitted_letters(section, space, corruption)
    looks = model_styles(section.models, by_category=True)
    height = max(1.75, BAR_ROW * len(section.models) + BARE)
    figure = Figure(figsize=(PAGE, height * len(rows) + 0.1))
    with_humans = has_humans(section, space, corruption)
    widths = (1, 1, 1.15) if with_humans else (1, 1)
    grid = figure.add_gridspec(len(rows), len(widths), width_ratios=widths)
    named = letters()
    has_gaps = False
    for index, letter in enumerate(rows):
        panel = curve_panel(section.models, space, corruption, letter, human_scale=True)
        # The name (without its property suffix) and the symbol of each score drawn as bars.
        bars = [("r", rf"$\mathcal{{R}}_{letter}$")]
        if panel.humans is not None:
            bars = [("hmri", rf"$HMRI_{letter}$"), ("mrsi", rf"$MRSI_{letter}$")]
        for column, (name, sign) in enumerate(bars):
            # A single score takes the space of both panels.
            cells = slice(column, column + 1) if len(bars) > 1 else slice(0, len(widths) - 1)
            axes = figure.add_subplot(grid[index, cells], title=f"{next(named)} {sign}")
            series = score_bars(section.models, space, SCORES[f"{name}_{letter}"], corruption)
            _draw_bars(axes, series, looks, is_share=name != "mrsi")
            axes.tick_params(labelleft=column == 0)
        scale = ", chance-corrected" if panel.is_corrected else ""
        title = f"{next(named)} {PROPERTIES[letter]} $s_{letter}${scale}"
        axes = figure.add_subplot(grid[index, -1], title=title)
        _draw_curves(axes, panel, looks)
        # Some model has a range of visual change with too few samples.
        has_gaps |= any(
            sum(end - start for start, end in curve.score.observed) < 0.98 for curve in panel.curves
        )
    legend(figure, [*category_patches(section.models), *_keys(with_humans, has_gaps)])
    return figure


def _keys(with_humans: bool, has_gaps: bool) -> list[Line2D]:
    """Return the legend entries of the lines."""
    keys = [key("Humans, with 83 % band", HUMAN_COLOR, linewidth=1.8)] if with_humans else []
    keys.append(key("95 % interval", INK, linewidth=0.8))
    if has_gaps:
        keys.append(key("pale: not observed", INK, linewidth=0.9, alpha=0.4))
    return keys


def _draw_bars(
    axes: Axes, bars: Sequence[ScoreBar], looks: dict[str, ModelStyle], is_share: bool
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


def _draw_keys(axes: Axes, looks: Sequence[ModelStyle]) -> None:
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


def _draw_curves(axes: Axes, panel: CurvePanel, looks: dict[str, ModelStyle]) -> None:
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


TITLES = {"R_a": r"$\hat{\mathcal{R}}_a$", "R_p": r"$\hat{\mathcal{R}}_p$"}
TRIANGLE: dict[str, Any] = {
    "marker": "^", "markersize": 5, "markeredgecolor": CHANGE, "markeredgewidth": 0.9,
    "linestyle": "",
}  # fmt: skip


def plan_ranks(report: Report) -> Planned:
    """Return a figure for each corruption that ImageNet-C and VCR share."""
    if report.discrete is None:
        usual = "No ranks: they need runs of imagenet-c and vcr with the same models."
        yield from report.notes or (usual,)
    elif not report.discrete.corruptions and report.discrete.note:
        yield report.discrete.note
    for panel in rank_panels(report):
        corruption = panel.rankings.subject
        caption = (
            f"{corruption_title(corruption)}: ImageNet-C against VCR; numbers: ranks; triangles:"
            " models that change ranks, filled if significant; error bars: 95 %."
        )
        yield Drawing(("ranks", corruption), caption, partial(draw_ranks, panel))


def draw_ranks(panel: RankPanel) -> Figure:
    """Return a figure with three bar panels, one row per model, best by ImageNet-C at the top."""
    looks = model_styles(panel.models, by_category=True)
    figure = Figure(figsize=(PAGE, max(1.2, BAR_ROW * len(panel.models) + 0.6)))
    axes = figure.subplots(1, len(panel.ways), sharey=True, squeeze=False)[0]
    for panel_axes, letter, way in zip(axes, letters(), panel.ways, strict=False):
        panel_axes.set_title(f"{letter} {TITLES.get(way, way)}")
        _draw_way(panel_axes, panel, way, looks)
    triangles = _mark(axes[0], panel)
    interval = key("95 % interval", INK, linewidth=0.8)
    legend(figure, [*category_patches(panel.models), *triangles, interval])
    return figure


def _draw_way(axes: Axes, panel: RankPanel, way: str, looks: dict[str, ModelStyle]) -> None:
    scores = [panel.score(way, model) for model in panel.models]
    in_order = [looks[model.name] for model in panel.models]
    ranks = panel.rankings.ranks[way].ranks
    labels = [f"{panel.score_text(way, model)} ({ranks[model.name]:g})" for model in panel.models]
    low, high = np.transpose([score.interval95 for score in scores])
    draw_bars(axes, in_order, np.array([score.value for score in scores]), (low, high), labels)
    axes.set_xlim(0, 1)
    axes.tick_params(axis="y", pad=10)


def _mark(axes: Axes, panel: RankPanel) -> list[Line2D]:
    """Mark the models whose ranks change; return the legend entries."""
    kinds = (
        (panel.changed, CHANGE, "changes ranks significantly"),
        (panel.perhaps, "white", "changes ranks, not significantly"),
    )
    handles = []
    for names, face, label in kinds:
        look = TRIANGLE | {"markerfacecolor": face}
        places = [index for index, model in enumerate(panel.models) if model.name in names]
        if places:
            axes.plot(
                # x in axis fractions, y in data: left of the bars, regardless of their scale.
                [-0.045] * len(places), places, transform=axes.get_yaxis_transform(),
                clip_on=False, **look,
            )  # fmt: skip
            handles.append(key(label, **look))
    return handles
