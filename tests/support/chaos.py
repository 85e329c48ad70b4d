"""Kill a random process of a run at random moments, and start the run again until it ends."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

LONGEST_SILENCE = 60.0
"""Seconds without a new part file after which a run counts as hanging."""

ENDS = ("died on the same samples", "end before they are ready")
"""Parts of the sentences with which a run ends after several kills in a row."""

WORKER_NAMES = ("spawn_main", "ray::_Actor")
"""What the command line of a worker process contains."""


def comparable(folder: Path) -> str:
    """The text of results.json without the block that depends on machine and moment."""
    results = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    del results["run"]
    return json.dumps(results, indent=1)


def command(*options: str, name: str = "evaluate") -> list[str]:
    return [sys.executable, "-W", "ignore", "-m", "eyechart", name, *options]


def children_of(process: int) -> list[int]:
    """All processes that descend from this one, from /proc."""
    parents = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                stat = (folder / "stat").read_text(encoding="utf-8", errors="replace")
            except OSError:
                continue
            # after the name, which may contain spaces: state, then the parent
            parents[int(folder.name)] = int(stat.rpartition(")")[2].split()[1])
    found = [process]
    for parent in found:
        found += [child for child, its_parent in parents.items() if its_parent == parent]
    return found[1:]


def workers_of(process: int) -> list[int]:
    found = []
    for child in children_of(process):
        try:
            line = (Path("/proc") / str(child) / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if any(name in line for name in WORKER_NAMES):
            found.append(child)
    return found


class Chaos:
    """Runs commands to their end, all at once, whatever is killed meanwhile.

    Args:
        commands: One command, whose workers are other processes, or one per shard. The same
            command resumes what was killed.
        out: The run folder, whose part files show that there is progress.
        n_kills: How many processes to kill.
        seed: Of the moments and victims.
        mean_seconds: Mean time between two kills.
        env: Environment variables.
    """

    def __init__(self, commands, out: Path, n_kills: int, seed: int, mean_seconds: float, env):
        self.commands, self.out, self.n_left = commands, out, n_kills
        self.random, self.mean_seconds = random.Random(seed), mean_seconds
        self.env, self.killed = env, Counter()
        self.begun: dict[int, float] = {}
        self.heard, self.n_heard, self.longest_silence = time.monotonic(), 0, 0.0

    @property
    def are_shards(self) -> bool:
        return len(self.commands) > 1

    def run(self, max_seconds: float = 1700) -> None:
        """Start, kill and resume until all commands have succeeded."""
        end = time.monotonic() + max_seconds
        running = {place: self._start(place) for place in range(len(self.commands))}
        next_kill, n_at_kill = None, self._n_parts()
        while running:
            time.sleep(0.05)
            assert time.monotonic() < end, f"not done within {max_seconds} s: {self.killed}"
            for place, driver in list(running.items()):
                if driver.poll() is not None:
                    del running[place]
                    if not self._has_succeeded(place, driver):
                        running[place] = self._start(place)
            n_parts, busy = self._n_parts(), self._busy(running)
            self._listen(n_parts, busy)
            # moments count from the next part file on, so that they fall into the predictions
            if n_parts == n_at_kill or not busy or not self.n_left:
                continue
            if next_kill is None:
                next_kill = time.monotonic() + self.random.expovariate(1 / self.mean_seconds)
            if time.monotonic() >= next_kill:
                next_kill, n_at_kill = None, n_parts
                self._kill(running[self.random.choice(busy)])

    def _start(self, place: int) -> subprocess.Popen:
        with self._output(place).open("wb") as file:
            driver = subprocess.Popen(
                self.commands[place], env=self.env, stdout=file, stderr=subprocess.STDOUT
            )
        self.begun[place] = time.time()
        return driver

    def _output(self, place: int) -> Path:
        return self.out.with_name(f"{self.out.name}-{place}.txt")

    def _has_succeeded(self, place: int, driver: subprocess.Popen) -> bool:
        if driver.returncode in (0, -signal.SIGKILL):
            return driver.returncode == 0
        output = self._output(place).read_text(encoding="utf-8", errors="replace")
        # kills on the same batch, or of workers that start, end a run; it is resumed
        assert any(sentence in output for sentence in ENDS), output
        return False

    def _busy(self, running) -> list[int]:
        """The commands that compute predictions now, and neither start nor score."""
        if not self.are_shards:
            return [place for place, driver in running.items() if workers_of(driver.pid)]
        folders = {place: f"{place + 1}-of-{len(self.commands)}" for place in running}
        return [
            place
            for place, folder in folders.items()
            # a process begins a session when its start is over, and keeps its file up to date
            for path in (self.out / "shards" / folder / "sessions").glob("*.json")
            if path.stat().st_mtime > self.begun[place]
        ]

    def _listen(self, n_parts: int, busy) -> None:
        """Measure how long no part file has come while there are processes that write them."""
        if n_parts != self.n_heard or not busy:
            self.heard, self.n_heard = time.monotonic(), n_parts
        self.longest_silence = max(self.longest_silence, time.monotonic() - self.heard)
        assert self.longest_silence < LONGEST_SILENCE, f"hangs: {self.killed}"

    def _kill(self, driver: subprocess.Popen) -> None:
        workers = workers_of(driver.pid)
        is_driver = not workers or self.random.random() < 0.25
        try:
            os.kill(driver.pid if is_driver else self.random.choice(workers), signal.SIGKILL)
        except ProcessLookupError:
            return
        kind = "driver" if is_driver else "worker"
        self.killed["shard" if self.are_shards else kind] += 1
        self.n_left -= 1
        if is_driver:
            driver.wait()
            assert_gone(workers)

    def _n_parts(self) -> int:
        return len(list(self.out.rglob("predictions/*--*.parquet")))

    def n_twice(self, log: Path) -> int:
        """How many batches were computed again, by the lines that `logged_colors` wrote."""
        batches = [line.split()[1] for line in log.read_text(encoding="utf-8").splitlines()]
        return len(batches) - len(set(batches))


def assert_gone(processes, seconds: float = 20) -> None:
    """Workers must not outlive their driver."""
    end = time.monotonic() + seconds
    while any(Path(f"/proc/{process}/cmdline").exists() and is_running(process)
              for process in processes):  # fmt: skip
        assert time.monotonic() < end, "workers outlive their driver"
        time.sleep(0.1)


def is_running(process: int) -> bool:
    try:
        stat = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"
