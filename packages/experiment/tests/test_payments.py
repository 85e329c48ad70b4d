"""Payment: outcomes, completion codes, amounts and lists."""

import csv
import io
import sqlite3
from datetime import UTC, datetime
from decimal import Decimal
from itertools import pairwise

import pytest

from experiment_invariants import rows
from experiment_studies import Sizes, Visitor, in_process, make_study
from eyechart.core.errors import UsageError
from eyechart_experiment.payments import PayRates
from eyechart_experiment.recruiters import PLATFORM_FEES
from eyechart_experiment.storage.tokens import make_token, read_token

CODES = {"prolific_code": "CDONE", "prolific_failed": "CFAIL", "prolific_screened": "CFEW"}


def worker(name: str) -> dict[str, object]:
    ids = {"assignmentId": f"A{name}", "hitId": "H1", "workerId": f"W{name}",
           "turkSubmitTo": "https://www.mturk.com"}  # fmt: skip
    return {"platform": "mturk", "ids": ids}


def subject(name: str) -> dict[str, object]:
    ids = {"PROLIFIC_PID": f"pid{name}", "STUDY_ID": "65study", "SESSION_ID": f"sub{name}"}
    return {"platform": "prolific", "ids": ids}


TRUTH = """SELECT s.truth FROM trial t JOIN stimulus s ON s.id = t.stimulus_id
    WHERE t.public_id = """


def respond(folder, visitor, is_right=True) -> dict:
    """Respond to all trials that there are; return what comes after them."""
    while (step := visitor.next())["next"] == "trial":
        trial = step["trial"]["id"]
        ((truth,),) = rows(folder.database_url, f"{TRUTH}'{trial}'")
        choice = truth if is_right else next(name for name in ("cat", "dog") if name != truth)
        assert visitor.response(trial, choice).status_code == 200
    return step


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A study of four stimuli: one finishes, one gets no trials, one fails, one is active."""
    path = tmp_path_factory.mktemp("payments") / "study"
    folder = make_study(path, sizes=Sizes(4, stimuli=1, catch=1), k=1, clean_k=1, trials=4, catch=0,
                        practice=0, qualification=2, minutes=8, min_trials=1, **CODES)  # fmt: skip
    with in_process(folder) as client:
        first = Visitor(client, **worker("1")).begin()
        second = Visitor(client, **subject("2")).begin()
        third = Visitor(client, **subject("3")).begin()
        Visitor(client, **worker("4")).begin()
        assert respond(folder, third, is_right=False)["next"] == "failed"
        assert respond(folder, first)["next"] == "finish"
        assert respond(folder, second)["next"] == "finish"
        completions = {
            "finished": first.finish().json()["completion"],
            "screened-out": second.finish().json()["completion"],
            "failed": third.state()["completion"],
        }
    return folder, completions


def listed(run, folder, *options):
    result = run("experiment", "payments", getattr(folder, "path", folder), *options)
    assert result.status == 0, result.err
    return list(csv.DictReader(io.StringIO(result.out)))


def test_every_session_has_its_outcome_its_own_code_and_its_amount(run, folder):
    study, seen = folder
    table = listed(run, study, "--reward", 1.5, "--bonus", 0.25)
    got = [(row["platform_id"], row["outcome"], row["amount"]) for row in table]
    assert got == [
        ("W1", "finished", "1.75"), ("pid2", "screened-out", "1.50"), ("pid3", "failed", "1.50"),
        ("W4", "active", "0.00"),
    ]  # fmt: skip
    codes = [row["code"] for row in table]
    assert len(set(codes[:3])) == 3 and codes[3] == ""
    # what the worker's browser sends proves nothing but the code
    assert seen["finished"]["fields"] == {"assignmentId": "A1", "code": codes[0]}
    assert seen["failed"]["url"].endswith("cc=CFAIL")
    assert seen["screened-out"]["url"].endswith("cc=CFEW")
    # 8 minutes at 12 an hour; who failed needed 93.1 of 99.3 s
    assert [row["amount"] for row in listed(run, study)] == ["1.60", "1.60", "1.51", "0.00"]
    assert 0 <= float(table[0]["minutes"]) < 1


def test_a_list_on_disk_is_private(run, folder, tmp_path):
    out = tmp_path / "payments.csv"
    result = run("experiment", "payments", folder[0].path, "--out", out, "--reward", 1)
    assert "4 sessions, 3.00 USD" in result.out
    assert out.stat().st_mode & 0o777 == 0o600


def test_simulated_participants_are_listed_and_earn_nothing(run, copy):
    with sqlite3.connect(copy / "responses.sqlite") as db:
        db.execute("UPDATE participant SET platform = 'robot'")
    table = listed(run, copy, "--reward", 1.5)
    assert [(row["platform"], row["platform_id"], row["amount"]) for row in table] == [
        ("robot", "", "0.00")
    ] * 4
    assert table[0]["outcome"] == "finished"
    verified = run("experiment", "verify", copy, table[0]["code"])
    assert verified.status == 0 and "a simulation" in verified.out


def test_verify_names_the_outcome_of_a_code_and_rejects_others(run, folder):
    study, seen = folder
    code = seen["finished"]["code"]
    good = run("experiment", "verify", study.path, code.lower())
    assert good.status == 0 and f"{code.lower()}: finished, participant P" in good.out
    failed = next(row for row in listed(run, study) if row["outcome"] == "failed")["code"]
    mixed = run("experiment", "verify", study.path, failed, "23456789")
    assert mixed.status == 1
    assert f"{failed}: failed" in mixed.out and "23456789: not a completion code" in mixed.out
    assert "1 of 2 codes" in mixed.err


def test_tokens_do_not_show_how_many_participants_there_are():
    at = datetime(2030, 1, 1, tzinfo=UTC)
    shown = set()
    for number in range(1, 200):
        token = make_token(b"k" * 32, number, at)
        assert read_token(b"k" * 32, token).session_id == number
        shown.add(int(token.split(".")[0][1:], 16))
    # 64 random bits: no two are within a billion of each other
    ordered = sorted(shown)
    assert len(ordered) == 199
    assert min(b - a for a, b in pairwise(ordered)) > 10**9
    assert make_token(b"k" * 32, 5, at).split(".")[0] != make_token(b"k" * 32, 5, at).split(".")[0]


@pytest.fixture
def copy(folder, tmp_path):
    """The study in a folder of its own, which a test may change."""
    import shutil

    shutil.copytree(folder[0].path, tmp_path / "study")
    return tmp_path / "study"


def test_fees_have_a_date_and_a_source(run, folder):
    fees = PLATFORM_FEES
    assert fees["prolific"].fraction == 0.333 and fees["mturk-10"].fraction == 0.4
    for fee in fees.values():
        assert fee.source.startswith("https://") and datetime.fromisoformat(fee.read_on)


@pytest.mark.parametrize("amount", ["NaN", "-1", "1001"])
def test_amounts_that_must_be_mistakes_are_rejected(amount):
    with pytest.raises(UsageError, match="reward must be in"):
        PayRates(Decimal(amount))


def test_forget_asks_before_it_deletes_ids_of_active_sessions(run, copy):
    asked = run("experiment", "forget", copy)
    assert asked.status == 2 and "1 session with platform ids is not finished" in asked.err
    assert listed(run, type("Study", (), {"path": copy}))[3]["platform_id"] == "W4"
    assert "4 sessions" in run("experiment", "forget", copy, "--yes").out
    assert {row["platform_id"] for row in listed(run, type("S", (), {"path": copy}))} == {""}
