"""Before a run every model is tried on a few images, and what makes its scores doubtful is told."""

import json

import pytest
import torch

import eyechart as ec
import small_models
from eyechart.core.progress import NoProgress
from eyechart.models.find import load_model
from eyechart.pipeline.self_test import self_test
from small_models import save_images

CPU = torch.device("cpu")
SMALL = ("--n", 30, "--bins", 6, "--min-per-bin", 3, "--n-bootstrap", 20, "--stimulus", "native")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_images(tmp_path_factory.mktemp("images") / "photos", each=3)


DOUBTFUL = {
    "chance": "is not deterministic",
    "dropping": "is not deterministic",
    "flipping": "is not deterministic",
    "normalized": "depend on the batch size",
    "fully_normalized": "depend on the batch size",
    "constant": "same scores to 8 different images",
    "nearly_constant": "one class for 8 images of 4 labels",
}


def notes_on(spec, images):
    return self_test([load_model(spec, CPU)], images, NoProgress())


@pytest.mark.parametrize("name", DOUBTFUL)
def test_what_makes_scores_doubtful_is_told(name, folder):
    images = ec.load_images(folder, "native")
    notes = notes_on(f"doubtful_models:{name}", images)
    assert all(name in note for note in notes)
    assert [DOUBTFUL[name] in note for note in notes].count(True) == 1


@pytest.mark.parametrize("name", ["colors", "pale_colors", "thousand", "four_classes"])
def test_a_model_that_depends_on_the_image_alone_is_not_doubted(name, folder):
    assert notes_on(f"small_models:{name}", ec.load_images(folder, "native")) == []


@pytest.mark.parametrize("count", [1, 2, 5])
def test_few_images_do(count, folder, tmp_path):
    images = ec.load_images(folder, "native").take(range(count))
    assert notes_on("small_models:thousand", images) == []
    assert len(notes_on("doubtful_models:flipping", images)) == 1


def test_images_of_several_sizes_do(tmp_path):
    save_images(tmp_path, each=1, side=40)
    save_images(tmp_path / "larger", each=1, side=56)
    for place in (tmp_path / "larger").iterdir():
        (place / "0.png").rename(tmp_path / place.name / "1.png")
        place.rmdir()
    (tmp_path / "larger").rmdir()
    images = ec.load_images(tmp_path, "native")
    assert len(set(images.sizes)) == 2
    assert len(notes_on("doubtful_models:fully_normalized", images)) == 1


def test_images_of_one_label_may_all_get_one_class(tmp_path):
    images = ec.load_images(save_images(tmp_path, each=6, tints=("green",)), "native")
    assert notes_on("doubtful_models:nearly_constant", images) == []


def test_doubts_stand_on_the_terminal_in_the_results_and_in_the_report(run, folder, tmp_path):
    given = ("doubtful_models:flipping", "small_models:colors", "--images", folder)
    result = run("evaluate", *given, *SMALL, "--corruption", "blur", "--out", tmp_path / "out")
    assert result.status == 0, result.err
    sentence = "flipping is not deterministic"
    # before the work, where it can still be stopped, and behind the scores
    assert sentence in result.err and sentence in result.out
    held = json.loads((tmp_path / "out" / "results.json").read_text("utf-8"))
    assert [sentence in warning for warning in held["warnings"]].count(True) == 1
    assert not any("colors" in warning for warning in held["warnings"])
    assert run("report", tmp_path / "out", "--out", tmp_path / "r.html").status == 0
    assert sentence in (tmp_path / "r.html").read_text("utf-8")


def test_the_self_test_takes_a_dozen_predictions(folder, monkeypatch):
    monkeypatch.setattr(small_models, "told", [])
    images = ec.load_images(folder, "native")
    assert notes_on("small_models:slow_colors", images) == []
    assert sum(small_models.told) <= 20
