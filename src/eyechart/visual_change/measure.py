"""`vif` and `delta_v`: one number per image for images of any supported type.

`measure_change` also returns how reliable these numbers are.
"""

import warnings
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eyechart.core.arguments import as_flag, brief
from eyechart.core.errors import UsageError
from eyechart.core.registry import one_of
from eyechart.images.image_types import Images, to_batch, to_rgb_levels
from eyechart.visual_change.gray import to_gray, to_gray_with_gradient
from eyechart.visual_change.measure_settings import DTYPE
from eyechart.visual_change.registry import DEFAULT_RULER, RULERS, find_ruler
from eyechart.visual_change.ruler import Ruler
from eyechart.visual_change.vif.pixel import PixelStatistics
from eyechart.visual_change.vif.rulers import VifRuler, lost
from eyechart.visual_change.vif.statistics import CleanStatistics

Statistics = CleanStatistics | PixelStatistics
Values = Tensor | NDArray[np.generic]
"""One value per image: a tensor if the corrupted images are a tensor, otherwise a NumPy array."""
DTYPES = {"float32": torch.float32, "float64": torch.float64}


class LowInformationWarning(UserWarning):
    """A clean image contains too little information for its visual change to be defined.

    Example:
        >>> import warnings
        >>> import numpy as np
        >>> import eyechart as ec
        >>> constant = np.full((32, 32), 128, dtype=np.uint8)
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore", ec.LowInformationWarning)
        ...     ec.delta_v(constant, constant)
        nan
    """


@dataclass(frozen=True)
class Change:
    """VIF and visual change with their diagnostics, one value per image.

    Fields are tensors if the corrupted images are a tensor, otherwise NumPy arrays.

    Attributes:
        vif: the fraction of the clean image's information that is left; above 1 if contrast was
            increased.
        delta_v: the fraction that is lost, max(0, 1 − VIF); NaN if not `measurable`.
        information: the variation of the clean image within windows, in bits per coefficient.
        scales: the number of scales of the pyramid.
        measurable: False for clean images that are nearly constant or a pure grating.
        ill_conditioned: True if float32 was not sufficient, so that float64 was used.

    Example:
        >>> import numpy as np
        >>> import eyechart as ec
        >>> clean = np.random.default_rng(0).integers(0, 256, (1, 32, 32, 3), dtype=np.uint8)
        >>> change = ec.measure_change(clean, clean)
        >>> change.measurable.tolist(), change.scales.tolist()
        ([True], [2])
    """

    vif: Values
    delta_v: Values
    information: Values
    scales: Values
    measurable: Values
    ill_conditioned: Values


def vif(
    clean: Images | Statistics,
    corrupted: Images,
    *,
    ruler: str = DEFAULT_RULER,
    dtype: str | torch.dtype = DTYPE,
    differentiable: bool = False,
) -> Any:
    """Return the visual information fidelity (VIF) of corrupted images, one number per image.

    Color is converted to gray, and floats are rounded to 8 bits, as in a file.

    Args:
        clean: images of any type that `corrupt` accepts, or the result of `clean_statistics`; a
            single clean image is compared with all corrupted ones.
        corrupted: images of the same size.
        ruler: "vif", "sheikh2006" or "pixel"; their values are not comparable.
        dtype: "float32" is faster on a GPU; ignored if `clean` is the result of `clean_statistics`.
        differentiable: whether tensors are not rounded, so that the result has a gradient with
            respect to `corrupted`.

    Returns:
        1 for identical images, near 0 if all information is lost. A tensor gives a tensor
        (0-dimensional for a single image), a batch array or a list gives a NumPy array, and a
        single array or PIL image gives a float.

    Raises:
        UsageError: the images are too small, or do not match.

    Example:
        >>> import numpy as np
        >>> import eyechart as ec
        >>> clean = np.random.default_rng(0).integers(0, 256, (32, 32), dtype=np.uint8)
        >>> round(ec.vif(clean, clean), 6)
        1.0
    """
    change = _measure(clean, corrupted, ruler, dtype, differentiable)
    return _plain(change.vif, corrupted)


