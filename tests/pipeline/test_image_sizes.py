"""The stimulus follows the images, and sizes that do not fit are noticed."""

import json

import pytest
import torch
from PIL import Image
from torch import nn

import eyechart as ec
from commands import assert_rejected
from eyechart.images.stimulus import usual_stimulus
from eyechart.models.model import Model, Preprocessing
from small_models import save_images

QUICK = {"n": 30, "bins": 6, "min_per_bin": 3, "n_bootstrap": 10, "corruptions": ["brightness"]}


def colors(images):
    red, green, blue = images.mean(dim=(2, 3)).unbind(1)
    return 20 * torch.stack([blue - red, green - red, red - green, red - blue], dim=1)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """Images of 32 px."""
    return save_images(tmp_path_factory.mktemp("small"), each=2, side=32)


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    """Images of 32 px, and one of 40."""
    folder = save_images(tmp_path_factory.mktemp("mixed"), each=2, side=32)
    path = folder / "red" / "0.png"
    Image.open(path).resize((40, 40)).save(path)
    return folder


@pytest.mark.parametrize(
    ("sizes", "name"),
    [
        ([(32, 32)] * 3, "native"),
        ([(28, 28)], "native"),
        ([(64, 48)] * 2, "native"),
        ([(96, 96)] * 2, "native"),
        ([(112, 112)] * 2, "224"),
        ([(224, 224)] * 2, "224"),
        ([(375, 500), (500, 375)], "224"),
        ([(32, 32), (33, 32)], "224"),
        # too small for visual change unless enlarged
        ([(16, 16)] * 2, "224"),
        ([None, (32, 32)], "native"),
        ([None], "224"),
    ],
)
def test_small_images_of_one_size_keep_it(sizes, name):
    assert usual_stimulus(sizes) == name


def test_only_as_many_files_are_opened_as_are_needed():
    sizes = iter([(375, 500), (32, 32)])
    assert usual_stimulus(sizes) == "224"
    assert next(sizes) == (32, 32)


def test_a_dataset_of_small_images_is_evaluated_at_their_size(small, tmp_path):
    results = ec.evaluate(colors, small, out=tmp_path, **QUICK)
    assert results.images.stimulus == "native"
    assert json.loads((tmp_path / "run.json").read_text("utf-8"))["stimulus"] == "native"
    assert [note for note in results.warnings if "32 × 32 px" in note and "--stimulus" in note]
    # with the stimulus named, the run is the same and resumes
    again = ec.evaluate(colors, small, out=tmp_path, stimulus="native", **QUICK)
    assert again.models == results.models
    with pytest.raises(ec.UsageError, match=r"stimulus: native, now 224"):
        ec.evaluate(colors, small, out=tmp_path, stimulus="224", **QUICK)


@pytest.mark.parametrize("stimulus", ["auto", "112"])
def test_small_images_that_are_enlarged_are_noticed(mixed, stimulus):
    results = ec.evaluate(colors, mixed, stimulus=stimulus, **QUICK)
    assert results.images.stimulus == stimulus.replace("auto", "224")
    (note,) = (note for note in results.warnings if "enlarged" in note)
    assert note.startswith("8 of 8 images") and "--stimulus native" in note


def test_a_few_small_images_among_large_ones_are_not_noticed(tmp_path):
    save_images(tmp_path, each=3, side=120)
    path = tmp_path / "red" / "0.png"
    Image.open(path).resize((32, 32)).save(path)
    images = ec.load_images(tmp_path, "auto")
    assert (images.stimulus.name, images.notes) == ("224", ())


def test_a_test_set_brings_its_stimulus_along(small, tmp_path):
    testset = ec.sample_testset(small, n=30, corruptions=["brightness"], stimulus="48")
    testset.save(tmp_path / "testset.parquet")
    quick = {key: value for key, value in QUICK.items() if key not in ("n", "corruptions")}
    results = ec.evaluate(colors, small, testset=tmp_path / "testset.parquet", **quick)
    assert results.images.stimulus == "48"
    assert ec.sample_testset(small, n=8, corruptions=["brightness"]).header.stimulus == "native"


class Fixed(nn.Module):
    """A network for images of one size, as a vision transformer is."""

    def __init__(self, side=224):
        super().__init__()
        self.side, self.layer = side, nn.Linear(3, 4)

    def forward(self, images):
        height = images.shape[2]
        assert height == self.side, f"Input height ({height}) doesn't match model ({self.side})."
        return self.layer(images.mean(dim=(2, 3)))


def flat():
    return nn.Sequential(nn.AvgPool2d(4), nn.Flatten(), nn.Linear(3 * 56 * 56, 4))


def deep():
    """Five times halved, and then a kernel that needs 7 px."""
    halves = [nn.Sequential(nn.Conv2d(3 if i == 0 else 4, 4, 3, 2, 1)) for i in range(5)]
    return nn.Sequential(*halves, nn.Conv2d(4, 4, 7), nn.Flatten(), nn.Linear(4, 4))


def pooled():
    return nn.Sequential(*(nn.MaxPool2d(2) for _ in range(6)), nn.Flatten(), nn.Linear(27, 4))


class Embedded(nn.Module):
    """Adds an embedding of 14 × 14 positions."""

    def __init__(self):
        super().__init__()
        self.positions = nn.Parameter(torch.zeros(3, 14, 14))

    def forward(self, images):
        tokens = nn.functional.avg_pool2d(images, 16) + self.positions
        return tokens.flatten(1)[:, :4]


@pytest.mark.parametrize("network", [Fixed, flat, deep, pooled, Embedded])
def test_a_network_of_another_size_fails_with_a_sentence_that_names_the_option(network, small):
    with pytest.raises(ec.UsageError, match=r"--stimulus .*\.$") as error:
        ec.evaluate(network(), small, **QUICK)
    assert "(2, 3, 32, 32)" in str(error.value)
    assert str(error.value).count(". ") == 0
    ec.evaluate(network(), small, stimulus="224", **QUICK)


def test_the_sentence_is_the_same_on_the_command_line(run, small, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sized_model.py").write_text(
        "from torch import nn\nnet = nn.Sequential(nn.Flatten(), nn.Linear(150528, 4))\n"
    )
    words = ("--images", small, "--n", 30, "--corruption", "brightness", "--out", tmp_path / "out")
    assert_rejected(run("evaluate", "sized_model:net", *words), "sized_model:net", "--stimulus")


def test_other_errors_do_not_name_the_size(small):
    def broken(images):
        raise RuntimeError("no such layer")

    with pytest.raises(ec.UsageError, match="no such layer") as error:
        ec.evaluate(broken, small, **QUICK)
    assert "stimulus" not in str(error.value)


@pytest.mark.parametrize(
    ("side", "words"),
    [(224, "enlarges the corrupted images of 32 px to its input of 224 px"), (40, None)],
)
def test_a_model_whose_input_differs_is_noticed(side, words, small):
    network = nn.Sequential(nn.Flatten(), nn.Linear(3 * side * side, 4))
    model = Model("net", network, preprocessing=Preprocessing(side))
    results = ec.evaluate(model, small, **QUICK)
    notes = [note for note in results.warnings if "its input" in note]
    assert [f"net {words}" in note for note in notes] == ([True] if words else [])
