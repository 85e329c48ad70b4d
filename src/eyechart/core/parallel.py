"""Work on parts in parallel: the threads, and the libraries that must not start more of them."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from threading import Barrier
from typing import TypeVar

import torch
from threadpoolctl import threadpool_limits

Part = TypeVar("Part")
Result = TypeVar("Result")


def n_cores() -> int:
    """Return the number of CPU cores that this process may use."""
    # only Linux tells which cores a process may use
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def on_all_cores(
    work: Callable[[Part], None], parts: Sequence[Part], *, one_thread_each: bool = False
) -> None:
    """Call `work` on every part, on up to `torch.get_num_threads()` threads.

    Threads suffice: torch, NumPy, OpenCV and Pillow release the GIL while they compute.

    Args:
        work: What to do with a part.
        parts: The parts.
        one_thread_each: Whether a single part is also computed on one thread, so that its last
            bits, which depend on the number of torch's threads, do not depend on other parts.
    """
    # small torch operations do not parallelize well, whole images do
    threads = min(torch.get_num_threads(), len(parts))
    is_single = threads <= 1 and not (one_thread_each and torch.get_num_threads() > 1)
    if is_single or not parts:
        for part in parts:
            work(part)
        return
    # always the full pool, regardless of the number of parts, so that threads are started once;
    # consuming the results raises the first error of a part
    for _ in _pool(torch.get_num_threads(), os.getpid()).map(work, parts):
        pass


def map_on_threads(
    work: Callable[[Part], Result], parts: Sequence[Part], n_threads: int
) -> Iterator[Result]:
    """Start `work` on every part at once, and return the results in the order of the parts."""
    return _pool(n_threads, os.getpid()).map(work, parts)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Let matrix products of NumPy and SciPy use one thread, and restore the setting afterwards.

    By default, each of our threads would start as many threads as there are cores, which then wait
    for each other. With one thread, sums are also rounded the same on any number of cores.
    """
    with threadpool_limits(limits=1, user_api="blas"):
        yield


@lru_cache(maxsize=2)
def _pool(threads: int, process: int) -> ThreadPoolExecutor:
    """Return the thread pool of this process (a forked child must not use its parent's pool)."""
    before = torch.get_num_threads()
    pool = ThreadPoolExecutor(threads, "eyechart", initializer=_use_one_thread)
    # all threads must have started, with one torch thread each, before the number is restored
    together = Barrier(threads)
    try:
        list(pool.map(lambda _: together.wait(), range(threads)))
    except BaseException:
        # without memory for another thread, those that have started would wait for it at exit
        together.abort()
        raise
    torch.set_num_threads(before)
    return pool


def _use_one_thread() -> None:
    """Limit torch to one thread within the calling thread, permanently.

    A thread inherits the process's number of threads when it first runs an operation large enough
    to be parallelized, so such an operation is run here.
    """
    torch.set_num_threads(1)
    # torch uses threads for more than 32,768 elements
    torch.ones(1 << 17).exp_()
