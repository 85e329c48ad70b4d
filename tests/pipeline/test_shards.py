"""Runs that are split into shards and merged: the same results as in one process, or an error."""

import json
import os
import shutil
import subprocess
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

import eyechart as ec
from eyechart.cli.app import main
from eyechart.core.errors import UsageError
from eyechart.core.storage.parts import PartFiles
from eyechart.core.storage.shards import Shard
from eyechart.images.imageset import ImageSet
from eyechart.images.labels.imagenet import wordnet_ids
from eyechart.pipeline.shard_folder import has_images
from places import SUPPORT
from small_models import TINTS, save_images

SUITE = """\
name: mine
title: Mine
source: me
corruptions:
  - {name: grain, function: gaussian_noise, group: film, path: {sigma: [0.01, 0.4]}}
  - {same_as: "vcr:vcr/brightness"}
"""

COMMON = ("--bins", "9", "--min-per-bin", "3", "--n-bootstrap", "20", "--stimulus", "native")
VCR = (
    "small_models:thousand",
    "--n",
    "40",
    "--corruption",
    "gaussian_noise",
    "--corruption",
    "frost",
)
LEVELS = (
    "small_models:thousand",
    "--suite",
    "imagenet-c",
    "--corruption",
    "contrast",
    "--humans",
    "none",
)


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """Twelve images of four ImageNet classes, three of which are among the 16 categories."""
    folder = save_images(tmp_path_factory.mktemp("images") / "photos", each=3)
    for tint, place in zip(sorted(TINTS), (404, 207, 285, 1), strict=True):
        (folder / tint).rename(folder / wordnet_ids()[place])
    return folder


@pytest.fixture(scope="module")
def evaluate(images):
    """Evaluate into a folder, and return the status and everything that was printed."""

    def call(out, *arguments):
        return command("evaluate", *arguments, "--images", images, "--out", out, *COMMON)

    return call


def command(*arguments):
    said = StringIO()
    with pytest.raises(SystemExit) as stop, redirect_stdout(said), redirect_stderr(said):
        main([str(argument) for argument in arguments])
    return stop.value.code or 0, said.getvalue()


@pytest.fixture(scope="module")
def one(evaluate, tmp_path_factory):
    """The run in one process."""
    out = tmp_path_factory.mktemp("one") / "out"
    status, said = evaluate(out, *VCR)
    assert status == 0, said
    return out


@pytest.fixture(scope="module")
def two(evaluate, tmp_path_factory):
    """Two finished shards, not merged."""
    out = tmp_path_factory.mktemp("two") / "out"
    assert f"eyechart merge {out}" in predict_shards(evaluate, out, 2, *VCR)
    return out


@pytest.fixture
def split(two, tmp_path):
    return shutil.copytree(two, tmp_path / "split")


def without_run(folder):
    """Return results.json as text, without what depends on machine and moment."""
    results = json.loads((folder / "results.json").read_text())
    del results["run"]
    return json.dumps(results)


def predict_shards(evaluate, out, count, *arguments):
    for number in range(1, count + 1):
        status, said = evaluate(out, *arguments, "--shard", f"{number}/{count}")
        assert status == 0, said
    return said


def assert_same(split, one):
    status, said = command("merge", split)
    assert status == 0, said
    assert without_run(split) == without_run(one)


def test_shards_with_humans_merge_to_the_results_of_one_process(split, one):
    assert_same(split, one)
    assert "entry16" in without_run(one)
    assert (split / "results.csv").read_bytes() == (one / "results.csv").read_bytes()
    for path in (one / "examples").iterdir():
        assert (split / "examples" / path.name).read_bytes() == path.read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 7])
def test_any_number_of_shards_gives_the_same_results(evaluate, one, tmp_path, count):
    predict_shards(evaluate, tmp_path / "split", count, *VCR)
    assert_same(tmp_path / "split", one)


@pytest.mark.slow
@pytest.mark.parametrize("case", ["levels", "suite"])
def test_other_suites_merge_to_the_results_of_one_process(evaluate, tmp_path, case):
    (tmp_path / "mine.yaml").write_text(SUITE)
    mine = ("small_models:four_classes", "--suite", tmp_path / "mine.yaml", "--n", "40")
    arguments = LEVELS if case == "levels" else (*mine, "--labels", "none", "--humans", "none")
    assert evaluate(tmp_path / "one", *arguments)[0] == 0
    predict_shards(evaluate, tmp_path / "split", 2, *arguments)
    assert_same(tmp_path / "split", tmp_path / "one")


def test_a_shard_reads_only_its_own_images(split, evaluate, monkeypatch):
    shutil.rmtree(split / "shards" / "2-of-2")
    read = []
    usual = ImageSet._read_again

    def noting(images, index):
        read.append(images.digests[index])
        return usual(images, index)

    monkeypatch.setattr(ImageSet, "_read_again", noting)
    assert evaluate(split, *VCR, "--shard", "2/2")[0] == 0
    mine = {digest for digest in read if Shard(2, 2).has(digest)}
    assert mine
    # The self-test looks at eight images of the whole dataset.
    assert len({*read} - mine) <= 8


