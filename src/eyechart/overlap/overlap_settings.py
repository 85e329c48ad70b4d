"""Options of overlap studies and their analysis, each declared once.

This module imports nothing slow, because the command line is built from these records.
"""

from dataclasses import dataclass, replace
from typing import Annotated, Self

from eyechart.core.arguments import digits
from eyechart.core.errors import UsageError
from eyechart.core.options import Option, Seed
from eyechart.stats.curve_settings import N_BOOTSTRAP

GROUP = "Curves and statistics"


MIN_GAIN = 0.02
"""Minimum gain in robustness from training on a corruption; below it, overlaps are undetermined."""

MIN_OVERLAP = 0.3
"""Overlap above which a corruption counts as covered, as observed in the paper."""


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
