"""`eyechart structure style` and `subclass`: train without styles or subclasses, test on them."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from eyechart.cli.shared.derived_options import Only, derived_options, examples
from eyechart.cli.shared.printing import wide_console
from eyechart.cli.shared.progress import ProgressBars
from eyechart.cli.shared.stop import resumable, shard_done
from eyechart.cli.shared.training_options import (
    OutFolder,
    check_seeds,
    images_option,
)
from eyechart.core.arguments import resolved_path
from eyechart.core.errors import UsageError
from eyechart.core.options import Device, Option, ShardOption
from eyechart.core.phrases import count_of, first_names, verb
from eyechart.core.registry import unknown_name
from eyechart.models.registries import ARCH_HELP
from eyechart.structure.structure_settings import (
    CIFAR100_RECIPE,
    FAMILIAR,
    HOLDOUT_RECIPE,
    PROTOCOLS,
    PUBLISHED,
)
from eyechart.training.recipe import GROUP, Recipe

if TYPE_CHECKING:
    from collections.abc import Callable

    from eyechart.core.progress import Progress
    from eyechart.structure.holdout_images import HoldoutImages, Trait
    from eyechart.structure.holdout_study import HoldoutStudy


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
        is_cifar100 = self.cifar100 is not None
        is_per_class, is_in_all = self.per_class != 1, self.in_all is not None
        is_counted = is_per_class or is_in_all or self.folds not in (None, 1)
        if self.order not in ORDERS:
            raise unknown_name("order", self.order, ORDERS)
        if (self.images is not None) == is_cifar100:
            raise UsageError("Pass either --images or --cifar100.")
        if self.stimulus is not None and is_cifar100:
            raise UsageError("CIFAR-100's images are not resized: omit --stimulus.")
        if is_per_class and is_in_all:
            raise UsageError("Pass --per-class or --in-all, not both.")
        if self.hold and self.is_published:
            raise UsageError("Pass --hold or --order published, not both.")
        if self.is_listed and is_counted:
            raise UsageError(
                "Named subclasses are held out in one fold: omit --per-class, --in-all and --folds."
            )
        if self.folds is not None and self.folds < 1:
            raise UsageError(f"folds must be a whole number of at least 1, got {self.folds}.")
        super().check()


@examples(
    "eyechart structure style --images icons/icons.csv",
    "eyechart structure style --images icons/icons.csv --hold noto --epochs 30",
)
@derived_options
def style(
    images: Annotated[
        Path,
        images_option(
            "A CSV or Parquet file with the columns path, label and style, as written by structure"
            " icons build."
        ),
    ],
    stimulus: HoldoutStimulus = None,
    hold: Annotated[
        tuple[str, ...],
        Option(
            help="Hold out only this style; repeatable; by default, each style in turn.",
            group="Data",
            metavar="STYLE",
        ),
    ] = (),
    arch: Annotated[
        str,
        Option(help=f"{ARCH_HELP}.", group="Models"),
    ] = HOLDOUT_NETWORK,
    out: OutFolder = Path("eyechart-style"),
    *,
    recipe: Annotated[
        Recipe,
        Only(
            "epochs", "batch_size", "lr", "weight_decay", "schedule", "flip", "crop", "precision",
            "deterministic", usual=HOLDOUT_RECIPE,
        ),
    ],
    settings: HoldoutSettings,
) -> None:  # fmt: skip
    """Train a network without one style and test it on that style.

    The network is also tested on familiar styles of the same classes, with images that were held
    out of training, unless --protocol is published. The defaults of training are the settings used
    for ICONS-50. Run the same command again to resume.
    """
    from eyechart.structure.folds import style_folds
    from eyechart.structure.holdout_study import HoldoutStudy

    settings.check()
    recipe.check()

    def load(progress: "Progress") -> "HoldoutImages":
        is_published = settings.chosen_protocol == PUBLISHED
        return _load(images, "style", stimulus, is_published, out, progress)

    def plan(kinds: "HoldoutImages") -> "HoldoutStudy":
        folds = style_folds(kinds, hold, settings.seed, settings.chosen_protocol)
        return HoldoutStudy(
            "style",
            tuple(folds),
            arch,
            recipe,
            settings.all_seeds,
            protocol=settings.chosen_protocol,
        )

    _run(settings, out, load, plan)


@examples(
    "eyechart structure subclass --images icons/icons.csv",
    "eyechart structure subclass --cifar100 cifar-100-python --folds 5",
)
@derived_options
def subclass(
    settings: SubclassSettings,
    recipe: Annotated[
        Recipe,
        Only(
            "batch_size", "lr", "schedule", "flip", "crop", "precision", "deterministic",
            usual=HOLDOUT_RECIPE,
        ),
    ],
) -> None:  # fmt: skip
    """Train a network without some subclasses and test it on them.

    The network is also tested on familiar subclasses, unless --protocol is published. The defaults
    of training are the settings of the published experiments. Run the same command again to resume.
    """
    from eyechart.structure.cifar100 import load_cifar100, published_order
    from eyechart.structure.folds import named_fold, subclass_folds
    from eyechart.structure.held_out_names import hold_named, hold_published, read_names
    from eyechart.structure.holdout_study import HoldoutStudy

    settings.check()
    names = read_names(settings.hold)
    recipe = settings.complete(recipe)
    recipe.check()

    def load(progress: "Progress") -> "HoldoutImages":
        if settings.cifar100 is not None:
            return load_cifar100(settings.cifar100, progress)
        assert settings.images is not None
        is_published = settings.is_published or settings.chosen_protocol == PUBLISHED
        return _load(
            settings.images, "subclass", settings.stimulus, is_published, settings.out, progress
        )

    def plan(kinds: "HoldoutImages") -> "HoldoutStudy":
        protocol = settings.chosen_protocol
        notes: tuple[str, ...] = ()
        if settings.is_listed:
            held, notes = (hold_named(kinds, names), ()) if names else hold_published(kinds)
            folds = [named_fold(kinds, held, settings.seed, protocol)]
        else:
            order, usual_folds = None, 3
            if settings.is_published and settings.cifar100 is not None:
                # one fold, because the published number is for one choice of subclasses
                order, usual_folds = published_order(kinds, settings.cifar100), 1
            folds = subclass_folds(
                kinds,
                settings.per_class,
                in_all=settings.in_all,
                folds=settings.folds or usual_folds,
                order=order,
                seed=settings.seed,
                protocol=protocol,
            )
        return HoldoutStudy(
            "subclass",
            tuple(folds),
            settings.arch or (HOLDOUT_NETWORK if settings.cifar100 is None else CIFAR100_NETWORK),
            recipe,
            settings.all_seeds,
            normalize=settings.cifar100 is not None,
            notes=notes,
            protocol=protocol,
        )

    _run(settings, settings.out, load, plan)


def _load(
    images: Path,
    kind: "Trait",
    stimulus: str | None,
    is_published: bool,
    out: Path,
    progress: "Progress",
) -> "HoldoutImages":
    """Return the images, by default at the published size for ICONS-50 or the paper's folds."""
    from eyechart.structure.holdout_images import load_holdout_images
    from eyechart.structure.icons50 import is_icons50

    folder = images.parent if images.is_file() else images
    usual = PUBLISHED_STIMULUS if is_published or is_icons50(images) else "native"
    if out.exists() and resolved_path(out) == resolved_path(folder):
        raise UsageError(f"{out} contains the images: choose another --out.")
    return load_holdout_images(images, kind, stimulus or usual, progress, out)


