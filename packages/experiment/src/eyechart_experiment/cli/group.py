"""`eyechart experiment`: a browser study with participants, from a test set to responses."""

from eyechart.cli.shared.help import CommandLine
from eyechart_experiment.cli.export import export, preregister, status
from eyechart_experiment.cli.new import new
from eyechart_experiment.cli.payments import payments, verify
from eyechart_experiment.cli.serve import backup, close, forget, pilot, restore, serve, withdraw
from eyechart_experiment.cli.simulate import simulate

app = CommandLine(help="Collect human responses in a browser experiment.")
app.command("new")(new)
app.command("preregister")(preregister)
app.command("serve")(serve)
app.command("backup")(backup)
app.command("restore")(restore)
app.command("status")(status)
app.command("export")(export)
app.command("payments")(payments)
app.command("verify")(verify)
app.command("close")(close)
app.command("pilot")(pilot)
app.command("withdraw")(withdraw)
app.command("forget")(forget)
app.command("simulate")(simulate)
