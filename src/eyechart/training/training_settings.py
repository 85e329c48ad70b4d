"""The options of commands that train, each declared once; hyperparameters are in `recipe.py`.

The command line is built from these records, so nothing slow is imported here.
"""

import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

from eyechart.core.errors import UsageError
from eyechart.core.options import Device, Option
from eyechart.labels.space_names import ENTRY16, NATIVE
from eyechart.models.network_registry import ARCH_HELP
from eyechart.scores.baseline_names import ALEXNET
from eyechart.testsets.testset_settings import N_SAMPLES, SUITE, Suite

RANGE = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*(?:[-–]\s*(\d+(?:\.\d*)?|\.\d+)\s*)?")
"""A number, or two with a dash between them."""

Range = tuple[float, float]

CHECKPOINT_SUFFIXES = (".pt", ".pth")
"""Suffixes of files for trained networks."""


def parse_range(name: str, text: str) -> Range:
    """Return the two ends of a range, or one number twice; `name` is the option's name.

    Example:
        >>> parse_range("severity", "1-5"), parse_range("severity", "3")
        ((1.0, 5.0), (3.0, 3.0))
    """
    match = RANGE.fullmatch(text)
    if match is None:
        raise UsageError(f"--{name} must be a range, such as 1-5, or a number, got '{text}'.")
    return float(match[1]), float(match[2] or match[1])


def images_option(text: str) -> Option:
    """Return an option for images with this help text."""
    return Option(help=text, group="Data", metavar="PATH", path="folder or file")


TrainImages = Annotated[
    Path,
    images_option("Pictures to train with: class folders, or a CSV or Parquet file."),
]
SeverityRange = Annotated[
    Range | None,
    Option(
        help="Train at severities from this range, such as 1-5; without it as the suite draws.",
        group="Corruptions",
        metavar="LOW-HIGH",
        typed=str | None,
        read=partial(parse_range, "severity"),
    ),
]
ChangeRange = Annotated[
    Range | None,
    Option(
        help="Train at visual changes from this range, such as 0.2-0.8.",
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
        help="224 (shorter side 256, middle 224) or another side, 224x224 (plain resize) or another"
        " WIDTHxHEIGHT, or native.",
        group="Data",
        metavar="SIZE",
        is_advanced=True,
    ),
]
Every = Annotated[
    int,
    Option(
        help="Only every so-many-th class by name: 10 makes ImageNet-100 of it.",
        group="Data",
        is_advanced=True,
    ),
]
ChosenCorruptions = Annotated[
    tuple[str, ...],
    Option(
        help="Only this corruption of the suites; repeatable.",
        group="Corruptions",
        flags=("--corruption",),
    ),
]
OutFolder = Annotated[
    Path,
    Option(help="Where all that is made goes.", group="Output", metavar="FOLDER", path="folder"),
]


@dataclass(frozen=True, kw_only=True)
class NetworkSettings:
    """A network to be trained from scratch, and its data."""

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
        images_option("Other pictures, to test with at the end."),
    ] = None
    stimulus: Stimulus = "224"
    every: Every = 1
    suites: Annotated[
        tuple[str, ...],
        Option(
            help="Train on corruptions of this suite, a name or YAML file; repeatable.",
            group="Corruptions",
            flags=("--suite",),
        ),
    ] = ()
    corruptions: ChosenCorruptions = ()
    severity: SeverityRange = None
    delta_v: ChangeRange = None
    device: Annotated[str, Option(help="cpu or cuda; with torchrun all GPUs.", group="Compute")] = (
        "cpu"
    )
    out: Annotated[
        Path, Option(help="The checkpoint.", group="Output", metavar="FILE", path="folder or file")
    ] = Path("network.pt")

    def check(self) -> None:
        """Raise a UsageError unless the settings are consistent."""
        if self.out.suffix not in CHECKPOINT_SUFFIXES:
            raise UsageError(f"A checkpoint's name must end in .pt, got '{self.out.name}'.")
        if self.corruptions and not self.suites:
            raise UsageError("--corruption needs --suite: say which suite it is of.")
        if not self.suites and (self.severity or self.delta_v):
            raise UsageError(
                "--severity and --delta-v need --suite: say which corruptions to meet."
            )


