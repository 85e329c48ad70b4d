"""`eyechart rulers`: list and install measures of visual change, and compare them with humans."""

from eyechart.cli.rulers import installing, study
from eyechart.cli.shared.help import CommandLine

app = CommandLine(help="List rulers of visual change, install their weights, compare with humans.")
app.command("list")(installing.list_rulers)
app.command("install")(installing.install_rulers)
app.command("study")(study.study)
