"""`eyechart report`: what it writes, where, and what it refuses in a sentence."""

import json
import shutil

import pytest

from commands import assert_rejected
from report_runs import (
    CORRUPTIONS,
    MODELS,
    SHARP,
    chosen,
    evaluate,
    human_run,
    levels_run,
    make_once,
    save_hues,
)
from small_models import save_images


@pytest.fixture(scope="module")
def vcr(tmp_path_factory):
    return make_once(tmp_path_factory, human_run)


@pytest.fixture(scope="module")
def levels(tmp_path_factory):
    return make_once(tmp_path_factory, levels_run)


@pytest.fixture
def copy(vcr, tmp_path):
    """A copy of the run that a test may spoil."""
    return shutil.copytree(vcr, tmp_path / "copy", ignore=shutil.ignore_patterns("predictions"))


def spoil(run, **changes):
    path = run / "results.json"
    found = json.loads(path.read_text("utf-8"))
    found.update(changes)
    path.write_text(json.dumps(found))
    return run


def test_the_page_of_one_run_lies_in_its_folder(run, copy):
    done = run("report", copy)
    assert done.status == 0
    assert done.out.split() == ["Written:", str(copy / "report.html")]
    text = (copy / "report.html").read_text("utf-8")
    assert text.startswith("<!doctype html>") and all(name in text for name in MODELS)
    assert run("report", copy).status == 0  # its own report may be written again


def test_runs_of_two_suites_share_a_page(run, vcr, levels, tmp_path):
    assert run("report", vcr, levels, "--out", tmp_path / "both.html").status == 0
    text = (tmp_path / "both.html").read_text("utf-8")
    assert "VCR-Bench" in text and "ImageNet-C" in text


def test_a_model_card_is_asked_for_by_format_or_by_ending(run, copy, tmp_path):
    assert run("report", copy, "--format", "md").status == 0
    assert run("report", copy, "-o", tmp_path / "card.md").status == 0
    card = (copy / "report.md").read_text("utf-8")
    assert card.startswith("---\n") and "model-index:" in card
    assert card == (tmp_path / "card.md").read_text("utf-8")


def test_figures_come_besides_the_page(run, tmp_path):
    images = save_images(tmp_path / "photos", each=2)
    one = ("--corruption", "brightness", "--n", 20)
    small = evaluate(images, tmp_path / "run", *one, models=("small_models:colors",))
    done = run("report", small, "--figures", tmp_path / "figures")
    assert done.status == 0 and (small / "report.html").exists()
    assert "Note: No areas" in done.out
    names = {path.suffix for path in (tmp_path / "figures").iterdir()}
    assert {".svg", ".pdf"} <= names


def test_a_category_that_is_given_is_shown(run, copy):
    assert run("report", copy, "--category", f"{SHARP}=vit").status == 0
    assert "Vision transformer" in (copy / "report.html").read_text("utf-8")


def test_an_overlap_table_is_shown_as_a_heat_map(run, copy, tmp_path):
    (tmp_path / "overlap.csv").write_text(",fog,snow\nfog,1,0.2\nsnow,0.2,1\n")
    assert run("report", copy, "--overlap", tmp_path / "overlap.csv").status == 0
    assert "heatmap" in (copy / "report.html").read_text("utf-8").split("chart-specs")[1]


# What is refused


def test_results_of_another_schema_are_rejected(run, copy):
    rejected = run("report", spoil(copy, schema=2))
    assert_rejected(rejected, "another version of eyechart (schema 2, not 1)")
    assert not (copy / "report.html").exists()


def test_an_empty_run_is_rejected(run, tmp_path, copy):
    (tmp_path / "nothing").mkdir()
    assert_rejected(run("report", tmp_path / "nothing"), "has no finished run")
    assert_rejected(run("report", tmp_path / "nowhere"), "has no finished run")
    assert_rejected(run("report", spoil(copy, models=[])), "has a run without any model")


def test_a_run_that_was_stopped_is_rejected(run, copy):
    (copy / "results.json").unlink()
    assert_rejected(run("report", copy), "has no finished run")


def test_runs_on_different_images_are_rejected(run, vcr, tmp_path):
    images = save_hues(tmp_path / "photos", each=3)
    other = evaluate(images, tmp_path / "other", "--n", 30, *chosen("vcr"), models=MODELS[:1])
    assert_rejected(run("report", vcr, other), "only models tested on the same images")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--format", "pdf"), "Unknown format 'pdf'"),
        (("--out", "report.pdf"), "must end in .html or .md"),
        (("--out", "report"), "must end in .html or .md"),
        (("--format", "md", "--overlap", "overlap.csv"), "--overlap applies to html"),
        (("--serve", "--overlap", "overlap.csv"), "--serve writes no files"),
        (("--out", "report.html", "--format", "md"), "ending in .md"),
        (("--out", "no-such-folder/report.html"), "No such folder"),
        (("--category", "ViT"), "must be MODEL=CATEGORY"),
        (("--category", "nobody=ViT"), "no model named nobody"),
        (("--category", f"{SHARP}=vti"), "Unknown category 'vti'"),
        (("--port", 8000), "need --serve"),
        (("--images", "photos"), "need --serve"),
        (("--serve", "--out", "report.html"), "--serve writes no files"),
        (("--serve", "--port", 70000), "must be from 0 to 65535"),
        (("--overlap", "no-such.csv"), "no-such.csv"),
    ],
)
def test_what_makes_no_sense_is_rejected(run, copy, monkeypatch, tmp_path, arguments, says):
    monkeypatch.chdir(tmp_path)
    assert_rejected(run("report", copy, *arguments), says)
    assert not list(tmp_path.glob("report.*"))


def test_a_file_of_somebody_else_is_never_overwritten(run, copy, tmp_path):
    for name in ("thesis.html", "notes.md"):
        (tmp_path / name).write_text("mine")
        assert_rejected(run("report", copy, "-o", tmp_path / name), "is not an eyechart report")
        assert (tmp_path / name).read_text() == "mine"


def test_a_link_is_never_replaced(run, copy, tmp_path):
    (tmp_path / "link.html").symlink_to(tmp_path / "nothing.html")
    assert_rejected(run("report", copy, "-o", tmp_path / "link.html"), "is not an eyechart report")
    assert (tmp_path / "link.html").is_symlink()


def test_a_run_that_cannot_be_read_is_said_before_anything_else(run, copy, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "report.html").write_text("mine")
    assert_rejected(run("report", copy, tmp_path), "has no finished run")


def test_runs_are_needed(run):
    assert_rejected(run("report"), "RUN")


def test_all_corruptions_of_a_run_are_in_the_card(run, copy):
    run("report", copy, "--format", "md")
    card = (copy / "report.md").read_text("utf-8").lower()
    assert all(name.replace("_", " ") in card for name in CORRUPTIONS["vcr"])
