"""Compare the speed and memory of the working tree with another commit's, in one session.

Both take turns, each in processes of its own, which run `against_side.py` with its code.
`benchmarks/against.py REV` is `python -m benchmarks against REV`.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from math import comb
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import IO, Any

import numpy as np

from eyechart.core.errors import UsageError

ROOT = Path(__file__).parent.parent
PEAK, MEAN = "peak memory", "geometric mean"

SECONDS, CPU_SECONDS, MEBIBYTES = "s", "CPU s", "MiB"
"""Units: run time, time of all cores together, and memory."""

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Commit:
    """Another commit: the folder where it is checked out, and its short name."""

    tree: Path
    name: str


@dataclass(frozen=True)
class Ratio:
    """One quantity of both sides: in each round the working tree's and the other commit's value."""

    part: str
    task: str
    unit: str
    rounds: tuple[tuple[float, float], ...]

    @property
    def ratios(self) -> list[float]:
        """The working tree's value divided by the other's, by round."""
        return [ours / theirs for ours, theirs in self.rounds]


@dataclass(frozen=True)
class Compared:
    """All ratios to a commit, and a sentence for each part that failed on either side."""

    commit: str
    ratios: tuple[Ratio, ...]
    failures: tuple[str, ...]


@dataclass(frozen=True)
class Interval:
    """Limits for a median; `level` is the probability that it lies between them."""

    low: float
    high: float
    level: float


def median_interval(values: Sequence[float]) -> Interval:
    """Return the two values closest to the median that have it between them with 95 % confidence.

    No distribution is assumed. With fewer than six values, these are the smallest and the largest
    one, and the level is lower.
    """
    ordered, count = sorted(values), len(values)
    # P(at most k of the values are below the true median) + P(at most k are above), k = 0, 1, …
    outside = np.cumsum([comb(count, k) for k in range(count)]) * 2.0 ** (1 - count)
    cut = max(int(np.sum(outside <= 1 - CONFIDENCE)) - 1, 0)
    return Interval(ordered[cut], ordered[-1 - cut], 1 - float(outside[cut]))


@contextmanager
def checked_out(revision: str) -> Iterator[Commit]:
    """Check out a commit into a temporary worktree of git.

    Raises:
        UsageError: If the repository does not have this commit.
    """
    name = ["rev-parse", "--verify", "--quiet", "--short", "--end-of-options"]
    found = _git(*name, f"{revision}^{{commit}}")
    short = found.stdout.strip()
    if found.returncode:
        raise UsageError(f"REV must be a commit of the git repository {ROOT}, got '{revision}'.")
    with TemporaryDirectory(prefix="eyechart-against-") as folder:
        tree = Path(folder) / "tree"
        added = _git("worktree", "add", "--detach", "--quiet", str(tree), short)
        if added.returncode:
            raise UsageError(f"git cannot check out {short}: {added.stderr.strip()}.")
        try:
            yield Commit(tree, short)
        finally:
            _git("worktree", "remove", "--force", str(tree))


def _git(*words: str) -> "subprocess.CompletedProcess[str]":
    try:
        return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True)
    except FileNotFoundError as error:
        raise UsageError("git must be installed to check out another commit.") from error


def compare_parts(
    parts: Sequence[str],
    commit: Commit,
    n_rounds: int,
    options: Sequence[str],
    advance: Callable[[], None] = lambda: None,
) -> Compared:
    """Measure parts of `against_side.py` with the code of the working tree and of a commit.

    Args:
        parts: names of the parts.
        commit: the commit to compare with.
        n_rounds: number of rounds; in each, every part has a fresh process per side.
        options: further arguments of `against_side.py`.
        advance: called after each round of a part.
    """
    ratios: list[Ratio] = []
    failures: list[str] = []
    sides = (("the working tree", ROOT), (commit.name, commit.tree))
    for _, tree in sides:
        # A fresh checkout has no bytecode.
        subprocess.run([sys.executable, "-m", "compileall", "-q", str(tree / "src")], check=True)
    with TemporaryDirectory(prefix="eyechart-against-") as folder:
        for part in parts:
            commands = [
                Command(part, title, tree, (str(Path(folder) / f"{part}-{place}"), *options))
                for place, (title, tree) in enumerate(sides)
            ]
            try:
                ratios += _compare_part(part, commands, n_rounds, advance)
            except SideFailed as failure:
                failures.append(str(failure))
    return Compared(commit.name, tuple(ratios), tuple(failures))


@dataclass(frozen=True)
class Command:
    """What one side runs: a part, its tree and what this is called, and further arguments."""

    part: str
    title: str
    tree: Path
    options: tuple[str, ...]


class SideFailed(Exception):
    """One side of a comparison ended with an error."""


@dataclass(frozen=True)
class Side:
    """A process that measures the tasks of a part with the code of one source tree."""

    command: Command
    process: "subprocess.Popen[str]"
    errors: IO[str]

    def tasks(self) -> list[str]:
        """Wait until everything is prepared, and return the names of the tasks."""
        ready = self._reply()
        # Otherwise an installed eyechart could be measured without a word.
        if not Path(ready["package"]).is_relative_to(self.command.tree):
            raise SideFailed(f"{ready['package']} was imported, not {self.command.tree}.")
        return list(ready["tasks"])

    def ask(self, task: str) -> dict[str, float]:
        """Return what a task took, by unit, or the process's peak memory so far."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{task}\n")
        self.process.stdin.flush()
        return dict(self._reply())

    def _reply(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if line:
            return dict(json.loads(line))
        self.errors.seek(0)
        last = (self.errors.read().strip().splitlines() or ["no message"])[-1]
        raise SideFailed(f"{self.command.part} failed in {self.command.title}: {last}")


@contextmanager
def _started(command: Command) -> Iterator[Side]:
    # The same order of sets in every process
    env = os.environ | {"PYTHONPATH": str(command.tree / "src"), "PYTHONHASHSEED": "0"}
    words = [sys.executable, "-m", "benchmarks.against_side", command.part, *command.options]
    with (
        TemporaryFile("w+", encoding="utf-8", errors="replace") as errors,
        subprocess.Popen(
            words, cwd=ROOT, env=env, text=True, encoding="utf-8",
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
        ) as process,
    ):  # fmt: skip
        try:
            yield Side(command, process, errors)
        finally:
            process.kill()


def _compare_part(
    part: str, commands: Sequence[Command], n_rounds: int, advance: Callable[[], None]
) -> list[Ratio]:
    rounds: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for number in range(n_rounds):
        with ExitStack() as stack:
            sides = [stack.enter_context(_started(command)) for command in commands]
            ours, theirs = (side.tasks() for side in sides)
            # What only one of them has cannot be compared.
            for task in (*(task for task in ours if task in theirs), PEAK):
                # The first one may find colder caches, or a cooler processor.
                order = (0, 1) if number % 2 == 0 else (1, 0)
                asked = {place: sides[place].ask(task) for place in order}
                for unit, value in asked[0].items():
                    rounds.setdefault((task, unit), []).append((value, asked[1][unit]))
        advance()
    ratios = [Ratio(part, task, unit, tuple(pairs)) for (task, unit), pairs in rounds.items()]
    return [*_geometric_means(ratios), *ratios] if part == "corruptions" else ratios


def _geometric_means(ratios: Sequence[Ratio]) -> Iterator[Ratio]:
    for unit in (SECONDS, CPU_SECONDS):
        logs = np.log([each.rounds for each in ratios if each.unit == unit])
        means = tuple((float(a), float(b)) for a, b in np.exp(logs.mean(axis=0)))
        yield Ratio(ratios[0].part, MEAN, unit, means)


def table(compared: Compared) -> Iterator[str]:
    """Yield a table of medians, of ratios with their intervals, and of ratios of CPU time."""
    cpu = {(each.part, each.task): each for each in compared.ratios if each.unit == CPU_SECONDS}
    level = max((median_interval(each.ratios).level for each in compared.ratios), default=0)
    title = f"{level:.1%} interval" if level else ""
    yield f"{'':34}{'working tree':>14}{compared.commit:>14}{'ratio':>8}{title:>18}{'CPU time':>10}"
    part = ""
    for each in compared.ratios:
        if each.unit == CPU_SECONDS:
            continue
        if each.part != part:
            part = each.part
            yield part
        ours, theirs = (_amount(value, each.unit) for value in np.median(each.rounds, axis=0))
        interval = median_interval(each.ratios)
        spread = f"{interval.low:.3f} to {interval.high:.3f}" if level else ""
        beside = cpu.get((each.part, each.task))
        last = "" if beside is None else f"{np.median(beside.ratios):.3f}"
        yield (
            f"  {each.task:32}{ours:>14}{theirs:>14}{np.median(each.ratios):>8.3f}"
            f"{spread:>18}{last:>10}"
        )


def _amount(value: float, unit: str) -> str:
    if unit == MEBIBYTES:
        return f"{value:,.0f} MiB"
    return f"{value * 1e3:,.1f} ms" if value < 1 else f"{value:,.2f} s"


def figures(compared: Compared) -> dict[str, Any]:
    """Return all measurements as values for a JSON file."""
    ratios = [
        {
            **asdict(each),
            "ratio": float(np.median(each.ratios)),
            "interval": asdict(median_interval(each.ratios)),
        }
        for each in compared.ratios
    ]
    return {"commit": compared.commit, "ratios": ratios, "failures": compared.failures}


if __name__ == "__main__":
    # Run as a file, Python looks for packages in its folder, not in the repository.
    places = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    words = [sys.executable, "-m", "benchmarks", "against", *sys.argv[1:]]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(places)}
    sys.exit(subprocess.run(words, env=env).returncode)
