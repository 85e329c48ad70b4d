"""`eyechart experiment new`: folder, images and database of a study, and what it rejects."""

import hashlib
import json
import re
import shutil
import sqlite3
import stat
import struct
from collections import Counter
from contextlib import closing

import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml
from PIL import Image
from sqlalchemy import create_engine

import eyechart as ec
from commands import assert_rejected, image_file
from experiment_postgres import postgresql
from eyechart.core.errors import UsageError
from eyechart.core.storage.locks import try_lock
from eyechart.images.labels.imagenet import CATEGORIES
from eyechart.testsets.testset import read_testset
from eyechart_experiment.design import study_build
from eyechart_experiment.storage.experiment_folder import image_path, open_study, read_pixels
from eyechart_experiment.study_config import config_from, read_config
from study_inputs import SIDE, SMALL, TWO, draw_testset, save_real_images


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    return save_real_images(tmp_path_factory.mktemp("new") / "images")


@pytest.fixture(scope="module")
def manifest(images):
    return draw_testset(images, images.parent / "t.parquet")


@pytest.fixture
def make(run, images, manifest, tmp_path):
    """Make a small study, or one with other options."""

    def call(*arguments, name="study", small=SMALL, images=images, testset=manifest):
        return run(
            "experiment", "new", tmp_path / name, "--testset", testset, "--images", images,
            *small, *arguments,
        )  # fmt: skip

    return call


def rows_in(path, query):
    """Ask the database without eyechart."""
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


SHOWN = """select role, truth, capacity, pair, place, "row", corruption, delta_v, sha256, digest,
    shuffle, taken, category, source_image.name
    from stimulus join stimulus_image on stimulus.id = stimulus_id
    join source_image on source_image.id = source_id order by stimulus.id, place"""


# What is made


def test_a_study_holds_the_pixels_of_the_test_set_and_nothing_else(
    make, images, manifest, tmp_path
):
    result = make()
    assert result.status == 0, result.err
    study = tmp_path / "study"
    table = {row["row"]: row for row in pq.read_table(manifest).to_pylist()}
    shown = rows_in(study / "responses.sqlite", SHOWN)
    assert len(shown) > 100
    for _, _, _, _, _, row, corruption, delta_v, sha256, digest, *_ in shown:
        own = table[row]
        assert (corruption, delta_v, digest) == (own["corruption"], own["delta_v"], own["digest"])
        with Image.open(images / own["image"]) as clean:
            expected = clean.convert("RGB")
        if corruption != "clean":
            expected = ec.corrupt(
                expected, corruption, keys=[digest], draw=own["draw"], seed=3,
                **dict(own["parameters"]),
            )  # fmt: skip
        pixels = np.asarray(expected)
        assert hashlib.sha256(pixels.tobytes()).hexdigest() == sha256
        assert read_pixels(study, sha256, SIDE) == pixels.tobytes()
    files = {path.stem for path in (study / "stimuli").iterdir()}
    assert files == {row[8] for row in shown}


def test_image_files_hold_pixels_only(make, tmp_path):
    assert make().status == 0
    for path in (tmp_path / "study" / "stimuli").iterdir():
        content, place, kinds = path.read_bytes(), 8, []
        while place < len(content):
            length, kind = struct.unpack(">I4s", content[place : place + 8])
            kinds.append(kind)
            place += 12 + length
        assert set(kinds) == {b"IHDR", b"IDAT", b"IEND"}


