"""A clone is enough for the tests, and what it lacks is said at the end of the run."""

import os
import re
import subprocess
import sys
import textwrap

from outside import REASON, VARIABLE
from places import SUPPORT, TESTS


def test_no_test_reads_what_lies_beside_the_repository():
    beside = re.compile(r"parents\[[2-9]\]|(?:\.parent){3}|parents\[1\] / \"\.\.")
    files = sorted(TESTS.rglob("*.py"))
    assert len(files) > 100
    assert [path.name for path in files if beside.search(path.read_text("utf-8"))] == []


CASES = """
    import pytest
    from outside import outside

    @pytest.mark.parametrize("name", ["photos", "models"])
    def test_of_what_is_elsewhere(name):
        assert outside("data", name).is_dir()

    def test_that_is_skipped_for_another_reason():
        pytest.skip("chromium is not installed")
"""


def last_lines(folder, **variables):
    """The lines of a run of three tests that a process of its own makes."""
    (folder / "test_cases.py").write_text(textwrap.dedent(CASES))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "outside"]
    environment = {name: text for name, text in os.environ.items() if name != VARIABLE}
    path = os.pathsep.join([str(SUPPORT), environment.get("PYTHONPATH", "")])
    environment |= {"PYTHONPATH": path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **variables}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    return done.stdout.splitlines()


def test_a_run_counts_the_tests_that_need_what_a_clone_lacks(tmp_path):
    found = last_lines(tmp_path)
    assert f"2 tests skipped: {REASON} (set {VARIABLE})." in found
    assert "3 skipped" in found[-1]


def test_with_a_folder_of_the_files_those_tests_run(tmp_path):
    for name in ("photos", "models"):
        (tmp_path / "elsewhere" / "data" / name).mkdir(parents=True)
    found = last_lines(tmp_path, **{VARIABLE: str(tmp_path / "elsewhere")})
    assert "2 passed, 1 skipped" in found[-1]
    assert not any(REASON in line for line in found)
