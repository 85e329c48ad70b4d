"""Geometry: pixels move, and areas that come from outside the image are black.

Each corruption declares the closed form of its map, which masks and boxes follow.
"""

import numpy as np
import torch
from torch import Tensor

from eyechart.core.randomness import ImageRandom
from eyechart.corruptions.declaration import Parameter, Values, corruption, drawn_sign
from eyechart.corruptions.kernels.affine import (
    AffineMap,
    PerspectiveMap,
    linear_map,
    take,
    take_bilinear,
    take_nearest,
)
from eyechart.corruptions.kernels.resampling import along_both, bilinear_matrix

# larger than the sides of usual images, where a shift leaves nothing but black
LONGEST = 10_000.0


def _translation_map(
    height: int, width: int, *, across: Values, down: Values, to_right: Values, to_bottom: Values
) -> AffineMap:
    one, nothing = np.ones_like(across), np.zeros_like(across)
    # negative, because a map leads from the output back to the source
    return AffineMap(one, nothing, nothing, one, -across * to_right, -down * to_bottom)


@corruption(
    "noc/translation",
    "geometry",
    Parameter("across", 0, LONGEST, "px", "horizontal shift", clean=0, integer=True),
    Parameter("down", 0, LONGEST, "px", "vertical shift", clean=0, integer=True),
    drawn_sign("to_right", "1 to the right, -1 to the left"),
    drawn_sign("to_bottom", "1 downwards, -1 upwards"),
    source_map=_translation_map,
)
def translation(
    images: Tensor,
    random: ImageRandom,
    *,
    across: Values,
    down: Values,
    to_right: Values,
    to_bottom: Values,
) -> Tensor:
    """Shift the image left or right, and up or down."""
    height, width = images.shape[-2:]
    shift_x, shift_y = (
        torch.from_numpy((length * sign).astype(np.int64)).to(images.device).reshape(-1, 1, 1)
        for length, sign in ((across, to_right), (down, to_bottom))
    )
    # whole pixels are moved by integer indices, without interpolation or rounding
    rows = torch.arange(height, device=images.device)[:, None] - shift_y
    columns = torch.arange(width, device=images.device) - shift_x
    return take(images, rows, columns)


DIRECTION = drawn_sign("direction", "1: the bottom moves left and the top right; -1: the opposite")


def _slant(slope: Values) -> AffineMap:
    one, nothing = np.ones_like(slope), np.zeros_like(slope)
    # pixels come from x + slope · y: below the center, where y > 0, the content moves left
    return linear_map(one, slope, nothing, one)


def _shear_map(height: int, width: int, *, degrees: Values, direction: Values) -> AffineMap:
    return _slant(np.tan(np.radians(degrees)) * direction)


@corruption(
    "noc/shear",
    "geometry",
    Parameter("degrees", 0, 80, "degrees", "angle by which verticals lean", clean=0, integer=True),
    DIRECTION,
    source_map=_shear_map,
)
def shear(images: Tensor, random: ImageRandom, *, degrees: Values, direction: Values) -> Tensor:
    """Shear the image horizontally about its center, by an angle."""
    source = _shear_map(*images.shape[-2:], degrees=degrees, direction=direction)
    return take_nearest(images, source)


def _shear_by_shift_map(height: int, width: int, *, shift: Values, direction: Values) -> AffineMap:
    # the outermost row is half of the height from the center: shift = slope / 2
    return _slant(2 * shift * direction)


@corruption(
    "noc/shear_by_shift",
    "geometry",
    Parameter("shift", 0, 2, "fraction of the height", "shift of the outermost row", clean=0),
    DIRECTION,
    source_map=_shear_by_shift_map,
)
def shear_by_shift(
    images: Tensor, random: ImageRandom, *, shift: Values, direction: Values
) -> Tensor:
    """Shear the image horizontally about its center, by the shift of its top and bottom rows."""
    source = _shear_by_shift_map(*images.shape[-2:], shift=shift, direction=direction)
    return take_nearest(images, source)


def _rotation_map(height: int, width: int, *, degrees: Values, clockwise: Values) -> AffineMap:
    angle = np.radians(degrees) * clockwise
    # the inverse of a rotation is its transpose; y points down, so clockwise is positive
    return linear_map(np.cos(angle), np.sin(angle), -np.sin(angle), np.cos(angle))


@corruption(
    "noc/rotation",
    "geometry",
    Parameter("degrees", 0, 180, "degrees", "angle of the rotation", clean=0, integer=True),
    drawn_sign("clockwise", "1 clockwise, -1 counterclockwise"),
    source_map=_rotation_map,
)
def rotation(images: Tensor, random: ImageRandom, *, degrees: Values, clockwise: Values) -> Tensor:
    """Rotate the image about its center."""
    source = _rotation_map(*images.shape[-2:], degrees=degrees, clockwise=clockwise)
    return take_nearest(images, source)


def _cut(crop: Values, axis: Values, dimension: int, size: int) -> Values:
    """Return the length that is cropped at the top (dimension 0) or at the left (1)."""
    # at least one row or column remains
    return np.where(axis == dimension, np.minimum(crop, size - 1), 0.0)


def _elastic_map(height: int, width: int, *, crop: Values, axis: Values) -> AffineMap:
    top, left = _cut(crop, axis, 0, height), _cut(crop, axis, 1, width)
    nothing = np.zeros_like(top)
    # what remains has its center half of the cropped length further down or to the right
    return AffineMap(1 - left / width, nothing, nothing, 1 - top / height, left / 2, top / 2)


