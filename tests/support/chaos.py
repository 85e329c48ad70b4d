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


def comparable(folder: Path) -> dict:
    """The results of a run without what depends on machine and moment."""
    results = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    results.pop("run", None)
    for name in ("made", "command", "device"):
        results.get("provenance", {}).pop(name, None)
    return results


def command(*options: str) -> list[str]:
    return [sys.executable, "-W", "ignore", "-m", "eyechart", "evaluate", *options]


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
    """Runs a command to its end, whatever is killed meanwhile.

    Args:
        arguments: The command; the same one resumes the run.
        out: The run folder, whose part files show that there is progress.
        n_kills: How many processes to kill.
        seed: Of the moments and victims.
        mean_seconds: Mean time between two kills.
        env: Environment variables.
    """

    def __init__(self, arguments, out: Path, n_kills: int, seed: int, mean_seconds: float, env):
        self.arguments, self.out, self.n_left = arguments, out, n_kills
        self.random, self.mean_seconds = random.Random(seed), mean_seconds
        self.env, self.killed, self.drivers = env, Counter(), []

    def run(self, max_seconds: float = 900) -> None:
        """Start, kill and resume until the command succeeds."""
        end = time.monotonic() + max_seconds
        while True:
            assert time.monotonic() < end, f"not done within {max_seconds} s: {self.killed}"
            driver = subprocess.Popen(
                self.arguments, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
            )
            self.drivers.append(driver.pid)
            if self._disturb(driver):
                continue
            output = driver.communicate(timeout=LONGEST_SILENCE)[0].decode()
            if driver.returncode == 0:
                return
            # kills on the same batch, or of workers that start, end a run; it is resumed
            assert any(sentence in output for sentence in ENDS), output

    def _disturb(self, driver: subprocess.Popen) -> bool:
        """Kill processes of the run until it ends; return whether it was the driver."""
        next_kill, killed_at = None, self._parts()
        before, since = killed_at, time.monotonic()
        while driver.poll() is None:
            time.sleep(0.05)
            workers = workers_of(driver.pid)
            parts = self._parts()
            if parts != before or not workers:
                before, since = parts, time.monotonic()
            assert time.monotonic() - since < LONGEST_SILENCE, f"hangs: {self.killed}"
            # moments count from the next part file on, so that they fall into the predictions
            if parts == killed_at or not workers or not self.n_left:
                continue
            if next_kill is None:
                next_kill = time.monotonic() + self.random.expovariate(1 / self.mean_seconds)
            if time.monotonic() < next_kill:
                continue
            next_kill, killed_at, self.n_left = None, parts, self.n_left - 1
            is_driver = self.random.random() < 0.25
            self.killed["driver" if is_driver else "worker"] += 1
            victim = driver.pid if is_driver else self.random.choice(workers)
            try:
                os.kill(victim, signal.SIGKILL)
            except ProcessLookupError:
                self.n_left += 1
            if is_driver:
                driver.communicate()
                assert_gone(workers)
                return True
        return False

    def _parts(self) -> int:
        return len(list(self.out.glob("predictions/*--*.parquet")))

    def n_twice(self, log: Path) -> int:
        """How many batches were computed again, by the lines that `logged_colors` wrote."""
        lines = [line.split() for line in log.read_text(encoding="utf-8").splitlines()]
        counts = Counter(b for process, b in lines if int(process) not in self.drivers)
        return sum(counts.values()) - len(counts)


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
