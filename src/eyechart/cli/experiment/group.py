"""`eyechart experiment`: a browser study with participants, from a test set to responses."""

from eyechart.cli.experiment.deploy import backup, deploy, restore
from eyechart.cli.experiment.export import export
from eyechart.cli.experiment.new import new
from eyechart.cli.experiment.payments import pay, payments, recruit, verify
from eyechart.cli.experiment.preregister import preregister
from eyechart.cli.experiment.serve import close, forget, pilot, serve, withdraw
from eyechart.cli.experiment.simulate import simulate
from eyechart.cli.experiment.status import status
from eyechart.cli.shared.help import CommandLine

app = CommandLine(help="Collect human responses in a browser experiment.")
app.command("new")(new)
app.command("preregister")(preregister)
app.command("serve")(serve)
app.command("deploy")(deploy)
app.command("backup")(backup)
app.command("restore")(restore)
app.command("status")(status)
app.command("export")(export)
app.command("recruit")(recruit)
app.command("payments")(payments)
app.command("verify")(verify)
app.command("pay")(pay)
app.command("close")(close)
app.command("pilot")(pilot)
app.command("withdraw")(withdraw)
app.command("forget")(forget)
app.command("simulate")(simulate)
