"""`eyechart overlap`: corruptions that overlap, and benchmarks without overlap."""

from eyechart.cli.overlap import (
    balance,
    calibrate,
    compare,
    coverage,
    plot,
    run,
    select,
    tables,
)
from eyechart.cli.shared.help import CommandLine

app = CommandLine(help="Find corruptions that overlap, and benchmarks without overlap.")
app.command("run")(run.run)
app.command("matrix")(tables.matrix)
app.command("select")(select.select)
app.command("plot")(plot.plot)
app.command("compare")(compare.compare)
app.command("calibrate")(calibrate.calibrate)
app.command("balance")(balance.balance)
app.command("coverage")(coverage.coverage)
