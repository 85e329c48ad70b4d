"""The documented Slurm scripts, run through a stand-in for sbatch and srun."""

import json
import os
import subprocess
import sys

import pytest

from places import ROOT, SUPPORT
from slurm_stub import install
from small_models import save_images

SLURM = ROOT / "docs" / "how-to" / "slurm"
MODEL = "small_models:colors"
OPTIONS = "--corruption brightness --corruption blur"


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
                "OPTIONS": OPTIONS,
                **variables,
            },
            capture_output=True,
            text=True,
            check=False,
        )

    return call


def results(folder):
    """The results without the blocks that depend on machine and moment."""
    content = json.loads((folder / "results.json").read_text())
    return {name: part for name, part in content.items() if name not in ("provenance", "run")}


def jobs(folder):
    """The jobs and tasks that the stand-in has run."""
    return (folder / "slurm.log").read_text().splitlines()


@pytest.mark.parametrize("first", [0, 1])
def test_every_task_of_the_array_gets_its_shard(shell, tmp_path, first):
    # writes down how it was called: the slow tests below call the real command
    (tmp_path / "bin" / "eyechart").write_text(
        f"#!{sys.executable}\n"
        "import sys\n"
        "from eyechart.core.storage.shards import read_shard\n"
        "*words, last = sys.argv[1:]\n"
        "shard = read_shard(last) if words[-1] == '--shard' else last\n"
        "open('calls', 'a').write(f'{words[0]} {shard}\\n')\n"
    )
    submitted = shell("bash", SLURM / "submit.sh", ARRAY=f"{first}-{first + 2}", OUT="run")
    assert submitted.returncode == 0, submitted.stderr
    expected = "evaluate 1/3\nevaluate 2/3\nevaluate 3/3\nmerge run\n"
    assert (tmp_path / "calls").read_text() == expected


@pytest.mark.slow
def test_the_array_job_and_its_merge_give_the_results_of_one_process(run, shell, tmp_path):
    submitted = shell("bash", SLURM / "submit.sh", ARRAY="0-1", OUT="run")
    assert submitted.returncode == 0, submitted.stderr
    tasks = ["task 0 status 0", "task 1 status 0"]
    merged = ["job 2 dependency wrap", "task - status 0"]
    assert jobs(tmp_path) == ["job 1 array parsable", *tasks, *merged], submitted.stderr
    alone = run(
        "evaluate", MODEL, "--images", tmp_path / "photos", "--n", 20, *OPTIONS.split(),
        "--out", tmp_path / "alone",
    )  # fmt: skip
    assert alone.status == 0, alone.err
    assert results(tmp_path / "run") == results(tmp_path / "alone")


@pytest.mark.slow
def test_after_a_task_that_failed_nothing_is_merged_and_the_task_can_run_again(shell, tmp_path):
    submitted = shell("bash", SLURM / "submit.sh", ARRAY="1-2", OUT="run", MODELS="no_such_model")
    assert submitted.returncode == 0
    failed = ["task 1 status 2", "failed 1", "task 2 status 2", "failed 1"]
    assert jobs(tmp_path) == ["job 1 array parsable", *failed, "job 2 dependency wrap"]
    again = shell("sbatch", "--array=2", SLURM / "evaluate.sbatch", OUT="run", SHARDS="2")
    assert jobs(tmp_path)[-2:] == ["job 3 array", "task 2 status 0"], again.stderr
    assert "Shard 2/2 is finished" in again.stderr
    assert not (tmp_path / "run" / "results.json").exists()
