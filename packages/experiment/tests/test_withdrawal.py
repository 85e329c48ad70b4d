"""Withdrawals: codes are never given twice, and nobody else's data are deleted."""

import random
import sqlite3
from contextlib import closing

import pytest

from commands import assert_rejected
from experiment_invariants import rows
from experiment_studies import Sizes, Visitor, in_process, make_study
from eyechart.core.errors import UsageError
from eyechart_experiment.storage.withdrawal import withdraw

SHORT = {"practice": 0, "qualification": 0, "catch": 0, "trials": 1, "min_trials": 1, "k": 500}
ONE = Sizes(main=1, stimuli=1, practice=0, qualification=0, catch=0)
LEFT = """SELECT p.code, s.id, s.code, t.public_id, r.client_uuid FROM participant p
    JOIN session s ON s.participant_id = p.id LEFT JOIN trial t ON t.session_id = s.id
    LEFT JOIN response r ON r.trial_id = t.id ORDER BY p.code"""


@pytest.fixture
def folder(tmp_path):
    """A study in which every session has one trial."""
    return make_study(tmp_path / "study", sizes=ONE, prolific_code="", prolific_failed="", **SHORT)


def take_part(client):
    """Take part to the end; return the participant code and the completion code."""
    visitor = Visitor(client).begin()
    assert visitor.response(visitor.next()["trial"]["id"]).status_code == 200
    state = visitor.finish().json()
    return state["participant"], state["completion"]["code"]


def data_by_participant(folder):
    return {row[0]: row for row in rows(folder.database_url, LEFT)}


def test_200_withdrawals_and_finishes_give_no_code_twice_and_delete_nobody_else(folder):
    random_numbers = random.Random(5)
    present, participant_codes, completion_codes = {}, set(), set()
    with in_process(folder) as client:
        for _ in range(200):
            if present and random_numbers.random() < 0.5:
                participant = random_numbers.choice(sorted(present))
                name = random_numbers.choice([participant, present.pop(participant)])
                before = data_by_participant(folder)
                assert withdraw(client.study, name).code == participant
                before.pop(participant)
                assert data_by_participant(folder) == before
                # A second time, when the row ids may belong to somebody else.
                with pytest.raises(UsageError, match="who withdrew on"):
                    withdraw(client.study, name)
                assert data_by_participant(folder) == before
            else:
                participant, completion = take_part(client)
                assert participant not in participant_codes and completion not in completion_codes
                participant_codes.add(participant)
                completion_codes.add(completion)
                present[participant] = completion
    assert 80 < len(completion_codes) < 120


def test_a_code_of_a_withdrawn_participant_is_not_drawn_again(folder, monkeypatch):
    with in_process(folder) as client:
        participant, completion = take_part(client)
        withdraw(client.study, participant)
        drawn = {"new_code": [participant, "PBBBBBBBBBB"], "new_completion_code":
                 [completion, "BBBBBBBB"]}  # fmt: skip
        for name, codes in drawn.items():
            monkeypatch.setattr(
                f"eyechart_experiment.server.sessions.{name}", lambda codes=codes: codes.pop(0)
            )
        assert take_part(client) == ("PBBBBBBBBBB", "BBBBBBBB")


def test_a_withdrawal_names_what_it_deletes_and_asks(folder, run):
    with in_process(folder) as client:
        participant, completion = take_part(client)
        take_part(client)
    before = data_by_participant(folder)
    asked = run("experiment", "withdraw", folder.path, completion.lower())
    # There is nobody to ask, so that nothing is deleted.
    assert_rejected(asked, participant, "1 response in small", "--yes")
    assert data_by_participant(folder) == before
    done = run("experiment", "withdraw", folder.path, completion, "--yes")
    assert done.status == 0 and f"Deleted participant {participant}" in done.out
    assert list(data_by_participant(folder)) == [code for code in before if code != participant]
    for code in (participant, completion):
        again = run("experiment", "withdraw", folder.path, code, "--yes")
        assert_rejected(again, f"'{code}' is a code of a participant who withdrew on")
    verified = run("experiment", "verify", folder.path, completion)
    assert verified.status == 1 and "the participant withdrew on" in verified.out


def test_nothing_in_the_folder_tells_who_withdrew(folder):
    with in_process(folder) as client:
        participant, completion = take_part(client)
        withdraw(client.study, participant)
    for path in folder.path.iterdir():
        if path.is_file():
            content = path.read_bytes()
            assert participant.encode() not in content and completion.encode() not in content
    assert (folder.path / "withdrawals.jsonl").stat().st_mode & 0o777 == 0o600


def test_a_withdrawal_that_was_interrupted_is_completed_when_the_server_starts(folder):
    with in_process(folder) as client:
        participant, _ = take_part(client)
        withdraw(client.study, participant)
        stays, _ = take_part(client)
        database = folder.path / "responses.sqlite"
        # As if the process had ended between the log and the deletion.
        with closing(sqlite3.connect(database)) as db, db:
            db.execute("UPDATE participant SET code = ?", (participant,))
    from eyechart_experiment.server.serve import make_server

    _, study = make_server(folder)
    with study:
        assert data_by_participant(folder) == {}
    assert stays != participant
