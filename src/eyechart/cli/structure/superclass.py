"""`eyechart structure superclass`: pretrained networks on unseen kinds of superclasses."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eyechart.cli.shared.derived_options import Only, derived_options
from eyechart.cli.shared.paths import folder, folder_or_file
from eyechart.cli.shared.stop import stopped
from eyechart.cli.shared.training_options import (
    Stimulus,
)
from eyechart.core.errors import UsageError
from eyechart.pipeline.settings import LoadingSettings
from eyechart.training.recipe import Recipe

if TYPE_CHECKING:
    import torch

    from eyechart.models.model import Model
    from eyechart.structure.study_results import SuperclassResults
    from eyechart.structure.superclasses import Sorted
    from eyechart.training.retrain import Load


@derived_options
def superclass(
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL…",
            help="timm:NAME, hf:REPO, module:attribute, a checkpoint or a card, as of evaluate;"
            " each must be a torch module that was trained on ImageNet-1K.",
        ),
    ],
    images: Annotated[
        Path,
        typer.Option(
            metavar="PATH",
            parser=folder_or_file,
            help="Folders named by WordNet ids, as ImageNet-22K has them.",
        ),
    ],
    hypernyms: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            parser=folder_or_file,
            help="WordNet's kinds of things, 'parent child' in each line: wordnet.is_a.txt.",
        ),
    ],
    seen_images: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            parser=folder_or_file,
            help="Images to test seen kinds with, labelled by WordNet ids, such as ImageNet-1K's"
            " validation set; without it a fifth of --images, which the models may know.",
        ),
    ] = None,
    imagenet_1k: Annotated[
        Path | None,
        typer.Option(
            "--imagenet-1k",
            metavar="FILE",
            parser=folder_or_file,
            help="WordNet ids of what the models have seen; without it ImageNet-1K's.",
        ),
    ] = None,
    superclasses: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            parser=folder_or_file,
            help="A WordNet id and a name in each line; without it the 25 published ones.",
        ),
    ] = None,
    tune: Annotated[str, typer.Option(help="last: the last layer alone; all: everything.")] = (
        "last"
    ),
    pictures: Annotated[
        int | None, typer.Option(help="At most so many pictures of each unseen synset.")
    ] = None,
    imagenet_accuracy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MODEL=SHARE",
            help="Accuracy on ImageNet-1K before tuning, such as timm:resnet50=0.77; repeatable;"
            " without it what is known of the model.",
        ),
    ] = None,
    stimulus: Stimulus = "224",
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    out: Annotated[
        Path, typer.Option(metavar="FOLDER", parser=folder, help="Where all that is made goes.")
    ] = Path("eyechart-superclass"),
    *,
    recipe: Annotated[
        Recipe,
        Only(
            "flip",
            "precision",
            "deterministic",
            "seed",
            epochs=1,
            batch=128,
            rate=0.01,
            schedule="cosine",
            weight_decay=5e-4,
        ),
    ],
    loading: LoadingSettings,
) -> None:
    """Teach models superclasses from kinds they know, and test them on kinds they never met.

    Seen is what ImageNet-1K has of a superclass, unseen what it has not. The defaults are those of
    the published experiment. The same command goes on with what was stopped, and models can be
    added to it.
    """
    from eyechart.core.devices import find_device
    from eyechart.images.dataset import find_images
    from eyechart.models.find import load_model
    from eyechart.structure.hypernyms import read_hypernyms
    from eyechart.structure.superclass_study import check_specs
    from eyechart.structure.superclasses import (
        PUBLISHED,
        read_superclasses,
        read_synsets,
        sort_pictures,
        with_seen_test,
    )

    recipe = replace(recipe, tune=tune)
    recipe.check()
    check_specs(models)
    said = parse_accuracies(imagenet_accuracy or [], models)
    for each in (images, seen_images):
        if each is not None and out.exists() and out.resolve() == each.resolve():
            raise UsageError(f"{out} holds the pictures: choose another --out.")
    where = find_device(device)
    known = read_hypernyms(hypernyms)
    named = PUBLISHED if superclasses is None else read_superclasses(superclasses)
    seen = read_synsets(imagenet_1k)
    chosen = sort_pictures(
        find_images(images, out),
        str(images),
        known,
        superclasses=named,
        imagenet=seen,
        most=pictures,
    )
    if seen_images is not None:
        listed = find_images(seen_images, out)
        chosen = with_seen_test(chosen, listed, str(seen_images), known, seen)

    def load(spec: str, half: bool | None = None) -> "Model":
        return load_model(spec, where, half, trust=loading.trust, download=loading.download)

    sources = (str(images), str(seen_images or ""))
    results = _run(models, chosen, sources, stimulus, recipe, said, load, where, out)
    _show_superclasses(results)
    print(f"Written: {out / 'results.json'}; a page on it: eyechart structure report {out}")


def parse_accuracies(texts: Sequence[str], models: Sequence[str]) -> dict[str, float]:
    """Return the accuracy that is given for each model, from texts such as "timm:resnet50=0.77"."""
    from eyechart.core.registry import unknown_name

    found: dict[str, float] = {}
    for text in texts:
        name, equals, number = text.rpartition("=")
        try:
            value = float(number) if equals else math.nan
        except ValueError:
            value = math.nan
        if not 0 <= value <= 1:
            raise UsageError(
                f"imagenet-accuracy must be MODEL=SHARE with a share from 0 to 1, such as"
                f" timm:resnet50=0.77, got {text!r}."
            )
        if name not in models:
            raise unknown_name("model", name, models)
        found[name] = value
    return found


def _run(
    specs: Sequence[str],
    chosen: "Sorted",
    sources: tuple[str, str],
    stimulus: str,
    recipe: "Recipe",
    said: dict[str, float],
    load: "Load",
    device: "torch.device",
    out: Path,
) -> "SuperclassResults":
    from eyechart.cli.shared.progress import ProgressBars
    from eyechart.structure.superclass_images import load_split
    from eyechart.structure.superclass_scores import score_superclasses
    from eyechart.structure.superclass_study import run_superclasses
    from eyechart.training.retrain import trainable

    with ProgressBars() as bars:
        try:
            for spec in specs:
                # rather now than after hours of work on the others
                trainable(load(spec, half=False))
            data = load_split(chosen, sources[0], stimulus, bars, sources[1])
            promises = run_superclasses(
                specs, data, recipe, load=load, device=device, out=out, progress=bars
            )
        except KeyboardInterrupt:
            raise stopped(out, "what was tuned and tested") from None
    return score_superclasses(specs, data, recipe, {**promises, **said}, out)


MOST_SHOWN = 4
"""Models up to which superclasses are printed too; there is no room for more."""


def _show_superclasses(results: "SuperclassResults") -> None:
    """Print a line for each model, and one for each superclass if there is room."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    from eyechart.cli.shared.console import share_text, wide_console
    from eyechart.reports.names import short_names

    console = wide_console()
    names = [escape(name) for name in short_names([each.name for each in results.models])]
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("model")
    for name in ("ImageNet-1K (%)", "seen kinds (%)", "unseen kinds (%)", "gap (points)",
                 "gap, mean over superclasses"):  # fmt: skip
        table.add_column(name, justify="right")
    for shown, each in zip(names, results.models, strict=True):
        known = each.imagenet_accuracy
        table.add_row(
            shown,
            "–" if known is None else f"{100 * known:.1f}",
            *(share_text(own) for own in (each.seen, each.unseen, each.gap, each.mean_gap)),
        )
    console.print(table)
    if len(results.models) <= MOST_SHOWN:
        by = Table(box=box.SIMPLE_HEAD)
        by.add_column("superclass")
        for name in ("seen synsets", "unseen synsets"):
            by.add_column(name, justify="right")
        for shown in names:
            by.add_column(f"{shown}: seen (%)", justify="right")
            by.add_column("unseen (%)", justify="right")
        for place, first in enumerate(results.models[0].superclasses):
            own = [each.superclasses[place] for each in results.models]
            cells = [share_text(share) for one in own for share in (one.seen, one.unseen)]
            by.add_row(first.name, *(f"{count:,}" for count in first.synsets), *cells)
        console.print(by)
    trained, seen, unseen = results.pictures
    print(
        f"Trained with {trained:,} pictures, tested with {seen:,} of {results.synsets[0]:,} seen"
        f" synsets and {unseen:,} of {results.synsets[1]:,} unseen ones. Behind each number its"
        " 95 % interval, from resampled synsets."
    )
    for note in results.notes:
        print(f"Note: {note}")
