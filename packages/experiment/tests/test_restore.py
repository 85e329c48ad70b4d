"""Backups are restored: after a crash, onto a new machine, and without those who withdrew."""

import os
import random
import shutil
import sqlite3
import threading
import time
from contextlib import closing

import httpx2
import pytest

from commands import assert_rejected, contents
from experiment_invariants import rows
from experiment_load_runs import Server
from experiment_studies import Sizes, Visitor, in_process, make_study
from eyechart.core.errors import UsageError
from eyechart_experiment.backup import back_up, restore
from eyechart_experiment.server.serve import exclusive_server
from eyechart_experiment.storage.experiment_folder import open_study
from eyechart_experiment.storage.withdrawal import withdraw

ANSWERED = "SELECT t.public_id FROM response r JOIN trial t ON t.id = r.trial_id"


@pytest.fixture
def folder(tmp_path):
    return make_study(tmp_path / "study", sizes=Sizes(main=10, stimuli=1))


def respond(folder, number):
    """Let somebody give so many responses; return their participant code."""
    with in_process(folder) as client:
        visitor = Visitor(client).begin()
        for _ in range(number):
            assert visitor.response(visitor.next()["trial"]["id"]).status_code == 200
        return visitor.state()["participant"]


def responses(folder):
    return {trial for (trial,) in rows(folder.database_url, ANSWERED)}


class Participants:
    """Participants who respond without a pause, and remember what was acknowledged when."""

    def __init__(self, port, number=3):
        self.acknowledged, self._end = {}, threading.Event()
        self._threads = [
            threading.Thread(target=self._take_part, args=(port,)) for _ in range(number)
        ]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error):
        self._end.set()
        for thread in self._threads:
            thread.join()

    def _take_part(self, port):
        try:
            with httpx2.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
                visitor = Visitor(client).begin()
                while not self._end.is_set() and (step := visitor.next())["next"] == "trial":
                    trial = step["trial"]["id"]
                    if visitor.response(trial).status_code == 200:
                        self.acknowledged[trial] = time.monotonic()
        except httpx2.HTTPError:
            # The server was killed.
            return


def check_moments(tmp_path, number, seed):
    """Back up at random moments of a running study, kill the server later, and restore."""
    sizes = Sizes(main=300, stimuli=1, practice=0, qualification=0, catch=0)
    folder = make_study(
        tmp_path / "study", sizes=sizes, k=500, trials=250, practice=0, qualification=0, catch=0
    )
    server, numbers = Server(folder, pace=1e6), random.Random(seed)
    n_later = 0
    try:
        for moment in range(number):
            server.start()
            with Participants(server.port) as participants:
                while not participants.acknowledged:
                    time.sleep(0.01)
                time.sleep(numbers.uniform(0.1, 1.0))
                began = time.monotonic()
                backup = back_up(folder, tmp_path / "backups")
                time.sleep(numbers.uniform(0.0, 0.5))
                server.kill()
            before = {t for t, at in participants.acknowledged.items() if at < began}
            n_later += len(participants.acknowledged) - len(before)
            done = restore(backup.folder)
            stored = responses(folder)
            assert before and before <= stored, moment
            assert len(stored) == backup.contents.n_responses
            assert (done.aside / "responses.sqlite").exists()
    finally:
        server.kill()
    # Responses that came after a backup cannot be in it: there were some to lose.
    assert n_later > 0
    with closing(sqlite3.connect(folder.path / "responses.sqlite")) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    stored = responses(folder)
    respond(folder, 3)
    assert stored < responses(folder)


def test_a_backup_restored_after_a_kill_has_every_response_acknowledged_before(tmp_path):
    check_moments(tmp_path, number=3, seed=1)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_backups_of_20_random_moments_restored_after_a_kill(tmp_path):
    check_moments(tmp_path, number=20, seed=2)


def test_a_former_write_ahead_log_is_not_replayed_over_a_restored_database(folder, tmp_path):
    respond(folder, 4)
    backup = back_up(folder, tmp_path / "backups")
    database = folder.path / "responses.sqlite"
    before = responses(folder)
    # What a killed server leaves: changes that are in the log alone.
    with closing(sqlite3.connect(database)) as live:
        live.execute("PRAGMA wal_autocheckpoint=0")
        with live:
            live.execute("DELETE FROM response")
            live.execute("CREATE TABLE more AS SELECT randomblob(5000) FROM stimulus")
        kept = {end: (database.with_name(f"responses.sqlite{end}")).read_bytes()
                for end in ("", "-wal")}  # fmt: skip
    for end, content in kept.items():
        database.with_name(f"responses.sqlite{end}").write_bytes(content)
    done = restore(backup.folder)
    assert responses(folder) == before
    assert {path.name for path in done.aside.iterdir()} == {
        "responses.sqlite", "responses.sqlite-wal"
    }  # fmt: skip
    assert not (folder.path / "responses.sqlite-wal").exists()


