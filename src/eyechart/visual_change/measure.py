"""`vif` and `delta_v`: from any kind of pictures to one number per picture.

Also `measure_change`, which says besides how far those numbers can be trusted.
"""

import warnings
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from torch import Tensor

from eyechart.core.arguments import as_flag, brief
from eyechart.core.errors import UsageError
from eyechart.images.kinds import to_batch
from eyechart.visual_change.definitions import DEFINITIONS, Definition
from eyechart.visual_change.fidelity import describe_clean, fidelity
from eyechart.visual_change.grey import to_grey, to_grey_with_gradient
from eyechart.visual_change.pixel import SCALES as PIXEL_SCALES
from eyechart.visual_change.pixel import SMALLEST_SIDE as SMALLEST_PIXEL_SIDE
from eyechart.visual_change.pixel import pixel_fidelity
from eyechart.visual_change.pyramid import SMALLEST_SIDE
from eyechart.visual_change.statistics import INFORMATION_FLOOR, CleanStatistics

DTYPES = {"float32": torch.float32, "float64": torch.float64}


class LowInformationWarning(UserWarning):
    """A clean picture holds too little information for its loss to mean anything."""


@dataclass(frozen=True)
class Change:
    """How much was changed, one value per picture: tensors for tensors, else NumPy arrays.

    `vif`: the share of the clean picture's information that is left; above 1 where contrast was
    raised. `delta_v`: the share that is lost, max(0, 1 − VIF), NaN where not `measurable`.
    `information`: how much the clean picture varies within windows, in bits per coefficient.
    `scales`: how many of the pyramid's were used. `measurable`: False for clean pictures that are
    nearly constant or a pure grating. `ill_conditioned`: True where float32 was not enough, so that
    float64 was used.
    """

    vif: Any
    delta_v: Any
    information: Any
    scales: Any
    measurable: Any
    ill_conditioned: Any


def vif(
    clean: Any,
    corrupted: Any,
    *,
    definition: str = "vcr",
    dtype: str | torch.dtype = "float64",
    differentiable: bool = False,
) -> Any:
    """Return the visual information fidelity of corrupted pictures, one number per picture.

    Pictures come as `corrupt` takes them, or the clean side as what `clean_statistics` returned;
    one clean picture serves for all. The result is in the kind of `corrupted`: a tensor for a
    tensor (of no dimension for a single picture), a NumPy array for a batch array or a list, a
    float for a single array or PIL picture. Colour is brought to grey, and floats to 8 bits, as a
    file would hold them.

    `definition`: "vcr", "sheikh2006" or "pixel"; their values cannot be compared with each other.
    `dtype`: "float32" is faster on a GPU; statistics keep their own. With `differentiable`, tensors
    are not rounded to 8 bits and the result has a gradient with respect to `corrupted`.
    """
    change = _measure(clean, corrupted, definition, dtype, differentiable)
    return _plain(change.vif, corrupted)


def delta_v(
    clean: Any,
    corrupted: Any,
    *,
    definition: str = "vcr",
    dtype: str | torch.dtype = "float64",
    differentiable: bool = False,
) -> Any:
    """Return the visual change Δv = max(0, 1 − VIF) in 0…1, one number per picture.

    The arguments and the kind of the result are those of `vif`. Where the clean picture is constant
    or holds next to no information, Δv is NaN, and a warning says how often.
    """
    change = _measure(clean, corrupted, definition, dtype, differentiable)
    _warn(change.measurable)
    return _plain(change.delta_v, corrupted)


def measure_change(
    clean: Any,
    corrupted: Any,
    *,
    definition: str = "vcr",
    dtype: str | torch.dtype = "float64",
) -> Change:
    """Return VIF, Δv and how far they can be trusted; the arguments are those of `vif`."""
    return _measure(clean, corrupted, definition, dtype, differentiable=False)


