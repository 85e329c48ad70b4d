"""The Ray engine: how many actors there are, jobs, lost nodes, and what users read without Ray."""

import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

import eyechart as ec
from chaos import children_of, command, comparable
from eyechart.core.storage.parts import PER_WRITER
from eyechart.predictions.compute_settings import RAY
from eyechart.predictions.ray_actors import _Actors, _choose_actors, answers
from places import SUPPORT
from small_models import save_images

RAY_COMMAND = Path(sys.executable).parent / "ray"

QUICK = {"n": 12, "corruptions": ["frost"], "stimulus": "native", "bins": 3, "min_per_bin": 2,
         "n_bootstrap": 5, "humans": None, "engine": RAY}  # fmt: skip


def test_there_is_an_actor_per_gpu_or_for_the_cores_that_one_process_uses():
    assert _choose_actors({"GPU": 4.0, "CPU": 64.0}, "cuda", None, 8) == _Actors(4, 1, 1, 1)
    assert _choose_actors({"GPU": 4.0, "CPU": 64.0}, "cuda", 3, 8) == _Actors(3, 1, 1, 1)
    assert _choose_actors({"CPU": 5.0}, "cpu", None, 2) == _Actors(2, 2, 0, 2)
    assert _choose_actors({"CPU": 5.0}, "cpu", None, 1) == _Actors(5, 1, 0, 1)
    assert _choose_actors({"CPU": 1.0}, "cpu", None, 2) == _Actors(1, 1, 0, 2)
    assert _choose_actors({"CPU": 2.0}, "cpu", 2, 2) == _Actors(2, 1, 0, 2)
    # more actors than cores share them, since Ray would never start actors beyond the last core
    assert _choose_actors({"CPU": 2.0}, "cpu", 3, 2) == _Actors(3, 0.666, 0, 2)
    with pytest.raises(ec.UsageError, match=r"a GPU for each of 1 workers, has 0: .*--device cpu"):
        _choose_actors({"CPU": 2.0}, "cuda", None, 2)


@pytest.mark.skipif(find_spec("ray") is not None, reason="ray is installed")
def test_without_ray_the_command_to_install_it_is_given(tmp_path):
    images = save_images(tmp_path / "images", each=2)
    with pytest.raises(
        ec.UsageError, match=r'run  pip install -e "\.\[ray\]"  in a clone of eyechart first'
    ):
        ec.evaluate("small_models:four_classes", images, **QUICK)


@pytest.mark.slow
def test_a_cluster_that_is_missing_is_named(tmp_path):
    pytest.importorskip("ray")
    images = save_images(tmp_path / "images", each=2)
    with pytest.raises(ec.UsageError, match=r"Cannot connect to the Ray .* 'auto'.*--addr"):
        ec.evaluate("small_models:four_classes", images, address="auto", **QUICK)


@pytest.fixture
def env():
    path = os.pathsep.join([str(SUPPORT), os.environ.get("PYTHONPATH", "")])
    # newer versions of Ray reject nodes and drivers without the token of the cluster
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    return {**os.environ, "PYTHONPATH": path, **token}


@pytest.fixture
def start_node(env, tmp_path):
    """Start a node of a cluster with options of `ray start`; all of them end with the test."""
    nodes = []

    def start(*options):
        log = tmp_path / f"node-{len(nodes)}.txt"
        # with --block, the node ends with this process; `ray stop` would end every cluster here
        arguments = [RAY_COMMAND, "start", "--block", *options]
        # actors have the environment of their node; each batch takes this long
        slow = {**env, "SLOW": "0.5"}
        with log.open("wb") as file:
            nodes.append(subprocess.Popen(arguments, env=slow, stdout=file, stderr=file))
        end = time.monotonic() + 300
        while "Ray runtime started" not in log.read_text(encoding="utf-8", errors="replace"):
            assert time.monotonic() < end and nodes[-1].poll() is None, log.read_text()
            time.sleep(0.2)
        return nodes[-1]

    yield start
    for node in reversed(nodes):
        node.terminate()
        node.wait(60)


def options_of(images):
    return [
        "small_models:slow_colors", "--images", str(images), "--stimulus", "native", "--suite",
        "imagenet-c", "--corruption", "fog", "--corruption", "contrast", "--corruption", "frost",
        "--humans", "none", "--batch-size", "4", "--bins", "3", "--min-per-bin", "2",
        "--n-bootstrap", "5",
    ]  # fmt: skip


