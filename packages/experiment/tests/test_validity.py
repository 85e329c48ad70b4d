"""Simulated studies with participants who drop hard trials, and the interval of the human area."""

from collections import Counter

import numpy as np
import pytest

from eyechart.humans.dropped_trials import dropped_bounds
from eyechart.humans.reference import Reference
from eyechart_experiment.simulate.psychometric import Psychometric
from eyechart_experiment.simulate.robots import Robot, kinds_of
from eyechart_experiment.study_config import StudyConfig
from memory_study import CORRUPTION, MemoryStudy, draw_stimuli

CURVE = Psychometric()
TRUTH = float(np.mean([CURVE(delta_v, 16) for delta_v in np.linspace(0, 1, 1001)]))
N_BOOTSTRAP = 200


def simulate(seed, rules, participants, sources):
    """A study collected under a version; a fifth drop trials, a tenth click at random."""
    config = StudyConfig(name="simulated", title="Simulated", rules=rules)
    study = MemoryStudy(config, draw_stimuli(config, sources, seed), seed)
    kinds = kinds_of(participants, 0, seed, droppers=participants // 5, clickers=participants // 10)
    for number, kind in enumerate(kinds):
        study.admit(Robot(kind, (seed, number, 8), CURVE))
    return study, kinds


def reference_of(study, version=None):
    return Reference("simulated", study.human_responses(version))


def contains_truth(study, version=None):
    curve = reference_of(study, version).curve(CORRUPTION, n_bootstrap=N_BOOTSTRAP)
    low, high = curve.interval(0.95)
    return low <= TRUTH <= high


def n_counted(study, kinds, version=None):
    judged = study.judged(version)
    return Counter(kinds[one.record.id] for one in judged if one.verdict.counts)


def test_rules_2_exclude_droppers_whom_rules_1_count():
    study, kinds = simulate(seed=0, rules=1, participants=50, sources=500)
    # random clickers have enough catch trials for either version
    assert n_counted(study, kinds, 1) == {"attentive": 35, "dropper": 10}
    assert n_counted(study, kinds, 2)["dropper"] <= 2
    assert n_counted(study, kinds, 2)["attentive"] == 35


def test_a_dropped_stimulus_comes_back_until_there_is_a_response():
    study, kinds = simulate(seed=1, rules=2, participants=20, sources=300)
    dropped = [
        (trial, record)
        for record in study.records
        for trial in record.dropped
        if record.state == "finished"
    ]
    assert len(dropped) > 40 and {kinds[record.id] for _, record in dropped} == {"dropper"}
    for trial, record in dropped:
        (response,) = (one for one in record.responses if one.stimulus == trial.stimulus)
        assert response.number > trial.number and not response.correct


def test_no_stimulus_has_more_responses_than_wanted_and_nobody_sees_a_source_twice():
    study, _ = simulate(seed=2, rules=2, participants=30, sources=200)
    counts = Counter()
    for one in study.judged():
        shown = [trial.images[0].name for trial in (*one.record.responses, *one.record.dropped)]
        stimuli = {trial.stimulus for trial in (*one.record.responses, *one.record.dropped)}
        assert len(set(shown)) == len(stimuli)
        if one.verdict.counts:
            counts.update(response.stimulus for response in one.record.of("main"))
    assert max(counts.values()) <= 5 < 1000 < counts.total()


def test_bounds_of_dropped_trials_enclose_the_curve_and_are_those_of_the_counts():
    study, _ = simulate(seed=3, rules=1, participants=20, sources=300)
    reference = reference_of(study, 1)
    bounds = dropped_bounds(reference, CORRUPTION, n_bootstrap=2)
    area = reference.curve(CORRUPTION, n_bootstrap=2).area
    assert bounds.n_dropped > 20
    assert bounds.incorrect.area < area < bounds.correct.area
    for curve, n_correct in ((bounds.incorrect, 0), (bounds.correct, bounds.n_dropped)):
        responses = reference.responses.only(reference.responses.corruption == CORRUPTION)
        assert curve.bins.counts.sum() == len(responses) + bounds.n_dropped
        assert curve.bins.hits.sum() == pytest.approx(responses.correct.sum() + n_correct)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_the_interval_of_the_human_area_holds_the_truth_under_rules_2_and_not_under_rules_1(capsys):
    held = Counter()
    for seed in range(50):
        former, _ = simulate(seed, 1, participants=300, sources=3000)
        current, _ = simulate(seed, 2, participants=300, sources=3000)
        held["rules 1"] += contains_truth(former)
        held["rules 2"] += contains_truth(current)
        held["data of version 1 by rules 2"] += contains_truth(former, 2)
        with capsys.disabled():
            print(f"\n{seed + 1} studies: {dict(held)}", end="", flush=True)
    assert held["rules 2"] >= 45 and held["rules 1"] <= 25
