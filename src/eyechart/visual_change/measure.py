"""`vif` and `delta_v`: one number per image for images of any supported type.

`measure_change` also returns how reliable these numbers are. The images are read in
`measure_inputs.py`.
"""

import warnings
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eyechart.core.errors import UsageError
from eyechart.core.phrases import count_of
from eyechart.images.image_types import Images
from eyechart.visual_change.measure_inputs import (
    Statistics,
    check_options,
    check_pair,
    find_dtype,
    find_vif,
    read_images,
)
from eyechart.visual_change.registry import DEFAULT_RULER, DTYPE, find_ruler
from eyechart.visual_change.ruler import CleanDescription, Ruler, check_size
from eyechart.visual_change.vif.rulers import VifRuler, delta_v_from_vif

Values = Tensor | NDArray[np.generic]
"""One value per image: a tensor if the corrupted images are a tensor, otherwise a NumPy array."""


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
    """Visual change with its diagnostics, one value per image.

    Fields are tensors if the corrupted images are a tensor, otherwise NumPy arrays.

    Attributes:
        vif: the fraction of the clean image's information that is left; above 1 if contrast was
            increased; NaN for rulers that do not measure VIF.
        delta_v: the visual change in [0, 1], for VIF max(0, 1 − VIF); NaN if not `measurable`.
        information: the variation of the clean image within windows, in bits per coefficient; NaN
            for rulers that do not measure VIF.
        scales: the number of image scales.
        measurable: False for clean images that are nearly constant or, for VIF, a pure grating.
        ill_conditioned: True if float32 was not sufficient, so that float64 was used.
        raw: the ruler's raw value, from which Δv is mapped to [0, 1]; Δv itself for VIF.

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
    raw: Values


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
        ruler: the definition of VIF: "vif", "sheikh2006" or "vif-pixel"; their values are not
            comparable.
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
    change = _measure(clean, corrupted, find_vif(ruler), dtype, differentiable)
    return _plain(change.vif, corrupted)


def delta_v(
    clean: Images | Statistics,
    corrupted: Images,
    *,
    ruler: str = DEFAULT_RULER,
    dtype: str | torch.dtype = DTYPE,
    differentiable: bool = False,
) -> Any:
    """Return the visual change Δv in [0, 1], one number per image.

    The default ruler gives Δv = max(0, 1 − VIF). If the clean image is constant or contains almost
    no information, Δv is NaN, and a LowInformationWarning states the number of these images.

    Args:
        clean: as for `vif`.
        corrupted: images of the same size.
        ruler: the name of a ruler; values of different rulers are not comparable.
        dtype: as for `vif`; only rulers based on VIF accept another value than the default.
        differentiable: as for `vif`; only rulers based on VIF have a gradient.

    Returns:
        0 for identical images, 1 if all information is lost, in the same type as for `vif`.

    Raises:
        UsageError: the images are too small or do not match, or the ruler needs weights that are
            not installed.

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
    change = _measure(clean, corrupted, find_ruler(ruler), dtype, differentiable)
    n_images, n_measurable = len(change.measurable), int(change.measurable.sum())
    if n_measurable < n_images:
        warnings.warn(
            "A clean image that is nearly constant, or a pure grating, has too little information:"
            f" Δv is NaN for {n_images - n_measurable} of {count_of(n_images, 'image')}.",
            LowInformationWarning,
            stacklevel=2,
        )
    return _plain(change.delta_v, corrupted)


def measure_change(
    clean: Images | Statistics,
    corrupted: Images,
    *,
    ruler: str = DEFAULT_RULER,
    dtype: str | torch.dtype = DTYPE,
) -> Change:
    """Return Δv and VIF together with diagnostics of their reliability.

    Args:
        clean: as for `vif`.
        corrupted: images of the same size.
        ruler: the name of a ruler; values of different rulers are not comparable.
        dtype: as for `delta_v`.

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
    return _measure(clean, corrupted, find_ruler(ruler), dtype, differentiable=False)


def clean_statistics(
    clean: Images,
    *,
    ruler: str = DEFAULT_RULER,
    dtype: str | torch.dtype = DTYPE,
    differentiable: bool = False,
) -> Statistics:
    """Return statistics of clean images, to reuse them for many corrupted images.

    At 224 px the statistics take 1.3 MB per image, 0.8 MB in float32 (1.4 MB with the ruler
    "vif-pixel").

    Args:
        clean: images of equal size, of any type that `corrupt` accepts.
        ruler: the definition of VIF: "vif", "sheikh2006" or "vif-pixel".
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
    grays = [gray.detach() for gray in read_images(clean, "clean", chosen, differentiable)]
    # the statistics of all images are stacked into one tensor per scale
    sizes = {tuple(gray.shape[1:]) for gray in grays}
    if len(sizes) > 1:
        raise UsageError("Clean images must all have the same size.")
    check_size(chosen, grays[0])
    return chosen.describe_gray(torch.cat(grays), find_dtype(dtype))


