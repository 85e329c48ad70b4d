"""The Ray engine: how many actors there are, and what users read if there is no cluster."""

import os
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from urllib.request import urlopen

import pytest

import eyechart as ec
from chaos import command, comparable
from eyechart.predictions.engines import RAY
from eyechart.predictions.ray_actors import _Actors, _choose_actors
from places import SUPPORT
from small_models import save_images

QUICK = {"n": 12, "corruptions": ["frost"], "stimulus": "native", "bins": 3, "min_per_bin": 2,
         "n_bootstrap": 5, "humans": None, "engine": RAY}  # fmt: skip


def test_there_is_an_actor_per_gpu_or_per_two_cores():
    assert _choose_actors({"GPU": 4.0, "CPU": 64.0}, "cuda", None) == _Actors(4, 1, 1)
    assert _choose_actors({"GPU": 4.0, "CPU": 64.0}, "cuda", 3) == _Actors(3, 1, 1)
    assert _choose_actors({"CPU": 5.0}, "cpu", None) == _Actors(2, 2, 0)
    assert _choose_actors({"CPU": 1.0}, "cpu", None) == _Actors(1, 1, 0)
    assert _choose_actors({"CPU": 2.0}, "cpu", 2) == _Actors(2, 1, 0)
    # more actors than cores share them, since Ray would never start actors beyond the last core
    assert _choose_actors({"CPU": 2.0}, "cpu", 3) == _Actors(3, 0.666, 0)
    with pytest.raises(ec.UsageError, match=r"a GPU for each of 1 workers, has 0: .*--device cpu"):
        _choose_actors({"CPU": 2.0}, "cuda", None)


@pytest.mark.skipif(find_spec("ray") is not None, reason="ray is installed")
def test_without_ray_the_command_to_install_it_is_given(tmp_path):
    images = save_images(tmp_path / "images", each=2)
    with pytest.raises(ec.UsageError, match=r'run  pip install "eyechart\[ray\]"  first'):
        ec.evaluate("small_models:four_classes", images, **QUICK)


@pytest.mark.slow
def test_a_cluster_that_is_missing_is_named(tmp_path):
    pytest.importorskip("ray")
    images = save_images(tmp_path / "images", each=2)
    with pytest.raises(ec.UsageError, match=r"Cannot connect to the Ray .* 'auto'.*--addr"):
        ec.evaluate("small_models:four_classes", images, address="auto", **QUICK)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_submitted_job_has_the_results_of_one_process(tmp_path):
    pytest.importorskip("ray")
    pytest.importorskip("aiohttp_cors", reason="jobs need ray[default]")
    images = save_images(tmp_path / "images", each=2)
    options = [
        "small_models:four_classes", "--images", str(images), "--n", "12", "--corruption", "frost",
        "--stimulus", "native", "--bins", "3", "--min-per-bin", "2", "--n-bootstrap", "5",
        "--humans", "none",
    ]  # fmt: skip
    env = {**os.environ, "PYTHONPATH": f"{SUPPORT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    bin_folder = Path(sys.executable).parent

    def run(*arguments):
        done = subprocess.run(arguments, env=env, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr

    run(*command(*options, "--out", "usual"))
    # with --block, the cluster ends with this process; `ray stop` would end every cluster here
    head = subprocess.Popen(
        [bin_folder / "ray", "start", "--head", "--block", "--num-cpus", "2", "--port", "6399",
         "--dashboard-port", "8399"],
        env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        wait_for("http://127.0.0.1:8399/api/version")
        run(
            *(bin_folder / "ray", "job", "submit", "--address", "http://127.0.0.1:8399", "--"),
            *command(*options, "--engine", "ray", "--out", str(tmp_path / "job")),
        )
    finally:
        head.terminate()
        head.wait(60)
    assert comparable(tmp_path / "job") == comparable(tmp_path / "usual")


def wait_for(url, seconds=180):
    end = time.monotonic() + seconds
    while True:
        try:
            with urlopen(url, timeout=5):
                return
        except OSError:
            assert time.monotonic() < end, f"nothing answers at {url}"
            time.sleep(1)
