"""Digital: artifacts of storage and transmission, and ImageNet-C's elastic transform."""

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eyechart.core.randomness import ImageRandom
from eyechart.corruptions.declaration import Parameter, Values, corruption, per_image
from eyechart.corruptions.kernels.arithmetic import UNIT, copy_planes, pixels_of
from eyechart.corruptions.kernels.filters import smooth
from eyechart.corruptions.kernels.jpeg_torch import jpeg_in_torch
from eyechart.corruptions.kernels.resampling import (
    along_both,
    block_matrix,
    enlarge_blocks,
    fine_levels,
    sample_bilinear,
    shrink_to_blocks,
    thumbnail_matrix,
)


@corruption(
    "pixelate",
    "digital",
    Parameter("size", 0.01, 1, "factor", "relative size of the small image", clean=1),
    takes="levels",
)
def pixelate(levels: Tensor, random: ImageRandom, *, size: Values) -> Tensor:
    """Shrink the image and enlarge it again without smoothing, so that it consists of blocks."""
    # images are grouped by size, because a batch has one shape
    sizes = np.unique(size)
    if len(sizes) > 1:
        out = torch.empty_like(levels)
        for share in sizes:
            chosen = torch.from_numpy(size == share).to(levels.device)
            out[chosen] = pixelate(levels[chosen], random, size=size[size == share])
        return out
    height, width = levels.shape[2:]
    # the small constant prevents rounding errors from truncating an integer to the next lower one
    small = (max(1, int(height * sizes[0] + 1e-9)), max(1, int(width * sizes[0] + 1e-9)))
    return enlarge_blocks(shrink_to_blocks(levels, small), (height, width))


@corruption(
    "jpeg_compression",
    "digital",
    Parameter("quality", 1, 100, "JPEG quality", "1 is the worst, 100 the best", clean=100,
              integer=True),
    takes="levels",
)  # fmt: skip
def jpeg_compression(levels: Tensor, random: ImageRandom, *, quality: Values) -> Tensor:
    """Store the image as a low-quality JPEG and read it back.

    This uses a JPEG library on the CPU and the same steps in torch on a GPU, with identical
    results.
    """
    if levels.device.type != "cpu":
        return jpeg_in_torch(levels, quality)
    out = torch.empty_like(levels)
    for source, target, image_quality in zip(levels.numpy(), out.numpy(), quality, strict=True):
        copy_planes(through_jpeg(pixels_of(source), int(image_quality)), target)
    return out


def through_jpeg(pixels: NDArray[np.uint8], quality: int) -> NDArray[np.uint8]:
    """Return an image (H, W, 3) or (H, W) after a round trip through JPEG.

    OpenCV writes the same bytes as Pillow, with 4:2:0 chroma, in a third of the time.
    """
    # OpenCV's order is blue, green, red
    is_color = pixels.ndim == 3
    ordered = cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR) if is_color else pixels
    file = cv2.imencode(".jpg", ordered, (cv2.IMWRITE_JPEG_QUALITY, quality))[1]
    decoded: NDArray[np.uint8] = np.asarray(cv2.imdecode(file, cv2.IMREAD_UNCHANGED))
    if is_color:
        cv2.cvtColor(decoded, cv2.COLOR_BGR2RGB, decoded)
    return decoded


@corruption(
    "noc/quantization",
    "digital",
    Parameter("levels", 2, 256, "levels", "number of values that a channel can take", clean=256,
              integer=True, between="reciprocal"),
)  # fmt: skip
def quantization(images: Tensor, random: ImageRandom, *, levels: Values) -> Tensor:
    """Round every value to the nearest of a few evenly spaced levels."""
    steps = per_image(levels - 1, images)
    return torch.round(images * steps).div_(steps)


@corruption(
    "noc/thumbnail_resize",
    "digital",
    Parameter("factor", 1, 50, "factor", "how many times smaller the thumbnail is", clean=1),
)
def thumbnail_resize(images: Tensor, random: ImageRandom, *, factor: Values) -> Tensor:
    """Shrink the image and enlarge it again, both with interpolation."""
    down, across = (thumbnail_matrix(factor, size, images.device) for size in images.shape[-2:])
    return along_both(images, down, across)


@corruption(
    "noc/pixelate",
    "digital",
    Parameter("block", 2, 10_000, "px", "side of a block; 1 would change nothing", clean=1,
              integer=True),
)  # fmt: skip
def noc_pixelate(images: Tensor, random: ImageRandom, *, block: Values) -> Tensor:
    """Replace square blocks of pixels by their mean."""
    down, across = (block_matrix(block, size, images.device) for size in images.shape[-2:])
    return along_both(images, down, across)


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
