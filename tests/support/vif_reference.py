"""Plain NumPy/SciPy visual information fidelity, of the three definitions that people use.

`vif`: steerable-pyramid VIF with the filters of pyrtools, horizontal and vertical bands of four
scales, or of fewer for small pictures. `vif_of_sheikh`: after vifvec, the authors' first code.
`vif_of_pixels`: after vifp_mscale, without a pyramid.
"""

from dataclasses import dataclass

import numpy as np
import pyrtools as pt
from numpy.lib.stride_tricks import sliding_window_view
from scipy.ndimage import correlate, gaussian_filter
from scipy.signal import correlate2d

FILTERS = pt.pyramids.filters.parse_filter("sp5_filters", normalize=False)
BANDS = [FILTERS["bfilts"][:, k].reshape(7, 7).T for k in (0, 3)]
NOISE = 0.1
TINY = 1e-15


def gray(rgb):
    """8-bit gray exactly as OpenCV's RGB2GRAY."""
    r, g, b = (rgb[..., k].astype(np.int64) for k in range(3))
    return ((9798 * r + 19235 * g + 3735 * b + 16384) >> 15).astype(np.float64)


def subbands(image, scales=4):
    """(level, band) pairs, finest first."""
    low = correlate(image, FILTERS["lo0filt"], mode="mirror")
    for level in range(scales):
        for band in BANDS:
            yield level, correlate(low, band, mode="mirror")
        low = correlate(low, FILTERS["lofilt"], mode="mirror")[::2, ::2]


