"""The one loop: what is recorded, that it is the same however it is run, and what stops it."""

import os
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch

import eyechart as ec
import small_models
from eyechart.core.storage.parts import PartFiles, read_parquet, write_parquet
from eyechart.images.identity import content_keys
from eyechart.images.labels.imagenet import CATEGORIES, members
from eyechart.models.find import load_model
from eyechart.models.model import Model
from eyechart.pipeline.prepare import open_run
from eyechart.predictions.batches import (
    BLANK,
    BLANK_ROWS,
    RECORD_SCHEMA,
    blank_images,
    predictions_table,
    record_scores,
)
from eyechart.predictions.engine import predict
from eyechart.predictions.loop import PredictionTask, predict_items
from eyechart.predictions.reading import PredictionReader, categories_of
from eyechart.predictions.recheck import check
from eyechart.testsets.manifest_rows import SCHEMA as ROWS
from eyechart.testsets.plan import Plan
from eyechart.testsets.samples import plan_samples
from places import SUPPORT
from small_models import save_images

CPU = torch.device("cpu")
CHOSEN = ("gaussian_noise", "frost", "color_jitter")


def silent(count, message):
    pass


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    return ec.load_images(save_images(tmp_path_factory.mktemp("images"), each=2), "native")


def job(images, *models, batch=None, n=12, corruptions=CHOSEN, suite="vcr"):
    plan = Plan(suite, n, seed=5, corruptions=corruptions)
    loaded = [each if isinstance(each, Model) else load_model(each, CPU) for each in models]
    return PredictionTask(images, plan, plan_samples(images, plan), loaded, CPU, batch)


def predictions(folder):
    """Every recorded row of the test set, by its number and the model."""
    found = {}
    for name in PartFiles(folder).names():
        if name != BLANK:
            for row in PartFiles(folder).read(name).to_pylist():
                key = row["row"], row["model"]
                assert key not in found, "a row is there twice"
                found[key] = row
    return found


def run(folder, *arguments, **options):
    folder.mkdir(exist_ok=True)
    predict(job(*arguments, **options), folder, silent)
    return predictions(folder)


def same(one, two):
    """Whether two runs recorded the same; Δv and margins to within what is promised."""
    assert one.keys() == two.keys()
    for key, row in one.items():
        other = two[key]
        for name, value in row.items():
            if value is None:
                assert other[name] is None
            elif name == "delta_v":
                assert value == pytest.approx(other[name], abs=1e-5)
            elif name in ("margin", "confidence") or name.startswith("category_"):
                assert value == pytest.approx(other[name], abs=1e-3, rel=1e-3)
            else:
                assert value == other[name], (key, name)


@pytest.fixture(scope="module")
def recorded(images, tmp_path_factory):
    """The answers of two models, in one pass."""
    folder = tmp_path_factory.mktemp("recorded")
    models = small_models.pale_colors, small_models.thousand
    return run(folder, images, *models), folder


# What is recorded


def test_rows_are_what_a_plain_loop_over_corrupt_and_the_model_gives(images, recorded):
    """Also: the change and the answer are taken from the same pixels."""
    rows, _ = recorded
    places = {digest: place for place, digest in enumerate(images.digests)}
    networks = {"Colors": small_models.pale_colors, "Blocks": small_models.thousand}
    assert Counter(row["corruption"] for row in rows.values()) == {
        "clean": 16, "vcr/gaussian_noise": 24, "vcr/frost": 24, "vcr/color_jitter": 24
    }  # fmt: skip
    assert {row["model"] for row in rows.values()} == set(networks)
    for row in rows.values():
        clean = images.batch([places[row["digest"]]])
        made, change = clean, 0.0
        if row["corruption"] != "clean":
            made = ec.corrupt(
                clean, row["corruption"], keys=[row["digest"]], draw=row["draw"], seed=5,
                **dict(row["parameters"]),
            )  # fmt: skip
            change = float(ec.delta_v(clean, made)[0])
        assert row["delta_v"] == pytest.approx(change, abs=1e-9)
        assert row["pixels"] == int(content_keys(made)[0]) % 2**64
        scores = networks[row["model"]](made.float() / 255)[0].double()
        likelihood = torch.softmax(scores, dim=0)
        order = likelihood.sort(descending=True)
        assert row["prediction"] == int(order.indices[0])
        margin = float(torch.log(order.values[0] / order.values[1]))
        assert row["margin"] == pytest.approx(margin, abs=1e-3)
        if row["model"] == "Colors":
            assert row["category_max"] is None and row["category_sum"] is None
        else:
            own = [likelihood[list(members(name))] for name in CATEGORIES]
            best, total = ([float(f(each).log()) for each in own] for f in (torch.max, torch.sum))
            assert row["category_max"] == pytest.approx(best, abs=1e-3)
            assert row["category_sum"] == pytest.approx(total, abs=1e-3)


