"""Isotonic curves and their areas with NumPy alone, and a table with the columns of the VCR study.

Its own bins, its own isotonic regression (pooling adjacent violators, where eyechart uses the
min-max formula) and its own area.
"""

import numpy as np

CATEGORIES = ("dog", "cat", "bird", "car", "clock", "bear", "boat", "knife")
N_BINS = 39
"""Number of bins that contain responses, in the published binning."""

CENTERS = (np.arange(N_BINS) + 0.5) / N_BINS
VCR = "image,orig_pred,transf_pred,label,vd_score"


def pool_violators(weights, values):
    """Return the non-increasing least-squares fit: rising neighbors are replaced by their mean."""
    blocks = []
    for weight, value in zip(weights, values, strict=True):
        blocks.append([weight, value, 1])
        while len(blocks) > 1 and blocks[-2][1] < blocks[-1][1]:
            (w2, v2, n2), (w1, v1, n1) = blocks.pop(), blocks.pop()
            blocks.append([w1 + w2, (w1 * v1 + w2 * v2) / (w1 + w2), n1 + n2])
    return np.repeat([value for _, value, _ in blocks], [n for _, _, n in blocks])


def curve_by_hand(delta_v, hits, clean, weights=None):
    """Return Δv and height of the corners of the curve that starts at the rate `clean`."""
    bin_of = np.minimum(np.floor(delta_v * N_BINS).astype(int), N_BINS - 1)
    weights = np.ones(len(hits)) if weights is None else weights
    counts = np.bincount(bin_of, weights, minlength=N_BINS)
    filled = counts > 0
    rates = np.bincount(bin_of, hits * weights, minlength=N_BINS)[filled] / counts[filled]
    if clean is None:
        y = pool_violators(counts[filled], rates)
        y = np.r_[y[0], y]
    else:
        # the start counts as much as an average bin
        weights = np.r_[counts.sum() / N_BINS, counts[filled]]
        y = pool_violators(weights, np.r_[clean, rates])
    last = np.flatnonzero(filled)[-1]
    # in empty bins the rate changes by equal steps from the filled bin (or the start) before
    cells = np.r_[0, 1 + np.flatnonzero(filled)]
    y = np.interp(np.arange(last + 2), cells, y)
    # straight lines between centers, level to the edge of the last bin, then down to 0
    x = np.r_[0, CENTERS[: last + 1]]
    edge = (last + 1) / N_BINS
    if edge < 1:
        x, y = np.r_[x, edge], np.r_[y, y[-1]]
    return np.r_[x, 1], np.r_[y, 0 if edge < 1 else y[-1]]


def area_by_hand(x, y):
    return float(((y[1:] + y[:-1]) / 2 * np.diff(x)).sum())


def vcr_table(path, count=1500, lowest=0.0, images=300, seed=0):
    """Write a table with the columns of the VCR study; clean responses are correct in 93 %."""
    random = np.random.default_rng(seed)
    lines = [VCR]
    for row in range(count):
        label = CATEGORIES[row % len(CATEGORIES)]
        other = CATEGORIES[(row + 3) % len(CATEGORIES)]
        delta_v = lowest + (1 - lowest) * random.random()
        clean = label if random.random() < 0.93 else other
        response = label if random.random() < 0.95 - 0.85 * delta_v**2 else other
        lines.append(f"i{row % images},{clean},{response},{label},{delta_v:.4f}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
