"""The four photographs behind the golden ImageNet-C values, and what is measured on them."""

import numpy as np
from PIL import Image
from skimage import data

import eyechart as ec
from vif_reference import grey, prepare, vif

NAMES = ("astronaut", "chelsea", "coffee", "rocket")


def stimulus(rgb):
    """Shorter side to 256 (bilinear), centre crop of 224."""
    picture = Image.fromarray(rgb)
    share = 256 / min(picture.size)
    picture = picture.resize(tuple(round(s * share) for s in picture.size), Image.BILINEAR)
    left, top = ((side - 224) // 2 for side in picture.size)
    return np.asarray(picture.crop((left, top, left + 224, top + 224)))


def photographs():
    return np.stack([stimulus(getattr(data, name)()) for name in NAMES])


def measure(photos, cleans, name, severity, seeds):
    """Mean Δv and mean absolute difference (grey levels) over photographs and seeds."""
    visual, difference = [], []
    for seed in seeds:
        corrupted = ec.corrupt(photos, name, severity=severity, seed=seed, keys=NAMES)
        for clean, before, after in zip(cleans, photos, corrupted, strict=True):
            visual.append(max(0.0, 1 - vif(clean, grey(after))))
            difference.append(np.abs(after.astype(float) - before).mean())
    return float(np.mean(visual)), float(np.mean(difference))


def prepared(photos):
    return [prepare(grey(photo)) for photo in photos]
