"""`make coverage` and `make mutation`: what is counted, and which changes of the code are made."""

import json
import subprocess
import sys

import pytest

from places import ROOT

TOOLS = ROOT / "tools"

SOURCE = '''"""A module of 2 + 2 lines."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    SIZE = 1 + 1


def grown(size: "int | None" = 3, *rest: int) -> "int | None":
    """Return 1 + 1."""
    if size is None:
        raise ValueError(f"size must be {1 + 1}, not {size}")
    μ = "µ" * 0, size + 4
    return (
        μ[1]
        - 5
    )
'''


@pytest.fixture
def tools(monkeypatch):
    monkeypatch.syspath_prepend(TOOLS)


@pytest.mark.usefixtures("tools")
def test_coverage_is_summed_over_the_files_of_a_package():
    from coverage_table import table

    def file(lines, run, branches, taken):
        names = ("num_statements", "covered_lines", "num_branches", "covered_branches")
        counts = dict(zip(names, (lines, run, branches, taken), strict=True))
        return {"summary": {**counts, "percent_covered_display": "7"}}

    report = {
        "files": {
            "src/eyechart/stats/bins.py": file(10, 9, 2, 1),
            "src/eyechart/stats/deep/ranks.py": file(30, 21, 2, 2),
            "src/eyechart/__main__.py": file(10, 10, 0, 0),
            "packages/experiment/src/eyechart_experiment/server/app.py": file(10, 5, 2, 0),
        }
    }
    rows = [line.split() for line in table(report)][1:]
    assert rows == [
        ["(top)", "10", "100.0%", "0"],
        ["eyechart_experiment", "10", "50.0%", "2", "0.0%"],
        ["stats", "40", "75.0%", "4", "75.0%"],
        ["total", "60", "75.0%", "6", "50.0%"],
    ]


@pytest.mark.usefixtures("tools")
def test_mutants_change_what_runs_and_are_drawn_again_by_the_same_seed(tmp_path):
    pytest.importorskip("cosmic_ray")
    from mutants import draw_mutants, find_places

    for name in ("module.py", "kernel_triton.py"):
        (tmp_path / name).write_text(SOURCE, encoding="utf-8")

    def drawn(seed):
        return draw_mutants(tmp_path, find_places(tmp_path, seed), 100)

    places = {mutant.position for mutant in drawn(0)}
    assert places == {(9, 31), (11, 7), (11, 12), (13, 12), (13, 14), (13, 22), (13, 24), (15, 10),
                      (16, 8), (16, 10)}  # fmt: skip
    assert {mutant.path for mutant in drawn(0)} == {"module.py"}
    assert {mutant.lines for mutant in drawn(0)} == {(9, 9), (11, 11), (13, 13), (14, 17)}
    assert [mutant.name for mutant in drawn(3)] == [mutant.name for mutant in drawn(3)]
    assert [mutant.name for mutant in drawn(3)] != [mutant.name for mutant in drawn(4)]
    for mutant in drawn(0):
        changed = zip(mutant.code.splitlines(), SOURCE.splitlines(), strict=True)
        assert [old == new for new, old in changed].count(False) == 1
        compile(mutant.code, "mutant", "exec")


TESTED = """
def doubled(number):
    return 2 * number


def waited(count):
    while count > 0:
        count = count - 1


def unused(number):
    return number + 1
"""

TESTS = """
from eyechart.stats import tested


def test_doubled():
    assert tested.doubled(3) == 6


def test_waited():
    assert tested.waited(3) is None
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_mutants_are_killed_survive_or_are_not_covered_and_a_second_start_continues(tmp_path):
    pytest.importorskip("cosmic_ray")
    tree = tmp_path / "tree"
    files = {
        "pytest.ini": "[pytest]",
        "src/eyechart/__init__.py": "",
        # what the installed package promises to pytest
        "src/eyechart/integrations/pytest_plugin.py": "",
        "src/eyechart/stats/tested.py": TESTED,
        "tests/stats/test_tested.py": TESTS,
    }
    for name, text in files.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text, encoding="utf-8")

    def measured(n):
        command = [sys.executable, TOOLS / "mutation.py", "--tree", tree, "--n", str(6 * n),
                   "--build", tmp_path / "build"]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        file = next((tmp_path / "build").rglob("outcomes-0.jsonl"))
        return done.stdout, [json.loads(line) for line in file.read_text().splitlines()]

    _, few = measured(2)
    assert len(few) == 2
    printed, outcomes = measured(20)
    assert outcomes[:2] == few
    by_line = {}
    for each in outcomes:
        line = int(each["mutant"].split(":")[1])
        by_line.setdefault(line, set()).add((each["outcome"], each["by"].rpartition("::")[2]))
    assert by_line[3] == {("killed", "test_doubled")}
    # another first value, or a loop that never ends
    assert ("killed", "time or memory") in by_line[7] | by_line[8]
    assert by_line[12] == {("not covered", "")}
    row = next(line.split() for line in printed.splitlines() if line.startswith("stats"))
    counts = [int(count) for count in row[2:6]]
    assert counts[0] == len(outcomes) == sum(counts[1:])
    assert (tree / "src/eyechart/stats/tested.py").read_text("utf-8") == TESTED
