"""From a study's database to files, to human curves, to a model's score beside them."""

import csv
import json
import os
import re
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
import yaml
from sqlalchemy import select

import eyechart as ec
from commands import assert_rejected
from experiment_studies import Sizes, make_study
from eyechart.humans.human_responses import read_responses
from eyechart.humans.importing import import_responses
from eyechart.humans.reference import find_reference
from eyechart.images.labels.imagenet import wordnet_ids
from eyechart_experiment.export.export_tables import safe, write_csv
from eyechart_experiment.export.study_export import export
from eyechart_experiment.export.study_status import read_status
from eyechart_experiment.storage.database_tables import ResponseRow, SessionRow, TrialRow
from eyechart_experiment.storage.experiment_folder import connect_study, open_study
from eyechart_experiment.storage.stimulus_counts import StimulusGroup
from filled_studies import START, Robot, always, attentive, fill, right_with
from small_models import save_images

GOOD = Robot(right_with(attentive))
FLAGGED = Robot(right_with(attentive), flags=[("timing", 0.08)])
SPAMMER = Robot(always("dog"))
SHAPE = {
    "qualification": 4, "catch": 4, "trials": 24, "practice": 2, "k": 5, "stimulus_ms": 200,
}  # fmt: skip
BUTTONS = ("same", "different")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A study of 10 attentive participants, one with an old screen, 2 spammers, one who left."""
    path = tmp_path_factory.mktemp("made") / "small"
    folder = make_study(path, **SHAPE)
    fill(folder, [GOOD] * 10 + [FLAGGED] + [SPAMMER] * 2)
    fill(folder, [GOOD], counts={"main": 12, "catch": 4}, state="active", names="Q", seed=5)
    return path


@pytest.fixture
def study(made, tmp_path):
    return open_study(shutil.copytree(made, tmp_path / "small"))


def query(study, text):
    """Ask the database itself, without anything of ours in between."""
    with closing(sqlite3.connect(study.path / "responses.sqlite")) as connection:
        return connection.execute(text).fetchall()


def table(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


# What counts


def test_exported_responses_are_those_that_a_query_of_the_database_counts(study):
    told = export(study)
    responses = read_responses(study.path / "export" / "responses.parquet")
    rows = query(
        study,
        """
        select c.code, s.name, p.corruption, p.delta_v, st.truth, r.choice
        from response r join trial t on t.id = r.trial_id join session e on e.id = t.session_id
        join participant c on c.id = e.participant_id join stimulus st on st.id = t.stimulus_id
        join stimulus_image p on p.stimulus_id = st.id join source_image s on s.id = p.source_id
        where t.role = 'main' and r.flags not like '%timing%' and c.code not in ('P011', 'P012')
        """,
    )
    assert sorted(rows) == sorted(
        zip(
            responses.subject.tolist(), responses.image.tolist(), responses.corruption.tolist(),
            responses.delta_v.tolist(), responses.label.tolist(), responses.response.tolist(),
            strict=True,
        )
    )  # fmt: skip
    assert len(told.kept) == len(responses) == len(rows)
    assert told.n_participants == 12 and told.n_excluded == 2 and told.n_left_out > 0
    main = "select count(*) from response join trial on trial.id = trial_id where role = 'main'"
    assert told.n_responses == query(study, main)[0][0]
    assert (responses.choices, responses.label_space) == (16, "entry16")
    assert (responses.source, responses.citation) == ("eyechart experiment", "A small study")


def test_all_responses_are_in_the_table_of_trials_with_why_they_do_not_count(study):
    export(study)
    rows = table(study.path / "export" / "trials.csv")
    assert len(rows) == query(study, "select count(*) from response")[0][0]
    by_role = dict(query(study, "select role, count(*) from trial group by role"))
    for role, count in by_role.items():
        assert sum(row["role"] == role for row in rows) == count
    assert {row["participant"] for row in rows if "catch" in row["excluded_by"]} == {"P011", "P012"}
    flagged = [row for row in rows if row["flags"]]
    assert flagged and all(row["trial_left_out"] == row["flags"] == "timing" for row in flagged)
    assert {row["session_state"] for row in rows} == {"finished", "active"}
    row = next(row for row in rows if row["corruption"] != "clean")
    assert json.loads(row["parameters"]) == {"strength": 0.5}
    assert 0 < float(row["delta_v"]) < 1 and len(row["sha256"]) == 64
    assert (row["t_stimulus"], row["t_hz"], row["measured_hz"]) == ("0.0", "60", "60.0")
    assert row["correct"] == str(int(row["choice"] == row["truth"]))


def test_exclusions_say_who_by_which_rule_and_figure(study):
    export(study)
    rows = table(study.path / "export" / "exclusions.csv")
    assert {row["participant"] for row in rows} == {"P011", "P012"}
    assert {row["version"] for row in rows} == {"1"}
    one = next(row for row in rows if row["rule"] == "one_button")
    assert one["detail"].startswith("0.00 bits")
    stored = query(study, "select count(*) from exclusion")
    assert stored == [(len(rows),)]
    assert "version 1" in (study.path / "export" / "rules.txt").read_text("utf-8")
    copy = (study.path / "export" / "study.yaml").read_text("utf-8")
    # all of it but the codes by which participants are paid
    assert "CDONE" not in copy and "CFAIL" not in copy
    codes = dict.fromkeys(study.config.recruiter_settings, "")
    assert yaml.safe_load(copy) == study.config.plain() | codes


def test_the_excluded_can_be_kept(study, tmp_path):
    told = export(study, tmp_path / "all", include_excluded=True)
    responses = read_responses(tmp_path / "all" / "responses.parquet")
    assert {"P011", "P012"} <= set(responses.subject.tolist()) and told.n_participants == 14
    assert "that violate a rule are included" in (tmp_path / "all" / "rules.txt").read_text("utf-8")


def test_nothing_is_deleted_by_being_exported(study):
    before = query(study, "select * from response order by trial_id")
    export(study)
    export(study)
    assert query(study, "select * from response order by trial_id") == before


def test_two_images_of_one_name_are_kept_apart(study):
    with closing(sqlite3.connect(study.path / "responses.sqlite")) as connection, connection:
        connection.execute("update source_image set name = 'same.png' where id in (1, 2)")
    export(study)
    responses = read_responses(study.path / "export" / "responses.parquet")
    digests = {row[0] for row in query(study, "select digest from source_image where id < 3")}
    assert digests <= set(responses.image.tolist()) and "same.png" not in responses.image


# Other formats


def test_tables_of_model_vs_human_are_read_again_as_the_same_responses(study, run, tmp_path):
    export(study)
    files = sorted((study.path / "export" / "model-vs-human").iterdir())
    assert len(files) == 12 and files[0].name == "P000_session_1.csv"
    with files[0].open(encoding="utf-8") as file:
        head = next(csv.reader(file))
    assert head[:8] == [
        "subj", "session", "trial", "rt", "object_response", "category", "condition", "imagename",
    ]  # fmt: skip
    out = tmp_path / "again.parquet"
    result = run("humans", "import", *files, "--format", "model-vs-human", "--out", out)
    assert result.status == 0, result.err
    again, responses = (
        read_responses(out),
        read_responses(study.path / "export" / "responses.parquet"),
    )
    order = np.argsort(responses.subject, kind="stable")
    for name in ("subject", "corruption", "image", "label", "response", "delta_v", "correct"):
        np.testing.assert_array_equal(getattr(again, name), getattr(responses, name)[order])
    assert (again.choices, again.label_space) == (16, "entry16")


def test_reaction_times_are_in_seconds_and_no_response_is_na(study):
    database = connect_study(study).database
    with database.writing() as db:
        first = db.scalars(
            select(ResponseRow)
            .join(TrialRow)
            .where(TrialRow.role == "main", TrialRow.session_id == 1)
        ).first()
        first.choice, first.rt_ms, first.correct = "", None, False
    database.close()
    export(study)
    rows = table(study.path / "export" / "model-vs-human" / "P000_session_1.csv")
    assert (rows[0]["object_response"], rows[0]["rt"]) == ("na", "")
    times = query(
        study,
        "select rt_ms from response join trial on id = trial_id"
        " where session_id = 1 and role = 'main' order by number",
    )
    assert [float(row["rt"]) for row in rows[1:]] == pytest.approx([t / 1000 for (t,) in times[1:]])
    assert [int(row["trial"]) for row in rows] == list(range(1, len(rows) + 1))
    again = import_responses(
        [study.path / "export" / "model-vs-human" / "P000_session_1.csv"], "model-vs-human"
    )
    assert again.response[0] == "" and again.correct[0] == 0


def test_a_table_of_model_vs_human_that_does_not_say_what_was_done_still_needs_to_be_told(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(
        "subj,object_response,category,condition,imagename,delta_v\na,dog,dog,1,x,0.2\n"
    )
    with pytest.raises(ec.UsageError, match="pass a placement or a corruption"):
        import_responses([path], "model-vs-human")


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "\n"])
def test_no_cell_is_a_formula_or_breaks_its_line(tmp_path, start):
    path = tmp_path / "t.csv"
    write_csv(path, ("a", "b", "c"), [(f"{start}1+1", -1.5, None), ("x", 2, float("nan"))])
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    shown = " " if start in "\r\n" else start
    assert rows == [["a", "b", "c"], [f"'{shown}1+1", "-1.5", ""], ["x", "2", ""]]
    assert safe(True) == "1"


def test_what_a_browser_says_of_itself_cannot_become_a_formula(study):
    evil = '=HYPERLINK("http://x")'
    database = connect_study(study).database
    with database.writing() as db:
        db.get_one(SessionRow, 1).screen = {"width": evil, "height": "@SUM(1)", "ratio": -2}
        response = db.scalars(select(ResponseRow)).first()
        response.flags, response.choice = ["+1", "late"], "-1+1"
        response.stamps = {"end": "\t=1", evil: 1}
    database.close()
    export(study)
    for path in (study.path / "export").rglob("*.csv"):
        for row in table(path):
            for cell in row.values():
                if cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n")):
                    float(cell)
    assert any(row["screen_width"] == f"'{evil}" for row in table(study.path / "export/trials.csv"))
    assert any(row["screen_ratio"] == "-2" for row in table(study.path / "export/trials.csv"))


# The folder


def test_exporting_again_replaces_what_was_there_and_who_withdrew_is_gone(study, run):
    result = run("experiment", "export", study.path)
    assert result.status == 0, result.err
    assert "2 sessions violate a rule" in result.out and "eyechart evaluate --humans" in result.out
    result = run("experiment", "withdraw", study.path, "P003", "--yes")
    assert result.status == 0, result.err
    assert run("experiment", "export", study.path).status == 0
    for path in (study.path / "export").rglob("*"):
        assert "P003" not in path.name
        assert not path.is_file() or b"P003" not in path.read_bytes()
    assert "P003" not in read_responses(study.path / "export" / "responses.parquet").subject


@pytest.mark.parametrize(
    ("prepare", "words"),
    [
        (lambda out: (out.mkdir(), (out / "notes.txt").write_text("mine")), "notes.txt"),
        (lambda out: (out.mkdir(), (out / "trials.csv").write_text("mine")), "trials.csv"),
        (lambda out: out.write_text("mine"), "it is a file"),
        (lambda out: None, None),
    ],
)
def test_a_folder_with_other_files_is_left_alone(study, run, tmp_path, prepare, words):
    out = tmp_path / "out"
    prepare(out)
    before = {path: path.read_bytes() for path in tmp_path.glob("out/*")}
    result = run("experiment", "export", study.path, "--out", out)
    if words is None:
        assert result.status == 0, result.err
        return
    assert_rejected(result, words)
    assert {path: path.read_bytes() for path in tmp_path.glob("out/*")} == before


def test_the_study_itself_and_another_studys_export_are_no_place_for_it(study, run, tmp_path):
    assert_rejected(run("experiment", "export", study.path, "--out", study.path), "other files")
    export(study, tmp_path / "out")
    other = make_study(tmp_path / "other", "other", **SHAPE)
    fill(other, [GOOD])
    assert_rejected(
        run("experiment", "export", other.path, "--out", tmp_path / "out"), "the study small"
    )
    inner = tmp_path / "out" / "model-vs-human" / "notes.txt"
    inner.write_text("mine")
    assert_rejected(run("experiment", "export", study.path, "--out", tmp_path / "out"), "notes.txt")
    assert inner.read_text() == "mine"


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--out", "none/there"], "No such folder"),
        (["--out", ""], "not an empty string"),
    ],
)
def test_what_cannot_be_exported_is_rejected(study, run, arguments, word):
    assert_rejected(run("experiment", "export", study.path, *arguments), word)
    assert not (study.path / "export").exists()


def test_a_study_without_responses_is_not_exported(run, tmp_path):
    folder = make_study(tmp_path / "empty", "empty")
    assert_rejected(run("experiment", "export", folder.path), "no responses yet")
    assert not (folder.path / "export").exists()
    assert_rejected(run("experiment", "export", tmp_path), "is not a study")


def test_where_nothing_counts_there_are_tables_but_no_reference(study, run, tmp_path):
    folder = make_study(tmp_path / "bad", "bad", **SHAPE)
    fill(folder, [SPAMMER])
    result = run("experiment", "export", folder.path)
    assert result.status == 0 and "No responses are included yet" in result.out
    assert (folder.path / "export" / "trials.csv").exists()
    assert_rejected(run("humans", "list", folder.path), "experiment export")


# Humans to compare with


def test_a_studys_folder_is_a_reference_once_it_is_exported(study, run):
    assert_rejected(run("humans", "list", study.path), f"eyechart experiment export {study.path}")
    export(study)
    for path in (study.path, study.path / "export"):
        reference = find_reference(str(path))
        assert reference.name == "small"
        assert reference.clean_rule == "majority"
    result = run("humans", "list", study.path)
    assert result.status == 0 and "A small study" in result.out


def test_consistency_compares_with_other_humans(study):
    export(study)
    reference = find_reference(str(study.path))
    judged, responses = reference.judged, reference.responses
    clean = responses.corruption == "clean"
    known = np.flatnonzero(~np.isnan(judged.consistent))
    assert len(known) > 50
    for row in known.tolist():
        others = (
            clean
            & (responses.image == responses.image[row])
            & (responses.subject != responses.subject[row])
            & (responses.response != "")
        )
        said, counts = np.unique(responses.response[others], return_counts=True)
        best = set(said[counts == counts.max()].tolist())
        if len(best) == 1:
            assert judged.consistent[row] == (responses.response[row] in best)
        else:
            assert responses.response[row] in best or judged.consistent[row] == 0
    # nobody sees an image both ways
    own = set(zip(responses.subject[clean].tolist(), responses.image[clean].tolist(), strict=True))
    seen = zip(responses.subject[~clean].tolist(), responses.image[~clean].tolist(), strict=True)
    assert not own & set(seen)


def test_a_model_is_scored_beside_the_humans_of_a_study(run, tmp_path):
    """Test set, study, responses, export, evaluation: each with the command that a user types."""
    home = save_images(tmp_path / "images", each=8, tints=("blue", "green", "red"))
    for tint, place in (("blue", 281), ("green", 207), ("red", 404)):
        (home / tint).rename(home / wordnet_ids()[place])
    testset, where = tmp_path / "testset.parquet", tmp_path / "humans"
    one = ("--corruption", "gaussian_noise")
    said = run(
        "testset", "make", "--images", home, "--out", testset, "--n", 90, *one,
        "--labels", "entry16", "--stimulus", "native",
    )  # fmt: skip
    assert said.status == 0, said.err
    said = run(
        "experiment", "new", where, "--testset", testset, "--images", home, "--k", 16,
        "--clean-k", 10, "--trials", 12, "--practice", 0, "--qualification", 2, "--catch", 4,
        "--catch-pool", 4, "--title", "Three animals and things",
    )  # fmt: skip
    assert said.status == 0, said.err
    folder = open_study(where)
    fill(folder, [GOOD] * 110)
    with closing(sqlite3.connect(folder.path / "responses.sqlite")) as connection, connection:
        # each of the first five dropped a trial, which did not come back
        connection.execute(
            "insert into trial (public_id, session_id, number, key, role, stimulus_id, state,"
            " served_at, expires_at, drop_reason, dropped_at) select 'd' || e.id, e.id, 500, e.id,"
            " 'main', (select s.id from stimulus s join stimulus_image p on p.stimulus_id = s.id"
            " where s.role = 'main' and p.delta_v > 0.2 and s.id not in (select stimulus_id from"
            " trial t where t.session_id = e.id) limit 1), 'dropped', created_at, created_at,"
            " 'reloaded', created_at from session e where e.id <= 5"
        )
    assert run("experiment", "export", where).status == 0
    said = run(
        "evaluate", "small_models:thousand", "--images", home, "--testset", testset, "--humans",
        where, "--labels", "entry16", "--stimulus", "native", "--bins", 9, "--min-per-bin", 3,
        "--n-bootstrap", 30, "--out", tmp_path / "out",
    )  # fmt: skip
    assert said.status == 0, said.err
    found = json.loads((tmp_path / "out" / "results.json").read_text("utf-8"))
    own = found["models"][0]["spaces"]["entry16"]["corruptions"]["vcr/gaussian_noise"]
    reference = find_reference(str(where))
    for which, key in (("accuracy", "accuracy"), ("consistency", "consistency")):
        humans = own[key]["humans"]
        curve = reference.curve("vcr/gaussian_noise", which, n_bootstrap=30, bins=9, min_per_bin=3)
        assert humans["areas"]["human"] == pytest.approx(curve.area, abs=1e-9)
        assert humans["kind"] == "direct"
        assert 0 <= humans["hmri"]["value"] <= 1 and humans["mrsi"]["value"] >= 0
    (experiment,), (human_study,) = found["humans"], found["studies"]
    low, high = experiment["dropped_areas"]
    sessions = table(where / "export" / "sessions.csv")
    n_dropped = sum(int(row["dropped_trials"]) for row in sessions if row["counts"] == "1")
    assert experiment["n_dropped"] == n_dropped > 1 and low < humans_area(own) < high
    note = f"participants dropped {n_dropped} trials"
    assert any(note in warning for warning in found["warnings"])
    flow = {step["step"]: step["count"] for step in human_study["flow"]}
    n_humans = reference.n_participants("vcr/gaussian_noise")
    assert flow["consented"] == 110 >= flow["counted"] >= n_humans > 50
    assert run("report", tmp_path / "out", "--out", tmp_path / "report.html").status == 0
    page = (tmp_path / "report.html").read_text("utf-8")
    assert "Flow of participants, humans" in page and note in page
    # the human curve is that of the robots, where both were observed
    start = reference.left_end("vcr/gaussian_noise")
    assert start[0] == pytest.approx(attentive(0.0), abs=0.06)


def humans_area(corruption):
    return corruption["accuracy"]["humans"]["areas"]["human"]


# Same or different


def test_same_different_responses_become_judgements_that_similar_reads(run, tmp_path):
    folder = make_study(
        tmp_path / "pairs", "pairs", Sizes(main=80, stimuli=1, practice=2), kind="same-different",
        qualification=4, catch=4, trials=24, practice=2, k=10, response_ms=0,
    )  # fmt: skip
    robot = Robot(right_with(lambda v: 0.97 if v == 0 else 0.85, BUTTONS), (900, 200))
    fill(folder, [robot] * 14)
    fill(folder, [Robot(always("same"), (900, 200))], names="S", seed=3)
    result = run("experiment", "export", folder.path)
    assert result.status == 0 and "humans similar" in result.out, result.err
    out = folder.path / "export"
    assert {path.name for path in out.iterdir()} == {
        "judgements.csv", "trials.csv", "exclusions.csv", "rules.txt", "study.yaml",
        "dropped.csv", "sessions.csv", "flow.csv", "flow.txt",
    }  # fmt: skip
    rows = table(out / "judgements.csv")
    right = query(
        folder,
        "select count(*), sum(correct) from response join trial t on t.id = trial_id"
        " join session e on e.id = session_id join participant c on c.id = participant_id"
        " where role = 'main' and c.code != 'S000'",
    )
    assert [(len(rows), sum(row["shown"] == row["response"] for row in rows))] == right
    for row in rows:
        assert (row["a"], row["b"]) == ("vcr/gaussian_noise", "vcr/median_blur")
        alike = row["corruption_left"] == row["corruption_right"]
        assert row["shown"] == ("same" if alike else "different")
        assert 0 < float(row["delta_v_left"]) < 1
    result = run("humans", "similar", folder.path)
    assert result.status == 0 and "told apart" in result.out
    assert f"{len(rows):,}" in result.out
    assert_rejected(run("humans", "list", folder.path), "eyechart humans similar")
    told = status_of(folder)
    assert told.pairs[0].n_judgements == len(rows) and told.pairs[0].verdict == "told apart"
    said = run("experiment", "status", folder.path)
    assert said.status == 0 and "vcr/gaussian_noise and vcr/median_blur" in said.out


# Status


def status_of(folder, now=START):
    with connect_study(folder) as study:
        found = read_status(study, now)
    return found


def test_status_counts_responses_humans_and_reasons(study):
    told = status_of(study, START + timedelta(minutes=1))
    responses = {own.name: own.n_responses for own in told.groups}
    export(study)
    names, counts = np.unique(
        read_responses(study.path / "export" / "responses.parquet").corruption, return_counts=True
    )
    assert responses == dict(zip(names.tolist(), counts.tolist(), strict=True))
    wanted = dict(
        query(
            study,
            "select corruption, sum(capacity) from stimulus s join stimulus_image p on s.id ="
            " p.stimulus_id where role = 'main' group by corruption",
        )
    )
    assert {own.name: own.wanted for own in told.groups} == wanted
    assert told.participants == {
        "active now": 1, "finished": 13, "not qualified": 0, "dropped out": 0,
    }  # fmt: skip
    assert told.excluded == 2 and told.reasons["catch"] == 2
    assert told.minutes == pytest.approx(6)
    later = status_of(study, START + timedelta(hours=1))
    assert later.participants["dropped out"] == 1 and later.participants["active now"] == 0


def test_status_shows_the_running_curve_of_the_responses_so_far(tmp_path):
    folder = make_study(
        tmp_path / "many", "many", Sizes(main=100, stimuli=2), qualification=4, catch=4, trials=50,
        practice=0, k=12,
    )  # fmt: skip
    fill(folder, [GOOD] * 24)
    told = status_of(folder)
    rates = told.curves["vcr/median_blur"]
    for place, (rate, low, high) in zip((0.2, 0.4, 0.6, 0.8), rates, strict=True):
        assert low <= rate <= high
        assert low - 0.1 <= attentive(place) <= high + 0.1
    _, low, high = told.clean
    assert low <= attentive(0) <= high


def test_status_fits_on_a_screen_and_writes_nothing(study, run):
    before = query(study, "select count(*) from exclusion")
    result = run("experiment", "status", study.path)
    assert result.status == 0, result.err
    lines = result.out.splitlines()
    assert len(lines) <= 24 and all(len(line.rstrip()) <= 100 for line in lines)
    assert "small, open:" in lines[0] and "13 finished" in result.out
    assert "Excluded: 2 sessions (" in result.out and "vcr/median_blur" in result.out
    assert query(study, "select count(*) from exclusion") == before


def test_of_many_pairs_those_that_lack_most_are_shown(study, run, monkeypatch):
    told = status_of(study)
    groups = tuple(StimulusGroup(f"a|b{place:02d}", 4, 0, place, 60) for place in range(60))
    told = replace(told, kind="same-different", groups=groups[::-1], curves={})
    monkeypatch.setattr("eyechart_experiment.cli.export._look", lambda found: told)
    result = run("experiment", "status", study.path)
    lines = result.out.splitlines()
    assert len(lines) <= 32 and "… and 36 more" in lines[-1]
    assert "a and b00" in result.out and "a and b23" in result.out and "b24" not in result.out


def test_watching_ends_with_ctrl_c_and_status_0(study, run, monkeypatch):
    looked = []

    def interrupt(seconds):
        looked.append(seconds)
        if len(looked) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("eyechart_experiment.cli.export.time.sleep", interrupt)
    result = run("experiment", "status", study.path, "--watch", "--every", 0.5)
    assert result.status == 0 and not result.err
    assert looked == [0.5] * 3 and "small, open:" in result.out


def test_a_path_with_a_study_that_is_not_made_is_rejected(run, tmp_path):
    assert_rejected(run("experiment", "status", tmp_path), "is not a study")
    assert_rejected(run("experiment", "status", Path("nowhere")), "No such folder")


def test_exports_tell_nothing_about_the_server_and_follow_the_umask(tmp_path):
    folder = make_study(tmp_path / "study", sizes=Sizes(main=12), **SHAPE)
    fill(folder, [GOOD] * 2)
    with sqlite3.connect(folder.path / "responses.sqlite") as database:
        database.execute("UPDATE source_image SET name = '/srv/lab secret/photos/' || name")
    database.close()
    before = os.umask(0o077)
    try:
        export(folder)
    finally:
        os.umask(before)
    files = [path for path in (folder.path / "export").rglob("*") if path.is_file()]
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
    for path in files:
        content = path.read_bytes()
        assert b"/srv" not in content and str(tmp_path).encode() not in content
    with (folder.path / "export" / "trials.csv").open(encoding="utf-8") as table:
        assert re.search(r",\w+-\d+\.png,", table.read())