def test_the_columns_are_those_that_are_declared(recorded):
    _, folder = recorded
    for path in folder.glob("*.parquet"):
        assert read_parquet(path).schema.equals(RECORD_SCHEMA)


def test_models_in_one_pass_predict_as_each_alone(images, recorded, tmp_path):
    together, _ = recorded
    for network, name in (
        (small_models.pale_colors, "Colors"),
        (small_models.thousand, "Blocks"),
    ):
        alone = run(tmp_path / name, images, network)
        same(alone, {key: row for key, row in together.items() if key[1] == name})


@pytest.mark.parametrize("batch", [1, 5, 200])
def test_batches_and_threads_change_nothing(images, recorded, tmp_path, batch):
    before = torch.get_num_threads()
    torch.set_num_threads(2 if batch == 5 else before)
    try:
        models = small_models.pale_colors, small_models.thousand
        found = run(tmp_path / "run", images, *models, batch=batch)
    finally:
        torch.set_num_threads(before)
    same(found, recorded[0])
    kept = ("row", "pixels", "parameters", "draw", "prediction")
    for key, row in found.items():
        assert all(row[name] == recorded[0][key][name] for name in kept)


def test_no_batch_is_larger_than_asked_for_and_all_are_of_nearly_one_size(images, tmp_path):
    sizes = []

    def spy(pixels):
        sizes.append(len(pixels))
        return small_models.colors(pixels)

    run(tmp_path / "run", images, spy, batch=5, corruptions=("gaussian_noise",))
    # pictures of nothing come first; 8 clean and 12 noisy rows then make batches of 4, padded to 5
    assert sizes[1:] == [5] * 5


def test_images_of_several_sizes_are_all_answered(tmp_path):
    for side in (40, 56):
        save_images(tmp_path / "images" / str(side), each=1, side=side)
    images = ec.load_images(tmp_path / "images", "native")
    rows = run(tmp_path / "run", images, small_models.colors, corruptions=("blur",))
    assert len(rows) == 8 + 12
    sides = {row["label"] for row in rows.values()}
    assert sides == {"40", "56"}


def test_moved_images_and_published_levels_are_answered_too(images, tmp_path):
    suite = "imagenet-noc"
    names = [e.name for e in Plan(suite).entries() if e.geometric][:1]
    rows = run(tmp_path / "run", images, small_models.colors, suite=suite, corruptions=names)
    assert Counter(row["corruption"] for row in rows.values())["clean"] == 8
    assert len(rows) > 8


# Pictures of nothing


def test_images_of_nothing_are_even_grays_and_noise():
    images = blank_images(24, 32)
    assert images.shape == (16, 3, 24, 32) and images.dtype == torch.uint8
    flat = images.reshape(16, -1).double()
    assert (flat[:8].std(dim=1) == 0).all() and len(set(flat[:8, 0].tolist())) == 8
    # uniform over 0…255: mean 127.5, standard deviation 73.9
    assert torch.all((flat[8:].mean(dim=1) - 127.5).abs() < 8)
    assert torch.all((flat[8:].std(dim=1) - 73.9).abs() < 4)
    assert torch.equal(blank_images(24, 32), images)


