"""ImageNet-C's elastic transform: a random affine map, then a smooth random displacement."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eyechart.core.randomness import ImageRandom
from eyechart.corruptions.arithmetic import UNIT
from eyechart.corruptions.declaration import Parameter, Values, corruption, per_image
from eyechart.corruptions.filters import CV2_BORDERS, fold, smooth
from eyechart.corruptions.opencv import opencv


@corruption(
    "elastic_transform",
    "geometry",
    Parameter("amplitude", 0, 10_000, "px", "displacements are ± this before smoothing", clean=0),
    Parameter("sigma", 0, 1000, "px", "smoothness of the displacement"),
    Parameter("shift", 0, 500, "px", "how far the corners of the affine map move", clean=0),
    random=True,
)
def elastic_transform(
    images: Tensor, random: ImageRandom, *, amplitude: Values, sigma: Values, shift: Values
) -> Tensor:
    """Shear the picture a little and wrinkle it like a cloth."""
    height, width = images.shape[2:]
    wrinkles = random.uniform16("wrinkles", (2, height, width)).mul_(2).sub_(1)
    wrinkles = smooth(wrinkles, sigma, truncate=3.0, border="reflect")
    wrinkles = torch.round(wrinkles * per_image(amplitude, images) * 32) / 32
    down = wrinkles[:, 1] + torch.arange(height, device=images.device)[:, None]
    across = wrinkles[:, 0] + torch.arange(width, device=images.device)
    moved = sample_bilinear(images * 255, *_affine_places(random, shift, height, width), "mirror")
    return sample_bilinear(moved, down, across, "reflect") * UNIT


def _affine_places(
    random: ImageRandom, shift: Values, height: int, width: int
) -> tuple[Tensor, Tensor]:
    """Return where in the picture each pixel of the sheared one comes from, to 1/32 px."""
    centre = np.array([height // 2, width // 2])
    arm = min(height, width) // 3
    corners = np.array([centre + arm, [centre[0] + arm, centre[1] - arm], centre - arm])
    moves = random.uniform("corners", (3, 2)).cpu().numpy().astype(np.float64) * 2 - 1
    moved = corners + moves * shift[:, None, None]
    inverse = _affine(moved, np.broadcast_to(corners, moved.shape))
    place = torch.from_numpy(np.round(inverse * 2**20) / 2**20).to(random.device)[
        :, :, :, None, None
    ]
    x = torch.arange(width, device=random.device, dtype=torch.float64)
    y = torch.arange(height, device=random.device, dtype=torch.float64)[:, None]
    columns, rows = (place[:, k, 0] * x + place[:, k, 1] * y + place[:, k, 2] for k in (0, 1))
    # OpenCV, which the published code calls, interpolates between 32 places a pixel
    return tuple((torch.floor(each * 32 + 0.5) / 32).to(torch.float32) for each in (rows, columns))  # type: ignore[return-value]


def _affine(before: NDArray[np.float64], after: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return (B, 2, 3) affine maps that take three points (B, 3, 2) to three others."""
    ones = np.ones((*before.shape[:2], 1))
    return np.swapaxes(np.linalg.solve(np.concatenate((before, ones), axis=2), after), 1, 2)


def sample_bilinear(levels: Tensor, rows: Tensor, columns: Tensor, border: str) -> Tensor:
    """Return grey levels (B, C, H, W) read at the places (B, H, W), in px, border by rule.

    Levels count in steps of 1/64 and places come in steps of 1/32, so that float32 holds every
    product and every sum exactly, whoever computes them.
    """
    levels = (levels * 64).round_().mul_(1 / 64)
    cv2 = opencv()
    if levels.device.type != "cpu" or cv2 is None:
        return sample_in_torch(levels, rows, columns, border)
    out = torch.empty_like(levels)
    # the map is turned into whole numbers once, for all planes
    for source, target, x, y in zip(
        levels.numpy(), out.numpy(), columns.numpy(), rows.numpy(), strict=True
    ):
        maps = cv2.convertMaps(x, y, cv2.CV_16SC2)
        for plane, result in zip(source, target, strict=True):
            cv2.remap(plane, *maps, cv2.INTER_LINEAR, result, CV2_BORDERS[border])
    return out


def sample_in_torch(levels: Tensor, rows: Tensor, columns: Tensor, border: str) -> Tensor:
    """`sample_bilinear` without OpenCV."""
    batch, channels, height, width = levels.shape
    top, left = torch.floor(rows), torch.floor(columns)
    down, across = (rows - top).flatten(1)[:, None], (columns - left).flatten(1)[:, None]
    top, left = top.to(torch.int64), left.to(torch.int64)
    upper, lower = (fold(top + step, height, border) * width for step in (0, 1))
    before, after = (fold(left + step, width, border) for step in (0, 1))
    flat = levels.reshape(batch, channels, height * width)

    def at(row: Tensor, column: Tensor) -> Tensor:
        index = (row + column).reshape(batch, 1, -1).expand(-1, channels, -1)
        return flat.gather(2, index)

    above = at(upper, before) * (1 - across) + at(upper, after) * across
    below = at(lower, before) * (1 - across) + at(lower, after) * across
    return (above * (1 - down) + below * down).reshape(levels.shape)
