"""Baseline JPEG with 4:2:0 chroma on a GPU: compute the pixels after a round trip, without a file.

The CPU uses Pillow (`corruptions.digital.through_jpeg`); both give the same pixels, in the
corruption and in the JPEG step of published files (`testsets.stimuli`).

These are the steps of ITU-T T.81 in the integer arithmetic of libjpeg: color conversion, chroma
averaging, 8 × 8 DCT, quantization by the standard tables, and back, with triangle interpolation of
the chroma. All numbers are integers below 2⁵³, so float64 represents them exactly, and the pixels
equal libjpeg's on every device and in every batch.
"""

from functools import lru_cache

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from eyechart.corruptions.declaration import Values

# ITU-T T.81, tables K.1 and K.2
LUMINANCE = (
    16, 11, 10, 16, 24, 40, 51, 61, 12, 12, 14, 19, 26, 58, 60, 55,
    14, 13, 16, 24, 40, 57, 69, 56, 14, 17, 22, 29, 51, 87, 80, 62,
    18, 22, 37, 56, 68, 109, 103, 77, 24, 35, 55, 64, 81, 104, 113, 92,
    49, 64, 78, 87, 103, 121, 120, 101, 72, 92, 95, 98, 112, 100, 103, 99,
)  # fmt: skip
CHROMINANCE = (
    17, 18, 24, 47, 99, 99, 99, 99, 18, 21, 26, 66, 99, 99, 99, 99,
    24, 26, 56, 99, 99, 99, 99, 99, 47, 66, 99, 99, 99, 99, 99, 99,
    99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99,
    99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99,
)  # fmt: skip

SHIFT = 13
"""Number of fractional bits of the transform's factors; two more are kept between its passes."""

COSINES = (
    (8192, 8192, 8192, 8192, 8192, 8192, 8192, 8192),
    (11363, 9633, 6437, 2260, -2260, -6437, -9633, -11363),
    (10703, 4433, -4433, -10703, -10703, -4433, 4433, 10703),
    (9633, -2259, -11362, -6436, 6436, 11362, 2259, -9633),
    (8192, -8192, -8192, 8192, 8192, -8192, -8192, 8192),
    (6437, -11362, 2261, 9633, -9633, -2261, 11362, -6437),
    (4433, -10704, 10704, -4433, -4433, 10704, -10704, 4433),
    (2260, -6436, 9633, -11363, 11363, -9633, 6436, -2260),
)
"""The matrix of the fast DCT of Loeffler, Ligtenberg and Moschytz: √8 times the orthonormal one, in
units of 2⁻¹³. libjpeg rounds its multipliers before it adds them, so some entries differ by one
from the rounded cosines."""

# RGB to Y, Cb, Cr in units of 2⁻¹⁶, and back.
TO_GRAY, TO_BLUE, TO_RED = (19595, 38470, 7471), (-11059, -21709, 32768), (32768, -27439, -5329)
RED_OF_RED, GREEN_OF_BLUE, GREEN_OF_RED, BLUE_OF_BLUE = 91881, -22554, -46802, 116130
# one half in these units, added before a shift by 16 bits so that it rounds
HALF = 1 << 15


