"""Options of a comparison with humans: density, definition of visual change, clean responses."""

import json
import shutil
from contextlib import redirect_stdout
from io import StringIO

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

import eyechart as ec
import small_models
from commands import assert_rejected
from eyechart.cli.app import main
from eyechart.humans.human_responses import CLEAN, make_responses, write_responses
from eyechart.images.labels.imagenet import wordnet_ids
from eyechart.pipeline.scoring.caveats import unusual_settings
from eyechart.scores.scoring import Fit
from eyechart.stats.density import UNIFORM, Density, to_density
from eyechart.testsets.plan import Plan
from eyechart.visual_change.registry import find_ruler
from small_models import save_images

MODELS = ("small_models:thousand", "small_models:Blocks()")
SMALL = {"n": 60, "bins": 9, "min_per_bin": 3, "n_bootstrap": 20, "stimulus": "native"}
OPTIONS = tuple(
    word for name, value in SMALL.items() for word in (f"--{name.replace('_', '-')}", value)
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Cats and dogs, two of humans' 16 categories."""
    home = tmp_path_factory.mktemp("classes") / "photos"
    save_images(home, each=2, tints=("blue", "green"))
    for tint, place in (("blue", 281), ("green", 207)):
        (home / tint).rename(home / wordnet_ids()[place])
    return home


@pytest.fixture(scope="module")
def humans(tmp_path_factory):
    """Humans whose consistency depends on the clean responses it is measured against.

    Everybody calls clean images cats, and corrupted ones dogs. The file says that the same humans
    called the clean images dogs: by "given" they are always consistent, by others' never. Accuracy
    falls as 1 − Δv.
    """
    images, each = 400, 3
    change = (np.arange(images) + 0.5) / images
    names = np.char.add("p", np.arange(images).astype(str))
    evenly = np.arange(images) * (5**0.5 - 1) / 2 % 1
    predictions = make_responses(
        images + each * images,
        source="simple",
        choices=16,
        label_space="entry16",
        corruption=np.r_[np.full(images, "gaussian_noise"), np.full(each * images, CLEAN)],
        subject=np.r_[np.full(images, "x"), np.repeat(["ann", "bob", "eve"], images)],
        image=np.r_[names, np.tile(names, each)],
        response=np.r_[np.full(images, "dog"), np.full(each * images, "cat")],
        clean_response=np.r_[np.full(images, "dog"), np.full(each * images, "")],
        correct=np.r_[evenly < 1 - change, np.ones(each * images)],
        delta_v=np.r_[change, np.zeros(each * images)],
    )
    path = tmp_path_factory.mktemp("humans") / "simple.parquet"
    write_responses(path, predictions)
    return path


def words(folder, humans, out, *arguments, models=MODELS[:1]):
    told = ("--images", folder, "--out", out, "--humans", humans, *OPTIONS)
    return ("evaluate", *models, *told, "--corruption", "gaussian_noise", *arguments)


def finish(*given, **models) -> str:
    """Evaluate to the end and return what was printed."""
    with pytest.raises(SystemExit) as stop, redirect_stdout(StringIO()) as printed:
        main([str(word) for word in words(*given, **models)])
    assert stop.value.code == 0
    return printed.getvalue()


@pytest.fixture(scope="module")
def first(folder, humans, tmp_path_factory):
    """A finished run with the usual settings, and what it printed."""
    out = tmp_path_factory.mktemp("runs") / "first"
    return out, finish(folder, humans, out, models=MODELS)


@pytest.fixture(scope="module")
def second(folder, humans, first, tmp_path_factory):
    """The predictions of the first run, scored with other options."""
    out = tmp_path_factory.mktemp("runs") / "second"
    shutil.copytree(first[0], out)
    options = ("--density", "beta:2,5", "--clean-responses", "majority")
    finish(folder, humans, out, *options, models=MODELS)
    return out


@pytest.fixture
def evaluate(run, folder, humans, tmp_path):
    def call(*arguments):
        return run(*words(folder, humans, tmp_path / "out", *arguments)), tmp_path / "out"

    return call


def saved(out) -> dict:
    return json.loads((out / "results.json").read_text())


def in_categories(results: dict) -> dict:
    return results["models"][0]["spaces"]["entry16"]["corruptions"]["vcr/gaussian_noise"]


# Densities


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("uniform", None),
        ("beta:2,5", Density.beta(2, 5)),
        ("0,1,1", [0, 2, 2]),
        ("weights:1,3", [0.5, 1.5]),
        ("7", UNIFORM),
    ],
)
def test_a_density_typed_is_the_density_built_and_has_one_name(text, given):
    typed, built = to_density(text), to_density(given)
    assert typed == built and typed.identity == built.identity
    assert to_density(typed.identity) == typed


def test_densities_without_a_name_are_told_apart_by_their_pieces():
    one, same, other = (to_density(each) for each in (np.square, lambda v: v * v, np.sqrt))
    assert one.identity == same.identity != other.identity


