"""`eyechart structure`: held-out styles, subclasses and superclasses."""

from eyechart.cli.shared.help import CommandLine
from eyechart.cli.structure import holdout, icons, report, superclass

app = CommandLine(help="Test models on held-out styles, subclasses and superclasses.")
app.add_typer(icons.app, name="icons")
app.command("style")(holdout.style)
app.command("subclass")(holdout.subclass)
app.command("superclass")(superclass.superclass)
app.command("report")(report.report)
