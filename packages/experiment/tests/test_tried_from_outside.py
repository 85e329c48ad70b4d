"""What an experimenter and an attacker found in version 1, done again as they did it."""

import csv
import shutil
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import count

import pyarrow.parquet as pq
import pytest
from sqlalchemy import func, select, text

from experiment_studies import Sizes, Visitor, in_process, make_study
from eyechart.humans.human_responses import read_responses
from eyechart_experiment.export.study_export import export
from eyechart_experiment.storage.database_tables import StimulusRow, TrialRow
from eyechart_experiment.storage.experiment_folder import connect_study, open_study

SHAPE = {"practice": 0, "qualification": 0, "catch": 8, "trials": 24, "k": 5}
SIZES = Sizes(main=40, stimuli=2, catch=16)


def stimulus_of(client, trial):
    """Return a trial's stimulus, role, correct response and Δv, which the page never receives."""
    with client.database.reading() as db:
        stimulus = db.scalar(select(StimulusRow).join(TrialRow).where(TrialRow.public_id == trial))
        delta_v = max(image.delta_v for image in stimulus.images)
        return stimulus.id, stimulus.role, stimulus.truth, delta_v


def finish(client, visitor):
    """Respond to all trials that are left and finish."""
    while (step := visitor.next())["next"] == "trial":
        trial = step["trial"]["id"]
        assert visitor.response(trial, stimulus_of(client, trial)[2]).status_code == 200
    assert visitor.finish().status_code == 200
    return visitor.state()["participant"]


def serving(folder):
    """Give a client whose server's clock advances by 2 s at every look, as a participant does."""
    ticks, start = count(), datetime.now(UTC)
    return in_process(folder, clock=lambda: start + timedelta(seconds=2 * next(ticks)))


