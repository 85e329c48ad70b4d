"""A queue of jobs shared by several processes.

Each job writes one file, so that work can be stopped, resumed and shared by starting the same
command twice. Each study defines what its jobs do.
"""

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from eyechart.core.storage.locks import try_lock
from eyechart.core.storage.shards import Shard

POLL_SECONDS = 0.5
"""Time between two attempts to claim jobs that other processes have locked."""

Job = TypeVar("Job")


def work_off(
    jobs: Iterable[Job],
    path_of: Callable[[Job], Path],
    work: Callable[[Job], None],
    shard: Shard | None = None,
) -> None:
    """Call `work` on every job that no other process has locked; return when all jobs are done.

    Jobs that another process has claimed are tried again later. Their files may exist by then, so
    `work` must accept a job that is already done. With a shard, only its jobs are done, and without
    locks, which some file systems of clusters do not have.

    Args:
        jobs: the jobs, in the order in which they are tried.
        path_of: returns the file that a job writes; its folder is created.
        work: performs a job, or the remaining part of it.
        shard: the part of the jobs to do, by their positions.
    """
    if shard is not None:
        for job in jobs_of(jobs, shard):
            path_of(job).parent.mkdir(parents=True, exist_ok=True)
            work(job)
        return
    waiting = list(jobs)
    while waiting:
        waiting = [job for job in waiting if not _was_free(job, path_of(job), work)]
        if waiting:
            time.sleep(POLL_SECONDS)


def jobs_of(jobs: Iterable[Job], shard: Shard) -> list[Job]:
    """Return the jobs of a shard, which are given by their positions in the list.

    Example:
        >>> jobs_of("abcde", Shard(2, 3))
        ['b', 'e']
    """
    return [job for index, job in enumerate(jobs) if shard.has_index(index)]


def _was_free(job: Job, path: Path, work: Callable[[Job], None]) -> bool:
    path.parent.mkdir(parents=True, exist_ok=True)
    with try_lock(path) as is_free:
        if is_free:
            # the lock is held until the file is written, so that no other process begins the same
            # job
            work(job)
    return is_free
