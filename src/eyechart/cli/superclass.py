"""`eyechart structure superclass`: test pretrained networks on unseen subclasses."""

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from eyechart.cli.shared.derived_options import Only, derived_options, examples
from eyechart.cli.shared.printing import print_notes, wide_console
from eyechart.cli.shared.progress import ProgressBars
from eyechart.cli.shared.stop import resumable, shard_done
from eyechart.cli.shared.training_options import (
    OutFolder,
    Stimulus,
    images_option,
)
from eyechart.core.arguments import resolved_path
from eyechart.core.errors import UsageError
from eyechart.core.options import Device, Option, ShardOption
from eyechart.core.registry import unknown_name
from eyechart.pipeline.settings import LoadingSettings
from eyechart.structure.structure_settings import SUPERCLASS_RECIPE
from eyechart.training.recipe import GROUP, Recipe

if TYPE_CHECKING:
    from eyechart.models.model import Model
    from eyechart.structure.superclasses import SeenUnseenSplit


@dataclass(frozen=True, kw_only=True)
class SuperclassSettings:
    """Options of a superclass study, which tests models on unseen subclasses."""

    models: Annotated[
        tuple[str, ...],
        Option(
            help="timm:NAME, hf:REPO, module:attribute, a checkpoint or a card, as for evaluate; "
            "each must be a torch module trained on ImageNet-1K.",
            group="Models",
            metavar="MODEL…",
            is_argument=True,
        ),
    ]
    images: Annotated[Path, images_option("Folders named after WordNet ids, as in ImageNet-22K.")]
    hypernyms: Annotated[
        Path,
        Option(
            help="WordNet's file wordnet.is_a.txt, with two ids, 'parent child', on each line.",
            group="Data",
            metavar="FILE",
            path="folder or file",
        ),
    ]
    seen_images: Annotated[
        Path | None,
        images_option(
            "Test images of seen subclasses, labeled with WordNet ids, such as ImageNet-1K's"
            " validation set; by default a fifth of --images, on which models may have been"
            " trained."
        ),
    ] = None
    imagenet_1k: Annotated[
        Path | None,
        Option(
            help="File with the WordNet ids of seen subclasses; by default ImageNet-1K's classes.",
            group="Data",
            is_advanced=True,
            metavar="FILE",
            path="folder or file",
        ),
    ] = None
    superclasses: Annotated[
        Path | None,
        Option(
            help="File of superclasses, with a WordNet id and a name on each line; by default the "
            "25 published superclasses.",
            group="Data",
            is_advanced=True,
            metavar="FILE",
            path="folder or file",
        ),
    ] = None
    max_images: Annotated[
        int | None, Option(help="Maximum number of images per unseen synset.", group="Data")
    ] = None
    stimulus: Stimulus = "224"
    tune: Annotated[
        str, Option(help="Layers to tune: last (only the last layer) or all.", group=GROUP)
    ] = SUPERCLASS_RECIPE.tune
    imagenet_accuracy: Annotated[
        tuple[str, ...],
        Option(
            help="Accuracy on ImageNet-1K before tuning, such as timm:resnet50=0.77; repeatable; "
            "by default the model's published accuracy.",
            group="Models",
            is_advanced=True,
            metavar="MODEL=ACCURACY",
        ),
    ] = ()
    device: Device = "cpu"
    shard: ShardOption = None
    out: OutFolder = Path("eyechart-superclass")

    @property
    def accuracies(self) -> dict[str, float]:
        """The accuracy on ImageNet-1K that the user gave for each model."""
        by_model: dict[str, float] = {}
        for text in self.imagenet_accuracy:
            # At the last "=", because the name of a model may contain one.
            name, equals, number = text.rpartition("=")
            try:
                accuracy = float(number) if equals else math.nan
            except ValueError:
                accuracy = math.nan
            if not 0 <= accuracy <= 1:
                raise UsageError(
                    f"imagenet-accuracy must be MODEL=ACCURACY with an accuracy from 0 to 1, such"
                    f" as timm:resnet50=0.77, got {text!r}."
                )
            if name not in self.models:
                raise unknown_name("model", name, self.models)
            by_model[name] = accuracy
        return by_model

    def check(self) -> None:
        """Raise a UsageError if the settings are inconsistent."""
        # Evaluated only for the errors that it raises.
        _ = self.accuracies
        for path in filter(None, (self.images, self.seen_images)):
            if self.out.exists() and resolved_path(self.out) == resolved_path(path):
                raise UsageError(f"{self.out} contains the images: choose another --out.")


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
    from eyechart.reports.terminal.study_tables import superclass_tables
    from eyechart.structure.superclass_study import (
        check_specs,
        load_split,
        run_superclasses,
        score_superclasses,
    )
    from eyechart.training.retrain import trainable

    recipe = replace(recipe, tune=settings.tune)
    recipe.check()
    check_specs(settings.models)
    settings.check()
    device = find_device(settings.device)
    chosen = _sort(settings)

    def load(spec: str, half: bool | None = None) -> "Model":
        return load_model(spec, device, half, trust=loading.trust, download=loading.download)

    out = settings.out
    with resumable(out, "finished work"), ProgressBars() as bars:
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
            out=out,
            progress=bars,
            shard=settings.shard,
        )
    if published_accuracies is None:
        print(shard_done(settings.shard, out))
        return
    accuracies = {**published_accuracies, **settings.accuracies}
    results = score_superclasses(settings.models, data, recipe, accuracies, out)
    console = wide_console()
    for table in superclass_tables(results):
        console.print(table)
    trained, seen, unseen = results.n_images
    print(
        f"Trained with {trained:,} images; tested with {seen:,} images of {results.synsets[0]:,}"
        f" seen synsets and {unseen:,} images of {results.synsets[1]:,} unseen synsets. In"
        " parentheses: 95 % confidence intervals (bootstrap over synsets)."
    )
    print_notes(results.notes)
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
