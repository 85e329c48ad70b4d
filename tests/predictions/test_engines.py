"""Engines: whoever does the work items, in whatever order and process, gets the same files."""

from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
import torch

import eyechart as ec
from eyechart.core.storage.parts import PartFiles
from eyechart.models.find import load_model
from eyechart.predictions.compute_settings import ENGINES, IN_PROCESS, PROCESSES, ComputeSettings
from eyechart.predictions.engine import part_files, predict
from eyechart.predictions.loop import PredictionTask, predict_items
from eyechart.testsets.plan import Plan
from eyechart.testsets.samples import plan_samples
from eyechart.testsets.stimuli import group_by_size
from other_engines import OTHERS
from small_models import save_images

CPU = torch.device("cpu")
TWO = ComputeSettings(device="cpu,cpu")


@pytest.fixture(scope="module", autouse=True)
def engines():
    """The engines of this file, registered while it runs."""
    for name, engine in OTHERS.items():
        ENGINES.add(name, engine)
    yield
    for name in OTHERS:
        del ENGINES._items[name]


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    """Three corruptions and two models; images come three at a time, so that there are items."""
    images = ec.load_images(save_images(tmp_path_factory.mktemp("images"), each=2), "native")
    plan = Plan("vcr", 12, seed=5, corruptions=("gaussian_noise", "frost", "color_jitter"))
    models = [load_model(f"small_models:{name}", CPU) for name in ("pale_colors", "thousand")]
    return PredictionTask(images, plan, plan_samples(images, plan), models, CPU)


@pytest.fixture(scope="module", autouse=True)
def three_at_a_time(task):
    height, width = task.images.sizes[0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("eyechart.testsets.stimuli.CLEAN_PIXELS", {"cpu": 3 * height * width})
        yield


@pytest.fixture(scope="module")
def usual(task, three_at_a_time, tmp_path_factory):
    """The files of the engine in this process, by name."""
    folder = tmp_path_factory.mktemp("usual")
    predict(task, folder, lambda count, message: None)
    return contents(folder)


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix == ".parquet"}


def appending(tables):
    """Store tables in memory, by name."""
    return lambda name, table: tables[name].append(table)


def test_items_are_all_samples_once_and_those_of_an_image_stay_together(task):
    items = task.items(np.empty(0, dtype=np.int64))
    rows = np.concatenate(items)
    wanted = np.concatenate([samples.row for samples in task.groups])
    assert sorted(rows[rows >= 0]) == sorted(wanted)
    assert sorted(rows[rows < 0]) == list(range(-16, 0))
    image = {int(r): int(i) for s in task.groups for r, i in zip(s.row, s.image, strict=True)}
    images = [{image[row] for row in item.tolist()} for item in items[1:]]
    assert len(images) == len(group_by_size(task.images, range(8), CPU)) == 3
    assert sum(map(len, images)) == len(set.union(*images)) == 8


def test_what_is_done_is_no_item(task):
    done = np.concatenate([samples.row for samples in task.groups[1:]])
    items = task.items(done)
    rows = np.concatenate(items)
    assert sorted(rows[rows >= 0]) == sorted(task.groups[0].row)
    assert task.items(np.concatenate([done, rows])) == []


@pytest.mark.parametrize("name", [*OTHERS, PROCESSES])
def test_every_engine_writes_the_same_bytes(task, usual, tmp_path, name):
    told = []
    predict(task, tmp_path, lambda count, message: told.append(count), replace(TWO, engine=name))
    assert contents(tmp_path) == usual and len(usual) == 5
    assert sum(told) == task.n_samples


@pytest.mark.parametrize("name", OTHERS)
def test_one_engine_goes_on_where_another_stopped(task, usual, tmp_path, name):
    items = task.items(np.empty(0, dtype=np.int64))
    predict_items(task, items[1:3], part_files(task, tmp_path, writer=1).write, lambda *_: None)
    told = []
    predict(task, tmp_path, lambda count, message: told.append(count), ComputeSettings(engine=name))
    assert contents(tmp_path) == usual and sum(told) == task.n_samples


@pytest.mark.parametrize("name", OTHERS)
def test_an_evaluation_by_another_engine_has_the_same_predictions_and_scores(tmp_path, name):
    images = save_images(tmp_path / "images", each=2)
    options = {
        "n": 12, "corruptions": ["frost"], "stimulus": "native", "bins": 3, "min_per_bin": 2,
        "n_bootstrap": 5, "humans": None,
    }  # fmt: skip
    runs = [
        ec.evaluate(
            "small_models:four_classes", images, out=tmp_path / engine, engine=engine, **options
        )
        for engine in (IN_PROCESS, name)
    ]
    assert runs[0].models == runs[1].models
    assert contents(tmp_path / IN_PROCESS / "predictions") == contents(
        tmp_path / name / "predictions"
    )


def test_predictions_in_memory_are_those_on_disk(task, usual, tmp_path):
    (tmp_path / "run").mkdir()
    predict(task, tmp_path / "run", lambda count, message: None)
    tables = defaultdict(list)
    predict_items(task, task.items(np.empty(0, dtype=np.int64)), appending(tables), lambda *_: None)
    assert len(tables) == 5
    for corruption, of_corruption in tables.items():
        rows = [row for table in of_corruption for row in table.to_pylist()]
        kept = PartFiles(tmp_path / "run").read(corruption).to_pylist()
        key = lambda row: (row["row"], row["model"])  # noqa: E731
        assert sorted(map(str, sorted(rows, key=key))) == sorted(map(str, sorted(kept, key=key)))


def test_a_worker_without_items_does_nothing(task):
    tables = defaultdict(list)
    predict_items(task, [], appending(tables), lambda *_: None)
    assert tables == {}


def test_two_writers_never_take_each_others_numbers(task, tmp_path):
    writers = [part_files(task, tmp_path, writer) for writer in range(3)]
    tables = defaultdict(list)
    predict_items(
        task, task.items(np.empty(0, dtype=np.int64))[:1], appending(tables), lambda *_: None
    )
    ((name, (rows,)),) = tables.items()
    for parts in writers:
        parts.write(name, rows)
    assert len(list(tmp_path.glob("*.parquet"))) == 3


def test_an_engine_that_is_not_there_is_rejected_with_those_that_are(task, tmp_path):
    with pytest.raises(ec.UsageError, match=f"Unknown engine 'in-proces'.*'{IN_PROCESS}'"):
        predict(task, tmp_path, lambda count, message: None, ComputeSettings(engine="in-proces"))
    with pytest.raises(ec.UsageError, match=f"Unknown engine 'in-proces'.*'{IN_PROCESS}'"):
        ec.evaluate("small_models:four_classes", engine="in-proces")
