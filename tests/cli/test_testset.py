"""`eyechart testset`: make, describe, coverage and render, and what each refuses."""

import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import eyechart as ec
from commands import assert_rejected, image_file
from eyechart.testsets import testset
from small_models import save_images

TWO = ("--corruption", "brightness", "--corruption", "blur")
SMALL = ("--n", 12, "--stimulus", "native", "--seed", 7, *TWO)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_images(tmp_path_factory.mktemp("images") / "photos", each=2)


@pytest.fixture
def made(run, folder, tmp_path):
    """A small test set, as the command makes it."""
    path = tmp_path / "t.parquet"
    result = run("testset", "make", "--images", folder, "--out", path, *SMALL)
    assert result.status == 0, result.err
    return path


def test_making_says_how_many_rows_there_are_and_leaves_one_file(run, folder, tmp_path):
    path = tmp_path / "t.parquet"
    result = run("testset", "make", "--images", folder, "--out", path, *SMALL)
    assert result.status == 0
    assert "32 samples of vcr/brightness, vcr/blur and clean images" in result.out
    assert "vcr/brightness" in result.out and "vcr/blur" in result.out
    assert [each.name for each in tmp_path.iterdir()] == ["t.parquet"]


def test_the_command_makes_what_draw_makes(made, folder):
    drawn = ec.sample_testset(
        folder, n=12, seed=7, corruptions=["brightness", "blur"], stimulus="native"
    )
    assert ec.read_testset(made).table.equals(drawn.table)


def test_describing_says_how_it_was_drawn(run, made, folder):
    result = run("testset", "describe", made)
    assert result.status == 0
    digest = ec.load_images(folder, "native").digest
    for word in ("32 samples of 8 images", digest, "suite vcr", "n 12", "seed 7", "native",
                 ec.__version__, "vcr/brightness: 12 samples", "vcr/blur: 12 samples"):  # fmt: skip
        assert word in result.out, word
    amounts = [
        dict(row["parameters"])["amount"]
        for row in pq.read_table(made).to_pylist() if row["corruption"] == "vcr/brightness"
    ]  # fmt: skip
    assert f"amount {min(amounts):.4g} to {max(amounts):.4g}" in result.out


def test_coverage_is_counted_in_both_ways(run, made):
    result = run("testset", "coverage", made, "--min-per-bin", 1)
    assert result.status == 0
    table = pq.read_table(made).to_pylist()
    for name in ("vcr/brightness", "vcr/blur"):
        values = np.array([row["delta_v"] for row in table if row["corruption"] == name])
        (line,) = [each for each in result.out.splitlines() if name in each]
        assert f"{len(set((values * 39).astype(int))) / 39:.3f}" in line
        assert f"{len(set((values * 40).astype(int))) / 40:.3f}" in line
        assert f"{values.max():.3f}" in line
    assert "if it has at least 1 sample. 39 bins" in " ".join(result.out.split())
    assert "0.000" in run("testset", "coverage", made, "--min-per-bin", 1000).out


def test_it_is_said_why_bins_are_not_covered_and_which_n_would_do(run, folder, tmp_path):
    given = ("--stimulus", "native", "--corruption", "gaussian_noise", "--sampling", "pilot")
    path = tmp_path / "t.parquet"
    result = run("testset", "make", "--images", folder, "--out", path, "--n", 45, *given)
    assert result.status == 0, result.err
    assert (
        "45 samples per corruption cannot cover all 40 bins, which need 20 samples each: make the"
        " test set with --n 800 or more.\n"
    ) in result.out
    one = run("testset", "coverage", path, "--min-per-bin", 1)
    assert one.status == 0 and "cannot cover" not in one.out


