"""Scores are declared once: no other module lists them, and all that reads them agrees."""

import ast
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest

import eyechart
from eyechart.results.results_file import csv_columns
from eyechart.scores.registry import (
    BASELINE,
    BY_PROPERTY,
    BY_RELEVANCE,
    CURVE_SCORES,
    DECLARED,
    IN_TERMINAL,
    LEADERBOARD,
    OVERALL,
    RANKED_BY,
    RANKED_ELSEWHERE,
    SCORES,
    find,
)

SOURCE = Path(eyechart.__file__).parent


def names(scores):
    return [score.name for score in scores]


@cache
def literals(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def test_no_other_module_repeats_titles_or_meanings():
    telling = {score.meaning for score in DECLARED} | {"HMRI_a", "MRSI_a", "HMRIₐ"}
    repeating = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if literals(path) & telling
    }
    assert repeating == {"scores/registry.py"}


def test_every_score_has_a_name_a_title_a_symbol_and_a_meaning_of_its_own():
    for field in ("name", "title", "symbol", "meaning"):
        values = [getattr(score, field) for score in DECLARED]
        assert all(values) and len(set(values)) == len(values), field


@pytest.mark.parametrize("score", DECLARED, ids=names(DECLARED))
def test_a_declaration_is_complete(score):
    assert score.of_test or score.record or BASELINE in score.needs
    assert not (score.of_test and score.record)
    assert score.mean == "" or SCORES[score.mean].of_test
    assert score.meaning == score.meaning.strip().rstrip(".")
    assert ("lower is better" in score.meaning) == (not score.higher_is_better)
    assert score.column + (f"_{score.letter}" if score.letter else "") == score.name


def test_leaderboards_cards_and_tables_have_their_published_orders():
    first = ["clean_accuracy", "error", "mce", "relative_mce", "r_a", "r_p"]
    humans = ["hmri_a", "mrsi_a", "hmri_p", "mrsi_p"]
    assert names(LEADERBOARD)[:10] == [*first, *humans]
    assert names(OVERALL)[:8] == ["clean_accuracy", "r_a", "r_p", *humans, "error"]
    curves = ["r_a", "hmri_a", "mrsi_a", "r_p", "hmri_p", "mrsi_p"]
    assert names(CURVE_SCORES) == curves
    in_order = [name for name in names(BY_PROPERTY) if name in (*curves, "error")]
    assert in_order == [*curves, "error"]
    relevant = [name for name in names(BY_RELEVANCE) if name in (*curves, "error")]
    assert relevant == ["hmri_a", "mrsi_a", "r_a", "r_p", "error", "hmri_p", "mrsi_p"]


def test_results_csv_keeps_its_columns():
    assert csv_columns()[:33] == (
        "model", "space", "corruption", "property", "n_samples", "rate", "r", "r_low95", "r_high95",
        "r_low83", "r_high83", "r_bound_low", "r_bound_high", "hmri", "hmri_low95", "hmri_high95",
        "hmri_bound_low", "hmri_bound_high", "mrsi", "mrsi_low95", "mrsi_high95", "scenario",
        "human_reference", "error", "error_low95", "error_high95", "baseline", "ce", "ce_low95",
        "ce_high95", "relative_ce", "relative_ce_low95", "relative_ce_high95",
    )  # fmt: skip
    assert csv_columns()[-2:] == ("note", "trained_on")
    assert len(set(csv_columns())) == len(csv_columns())


def test_suites_name_scores_that_exist():
    named = {name for table in (RANKED_BY, IN_TERMINAL) for own in table.values() for name in own}
    assert named | set(RANKED_ELSEWHERE) <= set(names(LEADERBOARD))


def test_a_path_leads_through_attributes_and_keys():
    record = SimpleNamespace(inner={"fog": 1.5, "snow": None})
    assert find(record, ("inner", "fog")) == 1.5
    assert find(record, ("inner", "frost")) is None
    assert find(record, ("inner", "snow", "value")) is None
    assert find(None, ("inner",)) is None