def crop(band):
    return band[: band.shape[0] // 3 * 3, : band.shape[1] // 3 * 3]


def local_means(band, window):
    """Means over windows centered on the 3 × 3 blocks."""
    reach = (window - 3) // 2
    padded = np.pad(band, reach, mode="reflect")
    return sliding_window_view(padded, (window, window))[::3, ::3].mean(axis=(2, 3))


@dataclass
class Clean:
    bands: list
    eigenvalues: list
    multipliers: list
    total: float
    scales: int = 4


def prepare(image, scales=4):
    bands, eigenvalues, multipliers, total = [], [], [], 0.0
    for level, band in subbands(image, scales):
        band = crop(band)
        values, vectors = np.linalg.eigh(np.cov(overlapping_blocks(band).T))
        values = np.maximum(values, TINY)
        s = inner(block_strengths(band, (vectors / values) @ vectors.T), level, scales)
        total += sum(np.log(1 + s * v / NOISE).mean() for v in values) + 1e-4
        bands.append(band)
        eigenvalues.append(values)
        multipliers.append(s)
    return Clean(bands, eigenvalues, multipliers, total, scales)


def overlapping_blocks(band):
    return sliding_window_view(band, (3, 3)).reshape(-1, 9)


def block_strengths(band, inverse):
    """Return yᵀ C⁻¹ y / 9 of the blocks that do not overlap."""
    rows, columns = band.shape[0] // 3, band.shape[1] // 3
    own = band.reshape(rows, 3, columns, 3).transpose(0, 2, 1, 3).reshape(-1, 9)
    return np.einsum("ij,jk,ik->i", own, inverse, own).reshape(rows, columns) / 9


def window_of(level, scales=4):
    return 2 ** (scales - level) + 1


def border(level, scales=4):
    return int(np.ceil(((window_of(level, scales) - 1) / 2) / 3))


def inner(blocks, level, scales=4):
    edge = border(level, scales)
    return blocks[edge:-edge, edge:-edge]


def vif(clean, image):
    """VIF of `image` (2-D float, 0…255) against a prepared clean image."""
    total = 0.0
    for (level, band), x, values, s in zip(
        subbands(image, clean.scales),
        clean.bands,
        clean.eigenvalues,
        clean.multipliers,
        strict=True,
    ):
        y = crop(band)
        w = window_of(level, clean.scales)
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
        g, noise = inner(g, level, clean.scales), inner(noise, level, clean.scales)
        total += sum(np.log(1 + g * g * s * v / (noise + NOISE)).mean() for v in values) + 1e-4
    return total / clean.total


def delta_v(clean_rgb, corrupted_rgb):
    return max(0.0, 1 - vif(prepare(gray(clean_rgb)), gray(corrupted_rgb)))


def vif_of_sheikh(before, after, scales=4):
    """vifvec: σ_n² = 0.4, sums over blocks, second moments that are sums over the window."""
    kept = total = 0.0
    for (level, x), (_, y) in zip(subbands(before, scales), subbands(after, scales), strict=True):
        x, y, w = crop(x), crop(y), window_of(level, scales)
        area = w * w
        mean_x, mean_y = local_means(x, w), local_means(y, w)
        ss_x = np.maximum(area * (local_means(x * x, w) - mean_x**2), 0)
        ss_y = np.maximum(area * (local_means(y * y, w) - mean_y**2), 0)
        cov = area * (local_means(x * y, w) - mean_x * mean_y)
        g = cov / (ss_x + TINY)
        vv = (ss_y - g * cov) / area
        # the published code leaves the sums of these two cases undivided
        g, vv = np.where(ss_x < TINY, 0, g), np.where(ss_x < TINY, ss_y, vv)
        g, vv = np.where(ss_y < TINY, 0, g), np.where(ss_y < TINY, 0, vv)
        g, vv = np.maximum(g, 0), np.maximum(np.where(g < 0, ss_y, vv), TINY)

        covariance = np.cov(overlapping_blocks(x).T, ddof=0)
        s = inner(block_strengths(x, np.linalg.inv(covariance)), level, scales)
        g, vv = inner(g, level, scales), inner(vv, level, scales)
        for value in np.linalg.eigvalsh(covariance):
            kept += np.log2(1 + g * g * s * value / (vv + 0.4)).sum()
            total += np.log2(1 + s * value / 0.4).sum()
    return kept / total


def vif_of_pixels(before, after):
    """vifp_mscale: Gaussian windows on pixels, σ_n² = 2."""
    kept = total = 0.0
    for side in (17, 9, 5, 3):
        place = np.arange(side) - side // 2
        window = np.exp(-(place[:, None] ** 2 + place**2) / (2 * (side / 5) ** 2))
        window /= window.sum()

        def smooth(plane, window=window):
            return correlate2d(plane, window, mode="valid")

        if side < 17:
            before, after = smooth(before)[::2, ::2], smooth(after)[::2, ::2]
        mean_x, mean_y = smooth(before), smooth(after)
        var_x = np.maximum(smooth(before**2) - mean_x**2, 0)
        var_y = np.maximum(smooth(after**2) - mean_y**2, 0)
        cov = smooth(before * after) - mean_x * mean_y
        g = cov / (var_x + 1e-10)
        noise = var_y - g * cov
        flat_x, flat_y = var_x < 1e-10, var_y < 1e-10
        g[flat_x], noise[flat_x], var_x[flat_x] = 0, var_y[flat_x], 0
        g[flat_y], noise[flat_y] = 0, 0
        negative = g < 0
        noise[negative], g[negative] = var_y[negative], 0
        noise = np.maximum(noise, 1e-10)
        kept += np.log10(1 + g**2 * var_x / (noise + 2)).sum()
        total += np.log10(1 + var_x / 2).sum()
    return kept / total


VIF_VALUES = {
    ("noise", 2): (0.9047412543, 0.9060455728, 0.8880946946),
    ("noise", 10): (0.5879774998, 0.5911867316, 0.5344631684),
    ("noise", 50): (0.2663879496, 0.2842589943, 0.2187404987),
    ("noise", 150): (0.1247929659, 0.1349537550, 0.0968738397),
    ("blur", 0.5): (0.9195963006, 0.9212058364, 0.9618105365),
    ("blur", 1): (0.7119765556, 0.7147618521, 0.8156846601),
    ("blur", 2): (0.4590982949, 0.4664674162, 0.5720266885),
    ("blur", 5): (0.1959885542, 0.2109209267, 0.2568359297),
    ("gain", 0.5): (0.7844890871, 0.7857773576, 0.7575380230),
}


def eight_bits(values):
    return np.clip(np.rint(values), 0, 255)


def distorted(image, kind, amount, seed=12345):
    if kind == "noise":
        noise = np.random.default_rng(seed).normal(0, amount, image.shape)
        return eight_bits(image + noise)
    if kind == "blur":
        return eight_bits(gaussian_filter(image.astype(np.float64), amount))
    return eight_bits((image - 128.0) * amount + 128)
