"""Options of structure studies, each declared once, and the published training recipes.

Imports nothing slow, because the command line is built from these records.
"""

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from eyechart.core.errors import UsageError
from eyechart.core.options import Device, Option
from eyechart.core.registry import unknown_name
from eyechart.models.network_registry import ARCH_HELP
from eyechart.training.recipe import GROUP, Recipe
from eyechart.training.training_settings import OutFolder, Stimulus, check_seeds, images_option

# As in the authors' code: 50 epochs, batch 128, Nesterov momentum, cosine schedule, crop with 4 px
# padding.
HOLDOUT_RECIPE = Recipe(epochs=50, batch_size=128, nesterov=True, schedule="cosine", crop=4)
"""Recipe of ICONS-50."""

CIFAR100_RECIPE = replace(HOLDOUT_RECIPE, epochs=100, weight_decay=5e-4, mixup=1.0)
SUPERCLASS_RECIPE = Recipe(
    epochs=1, batch_size=128, lr=0.01, weight_decay=5e-4, schedule="cosine", tune="last"
)
HOLDOUT_NETWORK, CIFAR100_NETWORK = "wrn_16_4", "wrn_40_2"
PUBLISHED_STIMULUS = "32x32"
"""Stimulus of ICONS-50, whose authors resize every icon to this size."""

HoldoutStimulus = Annotated[
    str | None,
    Option(
        help="Of --images: 224 (shorter side 256, center crop 224) or another side, 32x32 (resize"
        f" only) or another WIDTHxHEIGHT, or native; default: {PUBLISHED_STIMULUS} for the original"
        " ICONS-50 and its published hold-out, native otherwise.",
        group="Data",
        metavar="SIZE",
        is_advanced=True,
    ),
]

ORDERS = ("random", "published")


@dataclass(frozen=True, kw_only=True)
class HoldoutSettings:
    """Options of studies of held-out styles and of held-out subclasses."""

    seeds: Annotated[int, Option(help="Networks of each fold.", group=GROUP)] = 1
    seed: Annotated[int, Option(help="The first network's.", group="Compute")] = 0
    device: Device = "cpu"

    def check(self) -> None:
        """Raise a UsageError if the settings are inconsistent."""
        check_seeds(self.seeds)

    @property
    def all_seeds(self) -> tuple[int, ...]:
        """Seeds of the networks of each fold."""
        return tuple(range(self.seed, self.seed + self.seeds))


@dataclass(frozen=True, kw_only=True)
class StyleSettings(HoldoutSettings):
    """Options of a study of held-out styles."""

    images: Annotated[
        Path,
        images_option(
            "A CSV or Parquet file with the columns path, label and style, as structure icons"
            " build writes."
        ),
    ]
    stimulus: HoldoutStimulus = None
    hold: Annotated[
        tuple[str, ...],
        Option(
            help="Only this style; repeatable; each in turn if omitted.",
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
            help="CIFAR-100's python version (train, test, meta) instead.",
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
            help="Number of subclasses held out over all classes instead, such as 50.",
            group="Data",
            is_advanced=True,
        ),
    ] = None
    folds: Annotated[
        int | None,
        Option(
            help="Number of folds, with different subclasses as long as there are any; 3, or 1 if "
            "the subclasses are given.",
            group="Data",
        ),
    ] = None
    order: Annotated[
        str,
        Option(
            help="Choice of subclasses: random, or published (that of the authors of CIFAR-100 or "
            "ICONS-50).",
            group="Data",
            is_advanced=True,
        ),
    ] = "random"
    hold: Annotated[
        tuple[str, ...],
        Option(
            help="Hold out this subclass, or those listed in a text file; repeatable.",
            group="Data",
            metavar="NAME|FILE",
        ),
    ] = ()
    arch: Annotated[
        str | None,
        Option(
            help=f"As for structure style; {HOLDOUT_NETWORK}, for CIFAR-100 {CIFAR100_NETWORK}.",
            group="Models",
        ),
    ] = None
    epochs: Annotated[
        int | None,
        Option(
            help=f"Number of epochs; {HOLDOUT_RECIPE.epochs}, for CIFAR-100"
            f" {CIFAR100_RECIPE.epochs}.",
            group=GROUP,
        ),
    ] = None
    weight_decay: Annotated[
        float | None,
        Option(
            help=f"Of SGD; {HOLDOUT_RECIPE.weight_decay:g}, for CIFAR-100"
            f" {CIFAR100_RECIPE.weight_decay:g}.",
            group=GROUP,
            is_advanced=True,
        ),
    ] = None
    mixup: Annotated[
        float | None,
        Option(
            help=f"The a of mixup's Beta(a, a); {HOLDOUT_RECIPE.mixup:g}, for CIFAR-100"
            f" {CIFAR100_RECIPE.mixup:g}.",
            group=GROUP,
            is_advanced=True,
        ),
    ] = None
    out: OutFolder = Path("eyechart-subclass")

    @property
    def is_published(self) -> bool:
        """Whether the published hold-out is used."""
        return self.order == "published"

    @property
    def is_listed(self) -> bool:
        """Whether the subclasses to hold out are given by name."""
        return bool(self.hold) or (self.is_published and self.cifar100 is None)

    @property
    def network(self) -> str:
        """Architecture."""
        return self.arch or (HOLDOUT_NETWORK if self.cifar100 is None else CIFAR100_NETWORK)

    def complete(self, recipe: Recipe) -> Recipe:
        """Return a recipe with the given values, or the defaults for these images."""
        usual = HOLDOUT_RECIPE if self.cifar100 is None else CIFAR100_RECIPE
        for name in ("epochs", "weight_decay", "mixup"):
            typed = getattr(self, name)
            recipe = replace(recipe, **{name: getattr(usual, name) if typed is None else typed})
        # as the published code does; elsewhere one weight for a batch, as in the paper on mixup
        return replace(recipe, mixup_per_image=self.is_published and recipe.mixup > 0)

    def check(self) -> None:
        """Raise a UsageError if the settings are inconsistent."""
        if (self.images is None) == (self.cifar100 is None):
            raise UsageError("Give either --images or --cifar100.")
        if self.order not in ORDERS:
            raise unknown_name("order", self.order, ORDERS)
        if self.stimulus is not None and self.cifar100 is not None:
            raise UsageError("CIFAR-100's images are not resized: omit --stimulus.")
        is_counted = self.in_all is not None or self.per_class != 1
        if self.in_all is not None and self.per_class != 1:
            raise UsageError("Give --per-class or --in-all, not both.")
        if self.hold and self.is_published:
            raise UsageError("Give --hold or --order published, not both.")
        if self.is_listed and (is_counted or self.folds not in (None, 1)):
            raise UsageError(
                "The subclasses to hold out are given by name, in one fold: omit --per-class, "
                "--in-all and --folds."
            )
        if self.folds is not None and self.folds < 1:
            raise UsageError(f"folds must be a whole number of at least 1, got {self.folds}.")
        super().check()


