"""`eyechart structure superclass`: test pretrained networks on unseen subclasses."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from eyechart.cli.shared.derived_options import Only, derived_options
from eyechart.cli.shared.help import examples
from eyechart.cli.shared.printing import share_text, wide_console
from eyechart.cli.shared.progress import ProgressBars
from eyechart.cli.shared.stop import resumable, shard_done
from eyechart.pipeline.settings import LoadingSettings
from eyechart.structure.structure_settings import SUPERCLASS_RECIPE, SuperclassSettings
from eyechart.training.recipe import Recipe

if TYPE_CHECKING:
    import torch

    from eyechart.models.model import Model
    from eyechart.structure.study_results import SuperclassResults
    from eyechart.structure.superclasses import SeenUnseenSplit
    from eyechart.training.retrain import Load


@examples(
    "eyechart structure superclass timm:vgg16 --images in21k --hypernyms is_a.txt",
    "eyechart structure superclass a.pt b.pt --images in21k --hypernyms is_a.txt",
)
@derived_options
def superclass(
    settings: SuperclassSettings,
    recipe: Annotated[
        Recipe,
        Only(
            "epochs", "batch_size", "lr", "weight_decay", "schedule", "flip", "precision",
            "deterministic", "seed", usual=SUPERCLASS_RECIPE,
        ),
    ],
    loading: LoadingSettings,
) -> None:  # fmt: skip
    """Fine-tune models on seen subclasses of superclasses, and test them on unseen subclasses.

    Subclasses in ImageNet-1K are seen, and all others are unseen. The defaults are the settings of
    the published experiment. Run the same command again to resume; name more models to add them.
    """
    from eyechart.core.devices import find_device
    from eyechart.models.find import load_model
    from eyechart.structure.superclass_study import check_specs

    recipe = replace(recipe, tune=settings.tune)
    recipe.check()
    check_specs(settings.models)
    settings.check()
    device = find_device(settings.device)
    chosen = _sort(settings)

    def load(spec: str, half: bool | None = None) -> "Model":
        return load_model(spec, device, half, trust=loading.trust, download=loading.download)

    out = settings.out
    results = _run(settings, recipe, chosen, load, device)
    if results is None:
        print(shard_done(settings.shard, out))
        return
    _show_superclasses(results)
    print(f"Written: {out / 'results.json'}; report: eyechart structure report {out}")


def _sort(settings: SuperclassSettings) -> "SeenUnseenSplit":
    """Return the images grouped by superclass, and by whether their subclass is seen or unseen."""
    from eyechart.images.image_sources import find_images
    from eyechart.structure.superclasses import (
        PUBLISHED,
        read_hypernyms,
        read_superclasses,
        read_synsets,
        sort_images,
        with_seen_test,
    )

    images, seen_images, out = settings.images, settings.seen_images, settings.out
    known = read_hypernyms(settings.hypernyms)
    named = PUBLISHED if settings.superclasses is None else read_superclasses(settings.superclasses)
    seen = read_synsets(settings.imagenet_1k)
    chosen = sort_images(
        find_images(images, out),
        str(images),
        known,
        superclasses=named,
        imagenet=seen,
        most=settings.max_images,
    )
    if seen_images is None:
        return chosen
    return with_seen_test(chosen, find_images(seen_images, out), str(seen_images), known, seen)


def _run(
    settings: SuperclassSettings,
    recipe: Recipe,
    chosen: "SeenUnseenSplit",
    load: "Load",
    device: "torch.device",
) -> "SuperclassResults | None":
    """Fine-tune and test the models; return None if models of other shards are missing."""
    from eyechart.structure.superclass_study import load_split, run_superclasses, score_superclasses
    from eyechart.training.retrain import trainable

    with resumable(settings.out, "finished work"), ProgressBars() as bars:
        for spec in settings.models:
            # fail now rather than after hours of work on the other models
            trainable(load(spec, half=False))
        seen_source = str(settings.seen_images or "")
        data = load_split(chosen, str(settings.images), settings.stimulus, bars, seen_source)
        published_accuracies = run_superclasses(
            settings.models,
            data,
            recipe,
            load=load,
            device=device,
            out=settings.out,
            progress=bars,
            shard=settings.shard,
        )
    if published_accuracies is None:
        return None
    accuracies = {**published_accuracies, **settings.accuracies}
    return score_superclasses(settings.models, data, recipe, accuracies, settings.out)


MOST_SHOWN = 4
"""Maximum number of models for which results by superclass fit on the screen."""


def _show_superclasses(results: "SuperclassResults") -> None:
    """Print a line for each model and, if there are few models, a line for each superclass."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    from eyechart.reports.titles import short_names

    console = wide_console()
    names = [escape(name) for name in short_names([model.name for model in results.models])]
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("model")
    for name in ("ImageNet-1K (%)", "seen (%)", "unseen (%)", "gap (points)",
                 "gap, mean over superclasses"):  # fmt: skip
        table.add_column(name, justify="right")
    for name, model in zip(names, results.models, strict=True):
        known = model.imagenet_accuracy
        table.add_row(
            name,
            "–" if known is None else f"{100 * known:.1f}",
            *(share_text(share) for share in (model.seen, model.unseen, model.gap, model.mean_gap)),
        )
    console.print(table)
    if len(results.models) <= MOST_SHOWN:
        by = Table(box=box.SIMPLE_HEAD)
        by.add_column("superclass")
        for name in ("seen synsets", "unseen synsets"):
            by.add_column(name, justify="right")
        for name in names:
            by.add_column(f"{name}: seen (%)", justify="right")
            by.add_column("unseen (%)", justify="right")
        for number, first in enumerate(results.models[0].superclasses):
            scores = [model.superclasses[number] for model in results.models]
            cells = [share_text(share) for score in scores for share in (score.seen, score.unseen)]
            by.add_row(first.name, *(f"{count:,}" for count in first.synsets), *cells)
        console.print(by)
    trained, seen, unseen = results.n_images
    print(
        f"Trained with {trained:,} images; tested with {seen:,} images of {results.synsets[0]:,}"
        f" seen synsets and {unseen:,} images of {results.synsets[1]:,} unseen synsets. In"
        " parentheses: 95 % confidence intervals (bootstrap over synsets)."
    )
    for note in results.notes:
        print(f"Note: {note}")