def run(arguments, env, cwd):
    done = subprocess.run(arguments, env=env, cwd=cwd, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr


def _output_of(arguments, env, cwd):
    done = subprocess.run(arguments, env=env, cwd=cwd, capture_output=True, text=True, timeout=500)
    return done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_submitted_job_has_the_results_of_one_process(start_node, env, tmp_path):
    pytest.importorskip("ray")
    pytest.importorskip("aiohttp_cors", reason="jobs need ray[default]")
    options = options_of(save_images(tmp_path / "images", each=2))
    run(command(*options, "--out", "usual"), env, tmp_path)
    start_node("--head", "--num-cpus", "2", "--port", "6399", "--dashboard-port", "8399")
    wait_for("http://127.0.0.1:8399/api/version")
    submit = [RAY_COMMAND, "job", "submit", "--address", "http://127.0.0.1:8399", "--"]
    job = command(*options, "--engine", "ray", "--out", str(tmp_path / "job"))
    # a node answers before its agent, which starts jobs, and says that one should try again
    deadline = time.monotonic() + 120
    while "No available agent" in (said := _output_of([*submit, *job], env, tmp_path)):
        assert time.monotonic() < deadline, said
        time.sleep(1)
    assert comparable(tmp_path / "job") == comparable(tmp_path / "usual")


def driven(options, address, out, env, cwd):
    """Start a run with an actor on each of two nodes; return once both have written something."""
    driver = subprocess.Popen(
        command(*options, "--engine", "ray", "--address", address, "--workers", "2",
                "--out", str(out)),
        env=env, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    # there is an actor on each node; part files show which actor wrote them
    while len(writers(out)) < 2:
        assert driver.poll() is None, driver.communicate()[0]
        time.sleep(0.05)
    return driver


def kill(node):
    for process in (*children_of(node.pid), node.pid):
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_run_whose_cluster_is_lost_ends_with_a_sentence_and_is_resumed(start_node, env, tmp_path):
    pytest.importorskip("ray")
    options = options_of(save_images(tmp_path / "images", each=2))
    run(command(*options, "--out", "usual"), env, tmp_path)
    head = start_node("--head", "--num-cpus", "1", "--port", "6396", "--include-dashboard", "false")
    address = "127.0.0.1:6396"
    other = start_node("--address", address, "--num-cpus", "1")
    out = tmp_path / "run"
    driver = driven(options, address, out, env, tmp_path)
    for node in (head, other):
        kill(node)
    output = driver.communicate(timeout=400)[0]
    assert driver.returncode == 2, output
    sentence = output.strip().splitlines()[-1]
    assert ":6396 was lost; finished work is kept: start the cluster again" in sentence
    assert sentence.endswith("run the same command to resume.")
    run(command(*options, "--out", str(out)), env, tmp_path)
    assert comparable(out) == comparable(tmp_path / "usual")


def test_a_head_node_is_lost_when_nothing_accepts_connections():
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        assert answers(address, 0)
    assert not answers(address, 0)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_run_continues_when_a_node_is_lost(start_node, env, tmp_path):
    pytest.importorskip("ray")
    options = options_of(save_images(tmp_path / "images", each=2))
    run(command(*options, "--out", "usual"), env, tmp_path)
    start_node("--head", "--num-cpus", "1", "--port", "6398", "--include-dashboard", "false")
    address = "127.0.0.1:6398"
    lost = start_node("--address", address, "--num-cpus", "1")
    out = tmp_path / "run"
    driver = driven(options, address, out, env, tmp_path)
    kill(lost)
    killed = time.monotonic()
    output = driver.communicate(timeout=400)[0]
    print(f"finished {time.monotonic() - killed:.0f} s after the node was lost")
    assert driver.returncode == 0, output
    assert "of Ray was lost" in output and "another one continues its work" in output
    assert comparable(out) == comparable(tmp_path / "usual")


def writers(out):
    """The numbers of the processes that have written part files."""
    parts = out.glob("predictions/*--*.parquet")
    return {int(part.stem.rpartition("--")[2]) // PER_WRITER for part in parts}


def wait_for(url, seconds=180):
    end = time.monotonic() + seconds
    while True:
        try:
            with urlopen(url, timeout=5):
                return
        except HTTPError:
            # it answers, but only those who have its token
            return
        except OSError:
            assert time.monotonic() < end, f"nothing answers at {url}"
            time.sleep(1)
