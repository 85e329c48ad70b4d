"""Quality rules: who is checked, what was finished, and what was dropped."""

from dataclasses import replace
from fractions import Fraction
from math import comb

import numpy as np
import pytest
from scipy.stats import mannwhitneyu

from eyechart_experiment.quality.judging import judge
from eyechart_experiment.quality.rules import RULES, rules_text
from eyechart_experiment.quality.trial_checks import p_harder, selection
from eyechart_experiment.server.session_progress import catch_positions
from eyechart_experiment.storage.session_records import DroppedTrial, ShownImage
from eyechart_experiment.study_config import StudyConfig
from filled_studies import START, Robot, attentive, right_with, sitting_of

CONFIG = StudyConfig(name="naming", title="Naming")


def image(delta_v):
    return ShownImage("a.png", "0", "blur", {}, delta_v, "", 0)


def session(seed=0, config=CONFIG, **changes):
    """A finished session whose images have the Δv of their numbers."""
    record = sitting_of(Robot(right_with(lambda v: 1.0)), config, seed)
    numbers = np.random.default_rng((seed, 1)).random(len(record.responses))
    responses = tuple(
        replace(
            response,
            stimulus=index,
            images=(image(float(numbers[index]) if response.role == "main" else 0.0),),
        )
        for index, response in enumerate(record.responses)
    )
    return replace(record, responses=responses, **changes)


def dropped(*changes):
    """Dropped main trials with these Δv, whose stimuli never got a response."""
    return tuple(
        DroppedTrial(
            number=1000 + n, role="main", truth="cat", reason="reloaded", served_at=START,
            dropped_at=START, images=(image(v),), stimulus=1000 + n,
        )
        for n, v in enumerate(changes)
    )  # fmt: skip


def delta_v_of(record):
    return [response.images[0].delta_v for response in record.of("main", "catch")]


def rules_of(record, config=CONFIG):
    return {rule for rule, _ in judge(record, config).broken}


def without(record, role, n_kept):
    """The session with only the first trials of a role."""
    left = [response for response in record.responses if response.role == role][n_kept:]
    kept = tuple(response for response in record.responses if response not in left)
    return replace(record, responses=kept)


@pytest.mark.parametrize("seed", range(5))
def test_the_test_of_dropped_trials_is_the_one_of_scipy(seed):
    random = np.random.default_rng(seed)
    # with ties, as of clean images
    dropped_v = np.round(random.random(4 + seed) ** 0.5, 1)
    others = np.where(random.random(90) < 0.4, 0, np.round(random.random(90), 1))
    expected = mannwhitneyu(dropped_v, others, alternative="greater", method="asymptotic").pvalue
    assert p_harder(dropped_v, others) == pytest.approx(expected, rel=1e-9)


def test_without_anything_to_compare_nothing_is_harder():
    assert p_harder([], [0.1]) == p_harder([0.3], []) == p_harder([0.5, 0.5], [0.5]) == 1.0


def test_a_session_with_fewer_than_four_catch_trials_does_not_count():
    for n_catch in range(9):
        record = without(session(), "catch", n_catch)
        assert ("unchecked" in rules_of(record)) == (n_catch < 4)
    # 3 of 4 by guessing among 16
    chance = sum(comb(4, n) * Fraction(1, 16) ** n * Fraction(15, 16) ** (4 - n) for n in (3, 4))
    assert float(chance) == pytest.approx(0.0009, abs=5e-5)


def test_a_study_that_plans_fewer_catch_trials_needs_all_of_them():
    few = replace(CONFIG, catch=2)
    assert not rules_of(session(config=few), config=few)
    assert rules_of(without(session(config=few), "catch", 1), config=few) == {"unchecked"}


@pytest.mark.parametrize(("state", "n_main", "counts"), [
    ("finished", 10, True), ("active", 49, False), ("active", 50, True),
])  # fmt: skip
def test_an_unfinished_session_counts_from_half_of_the_main_trials_on(state, n_main, counts):
    record = without(session(state=state), "main", n_main)
    assert rules_of(record) == (set() if counts else {"unfinished"})


def test_two_reloads_are_free_and_then_a_tenth_may_be_dropped():
    # 108 trials with a response: 12 of 120 are a tenth
    evenly = np.linspace(0, 1, 13)
    assert "dropped" not in rules_of(session(dropped=dropped(*evenly[:12])))
    assert "dropped" in rules_of(session(dropped=dropped(*evenly)))
    short = without(without(session(), "main", 10), "catch", 4)
    assert "dropped" not in rules_of(replace(short, dropped=dropped(*evenly[:6])))
    assert "dropped" in rules_of(replace(short, dropped=dropped(*evenly[:7])))


def test_who_drops_hard_trials_is_found_and_who_reloads_by_accident_is_not():
    assert rules_of(session(dropped=dropped(0.9, 0.95, 0.92, 0.97))) == {"selective"}
    assert rules_of(session(dropped=dropped(0.9, 0.95))) == set()
    record, random = session(), np.random.default_rng(7)
    p_values = [
        selection(replace(record, dropped=dropped(*random.choice(delta_v_of(record), 6))))[1]
        for _ in range(600)
    ]
    # at most 1 % by chance: 6, with a deviation of 2.4
    assert sum(p_value < 0.01 for p_value in p_values) <= 6 + 4 * 2.4


def test_leaving_the_page_at_hard_images_is_dropping_them():
    record = session()
    hard = sorted(record.of("main"), key=lambda one: -one.images[0].delta_v)[:8]
    responses = tuple(
        replace(one, flags=("hidden",)) if one in hard else one for one in record.responses
    )
    assert selection(replace(record, responses=responses))[0] == 8
    assert "selective" in rules_of(replace(record, responses=responses))


def test_a_stimulus_that_came_back_counts_as_dropped_once():
    record = session()
    main = record.of("main")
    again = tuple(
        DroppedTrial(
            number=900 + n, role="main", truth="cat", reason="reloaded", served_at=START,
            dropped_at=START, images=one.images, stimulus=one.stimulus,
        )
        for n, one in enumerate([*main[:3], *main[:3]])
    )  # fmt: skip
    n_dropped, _ = selection(replace(record, dropped=again))
    assert n_dropped == 3


def test_catch_trials_are_spread_evenly_over_the_main_part():
    for seed in range(300):
        positions = catch_positions(CONFIG, seed)
        # sections of 13 or 14 trials
        edges = [108 * index // 8 for index in range(9)]
        assert np.searchsorted(edges, positions, side="right").tolist() == list(range(1, 9))


def test_attentive_participants_are_kept():
    robot = Robot(right_with(attentive))
    broken = [rules_of(sitting_of(robot, CONFIG, seed)) for seed in range(100)]
    assert sum(map(bool, broken)) <= 2


def test_the_text_of_the_rules_names_every_rule():
    text = rules_text()
    assert text.startswith("Quality rules, version 1.")
    for rule in RULES:
        assert f"{rule.name}: " in text
    for word in ("fewer than 4 catch", "fewer than 50%", "More than 10%", "p < 0.01"):
        assert word in text
