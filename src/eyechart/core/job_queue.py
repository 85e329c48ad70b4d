"""A queue of jobs shared by several processes.

Each job writes one file, so that work can be stopped, resumed and shared by starting the same
command twice. Each study defines what its jobs do.
"""

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from eyechart.core.locks import try_lock

POLL_SECONDS = 0.5
"""Time between two attempts to claim jobs that other processes have locked."""

Job = TypeVar("Job")


def work_off(
    jobs: Iterable[Job], path_of: Callable[[Job], Path], work: Callable[[Job], None]
) -> None:
    """Call `work` on every job that no other process has locked; return when all jobs are done.

    Jobs that another process has claimed are tried again later. Their files may exist by then, so
    `work` must accept a job that is already done.

    Args:
        jobs: the jobs, in the order in which they are tried.
        path_of: returns the file that a job writes; its folder is created.
        work: performs a job, or the remaining part of it.
    """
    waiting = list(jobs)
    while waiting:
        waiting = [job for job in waiting if not _was_free(job, path_of(job), work)]
        if waiting:
            time.sleep(POLL_SECONDS)


def _was_free(job: Job, path: Path, work: Callable[[Job], None]) -> bool:
    path.parent.mkdir(parents=True, exist_ok=True)
    with try_lock(path) as is_free:
        if is_free:
            # the lock is held until the file is written, so that no other process begins the same
            # job
            work(job)
    return is_free
