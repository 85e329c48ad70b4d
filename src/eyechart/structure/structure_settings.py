"""Options of structure studies, each declared once, and the published training recipes.

This module imports nothing slow, because the command line is built from these records.
"""

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from eyechart.core.arguments import resolved_path
from eyechart.core.errors import UsageError
from eyechart.core.options import Device, Option, ShardOption
from eyechart.core.registry import unknown_name
from eyechart.models.network_registry import ARCH_HELP
from eyechart.training.recipe import GROUP, Recipe
from eyechart.training.training_settings import OutFolder, Stimulus, check_seeds, images_option

# As in the authors' code: 50 epochs, batch 128, Nesterov momentum, cosine schedule, crop with 4 px
# padding.
HOLDOUT_RECIPE = Recipe(epochs=50, batch_size=128, nesterov=True, schedule="cosine", crop=4)
"""Training recipe published with ICONS-50."""

CIFAR100_RECIPE = replace(HOLDOUT_RECIPE, epochs=100, weight_decay=5e-4, mixup=1.0)
SUPERCLASS_RECIPE = Recipe(
    epochs=1, batch_size=128, lr=0.01, weight_decay=5e-4, schedule="cosine", tune="last"
)
HOLDOUT_NETWORK, CIFAR100_NETWORK = "wrn_16_4", "wrn_40_2"
PUBLISHED_STIMULUS = "32x32"
"""Stimulus for ICONS-50, whose authors resize every icon to this size."""

HoldoutStimulus = Annotated[
    str | None,
    Option(
        help="How --images are resized: a size such as 224 (shorter side 256, center crop 224),"
        " WIDTHxHEIGHT such as 32x32 (without cropping), or native; by default"
        f" {PUBLISHED_STIMULUS} for the original ICONS-50 and with the published order or"
        " protocol, otherwise native.",
        group="Data",
        metavar="SIZE",
        is_advanced=True,
    ),
]

ORDERS = ("random", "published")

FAMILIAR, PUBLISHED = "familiar", "published"
PROTOCOLS = (FAMILIAR, PUBLISHED)
"""Protocols of hold-out studies: which of the images that are not held out are trained on."""


def describe_protocol(protocol: str, has_familiar: bool) -> str:
    """Return what a protocol means.

    `has_familiar`: whether there is an accuracy on familiar images.
    """
    if protocol == FAMILIAR:
        return (
            "Protocol familiar (eyechart's own): familiar images are tested and not trained on, and"
            " near-duplicates of test images are left out of training."
        )
    tested = (
        "familiar images are from the dataset's test set"
        if has_familiar
        else "none of them are left for an accuracy on familiar images"
    )
    return (
        "Protocol published (as in the paper): networks are trained on all images that are not held"
        f" out, including near-duplicates of test images; {tested}."
    )


@dataclass(frozen=True, kw_only=True)
class HoldoutSettings:
    """Options shared by studies of held-out styles and studies of held-out subclasses."""

    seeds: Annotated[int, Option(help="Number of networks trained per fold.", group=GROUP)] = 1
    seed: Annotated[int, Option(help="Seed of the first network.", group="Compute")] = 0
    device: Device = "cpu"
    shard: ShardOption = None
    protocol: Annotated[
        str | None,
        Option(
            help="Images to train on: familiar (eyechart's protocol: some are kept for testing, and"
            " near-duplicates of test images are left out), or published (as in the paper: all that"
            " are not held out); by default familiar.",
            group="Data",
        ),
    ] = None

    @property
    def chosen_protocol(self) -> str:
        """The protocol that was set, or its default."""
        return self.protocol or FAMILIAR

    def check(self) -> None:
        """Raise a UsageError if the settings are inconsistent."""
        if self.chosen_protocol not in PROTOCOLS:
            raise unknown_name("protocol", self.chosen_protocol, PROTOCOLS)
        check_seeds(self.seeds)

    @property
    def all_seeds(self) -> tuple[int, ...]:
        """Seeds of the networks trained in each fold."""
        return tuple(range(self.seed, self.seed + self.seeds))


@dataclass(frozen=True, kw_only=True)
class StyleSettings(HoldoutSettings):
    """Options of a study of held-out styles."""

    images: Annotated[
        Path,
        images_option(
            "A CSV or Parquet file with the columns path, label and style, as written by structure"
            " icons build."
        ),
    ]
    stimulus: HoldoutStimulus = None
    hold: Annotated[
        tuple[str, ...],
        Option(
            help="Hold out only this style; repeatable; by default, each style in turn.",
            group="Data",
            metavar="STYLE",
        ),
    ] = ()
    arch: Annotated[
        str,
        Option(help=f"{ARCH_HELP}.", group="Models"),
    ] = HOLDOUT_NETWORK
    out: OutFolder = Path("eyechart-style")


