"""Whole runs: every number that a user sees is as it was recorded; shards give the same bytes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import reference_runs as runs
from outside import outside

OWN_FILES = ("results.csv", "scores.parquet")


@pytest.mark.parametrize("name", runs.DEMO)
def test_the_numbers_of_a_run_on_demo_images_are_as_recorded(name, tmp_path):
    recorded = [key for key in runs.read(runs.RECORDED["demo"]) if runs.run_of(key) == name]
    assert len(recorded) > 50
    assert runs.differences(name, runs.make_run(name, tmp_path)) == []


def bytes_of(folder):
    """Return what a run has written, without the block on machine and moment."""
    results = json.loads((folder / "results.json").read_text("utf-8"))
    del results["run"]
    return [json.dumps(results), *((folder / name).read_bytes() for name in OWN_FILES)]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    out = tmp_path_factory.mktemp("whole") / "run"
    runs.eyechart([*runs.SHARDED, "--out", str(out)])
    return bytes_of(out)


@pytest.mark.parametrize("n_shards", [1, 2, 7])
def test_a_run_in_shards_gives_the_same_bytes(n_shards, whole, tmp_path):
    for number in range(1, n_shards + 1):
        shard = f"{number}/{n_shards}"
        runs.eyechart([*runs.SHARDED, "--shard", shard, "--out", str(tmp_path)])
    runs.eyechart(["merge", str(tmp_path)])
    assert bytes_of(tmp_path) == whole


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", runs.data_runs(Path()))
def test_the_numbers_of_a_run_on_real_data_are_as_recorded(name, tmp_path):
    outside("data", "photos", "manifest.csv")
    assert runs.differences(name, runs.make_run(name, tmp_path)) == []


def test_a_number_that_differs_is_missing_or_undetermined_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(runs.RECORDED, "demo", tmp_path / "recorded.csv")
    before = {"vcr/fine/fog/r_a": 0.5, "vcr/fine/fog/r_a/low95": 0.4, "vcr/fine/fog/dv50": 0.7}
    runs.write(before | {"noc/fine/fog/error": float("nan")}, runs.RECORDED["demo"])
    assert runs.read(runs.RECORDED["demo"]).keys() == {*before, "noc/fine/fog/error"}
    assert runs.differences("vcr", {key: value + 1e-13 for key, value in before.items()}) == []
    after = {"vcr/fine/fog/r_a": 0.5 + 1e-11, "vcr/fine/fog/dv50": float("nan")}
    lines = runs.differences("vcr", after)
    assert [line.split()[0].rstrip(":") for line in lines] == [
        "vcr/fine/fog/r_a", "missing", "vcr/fine/fog/dv50",
    ]  # fmt: skip
    assert runs.differences("noc", {"noc/fine/fog/error": float("nan")}) == []
    assert runs.differences("noc", {"noc/fine/fog/error": 0.5})


def test_a_run_is_compared_from_the_command_line(tmp_path):
    words = [sys.executable, runs.__file__, "demo", str(tmp_path), "formulas"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "All numbers are as recorded.\n"), done.stderr
