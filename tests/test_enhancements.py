"""`eyechart train enhancements`: each row is what its network, trained and looked at so, does."""

import json

import numpy as np
import pytest
import torch

from commands import assert_refused
from eyechart.cli.app import main
from eyechart.models.checkpoint import read_checkpoint
from eyechart.models.networks import NETWORKS, build_network
from eyechart.training import enhancements
from eyechart.training.clahe import equalise
from eyechart.training.enhancements import usual_enhancements
from eyechart.training.recipe import Recipe
from textures import save_textures


def words(home, *more):
    return [
        str(word)
        for word in (
            "train", "enhancements", "textures:network", "--train-images", home / "train",
            "--images", home / "test", "--larger", "resnet9", "--corruption", "contrast",
            "--corruption", "gaussian_noise", "--epochs", 2, "--tuning-epochs", 1, "--batch", 16,
            "--stimulus", "native", "--replicates", 50, "--out", home / "out", *more,
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


def test_a_defended_row_is_the_same_network_through_the_defence(home):
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
    # equalised pictures lead elsewhere
    one, two = (held[name].weights["0.weight"] for name in ("further", "clahe"))
    assert not torch.equal(one, two)


def test_what_clahe_trains_on_is_what_it_looks_at():
    levels = np.random.default_rng(0).integers(0, 256, (2, 3, 24, 24), dtype=np.uint8)
    pictures = torch.from_numpy(levels)
    assert equalise(pictures).dtype == torch.uint8
    assert not torch.equal(equalise(pictures), pictures)


def test_the_same_command_again_trains_nothing(home, run):
    before = {path: path.stat().st_mtime_ns for path in (home / "out").glob("*.pt")}
    done = run(*words(home))
    assert done.status == 0
    assert {path: path.stat().st_mtime_ns for path in (home / "out").glob("*.pt")} == before
    for title in ("none (textures:network)", "1 epochs more", "CLAHE", "ten-crop", "resnet9"):
        assert title in done.out, done.out


def test_all_pairs_of_noise_and_weight_are_tried():
    found = usual_enhancements(["resnet18"], Recipe(epochs=1), [0.01, 0.1], [0.05, 0.5])
    stability = [each.recipe for each in found if each.name.startswith("stability")]
    pairs = {(each.stability_width, each.stability) for each in stability}
    assert pairs == {(0.01, 0.05), (0.01, 0.5), (0.1, 0.05), (0.1, 0.5)}
    assert len({each.name for each in found if each.recipe or each.network}) == 7


@pytest.mark.parametrize(
    ("more", "part"),
    [
        (("--larger", "resnet9"), "once"),
        (("--larger", "resnet10"), "resnet10"),
        (("--epochs", 0), "epochs"),
        (("--tuning-rate", 0), "--tuning-rate"),
        (("--tuning-epochs", 0), "--tuning-epochs"),
        (("--suite", "nothing"), "nothing"),
        (("--device", "cuda:99"), "cuda"),
    ],
)
def test_what_makes_no_sense_is_one_sentence(home, run, more, part):
    assert_refused(run(*words(home, *more, "--out", home / "other")), part)
    # and before anything is trained
    assert not list((home / "other").glob("*"))


def test_a_class_that_was_not_trained_with_is_refused_before_training(home, run, tmp_path):
    save_textures(tmp_path / "test", 4, seed=2)
    next((tmp_path / "test").iterdir()).rename(tmp_path / "test" / "violet")
    told = run(*words(home, "--images", tmp_path / "test", "--out", tmp_path / "out"))
    assert_refused(told, "no pictures of the class 'violet'", "take the class out")
    assert not list((tmp_path / "out").glob("*.pt"))


def test_another_comparison_is_refused_before_training(home, run):
    before = sorted(path.name for path in (home / "out").iterdir())
    told = run(*words(home, "--larger", "resnet18"))
    assert_refused(told, "another comparison", "enhancements: now also resnet18", "--out")
    told = run(*("resnet9" if each == "textures:network" else each for each in words(home)))
    assert_refused(told, "network: textures:network, now resnet9")
    assert sorted(path.name for path in (home / "out").iterdir()) == before


def test_a_stop_before_anything_was_made_says_so(home, run, tmp_path, monkeypatch):
    def stop(*given):
        raise KeyboardInterrupt

    monkeypatch.setattr(enhancements, "training_data", stop)
    told = run(*words(home, "--out", tmp_path / "out"))
    assert told.status == 130 and "before anything was made" in told.err
    assert not (tmp_path / "out").exists()


def test_another_recipe_does_not_overwrite_what_is_there(home, run):
    assert_refused(run(*words(home, "--rate", 0.05)), "another configuration", "rate")


@pytest.mark.parametrize("side", [8, 31, 32, 64])
def test_the_multi_scale_network_takes_any_size_and_every_scale_counts(side):
    assert "multigrid" in NETWORKS
    torch.manual_seed(0)
    network = build_network("multigrid", 7).eval()
    pictures = torch.rand(2, 3, side, side, requires_grad=True)
    scores = network(pictures)
    assert scores.shape == (2, 7)
    assert network.head.in_features == 3 * 128
    scores.sum().backward()
    assert all(own.grad is not None and own.grad.abs().sum() > 0 for own in network.parameters())