def test_the_database_holds_the_study_and_its_stimuli(make, manifest, tmp_path):
    assert make("--k", 3, "--clean-k", 2, "--title", "Look!").status == 0
    study = tmp_path / "study"
    file = study / "responses.sqlite"
    ((name, config, digest, status),) = rows_in(
        file, "select name, config, config_hash, status from study"
    )
    stored = read_config(study / "study.yaml")
    assert (name, digest, status) == ("study", stored.digest, "open")
    assert config_from(json.loads(config), "the database") == stored
    assert (stored.title, stored.side, stored.k, stored.clean_k) == ("Look!", SIDE, 3, 2)
    shown = rows_in(file, SHOWN)
    roles = Counter(row[0] for row in shown)
    assert (roles["practice"], roles["qualification"], roles["catch"]) == (6, 8, 6)
    sources = {role: {row[9] for row in shown if row[0] == role} for role in roles}
    assert sum(map(len, sources.values())) == len(set.union(*sources.values())) == 64
    for role, truth, capacity, pair, place, _, corruption, _, _, _, _, taken, category, _ in shown:
        wanted = None if role != "main" else 2 if corruption == "clean" else 3
        assert (capacity, pair, place, taken, truth) == (wanted, None, 0, 0, category)
    main = [row for row in shown if row[0] == "main"]
    expected = [
        row["row"] for row in pq.read_table(manifest).to_pylist()
        if row["digest"] in sources["main"] and row["delta_v"] is not None
    ]  # fmt: skip
    assert sorted(row[5] for row in main) == sorted(expected)
    assert len({row[10] for row in shown}) == len(shown)  # an order of their own
    secret = bytes.fromhex((study / "secret").read_text())
    fingerprint = hashlib.sha256(secret).hexdigest()
    assert rows_in(file, "select secret from installation") == [(fingerprint,)]