def test_predictions_to_nothing_are_recorded_for_every_model(images, recorded):
    _, folder = recorded
    table = PartFiles(folder).read(BLANK).to_pylist()
    assert Counter(row["model"] for row in table) == {"Colors": 16, "Blocks": 16}
    pixels = blank_images(40, 40).float() / 255
    expected = small_models.thousand(pixels).argmax(dim=1).tolist()
    own = sorted((-row["row"], row["prediction"]) for row in table if row["model"] == "Blocks")
    assert [prediction for _, prediction in own] == expected


# Going on


def test_a_run_that_is_complete_asks_the_model_nothing(images, tmp_path):
    asked = []

    def spy(pixels):
        asked.append(len(pixels))
        return small_models.colors(pixels)

    run(tmp_path / "run", images, spy)
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "run").iterdir()}
    asked.clear()
    run(tmp_path / "run", images, spy)
    assert not asked
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "run").iterdir()} == times


def test_progress_counts_rows_when_they_are_on_disk(images, tmp_path):
    told = []
    own = job(images, small_models.colors, batch=4)

    def step(count, message):
        told.append(count)
        on_disk = sum(number >= 0 for number in PartFiles(tmp_path).done())
        assert sum(told) <= on_disk

    predict(own, tmp_path, step)
    assert sum(told) == 8 + 3 * 12
    told.clear()
    predict(own, tmp_path, lambda count, message: told.append(count))
    assert sum(told) == 8 + 3 * 12


def test_the_first_figures_are_those_of_the_first_clean_batch(images, tmp_path):
    told = []
    own = job(images, small_models.pale_colors, batch=4)
    predict(own, tmp_path, lambda count, message: told.append(message))
    rows = [row for row in predictions(tmp_path).values() if row["corruption"] == "clean"]
    first = [row for row in rows if row["row"] < min(own["row"] for own in rows) + 4]
    assert len(first) == 4
    correct = f"{own.models[0].name} {sum(row['rank'] == 1 for row in first)}"
    assert list(filter(None, told)) == [f"Correct for the first 4 clean images: {correct}."]


def test_an_interrupt_loses_nothing_that_was_computed(images, tmp_path):
    seen = []

    def interrupted(pixels):
        if len(seen) == 6:
            raise KeyboardInterrupt
        seen.append(len(pixels))
        return small_models.colors(pixels)

    own = job(images, interrupted, batch=4)
    with pytest.raises(KeyboardInterrupt):
        predict(own, tmp_path, silent)
    assert len(predictions(tmp_path)) == sum(seen[1:])


KILLED = """
import sys
from pathlib import Path
import torch, eyechart as ec, small_models
from eyechart.models.find import load_model
from eyechart.predictions.engine import predict
from eyechart.predictions.loop import PredictionTask
from eyechart.testsets.plan import Plan
from eyechart.testsets.samples import plan_samples
images = ec.load_images(sys.argv[1], "native")
plan = Plan("vcr", 12, seed=5, corruptions=("gaussian_noise", "frost", "color_jitter"))
model = load_model("small_models:slow_colors", torch.device("cpu"))
job = PredictionTask(images, plan, plan_samples(images, plan), [model], torch.device("cpu"), 4)
print("started", flush=True)
predict(job, Path(sys.argv[2]), lambda count, message: print(count, flush=True))
"""


def test_a_run_that_was_killed_goes_on_and_repeats_nothing(images, tmp_path):
    (tmp_path / "run").mkdir()
    path = os.pathsep.join([str(SUPPORT), os.environ.get("PYTHONPATH", "")])
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, images.source, str(tmp_path / "run")],
        stdout=subprocess.PIPE, text=True, env={**os.environ, "SLOW": "0.15", "PYTHONPATH": path},
    )  # fmt: skip
    assert process.stdout.readline() == "started\n"
    said = 0
    while said < 17:
        said += int(process.stdout.readline())
    process.send_signal(signal.SIGKILL)
    said += sum(map(int, process.communicate()[0].split()))
    before = predictions(tmp_path / "run")
    # what was told is on disk; at most the batch that was being written is there besides
    assert said <= len(before) <= said + 4 < 8 + 3 * 12

    asked = []

    def slow_colors(pixels):
        asked.append(len(pixels))
        return small_models.colors(pixels)

    model = Model("small_models:slow_colors", slow_colors, CPU)
    after = run(tmp_path / "run", images, model, batch=4)
    assert sum(asked) == 8 + 3 * 12 - len(before)
    uninterrupted = Model("small_models:slow_colors", small_models.colors, CPU)
    same(after, run(tmp_path / "whole", images, uninterrupted))
    assert {key: after[key] for key in before} == before


