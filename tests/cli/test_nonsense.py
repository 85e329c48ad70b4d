"""Nonsense given to every public function: one sentence of ours, soon, and nothing else."""

import resource
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import eyechart as ec
import nonsense
import small_models
from commands import assert_rejected, image_file
from eyechart.training.recipe import Recipe

GIGABYTE = 2**20
"""In the kilobytes that the operating system counts in."""

RECORDS = {
    "Baseline", "Change", "CheckFailed", "CleanStatistics", "CorruptionErrors", "Curve",
    "ErrorConsistency", "Estimate", "GateResults", "ImageSet", "LowInformationWarning",
    "MeanCorruptionError", "OverlapMatrix", "PublishedTable", "Results", "Selection", "Standings",
    "TestSet", "UsageError", "__version__",
}  # fmt: skip
"""Public names that hold what functions return: whoever makes them by hand answers for it."""


@pytest.fixture(scope="module")
def calls(tmp_path_factory):
    home = tmp_path_factory.mktemp("nonsense")
    with pytest.MonkeyPatch.context() as patch:
        # some nonsense is a path, and what is written there belongs here
        patch.chdir(home)
        yield nonsense.good_calls(home)


def test_every_public_function_is_called(calls):
    functions = {name for name in ec.__all__ if name not in RECORDS}
    assert functions <= set(calls), functions - set(calls)
    for name, call in calls.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ec.LowInformationWarning)
            if name != "read_severity_errors":  # whose file is empty
                call.function(**call.arguments)


def try_many(calls, count):
    """Call functions with one argument replaced, `count` times, and complain about the first."""
    pairs = [(name, own) for name, call in calls.items() for own in call.names]

    @settings(max_examples=count, suppress_health_check=list(HealthCheck), database=None)
    @given(st.sampled_from(pairs), st.sampled_from(sorted(nonsense.VALUES)))
    def attempt(pair, kind):
        name, argument = pair
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            wrong = nonsense.complaint(calls[name], argument, nonsense.VALUES[kind])
        assert not wrong, f"{name}({argument}={kind}): {wrong}"

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    attempt()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < GIGABYTE


def test_nonsense_is_one_sentence(calls):
    try_many(calls, 150)


@pytest.mark.slow
def test_a_thousand_calls_of_nonsense_are_one_sentence_each(calls):
    try_many(calls, 1000)


SHARES = {"fog": 0.5}
CHANGE = np.linspace(0, 1, 60)
HITS = (CHANGE < 0.5).astype(float)
ROBUSTNESS = [[0.1, 0.2], [0.5, 0.3], [0.2, 0.6]]
SCORES = [[1, 0.2], [0.2, 1]]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ec.fit_curve(CHANGE, HITS, n_bootstrap=[1]), "n_bootstrap must be a whole number"),
        (lambda: ec.fit_curve(CHANGE, HITS, bins=1j), "bins must be a whole number, got 1j"),
        (
            lambda: ec.fit_curve(CHANGE, HITS, estimator=["fog"]),
            "estimator must be a string, got a list",
        ),
        (lambda: ec.corruption_error({5: 0.5}, "alexnet"), "errors must be a string, got 5"),
        (lambda: ec.corruption_error({5: 0.5}, {5: 0.5}), "errors must be a string, got 5"),
        (lambda: ec.overlap_matrix(ROBUSTNESS, min_gain="3"), "min_gain must be a number"),
        (lambda: ec.overlap_matrix(ROBUSTNESS, names=5), "names must be a list, got 5"),
        (lambda: ec.select_non_overlapping(SCORES, "x"), "threshold must be a number, got 'x'"),
        (lambda: ec.sample_testset("images", device=None), "device must be a name"),
        # a hit for each answer in a table, not in a row
        (lambda: ec.fit_curve(CHANGE, HITS, anchor=[HITS] * 60), "one value per sample, got shape"),
        (lambda: ec.overlap_matrix([[0.1], [10**400]]), "robustness must be a table of numbers"),
        (lambda: ec.overlap_matrix(ROBUSTNESS, min_gain=10**400), "min_gain must be a number"),
        # more than can be held, or waited for
        (lambda: ec.fit_curve(CHANGE, HITS, bins=10**9), "bins must be at most 1,000"),
        (lambda: ec.fit_curve(CHANGE, HITS, n_bootstrap=10**9), "must be at most 100,000"),
        (lambda: ec.error_consistency(HITS, HITS, n_bootstrap=10**9), "must be at most 100,000"),
        (lambda: ec.fit_curve(CHANGE, HITS, seed=2**70), "seed must be at most"),
        (lambda: ec.corrupt(np.zeros((16, 16, 3)), "fog", seed=2**70), "seed must be a whole"),
        (
            lambda: ec.sample_testset("images", n=10**12),
            "n must be a whole number from 1 to 10,000,000",
        ),
    ],
)
def test_what_failed_obscurely_or_never_ended_is_one_sentence(call, words):
    with pytest.raises(ec.UsageError) as error:
        call()
    assert words in str(error.value) and str(error.value).endswith(".")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--bins", 10**9), "bins must be at most 1,000"),
        (("--n-bootstrap", 10**9), "n_bootstrap must be at most 100,000"),
        (("--seed", 10**30), "seed must be"),
        (("--n", 10**12), "n must be a whole number from 1 to 10,000,000"),
        (("--batch-size", 10**9), "batch_size must be at most 100,000"),
    ],
)
def test_options_of_an_evaluation_have_bounds(run, tmp_path, options, words):
    images = small_models.save_images(tmp_path / "images", each=1)
    asked = ("evaluate", "small_models:colors", "--images", images, "--out", tmp_path / "out")
    assert_rejected(run(*asked, *options), words)
    assert not (tmp_path / "out").exists()


def test_a_gallery_has_a_largest_side(run, tmp_path):
    image = image_file(tmp_path / "image.png")
    asked = ("gallery", image, "--out", tmp_path / "gallery.png", "--size", 99_999_999)
    assert_rejected(run(*asked), "size must be at most 8,192")


@pytest.mark.parametrize(
    ("command", "option", "number", "words"),
    [
        ("gallery image.png --out out.png", "--columns", 10**8, "columns must be at most 50"),
        ("overlap run --images images --out out", "--seeds", 10**9, "from 1 to 1,000, got"),
        ("structure style --images images --out out", "--seeds", 10**9, "from 1 to 1,000, got"),
        ("overlap run --images images --out out", "--epochs", 10**12, "from 1 to 100,000, got"),
        ("train style-transfer --train-images images --styles images --out out.pt", "--steps",
        10**12,
         "from 1 to 10,000,000, got"),
    ],
)  # fmt: skip
def test_what_never_ended_or_needed_too_much_memory_has_a_maximum(
    run, tmp_path, monkeypatch, command, option, number, words
):
    monkeypatch.chdir(tmp_path)
    image_file(tmp_path / "image.png")
    small_models.save_images(tmp_path / "images", each=4)
    told = run(*command.split(), option, number)
    assert_rejected(told, option.removeprefix("--") + " must be", words)
    assert {path.name for path in tmp_path.iterdir()} <= {"image.png", "images", "out"}


@pytest.mark.parametrize(
    ("crop", "is_rejected"), [(0, False), (23, False), (24, True), (100, True)]
)
def test_a_crop_leaves_some_of_the_image(crop, is_rejected):
    recipe = Recipe(crop=crop)
    if not is_rejected:
        recipe.check_crop((48, 64))
        return
    with pytest.raises(ec.UsageError, match=r"less than half of the images' shorter side, 48 px"):
        recipe.check_crop((48, 64))
