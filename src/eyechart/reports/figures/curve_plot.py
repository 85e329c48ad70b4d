"""The curves of one run as curves.png: a panel per corruption, models in color, humans dotted."""

import io
import os
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from eyechart.core.arguments import as_folder
from eyechart.core.errors import UsageError
from eyechart.core.phrases import at_least, count_of
from eyechart.core.storage.files import file_in
from eyechart.reports.series.curves import CurvePanel, CurveSeries, run_panels
from eyechart.reports.series.palette import HUMAN_COLOR
from eyechart.reports.series.report import ModelEntry, models_of
from eyechart.reports.titles import short_space
from eyechart.results.schema import Results, check_results
from eyechart.scores.registry import PROPERTIES

if TYPE_CHECKING:
    from matplotlib.artist import Artist

FILE = "curves.png"
STYLES = {"a": "-", "p": "--"}
COLUMNS = 4
SCREEN_DPI = 110
X_LABEL, Y_LABEL = "visual change Δv", "share"
FEW = 3
"""Maximum number of models drawn with bands and bins, because more would be indistinguishable.

Files contain all bands and bins.
"""

INCHES = 0.085
"""Width of a character in a legend, in inches."""

AMONG = " among 16 categories"
LETTERS = 12
"""Number of title characters per inch."""


class CurveFigure(Figure):
    """A matplotlib figure that notebooks display without pyplot and `%matplotlib inline`."""

    def _repr_png_(self) -> bytes:
        content = io.BytesIO()
        self.savefig(content, dpi=SCREEN_DPI, format="png")
        return content.getvalue()


class CurveAxes(Axes):
    """Axes that notebooks display as their whole figure."""

    def _repr_png_(self) -> bytes | None:
        figure = self.get_figure(root=True)
        return figure._repr_png_() if isinstance(figure, CurveFigure) else None


def draw_curves(results: Results, out: str | os.PathLike[str]) -> list[Path]:
    """Draw a run's curves as PNG files, one per label space.

    Each corruption has a panel. Accuracy is solid and consistency dashed; both are pale where
    nothing was observed. The human curve is dotted. Up to three models have 95 % bands.

    Args:
        results: Results of `evaluate` or `load`.
        out: Folder for the files; it is created if it is missing.

    Returns:
        Paths of the files: `curves.png`, then `curves-SPACE.png` for further label spaces.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> import numpy as np
        >>> from PIL import Image
        >>> import eyechart as ec
        >>> def mean_color(images):  # a toy model: one score per channel
        ...     return images.mean(dim=(2, 3))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for i, pixels in enumerate(np.random.default_rng(0).random((4, 32, 32, 3))):
        ...         Image.fromarray(np.uint8(255 * pixels)).save(Path(folder) / f"{i}.png")
        ...     results = ec.evaluate(
        ...         mean_color, folder, n=40, corruptions=["gaussian_blur"], labels="none",
        ...         stimulus="native", bins=4, min_per_bin=2, n_bootstrap=10,
        ...     )  # fmt: skip
        ...     [path.name for path in ec.draw_curves(results, Path(folder) / "figures")]
        ['curves.png']
    """
    check_results(results)
    folder = as_folder(out, "out")
    paths: list[Path] = []
    for space in dict.fromkeys(name for model in results.models for name in model.spaces):
        models = [model for model in models_of(results) if model.space(space) is not None]
        corruptions = list(models[0].results.spaces[space].corruptions)
        series = [run_panels(models, space, corruption) for corruption in corruptions]
        if any(panel.curves for panels in series for panel in panels):
            paths.append(folder / (FILE if not paths else f"curves-{space}.png"))
            figure = _figure(results, models, space, series)
            with file_in(folder, paths[-1].name) as temporary:
                figure.savefig(temporary, dpi=SCREEN_DPI, format="png")
    return paths


def plot_curves(
    results: Results, corruptions: Sequence[str], space: str | None, ax: Axes | None = None
) -> Axes | Figure:
    """Return the axes of one corruption, or a figure with a panel for each corruption.

    Args:
        results: Results of `evaluate` or `load`.
        corruptions: Names of corruptions; all are drawn if none is given.
        space: Label space; None selects the primary one.
        ax: Axes to draw one corruption into; None for a new figure.
    """
    space = next(iter(results.models[0].spaces)) if space is None else space
    scores = results.models[0].space(space)
    names = [scores.find(name) for name in corruptions] or list(scores.corruptions)
    models = [model for model in models_of(results) if model.space(space) is not None]
    series = [run_panels(models, space, name) for name in names]
    if ax is None:
        figure = _figure(results, models, space, series)
        return figure if len(corruptions) != 1 else figure.axes[0]
    if not isinstance(ax, Axes):
        raise UsageError(f"ax must be matplotlib axes, got {type(ax).__name__}.")
    if len(corruptions) != 1:
        raise UsageError(f"ax is for one corruption, got {len(corruptions)}: name one.")
    _draw_panel(ax, series[0], _shown_min_per_bin(results, models))
    ax.set(xlabel=X_LABEL, ylabel=Y_LABEL)
    if ax.get_legend_handles_labels()[0]:
        ax.legend(frameon=False, fontsize=8)
    return ax