@dataclass(frozen=True, kw_only=True)
class RetrainSettings:
    """A model to be retrained on corruptions, and what it is tested on before and after."""

    model: Annotated[
        str,
        Option(
            help="timm:NAME, hf:REPO, module:attribute, a checkpoint or a card, as of evaluate;"
            " it must be a torch module.",
            group="Models",
            metavar="MODEL",
            is_argument=True,
        ),
    ]
    train_images: TrainImages
    images: Annotated[
        Path,
        images_option("Other pictures, to test with before and after."),
    ]
    pictures: Annotated[
        int, Option(help="Pictures to train with, as many of every class.", group="Data")
    ] = 12_000  # the VCR study used about as many from ImageNet's training set
    stimulus: Stimulus = "224"
    labels: Annotated[
        str,
        Option(
            help=f"Test by {NATIVE} (own classes) or {ENTRY16} (humans' 16 categories).",
            group="Data",
            is_advanced=True,
        ),
    ] = NATIVE
    suite: Suite = SUITE
    corruptions: Annotated[
        tuple[str, ...],
        Option(
            help="Train on this corruption of the suite; repeatable; without it on all.",
            group="Corruptions",
            flags=("--corruption",),
        ),
    ] = ()
    also: Annotated[
        tuple[str, ...],
        Option(
            help="Test on this corruption too, without training on it; repeatable.",
            group="Corruptions",
            is_advanced=True,
        ),
    ] = ()
    severity: SeverityRange = None
    delta_v: ChangeRange = None
    n: Annotated[int, Option(help="Pictures per corruption to test with.", group="Corruptions")] = (
        N_SAMPLES
    )
    humans: Annotated[
        str,
        Option(
            help="Whose answers to compare with: geirhos, a file, or none.",
            group="Human reference",
        ),
    ] = "geirhos"
    device: Device = "cpu"
    out: OutFolder = Path("eyechart-retrained")


@dataclass(frozen=True, kw_only=True)
class EnhancementSettings:
    """A network to be enhanced, the enhancements, and what they are tested on."""

    arch: Annotated[
        str,
        Option(
            help=f"The standard network: {ARCH_HELP}; with --pretrained a model or checkpoint, as"
            " of evaluate.",
            group="Models",
            metavar="ARCH",
            is_argument=True,
        ),
    ]
    train_images: TrainImages
    images: Annotated[
        Path,
        images_option("Other pictures, to test with."),
    ]
    stimulus: Stimulus = "224"
    pretrained: Annotated[
        bool,
        Option(
            help="Fine-tune ARCH with the weights that it has, instead of training it first.",
            group="Models",
        ),
    ] = False
    larger: Annotated[
        tuple[str, ...],
        Option(
            help="Also train this other network, or with --pretrained test it; repeatable.",
            group="Models",
            is_advanced=True,
            metavar="ARCH",
        ),
    ] = ()
    baseline: Annotated[
        str,
        Option(
            help="Whose errors mCE divides by: standard (the network before it is enhanced),"
            f" {ALEXNET}, a model or a .csv file, as of evaluate.",
            group="Curves and statistics",
        ),
    ] = "standard"
    suite: Suite = "imagenet-c"
    tuning_epochs: Annotated[
        int, Option(help="How long it is trained further.", group="Training")
    ] = 5
    tuning_rate: Annotated[
        float, Option(help="Highest rate of that.", group="Training", is_advanced=True)
    ] = 0.005
    widths: Annotated[
        tuple[float, ...],
        Option(
            help="Noise of stability training, ± of full scale; repeatable.",
            group="Training",
            is_advanced=True,
            flags=("--width",),
        ),
    ] = (0.05,)
    weights: Annotated[
        tuple[float, ...],
        Option(
            help="Weight of stability training; repeatable.",
            group="Training",
            is_advanced=True,
            flags=("--weight",),
        ),
    ] = (0.05,)
    device: Device = "cpu"
    out: OutFolder = Path("eyechart-enhancements")


@dataclass(frozen=True, kw_only=True)
class StyleTransferSettings:
    """The data of a style transfer, and its output file."""

    images: Annotated[
        Path,
        images_option("Photographs to repaint; labels count not."),
    ]
    styles: Annotated[
        Path,
        images_option("Pictures whose styles are learnt: paintings, textures, icons."),
    ]
    stimulus: Stimulus = "256"
    model: Annotated[
        str,
        Option(
            help="In whose features content and style are judged, as of evaluate.", group="Models"
        ),
    ] = "efficientnet_lite0"
    device: Device = "cpu"
    out: Annotated[
        Path,
        Option(help="The trained network.", group="Output", metavar="FILE", path="folder or file"),
    ] = Path("style-transfer.pt")

    def check(self) -> None:
        """Raise a UsageError unless the output file has a valid suffix."""
        if self.out.suffix not in CHECKPOINT_SUFFIXES:
            raise UsageError(
                f"The file of a style transfer must end in .pt, got '{self.out.name}'."
            )