def test_the_plan_is_printed_and_kept_and_agrees_with_the_database(make, tmp_path):
    result = make("--k", 4, "--pay", 10, "--fee", 0.5, "--currency", "EUR")
    study = tmp_path / "study"
    plan = (study / "plan.txt").read_text(encoding="utf-8")
    assert result.out.startswith(plan)
    ((responses,),) = rows_in(study / "responses.sqlite", "select sum(capacity) from stimulus")
    config = read_config(study / "study.yaml")
    loads = rows_in(
        study / "responses.sqlite",
        "select sum(capacity) from stimulus join stimulus_image on stimulus.id = stimulus_id"
        " where role = 'main' group by source_id",
    )
    counting = max(-(-responses // 20), max(load for (load,) in loads))
    assert f"Responses wanted: {responses:,}," in plan
    recruits = re.search(r"Participants to recruit: ([\d,]+), if 20% are excluded and 5%", plan)
    humans = int(recruits[1].replace(",", ""))
    assert humans >= -(-counting * 5 // 4)
    # everybody is admitted, so that no stimulus stays open
    assert config.min_trials == 1
    assert "Admission: for at least 1 main trials; 100% of the simulated studies end" in plan
    assert f"Cost: {humans * config.minutes / 60 * 10 * 1.5:,.2f} EUR" in plan
    for category, count in rows_in(
        study / "responses.sqlite",
        "select truth, count(*) from stimulus where role = 'main' group by truth",
    ):
        assert f"{category} {count}" in plan


def test_the_preregistration_names_images_and_test_set(make, run, manifest, tmp_path):
    assert make().status == 0
    assert run("experiment", "preregister", tmp_path / "study").status == 0
    text = (tmp_path / "study" / "preregistration.md").read_text(encoding="utf-8")
    shown = sorted(
        {(row[9], row[13]) for row in rows_in(tmp_path / "study" / "responses.sqlite", SHOWN)}
    )
    listed = "".join(f"{digest} {name}\n" for digest, name in shown)
    digest = hashlib.sha256(listed.encode()).hexdigest()
    assert f"Images: `images`, 64 files; SHA-256 of their digests and names: `{digest}`." in text
    plan = read_testset(manifest).plan
    assert f"Test set: `t.parquet` (digest `{read_testset(manifest).digest}`), {plan.n}" in text
    assert f"of {plan.suite}, sampling {plan.sampling}, seed {plan.seed}." in text
    assert "eyechart evaluate MODEL --images images --labels entry16 --humans study" in text
    assert str(tmp_path) not in text


def test_a_restored_study_is_the_same_to_the_command_that_made_it(make, run, tmp_path):
    assert make().status == 0
    study, backups = tmp_path / "study", tmp_path / "backups"
    assert run("experiment", "backup", study, "--out", backups).status == 0
    before = {path.relative_to(study) for path in study.rglob("*") if path.name[0] != "."}
    shutil.rmtree(study)
    (backup,) = backups.glob("study-*")
    assert run("experiment", "restore", backup).status == 0
    assert {path.relative_to(study) for path in study.rglob("*") if path.name[0] != "."} == before
    assert_rejected(make(), "is already a study")
    lost = next((study / "stimuli").iterdir())
    lost.unlink()
    assert "are valid" in make().out and lost.exists()


def test_participants_are_told_how_long_it_takes(make, tmp_path):
    assert make().status == 0
    config = open_study(tmp_path / "study").config
    # 90 s of reading, 32 trials of 2.2 s, 4 s of feedback
    assert config.minutes == 3
    assert "about 3 minutes" in config.consent and "{" not in config.consent
    (tmp_path / "consent.txt").write_text("Takes {minutes} minutes. {Braces} stay.\n")
    (tmp_path / "own.yaml").write_text("minutes: 12\nblock: 9\npass_share: 0.5\nk: 2\n")
    given = ("--consent", tmp_path / "consent.txt", "--settings", tmp_path / "own.yaml", "--k", 4)
    assert make(*given, name="Second One").status == 0
    other = open_study(tmp_path / "Second One").config
    assert other.consent == "Takes 12 minutes. {Braces} stay."
    assert (other.minutes, other.block, other.pass_share, other.k) == (12, 9, 0.5, 4)
    assert other.name == "second-one"


def test_only_the_owner_reads_what_is_secret(make, tmp_path):
    assert make("--database", f"sqlite:///{tmp_path}/shared.sqlite").status == 0
    for name in ("secret", "database.txt"):
        assert stat.S_IMODE((tmp_path / "study" / name).stat().st_mode) == 0o600
    folder = open_study(tmp_path / "study")
    assert folder.database_url == f"sqlite:///{tmp_path}/shared.sqlite"
    assert folder.secret.hex() not in repr(folder) and len(folder.secret) == 32
    others = [path for path in (tmp_path / "study").iterdir() if path.is_file()]
    found = [path.name for path in others if folder.secret.hex() in path.read_text("latin-1")]
    assert found == ["secret"]


def test_the_same_seed_makes_the_same_study(make, tmp_path):
    for name, seed in (("a", 5), ("b", 5), ("c", 6)):
        assert make("--seed", seed, "--name", "x", name=name).status == 0
    one, two, three = (rows_in(tmp_path / name / "responses.sqlite", SHOWN) for name in "abc")
    assert one == two != three
    secrets = {(tmp_path / name / "secret").read_text() for name in "abc"}
    assert len(secrets) == 3


def test_a_study_of_pairs_is_made_without_labels(make, run, tmp_path):
    mixed = save_real_images(tmp_path / "mixed", 50, ("x",))
    for path in (mixed / "x").iterdir():
        path.rename(mixed / path.name)
    testset = draw_testset(mixed, tmp_path / "t.parquet", 100, corruptions=(*TWO, "blur"))
    result = make(
        "--kind", "same-different", "--pair", "brightness:gaussian_noise", "--per-pair", 12,
        "--practice", 2, "--qualification", 3, "--catch", 2, "--trials", 4,
        images=mixed, testset=testset, small=(),
    )  # fmt: skip
    assert result.status == 0, result.err
    config = open_study(tmp_path / "study").config
    assert config.response_ms == 0 and "changed in the same way" in config.consent
    shown = rows_in(tmp_path / "study" / "responses.sqlite", SHOWN)
    main = [row for row in shown if row[0] == "main"]
    assert len(main) == 24
    for one, two in zip(main[::2], main[1::2], strict=True):
        assert one[3] == two[3] == "vcr/brightness|vcr/gaussian_noise"
        assert (one[4], two[4]) == (0, 1) and one[9] != two[9]
        assert (one[1] == "same") == (one[6] == two[6])
    truths = Counter(row[1] for row in main)
    assert truths == {"same": 12, "different": 12}
    gap = max(abs(one[7] - two[7]) for one, two in zip(main[::2], main[1::2], strict=True))
    assert f"at most {gap:.3f}" in result.out
    assert {row[12] for row in shown} == {""}


def test_images_of_qualification_and_catch_trials_can_be_chosen(make, images, tmp_path):
    drawn = make()
    assert "images of qualification and catch trials are drawn at random" in drawn.out
    easy = tmp_path / "easy"
    for label in CATEGORIES[:6]:
        (easy / label).mkdir(parents=True)
        shutil.copy(images / label / "1.png", easy / label / "again.png")
    named = [f"{label}/2.png" for label in CATEGORIES[:4]]
    listed = images.parent / "catch.csv"
    listed.write_text("\n".join(["path", *(f"images/{name}" for name in named)]) + "\n")
    chosen = ("--qualification-images", easy, "--catch-images", listed)
    result = make(*chosen, name="chosen")
    assert result.status == 0 and "drawn at random" not in result.out, result.err
    shown = rows_in(tmp_path / "chosen" / "responses.sqlite", SHOWN)
    names = {
        role: {row[13] for row in shown if row[0] == role} for role in ("qualification", "catch")
    }
    expected = {f"{label}/1.png" for label in CATEGORIES[:6]}
    assert names == {"qualification": expected, "catch": set(named)}
    reserved = expected | set(named)
    assert not reserved & {row[13] for row in shown if row[0] in ("main", "practice")}
    # the same command repairs the study, another one does not
    lost = next((tmp_path / "chosen" / "stimuli").iterdir())
    lost.unlink()
    assert_rejected(make("--catch-images", listed, name="chosen"), "is already a study")
    assert make(*chosen, name="chosen").status == 0 and lost.exists()


def test_chosen_images_that_do_not_fit_are_rejected(make, images, tmp_path):
    few = tmp_path / "few"
    few.mkdir()
    shutil.copy(images / "cat" / "1.png", few / "cat.png")
    assert_rejected(make("--catch-images", few), "must have at least the 3 images", "got 1")
    easy = tmp_path / "easy"
    shutil.copytree(images / "dog", easy)
    shutil.copytree(images / "cat", easy, dirs_exist_ok=True, copy_function=copy_beside)
    both = ("--qualification-images", easy, "--catch-images", easy)
    assert_rejected(make(*both), "nobody sees an image twice")
    assert_rejected(make("--catch-images", easy, "--catch-pool", 9), "omit --catch-pool")
    pairs = ("--kind", "same-different", "--catch-images", easy)
    assert_rejected(make(*pairs, small=()), "apply to --kind categorise only")
    Image.new("RGB", (SIDE, SIDE), (1, 2, 3)).save(easy / "other.png")
    assert_rejected(make("--catch-images", easy), "other.png is not one of the test set's images")
    assert not (tmp_path / "study").exists()


def copy_beside(source, target):
    return shutil.copy(source, f"{target}.cat.png")


def test_a_category_that_is_missing_is_told(make, tmp_path):
    few = save_real_images(tmp_path / "few", 6, CATEGORIES[:14])
    testset = draw_testset(few, tmp_path / "t.parquet")
    result = make(images=few, testset=testset)
    assert result.status == 0, result.err
    assert "Note: the main trials show no images of oven, truck." in result.out


def test_images_without_visual_change_are_told(make, tmp_path):
    flat = save_real_images(tmp_path / "flat")
    for level, label in enumerate(CATEGORIES[:8]):
        Image.new("RGB", (SIDE, SIDE), (90, 90, level)).save(flat / label / "0.png")
    testset = draw_testset(flat, tmp_path / "t.parquet")
    table = pq.read_table(testset).to_pylist()
    blank = [row for row in table if row["corruption"] != "clean" and row["delta_v"] is None]
    assert blank
    result = make(images=flat, testset=testset)
    assert result.status == 0, result.err
    assert f"Note: {len(blank)} corrupted images are left out" in result.out
    shown = rows_in(tmp_path / "study" / "responses.sqlite", SHOWN)
    assert not {row["row"] for row in blank} & {row[5] for row in shown}


# Several studies in one database


def test_images_are_shared_between_studies_of_one_database(make, tmp_path):
    url = f"sqlite:///{tmp_path}/all.sqlite"
    assert make("--database", url, name="one").status == 0
    rejected = make("--database", url, name="two")
    assert_rejected(rejected, "different secret", "--secret")
    assert not (tmp_path / "two").exists()
    own = ("--database", url, "--secret", tmp_path / "one")
    assert_rejected(make(*own, "--name", "one", name="two"), "'one'", "--name")
    assert not (tmp_path / "two").exists()
    assert make(*own, "--seed", 1, name="two").status == 0
    file = tmp_path / "all.sqlite"
    assert rows_in(file, "select count(*) from source_image") == [(64,)]
    assert rows_in(file, "select name from study order by id") == [("one",), ("two",)]
    assert rows_in(file, "select count(*) from installation") == [(1,)]
    one, two = (open_study(tmp_path / name) for name in ("one", "two"))
    assert one.secret == two.secret and one.database_url == two.database_url


def test_studies_go_into_postgresql_too(make, tmp_path, monkeypatch):
    with postgresql() as url:
        with monkeypatch.context() as patched:
            interrupted(patched, study_build, "config_text", 0)
            assert make("--database", url, name="one").status == 130
        assert make("--database", url, name="one").status == 0
        assert_rejected(make("--database", url, name="two"), "different secret")
        own = ("--database", url, "--secret", tmp_path / "one" / "secret")
        assert make(*own, name="two").status == 0
        assert make("--name", "one", name="alone").status == 0
        folder = open_study(tmp_path / "one")
        assert folder.database_url == url
        engine = create_engine(url)
        with engine.connect() as connection:
            where = "join study on study.id = study_id where study.name = 'one' order by"
            stored = connection.exec_driver_sql(SHOWN.replace("order by", where)).fetchall()
            count = connection.exec_driver_sql("select count(*) from source_image").scalar_one()
        engine.dispose()
    assert [tuple(row) for row in stored] == rows_in(tmp_path / "alone" / "responses.sqlite", SHOWN)
    assert count == 64


def test_an_image_with_another_label_than_before_is_rejected(make, images, tmp_path):
    url = f"sqlite:///{tmp_path}/all.sqlite"
    assert make("--database", url, name="one").status == 0
    swapped = tmp_path / "swapped"
    for label in CATEGORIES:
        other = {"cat": "dog", "dog": "cat"}.get(label, label)
        (swapped / other).mkdir(parents=True)
        for path in (images / label).iterdir():
            (swapped / other / path.name).write_bytes(path.read_bytes())
    testset = draw_testset(swapped, tmp_path / "s.parquet")
    own = ("--database", url, "--secret", tmp_path / "one")
    result = make(*own, name="two", images=swapped, testset=testset)
    assert_rejected(result, "labeled", "cat", "dog")
    assert rows_in(tmp_path / "all.sqlite", "select name from study") == [("one",)]


# Going on


def interrupted(monkeypatch, module, name, after):
    """Let a function be called so often, and press Ctrl-C at the next call."""
    true, calls = getattr(module, name), []

    def call(*arguments, **options):
        if len(calls) == after:
            raise KeyboardInterrupt
        calls.append(arguments)
        return true(*arguments, **options)

    monkeypatch.setattr(module, name, call)


def test_after_ctrl_c_the_same_command_goes_on(make, tmp_path, monkeypatch):
    with monkeypatch.context() as patched:
        interrupted(patched, study_build, "write_image", 12)
        stopped = make("--name", "x")
    assert stopped.status == 130
    assert stopped.err.strip() == (
        f"Stopped: finished stimuli are in {tmp_path}/study; run the same command again to resume."
    )
    study = tmp_path / "study"
    assert not (study / "study.yaml").exists() and not (study / "responses.sqlite").exists()
    with pytest.raises(UsageError, match="not a study"):
        open_study(study)
    secret = (study / "secret").read_text()
    before = {path: path.stat().st_mtime_ns for path in (study / "stimuli").iterdir()}
    assert len(before) >= 10  # some images are alike
    # one is cut off, as if the machine had stopped
    lost = sorted(before)[0]
    lost.write_bytes(lost.read_bytes()[:100])
    with (study / "rendered.csv").open("a") as record:
        record.write("17,abc")
    assert make("--name", "x").status == 0
    kept = {path: path.stat().st_mtime_ns for path in before if path != lost}
    assert kept == {path: when for path, when in before.items() if path != lost}
    assert (study / "secret").read_text() == secret
    assert make("--name", "x", name="whole").status == 0
    one, two = (rows_in(tmp_path / name / "responses.sqlite", SHOWN) for name in ("study", "whole"))
    assert one == two
    for row in one:
        read_pixels(study, row[8], SIDE)


def test_a_list_of_images_that_is_wrong_is_not_believed(make, tmp_path, monkeypatch):
    with monkeypatch.context() as patched:
        interrupted(patched, study_build, "write_image", 12)
        assert make().status == 130
    record = tmp_path / "study" / "rendered.csv"
    lines = dict(line.split(",") for line in record.read_text().split())
    names = list(dict.fromkeys(lines.values()))
    turned = dict(zip(names, names[1:] + names[:1], strict=True))
    record.write_text("".join(f"{row},{turned[name]}\n" for row, name in lines.items()))
    assert make().status == 0
    assert make("--name", "study", name="whole").status == 0
    one, two = (rows_in(tmp_path / name / "responses.sqlite", SHOWN) for name in ("study", "whole"))
    assert one == two


def test_two_runs_do_not_make_one_folder_together(make, tmp_path):
    (tmp_path / "study").mkdir()
    with try_lock(tmp_path / "study" / "making.json"):
        assert_rejected(make(), "Another run")
    assert make().status == 0


def test_a_stop_after_the_database_was_written_does_not_write_twice(make, tmp_path, monkeypatch):
    url = ("--database", f"sqlite:///{tmp_path}/all.sqlite")
    with monkeypatch.context() as patched:
        interrupted(patched, study_build, "config_text", 0)
        assert make(*url).status == 130
    before = rows_in(tmp_path / "all.sqlite", SHOWN)
    assert before and not (tmp_path / "study" / "study.yaml").exists()
    assert make(*url).status == 0
    assert rows_in(tmp_path / "all.sqlite", SHOWN) == before
    assert rows_in(tmp_path / "all.sqlite", "select name from study") == [("study",)]


def test_beginnings_with_other_settings_are_rejected_and_kept(make, tmp_path, monkeypatch):
    with monkeypatch.context() as patched:
        interrupted(patched, study_build, "write_image", 3)
        assert make().status == 130
    before = sorted((tmp_path / "study").rglob("*"))
    assert_rejected(make("--k", 9), "different settings")
    assert_rejected(make("--seed", 9), "different settings")
    assert sorted((tmp_path / "study").rglob("*")) == before
    assert make().status == 0


def test_a_study_that_is_there_is_never_changed(make, tmp_path):
    assert make().status == 0
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "study").rglob("*")}
    for more in ((), ("--k", 9)):
        assert_rejected(make(*more), "already a study")
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "study").rglob("*")} == before


