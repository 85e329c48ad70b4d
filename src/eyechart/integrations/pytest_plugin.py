"""The pytest plugin: the fixture `robustness`, which evaluates a model and applies a gate to it.

pytest loads this module in every session in which eyechart is installed, so nothing slow is
imported before a test uses the fixture.
"""

from collections.abc import Callable
from dataclasses import dataclass
from io import StringIO
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from eyechart.core.arguments import FilePath
    from eyechart.gates.gate_results import GateResults
    from eyechart.results.schema import Results

FIXTURE = "robustness"

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


@pytest.fixture
def robustness(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> "Callable[..., RobustnessCheck]":
    """Evaluate a model under image corruptions: `robustness(model, images).gate("gate.yaml")`.

    The fixture takes the arguments of `eyechart.evaluate`. Without `out`, the run folder is one of
    pytest's temporary folders.
    """

    def check(*arguments: Any, **options: Any) -> RobustnessCheck:
        from eyechart.core.errors import CheckFailed, UsageError
        from eyechart.pipeline.evaluate import evaluate

        if options.get("out") is None:
            options["out"] = tmp_path_factory.mktemp("eyechart")
        try:
            results = evaluate(*arguments, **options)
        except (CheckFailed, UsageError) as error:
            raise _failure(str(error)) from None
        request.node.add_report_section("call", "eyechart", str(results.folder))
        return RobustnessCheck(results, request.node)

    return check


@dataclass(frozen=True)
class RobustnessCheck:
    """An evaluated model in a test; `results` are as from `eyechart.evaluate`."""

    results: "Results"
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
        from rich.console import Console

        from eyechart.core.errors import UsageError
        from eyechart.gates.gate import gate
        from eyechart.reports.gate_texts import LEGEND, gate_advice, gate_table, outcome_sentence

        old = against.results if isinstance(against, RobustnessCheck) else against
        try:
            outcome = gate(self.results, against=old, rules=rules, inconclusive=inconclusive)
        except UsageError as error:
            raise _failure(str(error)) from None
        # plain text, because messages also end up in logs and XML reports
        console = Console(width=WIDTH, file=StringIO(), color_system=None)
        with console.capture() as printed:
            console.print(gate_table(outcome))
            for line in (*gate_advice(outcome), LEGEND):
                console.print(line, markup=False, highlight=False)
        text = f"{outcome_sentence(outcome)}\n{printed.get().rstrip()}"
        if not outcome.passed:
            raise _failure(text)
        self._test.add_report_section("call", "eyechart gate", text)
        return outcome


def _failure(message: str) -> BaseException:
    # without a traceback: the message says what to do
    return pytest.fail.Exception(message, pytrace=False)
