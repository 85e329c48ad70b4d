"""`eyechart evaluate`: how robust models are, next to people, as a table and as files."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from eyechart.cli.shared.derived_options import derived_options
from eyechart.cli.shared.stop import Stop, stopped
from eyechart.core.errors import UsageError
from eyechart.curves.curve_settings import BINS
from eyechart.pipeline.settings import EvaluateSettings
from eyechart.testsets.testset_settings import N_SAMPLES

if TYPE_CHECKING:
    from rich.console import Console

    from eyechart.results.schema import Results

FAILED = 1


@derived_options
def evaluate(context: typer.Context, settings: EvaluateSettings) -> None:
    """Print R_a and R_p, and HMRI and MRSI next to people, of models under every corruption."""
    run_evaluate(settings, context.obj or ())


def run_evaluate(settings: EvaluateSettings, typed: Sequence[str]) -> None:
    """Evaluate, print and write; `typed`: the words of the command, which results hold."""
    from eyechart.cli.shared.progress import ProgressBars
    from eyechart.pipeline.checks import check_sentence, failures
    from eyechart.pipeline.evaluate import run_evaluation

    assert settings.out is not None, "the command has a folder for its results"
    out = Path(settings.out)
    floors = settings.floors
    with ProgressBars() as bars:
        try:
            finished = run_evaluation(settings, bars)
        except KeyboardInterrupt:
            raise stopped(out, "what was predicted") from None
    # as it was typed, to be typed again
    command = shlex.join(["eyechart", *typed])
    evaluation = finished.results.with_command(command)
    _report(evaluation, out, settings)
    if finished.comparison is not None:
        if not finished.comparison.passed:
            raise Stop(check_sentence(finished.comparison), FAILED)
        print(check_sentence(finished.comparison))
    failed = failures(evaluation, floors)
    if failed:
        raise Stop(" ".join(failed), FAILED)


def _report(evaluation: "Results", out: Path, settings: EvaluateSettings) -> None:
    from eyechart.cli.shared.console import wide_console
    from eyechart.reports.figures.curve_plot import draw_curves
    from eyechart.reports.terminal.result_tables import source_lines, tables
    from eyechart.results.writing import write_results

    console = wide_console()
    for title, parts in tables(evaluation, console.width):
        print(title)
        for table in parts:
            console.print(table)
    if any(space.means for model in evaluation.models for space in model.spaces.values()):
        print("Behind each number its 95 % interval, from resampled pictures.")
    for line in source_lines(evaluation):
        print(line)
    for line in _unusual(evaluation):
        print(line)
    if settings.is_demo:
        fit = settings.fit
        bins = fit.n_bins - (fit.binning == "paper")
        rows = max(coverage.rows for coverage in evaluation.coverage.values())
        print(
            f"Demo: {rows} answers per corruption and only {bins} wide bins of at least"
            f" {fit.least:g}; a study takes {N_SAMPLES:,} and {BINS}."
        )
    for warning in evaluation.warnings:
        print(f"Note: {warning}")
    for text in _unobserved(evaluation):
        print(f"Note: {text}")
    written = write_results(evaluation, out)
    if len(evaluation.models) > 1:
        _rank(console, out)
    print("Written:")
    for path in (*draw_curves(evaluation, out), *written):
        print(f"  {path}")


def _unusual(evaluation: "Results") -> list[str]:
    """Return a line on each setting that makes scores incomparable with those of a usual run."""
    from eyechart.curves.density import UNIFORM
    from eyechart.testsets.plan import Plan

    config, lines = evaluation.config, []
    if config.definition != Plan().definition:
        lines.append(f"Visual change is measured as {config.definition} defines it.")
    if config.fit.density != UNIFORM.identity:
        lines.append(f"Areas are weighted by the density {config.fit.density} over Δv.")
    if "@" in config.suite:
        lines.append(f"Suite: {config.suite}.")
    return lines


def _rank(console: "Console", out: Path) -> None:
    """Print the models of the run in order."""
    from eyechart.cli.compare import print_board
    from eyechart.results.runs import make_boards, read_run
    from eyechart.results.standings import stand

    print()
    for board in make_boards([read_run(out)]):
        try:
            print_board(console, stand(board))
        except UsageError as error:
            print(f"Note: {error}")


def _unobserved(evaluation: "Results") -> list[str]:
    """Return a sentence if curves go on beyond what was observed."""
    largest = {name: coverage.largest for name, coverage in evaluation.coverage.items()}
    short = [name for name, value in largest.items() if value < 0.95]
    if not short:
        return []
    return [
        f"{len(short)} of {len(largest)} corruptions end below Δv 0.95 (the lowest at"
        f" {min(largest.values()):.2f}); what curves do beyond is a guess, and 'bounds' in"
        " results.json say how little is known."
    ]
