"""results.json is the same for every run of an evaluation, apart from its block `run`."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest
import torch

import eyechart as ec
from eyechart.pipeline.scoring import score
from places import SUPPORT
from small_models import save_images

MODEL = "small_models:slow_colors"
SETTINGS = {
    "n": 30, "corruptions": ["gaussian_noise", "brightness"], "stimulus": "native", "bins": 6,
    "min_per_bin": 3, "n_bootstrap": 20, "batch_size": 4,
}  # fmt: skip
WORDS = (
    "--n", "30", "--corruption", "gaussian_noise", "--corruption", "brightness", "--bins", "6",
    "--stimulus", "native", "--min-per-bin", "3", "--n-bootstrap", "20", "--batch-size", "4",
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_images(tmp_path_factory.mktemp("images") / "photos", each=2)


@pytest.fixture(scope="module")
def undisturbed(folder, tmp_path_factory):
    out = tmp_path_factory.mktemp("undisturbed") / "out"
    ec.evaluate(MODEL, folder, out=out, **SETTINGS).save(out)
    return out


def without_run(out):
    """The text of results.json without the block that may differ."""
    content = json.loads((out / "results.json").read_text("utf-8"))
    del content["run"]
    return json.dumps(content, indent=1)


def run_block(out):
    return json.loads((out / "results.json").read_text("utf-8"))["run"]


def started(words, **variables):
    path = os.pathsep.join([str(SUPPORT), *sys.path])
    return subprocess.Popen(
        [sys.executable, "-m", "eyechart", "evaluate", MODEL, *map(str, words)],
        env={**os.environ, "PYTHONPATH": path, **variables},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


@contextmanager
def threads(count):
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    yield
    torch.set_num_threads(before)


def test_another_place_time_and_number_of_threads_and_a_kill_change_the_run_alone(
    undisturbed, folder, tmp_path
):
    images, out = tmp_path / "elsewhere" / "photos", tmp_path / "other" / "out"
    shutil.copytree(folder, images)
    process = started(("--images", images, "--out", out, *WORDS), SLOW="0.05")
    while not list(out.glob("predictions/vcr-*")):
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert not (out / "results.json").exists()
    with threads(torch.get_num_threads() + 1):
        ec.evaluate(MODEL, images, out=out, **SETTINGS).save(out)
    assert without_run(out) == without_run(undisturbed)
    before, after = run_block(undisturbed), run_block(out)
    assert after["made"] > before["made"]
    assert after["images"] == str(images) != before["images"] == str(folder)
    assert (before["n_sessions"], after["n_sessions"]) == (1, 2)


def test_no_date_and_no_path_stands_outside_the_run(undisturbed, folder):
    text = without_run(undisturbed)
    today = datetime.now(UTC)
    for word in (str(undisturbed), str(folder), str(folder.parent), today.strftime("%Y-%m-%d")):
        assert word not in text


@pytest.mark.parametrize("slip", ["date", "path"])
def test_what_slips_in_elsewhere_is_noticed(undisturbed, folder, tmp_path, monkeypatch, slip):
    """The comparison above can fail."""
    word = datetime.now(UTC).isoformat() if slip == "date" else str(tmp_path / "out")
    caveats = score.caveats_of
    monkeypatch.setattr(score, "caveats_of", lambda *given: [*caveats(*given), word])
    ec.evaluate(MODEL, folder, out=tmp_path / "out", **SETTINGS).save(tmp_path / "out")
    assert without_run(tmp_path / "out") != without_run(undisturbed)


def test_stages_add_up_to_the_wall_time(folder, tmp_path):
    start = time.monotonic()
    results = ec.evaluate(MODEL, folder, out=tmp_path / "out", watts=100, **SETTINGS)
    seconds = time.monotonic() - start
    run = results.run
    assert list(run.seconds) == [
        "loading", "self-test", "plan", "sampling", "predictions", "scoring", "examples",
    ]  # fmt: skip
    assert all(value >= 0 for value in run.seconds.values())
    assert 0.5 * seconds < sum(run.seconds.values()) <= seconds
    stated = run.energy.sources["stated"]
    assert stated.kwh == pytest.approx(100 * stated.seconds / 3.6e6, rel=0.01)
    assert sum(run.seconds.values()) <= stated.seconds and stated.seconds <= seconds
    assert run.energy.co2e_g == pytest.approx(run.energy.kwh * 458)
    assert run.unmeasured == ()


@pytest.mark.parametrize(
    ("name", "value"), [("watts", -1), ("watts", "much"), ("carbon_intensity", float("nan"))]
)
def test_invalid_power_and_intensity_are_rejected(folder, name, value):
    with pytest.raises(ec.UsageError, match=name):
        ec.evaluate(MODEL, folder, **SETTINGS, **{name: value})
