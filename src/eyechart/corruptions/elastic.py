"""ImageNet-C's elastic transform: a random affine map, then a smooth random displacement."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eyechart.core.randomness import ImageRandom
from eyechart.corruptions.declaration import Parameter, Values, corruption, per_image
from eyechart.corruptions.kernels.arithmetic import UNIT
from eyechart.corruptions.kernels.filters import smooth
from eyechart.corruptions.kernels.interpolation import fine_levels, sample_bilinear


@corruption(
    "elastic_transform",
    "geometry",
    Parameter("amplitude", 0, 10_000, "px", "maximum displacement before smoothing", clean=0),
    Parameter("sigma", 0, 1000, "px", "smoothness of the displacement"),
    Parameter("shift", 0, 500, "px", "how far the corners of the affine map move", clean=0),
    random=True,
)
def elastic_transform(
    images: Tensor, random: ImageRandom, *, amplitude: Values, sigma: Values, shift: Values
) -> Tensor:
    """Shear the image slightly and wrinkle it like cloth."""
    height, width = images.shape[2:]
    # one random field for each axis
    wrinkles = random.uniform16("wrinkles", (2, height, width)).mul_(2).sub_(1)
    wrinkles = smooth(wrinkles, sigma, truncate=3.0, border="reflect")
    # in steps of 1/32 px, for which bilinear interpolation is exact in float32
    wrinkles = wrinkles.mul_(per_image(amplitude, images)).mul_(32).round_().mul_(1 / 32)
    down = wrinkles[:, 1] + torch.arange(height, device=images.device)[:, None]
    across = wrinkles[:, 0] + torch.arange(width, device=images.device)
    places = _affine_places(random, shift, height, width)
    moved = sample_bilinear(fine_levels(images), *places, "mirror")
    # back to steps of 1/64 gray level, as `sample_bilinear` requires
    moved = moved.mul_(64).round_().mul_(1 / 64)
    return sample_bilinear(moved, down, across, "reflect").mul_(UNIT)


def _affine_places(
    random: ImageRandom, shift: Values, height: int, width: int
) -> tuple[Tensor, Tensor]:
    """Return each pixel's source coordinates under the affine map, in multiples of 1/32 px."""
    center = np.array([height // 2, width // 2])
    arm = min(height, width) // 3
    corners = np.array([center + arm, [center[0] + arm, center[1] - arm], center - arm])
    moves = random.uniform("corners", (3, 2)).cpu().numpy().astype(np.float64) * 2 - 1
    moved = corners + moves * shift[:, None, None]
    # from the output back to the input, as sampling needs it
    inverse = _affine(moved, np.broadcast_to(corners, moved.shape))
    # rounded to a grid, because the last bits of the solution differ between machines
    coefficients = torch.from_numpy(np.round(inverse * 2**20) / 2**20).to(random.device)[
        :, :, :, None, None
    ]
    x = torch.arange(width, device=random.device, dtype=torch.float64)
    y = torch.arange(height, device=random.device, dtype=torch.float64)[:, None]
    columns, rows = (
        coefficients[:, k, 0] * x + coefficients[:, k, 1] * y + coefficients[:, k, 2]
        for k in (0, 1)
    )
    # OpenCV, which the published code calls, interpolates at 32 positions per pixel
    return tuple(
        positions.mul_(32).add_(0.5).floor_().mul_(1 / 32).to(torch.float32)
        for positions in (rows, columns)
    )  # type: ignore[return-value]


def _affine(before: NDArray[np.float64], after: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return (B, 2, 3) affine maps that map three points (B, 3, 2) to three others."""
    ones = np.ones((*before.shape[:2], 1))
    return np.swapaxes(np.linalg.solve(np.concatenate((before, ones), axis=2), after), 1, 2)
