"""All charts of a report, in the order of its page, and their placement."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from eyechart.reports.html.charts.chart import Chart
from eyechart.reports.html.charts.curve_charts import area_charts, curve_charts, human_charts
from eyechart.reports.html.charts.score_charts import (
    index_charts,
    main_score_charts,
    mce_charts,
    rank_charts,
    severity_charts,
)
from eyechart.reports.html.charts.testset_charts import (
    coverage_charts,
    histogram_charts,
    overlap_chart,
)
from eyechart.reports.series.overlap import OverlapPanel
from eyechart.reports.series.palette import dashes_of
from eyechart.reports.series.report import Report


def charts_of(report: Report, overlap: OverlapPanel | None = None) -> tuple[Chart, ...]:
    """Return the charts of a report, including the heat map of `overlap`, with unique ids."""
    return tuple(_with_own_ids(_charts(report, overlap)))


def _charts(report: Report, overlap: OverlapPanel | None) -> Iterator[Chart]:
    # By position among the models of all runs, so that a model has one dash pattern in every chart.
    dashes = dashes_of(dict.fromkeys(name for run in report.runs for name in run.models))
    for index, part in enumerate(report.parts):
        yield from main_score_charts(part, index)
        yield from index_charts(part, index)
        yield from curve_charts(part, index, dashes)
        yield from area_charts(part, index)
        yield from severity_charts(part, index, dashes)
        yield from mce_charts(part, index)
        yield from histogram_charts(report, index)
        yield from coverage_charts(report, index)
    yield from human_charts(report)
    if not report.is_single:
        yield from rank_charts(report)
    if overlap is not None:
        yield overlap_chart(overlap)


def _with_own_ids(charts: Iterable[Chart]) -> Iterator[Chart]:
    """Yield charts with unique ids, even if their names differ only in punctuation."""
    taken: set[str] = set()
    for chart in charts:
        identity, count = chart.id, 1
        while identity in taken:
            count += 1
            identity = f"{chart.id}-{count}"
        taken.add(identity)
        yield replace(chart, id=identity)


class Placing:
    """The charts of a report that are not placed yet."""

    def __init__(self, charts: tuple[Chart, ...]) -> None:
        self._left = list(charts)

    def take(
        self, *kinds: str, part: int | None = None, corruption: str | None = None
    ) -> tuple[Chart, ...]:
        """Return the unplaced charts of these kinds, or all unplaced charts if no kind is given."""
        collected = [
            chart
            for chart in self._left
            if (not kinds or chart.kind in kinds)
            and (part is None or chart.part == part)
            and (corruption is None or chart.corruption == corruption)
        ]
        self._left = [chart for chart in self._left if chart not in collected]
        return tuple(sorted(collected, key=_order))


def _order(chart: Chart) -> tuple[str, int]:
    # Accuracy before consistency, human categories before the models' native classes.
    return chart.property, 0 if chart.space == "entry16" else 1