@dataclass(frozen=True, kw_only=True)
class SuperclassSettings:
    """Options of a study of unseen subclasses of known superclasses."""

    models: Annotated[
        tuple[str, ...],
        Option(
            help="timm:NAME, hf:REPO, module:attribute, a checkpoint or a card, as for evaluate; "
            "each must be a torch module that was trained on ImageNet-1K.",
            group="Models",
            metavar="MODEL…",
            is_argument=True,
        ),
    ]
    images: Annotated[
        Path, images_option("Folders named by WordNet ids, as ImageNet-22K has them.")
    ]
    hypernyms: Annotated[
        Path,
        Option(
            help="WordNet's hypernyms, 'parent child' per line: wordnet.is_a.txt.",
            group="Data",
            metavar="FILE",
            path="folder or file",
        ),
    ]
    seen_images: Annotated[
        Path | None,
        images_option(
            "Test images of seen subclasses, labeled by WordNet ids, such as ImageNet-1K's"
            " validation set; without it a fifth of --images, possibly training images."
        ),
    ] = None
    imagenet_1k: Annotated[
        Path | None,
        Option(
            help="File with WordNet ids of seen subclasses; ImageNet-1K's if omitted.",
            group="Data",
            is_advanced=True,
            metavar="FILE",
            path="folder or file",
        ),
    ] = None
    superclasses: Annotated[
        Path | None,
        Option(
            help="File of superclasses, a WordNet id and a name per line; the 25 published ones if "
            "omitted.",
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
        str, Option(help="last: the last layer alone; all: everything.", group=GROUP)
    ] = SUPERCLASS_RECIPE.tune
    imagenet_accuracy: Annotated[
        tuple[str, ...],
        Option(
            help="Accuracy on ImageNet-1K before tuning, such as timm:resnet50=0.77; repeatable; "
            "the published accuracy of the model if omitted.",
            group="Models",
            is_advanced=True,
            metavar="MODEL=SHARE",
        ),
    ] = ()
    device: Device = "cpu"
    out: OutFolder = Path("eyechart-superclass")

    @property
    def accuracies(self) -> dict[str, float]:
        """Given accuracies on ImageNet-1K by model."""
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
                    f"imagenet-accuracy must be MODEL=SHARE with a share from 0 to 1, such as"
                    f" timm:resnet50=0.77, got {text!r}."
                )
            if name not in self.models:
                raise unknown_name("model", name, self.models)
            by_model[name] = accuracy
        return by_model

    def check(self) -> None:
        """Raise a UsageError if the settings are inconsistent."""
        # Evaluated for its errors only.
        _ = self.accuracies
        for path in (self.images, self.seen_images):
            if path is not None and self.out.exists() and self.out.resolve() == path.resolve():
                raise UsageError(f"{self.out} contains the images: choose another --out.")