# What can go wrong


class Small:
    """A model for which more than so many pictures are too many."""

    def __init__(self, most, error=torch.OutOfMemoryError):
        self.most, self.error, self.asked = most, error, []

    def __call__(self, images):
        self.asked.append(len(images))
        if len(images) > self.most:
            raise self.error("out of memory, as far as a test is concerned")
        return small_models.colors(images)


@pytest.mark.parametrize("error", [torch.OutOfMemoryError, MemoryError, RuntimeError])
def test_out_of_memory_halves_the_batch_and_all_rows_are_answered(images, tmp_path, error):
    small, said = Small(16, error), []
    own = job(images, Model("Colors", small, CPU), batch=60, n=50)
    predict(own, tmp_path, lambda count, message: said.append(message))
    # the 8 clean images are padded to 32, which are too many; batches of 4 are not, then or later
    assert [each for each in said if each.startswith("Out of memory")] == [
        "Out of memory: continuing with batches of 4.",
    ]
    assert [count for count in small.asked if count > 16] == [32]
    same(predictions(tmp_path), run(tmp_path / "whole", images, small_models.colors, n=50))


@pytest.mark.parametrize("most", [1, 3])
def test_a_model_with_room_for_very_few_images_still_gets_through(images, tmp_path, most):
    own = job(images, Model("Colors", Small(most), CPU), batch=8, corruptions=("blur",))
    predict(own, tmp_path, silent)
    assert len(predictions(tmp_path)) == 8 + 12


def test_a_single_image_is_tried_without_padding_when_memory_runs_out(images, tmp_path):
    small, tables = Small(1), {}
    task = job(images, Model("Colors", small, CPU), batch=60, corruptions=("blur",))
    # one clean image, and no images without content
    single = replace(task, groups=[task.groups[0].select(np.arange(1))])
    predict_items(single, single.items(BLANK_ROWS), tables.__setitem__, silent)
    assert small.asked == [32, 1] and len(tables["clean"]) == 1


def test_an_image_that_is_too_much_alone_is_an_error_in_one_sentence(images, tmp_path):
    own = job(images, Model("Colors", Small(0), CPU), corruptions=("blur",))
    with pytest.raises(ec.UsageError, match="Out of memory"):
        predict(own, tmp_path, silent)


@pytest.mark.parametrize(
    ("model", "word"),
    [
        (small_models.only_nan, "finite class scores"),
        (small_models.nan_on_colors, "finite class scores"),
        (small_models.one_score, r"scores \(B, K\)"),
        (lambda images: small_models.colors(images)[:-1], "one row of scores"),
        (lambda images: small_models.colors(images).numpy(), "tensor of scores"),
        (lambda images: 1 / 0, "division by zero"),
    ],
)
def test_a_model_that_cannot_predict_is_named_in_one_sentence(images, tmp_path, model, word):
    with pytest.raises(ec.UsageError, match=word) as rejected:
        predict(job(images, Model("mine", model, CPU)), tmp_path, silent)
    assert "'mine'" in str(rejected.value)


def test_a_model_that_changes_the_number_of_its_classes_is_rejected(images, tmp_path):
    calls = []

    def growing(pixels):
        calls.append(1)
        scores = small_models.colors(pixels)
        return scores if len(calls) < 3 else torch.cat([scores, scores], dim=1)

    with pytest.raises(ec.UsageError, match="the same in every call, got 8 after 4"):
        predict(job(images, growing), tmp_path, silent)