def _shown_min_per_bin(results: Results, models: Sequence[ModelEntry]) -> float | None:
    # With many models, bins and bands would be indistinguishable.
    return results.config.fit.min_per_bin if len(models) <= FEW else None


def _figure(
    results: Results,
    models: Sequence[ModelEntry],
    space: str,
    series: Sequence[Sequence[CurvePanel]],
) -> Figure:
    min_per_bin = _shown_min_per_bin(results, models)
    title = _title(results, models[0], space)
    columns = min(COLUMNS, len(series))
    rows = -(-len(series) // columns)
    width = max(4.6, 3.1 * columns + 0.4)
    figure = CurveFigure(figsize=(width, 2.6 * rows + 1.1), layout="constrained")
    # A canvas without pyplot: no display is needed, and no global list keeps the figure alive.
    FigureCanvasAgg(figure)
    grid = figure.subplots(
        rows, columns, sharex=True, sharey=True, squeeze=False,
        subplot_kw={"axes_class": CurveAxes},
    )  # fmt: skip
    for spare in grid.flat[len(series) :]:
        spare.set_axis_off()
    for index, (axes, panels) in enumerate(zip(grid.flat, series, strict=False)):
        _draw_panel(axes, panels, min_per_bin)
        if index + columns >= len(series):
            axes.set_xlabel(X_LABEL)
            # `sharex` labels the last row only, where this panel may have an empty cell below it.
            axes.tick_params(labelbottom=True)
        if index % columns == 0:
            axes.set_ylabel(Y_LABEL)
    figure.suptitle(textwrap.fill(title, int(width * LETTERS)), fontsize=11, x=0.01, ha="left")
    handles: dict[str, Artist] = {}
    for axes in grid.flat:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    figure.legend(
        list(handles.values()),
        list(handles),
        loc="outside lower left",
        ncols=max(1, int(width / (INCHES * max(map(len, handles), default=1) + 0.7))),
        frameon=False,
    )
    return figure


def _title(results: Results, model: ModelEntry, space: str) -> str:
    fit, scores = results.config.fit, model.results.spaces[space]
    # The published index formula leaves one bin fewer than the setting says.
    bins = fit.bins - (fit.binning == "paper")
    return (
        f"{results.config.suite}: {count_of(scores.n_images, 'image')}, {short_space(space)},"
        f" {bins} bins"
        + (f" of {at_least([fit.min_per_bin], 'prediction')}" if fit.min_per_bin else "")
        + (f": {scores.verdict}" if scores.verdict else "")
    )


def _draw_panel(axes: Axes, panels: Sequence[CurvePanel], min_per_bin: float | None) -> None:
    axes.set_title(panels[0].corruption, fontsize=10)
    axes.set(xlim=(0, 1), ylim=(0, 1.02))
    axes.grid(alpha=0.25, linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    by_model = [(curve, panel) for panel in panels for curve in panel.curves]
    for series, panel in sorted(by_model, key=lambda pair: pair[0].model.index):
        _draw_curve(axes, series, panel, min_per_bin)
    with_humans = next((panel for panel in panels if panel.humans is not None), None)
    if with_humans is not None and with_humans.humans is not None:
        line = with_humans.humans.line
        change, low, high, values = (
            np.array(numbers, dtype=np.float64)
            for numbers in (line.delta_v, line.low95, line.high95, line.values)
        )
        axes.fill_between(change, low, high, color=HUMAN_COLOR, alpha=0.12, linewidth=0)
        axes.plot(
            change, values, color=HUMAN_COLOR, linewidth=1.4, linestyle=":",
            label=f"Humans, {_name(with_humans)}{'' if with_humans.is_corrected else AMONG}",
        )  # fmt: skip
    if not axes.lines:
        notes = [note for panel in panels for note in panel.notes[:1]]
        text = textwrap.fill(("no curve", *notes)[-1], 36)
        axes.text(0.5, 0.5, text, ha="center", va="center", color="#777777", fontsize=8)


def _name(panel: CurvePanel) -> str:
    return PROPERTIES[panel.letter] + (" corrected for chance" if panel.is_corrected else "")


def _draw_curve(
    axes: Axes, series: CurveSeries, panel: CurvePanel, min_per_bin: float | None
) -> None:
    line, color, style = series.line, series.model.color, STYLES[panel.letter]
    change, values = np.array(line.delta_v, np.float64), np.array(line.values, np.float64)
    if min_per_bin is not None:
        low, high = np.array(line.low95, np.float64), np.array(line.high95, np.float64)
        axes.fill_between(change, low, high, color=color, alpha=0.13, linewidth=0)
    is_seen = np.any(
        [(change >= start) & (change <= end) for start, end in series.score.observed], axis=0
    )
    axes.plot(change, values, color=color, linewidth=1, linestyle=style, alpha=0.35)
    axes.plot(
        change, np.where(is_seen, values, np.nan), color=color, linewidth=1.7, linestyle=style,
        label=f"{series.model.short}, {_name(panel)}",
    )  # fmt: skip
    # Rates of bins are not corrected for chance.
    if min_per_bin is not None and panel.letter == "a" and not panel.is_corrected:
        x, y = np.transpose(series.rates(min_per_bin))
        axes.plot(x, y, ".", color=color, markersize=3, alpha=0.6)
