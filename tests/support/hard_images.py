"""Gray pictures of 224 px on which VIF is hard to compute in float32, and what is done to them."""

from functools import cache

import numpy as np
from scipy.ndimage import gaussian_filter
from skimage import data

from real_images import stimulus

SIDE = 224
DOWN, ACROSS = np.mgrid[:SIDE, :SIDE]


def eight_bits(values):
    return np.clip(np.rint(values), 0, 255).astype(np.uint8)


@cache
def image(name):
    return stimulus(getattr(data, name)()).mean(axis=2)


def below(sky):
    """Land, the lower half of a photograph, below a sky of one or many levels."""
    land = image("rocket")
    return eight_bits(np.where(DOWN < SIDE // 2, sky, land))


def icon(radius):
    """A disc and a square, flat, on white."""
    disc = np.hypot(DOWN - 112, ACROSS - 80) <= radius
    square = np.maximum(abs(DOWN - 112), abs(ACROSS - 150)) <= radius // 2
    return eight_bits(np.where(disc, 40, np.where(square, 120, 255)))


def text():
    """Dark dots a pixel or two wide, in lines on white."""
    inked = np.random.default_rng(5).random((SIDE, SIDE)) < 0.3
    lines = (DOWN % 14 < 7) & (ACROSS > 20) & (ACROSS < 200)
    return eight_bits(np.where(inked & lines, 20, 250))


def noise(kind, *arguments):
    """Random numbers, always the same."""
    return getattr(np.random.default_rng(3), kind)(*arguments, (SIDE, SIDE))


HARD_IMAGES = {
    "sky of 220 over land": lambda: below(220),
    "sky of 255 over land": lambda: below(255),
    "faintly graded sky": lambda: eight_bits(220 - 0.3 * DOWN),
    "graded sky": lambda: eight_bits(220 - 1.0 * DOWN),
    "graded sky over land": lambda: below(220 - 0.3 * DOWN),
    "evenly graded sky over land": lambda: below(220 - 1.0 * DOWN),
    "sky evenly graded across over land": lambda: below(20 + 1.0 * ACROSS),
    "graded sky with faint noise": lambda: eight_bits(
        220 - 0.3 * DOWN + 0.2 * ACROSS + noise("normal", 0, 0.3)
    ),
    "slope": lambda: eight_bits(220 - 0.3 * DOWN - 0.2 * ACROSS),
    "icon of 4 px": lambda: icon(4),
    "icon of 20 px": lambda: icon(20),
    "icon of 60 px": lambda: icon(60),
    "night, 5 % of the light": lambda: eight_bits(image("rocket") * 0.05),
    "night, 2 % of the light": lambda: eight_bits(image("coffee") * 0.02),
    "saturated noise": lambda: eight_bits(255 * (noise("uniform", 0, 1) < 0.5)),
    "white noise": lambda: eight_bits(noise("uniform", 0, 255)),
    "checkerboard": lambda: eight_bits(255 * ((DOWN // 16 + ACROSS // 16) % 2)),
    "photograph blurred by 6 px": lambda: eight_bits(gaussian_filter(image("chelsea"), 6)),
    "photograph blurred by 15 px": lambda: eight_bits(gaussian_filter(image("chelsea"), 15)),
    "text": text,
}


def oblique_grating(period, slope):
    return eight_bits(128 + 100 * np.cos(2 * np.pi * (ACROSS + slope * DOWN) / period))


def corrupted_copies(clean):
    levels = clean.astype(np.float64)
    noise = np.random.default_rng(11).normal(0, 1, clean.shape)
    return {
        "noise 10": eight_bits(levels + 10 * noise),
        "noise 80": eight_bits(levels + 80 * noise),
        "blur 2": eight_bits(gaussian_filter(levels, 2)),
        "gain 0.5": eight_bits((levels - 128) * 0.5 + 128),
        "steps of 16": eight_bits(np.rint(levels / 16) * 16),
    }
