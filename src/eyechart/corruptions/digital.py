"""Digital: artifacts that arise when images are stored or transmitted."""

from io import BytesIO

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from eyechart.core.randomness import ImageRandom
from eyechart.corruptions.declaration import Parameter, Values, corruption, per_image
from eyechart.corruptions.kernels import blocks
from eyechart.corruptions.kernels.jpeg_torch import jpeg_in_torch
from eyechart.corruptions.kernels.opencv import copy_planes, opencv, pixels_of
from eyechart.corruptions.kernels.resampling import along_both, block_matrix, thumbnail_matrix


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
    return blocks.enlarge(blocks.shrink(levels, small), (height, width))


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
    cv2 = opencv()
    if cv2 is None:
        file = BytesIO()
        Image.fromarray(pixels).save(file, "JPEG", quality=quality)
        return np.asarray(Image.open(file))
    # OpenCV's order is blue, green, red
    is_color = pixels.ndim == 3
    ordered = cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR) if is_color else pixels
    file = cv2.imencode(".jpg", ordered, (cv2.IMWRITE_JPEG_QUALITY, quality))[1]
    decoded = cv2.imdecode(file, cv2.IMREAD_UNCHANGED)
    return np.asarray(cv2.cvtColor(decoded, cv2.COLOR_BGR2RGB, decoded) if is_color else decoded)


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
