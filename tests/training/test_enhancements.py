"""`eyechart train enhancements`: each row is what its network, trained and looked at so, does."""

import json

import numpy as np
import pytest
import torch
from PIL import Image

import published_scores as published
from commands import assert_rejected
from eyechart.cli.app import main
from eyechart.core.errors import UsageError
from eyechart.core.progress import NO_PROGRESS
from eyechart.core.storage.locks import lock_folder
from eyechart.images.imageset import load_images
from eyechart.models.checkpoint import read_checkpoint
from eyechart.models.defenses import equalize
from eyechart.models.find import load_model
from eyechart.models.networks import build_network
from eyechart.models.registries import NETWORKS
from eyechart.pipeline.settings import EvaluateSettings
from eyechart.training import enhancements
from eyechart.training.data import Transform, training_data
from eyechart.training.enhancements import Enhancement, EnhancementStudy, usual_enhancements
from eyechart.training.recipe import Recipe
from eyechart.training.training_loop import Training, train
from imagenet_names import VALIDATION_SET, save_archive
from textures import save_textures

CPU = torch.device("cpu")


def words(home, *more):
    return [
        str(word)
        for word in (
            "train", "enhancements", "textures:network", "--train-images", home / "train",
            "--images", home / "test", "--larger", "resnet9", "--corruption", "contrast",
            "--corruption", "gaussian_noise", "--epochs", 2, "--tuning-epochs", 1, "--batch-size",
            16,
            "--stimulus", "native", "--n-bootstrap", 50, "--out", home / "out", *more,
        )
    ]  # fmt: skip


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("enhancements")
    save_textures(folder / "train", 16, seed=1)
    save_textures(folder / "test", 4, seed=2)
    with pytest.raises(SystemExit) as stop:
        main(words(folder))
    assert stop.value.code == 0
    return folder


def results(home):
    return json.loads((home / "out" / "evaluation" / "results.json").read_text("utf-8"))


def test_every_enhancement_is_tested_and_divided_by_the_standard_network(home):
    models = results(home)["models"]
    assert len(models) == 7
    spaces = [model["spaces"]["native"] for model in models]
    assert {space["corruption_error"]["baseline"] for space in spaces} == {models[0]["name"]}
    first = spaces[0]["corruptions"]
    for space in spaces:
        for name, own in space["corruption_error"]["ce"].items():
            errors = [each[name]["error"]["value"] for each in (space["corruptions"], first)]
            assert own["value"] == pytest.approx(errors[0] / errors[1], abs=1e-9)


def test_a_defended_row_is_the_same_network_through_the_defense(home):
    names = [model["name"] for model in results(home)["models"]]
    assert sum(name.startswith("nlm+") for name in names) == 1
    assert sum(name.startswith("ten-crop+") for name in names) == 1
    assert sum(name.startswith("clahe+") for name in names) == 1


def test_networks_are_trained_further_from_the_standard_one_by_their_own_recipe(home):
    held = {path.stem: read_checkpoint(path) for path in (home / "out").glob("*.pt")}
    assert set(held) == {"standard", "further", "clahe", "stability-0.05-0.05", "network-1"}
    assert held["network-1"].network == "resnet9"
    starts = {held[name].recipe["settings"]["start"] for name in ("further", "clahe")}
    assert len(starts) == 1
    assert held["stability-0.05-0.05"].recipe["settings"]["stability"] == 0.05
    assert held["further"].recipe["settings"]["epochs"] == 1
    # equalized pictures lead elsewhere
    one, two = (held[name].weights["0.weight"] for name in ("further", "clahe"))
    assert not torch.equal(one, two)


def test_what_clahe_trains_on_is_what_it_looks_at():
    levels = np.random.default_rng(0).integers(0, 256, (2, 3, 24, 24), dtype=np.uint8)
    images = torch.from_numpy(levels)
    assert equalize(images).dtype == torch.uint8
    assert not torch.equal(equalize(images), images)


def test_the_same_command_again_trains_nothing(home, run):
    before = {path: path.stat().st_mtime_ns for path in (home / "out").glob("*.pt")}
    done = run(*words(home))
    assert done.status == 0
    assert {path: path.stat().st_mtime_ns for path in (home / "out").glob("*.pt")} == before
    for title in ("none (textures:network)", "1 more epochs", "CLAHE", "ten-crop", "resnet9"):
        assert title in done.out, done.out


