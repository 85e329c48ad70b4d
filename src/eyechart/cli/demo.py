"""`eyechart demo`: the main job on what comes along, ending with a report to open."""

from pathlib import Path
from typing import Annotated

import typer

from eyechart.cli.evaluate import run_evaluate
from eyechart.cli.report import ReportSettings, report_runs
from eyechart.cli.shared.paths import folder
from eyechart.pipeline.settings import EvaluateSettings


def demo(
    context: typer.Context,
    out: Annotated[
        Path, typer.Option(metavar="FOLDER", parser=folder, help="Where everything goes.")
    ] = Path("eyechart-demo"),
) -> None:
    """Rank three models on 20 photographs next to people, and write a report to open."""
    run_evaluate(EvaluateSettings(out=Path(out)), context.obj or ())
    report_runs(ReportSettings(runs=(Path(out),)))
