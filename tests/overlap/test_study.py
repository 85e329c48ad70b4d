"""`eyechart overlap run`: a small study, whose every number is computed a second time."""

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import redirect_stdout
from dataclasses import replace
from io import StringIO

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
import yaml
from PIL import Image

import eyechart as ec
import textures
from commands import assert_rejected, hear_interrupts
from eyechart.cli.app import main
from eyechart.cli.overlap.run import benchmarks_of, entries_of
from eyechart.core.errors import UsageError
from eyechart.core.progress import NO_PROGRESS
from eyechart.core.storage.locks import try_lock
from eyechart.core.storage.run_folder import read_settings
from eyechart.corruptions.suites.apply import draw_random
from eyechart.corruptions.suites.assets import VARIABLE
from eyechart.corruptions.suites.strength import draw_from_domain
from eyechart.corruptions.suites.suite import find_entry, load_suite
from eyechart.images.identity import named_keys
from eyechart.images.labels.imagenet import wordnet_ids
from eyechart.models.checkpoint import read_checkpoint
from eyechart.models.find import load_model
from eyechart.overlap.overlap_study import OverlapStudy
from eyechart.training.data import TrainingSources, split
from eyechart.training.recipe import Recipe
from interrupting import stopping
from places import SUPPORT
from textures import TINTS, save_textures

CPU = torch.device("cpu")
NAMES = ("contrast", "gaussian_noise", "vcr/gaussian_noise")
FILES = {"vcr/gaussian_noise": "vcr-gaussian_noise"}
SUITE = {
    "name": "mine",
    "title": "A range of severities, published levels, and a domain",
    "source": "made for a test",
    "corruptions": [
        {"same_as": "imagenet-c:contrast", "severity": [2, 4]},
        {"same_as": "imagenet-c:gaussian_noise"},
        {"same_as": "vcr:vcr/gaussian_noise"},
    ],
}
USUAL = ("--arch", "textures:network", "--epochs", 2, "--batch-size", 16, "--stimulus", "native")


def write_suite(path):
    path.write_text(yaml.safe_dump(SUITE))
    return path


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Pictures to train with, others to test with, and a suite."""
    folder = tmp_path_factory.mktemp("overlap")
    save_textures(folder / "train", 20, seed=1)
    save_textures(folder / "test", 14, seed=2)
    write_suite(folder / "mine.yaml")
    return folder


def words_of(home, out, *more, images="test", train="train"):
    given = ("--images", home / images, "--suite", home / "mine.yaml", "--out", out)
    apart = () if train is None else ("--train-images", home / train)
    return [str(word) for word in ("overlap", "run", *given, *apart, *USUAL, *more)]


@pytest.fixture(scope="module")
def study(home):
    """The folder of a study of two seeds that came to its end, and what it said."""
    said = StringIO()
    with pytest.raises(SystemExit) as stop, redirect_stdout(said):
        main(words_of(home, home / "out", "--seeds", 2, "--seed", 5))
    assert stop.value.code == 0
    return home / "out", said.getvalue()


def accuracies(folder):
    """Accuracies by model, seed and test."""
    with (folder / "accuracies.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {
        (row.pop("trained_on"), row.pop("seed", "0")): {k: float(v) for k, v in row.items()}
        for row in rows
    }


def predictions(folder):
    """Every column of every file of answers, by seed, test and model."""
    return {
        (path.parent.name, path.stem, name): column.to_pylist()
        for path in (folder / "tests").glob("*/*.parquet")
        for name, column in zip(
            pq.read_table(path).column_names, pq.read_table(path).columns, strict=True
        )
    }


def checkpoint(folder, name, seed=0):
    return folder / "models" / str(seed) / f"{FILES.get(name, name)}.pt"


def made_at(folder, which="models/*/*.pt"):
    return {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in folder.glob(which)}


def test_images(folder):
    """Test pictures, their classes and digests, read without the study's own code."""
    paths = sorted(folder.glob("*/*.png"))
    levels = np.stack([np.asarray(Image.open(path).convert("RGB")) for path in paths])
    classes = sorted(TINTS)
    labels = torch.tensor([classes.index(path.parent.name) for path in paths])
    whole = ec.load_images(folder, "native")
    named = {image.name: digest for image, digest in zip(whole.listed, whole.digests, strict=True)}
    digests = [named[f"{path.parent.name}/{path.name}"] for path in paths]
    return torch.from_numpy(levels).permute(0, 3, 1, 2).contiguous(), labels, digests


test_images.__test__ = False