def test_all_pairs_of_noise_and_weight_are_tried():
    found = usual_enhancements(["resnet18"], Recipe(epochs=1), [0.01, 0.1], [0.05, 0.5])
    stability = [each.recipe for each in found if each.name.startswith("stability")]
    pairs = {(each.stability_width, each.stability) for each in stability}
    assert pairs == {(0.01, 0.05), (0.01, 0.5), (0.1, 0.05), (0.1, 0.5)}
    assert len({each.name for each in found if each.recipe or each.network}) == 7


def without(given, option, value):
    """The words of a command without an option of that value."""
    pairs = zip(given, [*given[1:], ""], strict=True)
    place = next(n for n, pair in enumerate(pairs) if pair == (option, value))
    return [*given[:place], *given[place + 2 :]]


def pretrained_words(home, out, *more, is_small=True):
    """The network of another command, enhanced as it is; `is_small`: under one corruption."""
    given = words(home, "--pretrained", "--trust", *more, "--out", out)
    given[2] = str(home / "out" / "standard.pt")
    # what is trained from scratch has epochs
    given = without(given, "--epochs", "2")
    if is_small:
        return without(without(given, "--larger", "resnet9"), "--corruption", "gaussian_noise")
    # the other network is given with its weights too
    given[given.index("resnet9")] = str(home / "out" / "network-1.pt")
    return given


ERRORS = {"contrast": 0.5, "gaussian_noise": 0.8, "clean": 0.25}


@pytest.fixture(scope="module")
def table(home):
    path = home / "errors.csv"
    lines = (f"{name},{error}\n" for name, error in ERRORS.items())
    path.write_text("corruption,error\n" + "".join(lines), encoding="utf-8")
    return path


def assert_divided(space, errors):
    """By its definition: the mean error over the severities through that of the baseline."""
    assert space["corruption_error"]["ce"].keys() == space["corruptions"].keys()
    for name, own in space["corruption_error"]["ce"].items():
        expected = space["corruptions"][name]["error"]["value"] / errors[name]
        assert own["value"] == pytest.approx(expected, abs=1e-9)


def test_a_pretrained_network_is_tuned_to_the_weights_that_it_gets_after_its_own_training(
    home, table, run, tmp_path
):
    told = run(*pretrained_words(home, tmp_path / "out", "--baseline", table, is_small=False))
    assert told.status == 0, told.err
    made = {path.stem: read_checkpoint(path) for path in (tmp_path / "out").glob("*.pt")}
    # nothing is trained from scratch, neither it nor the other network
    assert set(made) == {"further", "clahe", "stability-0.05-0.05"}
    for name, own in made.items():
        expected = read_checkpoint(home / "out" / f"{name}.pt").weights
        assert all(torch.equal(own.weights[key], value) for key, value in expected.items())
    found = json.loads((tmp_path / "out" / "evaluation" / "results.json").read_text("utf-8"))
    spaces = {each["name"]: each["spaces"]["native"] for each in found["models"]}
    assert len(spaces) == 7
    for space in spaces.values():
        assert space["corruption_error"]["baseline"].startswith("errors.csv")
        assert_divided(space, ERRORS)
    # and they err as the same networks do in the other command
    before = [each["spaces"]["native"]["clean_accuracy"] for each in results(home)["models"]]
    assert [space["clean_accuracy"]["value"] for space in spaces.values()] == [
        each["value"] for each in before
    ]
    assert f"use the errors of {table} as the baseline" in told.out


def test_errors_can_be_divided_by_those_of_another_model(home, run, tmp_path):
    other = str(home / "out" / "further.pt")
    told = run(*pretrained_words(home, tmp_path / "out", "--baseline", other))
    assert told.status == 0, told.err
    found = json.loads((tmp_path / "out" / "evaluation" / "results.json").read_text("utf-8"))
    spaces = {each["name"]: each["spaces"]["native"] for each in found["models"]}
    errors = {name: own["error"]["value"] for name, own in spaces[other]["corruptions"].items()}
    for space in spaces.values():
        assert space["corruption_error"]["baseline"] == other
        assert_divided(space, errors)
    assert f"use the errors of {other} as the baseline" in told.out
    # with another model there are other answers, so it is another comparison
    again = run(*pretrained_words(home, tmp_path / "out"))
    assert_rejected(again, "another comparison", f"baseline: {other[:20]}")


def test_errors_are_divided_by_a_table_without_training_again(home, table, run, tmp_path):
    before = {path: path.stat().st_mtime_ns for path in (home / "out").glob("*.pt")}
    told = run(*words(home, "--baseline", table))
    assert told.status == 0, told.err
    assert {path: path.stat().st_mtime_ns for path in (home / "out").glob("*.pt")} == before
    for model in results(home)["models"]:
        assert_divided(model["spaces"]["native"], ERRORS)
    # as it was, for the other tests
    assert run(*words(home)).status == 0


