"""Ranks, paired tests and swaps on the report's page against a second computation."""

import re
from itertools import combinations

import numpy as np
import pytest
from scipy.stats import rankdata

from changing import replace
from eyechart.reports.html.report_page import render_report
from eyechart.results.ranking_comparison import fixed_against_continuous, rank_in_ways
from eyechart.results.runs import make_leaderboards, read_run
from eyechart.results.standings import rank_models
from eyechart.scores.registry import SCORES
from nonempty import at_least_one
from report_pages import Page
from report_runs import BLIND, DULL, SHARP
from report_shelf import DASH, Shelf


def boards_of(report):
    return make_leaderboards([read_run(run.folder) for run in report.runs])


def overall_values(shelf, part, standings):
    """The score that models are ranked by, of each model, from results.json."""
    return {
        name: shelf.get(
            f"{shelf.overall(part, name, standings.space, standings.by)}/value"
        )
        for name in standings.board.models
    }  # fmt: skip


def test_ranks_are_those_of_the_scores(any_page):
    report, page = any_page
    shelf = Shelf(report)
    for place, board in at_least_one(enumerate(boards_of(report))):
        standings, table = rank_models(board), page.table(f"leaderboard-{place}")
        values = overall_values(shelf, place, standings)
        if len(values) == 1 or standings.verdict:
            assert "Rank" not in table.heads
            continue
        sign = -1 if SCORES[standings.by].higher_is_better else 1
        ranks = rankdata([sign * own for own in values.values()])
        expected = dict(zip(values, ranks, strict=True))
        column = table.heads.index("Rank")
        shown = []
        for row in table.rows:
            rank, *ends = (float(own.own["value"]) for own in row.cells[column].numbers)
            assert rank == expected[row.model]
            assert tuple(ends) == standings.ranks.intervals[row.model]
            shown.append(rank)
        assert shown == sorted(shown) and len(shown) == len(values)


def p_values_of(standings):
    """p-values of all pairs, in any order of the two, and corrected by Holm's method by hand."""
    own = {frozenset((pair.first, pair.second)): pair.p_value for pair in standings.pairs}
    corrected, largest = {}, 0.0
    for place, (pair, value) in enumerate(sorted(own.items(), key=lambda each: each[1])):
        largest = max(largest, (len(own) - place) * value)
        corrected[pair] = min(1.0, largest)
    return own, corrected


def test_paired_differences_have_their_sign_and_their_p_values(any_page):
    report, page = any_page
    shelf = Shelf(report)
    for place, board in at_least_one(enumerate(boards_of(report))):
        standings = rank_models(board)
        tables = [own for own in page.tables if own.id == f"pairs-{place}"]
        pairs = [] if standings.verdict else list(combinations(board.models, 2))
        assert len(tables) == bool(pairs)
        values, (single, corrected) = (
            overall_values(shelf, place, standings),
            p_values_of(standings),
        )
        drawn = {name: own.replicates for name, own in standings.scores[standings.by].items()}
        seen = []
        for row in tables[0].rows if tables else ():
            first, second = (shelf.names[cell.text] for cell in row.cells[:2])
            pair = frozenset((first, second))
            seen.append(pair)
            found, low, high, p_value, holm = (
                float(own.own["value"]) for own in row.cells[2].numbers + row.cells[3].numbers
                + row.cells[4].numbers
            )  # fmt: skip
            assert found == pytest.approx(values[first] - values[second], abs=1e-12)
            ends = np.quantile(drawn[first] - drawn[second], [0.025, 0.975])
            assert not np.isfinite(ends).all() or [low, high] == pytest.approx(list(ends))
            assert (p_value, holm) == (single[pair], pytest.approx(corrected[pair]))
            assert row.cells[5].text == ("yes" if corrected[pair] < 0.05 else "no")
        assert sorted(map(sorted, seen)) == sorted(map(sorted, pairs))


def test_clearly_ahead_of_names_those_that_are_behind_by_more_than_chance(any_page):
    report, page = any_page
    shelf = Shelf(report)
    for place, board in at_least_one(enumerate(boards_of(report))):
        standings, table = rank_models(board), page.table(f"leaderboard-{place}")
        values, (_, corrected) = overall_values(shelf, place, standings), p_values_of(standings)
        if len(values) == 1 or standings.verdict:
            assert "Significantly ahead of" not in table.heads
            continue
        sign = 1 if SCORES[standings.by].higher_is_better else -1
        order = [row.model for row in table.rows]
        for row in table.rows:
            behind = [
                name
                for name in order
                if name != row.model
                and sign * (values[row.model] - values[name]) > 0
                and corrected[frozenset((row.model, name))] < 0.05
            ]
            assert behind == standings.worse_than(row.model)
            said = row.cells[table.heads.index("Significantly ahead of")].text
            named = [] if said == DASH else re.split(r", | and ", said)
            assert [shelf.names[short] for short in named] == behind


