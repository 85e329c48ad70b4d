"""One-sided confidence bounds and p-values of means over samples, and the sizes that decide.

Images are the sampling units. These functions take and return plain numbers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import isfinite, isnan, sqrt
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from eyechart.core.arrays import FloatArray, IntArray
from eyechart.stats.intervals import exact_lower_bound, weighted_mean_cdf

Side = Literal["above", "below"]


@dataclass(frozen=True, eq=False)
class ClusteredMean:
    """A weighted mean over samples, and the values that its bounds depend on.

    Attributes:
        value: The mean.
        variance: The variance of the mean, estimated from differences between images; infinite for
            a single image.
        n_images: The number of images.
        n_samples: The number of samples.
        n_effective: The number of equally weighted images that would be as informative (Kish).
        lowest: The lowest possible value of a sample: 0 for hits, −1 for differences of hits.
        between: The variance between images, NaN if no image has two samples.
        within: The variance between samples of an image, NaN if no image has two samples.
        image_means: The mean of each image.
        image_weights: The weight of each image; they sum to `n_effective`.
    """

    value: float
    variance: float
    n_images: int
    n_samples: int
    n_effective: int
    lowest: float
    between: float
    within: float
    image_means: FloatArray = field(repr=False)
    image_weights: FloatArray = field(repr=False)

    @property
    def is_separable(self) -> bool:
        """Whether the variances between and within images can be estimated separately."""
        return not isnan(self.within)

    @property
    def n_per_image(self) -> float:
        """The mean number of samples per image."""
        return self.n_samples / self.n_images

    def bounds(self, alpha: float) -> tuple[float, float]:
        """Return the lower and the upper bound, each of which is wrong with probability `alpha`.

        Each bound is the wider of two: Student's t with the variance between images (n − 1 degrees
        of freedom), and the exact bound of the images' means, which has a positive width even if
        all images agree. With one sample per image, the exact bound of hits is that of Clopper and
        Pearson.

        Example:
            >>> agreed = clustered_mean(np.zeros(600), np.repeat(np.arange(60), 10), lowest=-1)
            >>> tuple(round(end, 3) for end in agreed.bounds(0.05))
            (-0.049, 0.049)
        """
        if not isfinite(self.variance):
            # One image does not show how much images differ, so that no value can be excluded.
            return self.lowest, 1.0
        means, weights = self.image_means, self.image_weights
        low = exact_lower_bound(means, weights, self.lowest, alpha)
        high = -exact_lower_bound(-means, weights, -1.0, alpha)
        # Images, not samples, give the degrees of freedom: samples of one image are correlated.
        reach = float(stdtrit(self.n_images - 1, 1 - alpha)) * sqrt(self.variance)
        return (
            max(self.lowest, min(low, self.value - reach)),
            min(1.0, max(high, self.value + reach)),
        )

    def p_value(self, limit: float, side: Side) -> float:
        """Return the one-sided p-value for the claim that the mean is above (or below) a limit.

        The p-value is below α if and only if the bound at level α is above (or below) the limit.

        Example:
            >>> hits = clustered_mean(np.repeat([1, 1, 1, 0], 10), np.arange(40), lowest=0)
            >>> round(hits.p_value(0.6, "above"), 3)
            0.035
        """
        if not isfinite(self.variance):
            return 1.0
        sign, end = (1, self.lowest) if side == "above" else (-1, -1.0)
        gap, spread = sign * (self.value - limit), sqrt(self.variance)
        by_t = float(stdtr(self.n_images - 1, -gap / spread)) if spread else float(gap <= 0)
        exact = weighted_mean_cdf(sign * self.image_means, self.image_weights, end, sign * limit)
        return max(by_t, exact)


def p_values(
    value: ArrayLike,
    variance: ArrayLike,
    n_images: tuple[int, int],
    limit: float,
    *,
    side: Side,
    lowest: float,
) -> FloatArray:
    """Return approximate one-sided p-values of means of which only the moments are known.

    This is the largest p-value of three: the t-test, Wilson's score test, and the exact test of
    images that all have the mean. `ClusteredMean.p_value` is the test of an observed mean.

    Args:
        value: The means.
        variance: Their variances.
        n_images: A pair: the number of images, and the effective number of images.
        limit: The limit that the mean is compared with.
        side: Whether to test that the mean is above or below the limit.
        lowest: The lowest possible value of a sample; the highest is 1.
    """
    width, (n, n_effective) = 1 - lowest, n_images
    share = (np.asarray(value, dtype=np.float64) - lowest) / width
    spread = np.asarray(variance, dtype=np.float64) / width**2
    bound = (limit - lowest) / width
    if side == "below":
        share, bound = 1 - share, 1 - bound
    gap = share - bound
    with np.errstate(divide="ignore", invalid="ignore"):
        by_t = stdtr(n - 1, -gap / np.sqrt(spread))
    # Wilson's end lies at `bound` for the z² that solves this quadratic equation
    square = bound * (1 - bound) / n_effective**2
    linear = spread + 2 * gap * (bound - 0.5) / n_effective
    with np.errstate(divide="ignore", invalid="ignore"):
        # This form holds even if `square` is 0, at a limit that is the lowest or highest mean.
        root = 2 * gap**2 / (linear + np.sqrt(linear**2 + 4 * square * gap**2))
        agreed = np.clip(1 - gap / share, 0, 1) ** n_effective
    exact = np.fmax(ndtr(-np.sqrt(root)), agreed)
    # neither a mean on the other side of the limit nor 0/0 is evidence
    p_value: FloatArray = np.where(gap > 0, np.fmax(by_t, exact), np.fmax(by_t, 0.5))
    return p_value


def clustered_mean(
    values: ArrayLike, image: IntArray, weights: FloatArray | None = None, *, lowest: float
) -> ClusteredMean:
    """Return the mean over samples, with a variance that treats images as sampling units.

    Args:
        values: One value per sample, from `lowest` to 1.
        image: The image of each sample.
        weights: The weight of each sample; all are equal if omitted.
        lowest: The lowest possible value.

    Example:
        >>> mean = clustered_mean([1, 1, 0, 0], np.array([0, 0, 1, 1]), lowest=0)
        >>> mean.value, mean.variance, mean.n_images  # as two samples, not as four
        (0.5, 0.25, 2)
    """
    hits = np.asarray(values, dtype=np.float64)
    share = np.ones(len(hits)) if weights is None else weights
    _, unit = np.unique(image, return_inverse=True)
    totals, counts = np.bincount(unit, hits * share), np.bincount(unit, share)
    n, total = len(counts), counts.sum()
    value = float(totals.sum() / total)
    # linearized variance of a ratio of two sums over images
    residuals = totals - value * counts
    variance = float(n / (n - 1) * (residuals**2).sum() / total**2) if n > 1 else float("inf")
    between, within = float("nan"), float("nan")
    sizes, n_samples = np.bincount(unit), len(hits)
    if 1 < n < n_samples:
        # analysis of variance
        means = np.bincount(unit, hits) / sizes
        within = float(((hits - means[unit]) ** 2).sum() / (n_samples - n))
        among = float((sizes * (means - hits.mean()) ** 2).sum() / (n - 1))
        # the equivalent number of samples per image where images have unequal numbers
        size = (n_samples - (sizes**2).sum() / n_samples) / (n - 1)
        # The estimate can be negative by chance where images hardly differ; a variance cannot.
        between = max(0.0, float((among - within) / size))
    # the small addition keeps n equal images from being rounded down to n − 1
    n_effective = max(1, int(total**2 / (counts**2).sum() + 1e-9))
    return ClusteredMean(
        value=value,
        variance=variance,
        n_images=n,
        n_samples=n_samples,
        n_effective=n_effective,
        lowest=lowest,
        between=between,
        within=within,
        image_means=totals / counts,
        image_weights=counts / total * n_effective,
    )


PASS_POWER = 0.8
"""Planned probability that a model equal to the old one passes the whole gate.
"""

FAIL_POWER = 0.9
"""Planned probability that a model worse by `WORSE` margins fails."""

WORSE = 3
"""Number of margins by which a model must be worse to fail with probability `FAIL_POWER`."""

CAUTION = 1.25
"""Factor applied to the variance, because its estimate is uncertain; chosen by simulation
(docs/how-to/gate.md)."""

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
) -> tuple[int | None, int | None]:
    """Return the smallest numbers of samples and of images that reach all targets.

    The first is the number of samples of the available images; None if no number suffices. The
    second is the number of images with the current number of samples per image; None if more than
    `MAX_IMAGES` would be needed.

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
        >>> targets = floor_targets(0.7, 0.65, n_rules=1, alpha=0.05)
        >>> n_samples, n_images = plan_size(mean, targets)
        >>> 600 < n_samples < 6000, 60 < n_images < 200
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
    return n_samples, _smallest(lambda count: suffices(count, each), mean.n_images, MAX_IMAGES)


class _VarianceModel:
    """The variance of a mean as a function of the numbers of images and of samples per image."""

    def __init__(self, mean: ClusteredMean) -> None:
        self.mean = mean
        # without discordance so far, one discordant sample is expected next
        unseen = 1 / (mean.n_samples + 1)
        if mean.is_separable:
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
