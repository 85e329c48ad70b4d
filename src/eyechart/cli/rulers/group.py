"""`eyechart rulers`: list the rulers of visual change and install their weights."""

from eyechart.cli.rulers import installing
from eyechart.cli.shared.help import CommandLine

app = CommandLine(help="List rulers of visual change and install their weights.")
app.command("list")(installing.list_rulers)
app.command("install")(installing.install_rulers)