def test_images_that_were_damaged_are_found_and_mended(make, tmp_path):
    assert make().status == 0
    folder = open_study(tmp_path / "study")
    shown = rows_in(tmp_path / "study" / "responses.sqlite", SHOWN)
    names = sorted({row[8] for row in shown})[:4]
    image_path(folder.path, names[0]).unlink()
    image_path(folder.path, names[1]).write_bytes(b"no image")
    Image.new("RGB", (SIDE, SIDE)).save(image_path(folder.path, names[2]))
    Image.new("RGB", (SIDE, SIDE + 1)).save(image_path(folder.path, names[3]))
    words = ("is missing", "is damaged", "pixels differ", "pixels differ")
    for name, word in zip(names, words, strict=True):
        with pytest.raises(UsageError, match=f"{word}.*experiment new"):
            read_pixels(folder.path, name, SIDE)
    good = sorted({row[8] for row in shown})[4]
    with pytest.raises(UsageError, match="damaged"):
        read_pixels(folder.path, good, SIDE + 1)
    result = make()
    assert result.status == 0 and "are valid" in result.out
    for name in names:
        assert hashlib.sha256(read_pixels(folder.path, name, SIDE)).hexdigest() == name
    assert rows_in(tmp_path / "study" / "responses.sqlite", SHOWN) == shown


