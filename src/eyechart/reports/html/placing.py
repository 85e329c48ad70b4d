"""Which chart stands where: each is taken once, and what nobody asks for comes at the end."""

from eyechart.reports.html.charts.chart import Chart


class Placing:
    """The charts of a report that have no place yet."""

    def __init__(self, charts: tuple[Chart, ...]) -> None:
        self._left = list(charts)

    def take(
        self, *kinds: str, part: int | None = None, corruption: str | None = None
    ) -> tuple[Chart, ...]:
        """Return the charts of some kinds (of any, if none is named) that have no place yet."""
        found = [
            chart
            for chart in self._left
            if (not kinds or chart.kind in kinds)
            and (part is None or chart.part == part)
            and (corruption is None or chart.corruption == corruption)
        ]
        self._left = [chart for chart in self._left if chart not in found]
        return tuple(sorted(found, key=_order))


def _order(chart: Chart) -> tuple[str, int]:
    # accuracy before consistency, people's categories before the models' own classes
    return chart.property, 0 if chart.space == "entry16" else 1
