"""The options of training commands, each declared once; hyperparameters are in `recipe.py`.

The command line is built from these records, so nothing slow is imported here.
"""

import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

from eyechart.core.errors import UsageError
from eyechart.core.options import Device, Option
from eyechart.corruptions.suites.published import TestPreset
from eyechart.humans.human_settings import HumanReferences
from eyechart.images.labels.spaces import ENTRY16, NATIVE
from eyechart.models.network_registry import ARCH_HELP
from eyechart.scores.baseline_names import ALEXNET
from eyechart.testsets.testset_settings import N_SAMPLES, SUITE, Suite

RANGE = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*(?:[-–]\s*(\d+(?:\.\d*)?|\.\d+)\s*)?")
"""Pattern of a range: a number, or two numbers with a dash between them."""

Range = tuple[float, float]

CHECKPOINT_SUFFIXES = (".pt", ".pth")
"""Suffixes of files for trained networks."""


MAX_SEEDS = 1000
"""Maximum number of repetitions of a study."""


def check_seeds(n_seeds: int) -> None:
    """Raise a UsageError if the number of repetitions is invalid."""
    if not 1 <= n_seeds <= MAX_SEEDS:
        raise UsageError(f"seeds must be a whole number from 1 to {MAX_SEEDS:,}, got {n_seeds}.")


def parse_range(name: str, text: str) -> Range:
    """Return the lower and upper end of a range, which are equal if `text` is a single number.

    `name`: the option's name, for errors.

    Example:
        >>> parse_range("severity", "1-5"), parse_range("severity", "3")
        ((1.0, 5.0), (3.0, 3.0))
    """
    match = RANGE.fullmatch(text)
    if match is None:
        raise UsageError(f"--{name} must be a range, such as 1-5, or a number, got '{text}'.")
    return float(match[1]), float(match[2] or match[1])


def images_option(text: str) -> Option:
    """Return an option for a path to images, with this help text."""
    return Option(help=text, group="Data", metavar="PATH", path="folder or file")


TrainImages = Annotated[
    Path,
    images_option("Training images: class folders, or a CSV or Parquet file."),
]
SeverityRange = Annotated[
    Range | None,
    Option(
        help="Train at severities in this range, such as 1-5; default: sampled as in the suite.",
        group="Corruptions",
        metavar="LOW-HIGH",
        typed=str | None,
        read=partial(parse_range, "severity"),
    ),
]
ChangeRange = Annotated[
    Range | None,
    Option(
        help="Train at visual changes in this range, such as 0.2-0.8.",
        group="Corruptions",
        is_advanced=True,
        metavar="LOW-HIGH",
        typed=str | None,
        read=partial(parse_range, "delta-v"),
    ),
]
Stimulus = Annotated[
    str,
    Option(
        help="A size such as 224 (shorter side 256, center crop 224), WIDTHxHEIGHT such as 224x224"
        " (resize only), or native.",
        group="Data",
        metavar="SIZE",
        is_advanced=True,
    ),
]
Every = Annotated[
    int,
    Option(
        help="Use only every n-th class, sorted by name; 10 gives ImageNet-100.",
        group="Data",
        is_advanced=True,
    ),
]
ChosenCorruptions = Annotated[
    tuple[str, ...],
    Option(
        help="Use only this corruption of the suites; repeatable.",
        group="Corruptions",
        flags=("--corruption",),
    ),
]
OutFolder = Annotated[
    Path,
    Option(help="Output folder.", group="Output", metavar="FOLDER", path="folder"),
]


@dataclass(frozen=True, kw_only=True)
class NetworkSettings:
    """A network to train from scratch, and its data."""

    arch: Annotated[
        str,
        Option(
            help=f"{ARCH_HELP}.",
            group="Models",
            metavar="ARCH",
            is_argument=True,
        ),
    ]
    train_images: TrainImages
    images: Annotated[
        Path | None,
        images_option("Test images, used after training."),
    ] = None
    stimulus: Stimulus = "224"
    every: Every = 1
    suites: Annotated[
        tuple[str, ...],
        Option(
            help="Train on corruptions of this suite (a name or a YAML file); repeatable.",
            group="Corruptions",
            flags=("--suite",),
        ),
    ] = ()
    corruptions: ChosenCorruptions = ()
    severity: SeverityRange = None
    delta_v: ChangeRange = None
    device: Annotated[
        str, Option(help="cpu, cuda or auto; torchrun uses all GPUs.", group="Compute")
    ] = "cpu"
    out: Annotated[
        Path,
        Option(help="Checkpoint to write.", group="Output", metavar="FILE", path="folder or file"),
    ] = Path("network.pt")

    def check(self) -> None:
        """Raise a UsageError unless the settings are consistent."""
        if self.out.suffix not in CHECKPOINT_SUFFIXES:
            raise UsageError(f"A checkpoint's name must end in .pt, got '{self.out.name}'.")
        if self.corruptions and not self.suites:
            raise UsageError("--corruption needs --suite: give the suite that contains it.")
        if not self.suites and (self.severity or self.delta_v):
            raise UsageError("--severity and --delta-v need --suite: give the suite to train on.")


