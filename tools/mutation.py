"""Measure which share of 400 small changes of the code the tests notice: `make mutation`.

    .venv/bin/python tools/mutation.py [--n 400] [--seed 0] [--workers 2] [--tree FOLDER]

1. The tests run once, which records the lines that each of them runs (test_lines.py).
2. Mutants are drawn (mutants.py). Each runs tests until one fails: those that run the changed
   statement, then others in their files (fixtures and caches run code for the first test only),
   then others of the module, each the quickest first. A mutant that no test notices survives; one
   that takes far more time than the tests did counts as killed.
3. The killed share is printed by package. Survivors are in survivors.txt.

Everything is kept in build/mutation/NAME, where NAME depends on the code and the tests: a second
start continues where the first one was stopped. --tree measures another checkout. Needs the extra
`coverage`, and Linux.
"""

import argparse
import compileall
import contextlib
import difflib
import hashlib
import importlib
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate, zip_longest
from pathlib import Path

from coverage import CoverageData
from mutants import Mutant, draw_mutants, find_places

HERE = Path(__file__).parent
ROOT = HERE.parent
BUILD = ROOT / "build" / "mutation"
SOURCE = Path("src/eyechart")

PACKAGES = ("scores", "stats", "corruptions", "testsets", "results")
"""Packages that are changed, each in the same number of places."""

TESTS = (
    "tests/cli", "tests/corruptions", "tests/gates", "tests/humans", "tests/integrations",
    "tests/overlap", "tests/pipeline", "tests/predictions", "tests/reports", "tests/results",
    "tests/rulers", "tests/scores", "tests/stats", "tests/structure", "tests/testsets",
)  # fmt: skip
"""Tests that run: those of the packages, and of packages that build on them."""

PRELOADED = (
    "torch", "torch.nn.functional", "numpy", "scipy.stats", "scipy.optimize", "scipy.interpolate",
    "scipy.special", "scipy.sparse", "scipy.ndimage", "cv2", "PIL.Image", "pyarrow.parquet",
    "pyarrow.csv", "pydantic", "yaml", "typer", "rich.console", "rich.table", "networkx",
    "skimage.metrics", "pytest",
)  # fmt: skip
"""Packages that are imported once, before a process is forked for each mutant."""

LEFT_OUT = (".*", "__pycache__", "build", "site", "dist", "node_modules", "static")

SECONDS = (10.0, 5.0, 5.0)
"""How long tests may take, as recorded: those that run the statement, others in their files, and
others that run the module."""

MAX_SECONDS = 900.0
"""Run time after which a mutant has stopped whatever else the machine does."""

LEAST_CPU_SECONDS = 60.0
"""Seconds of CPU time that every mutant has besides three times those of its tests as recorded."""

MEMORY = 8 << 30
KILLED, SURVIVED, UNCOVERED = "killed", "survived", "not covered"