def test_equalized_images_are_streamed_and_not_gathered(home, tmp_path, monkeypatch):
    """Read again batch by batch, they give the weights that files of equalized images give."""
    monkeypatch.setattr("eyechart.images.imageset.KEPT_SHARE", 0.0)
    images = load_images(home / "train", "native")
    data = training_data(images)
    assert data.pixels is None and not images.kept
    for place, own in enumerate(images.listed):
        path = tmp_path / "equalized" / own.name
        path.parent.mkdir(parents=True, exist_ok=True)
        levels = equalize(data.batch([place]))[0].permute(1, 2, 0).numpy()
        Image.fromarray(levels).save(path)
    given, sizes = [], []

    def note(batch):
        sizes.append(len(batch))
        return equalize(batch)

    def watched(training, *more):
        given.append(training.data)
        return train(training, *more)

    monkeypatch.setattr(enhancements, "EQUALIZED", Transform("clahe", note))
    monkeypatch.setattr(enhancements, "train", watched)
    monkeypatch.setattr("eyechart.training.image_blocks.BLOCK_PIXELS", {"cpu": 1})
    recipe = Recipe(epochs=1, batch_size=8, lr=0.05)
    tuned = Enhancement("CLAHE", "clahe", recipe=recipe, equalized=True)
    model = load_model(str(home / "out" / "standard.pt"), CPU, half=False, trust=True)
    asked = EnhancementStudy(
        str(home / "out" / "standard.pt"), recipe, (tuned,), EvaluateSettings(images="images"),
        tmp_path / "out",
        is_pretrained=True,
    )  # fmt: skip
    asked.out.mkdir()
    enhancements._train_all(asked, model, data, CPU, NO_PROGRESS)
    # once the first images are looked at, at most 64; then come the batches
    assert [own.pixels for own in given] == [None] and sizes == [48, *[8] * 6]
    plain = training_data(load_images(tmp_path / "equalized", "native"))
    start = enhancements._tuned_start(asked, model, plain)
    train(Training(start, plain, recipe), CPU, tmp_path / "plain.pt", NO_PROGRESS)
    made, expected = (read_checkpoint(path).weights for path in
                      (tmp_path / "out" / "clahe.pt", tmp_path / "plain.pt"))  # fmt: skip
    assert all(torch.equal(made[key], own) for key, own in expected.items())
    # a training with images as they are is another one
    with pytest.raises(UsageError, match="transform: clahe, now None"):
        start = enhancements._tuned_start(asked, model, data)
        train(Training(start, data, recipe), CPU, tmp_path / "out" / "clahe.pt", NO_PROGRESS)


@pytest.mark.slow
def test_ten_crops_are_tested_on_uncropped_images(home, run, tmp_path):
    given = pretrained_words(home, tmp_path / "out", "--stimulus", "224", "--max-images", 3)
    told = run(*given)
    assert told.status == 0, told.err
    models = {}
    for folder in ("evaluation", "evaluation-uncropped"):
        found = json.loads((tmp_path / "out" / folder / "results.json").read_text("utf-8"))
        models[folder] = {each["name"]: each["spaces"]["native"] for each in found["models"]}
    standard = str(home / "out" / "standard.pt")
    assert not any(name.startswith("ten-crop") for name in models["evaluation"])
    one, ten = models["evaluation-uncropped"].items()
    assert (one[0], ten[0]) == (f"center-crop+{standard}", f"ten-crop+{standard}")
    # of a clean image the middle of the uncropped one is what the others see
    assert (
        one[1]["clean_accuracy"]["value"]
        == (models["evaluation"][standard]["clean_accuracy"]["value"])
    )
    assert ten[1]["corruption_error"]["baseline"] == one[0]
    assert "tested on uncropped images" in told.out


