"""Power before data: what is predicted agrees with simulated studies analyzed for real."""

from dataclasses import replace

import numpy as np
import pytest

from eyechart.humans.human_responses import CLEAN, DIFFERENT, SAME, Judgement
from eyechart.humans.same_different import TOLD_APART, analyze
from eyechart_experiment.design.power import (
    AGREEMENT,
    BEHIND,
    MIN_IMAGES,
    POWER,
    StimulusTable,
    expected_precision,
    human_curve_of,
    pair_power,
    simulate_responses,
    success_rates,
)
from eyechart_experiment.design.psychometric import Psychometric

HUMAN = Psychometric()


def table(n_images=400, k=4, clean=3):
    delta_v = np.random.default_rng(3).random(n_images)
    names = tuple(f"image {number}" for number in range(n_images))
    counts = (np.full(n_images, float(value)) for value in (k, clean))
    return StimulusTable("vcr/median_blur", names, delta_v, *counts)


def test_simulated_responses_follow_the_curve_and_agree_within_images():
    study = table(n_images=4000, k=2)
    responses = simulate_responses(study, HUMAN, np.random.default_rng(0))
    corrupted = responses.corruption != CLEAN
    assert corrupted.sum() == 8000 and (~corrupted).sum() == 12000
    expected = np.mean([HUMAN(value, 16) for value in study.delta_v])
    # 4,000 images, each with one rate
    assert responses.correct[corrupted].mean() == pytest.approx(expected, abs=0.02)
    assert responses.correct[~corrupted].mean() == pytest.approx(HUMAN(0.0, 16), abs=0.01)
    pairs = responses.correct[corrupted].reshape(-1, 2) - np.array(
        [[HUMAN(value, 16)] for value in study.delta_v]
    )
    spread = np.mean([p * (1 - p) for p in (HUMAN(value, 16) for value in study.delta_v)])
    assert np.mean(pairs[:, 0] * pairs[:, 1]) / spread == pytest.approx(AGREEMENT, abs=0.05)
    alone = success_rates(study.delta_v, HUMAN, 0.0, np.random.default_rng(0))
    assert alone[:3] == pytest.approx([HUMAN(value, 16) for value in study.delta_v[:3]])


def test_the_prediction_is_reproducible_and_narrower_with_more_responses():
    first = expected_precision(table(), seed=5)
    assert first == expected_precision(table(), seed=5) != expected_precision(table(), seed=6)
    more = expected_precision(table(n_images=1600), seed=5)
    (area, area_margin), (_, hmri_margin) = first
    (_, more_area_margin), (_, more_hmri_margin) = more
    # four times as many images halve the interval
    assert more_area_margin == pytest.approx(area_margin / 2, rel=0.2)
    assert more_hmri_margin < 0.75 * hmri_margin
    assert area == pytest.approx(0.658, abs=2 * area_margin)
    # images differ, so that further responses to the same images help less than further images
    repeated = expected_precision(table(k=16), seed=5)
    assert more_area_margin < 0.8 * repeated[0][1]
    assert expected_precision(table(n_images=MIN_IMAGES - 1), seed=5) is None


def test_the_predicted_interval_agrees_with_simulated_studies_within_a_fifth():
    study = table()
    (_, margin), _ = expected_precision(study, seed=1)
    curves = [
        human_curve_of(study, HUMAN, np.random.default_rng((77, number)), n_bootstrap=100)
        for number in range(24)
    ]
    widths = [np.ptp(np.percentile(curve.areas, [2.5, 97.5])) / 2 for curve in curves]
    assert margin == pytest.approx(np.mean(widths), rel=0.2)


@pytest.mark.slow
def test_the_predicted_interval_is_the_spread_of_studies_and_models():
    # neither the estimator's own bootstrap nor the seeds of the prediction
    from eyechart.scores.human_relative import hmri
    from eyechart_experiment.design.power import _model_curve

    study = table()
    (_, area_margin), (_, hmri_margin) = expected_precision(study, seed=1)
    areas, scores = [], []
    for number in range(200):
        random = np.random.default_rng((78, number))
        human = human_curve_of(study, HUMAN, random, n_bootstrap=2)
        model = _model_curve(study, replace(HUMAN, middle=HUMAN.middle - BEHIND), random)
        areas.append(human.area)
        scores.append(hmri(human, model))
    assert area_margin == pytest.approx(1.96 * np.std(areas), rel=0.2)
    assert hmri_margin == pytest.approx(1.96 * np.std(scores), rel=0.2)


def judgements(accuracy, n_pairs, n_participants, each, random):
    for pair in range(n_pairs):
        for subject in range(n_participants):
            for number in range(each):
                truth = (SAME, DIFFERENT)[number % 2]
                other = DIFFERENT if truth == SAME else SAME
                response = truth if random.random() < accuracy else other
                yield Judgement(f"a{pair}", f"b{pair}", f"p{subject}", truth, response)


def test_a_pair_at_the_detectable_accuracy_is_told_apart_as_often_as_predicted():
    detectable, _ = pair_power(n_responses=80, n_participants=10, n_pairs=2, seed=2)
    assert 0.6 < detectable < 0.85
    random = np.random.default_rng(9)
    told = [
        result.verdict == TOLD_APART
        for _ in range(40)
        for result in analyze(judgements(detectable, 2, 10, 8, random))
    ]
    # of 80 pairs; the prediction takes the stricter correction, and rounds the accuracy up
    assert np.mean(told) > POWER - 0.1


def test_larger_studies_detect_less_and_tiny_ones_say_that_they_cannot():
    (small, small_alike), (large, large_alike) = (pair_power(n, 12, 3) for n in (60, 240))
    assert large < small and large_alike > small_alike
    assert pair_power(n_responses=20, n_participants=5, n_pairs=1)[0] is None
