"""Forged time stamps, and responses at random in the second half of a session."""

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
from scipy.stats import fisher_exact

from experiment_studies import Sizes, make_study
from eyechart_experiment.design.psychometric import Psychometric
from eyechart_experiment.quality.judging import judge
from eyechart_experiment.quality.trial_checks import p_fewer
from eyechart_experiment.simulate.robots import CHEATERS, Robot, kinds_of
from eyechart_experiment.study_config import StudyConfig, choices_of
from filled_studies import Robot as Person
from filled_studies import attentive, right_with, sitting_of
from memory_study import MemoryStudy, draw_stimuli

CONFIG = StudyConfig(name="naming", title="Naming")
PAIRS = replace(CONFIG, kind="same-different", response_ms=0)


def session(seed=0, config=CONFIG):
    return sitting_of(Person(right_with(attentive, choices_of(config))), config, seed)


def changed(record, number, **stamps):
    """The session with other stamps in one trial; None removes a stamp."""
    found = {**record.responses[number].stamps, **stamps}
    kept = {name: at for name, at in found.items() if at is not None}
    responses = list(record.responses)
    responses[number] = replace(responses[number], stamps=kept)
    return replace(record, responses=tuple(responses))


def reasons(record, config=CONFIG):
    return judge(record, config).invalid_reasons


@pytest.mark.parametrize(
    "stamps",
    [
        {"stimulus": None}, {"blank": None}, {"response": None}, {"end": None}, {"hz": None},
        {"hz": 0.0}, {"hz": 0.05}, {"hz": 15.0}, {"hz": 1001.0}, {"hz": "60"},
        # phases out of order
        {"blank": 250.0}, {"stimulus": 5000.0},
        # the response grid disappeared before the response
        {"end": 800.0},
    ],
    ids=str,
)  # fmt: skip
def test_a_trial_whose_stamps_cannot_be_true_does_not_count(stamps):
    record = session()
    assert reasons(record) == {}
    assert reasons(changed(record, 40, **stamps)) == {40: ("stamps",)}


@pytest.mark.parametrize("name", ["stimulus", "end", "hz"])
def test_a_pair_needs_stamps_too(name):
    record = session(config=PAIRS)
    assert reasons(record, PAIRS) == {}
    assert reasons(changed(record, 40, **{name: None}), PAIRS) == {40: ("stamps",)}


def test_a_pair_that_is_shown_for_a_while_is_timed_unless_the_response_ends_it():
    config = replace(PAIRS, show_ms=1000)
    record = session(config=config)
    assert reasons(record, config) == {}
    assert any("response" not in one.stamps for one in record.responses)
    for number, one in enumerate(record.responses):
        at = float(one.stamps["stimulus"])
        if "response" in one.stamps:
            assert reasons(changed(record, number, response=at + 960), config) == {
                number: ("timing",)
            }
        else:
            longer = changed(record, number, end=at + 1040)
            assert "timing" in reasons(longer, config)[number]


def test_an_exposure_of_20_s_is_no_frame_of_a_screen_that_claims_0_05_hz():
    slow = {"blank": 20_300.0, "mask": 20_320.0, "response": 20_520.0, "end": 22_000.0}
    record = session()
    assert reasons(changed(record, 40, hz=0.05, **slow))[40] == ("clock", "stamps")
    assert reasons(changed(record, 40, **slow))[40] == ("clock", "timing")


def moved(record, served, received):
    """The session with other times of the server: functions of the number and of the time."""
    return replace(
        record,
        responses=tuple(
            replace(
                one, served_at=served(n, one.served_at), received_at=received(n, one.received_at)
            )
            for n, one in enumerate(record.responses)
        ),
    )


def test_a_trial_cannot_claim_more_time_than_passed_on_the_server():
    record = session()
    start = record.responses[0].served_at
    # loaded ahead of the one before, and all sent at the end, after a lost connection
    ahead = [one.served_at for one in record.responses]
    early = moved(record, lambda n, at: ahead[max(0, n - 2)], lambda n, at: at)
    late = moved(record, lambda n, at: at, lambda n, at: record.responses[-1].received_at)
    assert reasons(early) == reasons(late) == {}
    # one response every 0.3 s, with the stamps of trials that last 2.2 s each
    fast = moved(
        record,
        lambda n, at: start + timedelta(seconds=0.3 * max(0, n - 2)),
        lambda n, at: start + timedelta(seconds=0.3 * (n + 1)),
    )
    assert len(reasons(fast)) == len(record.responses)
    assert {"forged"} == {rule for rule, _ in judge(fast, CONFIG).broken}
    # waiting once does not pay for it
    pause = moved(
        fast,
        lambda n, at: at + timedelta(seconds=300 * (n > 0)),
        lambda n, at: at + timedelta(seconds=300 * (n > 0)),
    )
    assert len(reasons(pause)) >= len(record.responses) - 2