def delta_v(
    clean: Images | Statistics,
    corrupted: Images,
    *,
    ruler: str = DEFAULT_RULER,
    dtype: str | torch.dtype = DTYPE,
    differentiable: bool = False,
) -> Any:
    """Return the visual change Δv = max(0, 1 − VIF) in [0, 1], one number per image.

    If the clean image is constant or contains almost no information, Δv is NaN, and a
    LowInformationWarning states the number of these images.

    Args:
        clean: as for `vif`.
        corrupted: images of the same size.
        ruler: "vif", "sheikh2006" or "pixel"; their values are not comparable.
        dtype: as for `vif`; rulers that are not based on VIF ignore it.
        differentiable: as for `vif`; rulers that are not based on VIF have no gradient.

    Returns:
        0 for identical images, 1 if all information is lost, in the same type as for `vif`.

    Example:
        >>> import numpy as np
        >>> import eyechart as ec
        >>> clean = np.random.default_rng(0).integers(0, 256, (2, 32, 32, 3), dtype=np.uint8)
        >>> mild, strong = (
        ...     ec.delta_v(clean, ec.corrupt(clean, "gaussian_noise", severity=severity))
        ...     for severity in (1, 5)
        ... )
        >>> mild.shape, bool((mild < strong).all())
        ((2,), True)
    """
    chosen = find_ruler(ruler)
    if isinstance(chosen, VifRuler):
        change = _measure(clean, corrupted, ruler, dtype, differentiable)
        values, measurable = change.delta_v, change.measurable
    else:
        values, measurable = _change_by(chosen, clean, corrupted)
    _warn(measurable)
    return _plain(values, corrupted)


def _change_by(
    ruler: Ruler, clean: Images | Statistics, corrupted: Images
) -> tuple[Values, Values]:
    """Return Δv as measured by the given ruler on 8-bit color images."""
    before, after = to_rgb_levels(clean), to_rgb_levels(corrupted)
    # a single clean image is compared with every corrupted one
    if len(before) not in (1, len(after)) or before.shape[2:] != after.shape[2:]:
        raise UsageError(
            f"clean and corrupted must have the same shape, or clean must be a single image: clean"
            f" is {tuple(before.shape)}, corrupted is {tuple(after.shape)}."
        )
    description = ruler.describe(before)
    change = ruler.compare(description, after)
    values = change if isinstance(corrupted, Tensor) else change.cpu().numpy()
    return values, description.measurable.expand(len(after))


def measure_change(
    clean: Images | Statistics,
    corrupted: Images,
    *,
    ruler: str = DEFAULT_RULER,
    dtype: str | torch.dtype = DTYPE,
) -> Change:
    """Return VIF and Δv together with diagnostics of their reliability.

    Args:
        clean: as for `vif`.
        corrupted: images of the same size.
        ruler: "vif", "sheikh2006" or "pixel"; their values are not comparable.
        dtype: as for `vif`.

    Returns:
        A `Change` with one value per image in each field.

    Example:
        >>> import numpy as np
        >>> import eyechart as ec
        >>> clean = np.random.default_rng(0).integers(0, 256, (2, 32, 32), dtype=np.uint8)
        >>> change = ec.measure_change(list(clean), list(clean))
        >>> change.vif.round(6).tolist(), change.measurable.tolist()
        ([1.0, 1.0], [True, True])
    """
    return _measure(clean, corrupted, ruler, dtype, differentiable=False)


