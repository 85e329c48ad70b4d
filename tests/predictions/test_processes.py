"""Several processes: killed workers cost at most a batch, and every failure is one sentence."""

import multiprocessing
import os
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import eyechart as ec
from chaos import assert_gone
from eyechart.core.devices import find_devices, split_devices
from eyechart.models.defenses import apply_defenses
from eyechart.models.find import load_model
from eyechart.models.model import ModelOrigin
from eyechart.pipeline.evaluation_run import EvaluationRun
from eyechart.pipeline.settings import EvaluateSettings
from eyechart.predictions.compute_settings import IN_PROCESS, PROCESSES, ComputeSettings
from eyechart.predictions.engine import predict
from eyechart.predictions.loop import PredictionTask
from eyechart.predictions.supervision import send_task, split_items
from eyechart.testsets.plan import Plan
from eyechart.testsets.samples import plan_samples
from small_models import colors, save_images

CPU = torch.device("cpu")
TWO = ComputeSettings(device="cpu,cpu")
NOTHING = np.empty(0, dtype=np.int64)


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    """40 batches of up to 8 samples of 10 corruptions, in one block of images."""
    images = ec.load_images(save_images(tmp_path_factory.mktemp("images"), each=2), "native")
    names = ("gaussian_noise", "shot_noise", "frost", "brightness", "contrast")
    plan = Plan("imagenet-c", 1, corruptions=names)
    model = load_model("small_models:colors")
    return PredictionTask(images, plan, plan_samples(images, plan), [model], CPU, batch_size=5)


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix == ".parquet"}


def logged(path: Path) -> Counter:
    """How often each batch was computed in another process."""
    lines = [line.split() for line in path.read_text(encoding="utf-8").splitlines()]
    return Counter(batch for process, batch in lines if int(process) != os.getpid())


class Reports:
    """Keeps what a run reports."""

    def __init__(self):
        self.n_samples, self.notes = 0, []

    def __call__(self, n_samples, message):
        self.n_samples += n_samples
        self.notes += [message] if message else []


def test_killed_workers_are_replaced_and_compute_at_most_one_batch_twice(
    task, tmp_path, monkeypatch
):
    mortal = replace(task, models=[load_model("small_models:mortal_colors")])
    (tmp_path / "usual").mkdir()
    predict(mortal, tmp_path / "usual", lambda *_: None)
    log = tmp_path / "log.txt"
    monkeypatch.setenv("LOGGED", str(log))
    monkeypatch.setenv("DEATHS", "4 12")
    reports = Reports()
    predict(mortal, tmp_path / "killed", reports, TWO)
    assert reports.n_samples == task.n_samples
    assert sum("was killed by signal 9" in note for note in reports.notes) == 2
    assert contents(tmp_path / "killed") == contents(tmp_path / "usual")
    counts = logged(log)
    assert len(counts) > 30 and sum(counts.values()) - len(counts) == 2
    assert multiprocessing.active_children() == []


def test_workers_have_as_many_threads_as_one_process(task, tmp_path):
    threaded = replace(task, models=[load_model("small_models:threaded_colors")])
    (tmp_path / "usual").mkdir()
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        predict(threaded, tmp_path / "usual", lambda *_: None)
        predict(threaded, tmp_path / "split", lambda *_: None, TWO)
    finally:
        torch.set_num_threads(before)
    assert contents(tmp_path / "split") == contents(tmp_path / "usual")


def test_workers_that_die_on_the_same_samples_end_the_run_with_a_sentence(task, tmp_path):
    deadly = replace(task, models=[load_model("small_models:deadly_colors")])
    with pytest.raises(ec.UsageError, match=r"2 workers died on the same samples .*signal 9.*kept"):
        predict(deadly, tmp_path, lambda *_: None, ComputeSettings(engine=PROCESSES, workers=1))
    assert multiprocessing.active_children() == []


def test_a_worker_that_ran_out_of_memory_keeps_its_smaller_batches(task, tmp_path):
    small = replace(task, models=[load_model("small_models:at_most_two")], batch_size=8)
    reports = Reports()
    predict(small, tmp_path, reports, ComputeSettings(engine=PROCESSES, workers=1))
    halved = [note for note in reports.notes if note.startswith("Out of memory")]
    # the batch of 8 images is halved until it fits, in the first of several items
    assert halved == [f"Out of memory: continuing with batches of {n}." for n in (4, 2)]
    assert len(split_items(small, small.items(NOTHING), 3)) > 2