@dataclass(frozen=True, kw_only=True)
class SubclassSettings(HoldoutSettings):
    """Options of a study of held-out subclasses; defaults depend on the images."""

    images: Annotated[
        Path | None,
        images_option(
            "Folders class/subclass/, or a CSV or Parquet file with the columns path, label and"
            " subclass."
        ),
    ] = None
    cifar100: Annotated[
        Path | None,
        Option(
            help="CIFAR-100's Python version (files train, test and meta), instead of --images.",
            group="Data",
            metavar="FOLDER",
            path="folder",
        ),
    ] = None
    stimulus: HoldoutStimulus = None
    per_class: Annotated[
        int, Option(help="Number of subclasses per class to hold out.", group="Data")
    ] = 1
    in_all: Annotated[
        int | None,
        Option(
            help="Number of subclasses to hold out over all classes, instead of --per-class.",
            group="Data",
            is_advanced=True,
        ),
    ] = None
    folds: Annotated[
        int | None,
        Option(
            help="Number of folds; each fold holds out different subclasses while enough are left;"
            " by default 3, or 1 with --hold or --order published.",
            group="Data",
        ),
    ] = None
    order: Annotated[
        str,
        Option(
            help="Subclasses to hold out: random, or published (as in the paper's experiments on "
            "CIFAR-100 or ICONS-50, also with their --protocol).",
            group="Data",
            is_advanced=True,
        ),
    ] = "random"
    hold: Annotated[
        tuple[str, ...],
        Option(
            help="Subclass to hold out, or a text file with subclasses; repeatable.",
            group="Data",
            metavar="NAME|FILE",
        ),
    ] = ()
    arch: Annotated[
        str | None,
        Option(
            help=f"Network to train; by default {HOLDOUT_NETWORK}, or {CIFAR100_NETWORK} for"
            " CIFAR-100.",
            group="Models",
        ),
    ] = None
    epochs: Annotated[
        int | None,
        Option(
            help=f"Number of epochs; by default {HOLDOUT_RECIPE.epochs}, or"
            f" {CIFAR100_RECIPE.epochs} for CIFAR-100.",
            group=GROUP,
        ),
    ] = None
    weight_decay: Annotated[
        float | None,
        Option(
            help=f"Weight decay of SGD; by default {HOLDOUT_RECIPE.weight_decay:g}, or"
            f" {CIFAR100_RECIPE.weight_decay:g} for CIFAR-100.",
            group=GROUP,
            is_advanced=True,
        ),
    ] = None
    mixup: Annotated[
        float | None,
        Option(
            help=f"Parameter a of mixup's Beta(a, a); by default {HOLDOUT_RECIPE.mixup:g}, or"
            f" {CIFAR100_RECIPE.mixup:g} for CIFAR-100.",
            group=GROUP,
            is_advanced=True,
        ),
    ] = None
    out: OutFolder = Path("eyechart-subclass")

    @property
    def is_published(self) -> bool:
        """Whether to hold out the same subclasses as in the paper."""
        return self.order == "published"

    @property
    def chosen_protocol(self) -> str:
        """The protocol that was set, or the paper's for the subclasses of the paper."""
        return self.protocol or (PUBLISHED if self.is_published else FAMILIAR)

    @property
    def is_listed(self) -> bool:
        """Whether the subclasses to hold out are named by the user or published for ICONS-50."""
        return bool(self.hold) or (self.is_published and self.cifar100 is None)

    @property
    def network(self) -> str:
        """Architecture."""
        return self.arch or (HOLDOUT_NETWORK if self.cifar100 is None else CIFAR100_NETWORK)

    def complete(self, recipe: Recipe) -> Recipe:
        """Return a recipe with the values set here; other values are defaults for these images."""
        usual = HOLDOUT_RECIPE if self.cifar100 is None else CIFAR100_RECIPE
        for name in ("epochs", "weight_decay", "mixup"):
            typed = getattr(self, name)
            recipe = replace(recipe, **{name: getattr(usual, name) if typed is None else typed})
        # As in the published code; elsewhere one weight per batch, as in the paper on mixup.
        return replace(recipe, mixup_per_image=self.is_published and recipe.mixup > 0)

    def check(self) -> None:
        """Raise a UsageError if the settings are inconsistent."""
        if (self.images is None) == (self.cifar100 is None):
            raise UsageError("Pass either --images or --cifar100.")
        if self.order not in ORDERS:
            raise unknown_name("order", self.order, ORDERS)
        if self.stimulus is not None and self.cifar100 is not None:
            raise UsageError("CIFAR-100's images are not resized: omit --stimulus.")
        is_counted = self.in_all is not None or self.per_class != 1
        if self.in_all is not None and self.per_class != 1:
            raise UsageError("Pass --per-class or --in-all, not both.")
        if self.hold and self.is_published:
            raise UsageError("Pass --hold or --order published, not both.")
        if self.is_listed and (is_counted or self.folds not in (None, 1)):
            raise UsageError(
                "Named subclasses are held out in one fold: omit --per-class, --in-all and --folds."
            )
        if self.folds is not None and self.folds < 1:
            raise UsageError(f"folds must be a whole number of at least 1, got {self.folds}.")
        super().check()


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
        for path in (self.images, self.seen_images):
            if (
                path is not None
                and self.out.exists()
                and resolved_path(self.out) == resolved_path(path)
            ):
                raise UsageError(f"{self.out} contains the images: choose another --out.")
