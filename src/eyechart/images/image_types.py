"""Convert images of any accepted type to one batch tensor, and convert results back.

Results have the same type as the input: a tensor (which keeps its class, such as torchvision's
tv_tensors.Image), an array, a PIL image or a list. Data type, shape and number of channels are
kept.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor
from torch.nn import Parameter

from eyechart.core.arguments import digits, short_repr
from eyechart.core.errors import UsageError

SMALLEST_SIDE = 8
MAX_SIDE = 8192
"""Maximum height and width in px of the images that a command generates."""

OneImage = Tensor | NDArray[np.generic] | Image.Image
Images = OneImage | Sequence[OneImage]
"""The accepted inputs: one image, a batch as a tensor or an array, or a list of images."""

Batch = Tensor
"""A batch of images: (B, C, H, W), uint8 or float32 in 0…1, C = 1 or 3."""

Restore = Callable[[Tensor], Any]


def to_batch(images: object) -> tuple[Batch, Restore]:
    """Return the images as one batch, and a function that converts a batch to the input's type.

    Accepts torch (B, C, H, W) or (C, H, W), NumPy (B, H, W, C), (H, W, C) or (H, W), and PIL images
    in mode RGB or L. Lists are handled by `each_size`.

    Example:
        >>> batch, restore = to_batch(np.zeros((16, 24, 3), dtype=np.uint8))
        >>> tuple(batch.shape), restore(batch).shape
        ((1, 3, 16, 24), (16, 24, 3))
    """
    if isinstance(images, Tensor):
        return _from_tensor(images)
    if isinstance(images, np.ndarray):
        return _from_array(images)
    if isinstance(images, Image.Image):
        return _from_image(images)
    if isinstance(images, str | Path):
        raise UsageError(
            "images must be decoded images, not file names: open the file with"
            f" PIL.Image.open({short_repr(str(images))})."
        )
    raise UsageError(
        "images must be a torch tensor, a NumPy array, a PIL image or a flat list of these,"
        f" got {type(images).__name__}."
    )


def each_size(images: Sequence[object]) -> list[tuple[list[int], Batch, list[Restore]]]:
    """Group a list of images into batches; the images in a batch have the same size and type.

    Returns:
        For each group, the images' positions in the list, the batch, and the functions that convert
        each image back.
    """
    groups: dict[tuple[object, ...], list[tuple[int, Tensor, Restore]]] = {}
    for index, image in enumerate(images):
        batch, restore = to_batch(image)
        if batch.shape[0] != 1:
            raise UsageError("A list must contain single images, not batches.")
        # Only images that agree in all of these can be concatenated.
        kind = (*batch.shape[1:], batch.dtype, batch.device)
        groups.setdefault(kind, []).append((index, batch, restore))
    return [
        (
            [index for index, _, _ in members],
            torch.cat([batch for _, batch, _ in members]),
            [restore for _, _, restore in members],
        )
        for members in groups.values()
    ]


def to_rgb_levels(images: object) -> Tensor:
    """Return images of any accepted type as 8-bit RGB, uint8 (B, 3, H, W): a model's input.

    All images of a list must have the same size and type. Grayscale images become three equal
    channels, and floats in [0, 1] are rounded to the nearest of 256 levels.

    Example:
        >>> to_rgb_levels(np.full((16, 16), 0.5)).shape
        torch.Size([1, 3, 16, 16])
    """
    # A batch cannot mix sizes or types, so all images of a list must agree in both.
    if isinstance(images, list | tuple):
        groups = each_size(images)
        if len(groups) != 1:
            raise UsageError(
                "A list must contain at least one image, and all images must have the same size and"
                f" type, got {len(groups)} sizes or types: resize them, or give one list for each."
            )
        batch = groups[0][1]
    elif (
        isinstance(images, Tensor)
        and images.dtype == torch.uint8
        and images.ndim == 4
        and images.shape[1] == 3
    ):
        return images
    else:
        batch = to_batch(images)[0]
    levels = batch if batch.dtype == torch.uint8 else (batch * 255).round().to(torch.uint8)
    return levels if levels.shape[1] == 3 else levels.expand(-1, 3, -1, -1)


def check_batch(batch: Batch) -> None:
    """Raise a UsageError unless the batch is (B, C, H, W) with values in range."""
    if batch.ndim != 4 or batch.shape[0] == 0 or batch.numel() == 0:
        raise UsageError("images is empty: give at least one image.")
    if batch.shape[1] not in (1, 3):
        raise UsageError(
            f"images must have 1 (gray) or 3 (RGB) channels, got {batch.shape[1]};"
            " tensors are (B, C, H, W), arrays (B, H, W, C)."
        )
    height, width = batch.shape[-2:]
    if min(height, width) < SMALLEST_SIDE:
        raise UsageError(
            f"images must be at least {SMALLEST_SIDE} px on each side, got {height} × {width}."
        )
    if batch.dtype != torch.uint8:
        low, high = (float(value) for value in batch.aminmax())
        # Written so that NaN fails the comparison as well.
        if not (low >= 0 and high <= 1):
            if np.isnan(low) or np.isnan(high):
                raise UsageError("images contain NaN: replace these values first.")
            if low < 0:
                advice = "undo their normalization"
            elif high <= 2 or np.isinf(high):
                # Slightly above 1 is rounding or overshoot; values far above are likely 0…255.
                advice = "clip them"
            else:
                advice = "divide by 255 or pass uint8"
            # With the digits that tell a float32 value from its neighbors.
            raise UsageError(
                f"Float images must be in [0, 1], got values from {digits(np.float32(low))} to"
                f" {digits(np.float32(high))}; {advice}."
            )


def _from_tensor(images: Tensor) -> tuple[Batch, Restore]:
    dtype = images.dtype
    if images.layout != torch.strided or images.device.type == "meta":
        raise UsageError("A tensor must be dense and must not be a meta tensor.")
    kind = type(images)
    if kind is not Tensor and not issubclass(kind, Parameter):
        # Subclasses such as tv_tensors.Image: compute on a plain tensor, return the subclass.
        plain, restore_plain = _from_tensor(images.as_subclass(Tensor))
        return plain, lambda result: restore_plain(result).as_subclass(kind)
    if dtype != torch.uint8 and not dtype.is_floating_point:
        raise UsageError(
            f"images must be uint8 or float, got {dtype}; scale them to 0…255 as uint8 first."
        )
    if images.ndim not in (3, 4):
        raise UsageError(
            f"A tensor must be (B, C, H, W) or (C, H, W), got {images.ndim} dimensions."
        )
    shape = images.shape
    # An empty tensor cannot be reshaped to −1; `check_batch` rejects it below.
    batch = images.detach().reshape(-1, *shape[-3:]) if images.numel() else images.detach()
    # Also for float64: finer values would make results depend on the machine.
    batch = batch if dtype == torch.uint8 else batch.to(torch.float32)
    check_batch(batch)

    def restore(result: Tensor) -> Tensor:
        if dtype in (torch.uint8, torch.float32):
            return result.reshape(shape)
        # Return unchanged values bit for bit, not rounded through float32.
        restored = images.detach().reshape(batch.shape)
        return torch.where(result == batch, restored, result.to(dtype)).reshape(shape)

    return batch, restore


def _from_array(images: NDArray[np.generic]) -> tuple[Batch, Restore]:
    dtype, shape = images.dtype, images.shape
    if dtype != np.uint8 and not np.issubdtype(dtype, np.floating):
        raise UsageError(
            f"images must be uint8 or float, got {dtype}; scale them to 0…255 as uint8 first."
        )
    if images.ndim not in (2, 3, 4):
        raise UsageError(
            f"An array must be (B, H, W, C), (H, W, C) or (H, W), got {images.ndim} dimensions."
        )
    batched = images.reshape(1, *shape, 1) if images.ndim == 2 else images
    batched = batched[None] if images.ndim == 3 else batched
    kept = np.uint8 if dtype == np.uint8 else np.float32
    planes = np.ascontiguousarray(batched.transpose(0, 3, 1, 2), dtype=kept)
    # torch.from_numpy shares memory: copy, so that the caller's array is never modified. A gray
    # array is contiguous as it is, and so is a color array that is stored plane by plane.
    if np.may_share_memory(planes, images) or not planes.flags.writeable:
        planes = planes.copy()
    batch = torch.from_numpy(planes)
    check_batch(batch)

    def restore(result: Tensor) -> NDArray[np.generic]:
        rows = result.permute(0, 2, 3, 1).contiguous().numpy().reshape(shape)
        if dtype in (np.uint8, np.float32):
            return rows
        # Return unchanged values bit for bit, not rounded through float32.
        return np.where(rows == images.astype(np.float32), images, rows.astype(dtype))

    return batch, restore


def _from_image(image: Image.Image) -> tuple[Batch, Restore]:
    if image.mode not in ("RGB", "L"):
        is_deep = image.mode == "F" or image.mode.startswith("I")
        advice = "scale its values to 8 bits" if is_deep else "call .convert('RGB')"
        raise UsageError(f"A PIL image must be in mode RGB or L, got {image.mode}; {advice} first.")
    try:
        pixels = np.array(image)
    except (OSError, ValueError) as error:
        raise UsageError(f"The PIL image cannot be read: {error}.") from None
    batch, restore = _from_array(pixels)
    return batch, lambda result: Image.fromarray(restore(result), mode=image.mode)