def corrupted(clean, name, digests):
    """The pictures of a test, as documented: seed 0, draw 0, strengths by the picture alone."""
    given = {"seed": 0, "draw": 0, "keys": digests}
    if name == "clean":
        return clean
    random = draw_random(
        find_entry(name, None), named_keys(digests, len(digests)), 0, [0] * len(clean), CPU
    )
    if name == "contrast":
        # one of ten that lie evenly between 2 and 4
        severity = 2.1 + 0.2 * np.floor(10 * random.scalar("drawn severity"))
        return ec.corrupt(clean, name, severity=severity, **given)
    if name == "gaussian_noise":
        levels = 1 + np.floor(5 * random.scalar("drawn severity"))
        assert set(levels) <= {1, 2, 3, 4, 5}
        return ec.corrupt(clean, name, severity=levels, **given)
    return ec.corrupt(clean, name, **draw_from_domain(find_entry(name, None), random), **given)


# What comes out


def test_every_accuracy_is_what_the_checkpoints_get_right_when_asked_again(home, study):
    clean, labels, digests = test_images(home / "test")
    found = accuracies(study[0])
    assert set(found) == {(name, seed) for name in ("standard", *NAMES) for seed in ("5", "6")}
    seen = set()
    for (trained_on, seed), own in found.items():
        model = load_model(str(checkpoint(study[0], trained_on, seed)), CPU, trust=True)
        assert model.trained_on == (() if trained_on == "standard" else (trained_on,))
        assert list(own) == ["clean", *NAMES]
        for name, accuracy in own.items():
            hits = model(corrupted(clean, name, digests)).argmax(dim=1) == labels
            assert accuracy == int(hits.sum()) / len(labels), (trained_on, seed, name)
            seen.add(accuracy)
    # not a study in which all is the same
    assert len(seen) > 6


def test_predictions_image_by_image_are_kept(home, study):
    clean, labels, digests = test_images(home / "test")
    found = predictions(study[0])
    assert len(found) == 2 * 4 * 4
    model = load_model(str(checkpoint(study[0], "contrast", 6)), CPU, trust=True)
    order = {image.name: place for place, image in enumerate(ec.load_images(home / "test").listed)}
    places = [
        order[f"{path.parent.name}/{path.name}"] for path in sorted((home / "test").glob("*/*.png"))
    ]
    hits = model(corrupted(clean, "gaussian_noise", digests)).argmax(dim=1) == labels
    kept = found["6", "gaussian_noise", "contrast"]
    assert [kept[place] for place in places] == hits.tolist()


def test_every_network_is_the_one_that_train_network_makes(home, study, run, tmp_path):
    told = run(
        "train", "network", "textures:network", "--train-images", home / "train", *USUAL[2:],
        *("--suite", home / "mine.yaml", "--corruption", "contrast", "--seed", 6),
        *("--out", tmp_path / "net.pt"),
    )  # fmt: skip
    assert told.status == 0, told.err
    one, two = (
        read_checkpoint(path).weights
        for path in (tmp_path / "net.pt", checkpoint(study[0], "contrast", 6))
    )
    assert all(torch.equal(value, two[name]) for name, value in one.items())


def test_seeds_differ_and_no_two_networks_are_the_same(study):
    weights = [
        torch.cat([value.flatten().double() for value in read_checkpoint(path).weights.values()])
        for path in (study[0] / "models").glob("*/*.pt")
    ]
    assert len(weights) == 8
    for place, one in enumerate(weights):
        assert not any(torch.equal(one, two) for two in weights[:place])


def test_the_study_writes_and_shows_its_overlaps(study):
    folder, said = study
    for name in ("overlap.csv", "overlap-intervals.csv", "overlap.png"):
        assert (folder / name).stat().st_size > 50 and name in said
    own = {key: list(value.values()) for key, value in accuracies(folder).items()}
    values = np.array([[own[name, seed] for name in ("standard", *NAMES)] for seed in ("5", "6")])
    robust = (values[..., 1:] / values[..., :1]).mean(axis=0)
    gain = robust[1:] - robust[0]
    with (folder / "overlap.csv").open() as file:
        rows = list(csv.reader(file))
    assert rows[0][1:] == list(NAMES)
    for one in range(3):
        for two in range(3):
            told = rows[1 + one][1 + two]
            if min(gain[one, one], gain[two, two]) <= 0.02:
                assert told == ""
                continue
            expected = (gain[one, two] / gain[two, two] + gain[two, one] / gain[one, one]) / 2
            assert float(told) == pytest.approx(max(0, expected))


def test_the_record_says_all_that_decides(study):
    record = json.loads((study[0] / "run.json").read_text())
    assert record["corruptions"] == list(NAMES) and record["classes"] == sorted(TINTS)
    assert record["seeds"] == [5, 6] and record["network"] == "textures:network"
    assert (record["epochs"], record["batch_size"], record["share"]) == (2, 16, 0.5)


def test_no_unfinished_file_is_left(study):
    left = {
        path.name for path in study[0].rglob("*") if path.is_file() and ".lock" not in path.name
    }
    assert not [name for name in left if name.endswith((".state", ".tmp"))]


# Once more