def test_rows_before_the_nan_are_kept(images, tmp_path):
    calls = []

    def late(pixels):
        calls.append(1)
        scores = small_models.colors(pixels)
        return scores if len(calls) < 5 else scores * torch.nan

    with pytest.raises(ec.UsageError, match="finite class scores"):
        predict(job(images, late, batch=4), tmp_path, silent)
    found = predictions(tmp_path)
    assert len(found) == 3 * 4
    assert all(np.isfinite(row["margin"]) for row in found.values())


# A run's folder


def test_the_same_run_goes_on_and_another_is_rejected(images, tmp_path):
    settings = job(images, small_models.colors).settings()
    folder = open_run(tmp_path / "out", settings)
    assert folder.is_dir() and open_run(tmp_path / "out", settings) == folder
    for other, word in (
        (job(images, small_models.colors, n=13), "n: 12, now 13"),
        (job(images, small_models.pale_colors), "its weights, card or precision"),
        (job(images, small_models.colors, corruptions=("blur",)), "corruptions"),
    ):
        with pytest.raises(ec.UsageError, match=word):
            open_run(tmp_path / "out", other.settings())


@pytest.mark.parametrize("content", ["", "{", "[1]", "null"])
def test_a_record_that_was_damaged_is_one_sentence(images, tmp_path, content):
    (tmp_path / "run.json").write_text(content)
    with pytest.raises(ec.UsageError, match=r"run\.json cannot be read"):
        open_run(tmp_path, job(images, small_models.colors).settings())


def test_folders_of_something_else_are_rejected(images, tmp_path):
    settings = job(images, small_models.colors).settings()
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ec.UsageError, match="it is a file"):
        open_run(tmp_path / "file", settings)
    (tmp_path / "out" / "predictions").mkdir(parents=True)
    (tmp_path / "out" / "predictions" / "mine.txt").write_text("mine")
    with pytest.raises(ec.UsageError, match="not from this run"):
        open_run(tmp_path / "out", settings)


# Making rows again


def tamper(folder, column, change):
    (path,) = folder.glob("vcr-frost.parquet")
    table = read_parquet(path)
    values = [change(value) for value in table[column].to_pylist()]
    place = table.schema.get_field_index(column)
    field = table.schema.field(column)
    write_parquet(table.set_column(place, field, pa.array(values, field.type)), path)


def test_an_honest_run_passes_the_check(images, tmp_path):
    own = job(images, small_models.colors, small_models.thousand)
    predict(own, tmp_path, silent)
    found = check(own, tmp_path, share=1.0)
    assert found.passed and found.n_predictions == 2 * (8 + 3 * 12)
    assert (found.pixels, found.delta_v, found.other) == (0, 0, 0)


def test_a_check_makes_a_share_of_the_rows_again_but_some_of_each_corruption(images, tmp_path):
    own = job(images, small_models.colors, n=60, corruptions=("blur",))
    predict(own, tmp_path, silent)
    assert check(own, tmp_path, share=0.5).n_predictions == 8 + 30
    assert check(own, tmp_path, share=0.01).n_predictions == 8 + 20


@pytest.mark.parametrize(
    ("column", "change", "which"),
    [
        ("prediction", lambda value: (value + 1) % 4, "other"),
        ("pixels", lambda value: value ^ 1, "pixels"),
        ("delta_v", lambda value: value + 2e-5, "delta_v"),
        ("delta_v", lambda value: None, "delta_v"),
    ],
)
def test_what_was_tampered_with_fails_the_check(images, tmp_path, column, change, which):
    own = job(images, small_models.colors)
    predict(own, tmp_path, silent)
    if column == "prediction":
        tamper(tmp_path, "margin", lambda value: 5.0)
    tamper(tmp_path, column, change)
    found = check(own, tmp_path, share=1.0)
    assert not found.passed
    counts = {name: getattr(found, name) for name in ("pixels", "delta_v", "other")}
    if which == "other":
        # where the model itself is undecided, another answer is a close call
        assert counts.pop("other") + found.close_calls == 12 and found.other > 0
    else:
        assert counts.pop(which) == 12
    assert set(counts.values()) == {0}


# From answers to right and wrong


