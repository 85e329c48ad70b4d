"""One-sided confidence bounds and p-values of means over samples, with images as sampling units.

These functions take and return plain numbers. Samples are selected in `rule_samples`, and rules are
decided in `decision`.
"""

from dataclasses import dataclass, field
from math import isfinite, sqrt
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, stdtr, stdtrit

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
    between, within = _components(hits, unit)
    # the small addition keeps n equal images from being rounded down to n − 1
    n_effective = max(1, int(total**2 / (counts**2).sum() + 1e-9))
    return ClusteredMean(
        value=value,
        variance=variance,
        n_images=n,
        n_samples=len(hits),
        n_effective=n_effective,
        lowest=lowest,
        between=between,
        within=within,
        image_means=totals / counts,
        image_weights=counts / total * n_effective,
    )


def _components(values: FloatArray, unit: IntArray) -> tuple[float, float]:
    """Return the variance between images and within them (analysis of variance)."""
    counts = np.bincount(unit)
    n, n_samples = len(counts), len(values)
    if n < 2 or n_samples == n:
        return float("nan"), float("nan")
    means = np.bincount(unit, values) / counts
    within = float(((values - means[unit]) ** 2).sum() / (n_samples - n))
    among = float((counts * (means - values.mean()) ** 2).sum() / (n - 1))
    # the equivalent number of samples per image where images have unequal numbers
    size = (n_samples - (counts**2).sum() / n_samples) / (n - 1)
    # The estimate can be negative by chance where images hardly differ; a variance cannot.
    return max(0.0, float((among - within) / size)), within