@dataclass(frozen=True, kw_only=True)
class RetrainSettings:
    """A model to retrain on corruptions, and how it is tested before and after retraining."""

    model: Annotated[
        str,
        Option(
            help="Model: timm:NAME, hf:REPO, module:attribute, a checkpoint or a card, as for"
            " evaluate; it must be a torch module.",
            group="Models",
            metavar="MODEL",
            is_argument=True,
        ),
    ]
    train_images: TrainImages
    images: Annotated[
        Path,
        images_option("Test images, used before and after retraining."),
    ]
    max_train_images: Annotated[
        int,
        Option(
            help="Use at most this number of training images, balanced over classes.", group="Data"
        ),
    ] = 12_000  # the VCR study used about as many from ImageNet's training set
    stimulus: Stimulus = "224"
    labels: Annotated[
        str,
        Option(
            help=f"Label space of the test: {NATIVE} or {ENTRY16} (16 categories).",
            group="Data",
            is_advanced=True,
        ),
    ] = NATIVE
    suite: Suite = SUITE
    corruptions: Annotated[
        tuple[str, ...],
        Option(
            help="Train on this corruption of the suite; repeatable; default: all.",
            group="Corruptions",
            flags=("--corruption",),
        ),
    ] = ()
    also: Annotated[
        tuple[str, ...],
        Option(
            help="Also test on this corruption, without training on it; repeatable.",
            group="Corruptions",
            is_advanced=True,
        ),
    ] = ()
    severity: SeverityRange = None
    delta_v: ChangeRange = None
    preset: TestPreset = None
    n: Annotated[
        int, Option(help="Number of test samples per corruption.", group="Corruptions")
    ] = N_SAMPLES
    humans: HumanReferences = "geirhos"
    device: Device = "cpu"
    out: OutFolder = Path("eyechart-retrained")


@dataclass(frozen=True, kw_only=True)
class EnhancementSettings:
    """A network to enhance, the enhancements, and their tests."""

    arch: Annotated[
        str,
        Option(
            help=f"The standard network: {ARCH_HELP}; with --pretrained, a model or checkpoint, as"
            " for evaluate.",
            group="Models",
            metavar="ARCH",
            is_argument=True,
        ),
    ]
    train_images: TrainImages
    images: Annotated[
        Path,
        images_option("Test images."),
    ]
    stimulus: Stimulus = "224"
    pretrained: Annotated[
        bool,
        Option(
            help="Fine-tune ARCH with its pretrained weights, instead of training it first.",
            group="Models",
        ),
    ] = False
    larger: Annotated[
        tuple[str, ...],
        Option(
            help="Also train this network (with --pretrained: only test it); repeatable.",
            group="Models",
            is_advanced=True,
            metavar="ARCH",
        ),
    ] = ()
    baseline: Annotated[
        str,
        Option(
            help="Baseline of mCE: standard (the network without enhancements),"
            f" {ALEXNET}, a model or a .csv file, as for evaluate.",
            group="Curves and statistics",
        ),
    ] = "standard"
    suite: Suite = "imagenet-c"
    tuning_epochs: Annotated[
        int, Option(help="Number of fine-tuning epochs.", group="Training")
    ] = 5
    tuning_lr: Annotated[
        float,
        Option(help="Highest learning rate of fine-tuning.", group="Training", is_advanced=True),
    ] = 0.005
    widths: Annotated[
        tuple[float, ...],
        Option(
            help="Noise width of stability training, as a fraction of full scale; repeatable.",
            group="Training",
            is_advanced=True,
            flags=("--width",),
        ),
    ] = (0.05,)
    weights: Annotated[
        tuple[float, ...],
        Option(
            help="Loss weight of stability training; repeatable.",
            group="Training",
            is_advanced=True,
            flags=("--weight",),
        ),
    ] = (0.05,)
    device: Device = "cpu"
    out: OutFolder = Path("eyechart-enhancements")


@dataclass(frozen=True, kw_only=True)
class StyleTransferSettings:
    """The training data of a style transfer, and its output file."""

    train_images: Annotated[
        Path,
        images_option("Content images to repaint; labels are ignored."),
    ]
    styles: Annotated[
        Path,
        images_option("Style images, such as paintings, textures or icons."),
    ]
    stimulus: Stimulus = "256"
    model: Annotated[
        str,
        Option(
            help="Model whose features define content and style, named as for evaluate.",
            group="Models",
        ),
    ] = "efficientnet_lite0"
    device: Device = "cpu"
    out: Annotated[
        Path,
        Option(
            help="Network file to write.", group="Output", metavar="FILE", path="folder or file"
        ),
    ] = Path("style-transfer.pt")

    def check(self) -> None:
        """Raise a UsageError unless the output file has a valid suffix."""
        if self.out.suffix not in CHECKPOINT_SUFFIXES:
            raise UsageError(
                f"The name of a style transfer file must end in .pt, got '{self.out.name}'."
            )