def test_outcomes_are_right_or_wrong_by_hand(images, recorded):
    rows, folder = recorded
    places = {label: place for place, label in enumerate(("blue", "green", "grey", "red"))}
    labels = np.array([places[label] for label in images.labels])
    labels[0] = -1  # as if it had none
    names = [image.name for image in images.listed]
    truths = dict(zip(names, labels.tolist(), strict=True))
    found = PredictionReader(folder, truths).outcomes("Colors", "vcr/color_jitter")
    clean = {r["digest"]: r["prediction"] for r in rows.values() if r["corruption"] == "clean"
             and r["model"] == "Colors"}  # fmt: skip
    own = [r for (_, m), r in sorted(rows.items()) if m == "Colors"
           and r["corruption"] == "vcr/color_jitter"]  # fmt: skip
    assert len(found) == len(own) == 12
    truth = dict(zip(images.digests, labels.tolist(), strict=True))
    for place, row in enumerate(own):
        label, before = truth[row["digest"]], clean[row["digest"]]
        assert found.delta_v[place] == row["delta_v"] and found.label[place] == label
        assert found.consistent[place] == (row["prediction"] == before)
        if label == -1:
            assert np.isnan(found.correct[place]) and np.isnan(found.clean_correct[place])
        else:
            assert found.correct[place] == (row["prediction"] == label)
            assert found.clean_correct[place] == (before == label)
    lost = [r["prediction"] for r in PartFiles(folder).read(BLANK).to_pylist()
            if r["model"] == "Colors"]  # fmt: skip
    known = found.label != -1
    shares = [lost.count(label) / 16 for label in found.label[known]]
    np.testing.assert_allclose(found.blank_correct[known], shares)
    digests = [row["digest"] for row in own]
    np.testing.assert_allclose(
        found.blank_consistent, [lost.count(clean[digest]) / 16 for digest in digests]
    )
    assert len(set(found.image)) == len(set(digests))


@pytest.mark.parametrize("rule", [None, "max"])
@pytest.mark.parametrize("has_clean", [True, False])
def test_samples_without_a_label_can_be_left_out(images, recorded, rule, has_clean):
    _, folder = recorded
    names = [image.name for image in images.listed]
    labels = dict(zip(names, [-1, *(place % 4 for place in range(1, len(names)))], strict=True))
    reader = PredictionReader(folder, labels, rule, has_clean)
    assert reader.has_labels("Blocks")
    assert not PredictionReader(folder, {}, rule).has_labels("Blocks")
    for read in (partial(reader.outcomes, corruption="vcr/frost"), reader.clean):
        found, every = read("Blocks", only_labeled=True), read("Blocks")
        kept = every.select(every.label != -1)
        assert 0 < len(found) < len(every)
        for name, values in vars(kept).items():
            np.testing.assert_array_equal(getattr(found, name), values)


@pytest.mark.parametrize("rule", ["max", "top1"])
def test_shares_of_predictions_to_nothing_are_counted_as_consistency_is(images, recorded, rule):
    """With "top1" an answer without a category is the same as another without one."""
    _, folder = recorded
    found = PredictionReader(folder, {}, rule)
    own = found.outcomes("Blocks", "vcr/frost")
    parts = PartFiles(folder)

    def categories(name):
        table = parts.read(name)
        table = table.filter([model == "Blocks" for model in table["model"].to_pylist()])
        prediction = table["prediction"].to_numpy().astype(np.int64)
        return categories_of(table, prediction, rule), table["digest"].to_pylist()

    clean = dict(zip(*categories("clean")[::-1], strict=True))
    noisy, digests = categories("vcr/frost")
    lost, _ = categories(BLANK)
    before = np.array([clean[digest] for digest in digests])
    np.testing.assert_array_equal(own.consistent, noisy == before)
    expected = [(lost == prediction).mean() for prediction in before]
    np.testing.assert_allclose(own.blank_consistent, expected)


def category_scores(scores, rule):
    """The scores of the categories by a rule, from the probabilities of all classes."""
    likelihood = torch.softmax(scores.double(), dim=1).numpy()
    pool = {"max": np.max, "mean": np.mean, "sum": np.sum}[rule]
    return np.stack([pool(likelihood[:, members(name)], axis=1) for name in CATEGORIES], axis=1)


