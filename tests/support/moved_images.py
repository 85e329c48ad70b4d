"""Images moved by a known map, by SciPy as a second implementation of warping."""

import numpy as np
from scipy import ndimage

NEAREST, LINEAR, CUBIC = 0, 1, 3
"""Orders of SciPy's interpolation."""


def map_of(degrees=0.0, scale=1.0, across=0.0, down=0.0, shear=0.0, is_mirrored=False):
    """Return the map (2, 3) from a moved image back to the clean one, about the center.

    The image is mirrored, sheared, magnified, turned clockwise and shifted, in this order.
    """
    angle = np.radians(degrees)
    back = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]]) / scale
    back = np.array([[1.0, shear], [0.0, 1.0]]) @ back
    if is_mirrored:
        back = np.diag([-1.0, 1.0]) @ back
    return np.column_stack([back, -back @ (across, down)])


def move(image, back, order=LINEAR, fill="constant"):
    """Return a gray image (H, W), uint8, moved by a map; it is smoothed before it is reduced."""
    center = (np.array(image.shape[::-1]) - 1) / 2
    linear, shift = back[:, :2], back[:, 2]
    offset = center + shift - linear @ center
    levels = image.astype(np.float64)
    step = abs(np.linalg.det(linear)) ** 0.5
    if step > 1.05 and order != NEAREST:
        levels = ndimage.gaussian_filter(levels, 0.4 * step)
    # SciPy's coordinates are row, column
    moved = ndimage.affine_transform(
        levels, linear[::-1, ::-1], offset[::-1], order=order, mode=fill
    )
    return eight_bits(moved)


def eight_bits(levels):
    return np.clip(np.rint(levels), 0, 255).astype(np.uint8)


def errors(estimate, truth, size):
    """Return the mean distance in px and the angle in degrees between two maps (2, 3).

    The distance is that of points of the moved image, over what it shows of the clean one.
    """
    rows, columns = ((np.arange(9) / 8 - 0.5) * side for side in size)
    points = np.stack(np.meshgrid(columns, rows)).reshape(2, -1)
    linear, shift = truth[:, :2], truth[:, 2:]
    is_visible = (np.abs(linear @ points + shift) <= np.array(size[::-1])[:, None] / 2).all(axis=0)
    apart = (estimate[:, :2] - linear) @ points + estimate[:, 2:] - shift
    pixels = np.linalg.norm(np.linalg.solve(linear, apart)[:, is_visible], axis=0).mean()
    turn = np.linalg.solve(linear, estimate[:, :2])
    angle = np.arctan2(turn[1, 0] - turn[0, 1], turn[0, 0] + turn[1, 1])
    return pixels, abs(np.degrees(angle))