@corruption(
    "noc/elastic",
    "geometry",
    Parameter("crop", 0, LONGEST, "px", "length that is cropped", clean=0, integer=True),
    Parameter("axis", 0, 1, "number", "0 crops the top, 1 the left", choices=(0, 1), drawn=True),
    source_map=_elastic_map,
)
def elastic(images: Tensor, random: ImageRandom, *, crop: Values, axis: Values) -> Tensor:
    """Crop the image at the top or the left and stretch the rest to the original size."""
    matrices = []
    for dimension, size in enumerate(images.shape[-2:]):
        # nothing is cut along the other axis, whose matrix is then the identity
        cut = _cut(crop, axis, dimension, size)
        full = np.full_like(cut, size)
        matrices.append(bilinear_matrix(cut, full - cut, full, size, size, images.device))
    return along_both(images, *matrices)


@corruption(
    "geometry/rotate",
    "geometry",
    Parameter("degrees", 0, 180, "degrees", "angle of the rotation", clean=0),
    drawn_sign("clockwise", "1 clockwise, -1 counterclockwise"),
    takes="levels",
    source_map=_rotation_map,
)
def rotate(images: Tensor, random: ImageRandom, *, degrees: Values, clockwise: Values) -> Tensor:
    """Rotate the image about its center, with bilinear interpolation."""
    source = _rotation_map(*images.shape[-2:], degrees=degrees, clockwise=clockwise)
    return take_bilinear(images, source)


def _scale_map(height: int, width: int, *, factor: Values, enlarges: Values) -> AffineMap:
    # source coordinates shrink where the image is enlarged, hence the negative exponent
    zoom = factor**-enlarges
    nothing = np.zeros_like(zoom)
    return linear_map(zoom, nothing, nothing, zoom)


@corruption(
    "geometry/scale",
    "geometry",
    Parameter("factor", 1, 10, "number", "factor between the sizes", clean=1, between="log"),
    drawn_sign("enlarges", "1 enlarges the center, -1 reduces the image"),
    takes="levels",
    source_map=_scale_map,
)
def scale(images: Tensor, random: ImageRandom, *, factor: Values, enlarges: Values) -> Tensor:
    """Enlarge the center of the image, or reduce the image."""
    source = _scale_map(*images.shape[-2:], factor=factor, enlarges=enlarges)
    # a pixel of a reduced image is a mean; unchanged at factor 1, where the square has side 0
    spread = np.where(enlarges < 0, 1 - 1 / factor, 0.0)
    return take_bilinear(images, source, spread)


@corruption(
    "geometry/shear",
    "geometry",
    Parameter("degrees", 0, 80, "degrees", "angle by which verticals lean", clean=0),
    DIRECTION,
    takes="levels",
    source_map=_shear_map,
)
def shear_smoothly(
    images: Tensor, random: ImageRandom, *, degrees: Values, direction: Values
) -> Tensor:
    """Shear the image horizontally about its center, with bilinear interpolation."""
    source = _shear_map(*images.shape[-2:], degrees=degrees, direction=direction)
    return take_bilinear(images, source)


def _perspective_map(height: int, width: int, *, tilt: Values, side: Values) -> PerspectiveMap:
    # sides 0 and 1 recede at the top and the bottom, 2 and 3 at the left and the right
    signed = np.where(side % 2 == 0, tilt, -tilt)
    vertical = side < 2
    across = np.where(vertical, 0.0, signed / (width / 2))
    # a depth below 1 reads from farther out, so that the content there looks smaller
    return PerspectiveMap(across, np.where(vertical, signed / (height / 2), 0.0))


@corruption(
    "geometry/perspective",
    "geometry",
    Parameter("tilt", 0, 0.9, "number", "the receding side is this much shorter", clean=0),
    Parameter(
        "side",
        0,
        3,
        "number",
        "the receding side: 0 top, 1 bottom, 2 left, 3 right",
        choices=(0, 1, 2, 3),
        drawn=True,
    ),
    takes="levels",
    source_map=_perspective_map,
)
def perspective(images: Tensor, random: ImageRandom, *, tilt: Values, side: Values) -> Tensor:
    """Show the image tilted about its center, so that one side recedes."""
    return take_bilinear(images, _perspective_map(*images.shape[-2:], tilt=tilt, side=side))


def _mirror_map(height: int, width: int, *, mirrored: Values) -> AffineMap:
    one, nothing = np.ones_like(mirrored), np.zeros_like(mirrored)
    # −1 times x mirrors, because coordinates are relative to the center
    return linear_map(1 - 2 * mirrored, nothing, nothing, one)


@corruption(
    "geometry/mirror",
    "geometry",
    Parameter("mirrored", 0, 1, "number", "1 mirrors the image", clean=0, choices=(0, 1)),
    takes="levels",
    source_map=_mirror_map,
)
def mirror(images: Tensor, random: ImageRandom, *, mirrored: Values) -> Tensor:
    """Exchange left and right."""
    # a flip moves whole pixels, so the map is needed for masks and boxes only
    chosen = torch.from_numpy(mirrored == 1).to(images.device).reshape(-1, 1, 1, 1)
    return torch.where(chosen, images.flip(-1), images)