def test_a_few_trials_with_false_stamps_do_not_exclude_their_participant():
    record = session()
    for number in range(32, 37):
        record = changed(record, number, hz=None)
    assert judge(record, CONFIG).counts and len(reasons(record)) == 5
    assert not judge(changed(record, 37, hz=None), CONFIG).counts


@pytest.mark.parametrize("seed", range(20))
def test_the_test_of_late_trials_is_the_exact_one_of_fisher(seed):
    random = np.random.default_rng(seed)
    before, late = int(random.integers(1, 60)), int(random.integers(1, 20))
    one = (int(random.integers(before + 1)), before, int(random.integers(late + 1)), late)
    table = [[one[2], late - one[2]], [one[0], before - one[0]]]
    assert p_fewer([one]) == pytest.approx(fisher_exact(table, "less").pvalue)
    # a group of trials that were all correct, or all before, says nothing
    assert p_fewer([one, (9, 9, 3, 3), (4, 9, 0, 0)]) == pytest.approx(p_fewer([one]))


def test_the_test_of_late_trials_keeps_its_level_if_the_last_trials_are_harder():
    random = np.random.default_rng(0)
    p_values = []
    for _ in range(2000):
        # accuracy 0.9 and 0.2; of the easy ones most come first
        groups = [(60, 5, 0.9), (20, 20, 0.2)]
        p_values.append(
            p_fewer(
                (int(random.binomial(before, rate)), before, int(random.binomial(late, rate)), late)
                for before, late, rate in groups
            )
        )
    for limit in (0.01, 0.05, 0.2):
        assert np.mean(np.asarray(p_values) < limit) <= limit + 3 * (limit / 2000) ** 0.5


def test_of_400_sessions_all_cheaters_are_excluded_and_at_most_2_percent_of_the_honest(capsys):
    kinds = kinds_of(400, 0, seed=0, cheaters=200)
    # large, so that everybody gets all trials
    config = replace(CONFIG, k=200, clean_k=200)
    study = MemoryStudy(config, draw_stimuli(config, 400, 0), 0)
    for number, kind in enumerate(kinds):
        study.admit(Robot(kind, (0, number, 8), Psychometric(lapse=0.05)))
    excluded = {
        kind: [not one.counts for one in study.judged() if kinds[one.record.id] == kind]
        for kind in ("attentive", *CHEATERS)
    }
    with capsys.disabled():
        for kind, found in excluded.items():
            print(f"\n{kind}: {sum(found)} of {len(found)} excluded ({np.mean(found):.1%})", end="")
    assert {kind: len(found) for kind, found in excluded.items()} == {
        "attentive": 200, **dict.fromkeys(CHEATERS, 40),
    }  # fmt: skip
    assert np.mean(excluded["attentive"]) <= 0.02
    for kind in CHEATERS:
        assert np.mean(excluded[kind]) >= 0.95


def test_cheaters_take_part_in_a_copy_of_a_study_and_error_rates_are_printed(run, tmp_path):
    sizes = Sizes(main=80, stimuli=2, practice=4, qualification=8, catch=16)
    make_study(
        tmp_path / "study", sizes=sizes, trials=60, k=9, catch=8, stimulus_ms=200, response_ms=1500
    )
    options = ["--participants", "12", "--cheaters", "5", "--out", tmp_path / "robots"]
    rejected = run("experiment", "simulate", tmp_path / "study", *options)
    assert rejected.status == 2 and "--cheaters needs --fast" in rejected.err
    result = run("experiment", "simulate", tmp_path / "study", *options, "--fast")
    assert result.status == 0, result.err
    rates = "gazer 1 of 1, quitter-25 1 of 1, quitter-40 1 of 1, racer 1 of 1, unstamped 1 of 1."
    assert f"Excluded by the quality rules: attentive 0 of 7, {rates}" in result.out
