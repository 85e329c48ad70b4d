"""`eyechart merge`: finish what was split into shards, such as an evaluation, which is scored."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from eyechart.cli.evaluate import show_finished
from eyechart.cli.shared.help import examples
from eyechart.cli.shared.merging import merge_other
from eyechart.cli.shared.paths import folder_or_file
from eyechart.cli.shared.stop import stopped
from eyechart.core.quick_imports import quick_imports
from eyechart.core.storage.remote_folder import output_folder


@examples(
    "eyechart merge results",
    "eyechart merge /scratch/results",
)
def merge(
    context: typer.Context,
    out: Annotated[
        Path,
        typer.Argument(
            metavar="OUT", parser=folder_or_file, help="The --out folder or file of all shards."
        ),
    ],
) -> None:
    """Merge the shards of evaluate, testset make or corrupt, and score those of evaluate."""
    with quick_imports():
        from eyechart.cli.shared.progress import ProgressBars
        from eyechart.pipeline.merge import merge_shards

    sentence = merge_other(out)
    if sentence is not None:
        print(sentence)
        return
    with output_folder(out) as opened:
        with ProgressBars() as bars:
            try:
                finished = merge_shards(opened.path, bars)
            except KeyboardInterrupt:
                raise stopped(opened.path, "the shards", opened.shown) from None
        show_finished(finished, opened, shlex.join(["eyechart", *(context.obj or ())]))
