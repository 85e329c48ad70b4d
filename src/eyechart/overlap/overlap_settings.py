"""Options of overlap studies and their analysis, each declared once.

This module imports nothing slow, because the command line is built from these records.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Self

from eyechart.core.arguments import digits
from eyechart.core.errors import UsageError
from eyechart.core.options import Option, Seed, ShardOption
from eyechart.corruptions.suites.published import STUDIES, preset_option
from eyechart.models.network_registry import ARCH_HELP
from eyechart.stats.curve_settings import N_BOOTSTRAP
from eyechart.training.training_settings import (
    ChosenCorruptions,
    Every,
    OutFolder,
    Stimulus,
    check_seeds,
    images_option,
)

GROUP = "Curves and statistics"

CANDIDATES = "noc-candidates"
"""Default suite of a study."""

NETWORK = "resnet18"
"""Default architecture, trained from scratch."""

MIN_GAIN = 0.02
"""Minimum gain in robustness from training on a corruption; below it, overlaps are undetermined."""

MIN_OVERLAP = 0.3
"""Overlap above which a corruption counts as covered, as observed in the paper."""

IMAGENET_CLASSES = 1000
"""Number of ImageNet classes, of which ImageNet-100 is every tenth by WordNet id."""


@dataclass(frozen=True, kw_only=True)
class MatrixSettings:
    """Options for computing overlaps from accuracies."""

    min_gain: Annotated[
        float,
        Option(
            help="Minimum gain in robustness to a corruption from training on it; with a smaller"
            " gain, its overlaps are undetermined.",
            group=GROUP,
        ),
    ] = MIN_GAIN
    classes: Annotated[
        int | None,
        Option(
            help="Number of classes, from which the accuracy of guessing is computed.",
            group="Data",
            minimum=2,
        ),
    ] = None
    n_bootstrap: Annotated[int, Option(help="Number of bootstrap replicates.", group=GROUP)] = (
        N_BOOTSTRAP
    )

    def with_classes(self, n_classes: int | None) -> Self:
        """Return the settings with this number of classes, unless they already have one."""
        return self if self.classes is not None else replace(self, classes=n_classes)


@dataclass(frozen=True, kw_only=True)
class CalibrationSettings:
    """Options that set the target robustness of calibrated strengths and the number of images.

    `steps` is the maximum number of evaluations for each end of the range, once it is bracketed.
    """

    lower: Annotated[
        float, Option(help="Fraction of clean accuracy kept at the mild end.", group=GROUP)
    ] = 0.95
    upper: Annotated[
        float, Option(help="Fraction of clean accuracy kept at the strong end.", group=GROUP)
    ] = 0.5
    max_images: Annotated[
        int, Option(help="Maximum number of images (class-balanced subset).", group="Data")
    ] = 2000
    seed: Seed = 0
    steps: int = 12

    def check(self) -> None:
        """Raise a UsageError unless both targets are in (0, 1) and `lower` exceeds `upper`."""
        if not 0 < self.upper < self.lower < 1:
            raise UsageError(
                f"lower and upper must be robustness scores between 0 and 1, and lower (at the mild"
                f" end) must exceed upper, got {digits(self.lower)} and {digits(self.upper)}."
            )


@dataclass(frozen=True, kw_only=True)
class OverlapSettings:
    """Options for an overlap study's images, corruptions and networks, but not for training."""

    images: Annotated[
        Path,
        images_option(
            "Images to test on: class folders, or a CSV or Parquet file; without --train-images,"
            " a fifth of every class is used for testing."
        ),
    ]
    train_images: Annotated[Path | None, images_option("Separate images to train on.")] = None
    preset: Annotated[str | None, preset_option(STUDIES, "Training")] = None
    stimulus: Stimulus = "224"
    every: Every = 1
    suites: Annotated[
        tuple[str, ...],
        Option(
            help="A suite's name or YAML file; repeatable.",
            group="Corruptions",
            flags=("--suite",),
        ),
    ] = (CANDIDATES,)
    corruptions: ChosenCorruptions = ()
    together: Annotated[
        tuple[str, ...],
        Option(
            help="Also train one network on all corruptions of this suite, for eyechart overlap"
            " coverage; repeatable.",
            group="Corruptions",
            is_advanced=True,
            metavar="SUITE",
        ),
    ] = ()
    arch: Annotated[
        str | None,
        Option(help=f"{ARCH_HELP}; {NETWORK} by default, unless --start is set.", group="Models"),
    ] = None
    start: Annotated[
        str | None,
        Option(
            help="Tune this model instead of training from scratch: timm:NAME, hf:REPO,"
            " module:attribute, a checkpoint or a card, as for evaluate; must be a torch module.",
            group="Models",
            is_advanced=True,
            metavar="MODEL",
        ),
    ] = None
    download: Annotated[
        bool,
        Option(
            help="Download weights of --start that are missing.",
            group="Models",
            is_advanced=True,
        ),
    ] = False
    trust: Annotated[
        bool,
        Option(
            help="Allow --start to run custom code.",
            group="Models",
            is_advanced=True,
        ),
    ] = False
    seeds: Annotated[int, Option(help="Number of repetitions.", group="Training")] = 1
    seed: Annotated[int, Option(help="Seed of the first repetition.", group="Compute")] = 0
    device: Annotated[
        str,
        Option(help="cpu, cuda, auto, or several devices such as cuda:0,cuda:1.", group="Compute"),
    ] = "cpu"
    shard: ShardOption = None
    out: OutFolder = Path("eyechart-overlap")

    def check(self) -> None:
        """Raise a UsageError if the settings are inconsistent."""
        # A model has an architecture already.
        if self.arch is not None and self.start is not None:
            raise UsageError("Pass --arch to train from scratch or --start to tune, not both.")
        check_seeds(self.seeds)

    @property
    def network(self) -> str:
        """Architecture to train from scratch; "" if a model is tuned."""
        return "" if self.start is not None else self.arch or NETWORK

    @property
    def all_seeds(self) -> tuple[int, ...]:
        """Seeds of the repetitions."""
        return tuple(range(self.seed, self.seed + self.seeds))

    @property
    def devices(self) -> list[str]:
        """Devices that share the work."""
        return [name.strip() for name in self.device.split(",")]
