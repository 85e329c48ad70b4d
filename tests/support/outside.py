"""What some tests need and a clone does not have: real photographs, networks, human trials.

They lie in a folder that an environment variable names: `data/photos` with its `manifest.csv`,
`data/models`, `human`. Numbers that tests compare with are in `tests/data`.
"""

import os
from pathlib import Path

import pytest

VARIABLE = "EYECHART_TEST_DATA"
REASON = "needs real photographs, networks or human trials"


def outside(*names: str) -> Path:
    """Return the path of a file or folder outside of the repository, or skip the test."""
    folder = os.environ.get(VARIABLE)
    path = Path(folder, *names) if folder else None
    if path is None or not path.exists():
        pytest.skip(f"{REASON}: {'/'.join(names)}")
    return path


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say at the end of a run how many tests were skipped for want of these files."""
    skipped = terminalreporter.stats.get("skipped", [])
    count = sum(REASON in str(report.longrepr) for report in skipped)
    if count:
        tests = "1 test" if count == 1 else f"{count} tests"
        terminalreporter.write_line(f"{tests} skipped: {REASON} (set {VARIABLE}).")
