"""How often each picture is drawn: classes equally, and within a class every picture equally."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from eyechart.core.randomness import hash64

Counts = NDArray[np.int64]


def allocate(digests: Sequence[str], classes: Sequence[str | None], n: int, seed: int) -> Counts:
    """Return how many of n draws each picture gets.

    Classes differ by at most one draw, and so do the pictures of a class. Who gets the odd one
    depends on the seed and the picture's digest, not on the order of the pictures.
    """
    order = [hash64(seed, "share", digest) for digest in digests]
    members: dict[str | None, list[int]] = {}
    for place, name in enumerate(classes):
        members.setdefault(name, []).append(place)
    counts = np.zeros(len(digests), dtype=np.int64)
    names = sorted(members, key=lambda name: hash64(seed, "class", str(name)))
    for share, name in zip(_split(n, len(names)), names, strict=True):
        own = sorted(members[name], key=lambda place: order[place])
        counts[own] = _split(share, len(own))
    return counts


def _split(total: int, parts: int) -> list[int]:
    """Return whole numbers that add up to `total` and differ by at most one, larger ones first."""
    return [total // parts + (part < total % parts) for part in range(parts)]