def test_the_same_command_again_does_nothing_again(home, study, run):
    before = made_at(study[0]), made_at(study[0], "tests/*/*.parquet")
    assert len(before[0]) == len(before[1]) == 8
    told = run(*words_of(home, study[0], "--seeds", 2, "--seed", 5))
    assert told.status == 0
    assert (made_at(study[0]), made_at(study[0], "tests/*/*.parquet")) == before
    assert told.out == study[1]


def copied(study, tmp_path):
    """A copy of the study that a test may change; times of files are kept."""
    return shutil.copytree(study[0], tmp_path / "copy")


def test_a_network_or_a_test_that_is_gone_is_made_again_to_the_same_bits(
    home, study, run, tmp_path
):
    out = copied(study, tmp_path)
    before = made_at(out), predictions(out), accuracies(out)
    weights = read_checkpoint(checkpoint(out, "contrast", 5)).weights
    checkpoint(out, "contrast", 5).unlink()
    (out / "tests" / "6" / "clean.parquet").unlink()
    (out / "accuracies.csv").unlink()
    assert run(*words_of(home, out, "--seeds", 2, "--seed", 5)).status == 0
    again = read_checkpoint(checkpoint(out, "contrast", 5)).weights
    assert all(torch.equal(value, again[name]) for name, value in weights.items())
    assert predictions(out) == before[1] and accuracies(out) == before[2]


def test_benchmarks_as_a_whole_may_be_added_later(home, study, run, tmp_path):
    out, before = copied(study, tmp_path), predictions(study[0])
    times = made_at(out)
    told = run(*words_of(home, out, "--seeds", 2, "--seed", 5, "--together", home / "mine.yaml"))
    assert told.status == 0, told.err
    now = made_at(out)
    assert {name: now[name] for name in times} == times and set(now) - set(times) == {
        f"models/{seed}/all-mine.pt" for seed in (5, 6)
    }
    found = accuracies(out)
    rows = (out / "accuracies.csv").read_text().splitlines()
    assert [row.split(",")[0] for row in rows[1:]] == ["standard", *NAMES, "all:mine"] * 2
    assert {key: own for key, own in found.items() if key[0] != "all:mine"} == accuracies(study[0])
    after = predictions(out)
    assert {key: own for key, own in after.items() if key in before} == before
    assert {key[2] for key in set(after) - set(before)} == {"all:mine"}
    model = load_model(str(out / "models" / "5" / "all-mine.pt"), CPU, trust=True)
    assert model.trained_on == NAMES
    clean, labels, digests = test_images(home / "test")
    for name, accuracy in found["all:mine", "5"].items():
        hits = model(corrupted(clean, name, digests)).argmax(dim=1) == labels
        assert accuracy == int(hits.sum()) / len(labels)


@pytest.mark.parametrize(("title", "after"), [("training", 9), ("16 tests", 3)])
def test_a_study_that_was_stopped_goes_on_to_the_same_accuracies(
    home, once, run, tmp_path, monkeypatch, title, after
):
    out = tmp_path / "out"
    with monkeypatch.context() as patch:
        stopping(title, after, patch)
        told = run(*words_of(home, out))
    assert told.status == 130, told.err
    assert "run the same command again to resume" in told.err
    assert len(told.err.strip().splitlines()) == 1
    assert not (out / "accuracies.csv").exists()
    finished = made_at(out)
    assert len(finished) == (4 if title == "16 tests" else 1)
    assert run(*words_of(home, out)).status == 0
    assert predictions(out) == predictions(once)
    now = made_at(out)
    assert {name: now[name] for name in finished} == finished


@pytest.fixture(scope="module")
def once(home):
    """The folder of the study with one seed that nothing stopped."""
    with pytest.raises(SystemExit) as stop, redirect_stdout(StringIO()):
        main(words_of(home, home / "once"))
    assert stop.value.code == 0
    return home / "once"


def test_one_seed_has_no_column_of_its_own(once):
    assert (once / "accuracies.csv").read_text().startswith("trained_on,clean,contrast,gauss")


