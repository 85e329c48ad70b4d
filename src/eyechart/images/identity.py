"""Image identity: 64-bit keys from a name, a file's bytes, or the pixels themselves."""

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from eyechart.core.arguments import regular_file, short_repr
from eyechart.core.devices import has_triton
from eyechart.core.errors import UsageError
from eyechart.core.phrases import count_of
from eyechart.core.randomness import hash64, philox4x32


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file's bytes in hexadecimal, which identifies an image file."""
    with regular_file(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def pixel_digest(image: Image.Image) -> str:
    r"""Return the SHA-256 that identifies an image without a file.

    It is the digest of the image as a binary PPM file (PGM if it is gray), so the same pixels have
    the same digest in every array, dataset, and folder of such files.

    Example:
        >>> pixel_digest(Image.new("RGB", (1, 1))) == hashlib.sha256(
        ...     b"P6\n1 1\n255\n" + bytes(3)
        ... ).hexdigest()
        True
    """
    # Deep images are stored as their values, in the machine's order of bytes.
    kind, white = {"RGB": ("P6", "255"), "L": ("P5", "255")}.get(image.mode, ("P5", image.mode))
    header = f"{kind}\n{image.width} {image.height}\n{white}\n"
    return hashlib.sha256(header.encode() + image.tobytes()).hexdigest()


def named_keys(keys: Sequence[str | int], count: int) -> Tensor:
    """Return (count,) int64 keys hashed from user-supplied image names."""
    if isinstance(keys, str) or not isinstance(keys, Sequence | np.ndarray):
        raise UsageError(
            f"keys must be a list with one name for each image, got {short_repr(keys)}."
        )
    if len(keys) != count:
        given = f"{count_of(len(keys), 'key')} for {count_of(count, 'image')}"
        raise UsageError(f"keys must name every image, got {given}.")
    hashed = np.array([hash64("image", key) for key in keys], dtype=np.uint64)
    return torch.from_numpy(hashed.view(np.int64))


def content_keys(levels: Tensor) -> Tensor:
    """Return (B,) int64 keys of unnamed uint8 images (B, …): the hashes of their pixels.

    An image gets the same key in any batch, at any position and on any device. Each group of eight
    bytes is mixed with a constant that depends on its position, and the results are summed, so the
    order of summation does not matter. Two different images collide with a probability of about
    2⁻⁶⁴.
    """
    flat = levels.reshape(levels.shape[0], -1)
    # int64 arithmetic wraps around modulo 2⁶⁴ on every device, so the sum is exact and order-free.
    # In pieces, so that a large image needs little memory.
    starts = range(0, flat.shape[1], 8 * LANES)
    sums = [_mixed_sum(flat[:, start : start + 8 * LANES], start // 8) for start in starts]
    # The shape is part of the key: the same bytes may be an image of another height and width.
    # Halved, because hash64 is unsigned and the sum is a signed 64-bit number.
    total = torch.stack(sums).sum(dim=0) + (hash64("shape", *levels.shape[1:]) >> 1)
    total = (total ^ (total >> 31)) * MIX[1]
    return total ^ ((total >> 29) & 0x7FFFFFFFF)  # >> is arithmetic: mask the copied sign bits


def _mixed_sum(flat: Tensor, first: int) -> Tensor:
    """Return the sum (B,) of mixed groups of eight bytes; `first` is the position of the first."""
    # Zeros fill up the last group of eight bytes; the shape in the key tells them from pixels.
    if flat.shape[1] % 8:
        flat = torch.nn.functional.pad(flat, (0, -flat.shape[1] % 8))
    # The copy guarantees the 8-byte alignment that viewing bytes as int64 requires.
    lanes = flat.clone(memory_format=torch.contiguous_format).view(torch.int64)
    secrets = _secrets(first, lanes.shape[1], flat.device)
    if has_triton(lanes.device):
        from eyechart.images.identity_triton import mix_in_triton

        return mix_in_triton(lanes, secrets, MIX)
    mixed = torch.bitwise_xor(lanes, secrets).mul_(MIX[0])
    mixed.bitwise_xor_(mixed >> 29).mul_(MIX[1])
    mixed.bitwise_xor_(mixed >> 32)
    return mixed.sum(dim=1)


LANES = 1 << 20
"""Number of groups of eight bytes that are hashed at once."""

MIX = (0x1E3779B97F4A7C15, 0x3F58476D1CE4E5B9)
"""Multipliers below 2⁶³, which are odd so that multiplication modulo 2⁶⁴ is invertible."""


@lru_cache(maxsize=16)
def _secrets(first: int, count: int, device: torch.device) -> Tensor:
    """Return `count` pseudorandom 64-bit numbers of a fixed sequence, from `first` on."""
    position = torch.arange(first, first + count, device=device)
    zero = torch.zeros(1, dtype=torch.int64, device=device)
    # Counter-based, so the sequence is the same on every device.
    high, low, _, _ = philox4x32((position, zero, zero, zero), (zero, zero))
    return (high << 32) | low