def clean_statistics(
    clean: Any,
    *,
    definition: str = "vcr",
    dtype: str | torch.dtype = "float64",
    differentiable: bool = False,
) -> CleanStatistics:
    """Return what `vif` and `delta_v` need of clean pictures, to be used for many corrupted ones.

    All pictures must be of one size. At 224 px they take 1.3 MB a picture, 0.8 MB in float32.
    `differentiable` as in `vif`: both sides are then rounded to 8 bits, or neither. Definition
    "pixel" has no clean side of its own.
    """
    how = find_definition(definition)
    if how.pixel:
        raise UsageError("There are no statistics for definition 'pixel': give the pictures.")
    greys = [grey.detach() for grey in _greys(clean, "clean", differentiable)]
    sizes = {tuple(grey.shape[1:]) for grey in greys}
    if len(sizes) > 1:
        raise UsageError("Clean pictures must all be of one size for their statistics.")
    _check_size(greys[0], how)
    return describe_clean(torch.cat(greys), how, find_dtype(dtype))


def _measure(
    clean: Any, corrupted: Any, definition: str, dtype: str | torch.dtype, differentiable: bool
) -> Change:
    how, kept = find_definition(definition), find_dtype(dtype)
    after = _greys(corrupted, "corrupted", differentiable)
    if isinstance(clean, CleanStatistics):
        before: CleanStatistics | list[Tensor] = _of_definition(clean, how)
    else:
        # what the clean side is made of never changes: there is no gradient for it
        before = [grey.detach() for grey in _greys(clean, "clean", differentiable)]
    count = sum(len(grey) for grey in after)
    own = len(before) if isinstance(before, CleanStatistics) else sum(map(len, before))
    if own not in (1, count):
        raise UsageError(
            f"clean holds {own} pictures and corrupted {count}:"
            " give as many of each, or one clean picture for all."
        )
    if not isinstance(corrupted, list | tuple):
        if isinstance(before, CleanStatistics):
            one: CleanStatistics | Tensor = before
        else:
            for grey in before:
                check_pair(grey, after[0], how)
            one = torch.cat(before)
        return _in_kind(_compare(one, after[0], how, kept), corrupted)
    return _in_kind(_compare_each(before, after, how, kept), corrupted)


def _compare(
    before: CleanStatistics | Tensor, after: Tensor, how: Definition, dtype: torch.dtype
) -> Change:
    """Compare grey pictures of one size."""
    check_pair(before, after, how)
    if how.pixel:
        assert isinstance(before, Tensor)
        value, information = pixel_fidelity(before, after, how)
        measurable = information >= INFORMATION_FLOOR
        scales, ill_conditioned = PIXEL_SCALES, torch.zeros_like(measurable)
    else:
        if isinstance(before, Tensor):
            before = describe_clean(before, how, dtype)
        value, information = fidelity(before, after), before.information
        measurable, ill_conditioned = before.measurable, before.ill_conditioned
        scales = len(before.scales)
    count = len(value)
    lost = torch.where(measurable, (1 - value).clamp_min(0), torch.nan)
    numbers = torch.full((count,), scales, device=value.device)
    return Change(
        value,
        lost,
        information.expand(count),
        numbers,
        measurable.expand(count),
        ill_conditioned.expand(count),
    )


def _compare_each(
    before: CleanStatistics | list[Tensor], after: list[Tensor], how: Definition, dtype: torch.dtype
) -> Change:
    """Compare the pictures of a list, those of one size together."""
    if isinstance(before, CleanStatistics):
        for grey in after:
            check_pair(before, grey, how)
        return _compare(before, torch.cat(after), how, dtype)
    before = [grey[None] for each in before for grey in each]
    before = before if len(before) > 1 else before * len(after)
    places: dict[tuple[Any, ...], list[int]] = {}
    for place, (one, two) in enumerate(zip(before, after, strict=True)):
        check_pair(one, two, how)
        places.setdefault((one.shape, one.device), []).append(place)
    changes = [
        _compare(
            torch.cat([before[place] for place in group]),
            torch.cat([after[place] for place in group]),
            how,
            dtype,
        )
        for group in places.values()
    ]
    order = np.argsort([place for group in places.values() for place in group])
    return Change(
        *(
            torch.cat([getattr(change, each.name).cpu() for change in changes])[order]
            for each in fields(Change)
        )
    )