def in_another_process(words):
    path = os.pathsep.join([str(SUPPORT), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(
        [sys.executable, "-m", "eyechart", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        text=True,
        preexec_fn=hear_interrupts,
        start_new_session=True,
    )


def wait_for(path, process):
    while not path.exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)


@pytest.mark.slow
@pytest.mark.parametrize("device", ["cpu", "cpu,cpu"])
def test_ctrl_c_ends_with_130_and_going_on_gives_the_same(home, run, tmp_path, device):
    whole, out = tmp_path / "whole", tmp_path / "out"
    longer = ("--epochs", 20)
    with in_another_process(words_of(home, out, *longer, "--device", device)) as process:
        wait_for(checkpoint(out, "standard"), process)
        os.killpg(process.pid, signal.SIGINT)
        _, told = process.communicate(timeout=60)
    assert process.returncode == 130, told
    assert "run the same command again to resume" in told and "Traceback" not in told
    assert not (out / "accuracies.csv").exists()
    for where in (out, whole):
        told = run(*words_of(home, where, *longer))
        assert told.status == 0, told.err
    assert predictions(out) == predictions(whole)


@pytest.mark.slow
def test_two_devices_share_the_work_and_find_the_same(home, study, tmp_path):
    words = words_of(home, tmp_path / "out", "--seeds", 2, "--seed", 5, "--device", "cpu,cpu")
    with in_another_process(words) as process:
        told = process.communicate()
    assert process.returncode == 0, told
    assert predictions(tmp_path / "out") == predictions(study[0])
    assert accuracies(tmp_path / "out") == accuracies(study[0])


@pytest.mark.slow
def test_a_failure_on_one_of_two_devices_is_one_sentence(home, tmp_path):
    more = ("--device", "cpu,cpu", "--arch", "textures:many_dimensions")
    with in_another_process(words_of(home, tmp_path / "out", *more)) as process:
        _, told = process.communicate()
    assert process.returncode == 2 and "class scores (B, K)" in told and "Traceback" not in told


def test_a_file_that_somebody_is_at_work_on_is_left_to_him(tmp_path):
    with try_lock(tmp_path / "a.pt") as mine:
        assert mine
        with try_lock(tmp_path / "a.pt") as too, try_lock(tmp_path / "b.pt") as other:
            assert not too and other
    with try_lock(tmp_path / "a.pt") as mine:
        assert mine
    assert not (tmp_path / "a.pt").exists()


def test_a_network_that_another_process_makes_is_waited_for(home, once, run, tmp_path, monkeypatch):
    out = shutil.copytree(once, tmp_path / "out")
    taken = checkpoint(out, "contrast").rename(tmp_path / "taken.pt")
    held = try_lock(checkpoint(out, "contrast"))
    assert held.__enter__()

    def other(seconds):
        """The other process comes to its end while we wait."""
        shutil.copy(taken, checkpoint(out, "contrast"))
        held.__exit__(None, None, None)

    monkeypatch.setattr("eyechart.overlap.study_execution.time.sleep", other)
    time_before = taken.stat().st_size
    assert run(*words_of(home, out)).status == 0
    assert checkpoint(out, "contrast").stat().st_size == time_before
    assert predictions(out) == predictions(once)


def test_what_a_killed_run_left_half_written_is_removed(home, once, run, tmp_path):
    out = shutil.copytree(once, tmp_path / "out")
    left = [out / "models" / "0" / f".{name}.999999999.tmp" for name in ("fog.pt", "fog.state")]
    for path in left:
        path.write_bytes(b"half")
    assert run(*words_of(home, out)).status == 0
    assert not any(path.exists() for path in left)


# Tuning


def tuning_words(home, out, start, *more, **which):
    words = words_of(home, out, "--start", start, *more, **which)
    return [word for word in words if word not in ("--arch", "textures:network")]


def test_every_network_is_tuned_from_the_checkpoint(home, once, run, tmp_path):
    start = checkpoint(once, "standard")
    words = tuning_words(home, tmp_path / "out", start, "--epochs", 1, "--lr", 1e-4)
    assert_rejected(run(*words), "trained with textures:network", "--trust")
    told = run(*words, "--trust")
    assert told.status == 0, told.err
    before = read_checkpoint(start)
    for name in ("standard", *NAMES):
        own = read_checkpoint(checkpoint(tmp_path / "out", name))
        assert own.trained_on == (() if name == "standard" else (name,))
        assert own.network == "textures:network" and own.mean == before.mean
        moved = (own.weights["0.weight"] - before.weights["0.weight"]).abs().max()
        # four steps at so low a rate go nowhere, and from scratch they would begin elsewhere
        assert 0 < moved < 0.01
    assert read_settings(tmp_path / "out" / "run.json")["start"] == str(start)


def test_a_network_that_has_met_a_corruption_cannot_be_the_start(home, once, run, tmp_path):
    told = run(*tuning_words(home, tmp_path / "out", checkpoint(once, "contrast")))
    assert_rejected(told, "contrast.pt was trained on contrast")


def test_a_checkpoint_of_other_classes_cannot_be_tuned(home, once, run, tmp_path):
    save_textures(home / "two", 20, seed=3, tints=("amber", "blue"))
    start = checkpoint(once, "standard")
    result = run(*tuning_words(home, tmp_path / "out", start, images="two", train=None))
    assert_rejected(result, "(3) differ from the classes of the images (2)")


def test_any_torch_module_can_be_the_start(home, run, tmp_path):
    out = tmp_path / "out"
    words = tuning_words(home, out, "textures:made", "--epochs", 1, "--lr", 1e-4)
    told = run(*words)
    assert told.status == 0, told.err
    for name in ("standard", *NAMES):
        own = read_checkpoint(checkpoint(out, name))
        assert (own.network, own.base) == ("", "textures:made")
        moved = (own.weights["0.weight"] - textures.made[0].weight).abs().max()
        assert 0 < moved < 0.01
    assert read_settings(out / "run.json")["start"] == "textures:made"
    assert read_settings(out / "run.json")["classes"] == sorted(TINTS)
    # accuracies are those of the checkpoints
    model = load_model(str(checkpoint(out, "standard")), CPU, trust=True)
    images = ec.load_images(home / "test", "native")
    labels = torch.tensor([sorted(TINTS).index(label) for label in images.labels])
    correct = (model(images.batch(range(len(images)))).argmax(1) == labels).double().mean()
    assert accuracies(out)["standard", "0"]["clean"] == pytest.approx(float(correct), abs=1e-6)
    again = run(*words)
    assert again.status == 0 and "textures:made" not in again.err


def test_a_start_with_more_outputs_than_classes_keeps_its_outputs(home, run, tmp_path):
    wnids = dict(zip(sorted(TINTS), (wordnet_ids()[place] for place in (7, 3, 500)), strict=True))
    for part in ("train", "test"):
        for tint, wnid in wnids.items():
            shutil.copytree(home / part / tint, tmp_path / part / wnid)
    out = tmp_path / "out"
    (tmp_path / "mine.yaml").write_text((home / "mine.yaml").read_text())
    told = run(*tuning_words(tmp_path, out, "tinted_contrasts:untrained_thousand", "--epochs", 8))
    assert told.status == 0, told.err
    classes = read_settings(out / "run.json")["classes"]
    assert len(classes) == 1000
    assert [classes[place] for place in (7, 3, 500)] == list(wnids.values())
    # the outputs of these classes were tuned
    assert accuracies(out)["standard", "0"]["clean"] > 0.3


@pytest.mark.parametrize(
    ("start", "words"),
    [
        (
            "textures:fails",
            ("Only torch modules can be trained, but textures:fails is a function",),
        ),
        ("textures:nowhere", ("textures", "nowhere")),
        ("small_models:colors", ("has no parameters to train",)),
        ("tinted_contrasts:untrained", ("labels unknown to a model with",)),
        ("tinted_contrasts:with_softmax", ("probabilities",)),
    ],
)
def test_a_start_that_cannot_be_tuned_is_one_sentence(home, run, tmp_path, start, words):
    told = run(*tuning_words(home, tmp_path / "out", start))
    assert_rejected(told, *words)
    assert not (tmp_path / "out").exists()


# One sentence each


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--epochs", 3), "(epochs: 2, now 3)"),
        (("--lr", 0.2), "(lr: 0.1, now 0.2)"),
        (("--stimulus", 32), "(stimulus: native, now 32)"),
        (("--seeds", 2), "(seeds: 0, now 0, 1)"),
        (("--arch", "resnet9"), "(network: textures:network, now resnet9)"),
        (("--corruption", "contrast", "--corruption", "gaussian_noise"), "corruptions"),
        (("--images", "train2"), "(test: "),
    ],
)
def test_another_study_in_the_same_folder_is_rejected(home, once, run, more, words):
    if "train2" in more:
        more = ("--images", save_textures(home / "train2", 5, seed=9))
    before = made_at(once), (once / "run.json").read_text()
    assert_rejected(run(*words_of(home, once, *more)), words)
    assert (made_at(once), (once / "run.json").read_text()) == before


