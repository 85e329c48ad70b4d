"""Backups of SQLite: private, equal to the database, and never more than asked for."""

import shutil
import sqlite3

import pytest

from experiment_studies import Sizes, make_study
from eyechart.core.errors import UsageError
from eyechart_experiment import backup as study_backup
from eyechart_experiment.backup import back_up
from filled_studies import Robot, attentive, fill, right_with


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = make_study(
        tmp_path_factory.mktemp("deploy") / "study", name="blur-1", sizes=Sizes(main=20),
    )  # fmt: skip
    fill(folder, [Robot(right_with(attentive))] * 2)
    return folder


def test_a_backup_is_private_equal_and_the_oldest_are_removed(run, folder, tmp_path):
    out = tmp_path / "backups"
    for _ in range(3):
        done = run("experiment", "backup", folder.path, "--out", out, "--keep", 2)
        assert done.status == 0, done.err
    assert "restored and compared" in done.out
    newest = sorted(out.iterdir())
    assert len(newest) == 2
    assert {path.stat().st_mode & 0o777 for path in newest} == {0o700}
    files = [path for path in newest[-1].rglob("*") if path.is_file()]
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
    # stimuli do not change, so that backups share them
    stimuli = [len(list((backup / "stimuli").iterdir())) for backup in newest]
    assert stimuli == [len(list(folder.stimuli.iterdir()))] * 2
    assert {path.stat().st_nlink for path in (newest[-1] / "stimuli").iterdir()} == {2}
    with (
        sqlite3.connect(newest[-1] / "responses.sqlite") as copy,
        sqlite3.connect(folder.path / "responses.sqlite") as live,
    ):
        for table in ("response", "trial", "session"):
            query = f"SELECT * FROM {table} ORDER BY rowid"
            assert copy.execute(query).fetchall() == live.execute(query).fetchall() != []
    copy.close()
    live.close()


def test_a_backup_that_differs_is_not_kept(folder, tmp_path, monkeypatch):
    def spoiled(connection):
        found = sound(connection)
        if "backups" in str(connection.engine.url):
            n_rows, digest = found["response"]
            found["response"] = (n_rows - 1, digest)
        return found

    sound = study_backup._digests
    monkeypatch.setattr(study_backup, "_digests", spoiled)
    with pytest.raises(UsageError, match="differs from the database in the table response"):
        back_up(folder, tmp_path / "backups")
    assert list((tmp_path / "backups").iterdir()) == []
    with pytest.raises(UsageError, match="keep must be at least 1"):
        back_up(folder, tmp_path / "backups", keep=0)


def test_a_backup_without_a_database_says_so(folder, tmp_path):
    copy = tmp_path / "study"
    shutil.copytree(folder.path, copy)
    (copy / "responses.sqlite").unlink()
    from eyechart_experiment.storage.experiment_folder import open_study

    with pytest.raises(UsageError, match="does not exist"):
        back_up(open_study(copy), tmp_path / "backups")
