"""Quality rules: by closed-form probabilities, by robots, and in a database."""

from dataclasses import replace
from datetime import timedelta
from fractions import Fraction
from math import comb, log2

import pytest
from sqlalchemy import select

from experiment_studies import make_study
from eyechart_experiment.quality.judging import (
    apply_rules,
    judge,
    judge_session,
)
from eyechart_experiment.quality.rules import entropy, min_correct
from eyechart_experiment.storage.database_tables import ExclusionRow, SessionRow, StimulusRow
from eyechart_experiment.storage.experiment_folder import connect_study
from eyechart_experiment.storage.session_records import read_sessions
from eyechart_experiment.study_config import StudyConfig
from filled_studies import (
    START,
    Robot,
    always,
    anything,
    attentive,
    fill,
    right_with,
    sitting_of,
)

NAMING = StudyConfig(name="naming", title="Naming")
PAIRS = StudyConfig(name="pairs", title="Pairs", kind="same-different", response_ms=0)
BUTTONS = ("same", "different")


def changed(config, **settings):
    return replace(config, **settings)


def rules_of(sitting, config=NAMING):
    return {rule for rule, _ in judge(sitting, config).broken}


def with_right(sitting, roles, right):
    """The same session with so many correct responses among trials of these roles."""
    left, responses = right, []
    for response in sitting.responses:
        own = response
        if response.role in roles:
            choice = response.truth if left > 0 else "none of them"
            own = replace(response, choice=choice, correct=left > 0)
            left -= 1
        responses.append(own)
    return replace(sitting, responses=tuple(responses))


def tail(n_correct, trials, chance):
    """P(at least so many of so many), in whole numbers."""
    return sum(
        comb(trials, right) * chance**right * (1 - chance) ** (trials - right)
        for right in range(n_correct, trials + 1)
    )


ATTENTIVE = Robot(right_with(attentive))
PERFECT = sitting_of(Robot(right_with(lambda v: 1.0)), NAMING, 0)
PERFECT_PAIRS = sitting_of(Robot(right_with(lambda v: 1.0, BUTTONS), (900, 250)), PAIRS, 0)


# Probabilities


def test_of_eight_catch_trials_five_must_be_right():
    flagged = ["catch" in rules_of(with_right(PERFECT, ("catch",), right)) for right in range(9)]
    assert flagged == [True] * 5 + [False] * 4
    assert tail(5, 8, Fraction(1, 16)) < Fraction(1, 1000)
    assert 1 - tail(5, 8, Fraction(95, 100)) < Fraction(1, 1000)
    # participants name 87 % of clean images rightly in the published experiments
    assert 1 - tail(5, 8, Fraction(87, 100)) < Fraction(2, 100)


def test_who_guesses_between_two_passes_once_in_a_thousand():
    flagged = [
        "guessing" in rules_of(with_right(PERFECT_PAIRS, ("catch", "qualification"), right), PAIRS)
        for right in range(25)
    ]
    assert flagged == [True] * 20 + [False] * 5
    assert tail(20, 24, Fraction(1, 2)) < Fraction(1, 1000)
    assert 1 - tail(20, 24, Fraction(95, 100)) < Fraction(1, 100)


@pytest.mark.parametrize("choices", [2, 16])
def test_as_few_right_responses_are_needed_as_guessing_rarely_reaches(choices):
    for trials in range(41):
        found = min_correct(trials, choices)
        rare = [
            right
            for right in range(trials + 1)
            if tail(right, trials, Fraction(1, choices)) < Fraction(1, 1000)
        ]
        assert found == (rare[0] if rare else None)
    assert min_correct(9, 2) is None and min_correct(10, 2) == 10


def test_entropy_is_in_bits():
    assert entropy("aaaa") == 0
    assert entropy("abcd" * 3) == pytest.approx(2)
    assert entropy("aabc") == pytest.approx(1.5)
    assert entropy("aaab") == pytest.approx(2 - 0.75 * log2(3))


# Robots


