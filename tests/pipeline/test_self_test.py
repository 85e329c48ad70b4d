"""Before a run every model is tried on a few images, and what makes its scores doubtful is told."""

import json
import time

import pytest
import torch

import eyechart as ec
import small_models
from commands import assert_rejected
from eyechart.core.progress import NO_PROGRESS
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
    "leaning": "in another order",
    "sigmoids": "between 0 and 1 that do not sum to 1",
    "sometimes_normalized": "sum to 1 for 4 of 8 images",
    "without_scale": "nearly the same probability",
    "one_hot": "even for images without content",
    "saturated": "even for images without content",
}


def notes_on(spec, images):
    return [doubt.sentence for doubt in self_test([load_model(spec, CPU)], images, NO_PROGRESS)]


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
    images = ec.load_images(folder, "native").select(range(count))
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
    notes = notes_on("doubtful_models:nearly_constant", images)
    assert not any("one class for" in note for note in notes)


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


def test_the_self_test_takes_a_few_dozen_predictions(folder, monkeypatch):
    monkeypatch.setattr(small_models, "told", [])
    images = ec.load_images(folder, "native")
    assert notes_on("small_models:slow_colors", images) == []
    assert sum(small_models.told) <= 30


@pytest.mark.parametrize(("per_image", "most"), [(0.02, 1.2), (0.08, 1.2), (0.12, 1.2)])
def test_the_self_test_takes_about_a_second_at_most(per_image, most, folder):
    asked = []

    def slow(images):
        asked.append(len(images))
        time.sleep(per_image * len(images))
        return small_models.colors(images)

    images = ec.load_images(folder, "native")
    start = time.monotonic()
    assert self_test([load_model(slow, CPU)], images, NO_PROGRESS) == []
    # counted, since the time itself depends on what else runs on the machine
    assert per_image * sum(asked) <= most
    assert len(asked) >= 4 and time.monotonic() - start < 10


def test_a_very_slow_model_is_tested_on_two_images(folder, monkeypatch):
    monkeypatch.setattr("eyechart.pipeline.self_test.SECONDS", 0.0)
    monkeypatch.setattr(small_models, "told", [])
    images = ec.load_images(folder, "native")
    assert notes_on("small_models:slow_colors", images) == []
    assert sum(small_models.told) <= 8
    for name in ("flipping", "normalized", "leaning", "constant"):
        assert len(notes_on(f"doubtful_models:{name}", images)) == 1


@pytest.mark.parametrize("name", ["probabilities", "certain_of_images"])
def test_sensible_probabilities_are_not_doubted(name, folder):
    assert notes_on(f"doubtful_models:{name}", ec.load_images(folder, "native")) == []


def test_scores_that_are_not_finite_are_an_error(folder):
    images = ec.load_images(folder, "native")
    with pytest.raises(ec.UsageError, match="finite class scores"):
        notes_on("small_models:only_nan", images)


def test_strict_makes_doubts_errors_before_the_run(run, folder, tmp_path):
    words = ("doubtful_models:flipping", "small_models:colors", "--images", folder, *SMALL)
    words += ("--corruption", "blur", "--out", tmp_path / "out")
    assert_rejected(run("evaluate", *words, "--strict"), "flipping is not deterministic")
    assert not list(tmp_path.glob("out/predictions/*"))
    sound = ("small_models:colors", *words[2:])
    assert run("evaluate", *sound, "--strict").status == 0


def test_strict_is_an_argument_in_python_too(folder):
    quick = {"n": 30, "bins": 6, "min_per_bin": 3, "n_bootstrap": 10, "corruptions": ["blur"]}
    with pytest.raises(ec.UsageError, match="constant gives the same scores"):
        ec.evaluate("doubtful_models:constant", folder, strict=True, **quick)
    with pytest.raises(ec.UsageError, match="strict must be True or False"):
        ec.evaluate("doubtful_models:constant", folder, strict="yes", **quick)