DYING_DRIVER = """
import multiprocessing, os, pickle, signal, time
from eyechart.predictions.worker_process import run_worker

class Slow:
    def __reduce__(self):
        return time.sleep, (60,)

if __name__ == "__main__":
    worker = multiprocessing.get_context("spawn").Process(
        target=run_worker, args=(None, pickle.dumps(Slow()))
    )
    worker.start()
    print(worker.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")
def test_a_worker_that_starts_ends_with_its_driver(tmp_path):
    (tmp_path / "driver.py").write_text(DYING_DRIVER, encoding="utf-8")
    command = [sys.executable, str(tmp_path / "driver.py")]
    # its worker would keep a pipe for standard error open
    with (
        (tmp_path / "log").open("w") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as driver,
    ):
        worker = int(driver.stdout.readline())
    assert driver.returncode == -signal.SIGKILL
    assert_gone([worker])


def test_an_error_in_a_worker_is_the_error_of_the_run(task, tmp_path):
    broken = replace(task, models=[load_model("small_models:only_nan")])
    with pytest.raises(ec.UsageError, match="must return finite class scores"):
        predict(broken, tmp_path, lambda *_: None, ComputeSettings(engine=PROCESSES))


def test_a_model_that_cannot_be_sent_is_rejected_before_anything_is_started(task, tmp_path):
    local = load_model(lambda images: colors(images))
    with pytest.raises(ec.UsageError, match=r"cannot be sent to another .*module:attribute"):
        predict(replace(task, models=[local]), tmp_path, lambda *_: None, TWO)


def test_sent_models_have_the_same_scores(task):
    named = load_model("small_models:thousand")
    named.origin = ModelOrigin(load_thousand, named.identity)
    copied = load_model(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4800, 3)))
    models = [named, copied, apply_defenses(named, ["clahe"])]
    images = task.images.batch([0, 3])
    expected = [model(images) for model in models]
    sent = send_task(replace(task, models=models))
    # the network of a model with an origin is loaded, not sent: 48,000 float32 numbers
    assert len(sent.models[0]) < 10_000 < len(sent.models[1])
    received = sent.receive(CPU)
    assert [model.name for model in received.models] == [model.name for model in models]
    for model, scores in zip(received.models, expected, strict=True):
        assert torch.equal(model(images), scores)
    assert len(received.images.kept) == 0


def load_thousand(device):
    return load_model("small_models:thousand", device)


def test_a_model_whose_file_has_changed_is_rejected(task):
    model = load_model("small_models:thousand")
    model.origin = ModelOrigin(load_thousand, "another")
    sent = send_task(replace(task, models=[model]))
    with pytest.raises(ec.UsageError, match="has other weights in this process"):
        sent.receive(CPU)


def test_few_items_are_split_by_corruption(task):
    items = task.items(NOTHING)
    parts = split_items(task, items, 6)
    assert len(items) == 2 and len(parts) >= 6
    rows = np.concatenate(parts)
    assert sorted(rows) == sorted(np.concatenate(items))
    groups = task.samples(parts)
    assert sum(map(len, groups)) == len(task.groups)
    assert split_items(task, items, 1) == items


def test_resumed_items_have_the_blocks_of_the_first_run(task):
    height, width = task.images.sizes[0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("eyechart.testsets.stimuli.CLEAN_PIXELS", {"cpu": 3 * height * width})
        items = task.items(NOTHING)
        # all samples of the first image are done: without it, the second block would begin earlier
        done = np.concatenate([samples.row[samples.image == 0] for samples in task.groups])
        left = task.items(done)
    assert len(items) == len(left) == 4
    for before, after in zip(items[1:], left[1:], strict=True):
        assert sorted(after) == sorted(np.setdiff1d(before, done))


def test_lists_of_devices():
    assert split_devices("cpu,cpu") == ("cpu", "cpu") and split_devices("auto") == ("auto",)
    assert find_devices("cpu, cpu") == (CPU, CPU)
    if not torch.cuda.is_available():
        with pytest.raises(ec.UsageError, match=r"'cuda:0' is not available \(0 CUDA devices"):
            find_devices("cuda:all")
        with pytest.raises(ec.UsageError, match="'cuda:1' is not available"):
            find_devices("cuda:0,cuda:1")
    with pytest.raises(ec.UsageError, match="Device 'mps' is not supported"):
        find_devices("cpu,mps")
    with pytest.raises(ec.UsageError, match="Unknown device ''"):
        find_devices("cpu,")


def test_a_run_names_all_its_devices(task, tmp_path):
    # a CPU with a number is the same device under another name
    for device, titles in {
        "cpu": ("cpu",),
        "cpu,cpu": ("cpu",),
        "cpu,cpu:0": ("cpu", "cpu:0"),
    }.items():
        run = EvaluationRun(EvaluateSettings(device=device), task, tmp_path)
        assert run.device_titles == titles


def test_several_devices_select_the_engine():
    assert EvaluateSettings(device="cpu,cpu").engine_name == PROCESSES
    assert EvaluateSettings().engine_name == IN_PROCESS
    assert EvaluateSettings(device="cpu,cpu").devices == ("cpu", "cpu")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"engine": IN_PROCESS, "device": "cpu,cpu"}, "has one worker, got 2"),
        ({"workers": 3}, "has one worker, got 3: use --engine processes or ray"),
        ({"workers": 0}, "workers must be"),
        ({"device": "cpu,cpu", "workers": 3}, "2 devices and 3 workers: omit --workers"),
        ({"engine": "ray", "device": "cpu,cpu"}, "selects devices itself"),
        ({"address": "auto"}, "address is for --engine ray, got --engine in-process"),
    ],
)
def test_options_that_contradict_each_other_are_rejected(options, sentence):
    with pytest.raises(ec.UsageError, match=sentence):
        ec.evaluate("small_models:four_classes", **options)