def table(folder, name):
    with (folder.path / "export" / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_x1_who_failed_three_catch_trials_and_left_does_not_count(tmp_path):
    folder = make_study(tmp_path / "study", sizes=SIZES, **SHAPE)
    with serving(folder) as client:
        good = finish(client, Visitor(client).begin())
        leaver, shown = Visitor(client).begin(), Counter()
        while shown["main"] < 6:
            trial = leaver.next()["trial"]["id"]
            shown[stimulus_of(client, trial)[1]] += 1
            assert leaver.response(trial, "knife").status_code == 200
        code = leaver.state()["participant"]
    assert shown["catch"] <= 3
    export(folder)
    responses = read_responses(folder.path / "export" / "responses.parquet")
    assert set(responses.subject.tolist()) == {good}
    (row,) = (row for row in table(folder, "sessions.csv") if row["participant"] == code)
    assert (row["session_state"], row["counts"]) == ("active", "0")
    assert {"unchecked", "unfinished"} <= set(row["excluded_by"].split())


def test_x2_who_drops_every_hard_image_gets_it_again_and_does_not_count(tmp_path):
    folder = make_study(tmp_path / "study", sizes=SIZES, **SHAPE)
    with serving(folder) as client:
        finish(client, Visitor(client).begin())
        dropper, dropped = Visitor(client).begin(), {}
        while (step := dropper.next())["next"] == "trial":
            trial = step["trial"]["id"]
            stimulus, _, truth, delta_v = stimulus_of(client, trial)
            if delta_v > 0.4 and stimulus not in dropped:
                dropped[stimulus] = delta_v
                dropper.claim()
                again = dropper.next()["trial"]["id"]
                assert stimulus_of(client, again)[0] == stimulus, "the same one comes back"
                # the response to the former trial is not taken any more
                assert dropper.response(trial, truth).status_code == 410
                trial = again
            assert dropper.response(trial, truth).status_code == 200
        assert dropper.finish().status_code == 200
        code = dropper.state()["participant"]
    assert len(dropped) > 4
    export(folder)
    rows = table(folder, "dropped.csv")
    assert {row["participant"] for row in rows} == {code}
    assert sorted(float(row["delta_v"]) for row in rows) == sorted(dropped.values())
    for row in rows:
        assert row["reason"] == "reloaded" and row["served_at"] <= row["dropped_at"]
        assert int(row["returned_as"]) == int(row["trial"]) + 1
    exclusions = [row["rule"] for row in table(folder, "exclusions.csv")]
    assert "selective" in exclusions
    assert code not in read_responses(folder.path / "export" / "responses.parquet").subject
    # nobody else was given the same image twice, and counts are as they should be
    with connect_study(folder) as study, study.database.reading() as db:
        twice = (
            select(func.count())
            .where(TrialRow.state == "responded")
            .group_by(TrialRow.session_id, TrialRow.stimulus_id)
        )
        assert set(db.scalars(twice)) == {1}


def test_x2_a_stimulus_that_others_have_filled_does_not_come_back(tmp_path):
    folder = make_study(
        tmp_path / "study", sizes=Sizes(main=2, stimuli=1), practice=0, qualification=0, catch=0,
        trials=2, k=1, min_trials=1,
    )  # fmt: skip
    with serving(folder) as client:
        slow = Visitor(client).begin()
        trial = slow.next()["trial"]["id"]
        slow.claim()
        finish(client, Visitor(client).begin())
        assert slow.next()["next"] == "finish"
        assert slow.response(trial).status_code == 410


def test_x4_robots_are_marked_and_the_rehearsal_has_its_own_secret(run, tmp_path):
    make_study(tmp_path / "study", sizes=SIZES, **SHAPE)
    out = tmp_path / "rehearsal"
    words = ["--out", out, "--participants", 4, "--droppers", 1, "--fast"]
    assert run("experiment", "simulate", tmp_path / "study", *map(str, words)).status == 0
    assert (out / "secret").read_text() != (tmp_path / "study" / "secret").read_text()
    assert (out / "secret").stat().st_mode & 0o077 == 0
    result = run("experiment", "export", str(out))
    assert result.status == 0 and "are simulated (robots)" in result.out
    folder = open_study(out)
    assert {row["platform"] for row in table(folder, "trials.csv")} == {"robot"}
    file = out / "export" / "responses.parquet"
    assert pq.read_schema(file).metadata[b"eyechart.simulated"] == b"true"
    assert read_responses(file).simulated
    for name in ("rules.txt", "flow.txt"):
        assert "simulated (robots)" in (out / "export" / name).read_text(encoding="utf-8")
    result = run("humans", "areas", str(out))
    assert "simulated (robots)" in result.out + result.err


@pytest.mark.parametrize("kind", ["categorise", "same-different"])
def test_every_exported_file_says_that_participants_were_simulated(run, tmp_path, kind):
    make_study(tmp_path / "study", sizes=Sizes(main=20, catch=16), **SHAPE | {"kind": kind})
    out = tmp_path / "rehearsal"
    words = ["--out", out, "--participants", 4, "--fast"]
    assert run("experiment", "simulate", tmp_path / "study", *map(str, words)).status == 0
    assert run("experiment", "export", str(out)).status == 0
    files = [path for path in (out / "export").rglob("*") if path.is_file()]
    names = {path.name for path in files}
    assert {"trials.csv", "sessions.csv", "rules.txt", "study.yaml"} <= names
    for path in files:
        if path.suffix == ".csv":
            rows = list(csv.reader(path.read_text(encoding="utf-8").splitlines()))
            assert rows[0][-1] == "simulated" and {row[-1] for row in rows[1:]} <= {"1"}, path
        else:
            content = path.read_bytes()
            assert b"simulated (robots)" in content or b"eyechart.simulated" in content, path
    if kind == "same-different":
        # The table alone, without the others beside it.
        alone = tmp_path / "alone" / "judgements.csv"
        alone.parent.mkdir()
        shutil.copy(out / "export" / "judgements.csv", alone)
        assert "simulated (robots)" in run("humans", "similar", str(alone.parent)).out
        return
    tables = sorted(map(str, (out / "export" / "model-vs-human").glob("*.csv")))
    target = tmp_path / "imported.parquet"
    result = run("humans", "import", *tables, "--format", "model-vs-human", "--out", target)
    assert result.status == 0, result.err
    assert "simulated (robots)" in result.out and "simulated participants" in result.out
    assert read_responses(target).simulated
    assert "simulated participants" in run("humans", "list", str(target)).out


def test_x6_nobody_is_admitted_for_a_few_trials(tmp_path):
    # 36 places: two sessions of 16 leave 4
    sizes = Sizes(main=18, stimuli=1)
    folder = make_study(tmp_path / "study", sizes=sizes, **SHAPE | {"trials": 16, "k": 2})
    with serving(folder) as client:
        n_main = []
        for _ in range(12):
            visitor = Visitor(client)
            if visitor.client.get("/api/studies/small").json()["open"] is False:
                assert visitor.join(expect=409)["code"] == "full"
                break
            visitor.begin()
            finish(client, visitor)
            with client.database.reading() as db:
                query = "select count(*) from trial where role = 'main' group by session_id"
                n_main = list(db.scalars(text(query)))
    assert n_main == [16, 16]


def test_x6_participants_who_are_present_are_expected_to_need_their_trials(tmp_path):
    sizes = Sizes(main=30, stimuli=2, catch=16)
    folder = make_study(tmp_path / "study", sizes=sizes, **SHAPE | {"k": 1})
    with serving(folder) as client:
        # 60 places: two sessions of 24 leave 12
        for _ in range(3):
            # A session without a trial takes up no places.
            assert Visitor(client).begin().next()["next"] == "trial"
        assert Visitor(client).join(expect=409)["code"] == "full"


def test_an_export_states_the_rules_and_the_flow_of_participants(run, tmp_path):
    folder = make_study(tmp_path / "study", sizes=SIZES, **SHAPE)
    with serving(folder) as client:
        assert client.get("/s/small").status_code == 200
        finish(client, Visitor(client).begin())
        Visitor(client).begin()
    result = run("experiment", "export", tmp_path / "study")
    assert result.status == 0
    assert "Quality rules, version 1." in (tmp_path / "study" / "export" / "rules.txt").read_text(
        "utf-8"
    )
    flow = {(row["step"], row["rule"]): row["participants"] for row in table(folder, "flow.csv")}
    assert flow["opened the page", ""] == "1" and flow["consented", ""] == "2"
    assert flow["finished", ""] == flow["counted", ""] == "1"
    assert flow["still taking part", ""] == "1"
    lines = (tmp_path / "study" / "export" / "flow.txt").read_text("utf-8").splitlines()
    assert lines[0] == "Flow of participants" and lines[-1].split() == ["counted", "1"]
    assert "counted: 1" in result.out