def test_rendered_images_are_those_of_the_python_call(run, made, folder, tmp_path):
    out = tmp_path / "images"
    result = run("testset", "render", made, "--images", folder, "--out", out)
    assert result.status == 0, result.err
    assert "32 images" in result.out
    files = {int(path.stem): path for path in out.rglob("*.png")}
    rows = {row["row"]: row for row in pq.read_table(made).to_pylist()}
    assert files.keys() == rows.keys()
    from PIL import Image

    for number, row in rows.items():
        with Image.open(folder / row["image"]) as clean, Image.open(files[number]) as written:
            expected = clean.convert("RGB")
            if row["corruption"] != "clean":
                expected = ec.corrupt(
                    expected, row["corruption"], keys=[row["digest"]], draw=row["draw"], seed=7,
                    **dict(row["parameters"]),
                )  # fmt: skip
            np.testing.assert_array_equal(np.asarray(written), np.asarray(expected))
    before = {path: path.stat().st_mtime_ns for path in files.values()}
    assert run("testset", "render", made, "--images", folder, "--out", out).status == 0
    assert {path: path.stat().st_mtime_ns for path in files.values()} == before


def test_one_corruption_alone_can_be_rendered(run, made, folder, tmp_path):
    out = tmp_path / "images"
    assert (
        run(
            "testset", "render", made, "--images", folder, "--out", out, "--corruption", "blur"
        ).status
        == 0
    )
    assert {path.parts[len(out.parts)] for path in out.rglob("*.png")} == {"vcr-blur"}


def test_without_options_results_go_where_the_help_says(run, folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run("testset", "make", "--images", folder, *SMALL)
    assert result.status == 0, result.err
    assert (tmp_path / "testset.parquet").exists()
    result = run("testset", "render", "testset.parquet", "--images", folder)
    assert result.status == 0, result.err
    assert len(list((tmp_path / "rendered").rglob("*.png"))) == 32


# What is refused


def test_a_test_set_that_is_there_is_never_overwritten(run, made, folder):
    before = made.read_bytes()
    assert_rejected(
        run("testset", "make", "--images", folder, "--out", made, *SMALL), "already exists"
    )
    assert made.read_bytes() == before


def test_a_file_of_something_else_is_never_overwritten(run, folder, tmp_path):
    path = tmp_path / "mine.parquet"
    pq.write_table(pa.table({"precious": [1]}), path)
    before = path.read_bytes()
    assert_rejected(
        run("testset", "make", "--images", folder, "--out", path, *SMALL), "already exists"
    )
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("photos", "--out", "t.csv"), (".parquet",)),
        (("photos", "--out", "none/t.parquet"), ("No such folder",)),
        (("photos", "--out", "photos.parquet"), ("it is a folder",)),
        (("photos", "--out", ""), ("empty",)),
        (("nowhere",), ("No such file or folder",)),
        (("empty",), ("No images",)),
        (("damaged",), ("1 of 3 images", "b.png")),
        (("list.txt",), ("not a list of images",)),
        (("photos", "--n", "0"), ("n must be",)),
        (("photos", "--n", "many"), ("--n",)),
        (("photos", "--suite", "vrc"), ("Did you mean 'vcr'",)),
        (("photos", "--corruption", "bluur"), ("blur",)),
        (("photos", "--sampling", "even"), ("sampling",)),
        (("photos", "--labels", "mine"), ("label space",)),
        (("photos", "--labels", "entry16"), ("16 categories",)),
        (("photos", "--stimulus", "5000"), ("stimulus",)),
        (("photos", "--device", "tpu"), ("cpu or cuda",)),
    ],
)
def test_what_cannot_be_made_is_rejected_and_leaves_nothing(
    run, folder, tmp_path, monkeypatch, arguments, words
):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(folder, "photos")
    for name in ("empty", "photos.parquet"):
        Path(name).mkdir()
    Path("list.txt").write_text("a.png\n")
    for name in "abc":
        image_file(tmp_path / "damaged" / f"{name}.png", 1, (24, 24))
    Path("damaged", "b.png").write_bytes(b"no picture")
    before = sorted(tmp_path.rglob("*"))
    extra = () if "--out" in arguments else ("--out", "t.parquet")
    small = () if "--n" in arguments else ("--n", 4)
    native = () if "--stimulus" in arguments else ("--stimulus", "native")
    assert_rejected(run("testset", "make", "--images", *arguments, *extra, *small, *native), *words)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("command", ["describe", "coverage", "render"])