@pytest.mark.parametrize(
    ("robot", "rule"),
    [
        (Robot(anything()), "catch"),
        (Robot(anything()), "guessing"),
        (Robot(anything()), "qualification"),
        (Robot(always("dog")), "one_button"),
        (Robot(lambda t, v, n: "dog" if n.random() < 0.9 else t), "one_button"),
        (Robot(right_with(attentive), rt=(90, 20)), "fast"),
        (Robot(right_with(attentive), flags=[("too_soon", 1.0)]), "fast"),
        (Robot(right_with(attentive), rt=(1500, 200)), "no_response"),
        (Robot(right_with(attentive), flags=[("hidden", 0.5)]), "focus"),
        (Robot(right_with(attentive), flags=[("blurred_focus", 0.5)]), "focus"),
        (Robot(right_with(attentive), flags=[("timing", 0.5)]), "timing"),
        # no flag was sent, but the stamps say that images stayed for 250 ms
        (Robot(right_with(attentive), shown_ms=250), "timing"),
    ],
)
def test_who_does_not_look_is_found_by_the_rule_for_it(robot, rule):
    assert all(rule in rules_of(sitting_of(robot, NAMING, seed)) for seed in range(100))


@pytest.mark.parametrize(
    ("robot", "rule"),
    [
        (Robot(anything(BUTTONS), (900, 250)), "guessing"),
        (Robot(always("same"), (900, 250)), "one_button"),
        (Robot(always("same"), (900, 250)), "catch"),
        (Robot(right_with(lambda v: 0.95, BUTTONS), (120, 30)), "fast"),
    ],
)
def test_who_does_not_compare_is_found_by_the_rule_for_it(robot, rule):
    config = changed(PAIRS, catch=8, qualification=16)
    found = sum(rule in rules_of(sitting_of(robot, config, seed), config) for seed in range(300))
    assert found >= 298


@pytest.mark.parametrize(
    "robot",
    [
        ATTENTIVE,
        Robot(right_with(attentive), rt=(1050, 250)),
        # old screen and restless hands, within what is allowed
        Robot(right_with(attentive), flags=[("timing", 0.05), ("blurred_focus", 0.03)]),
        # sees nothing once images are changed at all, and then says bird
        Robot(lambda t, v, n: t if n.random() < (0.3 if v else 0.95) else "bird"),
    ],
    ids=["attentive", "slow", "restless", "lost"],
)
def test_who_looks_is_left_alone(robot):
    broken = [rules_of(sitting_of(robot, NAMING, seed)) for seed in range(400)]
    # 16 of 16 qualification trials are right 95 % of the time: under 12 come once in 1,100
    assert sum(map(bool, broken)) <= 4, broken


def test_who_cannot_tell_any_pair_apart_is_left_alone():
    """Saying "same" of nearly everything is an honest response where corruptions look alike."""

    def choose(truth, change, numbers):
        if change == 0:  # plain ones: qualification and catch
            return truth if numbers.random() < 0.97 else "same"
        return "same" if numbers.random() < 0.97 else "different"

    robot = Robot(choose, (900, 250))
    broken = [rules_of(sitting_of(robot, PAIRS, seed), PAIRS) for seed in range(400)]
    assert sum(map(bool, broken)) <= 4, broken


def test_rules_say_nothing_of_a_few_trials():
    robot = Robot(always("dog"), rt=(50, 5), flags=[("timing", 1.0), ("hidden", 1.0)])
    few = changed(NAMING, practice=4, qualification=0, catch=0, trials=19)
    assert rules_of(sitting_of(robot, few, 0), few) == set()
    enough = changed(few, trials=20)
    assert rules_of(sitting_of(robot, enough, 0), enough) >= {"one_button", "fast", "timing"}


def test_who_was_ended_by_the_qualification_does_not_count():
    few = changed(NAMING, qualification=4, catch=0, trials=1)
    sitting = sitting_of(ATTENTIVE, few, 0, state="failed")
    assert rules_of(sitting, few) == {"qualification"}
    passed = with_right(sitting_of(ATTENTIVE, few, 0), ("qualification",), 3)
    assert rules_of(passed, few) == set()
    assert rules_of(with_right(passed, ("qualification",), 2), few) >= {"qualification"}


def test_a_qualification_that_goes_on_is_not_yet_judged():
    half = replace(PERFECT, state="active", responses=PERFECT.responses[:20])
    assert [each.role for each in half.responses[-4:]] == ["qualification"] * 4
    assert "qualification" not in rules_of(with_right(half, ("qualification",), 1))


# Single trials