# What is rejected


def test_a_test_set_without_labels_is_rejected(make, tmp_path):
    mixed = save_real_images(tmp_path / "mixed", 4, ("x",))
    for path in (mixed / "x").iterdir():
        path.rename(mixed / path.name)
    testset = draw_testset(mixed, tmp_path / "t.parquet", 8)
    assert_rejected(make(images=mixed, testset=testset), "4 of 4", "no label", "0.png")
    assert not (tmp_path / "study").exists()


def test_categories_outside_the_16_are_rejected(make, tmp_path):
    mixed = save_real_images(tmp_path / "mixed", 3, ("cat", "otter"))
    testset = draw_testset(mixed, tmp_path / "t.parquet", 8)
    result = make(images=mixed, testset=testset)
    assert_rejected(result, "3 of 6", "otter/0.png", "'otter'", "--labels entry16")


def test_too_few_images_are_rejected_with_the_numbers(make, tmp_path):
    result = make(small=())
    assert_rejected(result, "64 source images", "needs 148", "100 trials", "--trials")
    assert not (tmp_path / "study").exists()


def test_images_of_several_sizes_are_rejected(make, run, tmp_path):
    mixed = save_real_images(tmp_path / "mixed", 4)
    image_file(mixed / "cat" / "odd.png", 1, (24, 30))
    draw_testset(mixed, tmp_path / "t.parquet", 100, corruptions=TWO[1:])
    result = make(images=mixed, testset=tmp_path / "t.parquet")
    assert_rejected(result, "square", "cat/odd.png", "30 × 24", "--stimulus 224")
    image_file(mixed / "cat" / "odd.png", 1, (24, 24))
    draw_testset(mixed, tmp_path / "u.parquet", 100, corruptions=TWO[1:])
    result = make(images=mixed, testset=tmp_path / "u.parquet")
    assert_rejected(result, "the same size", "32 px", "--stimulus 224")
    assert not (tmp_path / "study").exists()


