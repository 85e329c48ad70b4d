"""How a score is written is declared once: with other decimals all that prints it has those."""

import re
from io import StringIO

import numpy as np
import pytest
from matplotlib.text import Text
from rich.console import Console

from changing import replace
from eyechart.reports.figures import curve_figures, error_figure, score_figures
from eyechart.reports.figures.paper_style import paper_style
from eyechart.reports.html.report_page import charts_of, render_report
from eyechart.reports.latex import tex
from eyechart.reports.series.curves import area_panels_of
from eyechart.reports.series.model_errors import errors_of
from eyechart.reports.series.model_scores import rank_panels
from eyechart.reports.terminal.leaderboard import board_tables
from eyechart.reports.terminal.model_card import card_of
from eyechart.reports.terminal.result_tables import tables
from eyechart.reports.terminal.retraining_tables import (
    BeforeAfter,
    RetrainedRow,
    retrained_cells,
    retrained_latex,
)
from eyechart.scores.registry import DECLARED, SCORES, Score
from nonempty import at_least_one
from report_pages import Page

NOISE = "vcr/gaussian_noise"
SHARE, PERCENT = 5, 4
"""Decimals that nothing has unless it reads the declaration."""


@pytest.fixture
def many_decimals(monkeypatch):
    """Scores are declared with more decimals."""
    decimals = property(lambda score: PERCENT if score.is_percent else SHARE)
    monkeypatch.setattr(Score, "decimals", decimals)


@pytest.fixture
def report(made, many_decimals):
    """Runs of VCR, next to humans, and of ImageNet-C."""
    return made("both")[0]


@pytest.fixture
def farthest(report):
    """The model that is farthest behind humans under Gaussian noise."""
    return min(report.sections[0].models, key=lambda model: next_to_humans(model).hmri.value)


def next_to_humans(model):
    return model.space("entry16").corruptions[NOISE].accuracy.humans


def is_only_written_so(value, decimals, text):
    """Whether a number stands in a text with so many decimals, and nowhere with two or three."""
    shown = {n: rf"(?<![\d.]){re.escape(f'{value:.{n}f}')}(?!\d)" for n in (2, 3, decimals)}
    assert re.search(shown.pop(decimals), text), f"{value} is not there with {decimals} decimals"
    return not any(re.search(pattern, text) for pattern in shown.values())


def printed(shown):
    """The text of tables in a terminal that is wide enough for all."""
    console = Console(file=StringIO(), width=400, color_system=None)
    for table in shown:
        console.print(table)
    return console.file.getvalue()


def words_of(figure):
    return "\n".join(own.get_text() for own in figure.findobj(Text))


@pytest.mark.parametrize("score", DECLARED, ids=lambda score: score.name)
def test_a_score_is_in_percent_with_one_decimal_or_a_share_with_three(score):
    assert score.text(0.123456) == ("12.3" if score.is_percent else "0.123")
    assert score.text(0.123456, is_short=True) == ("12" if score.is_percent else "0.12")
    assert score.text(0.123456, is_signed=True).startswith("+")
    assert not score.text(-1e-6).startswith("-")


def test_every_score_of_the_pages_tables_has_the_declared_decimals(report):
    page = Page(render_report(report))
    seen = 0
    for table in at_least_one(page.tables):
        if not re.match(r"(overview|bounds|leaderboard|similar|(relative-)?ce)-", table.id):
            continue
        for number in table.node.numbers:
            decimals = len(number.text.partition(".")[2])
            # ranks and what is counted have none
            assert decimals in (0, SHARE, PERCENT), (table.id, number.text)
            seen += decimals > 0
    assert seen > 100


def test_charts_and_figures_write_a_score_alike(report, farthest):
    charts = charts_of(report)
    of_noise = [chart for chart in charts if chart.corruption == NOISE and chart.property == "a"]
    texts = {chart.kind: f"{chart.alt} {chart.spec}" for chart in of_noise}
    comparison = next_to_humans(farthest)
    human, hmri = comparison.areas.human, comparison.hmri.value
    (part, _) = report.sections
    panels = area_panels_of(part, farthest)
    with paper_style():
        areas = words_of(curve_figures.draw_areas(panels))
        bars = words_of(score_figures.draw_human_index(part, "entry16", NOISE))
    for text in (texts["areas"], areas):
        assert is_only_written_so(human, SHARE, text) and is_only_written_so(hmri, SHARE, text)
    for text in (texts["human-index"], bars):
        assert is_only_written_so(hmri, SHARE, text)
    assert is_only_written_so(human, SHARE, texts["curves"])


def test_ranked_scores_are_written_alike_by_the_page_and_the_figure(report):
    (panel, *_) = rank_panels(report)
    (chart, *_) = [chart for chart in charts_of(report) if chart.kind == "ranks"]
    with paper_style():
        figure = words_of(score_figures.draw_ranks(panel))
    hovers = [bar["customdata"][0] for bar in chart.spec["data"] if bar["type"] == "bar"]
    values = [panel.score(way, model).value for way in panel.ways for model in panel.models]
    assert hovers == [f"{value:.{SHARE}f}" for value in values] != []
    assert all(f"{hover} (" in figure for hover in hovers)


def test_errors_in_percent_have_the_decimals_of_their_mean(report):
    part = report.sections[1]
    rows = errors_of(part)
    error = next(iter(rows[0].errors.ce.values())).value
    lines = error_figure.error_table(part.suite, rows, False).splitlines()
    (line,) = [line for line in lines if line.startswith(tex(rows[0].model.short))]
    # a table of many corruptions has one decimal fewer
    assert f"{100 * error:.{PERCENT - 1}f}" in line
    assert f"& {100 * rows[0].clean_error:.{PERCENT}f} &" in line
    points = [
        replace(row, errors=replace(row.errors, mce=next(iter(row.errors.ce.values()))))
        for row in rows
    ]
    assert f"{100 * error:.{PERCENT}f} " in error_figure.error_table(part.suite, points, False)


def test_terminal_card_and_notebook_write_scores_as_declared(report, farthest):
    results, standings = report.runs[0].results, report.sections[0].standings
    shown = list(tables(results, 400))
    in_terminal = printed(table for _, several in shown for table in several)
    assert is_only_written_so(next_to_humans(farthest).hmri.value, SHARE, in_terminal)
    clean = results.models[0].spaces["native"].clean_accuracy.value
    assert shown[0][0].endswith(f"clean accuracy {clean:.{SHARE}f}")
    overall = standings.scores[standings.by][standings.order[0]].value
    for text in (printed(board_tables(standings, 400)), card_of(report)):
        assert is_only_written_so(overall, SHARE, text)
    first = results.models[0].scores["r_a"].value
    assert is_only_written_so(first, SHARE, results._repr_html_())


def test_tables_of_retrainings_write_scores_as_declared(many_decimals):
    changed = {"r_a": BeforeAfter(0.1234567, 0.7654321, True)}
    rows = [RetrainedRow("net", "native", NOISE, changed)]
    assert retrained_cells(rows)[0][2:] == ["0.12346", "0.76543"]
    assert r"0.12346 & \textbf{0.76543}" in retrained_latex(rows)


def test_a_difference_that_rounds_to_nothing_has_no_minus():
    assert SCORES["r_a"].text(-0.0001, is_signed=True) == "+0.000"
    assert SCORES["relative_mce"].text(np.float64(-0.0001)) == "0.0"
