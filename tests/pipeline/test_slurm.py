"""The documented Slurm scripts, run through a stand-in for sbatch and srun."""

import json
import os
import subprocess
import sys

import pytest

from places import ROOT, SUPPORT
from slurm_stub import install
from small_models import save_images

SCRIPT = ROOT / "docs" / "slurm" / "submit.sh"
MODEL = "small_models:colors"


@pytest.fixture
def shell(tmp_path):
    """A function that runs a shell command where Slurm's and eyechart's commands are found."""
    binaries = install(tmp_path / "bin")
    eyechart = binaries / "eyechart"
    eyechart.write_text(f'#!/bin/sh\nexec {sys.executable} -m eyechart "$@"\n')
    eyechart.chmod(0o755)
    photos = save_images(tmp_path / "photos", each=2)

    def call(*words, **variables):
        return subprocess.run(
            [str(word) for word in words],
            cwd=tmp_path,
            env={
                **os.environ,
                "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}",
                "PYTHONPATH": os.pathsep.join([str(SUPPORT), os.environ.get("PYTHONPATH", "")]),
                "IMAGES": str(photos),
                "MODELS": MODEL,
                "DEVICE": "cpu",
                "N": "20",
                **variables,
            },
            capture_output=True,
            text=True,
            check=False,
        )

    return call


def results(folder):
    """The results without the block that depends on machine and moment."""
    content = json.loads((folder / "results.json").read_text())
    del content["run"]
    return content


def test_the_array_job_and_its_merge_give_the_results_of_one_process(shell, tmp_path):
    submitted = shell("bash", SCRIPT, ARRAY="0-1", OUT="run")
    assert submitted.returncode == 0, submitted.stderr
    assert (tmp_path / "slurm.log").read_text().splitlines() == [
        "job 1 array parsable", "task 0 status 0", "task 1 status 0",
        "job 2 dependency wrap", "task - status 0",
    ], submitted.stderr  # fmt: skip
    alone = shell(
        "eyechart", "evaluate", MODEL, "--images", "photos", "--n", 20, "--device", "cpu",
        "--out", "alone",
    )  # fmt: skip
    assert alone.returncode == 0, alone.stderr
    assert results(tmp_path / "run") == results(tmp_path / "alone")


def test_nothing_is_merged_after_a_task_that_failed(shell, tmp_path):
    submitted = shell("bash", SCRIPT, ARRAY="1-2", OUT="run", MODELS="no_such_model")
    assert submitted.returncode == 0
    assert (tmp_path / "slurm.log").read_text().splitlines() == [
        "job 1 array parsable", "task 1 status 2", "job 1 failed", "task 2 status 2",
        "job 1 failed", "job 2 dependency wrap",
    ]  # fmt: skip
    assert not (tmp_path / "run" / "results.json").exists()