@pytest.mark.parametrize(
    ("shown", "hz", "is_odd"),
    [
        (200, 60, False),
        (200 + 1000 / 60 + 0.4, 60, False),
        (200 - 1000 / 60 - 0.4, 60, False),
        (200 + 2000 / 60, 60, True),
        (200 - 2000 / 60, 60, True),
        (208, 144, False),
        (200 + 2000 / 144, 144, True),
    ],
)
def test_a_trial_is_odd_if_its_image_was_shown_more_than_a_frame_off(shown, hz, is_odd):
    response = PERFECT.responses[0]
    later = shown - (response.stamps["blank"] - response.stamps["stimulus"])
    stamps = {
        name: at + later * (name in ("blank", "mask", "response", "end"))
        for name, at in response.stamps.items()
    }
    received = response.received_at + timedelta(milliseconds=max(0, later))
    response = replace(response, stamps=stamps | {"hz": hz}, received_at=received)
    sitting = replace(PERFECT, hz=60.0, responses=(response,))
    assert judge(sitting, NAMING).invalid_reasons == ({0: ("timing",)} if is_odd else {})


@pytest.mark.parametrize(
    "flag",
    ["timing", "slow_decode", "hidden", "blurred_focus", "resized", "too_soon", "too_late"],
)
def test_a_flagged_trial_does_not_count_but_its_person_does(flag):
    response = replace(PERFECT.responses[-1], flags=(flag,))
    verdict = judge(replace(PERFECT, responses=(*PERFECT.responses[:-1], response)), NAMING)
    assert verdict.counts and verdict.invalid_reasons == {response.number: (flag,)}


def test_what_says_nothing_of_what_was_seen_is_only_noted():
    response = replace(PERFECT.responses[-1], flags=("late",))
    assert not judge(replace(PERFECT, responses=(response,)), NAMING).invalid_reasons


# In the database


@pytest.fixture
def folder(tmp_path):
    return make_study(
        tmp_path / "study", qualification=4, catch=4, trials=24, practice=0, stimulus_ms=200,
    )  # fmt: skip


def taken(db):
    return sum(db.scalars(select(StimulusRow.taken).where(StimulusRow.role == "main")))


def test_an_ended_session_that_breaks_rules_is_written_down_once(folder):
    fill(folder, [ATTENTIVE, Robot(always("dog"))])
    study = connect_study(folder)
    database = study.database
    with database.writing() as db:
        good, bad = db.scalars(select(SessionRow).order_by(SessionRow.id)).all()
        assert judge_session(db, good) == []
        found = judge_session(db, bad)
        assert {"catch", "one_button", "guessing"} <= {row.rule for row in found}
        assert {row.session_id for row in found} == {bad.id}
        db.add_all(found)
        db.flush()
        assert judge_session(db, bad) == []
    assert apply_rules(study) == 0
    with database.reading() as db:
        assert len(db.scalars(select(ExclusionRow)).all()) == len(found)
    database.close()


def test_applying_rules_later_asks_others_for_what_does_not_count(folder):
    fill(folder, [ATTENTIVE, Robot(always("dog"))])
    study = connect_study(folder)
    database = study.database
    with database.reading() as db:
        before = taken(db)
    assert apply_rules(study) >= 3
    for _ in range(2):
        with database.reading() as db:
            assert taken(db) == before - 24
        assert apply_rules(study) == 0
    database.close()


def test_nothing_is_written_of_a_session_that_goes_on(folder):
    fill(folder, [Robot(always("dog"))], state="active")
    study = connect_study(folder)
    database = study.database
    assert apply_rules(study) == 0
    with database.writing() as db:
        (session,) = db.scalars(select(SessionRow))
        session.state = "finished"
        assert len(judge_session(db, session)) >= 3
    database.close()


def test_an_exclusion_by_hand_counts(folder):
    fill(folder, [ATTENTIVE])
    study = connect_study(folder)
    database = study.database
    with database.writing() as db:
        (session,) = db.scalars(select(SessionRow))
        db.add(
            ExclusionRow(session_id=session.id, rule="by_hand", detail="told us", decided_at=START)
        )
    with database.reading() as db:
        (sitting,) = read_sessions(db, study.id)
    assert judge(sitting, folder.config).broken == (("by_hand", "told us"),)
    database.close()
