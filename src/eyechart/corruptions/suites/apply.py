"""`corrupt`: apply a corruption by name to images of any supported type; the type is kept."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from eyechart.core.arguments import short_repr
from eyechart.core.errors import UsageError
from eyechart.core.parallel import on_all_cores
from eyechart.core.randomness import ImageRandom, hash64
from eyechart.corruptions.declaration import Assets, Values
from eyechart.corruptions.kernels.arithmetic import JUST_BELOW, to_bytes, to_levels, to_unit
from eyechart.corruptions.suites.assets import assets_of
from eyechart.corruptions.suites.strength import (
    DEFAULT_SEVERITY,
    Strengths,
    check_severity,
    resolve,
)
from eyechart.corruptions.suites.suite import DRAWN, Entry, find_variant
from eyechart.images.identity import content_keys, named_keys
from eyechart.images.image_types import Batch, each_size, to_batch

Numbers = ArrayLike | Tensor
"""One number for all images, or one number per image."""

MIN_VALUES = 100_000
"""Minimum number of values for which a separate thread pays off."""

EIGHT_BIT = {"truncate": JUST_BELOW, "round": 0.5}
"""Amount that is added to a gray level before its fractional part is cut off."""

# a color image of 2048 × 2048 px
LARGEST_SHARED = 3 << 22
"""Images with more values than this are processed one at a time, to limit memory use."""

CHUNK_VALUES = {"cpu": 4 * 3 * 224 * 224, "cuda": 256 * 3 * 224 * 224}
"""Number of values processed at once, chosen to fit a CPU's cache or to fill a GPU."""


def corrupt(
    images: Any,
    name: str | None = None,
    *positional: object,
    severity: Numbers | None = None,
    seed: int = 0,
    keys: Sequence[str | int] | None = None,
    draw: int = 0,
    variant: str | None = None,
    frost_textures: str | None = None,
    corruption_name: str | None = None,
    **parameters: Numbers,
) -> Any:
    """Corrupt images; the result has the type, dtype and shape of the input.

    Random numbers depend only on `seed`, the image's key, the corruption and `draw`, so that the
    same image gets the same pixels in any batch and on any device.

    Args:
        images: torch (B, C, H, W) or (C, H, W), NumPy (B, H, W, C), (H, W, C) or (H, W), PIL (RGB
            or L), or a list of single images; uint8, or float in [0, 1].
        name: the corruption, such as "fog" or "vcr/frost"; `list_corruptions()` returns all names.
        *positional: not supported; give the strength by keyword.
        severity: a real number in [0, 5], or one per image; 0 returns the clean image.
        seed: the random seed.
        keys: one name or integer per image that identifies it; by default a hash of its pixels.
        draw: the index of the random version, for several random versions of the same image.
        variant: a variant of the corruption, such as "paper".
        frost_textures: a folder with textures for frost, instead of the generated ones.
        corruption_name: same as `name`, for code written for imagecorruptions; the severity is then
            1 by default.
        **parameters: parameters of the corruption, each one number or one per image, instead of or
            in addition to the severity; all others have their value at severity 3, or are drawn.

    Returns:
        The corrupted images, in the type, dtype and shape of `images`.

    Raises:
        UsageError: the images, the name or a strength is invalid.

    Example:
        >>> import numpy as np
        >>> import eyechart as ec
        >>> images = np.full((2, 32, 32, 3), 128, dtype=np.uint8)
        >>> noisy = ec.corrupt(images, "gaussian_noise", severity=3, seed=1)
        >>> noisy.shape, noisy.dtype
        ((2, 32, 32, 3), dtype('uint8'))
        >>> lighter = ec.corrupt(images, "brightness", amount=0.25)
        >>> int(lighter[0, 0, 0, 0])
        191
    """
    if positional:
        raise UsageError('Give the strength by keyword: corrupt(images, "fog", severity=3).')
    if name is not None and corruption_name is not None:
        raise UsageError("Give name or corruption_name, not both: they mean the same.")
    if corruption_name is not None:
        name = corruption_name
        # the default of imagecorruptions.corrupt
        severity = 1 if severity is None and not parameters else severity
    if name is None:
        raise UsageError("Give the name of a corruption; list_corruptions() returns all of them.")
    if not isinstance(name, str):
        raise UsageError(f"The corruption's name must be a string, got {short_repr(name)}.")
    entry = find_variant(name, variant)
    _check_whole("seed", seed)
    _check_whole("draw", draw)
    assets = assets_of(entry, frost_textures)
    if not isinstance(images, (list, tuple)):
        batch, restore = to_batch(images)
        image_keys = _keys(batch, keys, entry)
        random = draw_random(entry, image_keys, seed, int(draw), batch.device)
        strengths = _strengths(entry, severity, parameters, batch.shape[0])
        return restore(corrupt_batch(batch, entry, strengths, random, assets))
    if not images:
        raise UsageError("images is empty: give at least one image.")
    if keys is not None:
        # only for its checks: each group of one size hashes the keys of its own images below
        named_keys(keys, len(images))
    strengths = _strengths(entry, severity, parameters, len(images))
    # images of a list may differ in size: images of equal size are corrupted together
    results: list[object] = [None] * len(images)
    for indices, batch, restores in each_size(images):
        some_keys = None if keys is None else [keys[index] for index in indices]
        random = draw_random(entry, _keys(batch, some_keys, entry), seed, int(draw), batch.device)
        corrupted = corrupt_batch(batch, entry, strengths.select(indices), random, assets)
        for index, restore, one in zip(indices, restores, corrupted, strict=True):
            results[index] = restore(one[None])
    return results


