"""How many samples or images would decide a rule that is inconclusive.

Planning uses the variances between and within images, estimated from the inconclusive data.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite, isnan, sqrt

from scipy.special import ndtri

from eyechart.gates.bounds import ClusteredMean, Side, p_values

PASS_POWER = 0.8
"""Planned probability that a model equal to the old one passes the whole gate.
"""

FAIL_POWER = 0.9
"""Planned probability that a model worse by `WORSE` margins fails."""

WORSE = 3
"""Number of margins by which a model must be worse to fail with probability `FAIL_POWER`."""

CAUTION = 1.25
"""Factor applied to the variance, because its estimate is uncertain; chosen by simulation
(docs/gate.md)."""

MAX_IMAGES, MAX_PER_IMAGE = 50_000, 1000
"""Maximum planned numbers of images (those of ImageNet's validation set) and of samples per image;
larger ones are impractical."""


@dataclass(frozen=True)
class Target:
    """A true mean that a test must show to be above or below a limit, with probability `power`."""

    true: float
    limit: float
    side: Side
    alpha: float
    power: float


@dataclass(frozen=True)
class PlannedSize:
    """The numbers of samples and of images that would decide a rule.

    Attributes:
        n_samples: The number of samples of the available images that suffices; None if no number
            suffices.
        n_images: The number of images that suffices with the current number of samples per image;
            None if more than `MAX_IMAGES` would be needed.
        is_separable: Whether the variances between and within images can be estimated separately;
            if not, it is unknown whether more samples of the same images would help.
    """

    n_samples: int | None
    n_images: int | None
    is_separable: bool


def difference_targets(margin: float, n_rules: int, alpha: float) -> list[Target]:
    """Return the targets of a non-inferiority rule: equal models pass, much worse models fail.

    The gate passes only if all `n_rules` rules pass; failing is tested at a corrected level.
    """
    # Each rule may miss with an equal share of the allowed probability: all of them together then
    # pass with `PASS_POWER`, however they depend on each other.
    all_pass = 1 - (1 - PASS_POWER) / n_rules
    return [
        Target(0.0, -margin, "above", alpha, all_pass),
        Target(-WORSE * margin, -margin, "below", alpha / n_rules, FAIL_POWER),
    ]


def floor_targets(estimate: float, floor: float, n_rules: int, alpha: float) -> list[Target]:
    """Return the target of a rule with a floor: to show whether the rate is above or below it."""
    # There is no old model to be equal to, so that the estimate is taken as the true rate.
    if estimate > floor:
        return [Target(estimate, floor, "above", alpha, 1 - (1 - PASS_POWER) / n_rules)]
    return [Target(estimate, floor, "below", alpha / n_rules, FAIL_POWER)]


def plan_size(
    mean: ClusteredMean, targets: Sequence[Target], n_available: int | None = None
) -> PlannedSize:
    """Return the smallest numbers of samples and of images that reach all targets.

    Args:
        mean: The inconclusive mean.
        targets: What the data must show.
        n_available: The number of images from which more samples can be drawn, if it is larger
            than the number of images that already have samples.

    Example:
        >>> import numpy as np
        >>> from eyechart.gates.bounds import clustered_mean
        >>> hits = np.random.default_rng(0).random(600) < 0.7
        >>> mean = clustered_mean(hits, np.arange(600) // 10, lowest=0)
        >>> size = plan_size(mean, floor_targets(0.7, 0.65, n_rules=1, alpha=0.05))
        >>> 600 < size.n_samples < 6000, 60 < size.n_images < 200
        (True, True)
    """
    model = _VarianceModel(mean)

    def suffices(n_images: int, n_per_image: float) -> bool:
        return all(model.reaches(target, n_images, n_per_image) for target in targets)

    def samples_suffice(n_samples: int) -> bool:
        n_images = min(most, n_samples)
        return suffices(n_images, n_samples / n_images)

    most, each = max(mean.n_images, n_available or 0), mean.n_per_image
    n_samples = None
    # More samples do not reduce the variance between images, so they may never suffice.
    if suffices(most, MAX_PER_IMAGE):
        n_samples = _smallest(samples_suffice, mean.n_samples, most * MAX_PER_IMAGE)
    return PlannedSize(
        n_samples=n_samples,
        n_images=_smallest(lambda count: suffices(count, each), mean.n_images, MAX_IMAGES),
        is_separable=model.is_separable,
    )


class _VarianceModel:
    """The variance of a mean as a function of the numbers of images and of samples per image."""

    def __init__(self, mean: ClusteredMean) -> None:
        self.mean = mean
        self.is_separable = not isnan(mean.within)
        # without discordance so far, one discordant sample is expected next
        unseen = 1 / (mean.n_samples + 1)
        if self.is_separable:
            self.between, self.within = mean.between, max(mean.within, unseen)
        else:
            # A single image shows no variance: 0.25 is the largest variance of values in [0, 1].
            total = mean.variance * mean.n_images if isfinite(mean.variance) else 0.25
            self.between, self.within = max(total, unseen), 0.0
        usual = self._usual(mean.n_images, mean.n_per_image)
        # weights and unequal numbers of samples make the mean less precise than the formula says
        observed = mean.variance if isfinite(mean.variance) else usual
        self.factor = CAUTION * max(1.0, observed / usual)

    def _usual(self, n_images: int, n_per_image: float) -> float:
        return (self.between + self.within / n_per_image) / n_images

    def reaches(self, target: Target, n_images: int, n_per_image: float) -> bool:
        variance = self.factor * self._usual(n_images, n_per_image)
        # the estimate that is exceeded, in the direction of the target, with the required power
        shift = float(ndtri(target.power)) * sqrt(variance)
        value = target.true - shift if target.side == "above" else target.true + shift
        # Additional images are assumed to be weighted as unequally as the present ones.
        n_effective = n_images * self.mean.n_effective / self.mean.n_images
        # Student's t needs at least one degree of freedom.
        numbers = (max(2, n_images), max(1, int(n_effective)))
        lowest = self.mean.lowest
        p_value = p_values(value, variance, numbers, target.limit, side=target.side, lowest=lowest)
        return bool(p_value < target.alpha)


def _smallest(suffices: Callable[[int], bool], start: int, most: int) -> int | None:
    """Return the smallest number from `start` to `most` that suffices, or None if none does."""
    low = high = max(2, start)
    while not suffices(high):
        if high >= most:
            return None
        low, high = high, min(2 * high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if suffices(middle) else (middle, high)
    return high