def jpeg_in_torch(levels: Tensor, quality: Values) -> Tensor:
    """Return the uint8 images (B, C, H, W) after a round trip through JPEG of `quality`."""
    height, width = levels.shape[2:]
    if levels.shape[1] == 1:
        # a JPEG of one channel has neither a color conversion nor chroma
        return _through_blocks(levels, quality, LUMINANCE)[..., :height, :width].to(torch.uint8)
    red, green, blue = levels.to(torch.int32).unbind(dim=1)
    gray, blueness, redness = (
        (red * factors[0] + green * factors[1] + blue * factors[2] + offset) >> 16
        for factors, offset in (
            (TO_GRAY, HALF),
            # slightly less than one half, as in libjpeg: 255.5 must not round to 256
            (TO_BLUE, (128 << 16) + HALF - 1),
            (TO_RED, (128 << 16) + HALF - 1),
        )
    )
    gray = _through_blocks(gray[:, None], quality, LUMINANCE)[:, 0, :height, :width]
    chroma = _halve(torch.stack((blueness, redness), dim=1))
    # rounded up: the last chroma sample of an odd side covers one pixel
    rows, columns = -(-height // 2), -(-width // 2)
    chroma = _through_blocks(chroma, quality, CHROMINANCE)[..., :rows, :columns]
    blueness, redness = _double(chroma)[..., :height, :width].sub_(128).unbind(dim=1)
    colors = (
        gray + ((redness * RED_OF_RED + HALF) >> 16),
        gray + ((blueness * GREEN_OF_BLUE + redness * GREEN_OF_RED + HALF) >> 16),
        gray + ((blueness * BLUE_OF_BLUE + HALF) >> 16),
    )
    return torch.stack(colors, dim=1).clamp_(0, 255).to(torch.uint8)


def _through_blocks(planes: Tensor, quality: Values, table: tuple[int, ...]) -> Tensor:
    """Transform planes (B, C, H, W), quantize, transform back; sides are padded to multiples of 8.

    Returns int32. Each pass of a transform leaves two fractional bits, which the next pass removes;
    between passes, values are eight times the values of the orthonormal transform.
    """
    batch, channels, height, width = planes.shape
    planes = _padded(planes, (0, -width % 8, 0, -height % 8)).to(torch.float64)
    rows, columns = planes.shape[2] // 8, planes.shape[3] // 8
    blocks = planes.reshape(batch, channels, rows, 8, columns, 8).transpose(3, 4)
    cosine = _cosine(planes.device)
    across = _shifted((blocks - 128) @ cosine.T, SHIFT - 2)
    frequencies = _shifted(cosine @ across, SHIFT + 2)
    steps = _steps(quality, table).to(planes.device).reshape(batch, 1, 1, 1, 8, 8)
    # to the nearest multiple, with ties away from zero
    size = torch.floor((frequencies.abs() + 4 * steps) / (8 * steps))
    kept = size * frequencies.sign() * steps
    down = _shifted(cosine.T @ kept, SHIFT - 2)
    # 13 bits of the factors, 2 kept between the passes, and 3 for the scale of 8 of both passes
    back = _shifted(down @ cosine, SHIFT + 5).add_(128).clamp_(0, 255)
    return back.transpose(3, 4).reshape(planes.shape).to(torch.int32)


def _padded(planes: Tensor, sides: tuple[int, int, int, int]) -> Tensor:
    """Return planes extended by their border values on the left, right, top and bottom."""
    if not any(sides):
        return planes
    # torch supports replicate padding for floating-point tensors only
    return pad(planes.to(torch.float32), sides, mode="replicate").to(planes.dtype)


def _shifted(values: Tensor, bits: int) -> Tensor:
    """Return integers shifted right by `bits`, rounded to nearest with ties rounded up."""
    return values.add_(2 ** (bits - 1)).mul_(2.0**-bits).floor_()


@lru_cache(maxsize=8)
def _cosine(device: torch.device) -> Tensor:
    return torch.tensor(COSINES, dtype=torch.float64, device=device)


def _steps(quality: Values, table: tuple[int, ...]) -> Tensor:
    """Return quantization steps (B, 64): the standard tables, scaled by quality as in libjpeg."""
    # libjpeg's jpeg_quality_scaling
    percent = np.where(quality < 50, 5000 // np.maximum(quality, 1), 200 - 2 * quality)
    # baseline JPEG stores a step in 8 bits, and a step of 0 would divide by zero
    steps = np.clip((np.array(table) * percent[:, None] + 50) // 100, 1, 255)
    return torch.from_numpy(steps.astype(np.float64))


def _halve(planes: Tensor) -> Tensor:
    """Return the means of 2 × 2 pixels, rounded up and down in alternating columns."""
    # libjpeg repeats the last column up to whole blocks before halving, the last row afterwards
    planes = _padded(planes, (0, -planes.shape[3] % 16, 0, planes.shape[2] % 2))
    total = planes[..., ::2, :] + planes[..., 1::2, :]
    total = total[..., ::2] + total[..., 1::2]
    # libjpeg adds 1 and 2 alternately, so that the mean has no bias
    turn = torch.arange(total.shape[3], device=planes.device) % 2 + 1
    return (total + turn) >> 2


def _double(planes: Tensor) -> Tensor:
    """Return planes at twice the size: ¾ of the nearer plus ¼ of the farther pixel on each axis."""
    around = _padded(planes, (0, 0, 1, 1))
    near = around[..., 1:-1, :] * 3
    rows = torch.stack((near + around[..., :-2, :], near + around[..., 2:, :]), dim=3)
    rows = rows.reshape(*planes.shape[:2], -1, planes.shape[3])
    around = _padded(rows, (1, 1, 0, 0))
    near = around[..., 1:-1] * 3
    # libjpeg's "fancy upsampling" rounds left and right pixels differently
    left = (near + around[..., :-2] + 8) >> 4
    right = (near + around[..., 2:] + 7) >> 4
    return torch.stack((left, right), dim=4).reshape(*rows.shape[:3], -1)
