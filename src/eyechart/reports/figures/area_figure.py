"""The areas under a model's curve and the human curve, and where one is ahead of the other."""

from functools import partial

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from eyechart.images.labels.spaces import ENTRY16
from eyechart.reports.figures.drawings import Drawing, Planned, planned, suite_words
from eyechart.reports.figures.panels import (
    VISUAL_CHANGE,
    key,
    label_outer,
    panels,
    real,
    unit_square,
)
from eyechart.reports.figures.paper_style import SMALL, drawable, legend
from eyechart.reports.series.areas import AreaPanel, area_panels_of
from eyechart.reports.series.palette import AREA_TINTS, AREAS, HUMAN_COLOR
from eyechart.reports.series.report import Report
from eyechart.reports.words import suite_title
from eyechart.scores.registry import PROPERTIES

HEIGHT = 1.6
DIGIT = 4.8
"""Width in points reserved for each character of the numbers to the left of the labels."""
HATCHES = {"humans": "/" * 5, "model": "\\" * 5}


@planned
def plan_areas(report: Report) -> Planned:
    """Return a figure for each model that is compared with humans."""
    for part in report.parts:
        for model in part.models:
            series = area_panels_of(part, model)
            if not series:
                reason = part.standings.board.verdict(ENTRY16) or "there is no human reference"
                yield f"No areas for {suite_title(part.suite)}: {reason}."
                continue
            words = ("areas", *suite_words(report, part), model.short)
            caption = (
                f"{model.short} compared with humans: areas under both curves, and where one is"
                " ahead."
            )
            yield Drawing(words, caption, partial(draw_areas, series))


def draw_areas(series: list[AreaPanel]) -> Figure:
    """Return a figure with a panel for each corruption and property compared with humans."""
    figure, axes = panels(len(series), HEIGHT)
    several = len({panel.letter for panel in series}) > 1
    for panel_axes, panel in zip(axes, series, strict=True):
        _draw_panel(panel_axes, panel)
        title = drawable(panel.title)
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


def _draw_panel(axes: Axes, panel: AreaPanel) -> None:
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
