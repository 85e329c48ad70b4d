"""`eyechart train network`: a checkpoint that every other command takes, and says what it met."""

import csv
import json
import os
import shutil
import subprocess
import sys
import textwrap
import time
from contextlib import redirect_stdout
from io import StringIO

import numpy as np
import pytest
import torch
import yaml
from PIL import Image

from commands import assert_rejected
from eyechart.cli.app import main
from eyechart.cli.shared.training_options import parse_range
from eyechart.core.errors import UsageError
from eyechart.models.checkpoint import read_checkpoint
from eyechart.models.find import load_model
from eyechart.stats.intervals import wilson_interval
from eyechart.training.distributed import ProcessGroup, is_first_process, joined, own_device
from interrupting import stopping
from textures import TINTS, save_textures

CPU = torch.device("cpu")
SMALL = ("--epochs", 2, "--batch-size", 16, "--stimulus", "native")


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("network")
    save_textures(folder / "train", 20, seed=1)
    save_textures(folder / "test", 12, seed=2)
    return folder


def words_of(home, out, *more, arch="textures:network"):
    given = ("--train-images", home / "train", "--out", out, *SMALL, *more)
    return [str(word) for word in ("train", "network", arch, *given)]


@pytest.fixture(scope="module")
def trained(home):
    """A network that met contrast, and what the command said."""
    said, path = StringIO(), home / "net.pt"
    more = ("--images", home / "test", "--suite", "imagenet-c", "--corruption", "contrast")
    with pytest.raises(SystemExit) as stop, redirect_stdout(said):
        main(words_of(home, path, *more, "--epochs", 12, "--severity", "1-3", "--crop", 1))
    assert stop.value.code == 0
    return path, said.getvalue()


def read_all(folder):
    paths = sorted(folder.glob("*/*.png"))
    levels = np.stack([np.asarray(Image.open(path).convert("RGB")) for path in paths])
    labels = torch.tensor([sorted(TINTS).index(path.parent.name) for path in paths])
    return torch.from_numpy(levels).permute(0, 3, 1, 2).contiguous(), labels


def test_the_command_says_how_often_its_network_is_right(home, trained):
    path, said = trained
    images, labels = read_all(home / "test")
    hits = load_model(str(path), CPU, trust=True)(images).argmax(dim=1) == labels
    share = int(hits.sum()) / len(labels)
    assert share > 0.5, "chance is a third"
    low, high = wilson_interval(share, 36, 0.95)
    assert f"Written: {path}, trained on contrast." in said
    told = f"Accuracy {share:.3f} on 36 clean images (95 % interval {low:.3f} to {high:.3f})."
    assert told in said


def test_the_checkpoint_says_how_it_was_made(home, trained):
    found = read_checkpoint(trained[0])
    assert found.network == "textures:network" and found.base == ""
    assert found.class_names == tuple(sorted(TINTS)) and found.trained_on == ("contrast",)
    settings = found.recipe["settings"]
    assert (settings["epochs"], settings["crop"], settings["severity"]) == (12, 1, [1.0, 3.0])
    images, _ = read_all(home / "train")
    unit = images.double() / 255
    assert found.mean == pytest.approx(unit.mean(dim=(0, 2, 3)).tolist(), abs=6e-4)
    # the mean over pictures and pixels of each color
    assert found.std == pytest.approx(unit.std(dim=(0, 2, 3)).tolist(), abs=6e-4)


