"""Compare the total work of a run in shards, one after the other, with that of one process."""

import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from eyechart.core.storage.shards import shards_of


@dataclass(frozen=True)
class ShardsCost:
    """CPU seconds of one process, of each shard, and of the merge that scores them."""

    unsplit: float
    shards: tuple[float, ...]
    merge: float

    @property
    def ratio(self) -> float:
        """CPU time of all shards and the merge, relative to one process."""
        return (sum(self.shards) + self.merge) / self.unsplit

    @property
    def repeated(self) -> float:
        """CPU seconds that are spent in addition: imports, loading and checking in each process."""
        return sum(self.shards) + self.merge - self.unsplit

    def seconds_for(self, ratio: float) -> float:
        """Return the CPU seconds of one process from which on the ratio is at most this one.

        What is repeated does not depend on the number of samples.
        """
        return self.repeated / (ratio - 1)


def measure_shards(n_shards: int, options: Sequence[str]) -> ShardsCost:
    """Run `eyechart evaluate` once unsplit and once in shards, each in a process of its own.

    CPU time is compared, because wall time depends on what else the machine does.
    """
    with tempfile.TemporaryDirectory(prefix="eyechart-") as folder:
        whole, split = str(Path(folder) / "whole"), str(Path(folder) / "split")
        unsplit = _cpu_seconds("evaluate", *options, "--out", whole)
        shards = tuple(
            _cpu_seconds("evaluate", *options, "--out", split, "--shard", str(shard))
            for shard in shards_of(n_shards)
        )
        return ShardsCost(unsplit, shards, _cpu_seconds("merge", split))


def _cpu_seconds(*arguments: str) -> float:
    """Run a command of eyechart; return the CPU time of its process and of its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "eyechart", *arguments], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
