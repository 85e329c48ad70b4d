"""Rows with all that is needed to make their pictures; files are read ahead of who needs them."""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from eyechart.images.imageset import ImageSet
from eyechart.testsets.drawing import Plan, each_chunk
from eyechart.testsets.draws import Draws
from eyechart.testsets.making import Chunk, rows_of

AHEAD = {"cpu": 64, "cuda": 1024}
"""How many files are read at a time, while those before are worked on."""


@dataclass(frozen=True, eq=False)
class Work:
    """Rows of one corruption and one chunk, and their pictures where these come from files.

    `unreadable`: rows whose files could not be read, which are not among `draws`, and `why`.
    """

    chunk: Chunk
    draws: Draws
    read: Tensor | None
    unreadable: Draws
    why: tuple[str, ...] = ()


def each_work(
    images: ImageSet, groups: Sequence[Draws], plan: Plan, device: torch.device
) -> Iterator[Work]:
    """Yield the rows of all groups, chunk by chunk and corruption by corruption."""
    if images.files is None:
        for chunk in each_chunk(images, groups, plan, device):
            for draws, _ in rows_of(groups, chunk.places):
                yield _as_it_is(chunk, draws)
        return
    with ThreadPoolExecutor(1, "eyechart-files") as reader:
        coming: Future[Work] | None = None
        for chunk in each_chunk(images, groups, plan, device):
            for draws, _ in rows_of(groups, chunk.places):
                for part in _pieces(draws, AHEAD.get(device.type, AHEAD["cpu"])):
                    ready, coming = coming, reader.submit(_read, images, chunk, part)
                    if ready is not None:
                        yield ready.result()
        if coming is not None:
            yield coming.result()


def _pieces(draws: Draws, most: int) -> Iterator[Draws]:
    """Yield the rows in as few parts of nearly equal size as can be."""
    for places in np.array_split(np.arange(len(draws)), -(-len(draws) // most)):
        yield draws.take(places)


def _as_it_is(chunk: Chunk, draws: Draws) -> Work:
    return Work(chunk, draws, None, draws.take(np.empty(0, dtype=np.int64)))


def _read(images: ImageSet, chunk: Chunk, draws: Draws) -> Work:
    if draws.entry is None:
        return _as_it_is(chunk, draws)
    assert images.files is not None
    found = images.files.read(
        draws.entry.name, draws.severity.astype(np.int64).tolist(), draws.image.tolist()
    )
    good, bad = np.flatnonzero(found.good), np.flatnonzero(~found.good)
    pictures = found.pictures if chunk.device.type == "cpu" else found.pictures.pin_memory()
    return Work(chunk, draws.take(good), pictures, draws.take(bad), found.why)
