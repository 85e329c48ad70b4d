"""Simulated studies with participants who drop hard trials, and the interval of the human area."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from eyechart.humans.reference import Reference
from eyechart.humans.reference_caveats import dropped_bounds
from eyechart_experiment.design.psychometric import Psychometric
from eyechart_experiment.export.export_tables import counted, dropped_responses, human_records
from eyechart_experiment.simulate.robots import Robot, kinds_of
from eyechart_experiment.study_config import StudyConfig
from memory_study import CORRUPTION, MemoryStudy, draw_stimuli

CURVE = Psychometric()
TRUTH = float(np.mean([CURVE(delta_v, 16) for delta_v in np.linspace(0, 1, 1001)]))
N_BOOTSTRAP = 200


def simulate(seed, participants, sources):
    """A study in which a fifth drop trials, and a tenth click at random."""
    config = StudyConfig(name="simulated", title="Simulated")
    study = MemoryStudy(config, draw_stimuli(config, sources, seed), seed)
    kinds = kinds_of(participants, 0, seed, droppers=participants // 5, clickers=participants // 10)
    for number, kind in enumerate(kinds):
        study.admit(Robot(kind, (seed, number, 8), CURVE))
    return study, kinds


def reference_of(study):
    return Reference("simulated", study.human_responses())


def contains_truth(study):
    curve = reference_of(study).curve(CORRUPTION, n_bootstrap=N_BOOTSTRAP)
    low, high = curve.interval(0.95)
    return low <= TRUTH <= high


def n_counted(study, kinds):
    return Counter(kinds[one.record.id] for one in study.judged() if one.counts)


def test_droppers_are_excluded_and_attentive_participants_are_kept():
    study, kinds = simulate(seed=0, participants=50, sources=500)
    counts = n_counted(study, kinds)
    assert counts.keys() <= {"attentive", "dropper"}
    assert counts["attentive"] == 35 and counts["dropper"] <= 2


def test_a_dropped_stimulus_comes_back_until_there_is_a_response():
    study, kinds = simulate(seed=1, participants=20, sources=300)
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
    study, _ = simulate(seed=2, participants=30, sources=200)
    counts = Counter()
    for one in study.judged():
        shown = [trial.images[0].name for trial in (*one.record.responses, *one.record.dropped)]
        stimuli = {trial.stimulus for trial in (*one.record.responses, *one.record.dropped)}
        assert len(set(shown)) == len(stimuli)
        if one.counts:
            counts.update(response.stimulus for response in one.record.of("main"))
    assert max(counts.values()) <= 5 < 1000 < counts.total()


def test_bounds_of_dropped_trials_enclose_the_curve_and_are_those_of_the_counts():
    study, _ = simulate(seed=3, participants=20, sources=300)
    # as if no rule excluded those who drop trials
    judged = [replace(one, broken=()) for one in study.judged()]
    dropped = dropped_responses(judged)
    records = human_records(counted(judged), study.config, dropped=dropped)
    reference = Reference("simulated", records)
    bounds = dropped_bounds(reference, CORRUPTION, n_bootstrap=2)
    area = reference.curve(CORRUPTION, n_bootstrap=2).area
    assert bounds.n_dropped > 20
    # equal, because their responses were incorrect when the stimuli came back
    assert bounds.incorrect.area <= area < bounds.correct.area
    keys = {(trial.subject, trial.image) for trial in dropped}
    shown = zip(records.subject, records.image, strict=True)
    is_first = np.array([key not in keys for key in shown])
    first = records.only(is_first & (records.corruption == CORRUPTION))
    for curve, n_correct in ((bounds.incorrect, 0), (bounds.correct, bounds.n_dropped)):
        assert curve.bins.counts.sum() == len(first) + bounds.n_dropped
        assert curve.bins.hits.sum() == pytest.approx(first.correct.sum() + n_correct)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_the_interval_of_the_human_area_holds_the_truth(capsys):
    n_held = 0
    for seed in range(50):
        study, _ = simulate(seed, participants=300, sources=3000)
        n_held += contains_truth(study)
        with capsys.disabled():
            print(f"\n{seed + 1} studies: {n_held} intervals hold the truth", end="", flush=True)
    assert n_held >= 45
