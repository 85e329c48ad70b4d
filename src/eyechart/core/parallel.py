"""Working on parts of a batch at the same time, on as many cores as torch may use."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from threading import Barrier
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
    pool = ThreadPoolExecutor(threads, "eyechart", initializer=_use_one_thread)
    # all threads must have started before torch's own number is put back
    together = Barrier(threads)
    list(pool.map(lambda _: together.wait(), range(threads)))
    torch.set_num_threads(threads)
    return pool


def _use_one_thread() -> None:
    """Let torch compute with one thread in this thread, now and later.

    torch takes a thread's number over from the whole process when the thread first computes
    something large enough to share out, so that has to happen here.
    """
    torch.set_num_threads(1)
    torch.ones(1 << 17).exp_()
