"""The four photographs behind the golden ImageNet-C values, and what is measured on them."""

import numpy as np

import eyechart as ec

__all__ = ["NAMES", "measure", "prepared", "real_images"]
from real_images import NAMES, real_images
from vif_reference import gray, prepare, vif


def measure(photos, cleans, name, severity, seeds):
    """Mean Δv and mean absolute difference (gray levels) over photographs and seeds."""
    visual, difference = [], []
    for seed in seeds:
        corrupted = ec.corrupt(photos, name, severity=severity, seed=seed, keys=NAMES)
        for clean, before, after in zip(cleans, photos, corrupted, strict=True):
            visual.append(max(0.0, 1 - vif(clean, gray(after))))
            difference.append(np.abs(after.astype(float) - before).mean())
    return float(np.mean(visual)), float(np.mean(difference))


def prepared(photos):
    return [prepare(gray(photo)) for photo in photos]
