"""`eyechart demo`: the main job on what comes along, ending with a report to open."""

from pathlib import Path
from typing import Annotated

import typer

from eyechart.cli.evaluate import evaluate
from eyechart.cli.paths import folder
from eyechart.cli.report import report


def demo(
    context: typer.Context,
    out: Annotated[
        Path, typer.Option(metavar="FOLDER", parser=folder, help="Where everything goes.")
    ] = Path("eyechart-demo"),
) -> None:
    """Rank three models on 20 photographs next to people, and write a report to open."""
    evaluate(context, out=Path(out))
    report([Path(out)])