def test_other_strengths_under_the_same_names_are_another_study(home, once, run, tmp_path):
    own = [{**SUITE["corruptions"][0], "severity": [2, 3.5]}, *SUITE["corruptions"][1:]]
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump({**SUITE, "corruptions": own}))
    words = words_of(home, once)
    words[words.index(str(home / "mine.yaml"))] = str(tmp_path / "mine.yaml")
    assert_rejected(run(*words), "(strengths: ")


def test_a_checkpoint_of_another_configuration_is_rejected_before_any_work(
    home, once, run, tmp_path
):
    out = shutil.copytree(once, tmp_path / "out")
    shutil.copy(checkpoint(out, "contrast"), checkpoint(out, "vcr/gaussian_noise"))
    checkpoint(out, "standard").unlink()
    told = run(*words_of(home, out))
    assert_rejected(
        told, "different configuration", "corruptions: contrast, now vcr/gaussian_noise"
    )
    assert not checkpoint(out, "standard").exists()


def test_a_benchmark_of_the_same_name_with_other_members_is_rejected(home, once, run, tmp_path):
    out = shutil.copytree(once, tmp_path / "out")
    assert run(*words_of(home, out, "--together", home / "mine.yaml")).status == 0
    (tmp_path / "other.yaml").write_text(
        yaml.safe_dump({**SUITE, "corruptions": SUITE["corruptions"][:2]})
    )
    told = run(*words_of(home, out, "--together", tmp_path / "other.yaml"))
    assert_rejected(told, "all-mine.pt", "different configuration")


