"""`--preset`: the procedure of each paper, complete, and the line that says what it stands for."""

import json

import pytest

import eyechart as ec
from commands import assert_rejected
from eyechart.core.options import fields_of, preset_values
from eyechart.corruptions.suites.published import STUDIES, TESTS, preset_line, values_of
from eyechart.images.labels.imagenet import wordnet_ids
from eyechart.pipeline.settings import EvaluateSettings
from eyechart.testsets.testset_settings import SampleSettings
from small_models import save_images

VCR_LINE = (
    "Preset vcr: 14 corruptions, 50,000 samples each, parameters uniform in the published domains,"
    " Algorithm 1 with M = 40, L = 20, both anchors, vcr@paper, 16 categories."
)
MODEL = "small_models:thousand"
SMALL = ("--n", 60, "--stimulus", "native", "--n-bootstrap", 10)


def settings_of(record, preset, **given):
    given = {"images": "images", "preset": preset, **given}
    return record(**given, **preset_values(fields_of(record).values(), given))


def line_of(settings):
    return preset_line(settings.preset, TESTS, vars(settings), len(settings.plan.entries()))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Cats, dogs and bears, three of humans' 16 categories."""
    home = tmp_path_factory.mktemp("presets") / "photos"
    save_images(home, each=3, tints=("blue", "green", "red"))
    for tint, place in (("blue", 281), ("green", 207), ("red", 294)):
        (home / tint).rename(home / wordnet_ids()[place])
    return home


def test_the_preset_of_vcr_is_algorithm_1_as_published():
    settings = settings_of(EvaluateSettings, "vcr").checked()
    plan, fit = settings.plan, settings.fit
    assert (plan.suite, plan.sampling, plan.n) == ("vcr@paper", "parameters", 50_000)
    assert (fit.estimator, fit.n_bins, fit.binning, fit.min_per_bin) == ("spline", 40, "paper", 20)
    assert (fit.right_anchor, plan.labels) == ("chance", "entry16")
    assert line_of(settings) == VCR_LINE


@pytest.mark.parametrize("preset", TESTS)
@pytest.mark.parametrize("record", [EvaluateSettings, SampleSettings])
def test_every_preset_is_valid_wherever_it_is_offered(preset, record):
    settings = settings_of(record, preset)
    settings.plan.check()
    for name, value in values_of(TESTS[preset]).items():
        assert getattr(settings, name, value) == value
    assert " instead of " not in line_of(settings)


def test_what_is_typed_goes_before_the_preset_and_the_line_says_so():
    settings = settings_of(EvaluateSettings, "vcr", n=2000, bins=20, right_anchor="none")
    assert (settings.plan.n, settings.fit.bins, settings.fit.right_anchor) == (2000, 20, "none")
    line = line_of(settings)
    for words in (
        "2,000 samples each instead of 50,000",
        "Algorithm 1 with M = 20 instead of 40, L = 20",
        "right anchor none instead of chance",
    ):
        assert words in line
    # also if it is the default of the option
    usual = settings_of(EvaluateSettings, "vcr", estimator="isotonic", sampling="pilot")
    assert (usual.fit.estimator, usual.plan.sampling) == ("isotonic", "pilot")
    assert "sampling pilot instead of parameters, estimator isotonic instead" in line_of(usual)


def test_an_unknown_preset_is_one_sentence(run, folder):
    with pytest.raises(ec.UsageError, match=r"Unknown preset 'vcrr'\. Did you mean 'vcr'"):
        ec.evaluate(MODEL, folder, preset="vcrr")
    with pytest.raises(ec.UsageError, match="preset must be"):
        ec.evaluate(MODEL, folder, preset=3)
    for words in ("study", "paper"):
        assert_rejected(run("evaluate", MODEL, "--images", folder, "--preset", words), words, "vcr")
    given = ("overlap", "run", "--images", folder, "--preset")
    assert_rejected(run(*given, "vcr"), "Unknown preset 'vcr'", *STUDIES)


def test_a_run_and_its_test_set_follow_the_preset(run, folder, tmp_path):
    given = ("--images", folder, "--preset", "vcr", *SMALL[:4])
    one = ("--corruption", "frost", "--corruption", "motion_blur")
    made = run("testset", "make", *given, *one, "--out", tmp_path / "set.parquet")
    assert made.status == 0, made.err
    assert "Preset vcr: 2 corruptions, 60 samples each instead of 50,000" in made.out
    out = tmp_path / "out"
    told = run("evaluate", MODEL, *given, *one, *SMALL[4:], "--min-per-bin", 3, "--out", out)
    assert told.status == 0, told.err
    assert "Preset vcr: 2 corruptions, 60 samples each instead of 50,000" in told.err
    assert "L = 3 instead of 20, both anchors, vcr@paper, 16 categories." in told.err
    config = json.loads((out / "results.json").read_text())["config"]
    assert (config["suite"], config["sampling"], config["n"]) == ("vcr@paper", "parameters", 60)
    assert (config["fit"]["estimator"], config["fit"]["right_anchor"]) == ("spline", "chance")
    testset = ec.read_testset(tmp_path / "set.parquet")
    plain = json.loads((out / "run.json").read_text())
    assert testset.plan.settings()["strengths"] == plain["strengths"]


def test_functions_take_the_presets_of_the_commands(folder, tmp_path):
    given = {"preset": "vcr", "n": 45, "corruptions": ["frost"], "stimulus": "native"}
    testset = ec.sample_testset(folder, **given)
    assert (testset.plan.suite, testset.plan.labels) == ("vcr@paper", "entry16")
    results = ec.evaluate(MODEL, folder, **given, min_per_bin=2, n_bootstrap=5)
    assert results.config.fit.estimator == "spline" and results.config.fit.right_anchor == "chance"
    assert results.config.suite == "vcr@paper" and results.config.n == 45
    # what is given by position is given, too
    other = ec.sample_testset(folder, "vcr", **given)
    assert other.plan.suite == "vcr"


def test_retraining_with_the_preset_is_scored_with_algorithm_1(run, folder, tmp_path):
    save_images(tmp_path / "train", each=2, tints=("blue", "green", "red"), side=32)
    for tint, place in (("blue", 281), ("green", 207), ("red", 294)):
        (tmp_path / "train" / tint).rename(tmp_path / "train" / wordnet_ids()[place])
    out = tmp_path / "out"
    told = run(
        "train", "retrain", "small_models:Trainable()", "--train-images",
        tmp_path / "train", "--images", folder, "--preset", "vcr", *SMALL, "--min-per-bin", 2,
        "--corruption", "frost", "--epochs", 1, "--batch-size", 2, "--out", out,
    )  # fmt: skip
    assert told.status == 0, told.err
    assert "Preset vcr: 1 corruption, 60 samples each instead of 50,000" in told.out
    config = json.loads((out / "evaluation" / "results.json").read_text())["config"]
    assert (config["suite"], config["sampling"]) == ("vcr@paper", "parameters")
    assert (config["fit"]["estimator"], config["fit"]["right_anchor"]) == ("spline", "chance")