COVERAGE_SETTINGS = """\
[run]
parallel = true
data_file = {data}
source_pkgs = {packages}
patch = subprocess
disable_warnings = no-data-collected, module-not-imported, module-not-measured, couldnt-parse
"""


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant.

    Attributes:
        mutant: its name.
        package: the package that was changed.
        change: the changed lines, as in a diff.
        outcome: killed, survived or not covered.
        by: the first test that failed, or why a mutant is killed without one.
        n_tests: number of tests that were chosen.
        seconds: run time.
    """

    mutant: str
    package: str
    change: str
    outcome: str
    by: str
    n_tests: int
    seconds: float


def main() -> None:
    """Measure, continuing an earlier run of the same code, and print the killed shares."""
    parser = argparse.ArgumentParser(description="Measure which share of mutants the tests kill.")
    parser.add_argument("--n", type=int, default=400, help="number of mutants")
    parser.add_argument("--seed", type=int, default=0, help="which mutants are drawn")
    parser.add_argument("--workers", type=int, default=2, help="number of processes")
    parser.add_argument("--tree", type=Path, default=ROOT, help="checkout to measure")
    parser.add_argument("--build", type=Path, default=BUILD, help="folder for all files")
    asked = parser.parse_args()
    tree = asked.tree.resolve()
    folder = asked.build.resolve() / _digest(tree)
    trees = [folder / f"tree-{number}" for number in range(asked.workers)]
    record = record_lines(tree, folder, asked.workers)
    for copied in trees[1:]:
        if not copied.exists():
            shutil.copytree(trees[0], copied)
    places = {name: find_places(tree / SOURCE / name, asked.seed) for name in PACKAGES}
    by_package: list[list[Mutant]] = []
    for place, found in enumerate(places.values()):
        count = (place + 1) * asked.n // len(places) - place * asked.n // len(places)
        by_package.append(draw_mutants(tree, found, count))
    # in turn, so that a run that is stopped has mutants of all packages
    drawn = [mutant for turn in zip_longest(*by_package) for mutant in turn if mutant is not None]
    path = folder / f"outcomes-{asked.seed}.jsonl"
    done = {each.mutant: each for each in read_outcomes(path)}
    with path.open("a", encoding="utf-8") as file:
        left = [mutant for mutant in drawn if mutant.name not in done]
        for number, outcome in enumerate(run_mutants(left, trees, record)):
            done[outcome.mutant] = outcome
            file.write(json.dumps(asdict(outcome)) + "\n")
            file.flush()
            print(f"{number + 1}/{len(left)} {outcome.outcome}: {outcome.mutant}", flush=True)
    outcomes = [done[mutant.name] for mutant in drawn]
    survivors = folder / "survivors.txt"
    survivors.write_text("\n".join(_survivors(outcomes)), encoding="utf-8")
    print("\n".join(table(outcomes, {name: len(found) for name, found in places.items()})))
    print(f"Survivors: {survivors}")


def _digest(tree: Path) -> str:
    """Return a name of the code and the tests in a tree."""
    files = [path for top in ("src", "tests") for path in sorted((tree / top).rglob("*.py"))]
    total = hashlib.sha256()
    for path in files:
        total.update(path.relative_to(tree).as_posix().encode() + path.read_bytes())
    return total.hexdigest()[:12]


@dataclass(frozen=True)
class LineRecord:
    """Which tests run which lines of a tree, and their seconds; only tests that passed."""

    tree: Path
    data: CoverageData
    durations: Mapping[str, float]

    def tests(self, mutant: Mutant) -> tuple[bool, list[str]]:
        """Return whether the changed statement runs at all, and the tests to run, in their order.

        A statement that only runs during imports has no tests of its own.
        """
        by_line = self.data.contexts_by_lineno(str(self.tree / mutant.path))
        first, last = mutant.lines
        here = {test for line in range(first, last + 1) for test in by_line.get(line, ())}
        files = {_file(test) for test in here}
        beside = {test for test in self.durations if _file(test) in files}
        module = {test for tests in by_line.values() for test in tests}
        groups = (here, beside - here, module - here - beside)
        mirrored = f"tests/{_package(mutant)}/"
        chosen: list[str] = []
        for tests, limit in zip(groups, SECONDS, strict=True):
            chosen += self._quickest(tests, mirrored, limit)
        return bool(here), chosen

    def _quickest(self, tests: set[str], first: str, limit: float) -> list[str]:
        """Return tests that take at most this long, but one in any case; a folder's come first."""
        known = sorted(
            (test for test in tests if test in self.durations),
            key=lambda test: (not test.startswith(first), self.durations[test], test),
        )
        ends = accumulate(self.durations[test] for test in known)
        return known[: max(1, sum(end <= limit for end in ends))]


def _file(test: str) -> str:
    return test.partition("::")[0]


def _package(mutant: Mutant) -> str:
    return Path(mutant.path).relative_to(SOURCE).parts[0]


