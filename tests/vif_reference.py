"""A plain NumPy/SciPy visual information fidelity for checking corruptions against golden values.

Steerable-pyramid VIF with the filters of pyrtools, horizontal and vertical bands of four scales.
"""

from dataclasses import dataclass

import numpy as np
import pyrtools as pt
from numpy.lib.stride_tricks import sliding_window_view
from scipy.ndimage import correlate

FILTERS = pt.pyramids.filters.parse_filter("sp5_filters", normalize=False)
BANDS = [FILTERS["bfilts"][:, k].reshape(7, 7).T for k in (0, 3)]
NOISE = 0.1
TINY = 1e-15


def grey(rgb):
    """8-bit grey exactly as OpenCV's RGB2GRAY."""
    r, g, b = (rgb[..., k].astype(np.int64) for k in range(3))
    return ((9798 * r + 19235 * g + 3735 * b + 16384) >> 15).astype(np.float64)


def subbands(image):
    """(level, band) pairs, finest first."""
    low = correlate(image, FILTERS["lo0filt"], mode="mirror")
    for level in range(4):
        for band in BANDS:
            yield level, correlate(low, band, mode="mirror")
        low = correlate(low, FILTERS["lofilt"], mode="mirror")[::2, ::2]


def crop(band):
    return band[: band.shape[0] // 3 * 3, : band.shape[1] // 3 * 3]


def local_means(band, window):
    """Means over windows centred on the 3 × 3 blocks."""
    reach = (window - 3) // 2
    padded = np.pad(band, reach, mode="reflect")
    return sliding_window_view(padded, (window, window))[::3, ::3].mean(axis=(2, 3))


@dataclass
class Clean:
    bands: list
    eigenvalues: list
    scales: list
    total: float


def prepare(image):
    bands, eigenvalues, scales, total = [], [], [], 0.0
    for level, band in subbands(image):
        band = crop(band)
        blocks = sliding_window_view(band, (3, 3)).reshape(-1, 9)
        values, vectors = np.linalg.eigh(np.cov(blocks.T))
        values = np.maximum(values, TINY)
        inverse = (vectors / values) @ vectors.T
        rows, columns = band.shape[0] // 3, band.shape[1] // 3
        own = band.reshape(rows, 3, columns, 3).transpose(0, 2, 1, 3).reshape(-1, 9)
        s = np.einsum("ij,jk,ik->i", own, inverse, own).reshape(rows, columns) / 9
        edge = border(level)
        s = s[edge:-edge, edge:-edge]
        total += sum(np.log(1 + s * v / NOISE).mean() for v in values) + 1e-4
        bands.append(band)
        eigenvalues.append(values)
        scales.append(s)
    return Clean(bands, eigenvalues, scales, total)


def window_of(level):
    return 2 ** (4 - level) + 1


def border(level):
    return int(np.ceil(((window_of(level) - 1) / 2) / 3))


def vif(clean, image):
    """VIF of `image` (2-D float, 0…255) against a prepared clean image."""
    total = 0.0
    for (level, band), x, values, s in zip(
        subbands(image), clean.bands, clean.eigenvalues, clean.scales, strict=True
    ):
        y = crop(band)
        w = window_of(level)
        mean_x, mean_y = local_means(x, w), local_means(y, w)
        var_x = np.maximum(local_means(x * x, w) - mean_x**2, 0)
        var_y = np.maximum(local_means(y * y, w) - mean_y**2, 0)
        cov = local_means(x * y, w) - mean_x * mean_y
        g = cov / (var_x + TINY)
        noise = var_y - g * cov
        flat_x, flat_y = var_x < TINY, var_y < TINY
        g[flat_x], noise[flat_x] = 0, var_y[flat_x]
        g[flat_y], noise[flat_y] = 0, 0
        negative = g < 0
        noise[negative], g[negative] = var_y[negative], 0
        noise = np.maximum(noise, TINY)
        edge = border(level)
        g, noise = g[edge:-edge, edge:-edge], noise[edge:-edge, edge:-edge]
        total += sum(np.log(1 + g * g * s * v / (noise + NOISE)).mean() for v in values) + 1e-4
    return total / clean.total


def delta_v(clean_rgb, corrupted_rgb):
    return max(0.0, 1 - vif(prepare(grey(clean_rgb)), grey(corrupted_rgb)))
