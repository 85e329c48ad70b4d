"""Studies of held-out styles and subclasses in a report: tables, charts, images."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from eyechart.core.phrases import count_of
from eyechart.core.storage.files import write_text
from eyechart.reports.html.charts.chart import (
    INTERVAL,
    PAPER,
    Chart,
    Spec,
    axis,
    error_bar,
    escape,
    make_chart,
    names_axis,
    rounded,
    slug,
)
from eyechart.reports.html.html_table import (
    Column,
    Shaded,
    Table,
    TableRow,
    hundredths,
    text_columns,
)
from eyechart.reports.html.page import data_uri, image_uri, render_page
from eyechart.reports.series.palette import COLORS
from eyechart.reports.series.superclass_scatter import (
    X_TITLE,
    Y_TITLE,
    is_superclass_study,
    models_with_accuracy,
)
from eyechart.reports.titles import short_names
from eyechart.structure.holdout_scores import notes_on
from eyechart.structure.structure_settings import describe_protocol
from eyechart.structure.study_results import (
    AccuracyEstimate,
    FoldScore,
    HeldOutExample,
    HoldoutResults,
    SuperclassModelScore,
    SuperclassResults,
    read_study,
)

MOST_GRIDS, MOST_CONFUSIONS = 8, 12
MOST_MODELS = 4
"""Maximum number of models for which superclasses are shown one by one."""

THUMBNAIL = 128
"""Side length of held-out images on the page, in px."""

Grid = tuple[str, tuple[HeldOutExample, ...]]
"""The title of a split and its held-out images."""

LEGEND: Spec = {"orientation": "h", "y": 1.02, "yanchor": "bottom"}


@dataclass(frozen=True)
class View:
    """The content of the page for one study; `parts` is the table of its superclasses.

    `grids`: the held-out images of each split, below its title; `image` is a data URL.
    """

    title: str
    text: str
    table: Table
    charts: tuple[Chart, ...]
    grids: tuple[Grid, ...] = ()
    parts: Table | None = None
    confusions: Table | None = None


def structure_views(folders: Sequence[Path]) -> list[View]:
    """Return the studies in these folders, in order."""
    collected = []
    for number, folder in enumerate(dict.fromkeys(folders)):
        if is_superclass_study(folder):
            collected.append(_superclasses(read_study(folder, SuperclassResults), number))
        else:
            collected.append(_held_out(read_study(folder, HoldoutResults), folder, number))
    return collected


def write_structure_page(folders: Sequence[Path], path: Path) -> Path:
    """Write the page on these studies to a file and return its path."""
    views = structure_views(folders)
    kinds = count_of(len(views), "study")
    text = render_page(
        "structure_page.html",
        [chart for view in views for chart in view.charts],
        structure=views,
        title="Held-out styles and subclasses",
        summary=f"{kinds} of images held out of training: how well are these images recognized?",
    )
    return write_text(path, text)


def _held_out(results: HoldoutResults, folder: Path, number: int) -> View:
    is_style = results.kind == "style"
    held_out = "style" if is_style else "kind"
    title = (
        "Known classes in a held-out style" if is_style else "Held-out subclasses of known classes"
    )
    order = sorted(results.folds, key=lambda fold: fold.held_out.value)
    worst, best = order[0], order[-1]
    text = (
        f"A {results.network} was trained without a {held_out} and tested on it:"
        f" {_percent(results.held_out)} correct on average"
    )
    if results.familiar is None or results.gap is None:
        text += "."
    else:
        text += (
            f", against {_percent(results.familiar)}"
            " on familiar images that were not used for training either, a gap of"
            f" {100 * results.gap.value:.0f} points ({100 * results.gap.interval[0]:.0f} to"
            f" {100 * results.gap.interval[1]:.0f})."
        )
    if is_style and worst.held_out.value < best.held_out.value:
        text += (
            f" The hardest is {worst.name} ({100 * worst.held_out.value:.0f} %), the easiest is"
            f" {best.name} ({100 * best.held_out.value:.0f} %)."
        )
    grids = tuple(_grid(fold, folder, is_style) for fold in order[:MOST_GRIDS] if fold.examples)
    return View(
        title,
        text,
        _table(results, order, number),
        (_chart(results, order, number),),
        grids,
        confusions=_confusions(order, number, "Held out"),
    )


def _percent(share: AccuracyEstimate) -> str:
    low, high = share.interval
    return f"{100 * share.value:.0f} % ({100 * low:.0f} to {100 * high:.0f})"


def _cells(*shares: AccuracyEstimate | None) -> tuple[str, ...]:
    return tuple(
        "–"
        if share is None
        else f"{hundredths(share.value)} [{', '.join(hundredths(end) for end in share.interval)}]"
        for share in shares
    )


def _table(results: HoldoutResults, order: Sequence[FoldScore], number: int) -> Table:
    titles = ("Held-out accuracy (%)", "Familiar accuracy (%)", "Gap (points)", "Held-out images")
    columns = (
        *text_columns("Held out"),
        *map(Column, (*titles, "Familiar images", "Training images")),
    )
    rows = [
        TableRow(
            (
                fold.name,
                *_cells(fold.held_out, fold.familiar, fold.gap),
                *(f"{count:,}" for count in fold.n_images),
            )
        )
        for fold in order
    ]
    if len(order) > 1:
        means = _cells(results.held_out, results.familiar, results.gap)
        counts = (sum(fold.n_images[index] for fold in order) for index in (0, 1))
        rows.append(
            TableRow(("Mean", *means, *(f"{count:,}" for count in counts), ""), is_total=True)
        )
    missing = [f"{fold.name}: {', '.join(fold.missing)}" for fold in order if fold.missing]
    note = (
        f"95 % intervals, from a bootstrap over {results.resampled}; for the mean, the splits "
        "are resampled as well."
    )
    protocol = describe_protocol(results.protocol, results.familiar is not None)
    note = " ".join((note, protocol, *notes_on(results)))
    if missing and results.kind == "style":
        note += f" Classes without test images: {'; '.join(missing)}."
    return Table(f"structure-{number}", "Accuracy on held-out images", columns, tuple(rows),
                 note=note)  # fmt: skip


def _chart(results: HoldoutResults, order: Sequence[FoldScore], number: int) -> Chart:
    names = [escape(fold.name) for fold in order]
    data = [_dots("held out", names, [fold.held_out for fold in order], COLORS[1], "circle")]
    familiar = [(fold.name, fold.familiar) for fold in order if fold.familiar is not None]
    if familiar:
        familiar_names = [escape(name) for name, _ in familiar]
        shares = [share for _, share in familiar]
        data.append(_dots("familiar", familiar_names, shares, COLORS[0], "diamond"))
    words = "; ".join(
        f"{fold.name}: {fold.held_out.value:.2f} held out"
        + ("" if fold.familiar is None else f", {fold.familiar.value:.2f} familiar")
        for fold in order
    )
    layout = {
        "height": 130 + 34 * len(names),
        "xaxis": axis("accuracy", range=[0, 1.02]),
        "yaxis": names_axis(automargin=True),
        "legend": LEGEND,
    }
    title = "Accuracy on held-out" + (" and on familiar images" if familiar else " images")
    alt = f"Accuracy, {words}."
    return make_chart("structure", title, alt, data, layout, id=slug("structure", number))


def _dots(
    name: str, names: list[str], shares: Sequence[AccuracyEstimate], color: str, symbol: str
) -> Spec:
    values = [share.value for share in shares]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "y": names,
        "x": [rounded(value) for value in values],
        "error_x": {**INTERVAL, **error_bar(values, [share.interval for share in shares])},
        "marker": {
            "color": color,
            "size": 11,
            "symbol": symbol,
            "line": {"color": PAPER, "width": 1},
        },
        "meta": {"model": ""},
        "hovertemplate": "%{y}: %{x:.3f}<extra>" + name + "</extra>",
    }


def _grid(fold: FoldScore, folder: Path, is_style: bool) -> Grid:
    cells = []
    for example in fold.examples:
        try:
            image = _thumbnail(folder / example.image)
        except OSError:
            continue
        cells.append(example.model_copy(update={"image": image}))
    title = f"{fold.name}: {100 * fold.held_out.value:.0f} % correct" if is_style else fold.name
    return title, tuple(cells)


def _thumbnail(path: Path) -> str:
    """Return an image as a data URL, no larger than needed for a high-resolution screen."""
    with Image.open(path) as image:
        if max(image.size) <= THUMBNAIL:
            return data_uri(path.read_bytes(), "png")
        small = image.convert("RGB")
    small.thumbnail((THUMBNAIL, THUMBNAIL))
    return image_uri(small, "png")


def _confusions(
    scores: Sequence[FoldScore | SuperclassModelScore], number: int, whose: str
) -> Table | None:
    """Return the most frequent confusions, or None if there are none."""
    confused = [(score.name, confusion) for score in scores for confusion in score.confusions]
    if not confused:
        return None
    # By the number of confused images: a percentage would favor classes with few images.
    confused.sort(key=lambda pair: -pair[1].share * pair[1].n_images)
    columns = (
        *text_columns("True class", "Predicted class", whose),
        Column("Frequency (%)", hint="percentage of this class’s held-out images"),
        Column("Images"),
    )
    rows = tuple(
        TableRow(
            (
                confusion.label,
                confusion.prediction,
                name,
                Shaded(f"{100 * confusion.share:.0f}", confusion.share),
                f"{confusion.n_images:,}",
            )
        )
        for name, confusion in confused[:MOST_CONFUSIONS]
    )
    return Table(f"confusions-{number}", "Most frequent confusions", columns, rows)


def _superclasses(results: SuperclassResults, number: int) -> View:
    names = short_names([model.name for model in results.models])
    models = [
        model.model_copy(update={"name": name})
        for model, name in zip(results.models, names, strict=True)
    ]
    columns = (
        *text_columns("Model"),
        *map(Column, ("ImageNet-1K accuracy (%)", "Seen subclasses (%)", "Unseen subclasses (%)")),
        Column("Gap (points)"),
        Column("Gap, mean over superclasses (points)", hint="over superclasses that have both"),
    )
    rows = tuple(
        TableRow(
            (
                model.name,
                "–" if model.imagenet_accuracy is None else hundredths(model.imagenet_accuracy),
                *_cells(model.seen, model.unseen, model.gap, model.mean_gap),
            )
        )
        for model in models
    )
    text = (
        "Networks trained on ImageNet-1K learned superclasses from subclasses seen in training,"
        " and were tested on unseen subclasses of the same superclasses."
    )
    table = Table(
        f"superclasses-{number}", "Accuracy on seen and on unseen subclasses", columns, rows,
        note=" ".join(("95 % intervals, bootstrap over subclasses (synsets).", *results.notes)),
    )  # fmt: skip
    known = models_with_accuracy(results.models)
    return View(
        "Subclasses never seen in training",
        text,
        table,
        (_scatter_chart(known, number),) if known else (),
        parts=_by_superclass(models, number) if len(models) <= MOST_MODELS else None,
        confusions=_confusions(models, number, "Model"),
    )


def _by_superclass(models: Sequence[SuperclassModelScore], number: int) -> Table:
    columns = [*text_columns("Superclass"), Column("Seen subclasses"), Column("Unseen subclasses")]
    for model in models:
        columns += [Column(f"{kind} (%)", group=model.name) for kind in ("Seen", "Unseen")]
    rows = []
    for index, first in enumerate(models[0].superclasses):
        shares = [
            share
            for model in models
            for share in (model.superclasses[index].seen, model.superclasses[index].unseen)
        ]
        counts = (f"{count:,}" for count in first.synsets)
        rows.append(TableRow((first.name, *counts, *_cells(*shares))))
    return Table(f"by-superclass-{number}", "Each superclass", tuple(columns), tuple(rows))


def _scatter_chart(models: Sequence[tuple[str, float, SuperclassModelScore]], number: int) -> Chart:
    traces: list[Spec] = []
    for name, color, symbol in (("seen", COLORS[0], "diamond"), ("unseen", COLORS[1], "circle")):
        shares = [model.seen if name == "seen" else model.unseen for *_, model in models]
        values = [100 * share.value for share in shares]
        intervals = [(100 * share.interval[0], 100 * share.interval[1]) for share in shares]
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": f"{name} subclasses",
                "x": [rounded(accuracy) for _, accuracy, _ in models],
                "y": [rounded(value) for value in values],
                "text": [escape(short) for short, *_ in models],
                "error_y": {**INTERVAL, **error_bar(values, intervals)},
                "marker": {"color": color, "size": 11, "symbol": symbol},
                "meta": {"model": ""},
                "hovertemplate": "%{text}: %{y:.1f} %<extra>" + name + "</extra>",
            }
        )
    layout = {
        "height": 380,
        "xaxis": axis(X_TITLE),
        "yaxis": axis(Y_TITLE, rangemode="normal"),
        "legend": LEGEND,
    }
    title = "Seen and unseen subclasses against accuracy on ImageNet-1K"
    words = "; ".join(
        f"{short}: {model.seen.value:.2f} seen, {model.unseen.value:.2f} unseen"
        for short, _, model in models
    )
    alt = f"Accuracy, {words}."
    return make_chart("structure", title, alt, traces, layout, id=slug("superclasses", number))