def _measure(
    clean: Images | Statistics,
    corrupted: Images,
    ruler: Ruler,
    dtype: str | torch.dtype,
    differentiable: bool,
) -> Change:
    band_dtype = find_dtype(dtype)
    check_options(ruler, band_dtype, differentiable)
    after = read_images(corrupted, "corrupted", ruler, differentiable)
    before: Statistics | list[Tensor]
    if isinstance(clean, Statistics):
        before, n_clean, name = clean, len(clean), clean.definition.name
        if name != ruler.name:
            raise UsageError(
                f"The clean statistics are for the ruler '{name}', not '{ruler.name}': give "
                f"ruler='{name}'."
            )
    else:
        # the clean images get no gradient: it would pass through degenerate eigenvectors
        before = [images.detach() for images in read_images(clean, "clean", ruler, differentiable)]
        n_clean = sum(map(len, before))
    n_corrupted = sum(map(len, after))
    if n_clean not in (1, n_corrupted):
        raise UsageError(
            f"clean has {count_of(n_clean, 'image')} and corrupted has {n_corrupted}: give the same"
            " number, or a single clean image."
        )
    if isinstance(corrupted, list | tuple):
        change = _compare_list(before, after, ruler, band_dtype)
    elif isinstance(before, Statistics):
        change = _compare(before, after[0], ruler, band_dtype)
    else:
        # before they are joined, because torch's message on unequal sizes would not name the images
        for images in before:
            check_pair(images, after[0], ruler)
        change = _compare(torch.cat(before), after[0], ruler, band_dtype)
    if isinstance(corrupted, Tensor):
        return change
    return Change(*(getattr(change, field.name).cpu().numpy() for field in fields(Change)))


def _compare(
    before: Statistics | Tensor, after: Tensor, ruler: Ruler, dtype: torch.dtype
) -> Change:
    """Compare images of equal size, as read by `read_images`."""
    check_pair(before, after, ruler)
    description: CleanDescription
    if isinstance(ruler, VifRuler):
        statistics = ruler.describe_gray(before, dtype) if isinstance(before, Tensor) else before
        description, vif = statistics, ruler.fidelity(statistics, after)
        delta_v = delta_v_from_vif(vif, statistics.measurable)
        information, ill_conditioned = statistics.information, statistics.ill_conditioned
    else:
        assert isinstance(before, Tensor), "only VIF has statistics"
        description = ruler.describe(before)
        delta_v = ruler.compare(description, after)
        vif = information = torch.full_like(delta_v, torch.nan)
        ill_conditioned = torch.zeros_like(delta_v, dtype=torch.bool)
    count = len(after)
    return Change(
        vif,
        delta_v,
        # one clean image may serve for all corrupted ones
        information.expand(count),
        torch.full((count,), description.n_scales, device=delta_v.device),
        description.measurable.expand(count),
        ill_conditioned.expand(count),
        ruler.raw(delta_v),
    )


def _compare_list(
    before: Statistics | list[Tensor], after: list[Tensor], ruler: Ruler, dtype: torch.dtype
) -> Change:
    """Compare the images of a list; images of equal size are compared together."""
    if isinstance(before, Statistics):
        for image in after:
            check_pair(before, image, ruler)
        return _compare(before, torch.cat(after), ruler, dtype)
    before = [image[None] for batch in before for image in batch]
    # one clean image serves for all
    before = before if len(before) > 1 else before * len(after)
    indices: dict[tuple[object, ...], list[int]] = {}
    for index, (one, two) in enumerate(zip(before, after, strict=True)):
        check_pair(one, two, ruler)
        # images can be joined only if their size and device are the same
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


def _plain(values: Values, corrupted: Images) -> Any:
    """Return all values, or a scalar if a single image was given."""
    # lists and PIL images have no `ndim`
    if isinstance(corrupted, list | tuple) or getattr(corrupted, "ndim", 3) == 4:
        return values
    return values[0] if isinstance(corrupted, Tensor) else float(values[0])