@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("none.parquet", "No such file"),
        ("text.parquet", "Parquet"),
        ("other.parquet", "not a test set"),
    ],
)
def test_what_is_no_test_set_is_rejected(run, folder, tmp_path, command, name, word):
    (tmp_path / "text.parquet").write_text("no Parquet")
    pq.write_table(pa.table({"row": [1]}), tmp_path / "other.parquet")
    more = ("--images", folder, "--out", tmp_path / "out") if command == "render" else ()
    assert_rejected(run("testset", command, tmp_path / name, *more), word)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("keep", [("plan",), ("schema",), ("schema", "plan", "stimulus"), ()])
def test_a_header_that_lacks_something_is_rejected_in_a_sentence(run, made, tmp_path, keep):
    """As a later or an earlier version may write it, or a careless hand."""
    import json

    table = pq.read_table(made)
    header = json.loads(table.schema.metadata[testset.HEADER.encode()])
    short = {name: header[name] for name in keep}
    path = tmp_path / "short.parquet"
    pq.write_table(table.replace_schema_metadata({testset.HEADER: json.dumps(short)}), path)
    assert_rejected(run("testset", "describe", path), "short.parquet")


def test_images_other_than_those_of_the_test_set_are_rejected(run, made, tmp_path):
    others = save_images(tmp_path / "others", each=2, side=48)
    result = run("testset", "render", made, "--images", others, "--out", tmp_path / "out")
    assert_rejected(result, "drawn from other images", ".png")
    assert not (tmp_path / "out").exists()


def test_a_corruption_that_the_test_set_lacks_is_rejected(run, made, folder, tmp_path):
    given = ("--out", tmp_path / "out", "--corruption", "brightnes")
    assert_rejected(run("testset", "render", made, "--images", folder, *given), "brightness")


def test_rendering_into_a_folder_of_other_images_replaces_none(run, made, folder, tmp_path):
    precious = {}
    for row in pq.read_table(made).to_pylist():
        label, corruption = row["label"], row["corruption"].replace("/", "-")
        path = tmp_path / "out" / corruption / label / f"{row['row']:08d}.png"
        precious[path] = image_file(path, row["row"]).read_bytes()
    assert_rejected(
        run("testset", "render", made, "--images", folder, "--out", tmp_path / "out"), "another"
    )
    assert {path: path.read_bytes() for path in precious} == precious


def test_rendering_into_a_file_is_rejected(run, made, folder, tmp_path):
    (tmp_path / "out").write_text("precious")
    assert_rejected(
        run("testset", "render", made, "--images", folder, "--out", tmp_path / "out"), "out"
    )
    assert (tmp_path / "out").read_text() == "precious"


# Going on


def test_beginnings_of_another_test_set_are_rejected_and_kept(run, folder, tmp_path, monkeypatch):
    path = tmp_path / "t.parquet"
    write, calls = testset.PartFiles.write, []

    def stop_at_the_second(self, name, table):
        calls.append(name)
        if len(calls) == 2:
            raise KeyboardInterrupt
        write(self, name, table)

    with monkeypatch.context() as patched:
        patched.setattr(testset.PartFiles, "write", stop_at_the_second)
        stopped = run("testset", "make", "--images", folder, "--out", path, *SMALL)
    assert stopped.status == 130
    assert len(stopped.err.strip().splitlines()) == 1 and "to resume" in stopped.err
    assert not path.exists()
    other = run("testset", "make", "--images", folder, "--out", path, *SMALL, "--seed", 8)
    assert_rejected(other, "an unfinished test set")
    assert run("testset", "make", "--images", folder, "--out", path, *SMALL).status == 0
    drawn = ec.sample_testset(
        folder, n=12, seed=7, corruptions=["brightness", "blur"], stimulus="native"
    )
    assert ec.read_testset(path).table.equals(drawn.table)
    assert [each.name for each in tmp_path.iterdir()] == ["t.parquet"]


@pytest.mark.parametrize("content", ["", "{", "[]"])
def test_a_plan_that_was_cut_off_by_a_kill_is_no_crash(run, folder, tmp_path, content):
    parts = tmp_path / "t.parquet.parts"
    parts.mkdir()
    (parts / "plan.json").write_text(content)
    result = run("testset", "make", "--images", folder, "--out", tmp_path / "t.parquet", *SMALL)
    if result.status != 0:
        assert_rejected(result, "t.parquet.parts")


