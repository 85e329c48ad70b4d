"""`eyechart train table`: print the scores of several retrained models and write them as LaTeX."""

from pathlib import Path
from typing import Annotated

import typer

from eyechart.cli.overlap.output import check_latex, write_latex
from eyechart.cli.shared.help import examples
from eyechart.cli.shared.paths import folder, folder_or_file
from eyechart.cli.shared.printing import print_written


@examples(
    "eyechart train table retrained-resnet retrained-vit",
    "eyechart train table retrained/* --latex table3.tex",
)
def table(
    folders: Annotated[
        list[Path],
        typer.Argument(
            metavar="FOLDER...", parser=folder, help="Folders written by eyechart train retrain."
        ),
    ],
    latex: Annotated[
        Path | None,
        typer.Option(metavar="FILE.tex", parser=folder_or_file, help="Also write a LaTeX table."),
    ] = None,
) -> None:
    """Print the scores of retrained models before and after retraining."""
    from rich.markup import escape

    from eyechart.cli.shared.console import wide_console
    from eyechart.reports.terminal.columns import stacked
    from eyechart.reports.terminal.retraining_tables import (
        read_retrainings,
        retrained_cells,
        retrained_latex,
        shown_scores,
    )
    from eyechart.training.retrain import TABLE

    check_latex(latex)
    rows = read_retrainings([Path(name) / TABLE for name in folders])
    scores = [score.title for score in shown_scores(rows)]
    head = [
        "model",
        "corruption",
        *(f"{n} before" for n in scores),
        *(f"{n} after" for n in scores),
    ]
    console = wide_console()
    cells = [[escape(cell) for cell in row] for row in retrained_cells(rows)]
    for part in stacked(head, cells, width=console.width, kept=2, left=(0, 1)):
        console.print(part)
    if latex is not None:
        write_latex(latex, retrained_latex(rows))
        print_written([latex])
