"""Four real photographs, as people and models would look at them: 224 px, 8 bits."""

import numpy as np
from PIL import Image
from skimage import data

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
