"""Tables of models ranked by fixed and continuous severities, or by two benchmarks."""

from collections.abc import Iterator, Sequence

from markupsafe import Markup

from eyechart.core.phrases import plural
from eyechart.reports.html.cells import compared, count, counted
from eyechart.reports.html.html_table import Column, Table, TableRow, text_columns
from eyechart.reports.series.ranks import swap_sentences
from eyechart.reports.series.report import Report
from eyechart.reports.words import corruption_title
from eyechart.results.ranking_comparison import Rankings
from eyechart.scores.registry import SCORES


def rank_tables(report: Report) -> Iterator[Table]:
    """Yield tables of ranks, where available: ImageNet-C against VCR and against ImageNet-NOC."""
    if report.discrete is not None and report.discrete.corruptions:
        caption = "Ranks by ImageNet-C’s five severities and by continuous visual change (VCR)"
        yield _table(report, report.discrete.corruptions, "ranks-discrete", caption)
    if report.benchmarks:
        caption = "Ranks by ImageNet-C and by ImageNet-NOC, using the same score"
        yield _table(report, report.benchmarks, "ranks-benchmarks", caption)


def _table(report: Report, rankings: Sequence[Rankings], identity: str, caption: str) -> Table:
    short = {model.name: model.short for model in report.models}
    ways = list(dict.fromkeys(way for comparison in rankings for way in comparison.ranks))
    models = list(next(iter(rankings[0].ranks.values())).ranks)
    columns = (
        *text_columns("Corruption" if identity == "ranks-discrete" else "Score"),
        *(Column(short[name]) for name in models),
        Column("Changes", hint="how often two methods rank two models in opposite order"),
    )
    rows = tuple(
        TableRow(
            (
                _title(comparison.subject),
                *(_ranks(comparison, name) for name in models),
                counted(len(comparison.swaps)),
            )
        )
        for comparison in rankings
    )
    sure = list(swap_sentences(rankings, short, title=_title, way_title=_way))
    total = sum(len(comparison.swaps) for comparison in rankings)
    text = Markup(
        "Each cell has the ranks by {}, in this order. {} {} in the order of two models between"
        " two methods; {} of them significant{}"
    )
    examples = ": " + " ".join(sure[:10]) if sure else "."
    changes = (counted(total), plural(total, "change"), counted(len(sure)))
    note = text.format(", ".join(map(_way, ways)), *changes, examples)
    return Table(identity, caption, columns, rows, False, note)


def _title(title: str) -> str:
    return SCORES[title].symbol if title in SCORES else corruption_title(title)


def _way(name: str) -> str:
    return {"R_a": "VCR’s Rₐ", "R_p": "VCR’s Rₚ"}.get(name, name)


def _ranks(rankings: Rankings, model: str) -> Markup:
    cells = [compared(count, ranking.ranks[model]) for ranking in rankings.ranks.values()]
    return Markup(" / ").join(cell.__html__() for cell in cells)
