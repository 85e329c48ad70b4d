"""`eyechart train`: networks trained here, on clean and on corrupted pictures."""

import typer

from eyechart.cli.train import enhancements, network, retrain, style, table

app = typer.Typer(help="Train networks, on clean and on corrupted pictures.", no_args_is_help=True)
app.command("network")(network.network)
app.command("style-transfer")(style.style_transfer)
app.command("enhancements")(enhancements.enhancements)
app.command("table")(table.table)
app.command("retrain")(retrain.retrain)
