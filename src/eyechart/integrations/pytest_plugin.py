"""The pytest plugin: the fixture `robustness`, which evaluates a model and applies a gate to it.

pytest loads this module in every session in which eyechart is installed, so nothing slow is
imported before a test uses the fixture.
"""

from collections.abc import Callable
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from eyechart.core.arguments import FilePath
    from eyechart.gates.gate_results import GateResults
    from eyechart.integrations.kept_runs import KeptRuns
    from eyechart.results.schema import Results

FIXTURE = "robustness"
CACHE_FOLDER = "eyechart"
"""Name of the folder of kept runs in pytest's cache: .pytest_cache/d/eyechart."""

WIDTH = 80
"""Width of the gate's table in messages."""


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker `slow`, unless the project does so."""
    if not any(line.startswith("slow") for line in config.getini("markers")):
        config.addinivalue_line(
            "markers", f"slow: takes long, as do all tests with the fixture {FIXTURE}"
        )


# before pytest deselects tests by their markers
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests that use the fixture as slow."""
    for item in items:
        if FIXTURE in getattr(item, "fixturenames", ()):
            item.add_marker("slow")


@pytest.fixture(scope="session")
def _eyechart_runs(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> "KeptRuns":
    from eyechart.integrations.kept_runs import KeptRuns

    passing = tmp_path_factory.mktemp("eyechart")
    # without pytest's cache (-p no:cacheprovider), nothing is kept
    cache: pytest.Cache | None = getattr(pytestconfig, "cache", None)
    return KeptRuns(passing if cache is None else cache.mkdir(CACHE_FOLDER), passing)


@pytest.fixture
def robustness(
    _eyechart_runs: "KeptRuns", request: pytest.FixtureRequest
) -> "Callable[..., RobustnessCheck]":
    """Evaluate a model under image corruptions: `robustness(model, images).gate("gate.yaml")`.

    The fixture takes the arguments of `eyechart.evaluate`. Runs are kept in pytest's cache and
    found again by the digests of the model and the data.
    """

    def check(*arguments: Any, **options: Any) -> RobustnessCheck:
        from eyechart.core.errors import UsageError
        from eyechart.core.options import takes_fields_of
        from eyechart.pipeline.settings import EvaluateSettings

        def settings_of(settings: EvaluateSettings) -> EvaluateSettings:
            return settings

        try:
            settings = takes_fields_of(EvaluateSettings)(settings_of)(*arguments, **options)
            results, is_kept = _eyechart_runs.evaluate(settings)
        except UsageError as error:
            raise _failure(str(error)) from None
        folder = Path(results.folder or "")
        origin = "kept from an earlier run" if is_kept else "evaluated now"
        request.node.add_report_section("call", "eyechart", f"{folder} ({origin})")
        return RobustnessCheck(results, folder, is_kept, request.node)

    return check


@dataclass(frozen=True)
class RobustnessCheck:
    """An evaluated model in a test.

    Attributes:
        results: Results of the evaluation, as from `eyechart.evaluate`.
        folder: The run folder.
        is_kept: Whether the results are from an earlier run with the same model and data.
    """

    results: "Results"
    folder: Path
    is_kept: bool
    _test: pytest.Item

    def gate(
        self,
        rules: "FilePath | Sequence[Mapping[str, Any]]",
        against: "FilePath | Results | RobustnessCheck | None" = None,
        inconclusive: str = "fail",
    ) -> "GateResults":
        """Fail the test, with the gate's table as the message, unless the model passes the rules.

        Args:
            rules: YAML file with the rules, or a list of dictionaries, one per rule.
            against: The old model: another check in the same test, a run folder or its results.
            inconclusive: What an inconclusive outcome counts as: fail or pass.

        Returns:
            The outcome of a gate that passes.
        """
        from eyechart.core.errors import UsageError
        from eyechart.gates.gate import gate

        old = against.folder if isinstance(against, RobustnessCheck) else against
        try:
            outcome = gate(self.folder, against=old, rules=rules, inconclusive=inconclusive)
        except UsageError as error:
            raise _failure(str(error)) from None
        text = _gate_text(outcome)
        if not outcome.passed:
            raise _failure(text)
        self._test.add_report_section("call", "eyechart gate", text)
        return outcome


def _failure(message: str) -> BaseException:
    # without a traceback: the message says what to do
    return pytest.fail.Exception(message, pytrace=False)


def _gate_text(outcome: "GateResults") -> str:
    from rich.console import Console

    from eyechart.reports.terminal.gate_tables import LEGEND, gate_advice, gate_table
    from eyechart.reports.terminal.gate_tables import outcome_sentence as sentence

    # plain text, because messages also end up in logs and XML reports
    console = Console(width=WIDTH, file=StringIO(), color_system=None)
    with console.capture() as printed:
        console.print(gate_table(outcome))
        for line in (*gate_advice(outcome), LEGEND):
            console.print(line, markup=False, highlight=False)
    return f"{sentence(outcome)}\n{printed.get().rstrip()}"
