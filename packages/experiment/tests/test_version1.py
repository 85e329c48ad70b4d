"""Studies of version 1: their database is migrated, and nothing that participants gave is lost.

`version1/` holds what version 1 stored of two small studies in one database, and what it exported.
One participant of each study finished, one came from Prolific and finished, one failed the
qualification, and one left with a live trial.
"""

import csv
import hashlib
import json
import re
import shutil
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import numpy as np
import pytest
from PIL import Image
from sqlalchemy import text

from experiment_postgres import postgresql
from experiment_studies import Visitor, in_process, make_study
from eyechart.humans.human_responses import read_responses
from eyechart_experiment.export.study_export import export
from eyechart_experiment.export.study_status import read_status
from eyechart_experiment.languages import read_texts
from eyechart_experiment.storage.database import MIGRATIONS, open_database
from eyechart_experiment.storage.experiment_folder import connect_study, open_study
from eyechart_experiment.study_config import current_words, read_config

DATA = Path(__file__).parent / "version1"
SECRET, SIDE, N_IMAGES = "5e" * 32, 18, 39
FORMER_COLUMNS = {
    "picture": "image", "picture_left": "image_left", "picture_right": "image_right",
    "said": "response", "answer": "response", "clean_answer": "clean_response",
}  # fmt: skip
ADDED_COLUMNS = ("eyesight",)


@pytest.fixture(scope="module")
def server():
    with postgresql() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def studies(request, tmp_path):
    """Return the folder of the two studies, with the database as version 1 left it."""
    for name in ("seen", "pairs"):
        (tmp_path / name / "stimuli").mkdir(parents=True)
        shutil.copy(DATA / name / "study.yaml", tmp_path / name)
        (tmp_path / name / "secret").write_text(SECRET)
        for level in range(1, N_IMAGES + 1):
            pixels = np.full((SIDE, SIDE, 3), level, dtype=np.uint8)
            digest = hashlib.sha256(pixels.tobytes()).hexdigest()
            Image.fromarray(pixels).save(tmp_path / name / "stimuli" / f"{digest}.png")
    url = f"sqlite:///{tmp_path / 'seen' / 'answers.sqlite'}"
    if request.param == "postgresql":
        import psycopg
        from sqlalchemy import make_url

        shared = request.getfixturevalue("server")
        host, name = make_url(shared).query["host"], f"d{uuid4().hex}"
        with psycopg.connect(host=host, user="eyechart", dbname="postgres", autocommit=True) as one:
            one.execute(f"CREATE DATABASE {name}")
        url = shared.replace("/postgres?", f"/{name}?")
        (tmp_path / "seen" / "database.txt").write_text(url)
    (tmp_path / "pairs" / "database.txt").write_text(url)
    fill_database(url, tmp_path / "migrations")
    return tmp_path


def fill_database(url, migrations):
    """Create the tables of version 1 and insert what they held."""
    ignored = shutil.ignore_patterns("__pycache__", "000[2-9]_*")
    shutil.copytree(MIGRATIONS, migrations, ignore=ignored)
    database = open_database(url, create=True, migrations=migrations)
    script = (DATA / "database.sql").read_text(encoding="utf-8")
    with database.engine.begin() as connection:
        if not database.is_sqlite:
            connection.exec_driver_sql("SET TIME ZONE 'UTC'")
            # Its own literals of bytes, and no placeholders.
            script = re.sub(r"X'([0-9a-f]+)'", r"'\\x\1'", script).replace("%", "%%")
        for statement in script.split(";\n"):
            if statement.strip():
                connection.exec_driver_sql(statement)
        for table in () if database.is_sqlite else re.findall(r'INTO (\w+) \("id"', script):
            # The ids were given: sequences continue after them, as they do in a used database.
            connection.exec_driver_sql(
                f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), max(id)) FROM {table}"
            )
    database.close()