def record_lines(tree: Path, folder: Path, workers: int) -> LineRecord:
    """Run the tests in a copy of the tree, unless that is done; return what they run."""
    copied, durations, data = (folder / name for name in ("tree-0", "durations.json", "lines"))
    if not data.exists():
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(tree, copied, symlinks=True, ignore=shutil.ignore_patterns(*LEFT_OUT))
        settings = folder / "coverage.ini"
        names = ", ".join(f"eyechart.{package}" for package in PACKAGES)
        settings.write_text(COVERAGE_SETTINGS.format(data=data, packages=names), encoding="utf-8")
        coverage = [sys.executable, "-m", "coverage"]
        command = [*coverage, "run", f"--rcfile={settings}", "-m", "pytest", "-q", "-n",
                   str(workers), "-p", "test_lines", "-p", "no:cacheprovider", "--timeout=900",
                   *(test for test in TESTS if (tree / test).exists())]  # fmt: skip
        env = _environment(copied) | {"TEST_DURATIONS": str(durations)}
        env["PYTHONPATH"] += os.pathsep + str(HERE)
        # Some tests may fail: only those that pass are chosen for mutants.
        if subprocess.run(command, cwd=copied, env=env).returncode not in (0, 1):
            sys.exit("The tests could not be run.")
        compileall.compile_dir(copied / "src", quiet=1)
        combine = ["combine", "-q", f"--rcfile={settings}", str(folder)]
        subprocess.run([*coverage, *combine], cwd=copied, check=True)
    lines = CoverageData(str(data))
    lines.read()
    return LineRecord(copied, lines, json.loads(durations.read_text(encoding="utf-8")))


def _environment(tree: Path) -> dict[str, str]:
    changed = {"PYTHONPATH": str(tree / "src"), "OMP_NUM_THREADS": "1"}
    return os.environ | changed


def read_outcomes(path: Path) -> list[Outcome]:
    """Return what an earlier run has written, except a line that it was stopped in."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").split("\n")
    path.write_text("".join(f"{line}\n" for line in lines[:-1]), encoding="utf-8")
    return [Outcome(**json.loads(line)) for line in lines[:-1]]


@dataclass
class Running:
    """A mutant whose tests run in a process, with its own copy of the tree."""

    mutant: Mutant
    tests: list[str]
    tree: Path
    process: int
    start: float
    by_file: bool = False


def run_mutants(
    mutants: Sequence[Mutant], trees: Sequence[Path], record: LineRecord
) -> Iterator[Outcome]:
    """Yield the outcome of each mutant, as they finish; one at a time runs in each tree."""
    os.environ |= _environment(trees[0])
    for name in PRELOADED:
        importlib.import_module(name)
    waiting = list(mutants)[::-1]
    running: dict[Path, Running] = {}
    try:
        while waiting or running:
            for tree in trees:
                if tree not in running and waiting:
                    mutant = waiting.pop()
                    is_covered, tests = record.tests(mutant)
                    if is_covered and tests:
                        running[tree] = _start(mutant, tests, tree, record)
                    else:
                        yield _outcome(mutant, UNCOVERED, "", 0, 0)
            for tree, one in list(running.items()):
                outcome = _finished(one, record)
                if isinstance(outcome, Running):
                    running[tree] = outcome
                elif outcome is not None:
                    del running[tree]
                    yield outcome
            time.sleep(0.05)
    finally:
        for one in running.values():
            _end(one)


def _start(
    mutant: Mutant, tests: list[str], tree: Path, record: LineRecord, by_file: bool = False
) -> Running:
    target = tree / mutant.path
    (tree / "original.py").write_bytes(target.read_bytes())
    shutil.copystat(target, tree / "original.py")
    target.write_text(mutant.code, encoding="utf-8")
    expected = sum(record.durations[test] for test in tests)
    process = os.fork()
    if process == 0:
        _run_tests(tree, tests, by_file, LEAST_CPU_SECONDS + 3 * expected)
    return Running(mutant, tests, tree, process, time.monotonic(), by_file)


def _run_tests(tree: Path, tests: list[str], by_file: bool, cpu_seconds: float) -> None:
    """In a forked process: run pytest, and end with its status."""
    status = 70
    try:
        os.setsid()
        log = os.open(tree / "log.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for stream in (1, 2):
            os.dup2(log, stream)
        os.environ |= _environment(tree)
        os.chdir(tree)
        sys.path[:0] = [str(tree / "src")]
        # Otherwise the bytecode of a mutant could be taken for that of the next one.
        sys.dont_write_bytecode = True
        limit = int(cpu_seconds)
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
        import pytest

        names = list(dict.fromkeys(map(_file, tests)))
        options = ["-x", "-q", "-rfE", "--tb=no", "-p", "no:cacheprovider", "-p", "no:xdist"]
        options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
        status = int(pytest.main([*options, *(names if by_file else tests)]))
    finally:
        sys.stdout.flush()
        os._exit(status)


def _finished(one: Running, record: LineRecord) -> Outcome | Running | None:
    """Return the outcome of a mutant, or None while its tests run.

    A mutant can rename parametrized tests, which are then not found: whole files run instead.
    """
    process, status = os.waitpid(one.process, os.WNOHANG)
    seconds = time.monotonic() - one.start
    if not process and seconds < MAX_SECONDS:
        return None
    _end(one, is_running=not process)
    code = os.waitstatus_to_exitcode(status) if process else -signal.SIGKILL
    if code == 4 and not one.by_file:
        return _start(one.mutant, one.tests, one.tree, record, by_file=True)
    log = (one.tree / "log.txt").read_text(encoding="utf-8", errors="replace")
    failed = re.search(r"^(?:FAILED|ERROR) (\S.*?)(?: - .*)?$", log, re.MULTILINE)
    by = failed[1] if failed else "time or memory" if code < 0 else f"pytest status {code}"
    outcome = SURVIVED if code == 0 else KILLED
    return _outcome(one.mutant, outcome, by if code else "", len(one.tests), seconds)


def _end(one: Running, is_running: bool = True) -> None:
    """End all processes of a mutant, and restore the file that it changed."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(one.process, signal.SIGKILL)
    if is_running:
        os.waitpid(one.process, 0)
    # With its time, by which Python knows that its bytecode is current
    (one.tree / "original.py").replace(one.tree / one.mutant.path)


