"""`eyechart overlap run --preset imagenet-noc`: the settings that the ImageNet-NOC paper prints."""

import json
from pathlib import Path

import pytest
import torch
from PIL import Image

from commands import assert_rejected
from eyechart.corruptions.suites.published import STUDIES, preset_line, values_of
from eyechart.images.image_list import ListedImage
from eyechart.images.labels.imagenet import wordnet_ids
from eyechart.models.registries import NETWORKS
from eyechart.training.data import every_class
from eyechart.training.recipe import Recipe
from textures import save_textures

NOC = values_of(STUDIES["imagenet-noc"])
SMALL = ("--stimulus", "32x32", "--epochs", 1, "--batch-size", 16, "--precision", "float32")
TWO = ("--suite", "imagenet-noc", "--corruption", "noc/hue", "--corruption", "noc/border")


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Images to train with and others to test with, of few classes."""
    folder = tmp_path_factory.mktemp("presets")
    save_textures(folder / "train", 20, seed=1)
    save_textures(folder / "val", 14, seed=2)
    return folder


@pytest.fixture
def imagenet(tmp_path):
    """As many class folders as ImageNet has, with two small images each, wider than high."""
    for part, shift in (("train", 0), ("val", 2)):
        for number, wnid in enumerate(wordnet_ids()):
            (tmp_path / part / wnid).mkdir(parents=True)
            for place in range(2):
                color = (number % 256, 64 * (number // 256), 60 * (place + shift))
                Image.new("RGB", (12, 8), color).save(tmp_path / part / wnid / f"{place}.png")
    return tmp_path


def words(home, out, *more):
    places = ("--train-images", home / "train", "--images", home / "val")
    return ("overlap", "run", "--preset", "imagenet-noc", *places, "--out", out, *more)


def test_the_preset_is_what_the_paper_says():
    """Section 4: SGD of momentum 0.9, weight decay 1e-4, 40 epochs, batches of 256."""
    own = NOC
    named = (
        "epochs",
        "batch_size",
        "lr",
        "schedule",
        "warmup",
        "weight_decay",
        "nesterov",
        "share",
    )
    recipe = Recipe(**{name: own[name] for name in (*named, "crop", "precision")})
    recipe.check()
    assert (recipe.epochs, recipe.batch_size, recipe.momentum) == (40, 256, 0.9)
    assert (recipe.weight_decay, recipe.flip, recipe.share) == (1e-4, 0.5, 0.5)
    assert not recipe.nesterov and recipe.mixup == recipe.stability == recipe.crop == 0
    # the rate is 0.1 and is divided by 10 at epochs 20 and 30
    rates = [
        recipe.lr_at(500 * epoch, recipe.length(500 * recipe.batch_size))
        for epoch in (0, 19, 20, 29, 30, 39)
    ]
    assert rates == pytest.approx([0.1, 0.1, 0.01, 0.01, 0.001, 0.001])
    # every tenth class; images resized to 224 x 224, not cropped
    assert own["every"] == 10 and own["stimulus"] == "224x224"


def test_the_network_has_the_usual_stem_and_size():
    """Its 11.69 million parameters and 1.81 billion multiplications are those of ResNet-18."""
    network = NETWORKS[str(NOC["arch"])](1000)
    assert sum(own.numel() for own in network.parameters()) == 11_689_512
    first = next(own for own in network.modules() if isinstance(own, torch.nn.Conv2d))
    assert first.kernel_size == (7, 7) and first.stride == (2, 2)
    counts = []

    def count(module, _, out):
        side = out.shape[-1] if out.ndim == 4 else 1
        counts.append(module.weight.numel() * side * side)

    for own in network.modules():
        if isinstance(own, torch.nn.Conv2d | torch.nn.Linear):
            own.register_forward_hook(count)
    with torch.no_grad():
        network.eval()(torch.zeros(1, 3, 224, 224))
    assert sum(counts) / 1e9 == pytest.approx(1.81, abs=0.01)


def record_of(told, out):
    assert told.status == 0, told.err
    return json.loads((out / "run.json").read_text())


def test_what_is_typed_goes_before_the_preset(run, home, tmp_path):
    own = (*SMALL, "--arch", "textures:network", "--every", 1)
    told = run(*words(home, tmp_path / "out", *own, *TWO))
    record = record_of(told, tmp_path / "out")
    assert (record["lr"], record["weight_decay"], record["share"]) == (0.1, 1e-4, 0.5)
    assert (record["epochs"], record["batch_size"], record["network"]) == (
        1,
        16,
        "textures:network",
    )
    assert record["stimulus"] == "32x32" and record["together"] == {}
    assert "Preset imagenet-noc: 2 corruptions, suites imagenet-noc instead of noc-cand" in told.out
    assert "1 epochs instead of 40, batch size 16 instead of 256, learning rate 0.1" in told.out
    assert "every 1 instead of 10" in told.out and "weight decay 0.0001" in told.out


def test_imagenet_100_is_every_tenth_class_by_wordnet_id():
    shuffled = sorted(wordnet_ids(), key=lambda wnid: wnid[::-1])
    images = [ListedImage(Path(wnid), wnid, wnid) for wnid in shuffled]
    kept = {image.label for image in every_class(images, int(NOC["every"]))}
    assert sorted(kept) == sorted(wordnet_ids())[::10] and len(kept) == 100


@pytest.mark.slow
def test_a_study_by_the_preset_is_of_imagenet_100_and_resnet_18(run, imagenet, tmp_path):
    told = run(*words(imagenet, tmp_path / "out", *SMALL, "--batch-size", 64, *TWO))
    record = record_of(told, tmp_path / "out")
    assert record["network"] == "imagenet_resnet18" and len(record["classes"]) == 100
    assert "imagenet_resnet18, every tenth class" in told.out


def test_the_whole_preset_has_both_benchmarks_of_the_paper():
    line = preset_line("imagenet-noc", STUDIES, NOC, 38)
    assert line.startswith(
        "Preset imagenet-noc: 38 corruptions, noc-candidates and imagenet-c, also"
    )
    for words in (
        "also both benchmarks together",
        "224x224 px",
        "40 epochs",
        "50% of a batch corr",
    ):
        assert words in line
    assert "nesterov" not in line


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--start", "net.pt"), "--preset imagenet-noc trains from scratch: omit --start"),
        (("--preset", "imagenet-nox"), "Did you mean 'imagenet-noc'"),
        (
            ("--images", "small", "--train-images", "small"),
            "expects 1,000 classes, but small has 3",
        ),
    ],
)
def test_what_the_preset_cannot_do_is_one_sentence(run, home, tmp_path, monkeypatch, more, says):
    monkeypatch.chdir(tmp_path)
    for name in "abc":
        (tmp_path / "small" / name).mkdir(parents=True)
        Image.new("RGB", (8, 8)).save(tmp_path / "small" / name / "one.png")
    assert_rejected(run(*words(home, tmp_path / "out", *more)), says)
    assert not list(tmp_path.rglob("*.pt"))
