"""Scores under corruptions that a model was trained on are marked wherever shown; no others."""

import csv
import json
import re
import shutil
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest
import yaml

from eyechart.cli.app import main
from eyechart.corruptions.suites.suite import load_suite, parse_suite
from eyechart.models.checkpoint import Checkpoint, write_checkpoint
from eyechart.pipeline.scoring.caveats import MARK, MEANING, met_in_training
from eyechart.reports.figures.error_figure import plan_error_tables
from eyechart.reports.html.report_page import render_report
from eyechart.reports.series.report import load_report
from eyechart.reports.terminal.model_card import card_of
from eyechart.results.results_file import read_results
from report_pages import OWN_SUITE, Page, make_page
from report_runs import BLIND, DULL, SHARP, SMALL, dull_hues, make_once, save_hues

NOISE, SHOT, SALT = "vcr/gaussian_noise", "vcr/shot_noise", "vcr/impulse_noise"
TITLES = {NOISE: "Gaussian noise", SHOT: "Shot noise", SALT: "Impulse noise"}
SUITE = f"""
name: three
title: Three of VCR's
source: VCR
corruptions: [{{same_as: "vcr:{NOISE}"}}, {{same_as: "vcr:{SHOT}"}}, {{same_as: "vcr:{SALT}"}}]
"""


# Which corruptions count


def met(suite, *trained_on):
    return list(met_in_training(load_suite(suite), trained_on))


@pytest.mark.parametrize(
    ("suite", "trained_on", "counting"),
    [
        ("vcr", "vcr/median_blur", ["vcr/median_blur"]),
        ("vcr", "gaussian_noise", ["vcr/gaussian_noise"]),
        ("imagenet-c", "vcr/gaussian_noise", ["gaussian_noise"]),
        # other code, the same name
        ("imagenet-c", "vcr/frost", ["frost"]),
        ("noc-candidates", "contrast", ["noc/contrast"]),
        # another name, the same code
        ("noc-candidates", "impulse_noise", ["noc/salt_pepper"]),
        # not alike enough
        ("noc-candidates", "gaussian_noise", []),
        ("vcr", "nobody/knows", []),
    ],
)
def test_a_corruption_counts_by_its_name_in_any_suite_or_by_its_function(
    suite, trained_on, counting
):
    assert met(suite, trained_on) == counting


def test_without_training_nothing_counts():
    assert met("vcr") == []


def test_a_corruption_of_ones_own_suite_counts_by_name_and_by_what_makes_it():
    own = parse_suite(OWN_SUITE, "own")
    assert met_in_training(own, ["film_noise"]) == ("film_noise",)
    assert met_in_training(own, ["vcr/gaussian_noise"]) == ("film_noise",)
    # of a name that nobody knows elsewhere, only the test itself can say what it is
    assert met_in_training(load_suite("vcr"), ["film_noise"]) == ()


# A run of a model that was trained on one corruption of three, and one that was not


def trained_run(home: Path) -> Path:
    """Three models in a suite of three, one trained on ImageNet-C's Gaussian noise."""
    folder = home / "trained"
    images = save_hues(folder / "photos", each=4)
    checkpoint, suite = folder / "trained.pt", folder / "three.yaml"
    suite.write_text(SUITE)
    held = Checkpoint("", DULL, (), ("gaussian_noise", "vcr/frost"), dull_hues.state_dict())
    write_checkpoint(held, checkpoint)
    asked = ("--images", images, "--n", 90, "--suite", suite, "--baseline", BLIND, *SMALL)
    words = ("evaluate", SHARP, BLIND, checkpoint, "--trust", *asked, "--out", folder / "run")
    said = StringIO()
    with pytest.raises(SystemExit) as stop, redirect_stdout(said):
        main([str(word) for word in words])
    assert stop.value.code == 0
    (folder / "run" / "said.txt").write_text(said.getvalue())
    return folder / "run"


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    return make_once(tmp_path_factory, trained_run)


@pytest.fixture(scope="module")
def report(out):
    return load_report([out])


@pytest.fixture(scope="module")
def page(report):
    return Page(render_report(report))


def test_results_say_what_a_model_was_trained_on_and_what_of_the_test_that_is(out):
    *others, trained = read_results(out).models
    assert len(others) == 2 and all(own.trained_on == own.marked == () for own in others)
    assert trained.trained_on == ("gaussian_noise", "vcr/frost")
    assert trained.marked == (NOISE,)


