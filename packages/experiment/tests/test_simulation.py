"""Robots with a known curve take part; that curve must come out, without the spammers."""

import csv
import json
from collections import Counter

import numpy as np
import pytest
from scipy.stats import binomtest

from experiment_studies import CORRUPTIONS, Sizes, Visitor, in_process, make_study
from eyechart.core.errors import UsageError
from eyechart.humans.human_responses import CLEAN, read_responses
from eyechart.humans.reference import find_reference
from eyechart_experiment.design.psychometric import Psychometric
from eyechart_experiment.server.serve import make_server
from eyechart_experiment.simulate.robots import Robot, RobotQuestion, kinds_of
from eyechart_experiment.simulate.simulation import simulate_fast
from eyechart_experiment.storage.experiment_folder import open_study

CURVE = Psychometric()
FULL = {"practice": 4, "qualification": 8, "catch": 8, "k": 5, "response_ms": 1500}


def truth(delta_v):
    return np.array([CURVE(float(each), 16) for each in delta_v])


def simulated(run, tmp_path, participants, spammers, sources, trials):
    sizes = Sizes(main=sources, stimuli=4, practice=16, qualification=16, catch=16)
    make_study(tmp_path / "study", sizes=sizes, trials=trials, **FULL)
    options = ["--participants", str(participants), "--spammers", str(spammers), "--fast"]
    out = tmp_path / "robots"
    for words in (["simulate", tmp_path / "study", "--out", out, *options], ["export", out]):
        result = run("experiment", *words)
        assert result.status == 0, result.err
    return out


def check(out, spammers, **fit):
    robots = json.loads((out / "robots.json").read_text())["robots"]
    kinds = {each["participant"]: each["kind"] for each in robots}
    reference = find_reference(str(out))
    counted = Counter(kinds[each] for each in set(reference.responses.subject.tolist()))
    assert sum(kind != "attentive" for kind in kinds.values()) == spammers
    assert set(counted) == {"attentive"}, "spammers are left out"
    grid = np.linspace(0, 1, 1001)
    figures = []
    for name in CORRUPTIONS:
        curve = reference.curve(name, **fit)
        # with so many checks one in twenty would fail by chance at 95 %
        low, high = curve.interval(0.999)
        area = float(truth(grid).mean())
        figures.append((name, curve.area, curve.interval(0.95), area))
        assert low <= area <= high
    clean = reference.responses.only(reference.responses.corruption == CLEAN)
    hits, asked = int(clean.correct.sum()), len(clean)
    left = reference.left_end(CORRUPTIONS[0])
    assert left is not None and left[0] == pytest.approx(hits / asked)
    assert binomtest(hits, asked, 1 - CURVE.lapse).pvalue > 0.001
    return counted["attentive"], figures


def test_a_robots_curve_comes_out_as_it_was_put_in(run, tmp_path):
    out = simulated(run, tmp_path, participants=20, spammers=3, sources=40, trials=36)
    counted, _ = check(out, 3, bins=12, min_per_bin=8)
    assert counted >= 16, "attentive robots are kept"


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_three_hundred_robots_give_a_curve_whose_interval_holds_the_truth(run, tmp_path, capsys):
    out = simulated(run, tmp_path, participants=300, spammers=45, sources=510, trials=40)
    counted, figures = check(out, 45)
    with capsys.disabled():
        print(f"\n{counted} of 255 attentive robots counted, 0 of 45 spammers")
        for name, area, (low, high), expected in figures:
            print(f"{name}: area {area:.4f} (95 % {low:.4f} to {high:.4f}), truth {expected:.4f}")
    assert counted >= 250
    reference = find_reference(str(out))
    for name in CORRUPTIONS:
        where = np.linspace(0.1, 0.9, 17)
        low, high = reference.curve(name).band(where, 0.999)
        inside = (low <= truth(where)) & (truth(where) <= high)
        assert inside.all(), where[~inside]


def test_an_attentive_robot_is_right_as_often_as_its_curve_says():
    choices = tuple("abcdefghijklmnop")
    for change in (0.0, 0.5, 0.7, 1.0):
        robot = Robot("attentive", (1, int(100 * change)), CURVE)
        asked = RobotQuestion("c", change, "main")
        right = [robot.react(asked, choices, 1500).choice == "c" for _ in range(4000)]
        expected = CURVE(change, 16)
        assert abs(np.mean(right) - expected) < 4 * np.sqrt(expected * (1 - expected) / 4000) + 1e-9


def test_a_psychometric_curve_falls_from_one_less_the_lapses_to_chance():
    values = truth(np.linspace(0, 1, 101))
    assert values[0] == pytest.approx(1 - CURVE.lapse)
    assert (np.diff(values) < 0).all()
    assert values[-1] == pytest.approx(1 / 16, abs=0.02)


def test_spammers_are_of_all_kinds_and_as_many_as_asked_for():
    kinds = Counter(kinds_of(50, 9, seed=1))
    assert kinds == {"attentive": 41, "guesser": 3, "one-button": 3, "hasty": 3}
    assert kinds_of(50, 9, seed=1) == kinds_of(50, 9, seed=1) != kinds_of(50, 9, seed=2)


def test_clean_responses_of_an_earlier_study_are_used_again(run, tmp_path):
    url = f"sqlite:///{tmp_path}/both.sqlite"
    sizes = Sizes(main=40, stimuli=2, practice=16, qualification=16, catch=16)
    first = make_study(tmp_path / "first", "first", sizes, url, trials=20, **FULL)
    secret = (tmp_path / "first" / "secret").read_text()
    second = make_study(tmp_path / "second", "second", sizes, url, secret, trials=20, **FULL)
    for folder, seed in ((first, 1), (second, 2)):
        simulate_fast(folder, ["attentive"] * 6, CURVE, seed, lambda count, message: None)
    result = run("experiment", "export", tmp_path / "second")
    assert result.status == 0 and "from other studies" in result.out
    responses = read_responses(tmp_path / "second" / "export" / "responses.parquet")
    clean = responses.only(responses.corruption == "clean")
    table = (tmp_path / "second" / "export" / "trials.csv").read_text(encoding="utf-8")
    own = {row["participant"] for row in csv.DictReader(table.splitlines())}
    others = [who for who in clean.subject.tolist() if who not in own]
    assert others and len(set(zip(responses.subject, responses.image, strict=True))) == len(
        responses
    )


def test_a_study_that_is_closed_lets_nobody_new_in(run, tmp_path):
    make_study(tmp_path / "study")
    for words, status in ((["close"], 409), (["close", "--reopen"], 201)):
        assert run("experiment", words[0], tmp_path / "study", *words[1:]).status == 0
        with in_process(open_study(tmp_path / "study")) as client:
            told = Visitor(client).join(expect=status)
            assert status == 201 or told["code"] == "closed"


def test_a_server_does_not_begin_without_its_images(tmp_path):
    folder = make_study(tmp_path / "study")
    next(folder.stimuli.iterdir()).unlink()
    with pytest.raises(UsageError, match=r"1 of .* images of the study are missing"):
        make_server(folder)
