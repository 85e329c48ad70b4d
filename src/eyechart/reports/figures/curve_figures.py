"""Figures of curves over visual change: of a test, areas compared with humans, human curves.

Human curves are grouped by classes of corruptions that look alike, or by experiment.
"""

import textwrap
from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from eyechart.core.phrases import plural
from eyechart.humans.reference import Reference, title
from eyechart.images.labels.spaces import ENTRY16
from eyechart.reports.figures.paper_style import (
    COLUMN,
    DASHES,
    FEW,
    MARK,
    MARKERS,
    PAGE,
    SMALL,
    VISUAL_CHANGE,
    Dash,
    Drawing,
    ModelStyle,
    Planned,
    draw_humans,
    draw_line,
    drawable,
    key,
    label_outer,
    legend,
    letters,
    model_styles,
    panels,
    real,
    say,
    suite_words,
    unit_square,
)
from eyechart.reports.series.curves import AreaPanel, CurvePanel, area_panels_of, curve_panels
from eyechart.reports.series.human_curves import (
    HumanLine,
    HumanPanel,
    RatePoint,
    human_experiments,
    human_panels,
    rate_points,
    reference_line,
    reference_panels,
)
from eyechart.reports.series.palette import AREA_TINTS, AREAS, COLORS, HUMAN_COLOR, PROPERTY_COLORS
from eyechart.reports.series.report import Report, TestSection
from eyechart.reports.titles import corruption_title, short_space, suite_title
from eyechart.scores.registry import PROPERTIES
from eyechart.scores.scoring import Fit
from eyechart.stats.intervals import CONFIDENCE, PUBLISHED_LEVEL

CURVE_HEIGHT = 1.35
STYLES: Mapping[str, Dash] = {"a": "-", "p": (0, (4, 1.5))}
MANY = 7
"""With at least this many models, bands are omitted because they would hide each other."""


def plan_curves(report: Report) -> Planned:
    """Return an overview for each test and label space; with many models, one per property."""
    for section in report.sections:
        for index, space in enumerate(section.spaces):
            fitted = [
                letter
                for letter in PROPERTIES
                if any(panel.curves for panel in curve_panels(section, space, letter))
            ]
            if not fitted:
                yield f"No curves for {suite_title(section.suite)}: none could be fitted."
                continue
            words = ("curves", *suite_words(report, section), *((space,) if index else ()))
            together = len(section.models) <= FEW
            for chosen in [tuple(fitted)] if together else [(letter,) for letter in fitted]:
                stem = words if together else (*words, PROPERTIES[chosen[0]])
                make = partial(draw_overview, section, space, chosen)
                title = " and ".join(PROPERTIES[letter] for letter in chosen).capitalize()
                size = size_in_words(section, space) + ("; bands: 83 %" if _band(section) else "")
                caption = f"{title} over visual change in {suite_title(section.suite)}: {size}."
                yield Drawing(stem, caption, make)


def _band(section: TestSection) -> float:
    """Return the opacity of bands; 0 means no bands."""
    count = len(section.models)
    return 0.16 if count <= FEW else 0.08 if count < MANY else 0.0


def size_in_words(section: TestSection, space: str) -> str:
    """Return the number of images and classes, and whether the data are insufficient."""
    board = section.standings.board
    verdict = f" ({board.verdict(space)})" if board.verdict(space) else ""
    n_images = board.n_images(space)
    return f"{n_images} {plural(n_images, 'image')}, {short_space(space)}{verdict}"


def draw_overview(section: TestSection, space: str, letters: tuple[str, ...]) -> Figure:
    """Return a panel per corruption with the curves of all models."""
    looks = model_styles(section.models)
    figure, axes = panels(len(section.corruptions), CURVE_HEIGHT)
    by_corruption = list(
        zip(*(curve_panels(section, space, letter) for letter in letters), strict=True)
    )
    for panel_axes, series in zip(axes, by_corruption, strict=True):
        _draw_curve_panel(panel_axes, series, looks, _band(section))
    names = {"a": "accuracy $s_a$", "p": "consistency $s_p$"}
    label_outer(axes, VISUAL_CHANGE, names[letters[0]] if len(letters) < 2 else "share")
    handles = [key(look.name, look.color, linestyle=look.dash) for look in looks.values()]
    if len(letters) > 1:
        handles = [
            key(look.name, look.color, marker=look.marker, markersize=MARK)
            for look in looks.values()
        ]
        handles += [key(names[letter], linestyle=STYLES[letter]) for letter in letters]
    if any(panel.humans is not None for series in by_corruption for panel in series):
        handles.append(key("Humans", HUMAN_COLOR, linewidth=1.8))
    legend(figure, handles)
    return figure