@pytest.mark.parametrize(
    "wrong", ["beta:2", "beta:2,x", "flat", "", "1,,2", "beta:0,1", "0,0", "nan,1"]
)
def test_what_is_no_density_is_rejected(wrong):
    with pytest.raises(ec.UsageError, match="density"):
        Fit(density=wrong).check()


def test_density_on_the_command_line_weights_the_areas_of_both(second, folder, humans):
    results = saved(second)
    assert results["config"]["fit"]["density"] == "beta:2,5"
    comparison = in_categories(results)["accuracy"]["humans"]
    # humans fall as 1 − Δv, and the mean of Beta(2, 5) is 2/7
    assert comparison["areas"]["human"] == pytest.approx(1 - 2 / 7, abs=0.04)
    found = ec.evaluate(
        small_models.thousand, folder, humans=str(humans), corruptions=["gaussian_noise"],
        density=Density.beta(2, 5), **SMALL,
    )  # fmt: skip
    own = found.models[0].space("entry16")["vcr/gaussian_noise"].accuracy
    assert own.humans.areas.human == pytest.approx(comparison["areas"]["human"], abs=1e-12)
    assert found.config.fit.density == "beta:2,5"


def test_a_wrong_option_is_rejected_before_anything_is_written(evaluate):
    for option, wrong, says in (
        ("--density", "beta:2", "beta:A,B"),
        ("--ruler", "vfi", "Did you mean 'vif'"),
        ("--clean-responses", "most", "majority"),
    ):
        result, out = evaluate(option, wrong)
        assert_rejected(result, says)
        assert not out.exists()


# Clean responses


def test_the_clean_responses_that_consistency_is_measured_against_can_be_chosen(first, second):
    """Of this file it is "given" where nothing is said."""
    areas = [
        in_categories(saved(out))["consistency"]["humans"]["areas"]["human"]
        for out in (first[0], second)
    ]
    assert areas[0] == pytest.approx(1, abs=1e-6) and areas[1] < 0.2
    assert saved(first[0])["config"]["clean_responses"] is None
    assert saved(second)["config"]["clean_responses"] == "majority"


# The leaderboard


def test_the_leaderboard_has_consistency_compared_with_humans(first, run):
    out, printed = first
    found = run("compare", out)
    assert found.status == 0, found.err
    value = in_categories(saved(out))["consistency"]["humans"]["hmri"]["value"]
    for text in (printed[printed.index("not ranked, sorted by") :], found.out):
        titles = [line.split() for line in text.splitlines() if "HMRI_p" in line]
        assert titles and any("MRSI_p" in line for line in text.splitlines())
        assert f"{value:.3f}" in text


# Definitions of visual change


