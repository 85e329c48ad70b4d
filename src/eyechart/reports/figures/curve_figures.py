"""Figures of curves over visual change: all curves of a test, and areas compared with humans."""

from collections.abc import Mapping, Sequence
from functools import partial

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from eyechart.core.phrases import plural
from eyechart.images.labels.spaces import ENTRY16
from eyechart.reports.figures.paper_style import (
    FEW,
    MARK,
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
    model_styles,
    panels,
    real,
    say,
    suite_words,
    unit_square,
)
from eyechart.reports.series.curves import AreaPanel, CurvePanel, area_panels_of, curve_panels
from eyechart.reports.series.palette import AREA_TINTS, AREAS, HUMAN_COLOR
from eyechart.reports.series.report import Report, TestSection
from eyechart.reports.titles import corruption_title, short_space, suite_title
from eyechart.scores.registry import PROPERTIES

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
            for letters in [tuple(fitted)] if together else [(letter,) for letter in fitted]:
                stem = words if together else (*words, PROPERTIES[letters[0]])
                make = partial(draw_overview, section, space, letters)
                title = " and ".join(PROPERTIES[letter] for letter in letters).capitalize()
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
    share = names[letters[0]] if len(letters) < 2 else "share"
    label_outer(axes, VISUAL_CHANGE, share)
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
    rows = (*panel.areas, *panel.scores)
    names, numbers = zip(*rows, strict=True)
    # Text has no tab stops: the labels are a second block, behind the widest number.
    for texts, shift in ((numbers, 0.0), (names, DIGIT * max(map(len, numbers)))):
        axes.annotate(
            "\n".join(texts), (0.04, 0.03), (shift, 0), xycoords="axes fraction",
            textcoords="offset points", fontsize=SMALL, va="bottom",
        )  # fmt: skip