def clean_statistics(
    clean: Images,
    *,
    ruler: str = DEFAULT_RULER,
    dtype: str | torch.dtype = DTYPE,
    differentiable: bool = False,
) -> Statistics:
    """Return statistics of clean images, to reuse them for many corrupted images.

    At 224 px the statistics take 1.3 MB per image, 0.8 MB in float32 (1.4 MB with the ruler
    "pixel").

    Args:
        clean: images of equal size, of any type that `corrupt` accepts.
        ruler: "vif", "sheikh2006" or "pixel".
        dtype: "float32" takes less memory and is faster on a GPU.
        differentiable: as for `vif`; use the same value in both calls.

    Returns:
        Statistics to pass as `clean` to `vif`, `delta_v` and `measure_change`.

    Example:
        >>> import numpy as np
        >>> import eyechart as ec
        >>> clean = np.random.default_rng(0).integers(0, 256, (2, 32, 32, 3), dtype=np.uint8)
        >>> statistics = ec.clean_statistics(clean)
        >>> ec.vif(statistics, clean).round(6).tolist()
        [1.0, 1.0]
    """
    chosen = find_vif(ruler)
    grays = [gray.detach() for gray in _grays(clean, "clean", differentiable)]
    # the statistics of all images are stacked into one tensor per scale
    sizes = {tuple(gray.shape[1:]) for gray in grays}
    if len(sizes) > 1:
        raise UsageError("Clean images must all have the same size.")
    chosen.check_size(grays[0])
    return chosen.describe_gray(torch.cat(grays), find_dtype(dtype))


def _measure(
    clean: Images | Statistics,
    corrupted: Images,
    ruler: str,
    dtype: str | torch.dtype,
    differentiable: bool,
) -> Change:
    chosen, band_dtype = find_vif(ruler), find_dtype(dtype)
    after = _grays(corrupted, "corrupted", differentiable)
    if isinstance(clean, Statistics):
        before: Statistics | list[Tensor] = _of_ruler(clean, chosen)
    else:
        # the clean images get no gradient: it would pass through degenerate eigenvectors
        before = [gray.detach() for gray in _grays(clean, "clean", differentiable)]
    n_corrupted = sum(len(gray) for gray in after)
    n_clean = len(before) if isinstance(before, Statistics) else sum(map(len, before))
    if n_clean not in (1, n_corrupted):
        raise UsageError(
            f"clean has {n_clean} images and corrupted has {n_corrupted}: give the same number, or "
            "a single clean image."
        )
    if isinstance(corrupted, list | tuple):
        return _in_kind(_compare_list(before, after, chosen, band_dtype), corrupted)
    if isinstance(before, Statistics):
        return _in_kind(_compare(before, after[0], chosen, band_dtype), corrupted)
    # before they are joined, because torch's message on unequal sizes would not name the images
    for gray in before:
        check_pair(gray, after[0], chosen)
    return _in_kind(_compare(torch.cat(before), after[0], chosen, band_dtype), corrupted)


def _compare(
    before: Statistics | Tensor, after: Tensor, ruler: VifRuler, dtype: torch.dtype
) -> Change:
    """Compare gray images of equal size."""
    check_pair(before, after, ruler)
    described = ruler.describe_gray(before, dtype) if isinstance(before, Tensor) else before
    value = ruler.fidelity(described, after)
    count = len(value)
    return Change(
        value,
        lost(value, described.measurable),
        described.information.expand(count),
        torch.full((count,), described.n_scales, device=value.device),
        described.measurable.expand(count),
        described.ill_conditioned.expand(count),
    )


def _compare_list(
    before: Statistics | list[Tensor], after: list[Tensor], ruler: VifRuler, dtype: torch.dtype
) -> Change:
    """Compare the images of a list; images of equal size are compared together."""
    if isinstance(before, Statistics):
        for gray in after:
            check_pair(before, gray, ruler)
        return _compare(before, torch.cat(after), ruler, dtype)
    before = [gray[None] for batch in before for gray in batch]
    # one clean image serves for all
    before = before if len(before) > 1 else before * len(after)
    indices: dict[tuple[object, ...], list[int]] = {}
    for index, (one, two) in enumerate(zip(before, after, strict=True)):
        check_pair(one, two, ruler)
        indices.setdefault((one.shape, one.device), []).append(index)
    changes = [
        _compare(
            torch.cat([before[index] for index in group]),
            torch.cat([after[index] for index in group]),
            ruler,
            dtype,
        )
        for group in indices.values()
    ]
    # back from the order of the groups to the order of the list
    order = np.argsort([index for group in indices.values() for index in group])
    return Change(
        *(
            # on the CPU, because the images of a list may be on different devices
            torch.cat([getattr(change, field.name).cpu() for change in changes])[order]
            for field in fields(Change)
        )
    )


