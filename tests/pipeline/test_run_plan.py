"""The plan of a run: how many samples, what limits them, and that a stopped run keeps them."""

import json

import numpy as np
import pytest
from PIL import Image

import eyechart as ec
from eyechart.pipeline import run_plan
from eyechart.pipeline.fail_under import ScoreLimit, check_limits, read_limit
from eyechart.pipeline.run_plan import (
    AIM,
    MIN_N,
    PER_IMAGE,
    Costs,
    RunPlan,
    _choose_n,
    half_width,
)
from eyechart.pipeline.settings import EvaluateSettings, read_n
from eyechart.testsets.testset_settings import N_SAMPLES

QUICK = {"labels": "none", "n_bootstrap": 20, "corruptions": ["gaussian_noise"]}


def mean_color(images):
    return images.mean(dim=(2, 3))


@pytest.fixture
def folder(tmp_path):
    for index in range(4):
        noise = np.random.default_rng(index).integers(0, 256, (80, 80, 3), dtype=np.uint8)
        Image.fromarray(noise).save(tmp_path / f"{index}.png")
    return tmp_path


@pytest.mark.parametrize(
    ("n_images", "per_sample", "limit"),
    [(60, 1e-4, "images"), (2000, 1e-4, "precision"), (60, 1.0, "time"), (2000, 1.0, "time")],
)
def test_the_number_of_samples_has_one_of_three_limits(n_images, per_sample, limit):
    n, found = _choose_n(n_images, 14, Costs(0.01, per_sample, 1.0), 600)
    assert found == limit
    if limit == "images":
        assert n == max(MIN_N, PER_IMAGE * n_images)
        assert half_width(n_images, N_SAMPLES * 14) > AIM
    if limit == "precision":
        assert half_width(n_images, n * 14) <= AIM
    if limit == "time":
        assert 0.01 * n_images + n * 14 * per_sample <= 600 or n == 30


def test_more_images_help_where_more_samples_do_not():
    assert half_width(60, 10**9) == pytest.approx(half_width(60, 14 * 600), rel=0.06)
    assert half_width(240, 14 * 600) < half_width(60, 10**9) * 0.6


def test_the_plan_says_what_would_suffice():
    plan = RunPlan(
        n=310, limit="images", n_images=62, n_corruptions=3, seconds=130, half_width=0.081
    )
    first, second = plan.sentences()
    assert first == (
        "Plan: 62 images, 3 corruptions, 310 samples each; about 2 min; mean R_a to about ±0.08."
    )
    assert "more samples of the same images would add little; about 470 images" in second


def test_the_plan_counts_the_samples_at_published_severities(folder, tmp_path):
    out = tmp_path / "run"
    options = {**QUICK, "corruptions": ["fog"], "suite": "imagenet-c"}
    results = ec.evaluate(mean_color, folder, out=out, **options)
    plan = RunPlan.model_validate_json((out / "plan.json").read_text())
    assert plan.n_at_levels == 5 * results.images.used
    assert f"{plan.n_at_levels:,} samples at published severities;" in plan.sentences()[0]


@pytest.mark.parametrize(("n", "probed"), [(12, 1), (30, 3), (60, 6), (90, 6)])
def test_the_estimate_of_a_short_run_takes_at_most_a_tenth_of_its_samples(
    folder, monkeypatch, n, probed
):
    timed = []

    def record(groups, *rest):
        timed.append([len(samples) for samples in groups])
        return 1.0

    monkeypatch.setattr(run_plan, "_timed", record)
    ec.evaluate(mean_color, folder, n=n, **QUICK)
    # the first sample only warms up
    assert timed[2:] == [[1], [probed]]


def test_a_stopped_run_resumes_with_the_samples_of_its_plan(folder, tmp_path):
    out = tmp_path / "run"
    first = ec.evaluate(mean_color, folder, out=out, **QUICK)
    plan = json.loads((out / "plan.json").read_text())
    assert plan["n"] == first.config.n and plan["limit"] in ("images", "time")
    assert list(plan["maps"]) == ["vcr/gaussian_noise"]
    plan["n"] = 45
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "plan.json").write_text(json.dumps({**plan, "maps": {}}))
    again = ec.evaluate(mean_color, folder, out=tmp_path / "other", **QUICK)
    assert again.config.n == 45


def test_a_damaged_plan_is_one_sentence(folder, tmp_path):
    out = tmp_path / "run"
    out.mkdir()
    (out / "plan.json").write_text('{"n": "many"}')
    with pytest.raises(ec.UsageError, match=r"plan\.json"):
        ec.evaluate(mean_color, folder, out=out, **QUICK)


def test_numbers_are_read_from_the_command_line():
    assert read_n("auto") is None and read_n("300") == 300
    with pytest.raises(ec.UsageError, match="--n must be a whole number or auto, got 'many'"):
        read_n("many")
    with pytest.raises(ec.UsageError, match="--dry-run"):
        ec.evaluate(mean_color, dry_run=True)


def test_a_floor_is_compared_with_the_confidence_bound(folder):
    results = ec.evaluate(mean_color, folder, n=60, **QUICK)
    score = results.models[0].scores["r_p"]
    between = (score.interval95[0] + score.value) / 2
    ((is_bound_reached, bound),) = check_limits(results, [ScoreLimit("r_p", between)])
    ((is_point_reached, point),) = check_limits(
        results, [ScoreLimit("r_p", between, is_point=True)]
    )
    assert not is_bound_reached and "lower bound" in bound
    assert is_point_reached and "lower bound" not in point


def test_floors_are_read():
    assert read_limit("r_a=0.5:point") == ScoreLimit("r_a", 0.5, is_point=True)
    assert EvaluateSettings(fail_under={"r_a": 0.5}).score_limits == (ScoreLimit("r_a", 0.5),)
    assert EvaluateSettings(fail_under={"r_a": "0.5:point"}).score_limits[0].is_point
    with pytest.raises(ec.UsageError, match="NAME=NUMBER:point"):
        read_limit("r_a=0.5:mean")
