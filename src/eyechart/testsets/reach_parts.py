"""Δv that the candidates of uniform sampling can reach, measured at once or by several shards.

Targets are balanced over all candidates, so a shard can search strengths only once the candidates
of all shards are measured. Shards leave their measurements in part files for each other.
"""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch

from eyechart.core.arrays import FloatArray
from eyechart.core.progress import Advance
from eyechart.core.storage.parts import ROW, Parts
from eyechart.core.storage.shards import Shard
from eyechart.images.imageset import ImageSet
from eyechart.testsets.plan import Plan
from eyechart.testsets.samples import Samples, severities_of
from eyechart.testsets.stimuli import iterate_clean_images, samples_of
from eyechart.testsets.uniform import measure_ends

REACH = "reach"
"""Folder for the measurements of candidates, below the folder of a test set's part files."""


def samples_in(shard: Shard, images: ImageSet, samples: Samples) -> Samples:
    """Return the samples whose images belong to a shard, by their digests."""
    # Per image rather than per sample, because samples repeat images many times.
    is_in = np.array([shard.has(digest) for digest in images.digests], dtype=np.bool_)
    return samples.take(np.flatnonzero(is_in[samples.image]))


def measure_reach(
    images: ImageSet,
    pools: Sequence[Samples],
    plan: Plan,
    device: torch.device,
    folder: Path,
    *,
    step: Advance,
    shard: Shard | None = None,
) -> dict[str, FloatArray] | None:
    """Return Δv (severities × samples) of every candidate in the pools.

    Args:
        images: All images.
        pools: The candidates of each corruption.
        plan: The plan of the test set.
        device: Where images are corrupted.
        folder: Folder of the test set's part files.
        step: Called for every candidate.
        shard: Measure only the candidates of a shard, and keep them in part files.

    Returns:
        Δv by corruption; None if other shards have not measured all of their candidates.
    """
    if not pools:
        return {}
    delta_v = {pool.name: _known(pool, folder / REACH) for pool in pools}
    # Missing values are infinite: Δv is NaN where it is undefined.
    pending = [pool.take(np.flatnonzero(np.isinf(delta_v[pool.name][0]))) for pool in pools]
    step(sum(map(len, pools)) - sum(map(len, pending)), "")
    parts = None
    if shard is not None:
        pending = [samples_in(shard, images, pool) for pool in pending]
        (folder / REACH).mkdir(exist_ok=True)
        parts = Parts(folder / REACH, writer=shard.number)
    first = {pool.name: pool.row[0] for pool in pools}
    left = [pool for pool in pending if len(pool)]
    for clean_images in iterate_clean_images(images, left, plan, device) if left else ():
        for samples, _ in samples_of(left, clean_images.places):
            reached = measure_ends(images, clean_images, samples, plan)
            delta_v[samples.name][:, samples.row - first[samples.name]] = reached
            if parts is not None:
                columns = {str(level): values for level, values in enumerate(reached)}
                parts.write(samples.name, pa.table({ROW: samples.row, **columns}))
            step(len(samples), "")
    if shard is not None:
        # Other shards may have finished meanwhile.
        delta_v = {pool.name: _known(pool, folder / REACH) for pool in pools}
    return None if any(np.isinf(values[0]).any() for values in delta_v.values()) else delta_v


def _known(pool: Samples, folder: Path) -> FloatArray:
    """Return the Δv of a pool's candidates that are in part files, infinite for the others."""
    assert pool.entry is not None
    delta_v = np.full((len(severities_of(pool.entry)), len(pool)), np.inf)
    parts = Parts(folder, [pool.name])
    if parts.names():
        table = parts.read(pool.name)
        places = table[ROW].to_numpy() - pool.row[0]
        for level, values in enumerate(delta_v):
            values[places] = table[str(level)].to_numpy()
    return delta_v


def remove_reach(folder: Path) -> None:
    """Remove the measurements of candidates."""
    parts = Parts(folder / REACH)
    for name in parts.names():
        parts.drop(name)
    with suppress(OSError):  # it does not exist, or contains other files
        (folder / REACH).rmdir()