@pytest.fixture(scope="module")
def sheikh(folder, humans, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "sheikh"
    return out, finish(folder, humans, out, "--ruler", "sheikh2006", "--sampling", "parameters")


def test_another_definition_measures_otherwise_and_has_no_humans(sheikh, folder):
    out, printed = sheikh
    drawn = ec.sample_testset(
        folder, n=60, stimulus="native", corruptions=["gaussian_noise"], ruler="sheikh2006"
    ).table.to_pydict()  # fmt: skip
    wanted = [
        v for v, name in zip(drawn["delta_v"], drawn["corruption"], strict=True) if "/" in name
    ]
    (file,) = (out / "predictions").glob("*gaussian_noise*.parquet")
    assert pq.read_table(file)["delta_v"].to_pylist() == pytest.approx(wanted, abs=1e-6)
    own = in_categories(saved(out))["accuracy"]
    assert own["humans"] is None and own["robustness"] is not None
    sentence = "human responses have visual changes measured by vif, but this test uses"
    assert sentence in own["human_note"] and sentence in printed
    assert "Visual change is measured by sheikh2006, not by vif." in printed


def test_settings_that_make_scores_incomparable_are_printed(first):
    """The usual run says nothing; each other setting has a sentence, in the results too."""
    assert list(unusual_settings(Plan(), Fit())) == []
    warnings = ec.load(first[0]).warnings
    assert not any("measured by" in text or "weighted by" in text for text in warnings)
    plan = Plan(suite="imagenet-noc@paper", ruler="sheikh2006")
    lines = list(unusual_settings(plan, Fit(density="beta:2,2")))
    assert len(lines) == 3
    for line, word in zip(lines, ("sheikh2006", "beta:2,2", "imagenet-noc@paper"), strict=True):
        assert word in line


def test_scores_by_two_definitions_are_never_put_together(sheikh, first, evaluate, run):
    runs = sheikh[0], first[0]
    assert_rejected(run("compare", *runs), "different rulers", "sheikh2006", "--ruler")
    assert_rejected(run("report", *runs), "different rulers", "sheikh2006")
    told, other = evaluate("--suite", "imagenet-c")
    assert told.status == 0, told.err
    assert_rejected(run("compare", sheikh[0], other), "sheikh2006")


def test_a_run_by_another_ruler_is_not_resumed(folder, humans, first, run):
    words_of_run = words(folder, humans, first[0], "--ruler", "sheikh2006", models=MODELS)
    assert_rejected(run(*words_of_run), "ruler")


def test_scores_by_two_versions_of_a_ruler_are_never_put_together(first, run, tmp_path):
    assert ec.load(first[0]).config.ruler_version == find_ruler("vif").version
    newer = tmp_path / "newer"
    shutil.copytree(first[0], newer)
    record = saved(newer)
    record["config"]["ruler_version"] += 1
    (newer / "results.json").write_text(json.dumps(record), encoding="utf-8")
    assert_rejected(run("compare", first[0], newer), "different versions of vif")


def test_a_run_by_another_version_of_the_ruler_is_not_resumed(
    folder, humans, first, tmp_path, monkeypatch, run
):
    copy = tmp_path / "copy"
    shutil.copytree(first[0], copy)
    monkeypatch.setattr(type(find_ruler("vif")), "version", 99)
    assert_rejected(run(*words(folder, humans, copy, models=MODELS)), "ruler_version")


def test_curves_that_were_fitted_differently_are_never_put_together(first, second, run, tmp_path):
    assert_rejected(run("compare", first[0], second), "clean_responses differs")
    weighted = shutil.copytree(first[0], tmp_path / "weighted")
    content = saved(weighted)
    content["config"]["fit"]["density"] = saved(second)["config"]["fit"]["density"]
    (weighted / "results.json").write_text(json.dumps(content), encoding="utf-8")
    assert_rejected(run("compare", first[0], weighted), "density is uniform", "beta:2,5")


def test_humans_as_baseline_need_their_definition(evaluate):
    result, _ = evaluate("--ruler", "sheikh2006", "--baseline", "humans")
    assert_rejected(result, "measured by vif")


def test_the_definition_of_a_test_set_holds(run, folder, tmp_path):
    testset = tmp_path / "set.parquet"
    made = run(
        "testset", "make", "--images", folder, "--out", testset, "--n", 60, "--stimulus", "native",
        "--corruption", "gaussian_noise", "--ruler", "sheikh2006",
    )  # fmt: skip
    assert made.status == 0, made.err
    found = ec.evaluate(
        small_models.thousand, folder, testset=str(testset), **{**SMALL, "n": 50_000}
    )
    assert found.config.ruler == "sheikh2006" and not found.humans


# Humans' own areas


def test_the_robustness_of_humans_is_printed(run, humans):
    result = run("humans", "areas", humans, "--n-bootstrap", 50)
    assert result.status == 0, result.err
    rows = [line.split() for line in result.out.splitlines() if "gaussian_noise" in line]
    found = {row[1]: float(row[2]) for row in rows}
    assert found == {"R_a": pytest.approx(0.5, abs=0.03), "R_p": 1}
    half = run("humans", "areas", humans, "--density", "1,0", "--n-bootstrap", 50)
    (row,) = [line.split() for line in half.out.splitlines() if "R_a" in line]
    assert float(row[2]) == pytest.approx(0.75, abs=0.03)


def test_published_areas_of_the_packaged_humans(run):
    result = run("humans", "areas", "--estimator", "spline")
    rows = [line.split() for line in result.out.splitlines() if "R_a" in line and "," in line]
    assert {row[0]: row[2] for row in rows} == {
        "contrast": "0.639", "lowpass": "0.679", "noise": "0.713",
    }  # fmt: skip


def test_what_humans_areas_cannot_do_is_said(run, humans):
    few = run("humans", "areas", humans, "--estimator", "spline", "--bins", 400, "--n-bootstrap", 5)
    assert few.status == 0 and "Fewer than 2 bins have 20" in few.out
    assert_rejected(run("humans", "areas", "geirhoss"), "geirhos")
    assert_rejected(run("humans", "areas", "--estimator", "cob"), "cobs")
    assert_rejected(run("humans", "areas", "--clean-responses", "most"), "majority")


def test_the_plot_of_humans_takes_the_options_of_curves(run, tmp_path):
    """Other pixels only where the curve is another one."""
    plots = {}
    for name, options in (
        ("usual", ()),
        ("same", ("--bins", 40)),
        ("ended", ("--right-anchor", 0.5)),
    ):
        result = run("humans", "plot", "--out", tmp_path / f"{name}.png", *options)
        assert result.status == 0, result.err
        plots[name] = np.asarray(Image.open(tmp_path / f"{name}.png"))
    assert np.array_equal(plots["usual"], plots["same"])
    assert not np.array_equal(plots["usual"], plots["ended"])
    assert_rejected(
        run("humans", "plot", "--out", tmp_path / "x.png", "--estimator", "cob"), "cobs"
    )


def test_humans_without_visual_change_have_no_areas(run, tmp_path):
    predictions = make_responses(
        4, source="s", choices=16, label_space="entry16", corruption=["frost"] * 4,
        correct=[1, 0, 1, 1],
    )  # fmt: skip
    write_responses(tmp_path / "bare.parquet", predictions)
    assert_rejected(run("humans", "areas", tmp_path / "bare.parquet"), "lack visual changes")