def _draw_curve_panel(
    axes: Axes, series: Sequence[CurvePanel], looks: dict[str, ModelStyle], band: float
) -> None:
    """Draw one corruption: accuracy, consistency or both."""
    unit_square(axes)
    axes.set_title(drawable(corruption_title(series[0].corruption)))
    order = list(looks)
    for panel in series:
        if panel.humans is not None:
            draw_humans(axes, panel.humans.line)
        for curve in panel.curves:
            look = looks[curve.model.name]
            # If dash patterns distinguish the properties, markers distinguish the models.
            both = len(series) > 1
            draw_line(
                axes, curve.line, color=look.color, observed=curve.score.observed, band=band,
                dash=STYLES[panel.letter] if both else look.dash,
                # A marker every 24 points (`EVERY`), shifted by 8 per model: three models never
                # coincide.
                marks=(look.marker, 4 + 8 * order.index(curve.model.name)) if both else None,
            )  # fmt: skip
    if not any(panel.curves for panel in series):
        notes = [note for panel in series for note in panel.notes]
        say(axes, drawable(("no curve", *notes)[-1], 120))


AREA_HEIGHT = 1.6
DIGIT = 4.8
"""Width in points reserved for each character of the numbers to the left of the labels."""
HATCHES = {"humans": "/" * 5, "model": "\\" * 5}


def plan_areas(report: Report) -> Planned:
    """Return a figure for each model that is compared with humans."""
    for section in report.sections:
        for model in section.models:
            series = area_panels_of(section, model)
            if not series:
                reason = section.standings.board.verdict(ENTRY16) or "there is no human reference"
                yield f"No areas for {suite_title(section.suite)}: {reason}."
                continue
            words = ("areas", *suite_words(report, section), model.short)
            caption = (
                f"{model.short} compared with humans: areas under both curves, and where one is"
                " ahead."
            )
            yield Drawing(words, caption, partial(draw_areas, series))


def draw_areas(series: list[AreaPanel]) -> Figure:
    """Return a figure with a panel for each corruption and property compared with humans."""
    figure, axes = panels(len(series), AREA_HEIGHT)
    several = len({panel.letter for panel in series}) > 1
    for panel_axes, panel in zip(axes, series, strict=True):
        _draw_area_panel(panel_axes, panel)
        title = drawable(corruption_title(panel.corruption))
        panel_axes.set_title(f"{title}, $s_{panel.letter}$" if several else title)
    label = " and ".join(dict.fromkeys(PROPERTIES[panel.letter] for panel in series))
    label_outer(axes, VISUAL_CHANGE, label)
    legend(
        figure,
        [
            key("Humans", HUMAN_COLOR, linewidth=1.6),
            key(drawable(series[0].model.short), AREAS["model"][1], linestyle="--", linewidth=1.6),
            Patch(facecolor=AREA_TINTS["both"], label="below both curves"),
            *(
                Patch(
                    facecolor=AREA_TINTS[side], edgecolor=AREAS[side][1], hatch=HATCHES[side],
                    linewidth=0,
                    label=AREAS[side][0],
                )
                for side in ("humans", "model")
            ),
        ],
    )  # fmt: skip
    return figure