def test_a_damaged_checkpoint_or_record_is_one_sentence(home, once, run, tmp_path):
    out = shutil.copytree(once, tmp_path / "out")
    path = checkpoint(out, "contrast")
    path.write_bytes(path.read_bytes()[:500])
    assert_rejected(run(*words_of(home, out)), "contrast.pt is damaged")
    (out / "run.json").write_text("{")
    assert_rejected(run(*words_of(home, out)), "run.json cannot be read")


def test_a_folder_of_something_else_is_left_alone(home, run, tmp_path):
    (tmp_path / "a" / "models").mkdir(parents=True)
    assert_rejected(
        run(*words_of(home, tmp_path / "a")), "models already exists and is not from this study"
    )
    (tmp_path / "b").write_text("mine")
    assert_rejected(run(*words_of(home, tmp_path / "b")), "it is a file, not a folder")
    assert (tmp_path / "b").read_text() == "mine"


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--corruption", "contrast"), "at least two corruptions"),
        (("--corruption", "contrst"), "Did you mean 'contrast'"),
        (("--suite", "imagenet-d"), "Unknown suite"),
        (("--together", "imagenet-c"), "which is not in this study"),
        (("--start", "net.pt"), "not both"),
        (("--arch", "resnet_9"), "Did you mean 'resnet9'"),
        (("--arch", "textures:counts"), "returns a torch.nn.Module"),
        (("--arch", "textures:many_dimensions"), "class scores (B, K)"),
        (("--seeds", 0), "seeds must be a whole number from 1 to 1,000, got 0"),
        (("--epochs", 0), "epochs must be a whole number from 1"),
        (("--batch-size", 1), "batch_size must be a whole number from 2"),
        (("--share", 1.5), "share must be in [0, 1]"),
        (("--schedule", "cosin"), "cosine"),
        (("--device", "cpu,tpu"), "tpu"),
        (("--device", "cpu,"), "''"),
        (("--every", 0), "of at least 1, got 0"),
        (("--every", 3), "give a smaller number"),
        (("--images", "nowhere"), "nowhere"),
        (("--out", ""), "not an empty string"),
    ],
)
def test_what_makes_no_study_is_one_sentence(home, run, tmp_path, more, words):
    told = run(*words_of(home, tmp_path / "out", *more))
    if more == ("--out", ""):
        assert told.status == 2 and words in " ".join(told.err.split())
        return
    assert_rejected(told, words)
    assert not list(tmp_path.rglob("*.pt"))


def test_a_network_with_too_few_outputs_is_one_sentence(home, run, tmp_path):
    told = run(*words_of(home, tmp_path / "out", "--arch", "textures:two_outputs"))
    assert_rejected(told, "2")


def test_names_that_would_share_a_file_are_rejected():
    entry = find_entry("contrast", None)
    recipe = Recipe(epochs=1)
    for names in (("a/b", "a-b"), ("standard", "fog"), ("clean", "fog"), ("fog", "fog")):
        entries = tuple(replace(entry, name=name) for name in names)
        with pytest.raises(UsageError, match="to the same file"):
            OverlapStudy(entries, recipe, "resnet9").check()
    OverlapStudy((entry, replace(entry, name="fog")), recipe, "resnet9").check()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"entries": tuple(load_suite("imagenet-noc"))[:1]}, "at least two corruptions"),
        ({"recipe": Recipe(epochs=0)}, "epochs must be"),
    ],
)
def test_a_study_that_cannot_be_is_rejected(changes, words):
    entries = tuple(load_suite("imagenet-noc"))
    with pytest.raises(UsageError, match=words):
        replace(OverlapStudy(entries, Recipe(), "resnet9"), **changes).check()


# Which corruptions


def test_corruptions_of_several_suites_come_together_in_their_order():
    names = [entry.name for entry in entries_of(["imagenet-noc", "imagenet-c", "imagenet-noc"], [])]
    assert names == [*ec.list_corruptions("imagenet-noc"), *ec.list_corruptions("imagenet-c")]
    chosen = entries_of(["noc-candidates"], ["noc/hue", "blur"])
    assert [entry.name for entry in chosen] == ["noc/hue", "noc/blur"]


def test_one_name_with_two_strengths_is_rejected(tmp_path):
    path = write_suite(tmp_path / "mine.yaml")
    with pytest.raises(
        UsageError, match=r"imagenet-c and mine define different corruptions named contrast"
    ):
        entries_of(["imagenet-c", str(path)], [])


def test_one_name_with_the_same_strengths_in_two_suites_is_one_corruption():
    # the 8 of ImageNet-NOC are 8 of the 23 candidates
    assert len(entries_of(["noc-candidates", "imagenet-noc"], [])) == 23