def test_an_evaluation_takes_it_and_marks_what_it_was_trained_on(home, trained, run, tmp_path):
    suite = {"name": "mine", "title": "Two", "source": "a test"}
    suite["corruptions"] = [{"same_as": f"imagenet-c:{name}"} for name in ("contrast", "fog")]
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(suite))
    words = (
        "evaluate", trained[0], "--images", home / "test", "--suite", tmp_path / "mine.yaml",
        *("--stimulus", "native", "--humans", "none", "--n", 60, "--bins", 3, "--min-per-bin", 2),
        *("--n-bootstrap", 20, "--out", tmp_path / "out"),
    )  # fmt: skip
    assert_rejected(run(*words), "trained with textures:network", "--trust")
    told = run(*words, "--trust")
    assert told.status == 0, told.err
    assert "trained on" in told.out.lower()
    results = (tmp_path / "out" / "results.json").read_text()
    (own,) = (
        json.loads(results)["models"]
        if isinstance(json.loads(results)["models"], list)
        else (json.loads(results)["models"].values())
    )
    assert own["trained_on"] == ["contrast"]
    with (tmp_path / "out" / "results.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    marks = {row["corruption"]: row["trained_on"] for row in rows}
    assert marks["contrast"] != marks["fog"]


def test_without_corruptions_it_is_trained_on_clean_images(home, run, tmp_path):
    told = run(*words_of(home, tmp_path / "net.pt"))
    assert told.status == 0 and "trained on clean images" in told.out
    assert "Accuracy" not in told.out
    assert load_model(str(tmp_path / "net.pt"), CPU, trust=True).trained_on == ()


def test_the_same_command_again_trains_nothing_and_another_is_rejected(home, run, tmp_path):
    path = tmp_path / "net.pt"
    assert run(*words_of(home, path)).status == 0
    before = path.stat().st_mtime_ns
    assert run(*words_of(home, path)).status == 0
    assert path.stat().st_mtime_ns == before
    assert_rejected(run(*words_of(home, path, "--lr", 0.2)), "(lr: 0.1, now 0.2)")
    other = run(*words_of(home, path, arch="trainable:plain"))
    assert_rejected(other, "different configuration")
    assert path.stat().st_mtime_ns == before


def test_what_was_stopped_goes_on_to_the_same_weights(home, run, tmp_path, monkeypatch):
    assert run(*words_of(home, tmp_path / "whole.pt")).status == 0
    path = tmp_path / "net.pt"
    with monkeypatch.context() as patch:
        stopping("training", 3, patch)
        told = run(*words_of(home, path))
    assert told.status == 130 and "run the same command again to resume" in told.err
    assert not path.exists() and (tmp_path / "net.state").exists()
    assert run(*words_of(home, path)).status == 0
    assert not (tmp_path / "net.state").exists()
    one, two = (read_checkpoint(each).weights for each in (path, tmp_path / "whole.pt"))
    assert all(torch.equal(value, two[name]) for name, value in one.items())


def test_the_seed_decides_the_weights_it_begins_with(home, run, tmp_path):
    for seed in (0, 1):
        words = words_of(home, tmp_path / f"{seed}.pt", "--seed", seed, "--lr", 1e-9)
        assert run(*words).status == 0
    one, two = (read_checkpoint(tmp_path / f"{seed}.pt").weights["0.weight"] for seed in (0, 1))
    assert (one - two).abs().max() > 0.01


def test_every_second_class_may_be_taken(home, run, tmp_path):
    assert run(*words_of(home, tmp_path / "net.pt", "--every", 2)).status == 0
    assert load_model(str(tmp_path / "net.pt"), CPU, trust=True).class_names == ("amber", "green")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--corruption", "fog"), "--corruption needs --suite"),
        (("--severity", "1-5"), "need --suite"),
        (("--delta-v", "0.1-0.5"), "need --suite"),
        (("--suite", "imagenet-c", "--corruption", "fogg"), "Did you mean 'fog'"),
        (("--suite", "imagenet-q"), "Unknown suite"),
        (("--suite", "imagenet-c", "--severity", "mild"), "--severity must be a range"),
        (("--suite", "imagenet-c", "--severity", "4-2"), "must be a range LOW-HIGH"),
        (("--suite", "imagenet-c", "--severity", "1-9"), "severity must be in [0, 5]"),
        (("--suite", "imagenet-c", "--severity", "1-2", "--delta-v", "0-1"), "not both"),
        (("--epochs", 0), "epochs must be a whole number from 1"),
        (("--batch-size", 1), "batch_size must be a whole number from 2"),
        (("--lr", 0), "lr must be above 0"),
        (("--lr", "nan"), "lr must be in"),
        (("--momentum", 1), "momentum must be in"),
        (("--nesterov", "--momentum", 0), "nesterov needs a momentum"),
        (("--weight-decay", -1), "weight_decay must be in"),
        (("--schedule", "linear"), "schedule"),
        (("--warmup", -1), "warmup must be in"),
        (("--share", 2), "share must be in [0, 1]"),
        (("--flip", 2), "flip must be in [0, 1]"),
        (("--crop", -1), "crop must be a whole number from 0"),
        (("--mixup", -1), "mixup must be in"),
        (("--stability", -1), "stability must be in"),
        (("--stability-width", 2), "stability_width must be in"),
        (("--precision", "float16"), "float16"),
        (("--every", 0), "of at least 1, got 0"),
        (("--stimulus", "big"), "big"),
        (("--device", "tpu"), "tpu"),
        (("--out", "none/net.pt"), "No such folder: none"),
        (("--out", "."), "it is a folder"),
        (("--train-images", "nowhere"), "nowhere"),
        (("--images", "nowhere"), "nowhere"),
    ],
)
def test_wrong_options_are_one_sentence_each(home, run, tmp_path, monkeypatch, more, said):
    monkeypatch.chdir(tmp_path)
    assert_rejected(run(*words_of(home, tmp_path / "net.pt", *more)), said)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arch", "said"),
    [
        ("resnet-18", "resnet18"),
        ("textures:counts", "returns a torch.nn.Module"),
        ("textures:many_dimensions", "class scores (B, K)"),
        ("textures:fails", "no luck"),
    ],
)
def test_wrong_networks_are_one_sentence_each(home, run, tmp_path, arch, said):
    assert_rejected(run(*words_of(home, tmp_path / "net.pt", arch=arch)), said)
    assert not (tmp_path / "net.pt").exists()


