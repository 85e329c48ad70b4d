"""`eyechart overlap`: which corruptions measure the same, and benchmarks of those that do not.

Every subcommand has a module of its own; here they are put together.
"""

import typer

from eyechart.cli import (
    overlap_benchmarks,
    overlap_calibrate,
    overlap_compare,
    overlap_plot,
    overlap_run,
    overlap_select,
    overlap_tables,
)

app = typer.Typer(
    help="Which corruptions measure the same thing, and benchmarks of those that do not.",
    no_args_is_help=True,
)
app.command("run")(overlap_run.run)
app.command("matrix")(overlap_tables.matrix)
app.command("select")(overlap_select.select)
app.command("plot")(overlap_plot.plot)
app.command("compare")(overlap_compare.compare)
app.command("calibrate")(overlap_calibrate.calibrate)
app.command("balance")(overlap_benchmarks.balance)
app.command("coverage")(overlap_benchmarks.coverage)