def test_merging_from_python_needs_neither_models_nor_the_working_folder(split, monkeypatch):
    monkeypatch.setattr("eyechart.pipeline.evaluate.load_model", None)
    record = split / "shards" / "1-of-2" / "shard.json"
    record.write_text(record.read_text().replace(str(Path.cwd()), str(split / "gone")))
    results = ec.merge(split)
    assert float(results["small_models:thousand"]["vcr/frost"].r_p) > 0
    assert results.predictions().num_rows == 80
    assert (split / "results.json").is_file()


class TestWrongFolders:
    """Shards that are missing, copied, foreign or incomplete are named."""

    def rejected(self, split, *words):
        with pytest.raises(UsageError) as error:
            ec.merge(split)
        for word in words:
            assert word in str(error.value)

    def test_a_deleted_shard(self, split):
        shutil.rmtree(split / "shards" / "2-of-2")
        self.rejected(split, "lacks shard 2/2", "--shard 2/2")

    def test_a_copied_shard(self, split):
        shutil.rmtree(split / "shards" / "2-of-2")
        shutil.copytree(split / "shards" / "1-of-2", split / "shards" / "2-of-2")
        self.rejected(split, "2-of-2", "copy of shard 1/2")

    def test_a_copy_beside_the_shards(self, split):
        shutil.copytree(split / "shards" / "1-of-2", split / "shards" / "1-of-2 (copy)")
        self.rejected(split, "1-of-2 (copy)", "is not the folder of a shard")

    def test_a_shard_of_another_run(self, split):
        record = split / "shards" / "2-of-2" / "run.json"
        record.write_text(json.dumps({**json.loads(record.read_text()), "seed": 9}))
        self.rejected(split, "2-of-2", "another run", "seed")

    def test_a_shard_that_was_scored_differently(self, split):
        record = split / "shards" / "2-of-2" / "shard.json"
        stored = json.loads(record.read_text())
        stored["settings"]["estimator"] = "spline"
        record.write_text(json.dumps(stored))
        self.rejected(split, "2-of-2", "another run", "estimator")

    def test_a_file_of_predictions_that_is_missing(self, split):
        (split / "shards" / "2-of-2" / "predictions" / "vcr-frost.parquet").unlink()
        self.rejected(split, "Shard 2/2 lacks", "vcr/frost")

    def test_predictions_of_another_shard(self, split):
        first = PartFiles(split / "shards" / "1-of-2" / "predictions").read("vcr/frost")
        PartFiles(split / "shards" / "2-of-2" / "predictions", writer=3).write("vcr/frost", first)
        self.rejected(split, "2-of-2", "vcr/frost", "of another shard")

    def test_an_unfinished_shard(self, split):
        (split / "shards" / "2-of-2" / "shard.json").unlink()
        self.rejected(split, "Shard 2/2 is not finished")

    def test_other_folders(self, tmp_path):
        self.rejected(tmp_path, "no shards to merge")
        self.rejected(tmp_path / "none", "No such folder")

    def test_another_number_of_shards(self, split, evaluate):
        status, said = evaluate(split, *VCR, "--shard", "1/3")
        assert status == 2
        assert "a shard of 2" in said

    def test_a_whole_run_into_the_folder_of_shards(self, split, evaluate):
        status, said = evaluate(split, *VCR)
        assert status == 2
        assert "contains shards" in said


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("small_models:thousand", "--shard", "1/2"), "give --n NUMBER"),
        ((*VCR, "--shard", "3/2"), "NUMBER/COUNT"),
    ],
)
def test_runs_that_cannot_be_split_are_rejected(evaluate, tmp_path, arguments, words):
    status, said = evaluate(tmp_path / "out", *arguments)
    assert status == 2
    assert words in said


def test_a_plan_in_the_folder_gives_the_number_of_samples(split, evaluate):
    without_n = ("small_models:thousand", *VCR[3:])
    assert evaluate(split, *without_n, "--shard", "2/2")[0] == 0


def test_in_python_a_shard_is_rejected():
    with pytest.raises(UsageError, match="eyechart evaluate --shard"):
        ec.evaluate(lambda images: images.mean(dim=(2, 3)), shard="1/2")


def test_every_image_belongs_to_one_shard(images):
    loaded = ec.load_images(images, "native")
    counts = sum(has_images(loaded, Shard(number, 5)).astype(int) for number in range(1, 6))
    assert (counts == 1).all()


@pytest.mark.slow
def test_a_killed_shard_resumes_to_the_same_results(evaluate, images, tmp_path):
    slow = ("small_models:slow_colors", *VCR[1:], "--labels", "none", "--humans", "none")
    assert evaluate(tmp_path / "one", *slow)[0] == 0
    arguments = [*slow, "--images", images, "--out", tmp_path / "split", *COMMON, "--shard", "1/2"]
    process = subprocess.Popen(
        [sys.executable, "-m", "eyechart", "evaluate", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(SUPPORT), *sys.path]), "SLOW": "0.2"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    predictions = tmp_path / "split" / "shards" / "1-of-2" / "predictions"
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        if list(predictions.glob("*--*.parquet")):
            break
        time.sleep(0.01)
    process.kill()
    process.wait()
    assert not (predictions.parent / "shard.json").exists()
    predict_shards(evaluate, tmp_path / "split", 2, *slow)
    assert_same(tmp_path / "split", tmp_path / "one")
