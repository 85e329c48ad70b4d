"""Four real photographs, as people and models would look at them: 224 px, 8 bits."""

from functools import cache

import numpy as np
from PIL import Image
from skimage import data

NAMES = ("astronaut", "chelsea", "coffee", "rocket")


@cache
def whole_photo(name):
    """A photograph as scikit-image has it, which would decode its file anew each time."""
    return Image.fromarray(getattr(data, name)())


def stimulus(rgb):
    """Shorter side to 256 (bilinear), center crop of 224."""
    image = Image.fromarray(rgb)
    share = 256 / min(image.size)
    image = image.resize(tuple(round(s * share) for s in image.size), Image.BILINEAR)
    left, top = ((side - 224) // 2 for side in image.size)
    return np.asarray(image.crop((left, top, left + 224, top + 224)))


@cache
def _stimuli():
    return np.stack([stimulus(np.asarray(whole_photo(name))) for name in NAMES])


def real_images():
    # each test may write into its own
    return _stimuli().copy()