def test_some_models_of_the_pages_are_clearly_ahead_and_some_are_not(made):
    report, _ = made("two runs")
    (standings,) = map(rank_models, boards_of(report))
    assert [len(standings.worse_than(name)) for name in (SHARP, DULL, BLIND)] == [2, 1, 0]
    assert standings.order == [SHARP, DULL, BLIND] != list(standings.board.models)


def test_cells_of_ranks_are_those_of_the_scores_under_each_corruption(made):
    report, page = made("both")
    shelf = Shelf(report)
    table = page.table("ranks-discrete")
    names = [shelf.names[head] for head in table.heads[1:-1]]
    for row in at_least_one(table.rows):
        ways = []
        for suite, field in (
            ("ImageNet-C", "error"),
            ("VCR-Bench", "accuracy/robustness"),
            ("VCR-Bench", "consistency/robustness"),
        ):
            part = shelf.suites[suite]
            corruption = shelf.corruption(part, row.name)
            values = [
                shelf.get(
                    f"{shelf.space(part, name, 'native')}/corruptions/{corruption}/{field}/value"
                )
                for name in names
            ]
            ways.append(rankdata(values if field == "error" else [-own for own in values]))
        for place, cell in enumerate(row.cells[1:-1]):
            shown = [float(own.own["value"]) for own in cell.numbers]
            assert shown == [ranks[place] for ranks in ways]


def mixed(report):
    """The report with models that change places: in R_a the last is first, in R_p the second is."""
    order = {"r_a": (BLIND, DULL, SHARP), "r_p": (DULL, SHARP, BLIND)}
    runs = []
    for run in report.runs:
        scores = dict(run.scores)
        for model, space, corruption, score in run.scores:
            if run.config.suite == "vcr" and score in order and corruption:
                source = (SHARP, DULL, BLIND)[order[score].index(model)]
                scores[model, space, corruption, score] = run.scores[
                    source, space, corruption, score
                ]
        runs.append(replace(run, scores=scores))
    return make_leaderboards(runs)


def test_ranks_that_differ_are_shown_in_the_order_that_the_note_names(made):
    report, _ = made("both")
    boards = mixed(report)
    discrete = fixed_against_continuous(boards)
    errors = [board.overall("native", "error") for board in boards]
    reverse = {SHARP: errors[1][BLIND], DULL: errors[1][DULL], BLIND: errors[1][SHARP]}
    ways = {"imagenet-c": (errors[1], False), "imagenet-noc": (reverse, False)}
    changed = replace(report, discrete=discrete, benchmarks=(rank_in_ways("error", ways),))
    page = Page(render_report(changed))
    short = {own.name: own.short for own in report.models}
    table = page.table("ranks-discrete")
    # by hand: accuracy has SHARP, DULL, BLIND; R_a BLIND, DULL, SHARP; R_p DULL, SHARP, BLIND
    expected = {SHARP: "1 / 3 / 2", DULL: "2 / 2 / 1", BLIND: "3 / 1 / 3"}
    noise, brightness = table.rows
    for name, shown in expected.items():
        assert noise.cells[table.heads.index(short[name])].text == shown
    # they change places three times, once and twice; under brightness all are equal
    assert [row.cells[-1].text for row in (noise, brightness)] == ["6", "0"]
    named = [table.note.index(way) for way in ("ImageNet-C", "Rₐ", "Rₚ")]
    assert named == sorted(named)
    sure = [
        (short[swap.first], short[swap.second])
        for each in discrete.corruptions
        for _, _, swap in each.swaps
        if max(swap.p_values) < 0.05
    ]
    any_name = "|".join(map(re.escape, short.values()))
    said = re.findall(f"({any_name}).*?({any_name})", table.note)
    assert sure and said == sure
    other = page.table("ranks-benchmarks")
    (row,) = other.rows
    expected = {SHARP: "1 / 3", DULL: "2 / 2", BLIND: "3 / 1"}
    for name, shown in expected.items():
        assert row.cells[other.heads.index(short[name])].text == shown
    assert row.name == "Error" and row.cells[-1].text == "3"
