"""Options that several commands of studies and training share; hyperparameters are in `recipe.py`.

The command line is built from them, so nothing slow is imported here.
"""

import re
from functools import partial
from pathlib import Path
from typing import Annotated

from eyechart.core.errors import UsageError
from eyechart.core.options import Option

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
        cli_type=str | None,
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
        cli_type=str | None,
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
