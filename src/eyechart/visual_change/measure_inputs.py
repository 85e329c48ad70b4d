"""Inputs of the measures of visual change: images, options and clean statistics are checked."""

import numpy as np
import torch
from torch import Tensor

from eyechart.core.arguments import as_flag, short_repr
from eyechart.core.errors import UsageError
from eyechart.core.registry import one_of
from eyechart.images.image_types import to_batch, to_rgb_levels
from eyechart.visual_change.gray import to_gray, to_gray_with_gradient
from eyechart.visual_change.registry import DTYPE, find_ruler
from eyechart.visual_change.ruler import Ruler, check_size
from eyechart.visual_change.vif.rulers import VIF_RULERS, PixelStatistics, VifRuler
from eyechart.visual_change.vif.statistics import CleanStatistics

Statistics = CleanStatistics | PixelStatistics
DTYPES = {"float32": torch.float32, "float64": torch.float64}
ONE_OF_VIF = one_of(ruler.name for ruler in VIF_RULERS)
"""The rulers that measure VIF, as a phrase."""


def read_images(images: object, role: str, ruler: Ruler, differentiable: bool) -> list[Tensor]:
    """Return one batch of images, or one batch for each image of a list.

    VIF compares gray levels (B, H, W), other rulers compare 8-bit colors (B, 3, H, W).
    """
    differentiable = as_flag(differentiable, "differentiable")
    if isinstance(images, list | tuple):
        if not images:
            raise UsageError(f"{role} is empty: give at least one image.")
        if differentiable:
            raise UsageError("A list has no gradient: stack the images into one tensor.")
        batches = [read_images(image, role, ruler, differentiable) for image in images]
        if any(len(batch) != 1 or len(batch[0]) != 1 for batch in batches):
            raise UsageError(f"{role} is a list, so it must contain single images, not batches.")
        return [batch[0] for batch in batches]
    # validated in both cases, even if the rounded batch itself is not used
    batch = _batch(images, role)
    if not isinstance(ruler, VifRuler):
        return [to_rgb_levels(batch)]
    if not differentiable:
        return [to_gray(batch)]
    if not isinstance(images, Tensor) or not images.dtype.is_floating_point:
        raise UsageError(f"differentiable needs float tensors in 0…1: convert {role} first.")
    return [to_gray_with_gradient(images.reshape(batch.shape))]


def _batch(images: object, role: str) -> Tensor:
    """Return the images as one batch; `role`, clean or corrupted, names them in errors."""
    if isinstance(images, Statistics):
        raise UsageError("Clean statistics must be the first argument: vif(statistics, corrupted).")
    try:
        return to_batch(images)[0]
    except UsageError as error:
        sentence = str(error)
        if sentence.startswith("images "):
            raise UsageError(role + sentence.removeprefix("images")) from None
        raise UsageError(f"{role}: {sentence}") from None


def check_pair(before: Statistics | Tensor, after: Tensor, ruler: Ruler) -> None:
    """Raise a UsageError unless images (…, H, W) can be compared."""
    size = tuple(after.shape[-2:])
    if isinstance(before, Tensor):
        clean_size, device = tuple(before.shape[-2:]), before.device
    else:
        clean_size, device = (before.height, before.width), before.total.device
    if clean_size != size:
        raise UsageError(
            f"Images must have the same size: clean is {clean_size[1]} × {clean_size[0]} px"
            f" (width × height), corrupted is {size[1]} × {size[0]}; crop or resize one of them."
        )
    if device != after.device:
        raise UsageError(f"clean is on {device}, corrupted is on {after.device}: move one of them.")
    check_size(ruler, after)


def find_vif(name: str) -> VifRuler:
    """Return the VIF ruler with this name."""
    ruler = find_ruler(name)
    if not isinstance(ruler, VifRuler):
        raise UsageError(f"{name} does not measure VIF: use {ONE_OF_VIF}.")
    return ruler


def check_options(ruler: Ruler, dtype: torch.dtype, differentiable: bool) -> None:
    """Raise a UsageError if a ruler that does not measure VIF gets an option of VIF."""
    if isinstance(ruler, VifRuler):
        return
    if as_flag(differentiable, "differentiable"):
        raise UsageError(f"The ruler {ruler.name} has no gradient: use {ONE_OF_VIF}.")
    if dtype != DTYPES[DTYPE]:
        raise UsageError(
            f"The ruler {ruler.name} has one precision: omit dtype, or use {ONE_OF_VIF}."
        )


def find_dtype(dtype: str | torch.dtype) -> torch.dtype:
    """Return the floating-point type with this name."""
    if isinstance(dtype, str | type | torch.dtype | np.dtype):
        # np.float32 is a class with a name, torch.float32 prints as "torch.float32"
        name = getattr(dtype, "__name__", str(dtype)).removeprefix("torch.")
        if name in DTYPES:
            return DTYPES[name]
        if len(name) <= 60:
            raise UsageError(f"dtype must be float32 or float64, got {name}.")
    raise UsageError(f"dtype must be float32 or float64, got {short_repr(dtype)}.")
