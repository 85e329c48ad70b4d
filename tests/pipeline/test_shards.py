"""Runs that are split into shards and merged: the same results as in one process, or an error."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

import eyechart as ec
from eyechart.core.errors import UsageError
from eyechart.core.parts import Parts
from eyechart.core.shards import Shard
from eyechart.images.imageset import ImageSet
from eyechart.labels.imagenet import wordnet_ids
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

MACHINE = ("provenance", "run")
"""Blocks of results.json that depend on machine and moment."""

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


@pytest.fixture
def evaluate(run, images):
    """Evaluate into a folder; reject nothing."""

    def call(out, *arguments):
        return run("evaluate", *arguments, "--images", images, "--out", out, *COMMON)

    return call


def without_run(folder):
    """Return results.json as text, without what depends on machine and moment."""
    results = json.loads((folder / "results.json").read_text())
    return json.dumps({name: part for name, part in results.items() if name not in MACHINE})


def predict_shards(evaluate, out, count, *arguments):
    for number in range(1, count + 1):
        result = evaluate(out, *arguments, "--shard", f"{number}/{count}")
        assert result.status == 0, result.err
    return result


@pytest.mark.parametrize("count", [1, 2, 7])
def test_shards_with_humans_merge_to_the_results_of_one_process(run, evaluate, tmp_path, count):
    assert evaluate(tmp_path / "one", *VCR).status == 0
    result = predict_shards(evaluate, tmp_path / "split", count, *VCR)
    assert f"eyechart merge {tmp_path / 'split'}" in result.out
    assert run("merge", tmp_path / "split").status == 0
    assert without_run(tmp_path / "split") == without_run(tmp_path / "one")
    assert "entry16" in without_run(tmp_path / "one")
    for name in ("results.csv",):
        assert (tmp_path / "split" / name).read_bytes() == (tmp_path / "one" / name).read_bytes()
    examples = sorted(path.name for path in (tmp_path / "one" / "examples").iterdir())
    assert examples == sorted(path.name for path in (tmp_path / "split" / "examples").iterdir())


@pytest.mark.parametrize("case", ["levels", "suite"])
def test_other_suites_merge_to_the_results_of_one_process(run, evaluate, tmp_path, case):
    (tmp_path / "mine.yaml").write_text(SUITE)
    mine = ("small_models:four_classes", "--suite", tmp_path / "mine.yaml", "--n", "40")
    arguments = LEVELS if case == "levels" else (*mine, "--labels", "none", "--humans", "none")
    assert evaluate(tmp_path / "one", *arguments).status == 0
    predict_shards(evaluate, tmp_path / "split", 2, *arguments)
    assert run("merge", tmp_path / "split").status == 0
    assert without_run(tmp_path / "split") == without_run(tmp_path / "one")


def test_a_shard_reads_only_its_own_images(evaluate, tmp_path, monkeypatch):
    evaluate(tmp_path / "split", *VCR, "--shard", "1/2")
    read = []
    usual = ImageSet._read_again

    def noting(images, index):
        read.append(images.digests[index])
        return usual(images, index)

    monkeypatch.setattr(ImageSet, "_read_again", noting)
    assert evaluate(tmp_path / "split", *VCR, "--shard", "2/2").status == 0
    mine = [digest for digest in read if Shard(2, 2).has(digest)]
    # The self-test and the pilot look at some images of the whole dataset.
    assert mine
    assert len(set(read)) - len(set(mine)) < 12


def test_merging_from_python_returns_the_results(evaluate, tmp_path):
    predict_shards(evaluate, tmp_path / "split", 2, *VCR)
    results = ec.merge(tmp_path / "split")
    assert float(results["small_models:thousand"]["vcr/frost"].r_p) > 0
    assert results.predictions().num_rows == 80
    assert (tmp_path / "split" / "results.json").is_file()


def test_a_merge_needs_neither_the_models_nor_their_working_folder(
    evaluate, run, tmp_path, monkeypatch
):
    predict_shards(evaluate, tmp_path / "split", 2, *VCR)
    monkeypatch.setattr("eyechart.pipeline.evaluate.load_model", None)
    record = tmp_path / "split" / "shards" / "1-of-2" / "shard.json"
    record.write_text(record.read_text().replace(str(Path.cwd()), str(tmp_path / "gone")))
    assert run("merge", tmp_path / "split").status == 0


class TestWrongFolders:
    """Shards that are missing, copied, foreign or incomplete are named."""

    @pytest.fixture
    def split(self, evaluate, tmp_path):
        predict_shards(evaluate, tmp_path / "split", 2, *VCR)
        return tmp_path / "split"

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

    def test_a_shard_of_another_run(self, split, evaluate, tmp_path):
        evaluate(tmp_path / "other", *VCR, "--shard", "2/2", "--seed", "9")
        shutil.rmtree(split / "shards" / "2-of-2")
        shutil.copytree(tmp_path / "other" / "shards" / "2-of-2", split / "shards" / "2-of-2")
        self.rejected(split, "2-of-2", "another run", "seed")

    def test_a_shard_that_was_scored_differently(self, split, evaluate, tmp_path):
        arguments = [*VCR, "--shard", "2/2", "--estimator", "paper"]
        evaluate(tmp_path / "other", *arguments)
        shutil.rmtree(split / "shards" / "2-of-2")
        shutil.copytree(tmp_path / "other" / "shards" / "2-of-2", split / "shards" / "2-of-2")
        self.rejected(split, "2-of-2", "another run", "estimator")

    def test_a_file_of_predictions_that_is_missing(self, split):
        (split / "shards" / "2-of-2" / "predictions" / "vcr-frost.parquet").unlink()
        self.rejected(split, "Shard 2/2 lacks", "vcr/frost")

    def test_predictions_of_another_shard(self, split):
        first = Parts(split / "shards" / "1-of-2" / "predictions").read("vcr/frost")
        Parts(split / "shards" / "2-of-2" / "predictions", writer=3).write("vcr/frost", first)
        self.rejected(split, "2-of-2", "vcr/frost", "of another shard")

    def test_an_unfinished_shard(self, split):
        (split / "shards" / "2-of-2" / "shard.json").unlink()
        self.rejected(split, "Shard 2/2 is not finished")

    def test_other_folders(self, tmp_path):
        self.rejected(tmp_path, "no shards to merge")
        self.rejected(tmp_path / "none", "No such folder")

    def test_another_number_of_shards(self, split, evaluate):
        result = evaluate(split, *VCR, "--shard", "1/3")
        assert result.status == 2
        assert "a shard of 2" in result.err

    def test_a_whole_run_into_the_folder_of_shards(self, split, evaluate):
        result = evaluate(split, *VCR)
        assert result.status == 2
        assert "contains shards" in result.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("small_models:thousand", "--shard", "1/2"), "give --n NUMBER"),
        ((*VCR, "--shard", "3/2"), "NUMBER/COUNT"),
        ((*VCR, "--shard", "1/2", "--sampling", "uniform"), "testset make"),
    ],
)
def test_runs_that_cannot_be_split_are_rejected(evaluate, tmp_path, arguments, words):
    result = evaluate(tmp_path / "out", *arguments)
    assert result.status == 2
    assert words in result.err


def test_a_plan_in_the_folder_gives_the_number_of_samples(evaluate, tmp_path):
    evaluate(tmp_path / "out", *VCR, "--shard", "1/2")
    without_n = ("small_models:thousand", *VCR[3:])
    assert evaluate(tmp_path / "out", *without_n, "--shard", "2/2").status == 0


def test_in_python_a_shard_is_rejected():
    with pytest.raises(UsageError, match="eyechart evaluate --shard"):
        ec.evaluate(lambda images: images.mean(dim=(2, 3)), shard="1/2")


def test_every_image_belongs_to_one_shard(images):
    loaded = ec.load_images(images, "native")
    counts = sum(has_images(loaded, Shard(number, 5)).astype(int) for number in range(1, 6))
    assert (counts == 1).all()


def test_a_killed_shard_resumes_to_the_same_results(run, evaluate, images, tmp_path):
    slow = ("small_models:slow_colors", *VCR[1:], "--labels", "none", "--humans", "none")
    assert evaluate(tmp_path / "one", *slow).status == 0
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
    assert run("merge", tmp_path / "split").status == 0
    assert without_run(tmp_path / "split") == without_run(tmp_path / "one")
