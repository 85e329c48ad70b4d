"""`eyechart train`: train networks on clean and corrupted images."""

from eyechart.cli.shared.help import CommandLine
from eyechart.cli.train import enhancements, network, retrain, style, table

app = CommandLine(help="Train networks on clean and corrupted images.")
app.command("network")(network.network)
app.command("style-transfer")(style.style_transfer)
app.command("enhancements")(enhancements.enhancements)
app.command("table")(table.table)
app.command("retrain")(retrain.retrain)
