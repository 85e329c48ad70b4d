"""Shards: the parts of a task that several processes or machines compute, as in `--shard 2/7`."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from eyechart.core.errors import UsageError

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

    def has_index(self, index: int) -> bool:
        """Return whether the item at this position of a fixed list belongs to this shard."""
        return index % self.count == self.number - 1


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