def read_csv(path):
    """Return the current names of the columns that version 1 had, and the rows."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for column in ADDED_COLUMNS:
        # Nobody was asked in version 1.
        assert all(row.pop(column, "") == "" for row in rows)
    return [FORMER_COLUMNS.get(name, name) for name in rows[0]], [[*row.values()] for row in rows]


def rows_of(folder, query):
    """Return the rows of a query to the migrated database."""
    with connect_study(folder) as study, study.database.reading() as db:
        return [tuple(row) for row in db.execute(text(query))]


def inserted(table):
    """Return the rows of a table in version 1, as SQLite has them."""
    with closing(sqlite3.connect(":memory:")) as connection:
        for statement in (DATA / "database.sql").read_text(encoding="utf-8").split(";\n"):
            match = re.search(rf"INSERT INTO {table} \((.*?)\) VALUES", statement)
            if match is not None:
                connection.execute(f"CREATE TABLE {table} ({match[1]})")
                connection.execute(statement)
        return connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall()


@pytest.mark.parametrize("name", ["seen", "pairs"])
def test_exports_are_those_of_version_1_but_for_names(studies, name):
    folder = open_study(studies / name)
    export(folder)
    out, former = studies / name / "export", DATA / name
    for file in ("trials.csv", "exclusions.csv"):
        assert read_csv(out / file) == read_csv(former / file)
    if name == "pairs":
        assert read_csv(out / "judgements.csv") == read_csv(former / "judgements.csv")
        return
    tables = [read_csv(path) for path in sorted((out / "model-vs-human").iterdir())]
    rows = [row for _, part in tables for row in part]
    assert (tables[0][0], rows) == read_csv(former / "model-vs-human.csv")
    head, rows = read_csv(former / "answers.csv")
    responses = read_responses(out / "responses.parquet")
    for column, values in zip(head, zip(*rows, strict=True), strict=True):
        if column in ("corruption", "subject", "image", "label", "response"):
            assert getattr(responses, column).tolist() == list(values)
        elif column in ("delta_v", "correct"):
            np.testing.assert_array_equal(getattr(responses, column), np.array(values, dtype=float))


@pytest.mark.parametrize("name", ["seen", "pairs"])
def test_an_export_of_version_1_is_replaced(studies, name):
    out = studies / name / "export"
    out.mkdir()
    for file in ("answers.parquet", "trials.csv"):
        (out / file).touch()
    shutil.copy(studies / name / "study.yaml", out)
    export(open_study(studies / name))
    assert (out / "responses.parquet").exists() == (name == "seen")
    assert name == "pairs" or not (out / "answers.parquet").exists()


@pytest.mark.parametrize("name", ["seen", "pairs"])
def test_status_counts_the_responses_of_version_1(studies, name, run):
    with connect_study(open_study(studies / name)) as study:
        status = read_status(study, datetime(2026, 3, 2, 10, tzinfo=UTC))
    assert list(status.participants.values()) == [0, 2, 1, 1]
    counts = {"seen": 9, "pairs": 8}
    assert sum(group.n_responses for group in status.groups) == counts[name]
    result = run("experiment", "status", studies / name)
    assert result.status == 0 and f"{counts[name]} of 12 responses" in result.out


def test_every_row_is_kept_and_the_digests_too(studies):
    folder = open_study(studies / "seen")
    images = [(*row[:6], json.loads(row[6]), *row[7:]) for row in inserted("picture")]
    with connect_study(folder) as study, study.database.reading() as db:
        rows = db.execute(text("SELECT * FROM stimulus_image ORDER BY id")).all()
    migrated = [
        (*row[:6], json.loads(row[6]) if isinstance(row[6], str) else row[6], *row[7:])
        for row in rows
    ]
    assert migrated == images and len(images) == N_IMAGES
    former = {row[0]: row[7].replace("answered", "responded") for row in inserted("trial")}
    assert dict(rows_of(folder, "SELECT id, state FROM trial")) == former
    assert {"live", "responded", "dropped"} == set(former.values())
    digests = {row[1]: row[3] for row in inserted("study")}
    assert dict(rows_of(folder, "SELECT name, config_hash FROM study")) == digests
    for name, digest in digests.items():
        assert open_study(studies / name).config.digest == digest
    for table in ("response", "exposure", "exclusion", "session", "participant", "consent"):
        assert rows_of(folder, f"SELECT count(*) FROM {table}") == [(len(inserted(table)),)]


def test_another_study_can_be_added_to_a_database_of_version_1(studies):
    folder = open_study(studies / "seen")
    make_study(studies / "third", "third", secret=SECRET, url=folder.database_url)
    query = "SELECT min(m.id) FROM stimulus_image m JOIN stimulus s ON s.id = stimulus_id"
    assert rows_of(folder, f"{query} WHERE study_id = 3") == [(N_IMAGES + 1,)]


@pytest.mark.parametrize("studies", ["sqlite"], indirect=True)
def test_the_file_of_version_1_is_copied_and_keeps_its_name(studies):
    connect_study(open_study(studies / "seen")).database.close()
    with closing(sqlite3.connect(studies / "seen" / "answers.sqlite.0001")) as copy:
        assert copy.execute("SELECT count(*) FROM picture").fetchone() == (N_IMAGES,)
        assert copy.execute("SELECT * FROM response ORDER BY 1").fetchall() == inserted("response")
    assert not (studies / "seen" / "responses.sqlite").exists()


@pytest.mark.parametrize("name", ["seen", "pairs"])
def test_a_study_of_version_1_is_served(studies, name):
    with in_process(open_study(studies / name)) as client:
        assert client.get(f"/s/{name}").status_code == 200
        assert client.get(f"/api/studies/{name}").json()["open"]
        # who left in the middle comes back, and is past practice and qualification
        left = Visitor(client, name, ids={"client": f"{name}-b"})
        left.join(expect=200)
        assert left.claim().status_code == 200
        before = left.state()["responded"]
        assert (before["practice"], before["qualification"], before["main"]) == (1, 2, 3)
        # and has seen what is left
        assert left.next()["next"] == "finish"
        assert left.finish().json()["state"] == "finished"
        new = Visitor(client, name).begin()
        for _ in range(3):
            trial = new.next()["trial"]
            for image in trial["images"]:
                pixels = np.frombuffer(new.image(image).content, dtype=np.uint8)
                assert pixels.size == SIDE * SIDE * 3 and len(set(pixels.tolist())) == 1
            choice = "cat" if name == "seen" else "same"
            assert new.response(trial["id"], choice).status_code == 200
        assert sum(new.state()["responded"].values()) == 3


def test_default_texts_of_version_1_are_recognized():
    former = read_config(DATA / "seen" / "study.yaml").consent
    texts = read_texts("en")
    consent = texts["study.consent.categorise"].replace("{minutes}", "8")
    assert current_words(consent) != " ".join(former.split())
    assert current_words(consent) == current_words(former.replace("{minutes}", "8"))
    assert current_words("What is in the picture?") == texts["study.title.categorise"]