def test_the_table_of_results_says_it_line_by_line(out):
    with (out / "results.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    said = {(Path(row["model"]).stem, row["corruption"]): row["trained_on"] for row in rows}
    assert {key for key, own in said.items() if own == "yes"} == {("trained", NOISE)}
    assert set(said.values()) == {"yes", "no"} and len(said) == 9


def test_the_terminal_marks_the_corruption_and_the_mean_and_says_why(out):
    lines = (out / "said.txt").read_text("utf-8").splitlines()
    assert sum(line.startswith(" ") and MARK in line for line in lines) >= 5
    starts = [number for number, line in enumerate(lines) if ", clean accuracy " in line]
    parts = [lines[a:b] for a, b in zip(starts, [*starts[1:], len(lines)], strict=True)]
    for part in parts:
        rows = [line for line in part if re.match(r" +(vcr/|mean)", line)]
        with_mark = {line.split()[0] for line in rows if line.split()[1] == MARK}
        assert with_mark == ({NOISE, "mean"} if "trained.pt" in part[0] else set())
        assert len(rows) >= 4
    (note,) = [line for line in lines if line.startswith(f"Note: {MARK}") and "means" in line]
    assert "trained.pt was trained on vcr/gaussian_noise: its scores there" in note


def test_the_leaderboard_marks_the_model(out, run, tmp_path):
    result = run("compare", out, "--out", tmp_path / "board")
    assert result.status == 0, result.err
    assert f"trained {MARK}" in result.out and f"sharp_hues {MARK}" not in result.out
    assert f"Note: {MARK}" in result.out and "trained on vcr/gaussian_noise" in result.out
    with (tmp_path / "board" / "leaderboard.csv").open(newline="", encoding="utf-8") as file:
        found = {Path(row["model"]).stem: row["trained_on"] for row in csv.DictReader(file)}
    assert sorted(found.values()) == ["", "", NOISE] and found["trained"] == NOISE


# The page


def has_mark(cell):
    marks = cell.all("abbr", kind="trained")
    assert len(marks) <= 1 and all(own.own["title"] == MEANING for own in marks)
    assert (MARK in cell.text) == bool(marks)
    return bool(marks)


def test_the_page_marks_every_score_of_that_model_under_that_corruption(page):
    tables = [table for table in page.tables if table.id.startswith("overview-")]
    assert len(tables) >= 6
    for table in tables:
        assert table.note == f"{MARK} {MEANING}."
        for row in table.rows:
            for head, cell in zip(table.heads[1:], row.cells[1:], strict=True):
                trained = head == "trained" and (row.name == TITLES[NOISE] or row.is_total)
                assert has_mark(cell) == (trained and bool(cell.numbers)), (table.id, row.name)


def test_the_page_marks_corruption_errors_and_their_mean(page):
    tables = [table for table in page.tables if "ce-0-" in table.id]
    assert len(tables) >= 2
    for table in tables:
        assert MEANING in table.note
        (row,) = [row for row in table.rows if row.name == "trained"]
        marked = {head for head, cell in zip(table.heads, row.cells, strict=True) if has_mark(cell)}
        assert marked == {"Gaussian", table.heads[2]} and "mCE" in table.heads[2]
        others = [cell for own in table.rows if own is not row for cell in own.cells]
        assert others and not any(map(has_mark, others))


def test_the_page_marks_means_on_the_leaderboard_but_not_clean_accuracy(page):
    table = page.table("leaderboard-0")
    assert MEANING in table.note
    for row in table.rows:
        for head, cell in zip(table.heads, row.cells, strict=True):
            is_mean = head not in ("Model", "Rank", "Clean accuracy", "Significantly ahead of")
            assert has_mark(cell) == (row.name == "trained" and is_mean), head


def test_verdict_panel_and_provenance_say_it_in_words(page):
    said = {own.own["data-verdict"]: own.text for own in page.root.all("li", kind="verdict")}
    assert "It was trained on 1 of the 3 corruptions, Gaussian noise" in said.pop(
        next(name for name in said if name.endswith("trained.pt"))
    )
    assert "trained" not in " ".join(said.values())
    panels = {own.all("h4")[0].text: own.text for own in page.root.all("article", kind="panel")}
    assert f"{MARK} trained: {MEANING}." in panels[TITLES[NOISE]]
    assert MARK not in panels[TITLES[SHOT]] + panels[TITLES[SALT]]
    models = page.table("models-0")
    assert [row.cells[-1].text for row in models.rows] == ["–", "–", "gaussian_noise, vcr/frost"]


def test_the_model_card_marks_rows_and_means_and_tells_other_tools(report):
    card = card_of(report)
    front, _, body = card.removeprefix("---\n").partition("---\n")
    results = {own["name"]: own["results"] for own in yaml.safe_load(front)["model-index"]}
    told = {name: own[0]["dataset"]["args"]["trained_on"] for name, own in results.items()}
    assert told == {SHARP: [], BLIND: [], "trained": [NOISE]}
    heading, blocks = "", {}
    for line in body.splitlines():
        heading = line if line.startswith("### ") else heading
        blocks.setdefault(heading, []).append(line)
    own = [lines for title, lines in blocks.items() if title.startswith("### trained,")]
    assert own
    for lines in own:
        rows = [line.split(" | ")[0].strip("| ") for line in lines if line.startswith("| ")]
        assert [name for name in rows if MARK in name] == [f"{TITLES[NOISE]} {MARK}"]
        assert f"{MARK} {MEANING}." in lines
    for title, lines in blocks.items():
        if "hues" in title and ", three" in title:
            assert MARK not in "".join(lines)


def test_latex_tables_carry_a_dagger(report):
    for plan in plan_error_tables(report):
        lines = plan.make().splitlines()
        (row,) = [line for line in lines if line.startswith("trained &")]
        assert row.count(r"$^\dagger$") == 2
        assert sum(r"$^\dagger$" in line for line in lines) == 2 and MEANING in "".join(lines[:3])


# Where nothing was trained on


def test_pages_on_models_of_which_nothing_is_known_have_no_mark(tmp_path_factory):
    report, page = make_page(tmp_path_factory, "humans")
    assert MARK not in page.text and MEANING not in page.text
    assert MARK not in card_of(report)


def test_runs_from_before_there_were_marks_can_still_be_read(out, tmp_path):
    shutil.copytree(out, tmp_path / "old")
    path = tmp_path / "old" / "results.json"
    found = json.loads(path.read_text("utf-8"))
    for model in found["models"]:
        del model["trained_on"], model["marked"]
    found["warnings"] = []
    path.write_text(json.dumps(found))
    assert all(own.marked == () for own in read_results(tmp_path / "old").models)
    assert MARK not in Page(render_report(load_report([tmp_path / "old"]))).text