def _draw_area_panel(axes: Axes, panel: AreaPanel) -> None:
    unit_square(axes)
    human_line, model_line = panel.comparison.line, panel.comparison.model_line
    change = real(human_line.delta_v)
    human, model = real(human_line.values), real(model_line.values)
    lower = [min(pair) for pair in zip(human, model, strict=True)]
    axes.fill_between(change, lower, color=AREA_TINTS["both"], linewidth=0)
    for side, top, bottom in (("humans", human, model), ("model", model, human)):
        # Without `interpolate` a fill ends at the last grid point before a crossing and leaves a
        # gap.
        axes.fill_between(
            change, bottom, top, where=top >= bottom, interpolate=True, facecolor=AREA_TINTS[side],
            edgecolor=AREAS[side][1], hatch=HATCHES[side], linewidth=0,
        )  # fmt: skip
    axes.plot(change, human, color=HUMAN_COLOR, linewidth=1.6)
    axes.plot(change, model, color=AREAS["model"][1], linestyle="--", linewidth=1.6)
    names, numbers = zip(*panel.areas, *panel.scores, strict=True)
    # Text has no tab stops: the labels are a second block, behind the widest number.
    for texts, shift in ((numbers, 0.0), (names, DIGIT * max(map(len, numbers)))):
        axes.annotate(
            "\n".join(texts), (0.04, 0.03), (shift, 0), xycoords="axes fraction",
            textcoords="offset points", fontsize=SMALL, va="bottom",
        )  # fmt: skip


HUMAN_HEIGHT = 2.3
GRAY = "#777777"
PER_ROW = 3
WIDTH, TALL = 4.2, 4.1
"""Width and height of the panel of an experiment, in inches."""


def plan_humans(report: Report) -> Planned:
    """Return figures of human accuracy and consistency, where they were measured."""
    experiments = [one for group in human_experiments(report).values() for one in group]
    if not experiments:
        yield "No human curves: no run has human responses."
        return
    for letter, name in PROPERTIES.items():
        series = human_panels(experiments, letter)
        if not series:
            yield f"No curves of human {name}: the responses do not contain the required data."
            continue
        caption = (
            f"Human {name} over visual change, for similar and dissimilar corruptions; bands: 83 %."
        )
        label = f"human {name} $s_{letter}^h$"
        yield Drawing(("humans", name), caption, partial(draw_human_panels, series, label))


def draw_by_class(
    reference: Reference, property_name: str, level: float = PUBLISHED_LEVEL, fit: Fit | None = None
) -> Figure:
    """Return a figure with a panel per similarity class and a curve per corruption shown to humans.

    Dissimilar and untested corruptions have separate panels.

    Args:
        reference: Human responses.
        property_name: "accuracy" or "consistency".
        level: Confidence level of the bands.
        fit: How curves are fitted.

    Raises:
        UsageError: If no experiment has a curve for this property.
    """
    letter = next(letter for letter, name in PROPERTIES.items() if name == property_name)
    series = reference_panels(reference, letter, level, fit or Fit())
    figure = draw_human_panels(series, f"human {property_name}", _chance(reference))
    figure.suptitle(_heading(reference, level), x=0.01, ha="left")
    return figure


def draw_human_panels(
    series: Sequence[HumanPanel], label: str, chance: float | None = None
) -> Figure:
    """Return a figure with the panels in a row; `chance` is drawn as the accuracy of guessing."""
    figure = Figure(
        figsize=(PAGE if len(series) > 1 else COLUMN, HUMAN_HEIGHT), layout="constrained"
    )
    grid = figure.subplots(1, len(series), sharey=True, squeeze=False)[0]
    for axes, letter, panel in zip(grid, letters(), series, strict=False):
        axes.set_title(f"{letter} {drawable(panel.short_title)}")
        unit_square(axes)
        axes.set_xlabel(VISUAL_CHANGE)
        for index, line in enumerate(panel.lines):
            _draw_line(axes, line, index)
        if chance is not None:
            _draw_chance(axes, chance)
        axes.legend(loc="lower left" if chance is None else (0.02, 0.1))
    grid[0].set_ylabel(label)
    return figure


def _draw_line(axes: Axes, line: HumanLine, index: int) -> None:
    """Draw a curve with its band and rates, pale where it was not observed."""
    color = COLORS[index % len(COLORS)]
    dash, marker = DASHES[index % len(DASHES)], MARKERS[index % len(MARKERS)]
    change, values = real(line.delta_v), real(line.values)
    axes.fill_between(change, real(line.low), real(line.high), color=color, alpha=0.18, linewidth=0)
    if line.is_observed is not None:
        axes.plot(change, values, color=color, linestyle=dash, linewidth=0.9, alpha=0.4)
        values = np.where(line.is_observed, values, np.nan)
    axes.plot(change, values, color=color, linestyle=dash, label=drawable(line.title, 30))
    _draw_points(axes, line.points, color, marker)


