"""`eyechart merge`: score a run that was split into shards."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from eyechart.cli.evaluate import show_finished
from eyechart.cli.shared.help import examples
from eyechart.cli.shared.paths import folder
from eyechart.cli.shared.stop import stopped


@examples(
    "eyechart merge results",
    "eyechart merge /scratch/results",
)
def merge(
    context: typer.Context,
    out: Annotated[
        Path,
        typer.Argument(metavar="FOLDER", parser=folder, help="The --out folder of all shards."),
    ],
) -> None:
    """Score a run whose shards are finished (evaluate --shard)."""
    from eyechart.cli.shared.progress import ProgressBars
    from eyechart.pipeline.merge import merge_shards

    with ProgressBars() as bars:
        try:
            finished = merge_shards(Path(out), bars)
        except KeyboardInterrupt:
            raise stopped(Path(out), "the shards") from None
    show_finished(finished, Path(out), shlex.join(["eyechart", *(context.obj or ())]))
