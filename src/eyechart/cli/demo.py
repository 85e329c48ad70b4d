"""`eyechart demo`: an evaluation of built-in models on built-in images, with a report."""

from pathlib import Path
from typing import Annotated

import typer

from eyechart.cli.evaluate import run_evaluate
from eyechart.cli.report import ReportSettings, report_runs
from eyechart.cli.shared.help import examples
from eyechart.cli.shared.paths import folder
from eyechart.pipeline.settings import EvaluateSettings


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
    run_evaluate(EvaluateSettings(out=Path(out)), context.obj or ())
    report_runs(ReportSettings(runs=(Path(out),)))
