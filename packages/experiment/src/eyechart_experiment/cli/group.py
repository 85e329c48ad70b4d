"""`eyechart experiment`: a browser study with participants, from a test set to responses."""

from eyechart.cli.shared.help import CommandLine
from eyechart_experiment.cli.export import export, payments, preregister, status, verify
from eyechart_experiment.cli.serve import backup, close, forget, pilot, restore, serve, withdraw
from eyechart_experiment.cli.study import new, simulate

app = CommandLine(help="Collect human responses in a browser experiment.")
for command in (
    new, preregister, serve, backup, restore, status, export, payments, verify, close, pilot,
    withdraw, forget, simulate,
):  # fmt: skip
    app.command()(command)