def test_a_corruption_that_is_named_in_full_is_the_one_of_that_name():
    (found,) = entries_of(["noc-candidates", "imagenet-c"], ["contrast"])
    assert found.name == "contrast"


def test_benchmarks_as_a_whole_must_be_within_the_study():
    entries = entries_of(["noc-candidates"], [])
    found = benchmarks_of(["imagenet-noc"], entries)
    assert found == {"imagenet-noc": tuple(ec.list_corruptions("imagenet-noc"))}
    with pytest.raises(UsageError, match="--together vcr contains vcr/"):
        benchmarks_of(["vcr"], entries)


def test_one_folder_for_both_is_told_as_such(home, run, tmp_path):
    told = run(*words_of(home, tmp_path / "out", images="train"))
    assert_rejected(told, "is given for both training and testing", "other images")


def test_what_lacks_its_network_is_left_out_of_the_study_and_of_a_benchmark(monkeypatch, capsys):
    monkeypatch.delenv(VARIABLE, raising=False)
    entries = entries_of(["imagenet-c-extra"], [])
    assert "Note: style_transfer is left out" in capsys.readouterr().out
    found = benchmarks_of(["imagenet-c-extra"], entries)
    assert found == {"imagenet-c-extra": tuple(entry.name for entry in entries)}
    assert "style_transfer" not in found["imagenet-c-extra"] and len(entries) == 4


# Which pictures


def sources(home, **given):
    train, test = TrainingSources(**{"images": home, "stimulus": "native", **given}).load(
        NO_PROGRESS
    )
    return train, test


def test_a_fifth_of_every_class_is_held_out(tmp_path):
    save_textures(tmp_path, 20, seed=4)
    train, test = sources(tmp_path)
    assert not set(train.digests) & set(test.digests)
    assert len(train) == 48 and len(test) == 12
    for own, each in ((train, 16), (test, 4)):
        assert {label: list(own.labels).count(label) for label in own.labels} == dict.fromkeys(
            TINTS, each
        )


def test_which_are_held_out_does_not_depend_on_names_or_order(tmp_path):
    save_textures(tmp_path / "one", 12, seed=4)
    for place, path in enumerate(sorted((tmp_path / "one").glob("*/*.png"))):
        other = tmp_path / "two" / path.parent.name / f"{(place * 7) % 12:02d}.png"
        other.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, other)
    found = [sources(tmp_path / name) for name in ("one", "two")]
    assert list(found[0][0].digests) != list(found[1][0].digests)
    for part in (0, 1):
        assert set(found[0][part].digests) == set(found[1][part].digests)


def test_more_of_another_class_change_nothing_in_one(tmp_path):
    save_textures(tmp_path, 12, seed=4)
    before = set(sources(tmp_path)[1].digests)
    save_textures(tmp_path, 30, seed=5, tints=("blue",))
    after = sources(tmp_path)[1]
    kept = {d for d, label in zip(after.digests, after.labels, strict=True) if label != "blue"}
    assert kept <= before and len(kept) == 4


def test_equal_images_stay_together(tmp_path):
    save_textures(tmp_path, 10, seed=4)
    for path in list(tmp_path.glob("*/*.png")):
        shutil.copy(path, path.with_name(f"again-{path.name}"))
    train, test = sources(tmp_path)
    assert not set(train.digests) & set(test.digests)
    assert len(train) == 48 and len(test) == 12


def test_an_image_of_two_classes_is_on_one_side_only(tmp_path):
    save_textures(tmp_path, 10, seed=4, tints=("blue", "green"))
    for path in list((tmp_path / "blue").glob("*.png"))[:6]:
        shutil.copy(path, tmp_path / "green" / f"blue-{path.name}")
    train, test = sources(tmp_path)
    assert not set(train.digests) & set(test.digests)
    assert set(train.labels) == set(test.labels) == {"blue", "green"}


def test_a_class_whose_images_are_all_tested_under_other_names_is_rejected(tmp_path):
    save_textures(tmp_path, 10, seed=4, tints=("blue", "green"))
    tested = sources(tmp_path)[1]
    (tmp_path / "red").mkdir()
    for image in tested.listed[:3]:
        shutil.copy(tmp_path / image.name, tmp_path / "red")
    with pytest.raises(UsageError, match="No image of 'red'"):
        sources(tmp_path)


def test_another_share_may_be_held_out(tmp_path):
    save_textures(tmp_path, 10, seed=4)
    train, test = split(ec.load_images(tmp_path, "native"), 0.5)
    assert len(train) == len(test) == 15
    for share in (0, 1, -0.1, float("nan")):
        with pytest.raises(UsageError, match="between 0 and 1"):
            split(ec.load_images(tmp_path, "native"), share)