@pytest.mark.parametrize("rule", ["max", "mean", "sum"])
def test_recorded_categories_are_those_of_the_probabilities(rule):
    scores = torch.randn(300, 1000, generator=torch.Generator().manual_seed(1)) * 4
    rows = pa.table([pa.nulls(300, field.type) for field in ROWS], schema=ROWS)
    table = predictions_table(rows, "mine", record_scores(scores))
    prediction = table["prediction"].to_numpy().astype(np.int64)
    expected = category_scores(scores, rule).argmax(axis=1)
    assert categories_of(table, prediction, rule).tolist() == expected.tolist()


@pytest.mark.parametrize("rule", ["max", "mean", "sum"])
def test_ranks_among_categories_are_those_of_their_scores_by_the_rule(rule):
    scores = torch.randn(300, 1000, generator=torch.Generator().manual_seed(1)) * 4
    rows = pa.table([pa.nulls(300, field.type) for field in ROWS], schema=ROWS)
    table = predictions_table(rows, "mine", record_scores(scores))
    label = np.arange(300) % 17 - 1
    found = PredictionReader(Path(), {}, rule)._rank(table, label)
    each = category_scores(scores, rule)
    expected = [(row >= row[own]).sum() if own >= 0 else np.nan
                for row, own in zip(each, label, strict=True)]  # fmt: skip
    np.testing.assert_array_equal(found, expected)
    is_right = categories_of(table, table["prediction"].to_numpy().astype(np.int64), rule) == label
    np.testing.assert_array_equal(found == 1, is_right)
    assert np.isnan(PredictionReader(Path(), {}, "top1")._rank(table, label)).all()


def test_the_rank_of_the_label_is_recorded_and_null_without_one():
    scores = torch.randn(60, 7, generator=torch.Generator().manual_seed(1))
    labels = torch.arange(60) % 8 - 1
    rows = pa.table([pa.nulls(60, field.type) for field in ROWS], schema=ROWS)
    recorded = predictions_table(rows, "mine", record_scores(scores, labels))["rank"]
    order = scores.argsort(dim=1, descending=True)
    expected = [
        None if own < 0 else row.index(own) + 1
        for row, own in zip(order.tolist(), labels.tolist(), strict=True)
    ]
    assert recorded.to_pylist() == expected
    assert predictions_table(rows, "mine", record_scores(scores))["rank"].null_count == 60


def test_confidence_is_the_probability_of_the_prediction():
    scores = torch.randn(50, 7, generator=torch.Generator().manual_seed(1)) * 3
    rows = pa.table([pa.nulls(50, field.type) for field in ROWS], schema=ROWS)
    recorded = predictions_table(rows, "mine", record_scores(scores))["confidence"].to_numpy()
    expected = torch.softmax(scores.double(), dim=1).max(dim=1).values
    np.testing.assert_allclose(recorded, expected, rtol=1e-5)


def test_probabilities_and_their_logits_are_recorded_alike():
    logits = torch.randn(20, 1000, generator=torch.Generator().manual_seed(2))
    one, two = record_scores(logits).numbers, record_scores(torch.softmax(logits, dim=1)).numbers
    torch.testing.assert_close(one, two, atol=1e-4, rtol=0)


def test_categories_need_a_model_of_1000_classes(images, recorded):
    _, folder = recorded
    with pytest.raises(ec.UsageError, match="1000 classes"):
        PredictionReader(folder, {}, "max").outcomes("Colors", "vcr/frost")
    with pytest.raises(ec.UsageError, match="Unknown rule"):
        PredictionReader(folder, {}, "median").outcomes("Blocks", "vcr/frost")


def test_of_equally_good_predictions_the_first_counts():
    scores = torch.randint(0, 3, (4000, 40), generator=torch.Generator().manual_seed(0)).float()
    found = record_scores(scores).numbers[:, 0].long()
    best = scores.amax(dim=1, keepdim=True)
    first = torch.tensor(
        [row.tolist().index(top.item()) for row, top in zip(scores, best, strict=True)]
    )
    assert torch.equal(found, first)
