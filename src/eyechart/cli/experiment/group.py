"""`eyechart experiment`: a study with people, in a browser, from a test set to their answers."""

import typer

from eyechart.cli.experiment.export import export
from eyechart.cli.experiment.new import new
from eyechart.cli.experiment.serve import close, forget, serve, withdraw
from eyechart.cli.experiment.simulate import simulate
from eyechart.cli.experiment.status import status

app = typer.Typer(help="Ask people, in a browser.", no_args_is_help=True)
app.command("new")(new)
app.command("serve")(serve)
app.command("status")(status)
app.command("export")(export)
app.command("close")(close)
app.command("withdraw")(withdraw)
app.command("forget")(forget)
app.command("simulate")(simulate)