def test_other_images_than_the_test_sets_are_rejected(make, tmp_path):
    others = save_real_images(tmp_path / "others", 4, side=40)
    result = make(images=others)
    assert_rejected(result, "drawn from other images")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--k", 0), ("--k",)),
        (("--settings", "none_wanted.yaml"), ("k must be at least 1, got 0",)),
        (("--kind", "sort"), ("Unknown kind of experiment 'sort'",)),
        (("--name", "Not This"), ("lower-case letters", "'Not This'")),
        (("--catch-pool", 1), ("catch-pool must be at least the number",)),
        (("--pay", -1), ("pay must be",)),
        (("--expect-excluded", 1), ("expect-excluded must be",)),
        (("--pair", "a:b"), ("same-different",)),
        (("--kind", "same-different", "--clean-k", 1), ("--clean-k",)),
        (("--kind", "same-different", "--pair", "blur"), ("A:B",)),
        (("--kind", "same-different", "--pair", "brightness:brightness"), ("A:B",)),
        (("--kind", "same-different", "--pair", "brightness:gausian_noise"), ("gaussian_noise",)),
        (("--kind", "same-different", "--trials", 2, "--per-pair", 7), ("must be even",)),
        (("--settings", "none.yaml"), ("No such file",)),
        (("--settings", "odd.yaml"), ("Unknown setting", "blocks", "block")),
        (("--settings", "list.yaml"), ("must contain study settings",)),
        (("--settings", "broken.yaml"), ("cannot be read",)),
        (("--settings", "text.yaml"), ("block", "must be int")),
        (("--consent", "empty.txt"), ("empty.txt is empty",)),
        (("--consent", "none.txt"), ("No such file",)),
        (("--secret", "empty.txt"), ("64 hexadecimal digits",)),
        (("--secret", "none"), ("does not exist",)),
        (("--database", "mysql://x"), ("postgresql+psycopg://", "mysql")),
        (("--database", "responses"), ("'responses' is not a database",)),
        (("--database", "sqlite:///none/a.sqlite"), ("No such folder",)),
        (("--database", "sqlite:///file:a.sqlite"), ("must be a file",)),
        (("--database", "sqlite://"), ("must be a file",)),
        (("--database", "postgresql+psycopg://a:b@c:port/d"), ("is not a database",)),
        (("--device", "tpu"), ("cpu or cuda",)),
        (("--seed", -1), ("--seed",)),
    ],
)
def test_what_cannot_be_a_study_is_rejected_and_leaves_nothing(
    make, tmp_path, monkeypatch, arguments, words
):
    monkeypatch.chdir(tmp_path)
    files = {
        "odd.yaml": "blocks: 3\n", "list.yaml": "- 1\n", "broken.yaml": "a: [\n",
        "text.yaml": "block: many\n", "empty.txt": "\n", "none_wanted.yaml": "k: 0\n",
    }  # fmt: skip
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert_rejected(make(*arguments), *words)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(files)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"k": True}, "k in a.yaml must be int, got True."),
        ({"k": 2.0}, "k in a.yaml must be int, got 2.0."),
        ({"pass_share": "1"}, "pass_share in a.yaml must be float, got '1'."),
        ({"title": 3}, "title in a.yaml must be str, got 3."),
        ({"prolific_code": 3}, "prolific_code in a.yaml must be str, got 3."),
        ({"stimulus_ms": 15}, "stimulus_ms must be at least 16, got 15."),
        ({"lease_minutes": float("nan")}, "lease_minutes must be at least 0.01, got nan."),
        ({"pass_share": 1.5}, "pass_share must be in [0, 1], got 1.5."),
        ({"kind": "sort"}, "Unknown kind of experiment 'sort'"),
    ],
    ids=str,
)
def test_a_setting_of_a_wrong_type_or_out_of_bounds_is_one_sentence(settings, sentence):
    with pytest.raises(UsageError) as error:
        config_from({"name": "a", "title": "A"} | settings, "a.yaml")
    assert str(error.value).startswith(sentence)


