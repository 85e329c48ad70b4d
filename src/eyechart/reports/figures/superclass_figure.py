"""Figure of accuracy on seen and unseen subclasses, plotted against accuracy on ImageNet-1K.

This is Fig. 6 of the ImageNet-C paper, with intervals.
"""

from collections.abc import Sequence
from functools import partial

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from eyechart.reports.figures.drawings import Drawing, Planned, planned
from eyechart.reports.figures.panels import key
from eyechart.reports.figures.paper_style import COLUMN, INK, MARKERS, drawable, legend
from eyechart.reports.series.palette import COLORS
from eyechart.reports.series.superclass_scatter import SuperclassScatter, superclass_scatter
from eyechart.structure.study_results import SuperclassResults

HEIGHT = 2.6
"""Height without the legend, in inches."""

SIZE = 4
"""Size of a marker, in points."""

FILLED, OPEN = (COLORS[0], True), (COLORS[1], False)
"""Colors of seen and unseen subclasses, and whether their markers are filled."""


@planned
def plan_superclasses(results: Sequence[SuperclassResults]) -> Planned:
    """Return a figure for each study, and a note on models without a known ImageNet-1K accuracy."""
    for number, study in enumerate(results, start=1):
        missing = [model.name for model in study.models if model.imagenet_accuracy is None]
        if missing:
            yield (
                "Not in the figure, because their accuracy on ImageNet-1K is unknown:"
                f" {len(missing)} of {len(study.models)} models, such as {missing[0]}; use"
                " eyechart structure superclass with --imagenet-accuracy."
            )
        scatter = superclass_scatter(study.models)
        if scatter is not None:
            words = ("superclasses",) if len(results) == 1 else ("superclasses", str(number))
            caption = (
                "Superclass accuracy for subclasses in ImageNet-1K (seen) and outside it"
                " (unseen), plotted against accuracy on ImageNet-1K before tuning, for"
                f" {len(scatter.seen)} models. 95 % intervals, from a bootstrap over synsets."
            )
            yield Drawing(words, caption, partial(draw_superclasses, scatter))


def draw_superclasses(scatter: SuperclassScatter) -> Figure:
    """Return the scatter plot in percent; each model has one marker, filled for seen subclasses."""
    figure = Figure(figsize=(COLUMN, HEIGHT))
    axes = figure.subplots()
    handles = [
        _key(f"{kind} subclasses", "o", color, color if is_filled else "white")
        for kind, (color, is_filled) in (("seen", FILLED), ("unseen", OPEN))
    ]
    for index, both in enumerate(zip(scatter.seen, scatter.unseen, strict=True)):
        marker = MARKERS[index % len(MARKERS)]
        for point, (color, is_filled) in zip(both, (FILLED, OPEN), strict=True):
            axes.errorbar(
                [point.imagenet_accuracy],
                [point.accuracy],
                [[abs(end - point.accuracy)] for end in point.interval],
                fmt=marker, color=color, markersize=SIZE, elinewidth=0.8, capsize=1.5,
                markerfacecolor=color if is_filled else "white",
            )  # fmt: skip
        handles.append(_key(drawable(both[0].model), marker, INK, INK))
    axes.set(xlabel=scatter.x_title, ylabel=scatter.y_title)
    legend(figure, handles)
    return figure


def _key(label: str, marker: str, color: str, face: str) -> Line2D:
    return key(label, color, marker=marker, linestyle="", markersize=SIZE, markerfacecolor=face)
