"""`eyechart rulers`: measures of visual change, and how well humans agree with them."""

from eyechart.cli.rulers import study
from eyechart.cli.shared.help import CommandLine

app = CommandLine(help="Study measures of visual change (rulers).")
app.command("study")(study.study)