def test_a_study_without_a_title_is_none():
    with pytest.raises(UsageError, match=r"a.yaml is not a study: title is missing\."):
        config_from({"name": "a"}, "a.yaml")


def test_a_folder_or_file_of_something_else_is_kept(make, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("precious")
    (tmp_path / "file").write_text("precious")
    assert_rejected(make(name="full"), "not part of a study")
    assert_rejected(make(name="file"), "is a file")
    assert_rejected(make(name="none/study"), "No such folder")
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["mine.txt"]
    (tmp_path / "empty").mkdir()
    assert make(name="empty").status == 0


def test_a_side_other_than_the_test_sets_is_rejected(make, images, tmp_path):
    testset = draw_testset(images, tmp_path / "t.parquet", stimulus="24")
    (tmp_path / "own.yaml").write_text(yaml.safe_dump({"side": 30}))
    result = make("--settings", tmp_path / "own.yaml", testset=testset)
    assert_rejected(result, "side", "24 px", "30")
    assert make(testset=testset).status == 0
    assert open_study(tmp_path / "study").config.side == 24


def test_a_test_set_of_images_that_are_not_square_is_rejected(make, images, tmp_path):
    wide = draw_testset(images, tmp_path / "wide.parquet", stimulus="48x24")
    assert_rejected(make(testset=wide), "square", "48x24", "--stimulus 48")
    square = draw_testset(images, tmp_path / "square.parquet", stimulus="24x24")
    assert make(testset=square).status == 0
    assert open_study(tmp_path / "study").config.side == 24


def test_what_is_no_study_is_not_opened(make, tmp_path):
    with pytest.raises(UsageError, match="No such folder"):
        open_study(tmp_path / "none")
    with pytest.raises(UsageError, match="not a study: create one with eyechart experiment new"):
        open_study(tmp_path)
    assert make().status == 0
    study = tmp_path / "study"
    folder = open_study(study)
    for name in ("../secret", "", "A" * 64, f"{'a' * 64}/x"):
        with pytest.raises(UsageError, match="64 hexadecimal digits"):
            image_path(folder.path, name)
    (study / "secret").write_text("short")
    with pytest.raises(UsageError, match="is not a secret"):
        open_study(study)
    (study / "secret").unlink()
    with pytest.raises(UsageError, match="does not exist"):
        open_study(study)


def test_a_folder_whose_name_means_something_in_an_address_works(make, tmp_path):
    assert make(name="100% ?#&").status == 0
    assert (tmp_path / "100% ?#&" / "responses.sqlite").exists()
    assert open_study(tmp_path / "100% ?#&").config.name == "100"