def test_a_study_is_restored_on_a_machine_that_has_nothing_but_the_backup(folder, tmp_path, run):
    respond(folder, 4)
    before = responses(folder)
    (folder.path / "plan.txt").write_text("the plan")
    backup = back_up(folder, tmp_path / "backups")
    stimuli = contents(folder.stimuli)
    shutil.rmtree(folder.path)
    elsewhere = tmp_path / "new machine" / "study"
    elsewhere.parent.mkdir()
    done = run("experiment", "restore", backup.folder, elsewhere)
    assert done.status == 0 and "4 responses" in done.out, done.err
    again = open_study(elsewhere)
    assert responses(again) == before and contents(again.stimuli) == stimuli
    assert (elsewhere / "plan.txt").read_text() == "the plan"
    assert elsewhere.stat().st_mode & 0o777 == 0o700
    assert (elsewhere / "secret").stat().st_mode & 0o777 == 0o600
    respond(again, 2)
    assert len(responses(again)) == 6
    # Without a folder, it comes back to where it was.
    assert run("experiment", "restore", backup.folder).status == 0
    assert responses(folder) == before


def test_whoever_withdrew_after_a_backup_stays_deleted(folder, tmp_path, run):
    stays, goes, first = respond(folder, 3), respond(folder, 2), respond(folder, 1)
    old = back_up(folder, tmp_path / "backups")
    with in_process(folder) as client:
        withdraw(client.study, goes)
    done = run("experiment", "restore", old.folder, folder.path)
    assert done.status == 0 and "Withdrawals applied again: 1." in done.out
    codes = {code for (code,) in rows(folder.database_url, "SELECT code FROM participant")}
    assert codes == {stays, first} and len(responses(folder)) == 4
    # On a new machine, the newer backups beside it know of withdrawals.
    with in_process(folder) as client:
        withdraw(client.study, first)
    back_up(folder, tmp_path / "backups")
    shutil.rmtree(folder.path)
    assert restore(old.folder, tmp_path / "again").n_withdrawn == 2
    again = open_study(tmp_path / "again")
    assert rows(again.database_url, "SELECT code FROM participant") == [(stays,)]
    with in_process(again) as client, pytest.raises(UsageError, match="who withdrew on"):
        withdraw(client.study, goes)


def test_newer_files_are_not_replaced_by_older_ones(folder, tmp_path):
    respond(folder, 1)
    plan = folder.path / "plan.txt"
    plan.write_text("old\n")
    backup = back_up(folder, tmp_path / "backups")
    plan.write_text("old\nnew\n")
    restore(backup.folder)
    assert plan.read_text() == "old\nnew\n"


def test_nothing_is_restored_while_a_server_runs_or_from_a_damaged_backup(folder, tmp_path, run):
    respond(folder, 2)
    backup = back_up(folder, tmp_path / "backups").folder
    respond(folder, 2)
    before = contents(folder.path)

    def rejected(*words):
        assert_rejected(run("experiment", "restore", backup, folder.path), *words)
        now = contents(folder.path)
        assert {name: now[name] for name in before} == before

    with exclusive_server(folder):
        rejected("stop it before you restore")
    for name in ("responses.sqlite", "study.yaml", f"stimuli/{os.listdir(backup / 'stimuli')[0]}"):
        content = (backup / name).read_bytes()
        (backup / name).write_bytes(content[:-20] + b"\0" * 20)
        rejected("is missing or damaged: use another backup")
        (backup / name).unlink()
        rejected("is missing or damaged: use another backup")
        (backup / name).write_bytes(content)
    (backup / "backup.json").unlink()
    rejected("is not a backup")


def test_a_backup_of_another_version_is_rejected(folder, tmp_path, run):
    backup = back_up(folder, tmp_path / "backups")
    contents = backup.folder / "backup.json"
    contents.write_text(contents.read_text().replace('"version": 1', '"version": 2'))
    assert '"version": 2' in contents.read_text()
    done = run("experiment", "restore", backup.folder, folder.path)
    assert_rejected(done, "is not a backup of this version")


def test_a_backup_of_another_study_is_rejected(folder, tmp_path, run):
    respond(folder, 1)
    other = make_study(tmp_path / "other", sizes=Sizes(main=10, stimuli=1))
    backup = back_up(other, tmp_path / "backups")
    done = run("experiment", "restore", backup.folder, folder.path)
    assert_rejected(done, "contains another study than the backup")
    assert len(responses(folder)) == 1