def test_an_image_that_is_trained_and_tested_with_is_rejected(home, run, tmp_path):
    shutil.copytree(home / "test", tmp_path / "test")
    shutil.copy(next((home / "train" / "blue").glob("*.png")), tmp_path / "test" / "blue" / "x.png")
    told = run(*words_of(home, tmp_path / "net.pt", "--images", tmp_path / "test"))
    assert_rejected(told, "1 image is in both", "x.png")
    assert not (tmp_path / "net.pt").exists()


def test_test_images_of_an_unknown_class_are_rejected_before_the_training(home, run, tmp_path):
    save_textures(tmp_path / "test", 4, seed=8)
    (tmp_path / "test" / "blue").rename(tmp_path / "test" / "violet")
    told = run(*words_of(home, tmp_path / "net.pt", "--images", tmp_path / "test"))
    assert_rejected(told, "violet")
    assert not (tmp_path / "net.pt").exists()


def test_a_checkpoint_called_state_is_rejected_or_kept(home, run, tmp_path):
    told = run(*words_of(home, tmp_path / "net.state"))
    assert told.status == 2 or (tmp_path / "net.state").exists()


@pytest.mark.parametrize("name", ["net", "net.ckpt", "net.onnx"])
def test_a_name_that_no_command_would_read_is_rejected_before_the_training(
    home, run, tmp_path, name
):
    told = run(*words_of(home, tmp_path / name))
    assert_rejected(told, ".pt")
    assert not (tmp_path / name).exists()


def test_weights_that_are_no_numbers_are_never_written(home, run, tmp_path):
    more = ("--suite", "vcr", "--corruption", "gaussian_noise", "--lr", 100, "--epochs", 9)
    told = run(*words_of(home, tmp_path / "net.pt", *more))
    if told.status == 0:
        weights = read_checkpoint(tmp_path / "net.pt").weights.values()
        assert all(bool(value.isfinite().all()) for value in weights)
    else:
        assert_rejected(told, "diverged")


# Ranges, and several processes


def test_ranges_are_two_numbers_or_one():
    assert parse_range("severity", "1-5") == (1.0, 5.0)
    assert parse_range("severity", "2.5") == (2.5, 2.5)
    assert parse_range("delta-v", ".2 – 0.8") == (0.2, 0.8)
    for text in ("", "-1", "1-", "1-2-3", "1e3-2", "nan"):
        with pytest.raises(UsageError, match="--severity must be a range"):
            parse_range("severity", text)


def test_without_torchrun_there_is_one_process(monkeypatch):
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    module = torch.nn.Linear(2, 2)
    with joined(CPU) as world:
        assert world == ProcessGroup(CPU, 0, 1) and world.is_first
        assert world.wrap(module) is module
        assert world.any(True) and not world.any(False)
    assert is_first_process() and own_device(CPU) == CPU


def test_only_the_first_process_of_torchrun_speaks(monkeypatch):
    monkeypatch.setenv("LOCAL_RANK", "1")
    for rank, first in (("0", True), ("1", False)):
        monkeypatch.setenv("RANK", rank)
        assert is_first_process() == first
    # on the CPU all share the device, and a GPU that was named is used
    assert own_device(CPU) == CPU
    assert own_device(torch.device("cuda", 0)) == torch.device("cuda", 0)


# Two at a time


AT_WORK = """
    import sys, time
    from pathlib import Path
    from eyechart.cli.app import main
    from eyechart.training import {module} as target

    at_work, go_on = Path(sys.argv[1]), Path(sys.argv[2])
    step = target.{owner}._learn

    def wait_once(self, *given):
        at_work.touch()
        while not go_on.exists():
            time.sleep(0.01)
        return step(self, *given)

    target.{owner}._learn = wait_once
    main(sys.argv[3:])
"""


def while_another_trains(words, folder, second, module="training_loop", owner="_Run"):
    """Start a command in a process of its own, and call `second` while it trains."""
    at_work, go_on = folder / "at-work", folder / "go-on"
    code = textwrap.dedent(AT_WORK.format(module=module, owner=owner))
    first = subprocess.Popen(
        [sys.executable, "-c", code, str(at_work), str(go_on), *map(str, words)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        while not at_work.exists():
            assert first.poll() is None, first.communicate()
            time.sleep(0.01)
        result = second()
    finally:
        go_on.touch()
        said = first.communicate()
    assert first.returncode == 0, said
    return result


def test_a_second_training_into_the_same_file_is_rejected_at_once(home, run, tmp_path):
    out = tmp_path / "net.pt"
    words = words_of(home, out)
    second = while_another_trains(words, tmp_path, lambda: run(*words))
    assert_rejected(second, "Another run is writing", "net.pt")
    assert read_checkpoint(out).weights
    assert sorted(path.name for path in tmp_path.iterdir()) == ["at-work", "go-on", "net.pt"]
    assert run(*words).status == 0


def test_a_folder_in_which_nothing_can_be_written_is_told_before_any_work(home, run, monkeypatch):
    def too_late(*given):
        raise AssertionError("pictures were loaded")

    monkeypatch.setattr("eyechart.cli.train._load_images", too_late)
    assert_rejected(run(*words_of(home, "/proc/net.pt")), "Cannot write /proc/net.pt")
