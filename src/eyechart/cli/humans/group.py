"""`eyechart humans`: list, import, plot and compare human references."""

from eyechart.cli.humans import areas, place, plot, references, similar
from eyechart.cli.shared.help import CommandLine

app = CommandLine(help="Import, list, compare and draw human references.")
app.command("areas")(areas.areas)
app.command("list")(references.list_references)
app.command("import")(references.import_files)
app.command("plot")(plot.plot)
app.command("place")(place.place_conditions)
app.command("similar")(similar.similar)
app.command("merge")(references.merge_references)