def _check_whole(name: str, value: object) -> None:
    """Raise an error unless the value is an int; 1.0 would give different random numbers."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool):
        raise UsageError(f"{name} must be a whole number, got {short_repr(value)}.")
    if abs(int(value)) >> 63:
        raise UsageError(f"{name} must be a whole number below 2⁶³, got {short_repr(value)}.")


def corrupt_batch(
    batch: Batch, entry: Entry, strengths: Strengths, random: ImageRandom, assets: Assets
) -> Batch:
    """Return the corrupted batch in the same dtype.

    Floats are clipped to [0, 1]; uint8 values are truncated or rounded as the entry declares.
    `random`: the random numbers for the images in the batch, from `draw_random`.
    """
    values = resolve(entry, *strengths, min(batch.shape[-2:]), random)
    result = torch.empty_like(batch)
    # on a CPU, a blur need not be more exact than its rounding
    is_rounded = batch.dtype == torch.uint8 and batch.device.type == "cpu"
    rounding = partial(_eight_bit, mode=entry.eight_bit) if is_rounded else None

    def work(part: tuple[int, int]) -> None:
        start, stop = part
        some_values = {name: value[start:stop] for name, value in values.items()}
        clean = _as_needed(batch[start:stop].contiguous(), entry.corruption.takes)
        changed = entry.corruption(clean, random.part(start, stop), some_values, assets, rounding)
        _store(changed, entry.eight_bit, result[start:stop])

    # each image has separate random numbers, so the split does not change any pixel
    parts = _parts(batch)
    if batch.device.type == "cpu" and batch[0].numel() <= LARGEST_SHARED:
        on_all_cores(work, parts)
    else:
        for part in parts:
            work(part)
    # severity 0 is exactly the clean image, even if parameters round to other values
    untouched = (strengths.severity == 0) & (not strengths.parameters)
    if not untouched.any():
        return result
    same = torch.from_numpy(untouched).to(batch.device).reshape(-1, 1, 1, 1)
    return torch.where(same, batch, result)


def draw_random(
    entry: Entry, keys: Tensor, seed: int, draw: int | Sequence[int], device: torch.device
) -> ImageRandom:
    """Return the random numbers of an entry for images with these keys.

    `draw`: the index of the random version, one for all images or one per image.
    """
    # severity is not part of the salt: random numbers are the same at every strength
    draws = [draw] * len(keys) if isinstance(draw, int) else draw
    # hashed once per draw, not once per image
    salts = {draw: hash64(int(seed), entry.name, int(draw)) for draw in set(draws)}
    return ImageRandom(keys, [salts[draw] for draw in draws], device)


def choose_entries(count: int, keys: Tensor, seed: int, draw: int) -> NDArray[np.int64]:
    """Return for each image the index of one of `count` entries, all equally likely."""
    salt = hash64(seed, "which corruption", draw)
    chance = ImageRandom(keys, [salt] * len(keys), keys.device).scalar("which")
    # the minimum guards against rounding up at the upper end of the range
    return np.minimum((chance * count).astype(np.int64), count - 1)


def _parts(batch: Batch) -> list[tuple[int, int]]:
    """Return the ranges of the batch that are processed together."""
    count, size = batch.shape[0], batch[0].numel()
    # at least one image, even if it is large
    chunk = max(1, CHUNK_VALUES.get(batch.device.type, CHUNK_VALUES["cpu"]) // size)
    if batch.device.type == "cpu":
        # share the images between threads, unless starting a thread costs more than its work
        share = max(-(-count // torch.get_num_threads()), -(-MIN_VALUES // size))
        chunk = min(chunk, share)
    return [(start, min(start + chunk, count)) for start in range(0, count, chunk)]


def _as_needed(images: Tensor, takes: str) -> Tensor:
    """Return the images as uint8 gray levels, as float32 in [0, 1], or unchanged."""
    if images.dtype == torch.uint8:
        return to_unit(images) if takes == "unit" else images
    return to_levels(images).to(torch.uint8) if takes == "levels" else images


def _store(images: Tensor, eight_bit: str, target: Tensor) -> None:
    """Store images in `target`; floats are clipped, or rounded to 8 bits as the entry declares."""
    if images.dtype == torch.uint8:
        target.copy_(images if target.dtype == torch.uint8 else to_unit(images))
    elif target.dtype != torch.uint8:
        target.copy_(images.clamp(0, 1))
    else:
        to_bytes(images, EIGHT_BIT[eight_bit], target)


def _eight_bit(images: Tensor, mode: str) -> Tensor:
    """Return float images as uint8 gray levels, truncated or rounded by the entry's `mode`."""
    levels = torch.empty(images.shape, dtype=torch.uint8, device=images.device)
    to_bytes(images, EIGHT_BIT[mode], levels)
    return levels


