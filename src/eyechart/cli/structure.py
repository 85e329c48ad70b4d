"""`eyechart structure`: known things in new styles, and new kinds of known things."""

import typer

from eyechart.cli import structure_holdout, structure_icons, structure_report, structure_superclass

app = typer.Typer(
    help="Test on styles and on kinds of things that were held out of training.",
    no_args_is_help=True,
)
app.add_typer(structure_icons.app, name="icons")
app.command("style")(structure_holdout.style)
app.command("subclass")(structure_holdout.subclass)
app.command("superclass")(structure_superclass.superclass)
app.command("report")(structure_report.report)
