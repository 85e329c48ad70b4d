"""`eyechart structure`: known things in new styles, and new kinds of known things."""

import typer

from eyechart.cli.structure import holdout, icons, report, superclass

app = typer.Typer(
    help="Test on styles and on kinds of things that were held out of training.",
    no_args_is_help=True,
)
app.add_typer(icons.app, name="icons")
app.command("style")(holdout.style)
app.command("subclass")(holdout.subclass)
app.command("superclass")(superclass.superclass)
app.command("report")(report.report)
