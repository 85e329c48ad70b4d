"""The options that commands which train have in common."""

import re
from pathlib import Path
from typing import Annotated

import typer

from eyechart.cli.shared.paths import folder_or_file
from eyechart.core.errors import UsageError

TrainImages = Annotated[
    Path,
    typer.Option(
        metavar="PATH",
        parser=folder_or_file,
        help="Pictures to train with: class folders, or a CSV or Parquet file.",
    ),
]
Severity = Annotated[
    str | None,
    typer.Option(
        metavar="LOW-HIGH",
        help="Train at severities from this range, such as 1-5; without it as the suite draws.",
    ),
]
DeltaV = Annotated[
    str | None,
    typer.Option(
        metavar="LOW-HIGH", help="Train at visual changes from this range, such as 0.2-0.8."
    ),
]
Seed = Annotated[int, typer.Option(help="Of all random numbers.")]
Stimulus = Annotated[
    str,
    typer.Option(
        help="224 (shorter side 256, middle 224) or another side, 224x224 (plain resize) or another"
        " WIDTHxHEIGHT, or native."
    ),
]
Every = Annotated[
    int, typer.Option(help="Only every so-many-th class by name: 10 makes ImageNet-100 of it.")
]

RANGE = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*(?:[-–]\s*(\d+(?:\.\d*)?|\.\d+)\s*)?")
"""A number, or two with a dash between them."""


def parse_range(name: str, text: str | None) -> tuple[float, float] | None:
    """Return the two ends of a range, or a number twice; None if there is none."""
    if text is None:
        return None
    match = RANGE.fullmatch(text)
    if match is None:
        raise UsageError(f"--{name} must be a range, such as 1-5, or a number, got '{text}'.")
    return float(match[1]), float(match[2] or match[1])
