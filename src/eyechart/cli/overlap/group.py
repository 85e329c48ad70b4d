"""`eyechart overlap`: which corruptions measure the same, and benchmarks of those that do not.

Every subcommand has a module of its own; here they are put together.
"""

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

app = CommandLine(help="Find corruptions that overlap, and benchmarks without.")
app.command("run")(run.run)
app.command("matrix")(tables.matrix)
app.command("select")(select.select)
app.command("plot")(plot.plot)
app.command("compare")(compare.compare)
app.command("calibrate")(calibrate.calibrate)
app.command("balance")(balance.balance)
app.command("coverage")(coverage.coverage)
