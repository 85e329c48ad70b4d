"""`python -m benchmarks against REV`: which side is which, and whose code each of them runs."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import against, against_side
from benchmarks.__main__ import app
from benchmarks.against import Commit, Compared, Ratio, compare_parts, median_interval, table
from benchmarks.timing import limited_threads
from commands import Result, assert_rejected
from eyechart.cli.app import main
from eyechart.core.errors import UsageError

SLOW = 0.6
"""Seconds that the import of the slow package takes."""


@pytest.fixture
def bench(capsys):
    def call(*arguments: object) -> Result:
        with pytest.raises(SystemExit) as stop:
            main([str(argument) for argument in arguments], app)
        printed = capsys.readouterr()
        code = stop.value.code
        return Result(code if isinstance(code, int) else 0, printed.out, printed.err)

    return call


def write_package(root: Path, body: str) -> None:
    package = root / "src" / "eyechart"
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").write_text(f"{body}\n__all__ = ()\n", encoding="utf-8")
    (package / "__main__.py").write_text("print('help')\n", encoding="utf-8")


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A repository whose only commit is slow, and whose working tree is not."""
    root = tmp_path / "repository"
    side = root / "benchmarks" / "against_side.py"
    side.parent.mkdir(parents=True)
    shutil.copy(Path(against.__file__).parent / side.name, side)
    write_package(root, f"import time; time.sleep({SLOW})")
    for words in (
        ("init", "--quiet"),
        ("add", "."),
        ("-c", "user.name=n", "-c", "user.email=e", "commit", "--quiet", "-m", "slow"),
    ):
        subprocess.run(["git", "-C", root, *words], check=True)
    write_package(root, "")
    monkeypatch.setattr(against, "ROOT", root)
    return root


def git(root: Path, *words: str) -> list[str]:
    command = ["git", "-C", str(root), *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def test_each_side_runs_its_own_code_and_ratios_are_of_the_working_tree(
    bench, repository, tmp_path
):
    out = tmp_path / "figures.json"
    result = bench("against", "HEAD", "--part", "import", "--rounds", 2, "--json", out)
    assert result.status == 0, result.err
    name = git(repository, "rev-parse", "--short", "HEAD")[0]
    assert f"ratio: working tree / {name}" in result.out
    written = json.loads(out.read_text("utf-8"))
    seconds = {each["task"]: each for each in written["ratios"] if each["unit"] == "s"}
    ours, theirs = seconds["import eyechart"]["rounds"][0]
    assert ours < theirs and theirs > SLOW
    assert seconds["import eyechart"]["ratio"] < 1
    peak = next(each for each in written["ratios"] if each["unit"] == "MiB")
    assert all(1 < value < 200 for pair in peak["rounds"] for value in pair)
    # the checkout is gone, and git has forgotten it
    assert len(git(repository, "worktree", "list")) == 1


def test_a_commit_that_does_not_exist_is_rejected(bench, repository):
    rejected = bench("against", "nowhere")
    assert_rejected(rejected, "REV must be a commit of the git repository", "'nowhere'")
    assert_rejected(bench("against", "HEAD", "--part", "lop"), "Did you mean 'loop'")


def test_a_side_that_fails_is_named_with_its_last_message(bench, repository):
    write_package(repository, "raise RuntimeError('broken here')")
    result = bench("against", "HEAD", "--part", "import", "--rounds", 1)
    assert result.status == 1
    assert "import failed in the working tree: RuntimeError: broken here" in result.err


def test_an_installed_package_is_not_measured_by_mistake(repository, tmp_path):
    (tmp_path / "empty" / "src").mkdir(parents=True)
    compared = compare_parts(["import"], Commit(tmp_path / "empty", "empty"), 1, ("cpu", "20"))
    assert compared.ratios == ()
    assert "__init__.py was imported, not" in compared.failures[0]


@pytest.mark.slow
def test_the_file_is_run_like_the_command():
    script = Path(against.__file__)
    done = subprocess.run([sys.executable, script, "--help"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "REV" in done.stdout and "--rounds" in done.stdout


@pytest.mark.parametrize(
    ("count", "place", "level"),
    # 1 − 2 (1/2)^n for the extremes; 1 − 2 · 11 / 2^10 for the second and the last but one of ten
    [(2, 0, 0.5), (5, 0, 0.9375), (7, 0, 0.984375), (10, 1, 1 - 22 / 1024)],
)
def test_the_interval_of_a_median_is_that_of_the_sign_test(count, place, level):
    values = [float(value) for value in range(count)]
    interval = median_interval(values[::-1])
    assert (interval.low, interval.high) == (values[place], values[-1 - place])
    assert interval.level == pytest.approx(level)


def test_a_row_shows_medians_the_ratio_by_round_and_that_of_cpu_time():
    rounds = ((1.0, 2.0), (4.0, 4.0), (3.0, 2.0))
    ratios = (
        Ratio("loop", "evaluate", "s", rounds),
        Ratio("loop", "evaluate", "CPU s", rounds[:1]),
    )
    row = list(table(Compared("1234567", ratios, ())))[-1].split()
    assert row == ["evaluate", "3.00", "s", "2.00", "s", "1.000", "0.500", "to", "1.500", "0.500"]


QUICK = ("corruptions", "registration")


@pytest.mark.parametrize(
    "part",
    [
        pytest.param(part, marks=() if part in QUICK else pytest.mark.slow)
        for part in against_side.PARTS
    ],
)
def test_every_part_measures_this_package(part, tmp_path, monkeypatch):
    monkeypatch.setattr(against_side, "SIDE", 64)
    monkeypatch.setattr(against_side, "BATCH", 2)
    monkeypatch.setattr(against_side, "N_SCORED", 20)
    monkeypatch.setattr(against_side, "SHORTEST", 0)
    with limited_threads(1):
        tasks = against_side.PARTS[part]("cpu", tmp_path, 2)
        seconds = {name: against_side.measure(task) for name, task in tasks.items()}
    assert seconds and all(each["s"] > 0 and each["CPU s"] >= 0 for each in seconds.values())
    assert 50 < against_side.peak_memory() < 100_000


def test_git_that_is_missing_is_named(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UsageError, match="git must be installed"), against.checked_out("HEAD"):
        pass