def _draw_points(
    axes: Axes, points: Sequence[RatePoint], color: str, marker: str, with_range: bool = False
) -> None:
    """Draw rates with their intervals; `with_range` also draws the Δv range of each rate."""
    for point in points:
        start, middle, end = point.delta_v
        low, high = point.ends
        axes.errorbar(
            middle,
            point.rate,
            xerr=[[middle - start], [end - middle]] if with_range else None,
            # matplotlib raises an error for negative lengths.
            yerr=[[max(0.0, point.rate - low)], [max(0.0, high - point.rate)]],
            fmt=marker,
            markersize=3.5 if with_range else 2.6,
            color=color,
            elinewidth=0.8 if with_range else 0.7,
            alpha=0.9 if with_range else None,
        )


def draw_reference(
    reference: Reference, level: float = CONFIDENCE, fit: Fit | None = None
) -> Figure:
    """Return a figure with a panel per experiment: its curves with bands, and the underlying rates.

    `level` is the confidence level of the bands; `fit` defaults to the fit of `evaluate`.
    """
    reference.check_curves()
    experiments = reference.experiments
    columns = min(PER_ROW, len(experiments))
    rows = -(-len(experiments) // columns)
    figure = Figure(figsize=(WIDTH * columns, TALL * rows + 0.6), layout="constrained")
    grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    for axes, experiment in zip(grid.flat, experiments, strict=False):
        _draw_experiment(axes, reference, experiment, level, fit or Fit())
    for spare in grid.flat[len(experiments) :]:
        spare.set_axis_off()
    for axes in grid[-1]:
        axes.set_xlabel("visual change Δv")
    for axes in grid[:, 0]:
        axes.set_ylabel("accuracy, consistency")
    figure.suptitle(f"{_heading(reference, level)}; dots: conditions or bins", x=0.01, ha="left")
    return figure


def _draw_experiment(
    axes: Axes, reference: Reference, experiment: str, level: float, fit: Fit
) -> None:
    for property_name, color in PROPERTY_COLORS.items():
        line = reference_line(reference, experiment, property_name, level, fit)
        if line is None:
            continue
        change = real(line.delta_v)
        axes.fill_between(
            change, real(line.low), real(line.high), color=color, alpha=0.18, linewidth=0
        )
        axes.plot(change, real(line.values), color=color, linewidth=1.8, label=property_name)
        points = rate_points(reference, experiment, property_name, level)
        _draw_points(axes, points, color, "o", with_range=True)
    chance = _chance(reference)
    if chance is not None:
        _draw_chance(axes, chance)
    members = textwrap.fill(", ".join(reference.similar.members_of(experiment)), 44)
    axes.set_title(title(experiment), fontsize=10, loc="left", fontweight="bold")
    axes.annotate(
        f"{reference.size_in_words(experiment)}\nfor {members}",
        (0.03, 0.12),
        xycoords="axes fraction",
        fontsize=7,
        color=HUMAN_COLOR,
        va="bottom",
    )
    if len(axes.get_legend_handles_labels()[1]) > 1:
        axes.legend(frameon=False, fontsize=8, loc=(0.02, 0.34))
    axes.set(xlim=(0, 1), ylim=(0, 1.02))
    axes.spines[["top", "right"]].set_visible(False)


def _chance(reference: Reference) -> float | None:
    """Return the accuracy of guessing; None if curves are corrected for chance."""
    return None if reference.corrected else 1 / reference.choices


def _draw_chance(axes: Axes, chance: float) -> None:
    axes.axhline(chance, color=GRAY, linewidth=0.8, linestyle=":")
    axes.annotate("chance", (0.01, chance + 0.01), color=GRAY, fontsize=7)


def _heading(reference: Reference, level: float) -> str:
    corrected = ", corrected for chance" if reference.corrected else ""
    return (
        f"Humans: {drawable(reference.name)}, {reference.choices} choices{corrected}; bands:"
        f" {100 * level:g} %"
    )