def _grays(images: object, role: str, differentiable: bool) -> list[Tensor]:
    """Return one batch of gray images (B, H, W), or one batch for each image of a list."""
    differentiable = as_flag(differentiable, "differentiable")
    if isinstance(images, list | tuple):
        if not images:
            raise UsageError(f"{role} is empty: give at least one image.")
        if differentiable:
            raise UsageError("A list has no gradient: stack the images into one tensor.")
        grays = [_grays(image, role, differentiable) for image in images]
        if any(len(gray) != 1 or len(gray[0]) != 1 for gray in grays):
            raise UsageError(f"{role} is a list, so it must contain single images, not batches.")
        return [gray[0] for gray in grays]
    # validated in both cases, even if the rounded batch itself is not used
    batch = _batch(images, role)
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


def check_pair(before: Statistics | Tensor, after: Tensor, ruler: VifRuler) -> None:
    """Raise a UsageError unless gray images (B, H, W) can be compared."""
    size = tuple(after.shape[1:])
    if isinstance(before, Tensor):
        clean_size, device = tuple(before.shape[1:]), before.device
    else:
        clean_size, device = (before.height, before.width), before.total.device
    if clean_size != size:
        raise UsageError(
            f"Images must have the same size: clean is {clean_size[1]} × {clean_size[0]} px"
            f" (width × height), corrupted is {size[1]} × {size[0]}; crop or resize one of them."
        )
    if device != after.device:
        raise UsageError(f"clean is on {device}, corrupted is on {after.device}: move one of them.")
    ruler.check_size(after)


def _of_ruler(statistics: Statistics, ruler: VifRuler) -> Statistics:
    name = statistics.definition.name
    if name != ruler.name:
        raise UsageError(
            f"The clean statistics are for the ruler '{name}', not '{ruler.name}': give "
            f"ruler='{name}'."
        )
    return statistics


def find_vif(name: str) -> VifRuler:
    """Return the VIF ruler with this name."""
    ruler = find_ruler(name)
    if not isinstance(ruler, VifRuler):
        known = [ruler.name for ruler in RULERS.values() if isinstance(ruler, VifRuler)]
        raise UsageError(f"{name} does not measure VIF: use {one_of(known)}.")
    return ruler


def find_dtype(dtype: str | torch.dtype) -> torch.dtype:
    """Return the floating-point type with this name."""
    if isinstance(dtype, str | type | torch.dtype | np.dtype):
        # np.float32 is a class with a name, torch.float32 prints as "torch.float32"
        name = getattr(dtype, "__name__", str(dtype)).removeprefix("torch.")
        if name in DTYPES:
            return DTYPES[name]
        if len(name) <= 60:
            raise UsageError(f"dtype must be float32 or float64, got {name}.")
    raise UsageError(f"dtype must be float32 or float64, got {brief(dtype)}.")


def _in_kind(change: Change, corrupted: Images) -> Change:
    if isinstance(corrupted, Tensor):
        return change
    return Change(*(getattr(change, field.name).cpu().numpy() for field in fields(Change)))


def _plain(values: Values, corrupted: Images) -> Any:
    """Return all values, or a scalar if a single image was given."""
    if isinstance(corrupted, list | tuple):
        return values
    if isinstance(corrupted, Tensor):
        return values if corrupted.ndim == 4 else values[0]
    if isinstance(corrupted, np.ndarray) and corrupted.ndim == 4:
        return values
    return float(values[0])


def _warn(measurable: Values) -> None:
    lacking = len(measurable) - int(measurable.sum())
    if lacking:
        warnings.warn(
            "A clean image that is nearly constant, or a pure grating, has too little information:"
            f" Δv is NaN for {lacking} of {len(measurable)} images.",
            LowInformationWarning,
            # the line that called `delta_v`, which calls this function directly
            stacklevel=3,
        )
