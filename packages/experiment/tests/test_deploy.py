"""The files that a lab gets, filled with its study's facts, and backups of SQLite."""

import re
import shutil
import sqlite3

import pytest

from commands import assert_rejected
from experiment_studies import Sizes, make_study
from eyechart.core.errors import UsageError
from eyechart_experiment.deploy import study_backup
from eyechart_experiment.deploy.study_backup import back_up
from filled_studies import Robot, attentive, fill, right_with


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = make_study(
        tmp_path_factory.mktemp("deploy") / "study", name="blur-1", sizes=Sizes(main=20),
        contact="lab@example.org", prolific_failed="", prolific_screened="CFEW",
    )  # fmt: skip
    fill(folder, [Robot(right_with(attentive))] * 2)
    return folder


@pytest.fixture(scope="module")
def files(folder, tmp_path_factory):
    """The text of each file, by the end of its name."""
    from eyechart_experiment.deploy.deploy_files import write_deployment
    from eyechart_experiment.deploy.deploy_settings import DeploySettings
    from eyechart_experiment.storage.experiment_folder import connect_study

    out = tmp_path_factory.mktemp("files")
    settings = DeploySettings(domain="lab.example.org", user="lab", port=9001)
    with connect_study(folder) as study:
        written = write_deployment(study, settings, out)
    return {path.name: path.read_text(encoding="utf-8") for path in written}


def test_the_checklist_states_the_facts_and_what_is_missing(folder, files):
    text = files["GO-LIVE.md"]
    config = folder.config
    for fact in (config.digest, "lab@example.org", "40 main, 8 practice, 8 qualification, 8 catch",
                 "https://lab.example.org/s/blur-1?PROLIFIC_PID", "SQLite, one process",
                 f"{config.minutes} minutes"):  # fmt: skip
        assert fact in text
    assert "--prolific-failed" in text.partition("## Fix first")[2].partition("##")[0]
    assert "prolific.com/pricing as of 2026-" in text
    # no placeholder was left, and no secret came along
    assert "{{ " not in text and "{%" not in text.replace("{{%", "")
    assert folder.secret.hex() not in "".join(files.values())


def test_the_site_has_tls_hsts_limits_and_no_log_of_participants(files):
    site = files["nginx-blur-1.conf"]
    for line in ("listen 443 ssl", "Strict-Transport-Security", "client_header_timeout 10s;",
                 "limit_conn eyechart_blur_1 ", "access_log off;", "gzip off;",
                 "server 127.0.0.1:9001"):  # fmt: skip
        assert line in site
    assert "9002" not in site  # one process on SQLite


def test_units_start_the_server_and_the_backup_as_the_lab_s_user(files):
    unit, backup = files["eyechart-blur-1@.service"], files["eyechart-blur-1-backup.service"]
    assert "--port %i --behind-proxy --url https://lab.example.org" in unit
    assert re.search(r"^Restart=always$", unit, re.M) and re.search(r"^UMask=0077$", unit, re.M)
    assert "User=lab" in unit and "User=lab" in backup and "experiment backup" in backup
    assert "OnCalendar=hourly" in files["eyechart-blur-1-backup.timer"]
    assert "CREATE ROLE lab LOGIN CREATEDB" in files["postgresql-blur-1.sql"]
    assert "copytruncate" in files["logrotate-blur-1"]


def test_names_that_would_change_a_file_s_meaning_are_rejected(run, folder, tmp_path):
    ask = ("experiment", "deploy", folder.path, "--out", tmp_path / "out")
    assert_rejected(run(*ask, "--domain", "lab;evil"), "domain must be")
    assert_rejected(run(*ask, "--domain", "lab.org", "--user", "a b"), "user must be")
    assert_rejected(run(*ask, "--domain", "lab.org", "--folder", "/srv/my study"), "absolute")
    done = run(*ask, "--domain", "lab.org", "--command", "/opt/bin/eyechart")
    assert done.status == 0 and "GO-LIVE.md" in done.out


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
    def spoiled(file):
        found = dict(sound(file))
        count, digest = found["response"]
        return found | {"response": (count - 1, digest)}

    sound = study_backup._sqlite_digests
    monkeypatch.setattr(study_backup, "_sqlite_digests", spoiled)
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
