"""Baseline JPEG with 4:2:0 chroma in torch: what the file would keep, without writing it.

The steps of ITU-T T.81 as the common library carries them out: colour conversion, chroma averaging,
8 × 8 cosine transform, quantisation by the standard tables, and back, with triangle interpolation
of the chroma. Transforms run in float64 on a grid, so that rounding never depends on the batch.
"""

from functools import lru_cache

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from eyechart.corruptions.arithmetic import snap
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


def jpeg_in_torch(levels: Tensor, quality: Values) -> Tensor:
    """Return the uint8 images (B, C, H, W) as a JPEG of `quality` gives them back."""
    height, width = levels.shape[2:]
    values = levels.to(torch.float32)
    if levels.shape[1] == 1:
        return _through_blocks(values, quality, LUMINANCE)[..., :height, :width].to(torch.uint8)
    red, green, blue = values.unbind(dim=1)
    grey = torch.round(red * 0.299 + green * 0.587 + blue * 0.114)
    blueness = torch.round(red * -0.168735892 + green * -0.331264108 + blue * 0.5 + 128)
    redness = torch.round(red * 0.5 + green * -0.418687589 + blue * -0.081312411 + 128)
    grey = _through_blocks(grey[:, None], quality, LUMINANCE)[:, 0, :height, :width]
    chroma = _halve(torch.stack((blueness, redness), dim=1))
    rows, columns = -(-height // 2), -(-width // 2)
    chroma = _through_blocks(chroma, quality, CHROMINANCE)[..., :rows, :columns]
    blueness, redness = _double(chroma)[..., :height, :width].sub_(128).unbind(dim=1)
    colours = (
        grey + torch.round(redness * 1.402),
        grey + torch.round(blueness * -0.344136286 + redness * -0.714136286),
        grey + torch.round(blueness * 1.772),
    )
    return torch.stack(colours, dim=1).clamp_(0, 255).to(torch.uint8)


def _through_blocks(planes: Tensor, quality: Values, table: tuple[int, ...]) -> Tensor:
    """Transform, quantise and transform back (B, C, H, W); sides grow to multiples of 8."""
    batch, channels, height, width = planes.shape
    planes = pad(planes, (0, -width % 8, 0, -height % 8), mode="replicate")
    rows, columns = planes.shape[2] // 8, planes.shape[3] // 8
    blocks = planes.reshape(batch, channels, rows, 8, columns, 8).transpose(3, 4)
    cosine = _cosine(planes.device)
    frequencies = cosine @ (blocks.to(torch.float64) - 128) @ cosine.T
    steps = _steps(quality, table).to(planes.device).reshape(batch, 1, 1, 1, 8, 8)
    kept = torch.round(snap(frequencies) / steps) * steps
    back = snap(cosine.T @ kept.to(torch.float64) @ cosine)
    back = torch.floor(back + 128.5).clamp_(0, 255)
    return back.transpose(3, 4).reshape(planes.shape)


@lru_cache(maxsize=8)
def _cosine(device: torch.device) -> Tensor:
    """The orthonormal 8 × 8 matrix of the discrete cosine transform."""
    frequency, place = np.arange(8)[:, None], np.arange(8)
    matrix = np.cos((2 * place + 1) * frequency * np.pi / 16) / 2
    matrix[0] /= np.sqrt(2)
    return torch.from_numpy(matrix).to(device)


def _steps(quality: Values, table: tuple[int, ...]) -> Tensor:
    """Quantisation steps (B, 64) for each quality, by the usual scaling of the standard tables."""
    percent = np.where(quality < 50, 5000 // np.maximum(quality, 1), 200 - 2 * quality)
    steps = np.clip((np.array(table) * percent[:, None] + 50) // 100, 1, 255)
    return torch.from_numpy(steps.astype(np.float32))


def _halve(planes: Tensor) -> Tensor:
    """Mean of 2 × 2 pixels, rounding up and down in turn from column to column."""
    # The library repeats the last column up to whole blocks before it halves, the last row after.
    planes = pad(planes, (0, -planes.shape[3] % 16, 0, planes.shape[2] % 2), mode="replicate")
    total = planes[..., ::2, :] + planes[..., 1::2, :]
    total = total[..., ::2] + total[..., 1::2]
    turn = torch.arange(total.shape[3], device=planes.device) % 2 + 1
    return torch.floor((total + turn) / 4)


def _double(planes: Tensor) -> Tensor:
    """Twice the size: each new pixel is ¾ of the nearer and ¼ of the farther old one, each way."""
    around = pad(planes, (0, 0, 1, 1), mode="replicate")
    near = around[..., 1:-1, :] * 3
    rows = torch.stack((near + around[..., :-2, :], near + around[..., 2:, :]), dim=3)
    rows = rows.reshape(*planes.shape[:2], -1, planes.shape[3])
    around = pad(rows, (1, 1, 0, 0), mode="replicate")
    near = around[..., 1:-1] * 3
    left = torch.floor((near + around[..., :-2] + 8) / 16)
    right = torch.floor((near + around[..., 2:] + 7) / 16)
    return torch.stack((left, right), dim=4).reshape(*rows.shape[:3], -1)
