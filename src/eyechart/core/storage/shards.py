"""Shards: the parts of a task that several processes or machines compute, as in `--shard 2/7`.

Every shard writes a record next to its work, by which a merge finds missing, double and foreign
shards. Without shards, processes that run the same command share its jobs by locks.
"""

import os
import re
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from eyechart.core.errors import UsageError
from eyechart.core.storage.files import write_text
from eyechart.core.storage.locks import try_lock
from eyechart.core.storage.run_folder import Settings, first_change, read_settings, settings_text

_SLURM = ("SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_COUNT")
"""Variables of a task of a Slurm array job: its number, the lowest number, the number of tasks."""

MAX_SHARDS = 100_000

_FORM = re.compile(r"(\d{1,6})/(\d{1,6})")


@dataclass(frozen=True)
class Shard:
    """One of `count` shards; `number` is 1 for the first and `count` for the last."""

    number: int
    count: int

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    @property
    def folder(self) -> str:
        """Name of the folder of this shard, such as "2-of-7"."""
        return f"{self.number}-of-{self.count}"

    def has(self, digest: str) -> bool:
        """Return whether the item with this hexadecimal digest belongs to this shard.

        Every item belongs to one shard, whatever the order and the number of the other items.

        Example:
            >>> [str(Shard(number, 3)) for number in (1, 2, 3) if Shard(number, 3).has("ff")]
            ['1/3']
        """
        return int(digest, 16) % self.count == self.number - 1


def read_shard(text: str, environment: Mapping[str, str] = os.environ) -> Shard:
    """Return the shard that a text such as "2/7" names.

    In a Slurm array job, "$SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT" names a shard whether the
    array begins at 0 or at 1.

    Raises:
        UsageError: If the text does not name a shard.

    Example:
        >>> read_shard("2/7")
        Shard(number=2, count=7)
    """
    match = _FORM.fullmatch(text)
    number, count = (int(match[1]), int(match[2])) if match else (0, 0)
    task, first, tasks = (environment.get(name, "") for name in _SLURM)
    if match and first.isdigit() and (match[1], match[2]) == (task, tasks):
        number += 1 - int(first)
    if not 1 <= number <= count <= MAX_SHARDS:
        raise UsageError(
            "shard must be NUMBER/COUNT, with NUMBER from 1 to COUNT, such as 2/7 (in a Slurm array"
            f" job: of an array without gaps, such as --array=1-7), got {text!r}."
        )
    return Shard(number, count)


def shards_of(count: int) -> list[Shard]:
    """Return all shards of a task that is split into `count` shards."""
    return [Shard(number, count) for number in range(1, count + 1)]


_NAME = re.compile(r"([1-9]\d*)-of-([1-9]\d*)\.json")
SHARDS = ".shards"
"""Folder for records in folders that otherwise contain results only."""


def write_shard_record(
    folder: Path, shard: Shard, identity: Settings, counts: Mapping[str, int]
) -> None:
    """Record that a shard is finished.

    Args:
        folder: the folder for the records, which is created.
        shard: the finished shard.
        identity: everything that all shards of a task have in common, as plain JSON values.
        counts: numbers of items that the shard has, by noun.

    Raises:
        UsageError: the record cannot be written.
    """
    record = {"identity": identity, "counts": counts}
    write_text(folder / f"{shard.folder}.json", settings_text(record))


def read_shard_records(folder: Path) -> tuple[Settings, dict[Shard, Mapping[str, int]]]:
    """Return what the shards of a folder have in common, and the counts of each.

    Raises:
        UsageError: a shard is missing, there are two splits, or a record is from another task.
    """
    shards: dict[Shard, Path] = {}
    for path in sorted(folder.glob("*-of-*")):
        match = _NAME.fullmatch(path.name)
        if match is None or int(match[1]) > int(match[2]):
            raise UsageError(
                f"{path} is not the record of a shard, such as 2-of-7.json: delete it if it is a"
                " copy, or move it elsewhere."
            )
        shards[Shard(int(match[1]), int(match[2]))] = path
    if not shards:
        raise UsageError(f"{folder} has no finished shards: run the command with --shard first.")
    counts = sorted({shard.count for shard in shards})
    if len(counts) > 1:
        first = next(path for shard, path in shards.items() if shard.count == counts[0])
        raise UsageError(
            f"{folder} has shards of a split into {counts[0]} and of a split into {counts[1]}, such"
            f" as {first.name}: delete the records of one split."
        )
    for shard in shards_of(counts[0]):
        if shard not in shards:
            raise missing_shard(folder, shard)
    records = {shard: read_settings(shards[shard]) for shard in shards_of(counts[0])}
    identity = _part(records[Shard(1, counts[0])], "identity")
    for shard, record in records.items():
        change = first_change(identity, _part(record, "identity"))
        if change is not None:
            raise UsageError(
                f"{shards[shard]} is from another task than {shards[Shard(1, counts[0])].name}"
                f" ({change}): run the command again with --shard for the wrong one of them."
            )
    return identity, {shard: _part(record, "counts") for shard, record in records.items()}


def missing_shard(folder: Path, shard: Shard) -> UsageError:
    """Return the error for a shard that has not finished."""
    return UsageError(
        f"Shard {shard} of {folder} is missing or not finished: run the same command with --shard"
        f" {shard}."
    )


def remove_shard_records(folder: Path) -> None:
    """Remove the records of all shards, and their folder if it is then empty."""
    for path in folder.glob("*-of-*.json"):
        if _NAME.fullmatch(path.name):
            path.unlink(missing_ok=True)
    with suppress(OSError):  # it contains other files, or does not exist
        folder.rmdir()


def _part(record: Settings, name: str) -> dict[str, int]:
    part = record.get(name)
    return part if isinstance(part, dict) else {}


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
    waiting = jobs_of(jobs, shard)
    while waiting:
        locked = []
        for job in waiting:
            path = path_of(job)
            path.parent.mkdir(parents=True, exist_ok=True)
            # the lock is held until the file is written, so that no other process begins the job
            with nullcontext(True) if shard else try_lock(path) as is_free:
                if is_free:
                    work(job)
                else:
                    locked.append(job)
        waiting = locked
        if waiting:
            time.sleep(POLL_SECONDS)


def jobs_of(jobs: Iterable[Job], shard: Shard | None) -> list[Job]:
    """Return the jobs of a shard, which are given by their positions; all jobs without a shard.

    Example:
        >>> jobs_of("abcde", Shard(2, 3))
        ['b', 'e']
    """
    first, step = (0, 1) if shard is None else (shard.number - 1, shard.count)
    return list(jobs)[first::step]