def test_a_folder_of_something_else_in_the_place_of_parts_is_kept(run, folder, tmp_path):
    parts = tmp_path / "t.parquet.parts"
    parts.mkdir()
    (parts / "mine.txt").write_text("precious")
    result = run("testset", "make", "--images", folder, "--out", tmp_path / "t.parquet", *SMALL)
    assert_rejected(result, "contains other files")
    assert (parts / "mine.txt").read_text() == "precious"


@pytest.mark.slow
def test_a_process_that_was_killed_goes_on(run, folder, tmp_path):
    path = tmp_path / "t.parquet"
    many = ("--n", 3000, "--stimulus", "native", "--seed", 7, *TWO)
    command = [
        sys.executable,
        "-m",
        "eyechart",
        "testset",
        "make",
        "--images",
        folder,
        "--out",
        path,
        *many,
    ]
    process = subprocess.Popen([str(each) for each in command], env=os.environ)
    while len(list(tmp_path.glob("t.parquet.parts/vcr-*"))) < 5:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not path.exists()
    assert run("testset", "make", "--images", folder, "--out", path, *many).status == 0
    drawn = ec.sample_testset(
        folder, n=3000, seed=7, corruptions=["brightness", "blur"], stimulus="native"
    )
    assert ec.read_testset(path).table.equals(drawn.table)


MAKING = """
    import sys, time
    from pathlib import Path
    from eyechart.cli.app import main
    from eyechart.testsets import testset

    at_work, go_on = Path(sys.argv[1]), Path(sys.argv[2])
    plan_samples = testset.plan_samples

    def wait_before_the_first_row(images, plan):
        if list(Path(sys.argv[3]).parent.glob("*.parts/.lock")):
            at_work.touch()
            while not go_on.exists():
                time.sleep(0.01)
        return plan_samples(images, plan)

    testset.plan_samples = wait_before_the_first_row
    main(sys.argv[4:])
"""


def test_a_second_process_leaves_alone_what_the_first_is_making(run, folder, tmp_path):
    path, at_work, go_on = (tmp_path / name for name in ("t.parquet", "at-work", "go-on"))
    typed = ["testset", "make", "--images", folder, "--out", path, *SMALL]
    code = [sys.executable, "-c", textwrap.dedent(MAKING), at_work, go_on, path, *typed]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    first = subprocess.Popen([str(each) for each in code], **pipes)
    try:
        while not at_work.exists():
            assert first.poll() is None, first.communicate()
            time.sleep(0.01)
        second = subprocess.run(
            [sys.executable, "-m", "eyechart", *map(str, typed)], capture_output=True, text=True
        )
    finally:
        go_on.touch()
        _, err = first.communicate()
    assert second.returncode == 2 and "Another run" in second.stderr
    assert first.returncode == 0, err
    drawn = ec.sample_testset(
        folder, n=12, seed=7, corruptions=["brightness", "blur"], stimulus="native"
    )
    assert ec.read_testset(path).table.equals(drawn.table)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["at-work", "go-on", "t.parquet"]


def test_files_of_others_among_the_parts_are_told_and_kept(run, folder, tmp_path, monkeypatch):
    path = tmp_path / "t.parquet"

    def stop(self):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(testset.PartFiles, "merge", stop)
        assert run("testset", "make", "--images", folder, "--out", path, *SMALL).status == 130
    (part,) = tmp_path.glob("t.parquet.parts/vcr-blur--*.parquet")
    copy = part.rename(part.with_name(f"{part.stem} (conflicted copy).parquet"))
    again = run("testset", "make", "--images", folder, "--out", path, *SMALL)
    assert again.status == 0 and copy.name in again.err
    drawn = ec.sample_testset(
        folder, n=12, seed=7, corruptions=["brightness", "blur"], stimulus="native"
    )
    assert ec.read_testset(path).table.equals(drawn.table)
    assert list(copy.parent.iterdir()) == [copy]