@pytest.mark.parametrize(
    ("more", "part"),
    [
        (("--epochs", 3), "--tuning-epochs"),
        (("--lr", 0.01), "--tuning-lr"),
        (("--schedule", "cosine"), "--schedule"),
        (("--warmup", 1), "--warmup"),
        (("--baseline", "none"), "baseline must be standard"),
        (("--baseline", "alexnett"), "alexnett"),
        (("--baseline", "alexnet"), "ImageNet"),
        (("--baseline", "missing.csv"), "missing.csv"),
        (("--baseline", "missing.pt"), "missing.pt"),
        (("--larger", "missing.pt"), "missing.pt"),
    ],
)
def test_a_pretrained_network_that_cannot_be_enhanced_so_is_one_sentence(
    home, run, tmp_path, more, part
):
    assert_rejected(run(*pretrained_words(home, tmp_path / "out", *more)), part)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("model", "part"),
    [("small_models:colors", "no parameters to train"), ("nothing.pt", "nothing.pt")],
)
def test_what_cannot_be_trained_is_one_sentence(home, run, tmp_path, model, part):
    given = pretrained_words(home, tmp_path / "out")
    given[2] = model
    assert_rejected(run(*given), part)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("more", "part"),
    [
        (("--larger", "resnet9"), "once"),
        (("--larger", "resnet10"), "resnet10"),
        (("--epochs", 0), "epochs"),
        (("--tuning-lr", 0), "--tuning-lr"),
        (("--tuning-epochs", 0), "--tuning-epochs"),
        (("--suite", "nothing"), "nothing"),
        (("--device", "cuda:99"), "cuda"),
    ],
)
def test_what_makes_no_sense_is_one_sentence(home, run, more, part):
    assert_rejected(run(*words(home, *more, "--out", home / "other")), part)
    # and before anything is trained
    assert not list((home / "other").glob("*"))


def test_a_class_that_was_not_trained_with_is_rejected_before_training(home, run, tmp_path):
    save_textures(tmp_path / "test", 4, seed=2)
    next((tmp_path / "test").iterdir()).rename(tmp_path / "test" / "violet")
    told = run(*words(home, "--images", tmp_path / "test", "--out", tmp_path / "out"))
    assert_rejected(told, "no images of the class 'violet'", "remove the class")
    assert not list((tmp_path / "out").glob("*.pt"))


@pytest.mark.parametrize(
    ("names", "table"),
    [
        (published.robustbench_names(), "robustbench-alexnet"),
        pytest.param(VALIDATION_SET, "alexnet", marks=pytest.mark.slow),
    ],
)
def test_a_published_table_is_accepted_on_the_images_it_is_valid_for(
    home, run, tmp_path, names, table
):
    """Without training for hours: what is checked next is that the training images lack classes."""
    images = save_archive(tmp_path / "val.tar", names)
    given = ("train", "enhancements", "resnet9", "--train-images", home / "train")
    options = ("--images", images, "--baseline", table, "--out", tmp_path / "out")
    rejected = run(*given, *options)
    assert_rejected(rejected, "is valid for files of JPEG quality 85", "give --jpeg 85")
    assert_rejected(run(*given, *options, "--jpeg", 85), "has no images of the class 'n")


def test_another_comparison_is_rejected_before_training(home, run):
    before = sorted(path.name for path in (home / "out").iterdir())
    told = run(*words(home, "--larger", "resnet18"))
    assert_rejected(told, "another comparison", "enhancements: now also resnet18", "--out")
    told = run(*("resnet9" if each == "textures:network" else each for each in words(home)))
    assert_rejected(told, "network: textures:network, now resnet9")
    assert sorted(path.name for path in (home / "out").iterdir()) == before


def test_a_stop_before_anything_was_made_says_so(home, run, tmp_path, monkeypatch):
    def stop(*given):
        raise KeyboardInterrupt

    monkeypatch.setattr(enhancements, "training_data", stop)
    told = run(*words(home, "--out", tmp_path / "out"))
    assert told.status == 130 and "before anything was written" in told.err
    assert not (tmp_path / "out").exists()


def test_another_recipe_does_not_overwrite_what_is_there(home, run):
    assert_rejected(run(*words(home, "--lr", 0.05)), "different configuration", "lr")


@pytest.mark.parametrize("side", [8, 31, 32, 64])
def test_the_multi_scale_network_takes_any_size_and_every_scale_counts(side):
    assert "multigrid" in NETWORKS
    torch.manual_seed(0)
    network = build_network("multigrid", 7).eval()
    images = torch.rand(2, 3, side, side, requires_grad=True)
    scores = network(images)
    assert scores.shape == (2, 7)
    assert network.head.in_features == 3 * 128
    scores.sum().backward()
    assert all(own.grad is not None and own.grad.abs().sum() > 0 for own in network.parameters())


def test_a_second_comparison_in_the_same_folder_is_rejected_before_any_work(home, run, tmp_path):
    out = tmp_path / "out"
    with lock_folder(out):
        told = run(*words(home, "--out", out, "--images", tmp_path / "none"))
        assert_rejected(told, "Another run is writing", str(out))
    assert not out.exists()


def test_a_folder_in_which_nothing_can_be_written_is_told_before_any_work(home, run, tmp_path):
    told = run(*words(home, "--out", "/proc/out", "--images", tmp_path / "none"))
    assert_rejected(told, "Cannot write into /proc/out")
