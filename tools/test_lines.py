"""A pytest plugin for tools/mutation.py: records which lines each test runs, and how long it takes.

Coverage has to be measuring. A context of its data is the id of a test; lines that run during
imports have the empty context. Durations of the tests that passed go into the file that the
environment variable TEST_DURATIONS names.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from coverage import Coverage

durations: dict[str, float] = {}
others: set[str] = set()
"""Tests that were skipped or failed."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Let coverage note lines for this test."""
    measuring = Coverage.current()
    if measuring is not None:
        measuring.switch_context(item.nodeid)
    try:
        return (yield)
    finally:
        if measuring is not None:
            measuring.switch_context("")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add the duration of one phase of a test."""
    durations[report.nodeid] = durations.get(report.nodeid, 0) + report.duration
    if not report.passed:
        others.add(report.nodeid)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write durations, except in processes that run tests for another one."""
    if not hasattr(session.config, "workerinput"):
        passed = {test: seconds for test, seconds in durations.items() if test not in others}
        Path(os.environ["TEST_DURATIONS"]).write_text(json.dumps(passed), encoding="utf-8")