def _keys(batch: Batch, keys: Sequence[str | int] | None, entry: Entry) -> Tensor:
    # without any randomness the keys do not matter, and hashing pixels is not free
    if keys is None and not entry.corruption.random and DRAWN not in entry.path.values():
        return torch.zeros(batch.shape[0], dtype=torch.int64)
    return image_keys(batch, keys)


def image_keys(batch: Batch, keys: Sequence[str | int] | None = None) -> Tensor:
    """Return (B,) int64 keys: hashes of the names in `keys`, or of the pixels if it is None."""
    if keys is not None:
        return named_keys(keys, batch.shape[0])
    # keys come from 8-bit levels, so that float and uint8 images get the same noise
    levels = batch if batch.dtype == torch.uint8 else to_levels(batch).to(torch.uint8)
    return content_keys(levels)


def _strengths(
    entry: Entry, severity: Numbers | None, parameters: dict[str, Numbers], count: int
) -> Strengths:
    """Return severities and parameters with one value per image."""
    values = {}
    for name, value in parameters.items():
        entry.corruption.parameter(name)
        values[name] = _per_image(name, value, count)
    if severity is None and not values:
        raise UsageError(
            "Give a strength: severity (0 to 5) or parameters of the corruption, "
            + ", ".join(parameter.name for parameter in entry.corruption.parameters)
            + "."
        )
    severities = _per_image("severity", DEFAULT_SEVERITY if severity is None else severity, count)
    check_severity(severities)
    return Strengths(severities, values)


def _per_image(name: str, value: Numbers, count: int) -> Values:
    try:
        if isinstance(value, Tensor):
            # these tensors have no values that NumPy could read
            if value.device.type == "meta" or value.layout != torch.strided:
                raise TypeError
            value = value.detach().cpu().numpy()
        values = np.asarray(value)
        if values.dtype.kind not in "iuf":
            raise TypeError
        values = values.astype(np.float64)
    except (TypeError, ValueError):
        raise UsageError(f"{name} must be a number, got {short_repr(value)}.") from None
    if values.ndim > 1 or (values.ndim == 1 and len(values) != count):
        raise UsageError(
            f"{name} must be one number or one per image ({count}), got shape {values.shape}."
        )
    # a copy, because broadcast arrays are read-only
    return np.broadcast_to(values, (count,)).copy()
