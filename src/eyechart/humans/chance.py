"""Chance correction of rates and curves, to compare tasks with different numbers of choices."""

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike
from scipy.interpolate import PPoly

from eyechart.core.arrays import FloatArray
from eyechart.core.errors import UsageError
from eyechart.stats.bins import Bins
from eyechart.stats.curve import Curve


def corrected_for_chance(rates: ArrayLike, choices: int) -> FloatArray:
    """Return (p − 1/k) / (1 − 1/k), clipped at 0, for rates p in a task with k choices.

    Example:
        >>> corrected_for_chance([0.5, 0.75, 1.0], 2).tolist()
        [0.0, 0.5, 1.0]
    """
    # with one choice, chance is 1 and the formula would divide by 0
    if choices < 2:
        raise UsageError(f"choices must be at least 2, got {choices}.")
    shares = np.asarray(rates, dtype=np.float64)
    return np.asarray(np.maximum((shares - 1 / choices) / (1 - 1 / choices), 0))


def corrected_curve(curve: Curve, choices: int) -> Curve:
    """Return the curve with its bins, anchors and bootstrap replicates corrected for chance."""

    def anchor(value: float | None) -> float | None:
        return None if value is None else float(corrected_for_chance(value, choices))

    def corrected_bins(bins: Bins) -> Bins:
        # Empty bins have NaN rates, which would stay NaN when multiplied by a count of 0.
        rates = np.where(bins.counts > 0, bins.rates, 0)
        return Bins(bins.edges, bins.counts, corrected_for_chance(rates, choices) * bins.counts)

    return replace(
        curve,
        pieces=_corrected(curve.pieces, choices),
        bins=corrected_bins(curve.bins),
        left=anchor(curve.left),
        right=anchor(curve.right),
        lefts=None if curve.lefts is None else corrected_for_chance(curve.lefts, choices),
        replicates=tuple(_corrected(pieces, choices) for pieces in curve.replicates),
        refit_bins=corrected_bins(curve.refit_bins),
    )


def _corrected(pieces: PPoly, choices: int) -> PPoly:
    """Return the corrected segments of a non-increasing curve; it stays at 0 once it reaches 0."""
    coefficients = pieces.c / (1 - 1 / choices)
    # An affine map of the values multiplies all coefficients by a factor and adds an offset to the
    # constant ones.
    coefficients[-1] -= 1 / choices / (1 - 1 / choices)
    places = pieces.x
    scaled = PPoly(coefficients, places)
    # The curve never falls below chance: nothing to cut off.
    if scaled(places[-1]) >= 0:
        return scaled
    # A non-increasing curve that ends below 0 crosses 0 once: inside, or at its start.
    roots = scaled.roots(extrapolate=False)
    roots = roots[~np.isnan(roots)]
    end = float(roots[0]) if scaled(places[0]) > 0 and roots.size else float(places[0])
    # Pieces before the root are kept, and one constant piece at 0 replaces the rest.
    before = int(np.searchsorted(places, end, side="left"))
    kept = np.concatenate([coefficients[:, :before], np.zeros((len(coefficients), 1))], axis=1)
    return PPoly(kept, np.concatenate([places[:before], [end, places[-1]]]))
