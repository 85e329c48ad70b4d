"""`eyechart evaluate`, `merge` and `demo`: robustness of models, compared with humans."""

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eyechart.cli.compare import print_board
from eyechart.cli.report import ReportSettings, report_runs
from eyechart.cli.shared.derived_options import derived_options, examples, folder, folder_or_file
from eyechart.cli.shared.printing import log_to, print_notes, wide_console
from eyechart.cli.shared.progress import ProgressBars
from eyechart.cli.shared.stop import FAILED, Stop, resumable
from eyechart.core.errors import CheckFailed, UsageError
from eyechart.core.phrases import count_of
from eyechart.core.process import quick_imports
from eyechart.core.storage.remote import OutputFolder, output_folder
from eyechart.core.storage.run_folder import RECORD, read_settings
from eyechart.integrations.loggers.registry import Log, check_loggers
from eyechart.pipeline.settings import EvaluateSettings

if TYPE_CHECKING:
    from eyechart.core.progress import Progress
    from eyechart.pipeline.evaluate import Finished


@examples(
    "eyechart evaluate resnet50.pt --images imagenet/val --suite vcr",
    "eyechart evaluate timm:resnet50 hf:microsoft/resnet-50 --images val --n 2000",
)
@derived_options
def evaluate(context: typer.Context, settings: EvaluateSettings, log: Log = ()) -> None:
    """Evaluate models under every corruption of a suite."""
    run_evaluate(settings, context.obj or (), log)


def run_evaluate(
    settings: EvaluateSettings, typed: Sequence[str], loggers: Sequence[str] = ()
) -> None:
    """Evaluate models, print the results, write them with the command line, and log them."""
    # before the run, which may take hours
    check_loggers(loggers)
    with quick_imports():
        from eyechart.pipeline.evaluate import PlanOnly, run_evaluation

    assert settings.out is not None, "the command has a folder for its results"
    with output_folder(settings.out) as out:
        local = replace(settings, out=out.path)
        with ProgressBars() as bars, resumable(out.path, "finished work", out.shown):
            try:
                if settings.shard is not None:
                    _predict_shard(local, out, bars)
                    return
                finished = run_evaluation(local, bars)
            except PlanOnly:
                return
        # stored as typed, so that it can be run again
        show_finished(finished, out, shlex.join(["eyechart", *typed]), loggers)


def _predict_shard(settings: EvaluateSettings, out: OutputFolder, progress: "Progress") -> None:
    from eyechart.pipeline.evaluate import run_shard

    try:
        record = run_shard(settings, progress)
    except CheckFailed as failure:
        raise Stop(str(failure), FAILED) from None
    print(
        f"Shard {record.shard} is finished ({count_of(record.n_samples, 'sample')}). When all"
        f" shards are: eyechart merge {out.shown}"
    )


def show_finished(
    finished: "Finished", out: OutputFolder, command: str, loggers: Sequence[str] = ()
) -> None:
    """Print the results of a run, write them with the command line, and log them."""
    from eyechart.reports.figures.curve_plot import draw_curves
    from eyechart.reports.series.run_sentences import break_sentences, cost_line
    from eyechart.reports.terminal.result_tables import source_lines, tables
    from eyechart.results.results_file import write_results
    from eyechart.results.runs import make_leaderboards, read_run
    from eyechart.results.standings import rank_models

    results, console = finished.results.with_command(command), wide_console()
    for sentence in break_sentences(results):
        print(sentence)
    for title, parts in tables(results, console.width):
        print(title)
        for table in parts:
            console.print(table)
    if any(space.means for model in results.models for space in model.spaces.values()):
        print("Each score is followed by its 95 % confidence interval (bootstrap over images).")
    for line in source_lines(results):
        print(line)
    print_notes(results.warnings)
    # before the ranking, which reads these files
    written = write_results(results, out.path)
    if len(results.models) > 1:
        print()
        for board in make_leaderboards([read_run(out.path)]):
            try:
                print_board(console, rank_models(board))
                print()
            except UsageError as error:
                print_notes([str(error)])
    print(cost_line(results.run))
    print("Written:")
    for path in (*draw_curves(results, out.path), *written):
        print(f"  {out.show(path)}")
    not_logged = log_to(results, loggers)
    if finished.comparison is not None and finished.comparison.passed:
        print(finished.comparison.sentence())
    for sentence in finished.reached_limits():
        print(sentence)
    failed = [*finished.failed_checks(), *not_logged]
    if failed:
        raise Stop(" ".join(failed), FAILED)


@examples(
    "eyechart merge results",
    "eyechart merge /scratch/results",
)
def merge(
    context: typer.Context,
    out: Annotated[
        Path,
        typer.Argument(
            metavar="OUT", parser=folder_or_file, help="The --out folder of all shards."
        ),
    ],
) -> None:
    """Merge the shards of evaluate or corrupt, and score those of evaluate."""
    with quick_imports():
        from eyechart.pipeline.merge import merge_shards

    sentence = merge_other(out)
    if sentence is not None:
        print(sentence)
        return
    with output_folder(out) as opened:
        with resumable(opened.path, "the shards", opened.shown), ProgressBars() as bars:
            finished = merge_shards(opened.path, bars)
        show_finished(finished, opened, shlex.join(["eyechart", *(context.obj or ())]))


STUDIES = ("overlap study", "style", "subclass", "superclass")
"""Kinds of studies, as in the record of their folder."""


def merge_other(out: Path) -> str | None:
    """Merge the shards of corrupted images, and return a sentence about it.

    Returns None if `out` has none, so that it can only be an evaluation.

    Raises:
        UsageError: shards are missing or do not belong together, or `out` is a study, which its own
            command finishes.
    """
    from eyechart.corruptions.suites.array_layout import has_corrupted_shards, merge_corrupted

    if has_corrupted_shards(out):
        return f"{out}: the shards are merged ({merge_corrupted(out):,} images or arrays)."
    if (out / RECORD).is_file() and read_settings(out / RECORD).get("kind") in STUDIES:
        raise UsageError(
            f"{out} is a study: run its command again without --shard, which writes the results."
        )
    return None


@examples(
    "eyechart demo",
    "eyechart demo --out first-look",
)
def demo(
    context: typer.Context,
    out: Annotated[Path, typer.Option(metavar="FOLDER", parser=folder, help="Run folder.")] = Path(
        "eyechart-demo"
    ),
) -> None:
    """Evaluate three models on 20 images and write a report."""
    run_evaluate(EvaluateSettings(out=out), context.obj or ())
    report_runs(ReportSettings(runs=(out,)))