def _run(
    settings: HoldoutSettings,
    out: Path,
    load: "Callable[[Progress], HoldoutImages]",
    plan: "Callable[[HoldoutImages], HoldoutStudy]",
) -> None:
    """Load images, run the planned study, and print its results."""
    from eyechart.core.devices import find_device
    from eyechart.reports.terminal.study_tables import (
        counted_sentence,
        holdout_sentences,
        holdout_table,
        planned_sentence,
    )
    from eyechart.structure.holdout_scores import score_study
    from eyechart.structure.holdout_study import open_study, run_study

    device = find_device(settings.device)
    with resumable(out, "finished work"), ProgressBars() as bars:
        kinds = load(bars)
        study = plan(kinds)
        # Nothing is planned unless the study can run in this folder.
        open_study(study, kinds, out)
        print(planned_sentence(study))
        is_done = run_study(study, kinds, device, out, bars, settings.shard)
    if not is_done:
        print(shard_done(settings.shard, out))
        return
    results = score_study(study, kinds, out)
    wide_console().print(holdout_table(results))
    for sentence in holdout_sentences(results):
        print(sentence)
    print(counted_sentence(kinds, study.kind))
    damaged = kinds.data.images.damaged
    if damaged:
        images = f"{count_of(len(damaged), 'image')} {verb(len(damaged), 'was')}"
        names = first_names([image.name for image in damaged])
        print(f"Note: {images} skipped: {names}; the first: {damaged[0].why}")
    print(f"Written: {out / 'results.json'}; report: eyechart structure report {out}")
