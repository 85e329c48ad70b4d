"""Before a run, accuracy on a few clean images shows whether labels match the outputs."""

import csv

import numpy as np
import pytest
import torch
from PIL import Image

import eyechart as ec
from commands import assert_rejected
from eyechart.images.image_sources import demo_images
from eyechart.images.imageset import load_images
from eyechart.models.find import load_model
from eyechart.models.model import Model
from eyechart.pipeline.model_check import check_matching
from small_models import ten_levels

ANIMALS = ("zebra", "yak", "wolf", "viper", "turtle", "tiger", "swan", "seal", "rabbit", "quail")
"""The order of the outputs of `ten_levels`."""

SMALL = (
    *("--n", 40, "--bins", 6, "--min-per-bin", 2, "--n-bootstrap", 10, "--stimulus", "native"),
    *("--corruption", "brightness", "--humans", "none"),
)


@pytest.fixture(scope="module")
def animals(tmp_path_factory):
    """Folders of four images of each class; the names are not in the order of the outputs."""
    home = tmp_path_factory.mktemp("animals") / "images"
    random = np.random.default_rng(0)
    for index, name in enumerate(ANIMALS):
        (home / name).mkdir(parents=True)
        for number in range(4):
            noise = random.normal(255 * (0.05 + 0.1 * index), 4, (32, 32, 3))
            pixels = noise.clip(0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(home / name / f"{number}.png")
    return home


@pytest.fixture
def evaluate(run, animals, tmp_path):
    def call(*options):
        asked = ("--images", animals, "--out", tmp_path / "out", *SMALL, *options)
        return run("evaluate", "small_models:ten_levels", *asked)

    return call


def test_folders_in_another_order_than_the_outputs_stop_the_run_before_it_begins(
    evaluate, tmp_path
):
    result = evaluate()
    assert_rejected(
        result,
        "correct for 0 of 40 clean images, which is not above chance (1 of 10)",
        "10 labels are matched with 10 outputs in alphabetical order (quail → 0, …, zebra → 9)",
        "--label-map FILE",
        "--accept-labels",
    )
    assert not (tmp_path / "out").exists()


def test_labels_are_accepted_if_asked_for(evaluate):
    result = evaluate("--accept-labels")
    assert result.status == 0
    sentence = "Plan: 10 labels are matched with 10 outputs in alphabetical order (quail → 0, …"
    assert sentence in result.err


def test_a_label_map_names_the_outputs(evaluate, tmp_path):
    path = tmp_path / "outputs.txt"
    path.write_text("\n".join(ANIMALS))
    result = evaluate("--label-map", path)
    assert result.status == 0, result.err
    assert "10 labels are matched with 10 outputs by name (zebra → 0, …, quail → 9)" in result.err
    assert ec.load(tmp_path / "out").models[0].clean_accuracy > 0.9


def test_python_raises(animals):
    options = {"n": 40, "stimulus": "native", "corruptions": ["brightness"], "humans": None}
    few = {"bins": 6, "min_per_bin": 2, "n_bootstrap": 10}
    with pytest.raises(ec.UsageError, match="not above chance"):
        ec.evaluate(ten_levels, animals, **options, **few)
    assert ec.evaluate(ten_levels, animals, accept_labels=True, **options, **few).models


# The packaged networks


def write_list(path, offset):
    """Write a list of the demo images, with numbers that are off by so many."""
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["path", "label"])
        rows.writerows([image.path, int(image.label) + offset] for image in demo_images())
    return path


def test_numbers_that_are_off_by_one_stop_a_run_of_a_packaged_network(run, tmp_path):
    shifted = write_list(tmp_path / "images.csv", offset=1)
    asked = ("--n", 20, "--corruption", "brightness", "--humans", "none", "--out", tmp_path / "out")
    result = run("evaluate", "efficientnet_lite0", "--images", shifted, *asked)
    assert_rejected(result, "not above chance (1 of 1,000)", "outputs by number", "--accept-labels")


def test_a_packaged_network_runs_with_the_right_numbers(tmp_path):
    path = write_list(tmp_path / "images.csv", offset=0)
    model = load_model("efficientnet_lite0", torch.device("cpu"))
    (sentence,) = check_matching([model], load_images(path), "native", False)
    assert "19 labels are matched with 1,000 outputs by number" in sentence


# How often it stops


def told(n: int, n_classes: int, rate: float, seed: int, published: float | None = None) -> bool:
    """Return whether a model with this accuracy stops, on n images of so many classes."""
    random = np.random.default_rng((seed, n, n_classes))
    labels = random.permutation(np.arange(n) % n_classes)
    is_correct = random.random(n) < rate
    classes = np.where(is_correct, labels, (labels + random.integers(1, n_classes, n)) % n_classes)
    # the pixels of an image say what the model predicts
    pixels = np.zeros((n, 20, 20, 3), dtype=np.uint8)
    pixels[..., 0] = (classes // 256)[:, None, None]
    pixels[..., 1] = (classes % 256)[:, None, None]
    # images must differ
    pixels[:, 0, 0, 2], pixels[:, 0, 1, 2] = np.arange(n) // 256, np.arange(n) % 256

    def forward(images):
        values = (255 * images[:, :2, 1, 1]).round().long()
        return torch.nn.functional.one_hot(256 * values[:, 0] + values[:, 1], n_classes).float()

    model = Model("m", forward, classes=n_classes, published_accuracy=published)
    names = [f"{label:04d}" for label in range(n_classes)]
    model.class_names = tuple(names)
    images = load_images((pixels, np.array([names[label] for label in labels])), "native")
    try:
        check_matching([model], images, "native", False)
    except ec.UsageError:
        return True
    return False


@pytest.mark.parametrize("n_classes", [2, 10, 1000])
@pytest.mark.parametrize("n", [1, 2, 4, 10, 16])
def test_tiny_test_sets_do_not_stop_a_useful_model(n, n_classes):
    rate = {2: 0.8, 10: 0.5, 1000: 0.3}[n_classes]
    assert sum(told(n, n_classes, rate, seed) for seed in range(20)) == 0


@pytest.mark.parametrize(("n_classes", "rate"), [(1000, 0.2), (10, 0.4), (2, 0.7)])
@pytest.mark.parametrize("n", [30, 64, 200])
def test_weak_models_are_not_stopped(n, n_classes, rate):
    assert sum(told(n, n_classes, rate, seed) for seed in range(30)) <= 1


@pytest.mark.parametrize(
    ("n", "n_classes", "rate"), [(64, 1000, 0.001), (40, 1000, 0.0), (40, 10, 0.0), (30, 2, 0.05)]
)
def test_models_with_wrong_labels_are_stopped(n, n_classes, rate):
    assert sum(told(n, n_classes, rate, seed) for seed in range(20)) >= 19


def test_accuracy_below_half_of_the_published_one_on_all_classes_stops():
    assert sum(told(100, 20, 0.15, seed, published=0.8) for seed in range(10)) >= 8
    assert sum(told(100, 20, 0.6, seed, published=0.8) for seed in range(10)) == 0
    # images of some of the classes may be harder than those of all
    assert sum(told(64, 1000, 0.25, seed, published=0.8) for seed in range(10)) == 0


def test_a_model_that_is_known_to_be_good_is_stopped_with_fewer_images():
    assert told(12, 1000, 0.0, 0, published=0.75) and not told(12, 1000, 0.0, 0)


def test_without_labels_nothing_is_matched(animals):
    model = Model("m", ten_levels)
    images = load_images(animals, "native")
    assert check_matching([model], images, "none", False) == []