def test_a_class_of_equal_images_cannot_be_parted(tmp_path):
    save_textures(tmp_path, 4, seed=4)
    first = tmp_path / "blue" / "4-0.png"
    for path in (tmp_path / "blue").glob("*.png"):
        path.write_bytes(first.read_bytes())
    with pytest.raises(UsageError, match="All images of 'blue'"):
        sources(tmp_path)


def test_every_second_class_is_taken_by_name(tmp_path):
    save_textures(tmp_path, 5, seed=4)
    train, test = sources(tmp_path, every=2)
    assert set(train.labels) == set(test.labels) == {"amber", "green"}


def test_the_study_of_every_second_class_has_those(home, run, tmp_path):
    assert run(*words_of(home, tmp_path / "out", "--every", 2, "--epochs", 1)).status == 0
    assert read_settings(tmp_path / "out" / "run.json")["classes"] == ["amber", "green"]


def test_a_study_holds_images_out_where_no_others_are_given(home, run, tmp_path):
    assert run(*words_of(home, tmp_path / "out", "--epochs", 1, train=None)).status == 0
    (kept,) = (tmp_path / "out" / "tests").glob("*/clean.parquet")
    # a fifth of 14, of three classes
    assert pq.read_table(kept).num_rows == 9


@pytest.mark.parametrize("each", [3, 5, 7])
def test_small_classes_are_held_out_of_too(home, run, tmp_path, each):
    save_textures(tmp_path / "few", each, seed=6)
    words = words_of(tmp_path, tmp_path / "out", "--epochs", 1, images="few", train=None)
    words[words.index(str(tmp_path / "mine.yaml"))] = str(home / "mine.yaml")
    told = run(*words)
    assert told.status == 0, told.err


def test_of_two_images_too_few_are_left_to_train_with(home, run, tmp_path):
    save_textures(tmp_path / "few", 2, seed=6)
    shutil.copy(home / "mine.yaml", tmp_path)
    told = run(*words_of(tmp_path, tmp_path / "out", images="few", train=None))
    assert_rejected(told, "Every class needs at least 2 images, but 'amber'", "has 1")


def test_a_class_of_one_image_is_one_sentence(home, run, tmp_path):
    save_textures(tmp_path / "train", 5, seed=6)
    for path in list((tmp_path / "train" / "blue").glob("*.png"))[1:]:
        path.unlink()
    shutil.copy(home / "mine.yaml", tmp_path)
    words = "Every class needs at least 2 images, but 'blue'", "has 1"
    assert_rejected(run(*words_of(tmp_path, tmp_path / "o", images="train", train=None)), *words)
    shutil.copytree(home / "test", tmp_path / "test")
    assert_rejected(run(*words_of(tmp_path, tmp_path / "o")), *words)


def test_images_of_two_sizes_are_one_sentence(home, run, tmp_path):
    shutil.copy(home / "mine.yaml", tmp_path)
    shutil.copytree(home / "train", tmp_path / "train")
    save_textures(tmp_path / "test", 4, seed=6, side=20)
    told = run(*words_of(tmp_path, tmp_path / "o"))
    assert_rejected(told, "24 × 24 px, but test images are 20 × 20", "--stimulus")
    save_textures(tmp_path / "train", 1, seed=7, side=30)
    assert_rejected(run(*words_of(tmp_path, tmp_path / "o")), "must have the same size")


def test_an_image_that_is_trained_and_tested_with_is_rejected(home, run, tmp_path):
    shutil.copy(home / "mine.yaml", tmp_path)
    for name in ("train", "test"):
        shutil.copytree(home / name, tmp_path / name)
    shared = next((tmp_path / "train" / "blue").glob("*.png"))
    shutil.copy(shared, tmp_path / "test" / "blue" / "called-otherwise.png")
    told = run(*words_of(tmp_path, tmp_path / "o"))
    assert_rejected(told, "1 image is in both", "called-otherwise.png")
    assert not (tmp_path / "o").exists()


def test_images_of_one_class_may_be_tested_with_but_not_of_an_unknown_one(home, run, tmp_path):
    shutil.copy(home / "mine.yaml", tmp_path)
    shutil.copytree(home / "train", tmp_path / "train")
    save_textures(tmp_path / "test", 6, seed=8, tints=("blue",))
    assert run(*words_of(tmp_path, tmp_path / "o", "--epochs", 12)).status == 0
    # the one class is still the second of three: networks that learnt anything know it
    own = accuracies(tmp_path / "o")
    assert max(each["clean"] for each in own.values()) > 0.5
    (tmp_path / "test" / "blue").rename(tmp_path / "test" / "violet")
    assert_rejected(run(*words_of(tmp_path, tmp_path / "o2")), "violet")
    assert_rejected(
        run(*words_of(tmp_path, tmp_path / "o2", images="test", train=None)), "one class"
    )
