"""Working on parts of a batch at the same time, on as many cores as torch may use."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import TypeVar

import torch

Part = TypeVar("Part")


def on_all_cores(work: Callable[[Part], None], parts: Sequence[Part]) -> None:
    """Call `work` on every part, on up to `torch.get_num_threads()` threads.

    Threads suffice: torch, NumPy, OpenCV and Pillow let go of the interpreter while they compute.
    """
    threads = min(torch.get_num_threads(), len(parts))
    if threads <= 1:
        for part in parts:
            work(part)
        return
    for _ in _pool(torch.get_num_threads(), os.getpid()).map(work, parts):
        pass


@lru_cache(maxsize=2)
def _pool(threads: int, process: int) -> ThreadPoolExecutor:
    """A pool of this process (a forked child must not use its parent's)."""
    pool = ThreadPoolExecutor(threads, "eyechart", initializer=torch.set_num_threads, initargs=(1,))
    # one call per thread, so that all have started and set their own number of threads to one
    list(pool.map(lambda _: None, range(threads)))
    # torch keeps the last number set as the default of threads to come: put it back
    torch.set_num_threads(threads)
    return pool