def _outcome(mutant: Mutant, outcome: str, by: str, n_tests: int, seconds: float) -> Outcome:
    lines = (mutant.source.splitlines(), mutant.code.splitlines())
    changes = [
        line
        for line in difflib.unified_diff(*lines, lineterm="", n=0)
        if not line.startswith(("---", "+++", "@@"))
    ]
    change = "\n".join(changes)
    return Outcome(mutant.name, _package(mutant), change, outcome, by, n_tests, seconds)


def _survivors(outcomes: Sequence[Outcome]) -> Iterator[str]:
    for each in sorted(outcomes, key=lambda each: each.mutant):
        if each.outcome != KILLED:
            yield f"{each.mutant} ({each.outcome}; {each.n_tests} tests)\n{each.change}\n"


def table(outcomes: Sequence[Outcome], n_places: Mapping[str, int]) -> Iterator[str]:
    """Yield the killed share of each package; mutants that no test runs count as not killed.

    The share of all packages is weighted by their numbers of places that can be changed.
    """
    yield (
        f"{'package':14}{'places':>8}{'mutants':>9}{KILLED:>8}{SURVIVED:>10}{UNCOVERED:>13}"
        f"{'share':>8}"
    )
    weighted = 0.0
    for package, count in n_places.items():
        here = [each.outcome for each in outcomes if each.package == package]
        counts = [here.count(name) for name in (KILLED, SURVIVED, UNCOVERED)]
        share = counts[0] / len(here) if here else 0.0
        weighted += share * count / sum(n_places.values())
        yield (
            f"{package:14}{count:>8,}{len(here):>9}{counts[0]:>8}{counts[1]:>10}{counts[2]:>13}"
            f"{share:>8.1%}"
        )
    everything = [each.outcome for each in outcomes]
    counts = [everything.count(name) for name in (KILLED, SURVIVED, UNCOVERED)]
    yield (
        f"{'all':14}{sum(n_places.values()):>8,}{len(outcomes):>9}{counts[0]:>8}{counts[1]:>10}"
        f"{counts[2]:>13}{weighted:>8.1%}"
    )


if __name__ == "__main__":
    main()