def _greys(images: Any, role: str, differentiable: bool) -> list[Tensor]:
    """Return one batch of grey pictures (B, H, W), or one batch for each picture of a list."""
    differentiable = as_flag(differentiable, "differentiable")
    if isinstance(images, list | tuple):
        if not images:
            raise UsageError(f"{role} is empty: give at least one picture.")
        if differentiable:
            raise UsageError("A list has no gradient: stack the pictures to one tensor.")
        greys = [_greys(image, role, differentiable) for image in images]
        if any(len(grey) != 1 or len(grey[0]) != 1 for grey in greys):
            raise UsageError(f"{role} is a list, so it must hold single pictures, not batches.")
        return [grey[0] for grey in greys]
    batch = _batch(images, role)
    if not differentiable:
        return [to_grey(batch)]
    if not isinstance(images, Tensor) or not images.dtype.is_floating_point:
        raise UsageError(f"differentiable needs float tensors in 0…1: convert {role} first.")
    return [to_grey_with_gradient(images.reshape(batch.shape))]


def _batch(images: Any, role: str) -> Tensor:
    """Return the pictures as one batch; what cannot be used is refused by its role."""
    if isinstance(images, CleanStatistics):
        raise UsageError("Clean statistics come first: vif(statistics, corrupted).")
    try:
        return to_batch(images)[0]
    except UsageError as error:
        sentence = str(error)
        if sentence.startswith("images "):
            raise UsageError(role + sentence.removeprefix("images")) from None
        raise UsageError(f"{role}: {sentence}") from None


def check_pair(before: CleanStatistics | Tensor, after: Tensor, how: Definition) -> None:
    """Raise a UsageError unless grey pictures (B, H, W) can be compared."""
    size = tuple(after.shape[1:])
    if isinstance(before, Tensor):
        own, device = tuple(before.shape[1:]), before.device
    else:
        own, device = (before.height, before.width), before.total.device
    if own != size:
        raise UsageError(
            f"Pictures must have the same size: clean is {own[1]} × {own[0]} px (width × height),"
            f" corrupted {size[1]} × {size[0]}; crop or resize one of them."
        )
    if device != after.device:
        raise UsageError(f"clean is on {device} and corrupted on {after.device}: move one of them.")
    _check_size(after, how)


def _check_size(images: Tensor, how: Definition) -> None:
    height, width = images.shape[-2:]
    smallest = SMALLEST_PIXEL_SIDE if how.pixel else SMALLEST_SIDE
    if min(height, width) < smallest:
        raise UsageError(
            f"VIF (definition '{how.name}') needs pictures of at least {smallest} px on each side,"
            f" got {width} × {height} (width × height): enlarge both first."
        )


def _of_definition(statistics: CleanStatistics, how: Definition) -> CleanStatistics:
    own = statistics.definition
    if own != how:
        raise UsageError(
            f"The clean statistics are of definition '{own.name}', not '{how.name}':"
            f" give definition='{own.name}'."
        )
    return statistics


def find_definition(name: str) -> Definition:
    """Return the definition of VIF of that name."""
    if not isinstance(name, str):
        raise UsageError(f"definition must be a name such as 'vcr', got {brief(name)}.")
    return DEFINITIONS[name]


def find_dtype(dtype: str | torch.dtype) -> torch.dtype:
    """Return the floating-point type of that name."""
    if isinstance(dtype, str | type | torch.dtype | np.dtype):
        name = getattr(dtype, "__name__", str(dtype)).removeprefix("torch.")
        if name in DTYPES:
            return DTYPES[name]
        if len(name) <= 60:
            raise UsageError(f"dtype must be float32 or float64, got {name}.")
    raise UsageError(f"dtype must be float32 or float64, got {brief(dtype)}.")


def _in_kind(change: Change, corrupted: Any) -> Change:
    if isinstance(corrupted, Tensor):
        return change
    return Change(*(getattr(change, each.name).cpu().numpy() for each in fields(Change)))


def _plain(values: Any, corrupted: Any) -> Any:
    """Return all values, or the only one if a single picture was given."""
    if isinstance(corrupted, list | tuple):
        return values
    if isinstance(corrupted, Tensor):
        return values if corrupted.ndim == 4 else values[0]
    if isinstance(corrupted, np.ndarray) and corrupted.ndim == 4:
        return values
    return float(values[0])


def _warn(measurable: Any) -> None:
    lacking = len(measurable) - int(measurable.sum())
    if lacking:
        warnings.warn(
            "A clean picture that is nearly constant, or a pure grating, has nothing to lose:"
            f" Δv is NaN for {lacking} of {len(measurable)}.",
            LowInformationWarning,
            stacklevel=3,
        )
