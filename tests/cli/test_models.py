"""`eyechart models check`: what goes in, how much is right, and whether other input were better."""

from importlib.util import find_spec

import numpy as np
import pytest
import torch
from scipy.stats import binom

from commands import assert_rejected
from eyechart.images.imageset import load_images
from eyechart.models.find import load_model
from eyechart.pipeline.model_check import NORMALISATIONS, _compared, check_model
from eyechart.pipeline.settings import ModelCheckSettings
from outside import outside
from small_models import save_images

CPU = torch.device("cpu")

TOP1 = {
    "efficientnet_lite0": 0.823,
    "efficientnet_lite1": 0.830,
    "efficientnet_lite2": 0.829,
    "mobilenet_v1_0.25_128_quant": 0.525,
    "mobilenet_v1_0.5_160_quant": 0.686,
    "mobilenet_v1_0.75_192_quant": 0.756,
    "mobilenet_v2_1.0_224_quant": 0.792,
    "mobilenet_edgetpu_0.75_224_post_training_quant": 0.735,
}
"""The share of the photographs that others' code was seen to get right with these weights."""

UNMATCHED = ("mobilenet_v1_0.25_128_quant", "mobilenet_v1_0.75_192_quant")
"""Those that are 1.4 and 1.5 points off: nobody wrote down how pictures were made smaller, and that
alone moves the former between 48 and 58 %."""


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    return save_images(tmp_path_factory.mktemp("photos"), 12)


def card(folder, text, model="small_models:colors"):
    path = folder / "card.yaml"
    path.write_text(f"model: {model}\n{text}\n")
    return path


def test_a_model_that_is_fed_right_passes(photos, tmp_path, run):
    result = run("models", "check", card(tmp_path, "top1: 0.7"), "--images", photos, "--n", 30)
    assert result.status == 0, result.err
    assert "side unchanged, mean [0, 0, 0], std [1, 1, 1], RGB" in result.out
    assert "outputs: 4" in result.out
    assert "of 48 images (95 % interval" in result.out
    assert "published accuracy (its makers or its card): 70.0%; exceeded" in result.out
    assert "7 variants on 30 images: none is significantly better" in result.out
    assert not result.err


def test_top1_and_its_interval_are_those_of_the_predictions(photos):
    images = load_images(photos)
    model = load_model("small_models:pale_colors", CPU)
    found = check_model(model, images)
    places = list(range(len(images)))
    names = sorted({label for label in images.labels})
    truth = [names.index(label) for label in images.labels]
    right = int((model(images.batch(places)).argmax(1).numpy() == truth).sum())
    assert (found.right, found.n_images) == (right, 48)
    low, high = found.interval
    # Wilson's ends are where the observed share is 1.96 standard errors away.
    for end in (low, high):
        error = (end * (1 - end) / 48) ** 0.5
        assert abs(found.top1 - end) == pytest.approx(1.959964 * error, rel=1e-5)


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("mean: [0.45, 0, 0]", "mean: [0, 0, 0]  and  std: [1, 1, 1]"),
        ("channels: bgr", "channels: rgb"),
    ],
)
def test_a_wrong_input_is_told_with_what_to_write_instead(photos, tmp_path, run, text, advice):
    result = run("models", "check", card(tmp_path, text), "--images", photos)
    assert result.status == 1
    assert f"write  {advice}  into its card." in result.err
    assert len(result.err.strip().splitlines()) == 1


def test_outputs_that_are_one_off_are_told(photos, tmp_path, run, monkeypatch):
    names = tmp_path / "names.txt"
    names.write_text("red\nblue\ngreen\ngrey\n")
    result = run("models", "check", card(tmp_path, "outputs: names.txt"), "--images", photos)
    assert result.status == 1 and "the output after the best" in result.err
    assert (
        ": write  outputs: FILE  into its card, where line n of FILE names the class of output n,"
        " which seems to be the class after the assumed one.\n"
    ) in result.err
    names.write_text("blue\ngreen\ngrey\nred\n")
    assert run("models", "check", tmp_path / "card.yaml", "--images", photos).status == 0


def test_less_than_promised_fails_and_within_a_point_does_not(photos, tmp_path, run):
    found = check_model(load_model("small_models:pale_colors", CPU), load_images(photos))
    most = found.interval[1]
    assert most < 0.95
    for published_accuracy, status in ((most + 0.005, 0), (most + 0.015, 1)):
        result = run(
            "models",
            "check",
            "small_models:pale_colors",
            "--images",
            photos,
            "--expect",
            published_accuracy,
        )
        assert result.status == status, result.out + result.err
        assert ("below the published" in result.err) == bool(status)
        assert len(result.err.strip().splitlines()) == status
    result = run("models", "check", "small_models:colors", "--images", photos, "--expect", 0.3)
    assert result.status == 0 and "may be easier" in result.out


def test_the_paired_test_is_mcnemars_and_counts_how_many_were_tried():
    before = np.array([True] * 50 + [False] * 30)
    after = np.array([False] * 4 + [True] * 46 + [True] * 20 + [False] * 10)
    trial = _compared("other", "advice", before, after, 5)
    assert (trial.before, trial.after, trial.n_images) == (50, 66, 80)
    assert trial.p_value == pytest.approx(5 * 2 * binom.cdf(4, 24, 0.5))
    assert not trial.is_clearly_better
    assert _compared("same", "", before, before, 5).p_value == 1
    assert _compared("all", "", before, np.ones(80, bool), 5).is_clearly_better


def test_an_input_that_a_model_cannot_predict_is_no_better(photos):
    def picky(x):
        if x.max() > 1 or x.min() < 0:
            raise ValueError("not 0…1")
        return x.mean(dim=(2, 3)).repeat(1, 2)[:, :4]

    found = check_model(load_model(picky, CPU), load_images(photos), ModelCheckSettings(n=8))
    assert [trial.name for trial in found.trials] == [
        "channels as BGR",
        "the output after the best",
        "the output before the best",
    ]


def test_the_same_normalisation_is_not_tried_again(photos, tmp_path):
    images = load_images(photos)
    for name, (mean, std) in NORMALISATIONS.items():
        text = f"mean: {list(mean)}\nstd: {list(std)}"
        model = load_model(str(card(tmp_path, text)), CPU)
        tried = [trial.name for trial in check_model(model, images, ModelCheckSettings(n=1)).trials]
        assert f"normalized as {name}" not in tried
        # −1…1 and (level − 127)/128 are all but the same
        assert len(tried) == 7, tried


def test_only_labeled_images_are_looked_at(photos, tmp_path, run):
    rows = ["path,label"]
    for place, path in enumerate(sorted(photos.glob("*/*.png"))):
        rows.append(f"{path},{path.parent.name if place % 2 else ''}")
    (tmp_path / "list.csv").write_text("\n".join(rows))
    result = run("models", "check", "small_models:colors", "--images", tmp_path / "list.csv")
    assert result.status == 0 and "of 24 images" in result.out
    (tmp_path / "list.csv").write_text("\n".join(f"{row.split(',')[0]}," for row in rows))
    (tmp_path / "flat").mkdir()
    for path in photos.glob("red/*.png"):
        (tmp_path / "flat" / path.name).write_bytes(path.read_bytes())
    result = run("models", "check", "small_models:colors", "--images", tmp_path / "flat")
    assert_rejected(result, "has a label")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["small_models:colors", "--expect", "75"], ["in [0, 1]", "75"]),
        (["small_models:colors", "--n", "0"], ["n must be at least 1"]),
        (["small_models:colors", "--device", "tpu"], ["device"]),
        (["small_models:only_nan"], ["NaN"]),
        (["small_models:thousand"], ["unknown to a model with 1000 classes"]),
        (["tim:resnet50"], ["'timm:resnet50'"]),
        (["efficientnet_lite9"], ["Did you mean"]),
        (
            ["small_models:colors", "--label-map", "nowhere.txt"],
            ["the file nowhere.txt does not exist"],
        ),
    ],
)
def test_what_cannot_be_checked_is_one_sentence_and_status_2(photos, run, arguments, words):
    assert_rejected(run("models", "check", *arguments, "--images", photos), *words)


def test_a_pickle_is_read_only_with_trust(photos, tmp_path, run):
    import small_models

    torch.save(small_models.Colors(), tmp_path / "net.pt")
    command = ("models", "check", tmp_path / "net.pt", "--images", photos)
    assert_rejected(run(*command), "can run code", "--trust")
    assert run(*command, "--trust").status == 0


def test_twenty_images_are_said_to_be_few(run):
    if find_spec("foolbox") is None:
        pytest.skip("foolbox, whose photographs are used, is missing")
    result = run("models", "check", "small_models:thousand")
    assert result.status == 0, result.err
    assert "of 20 images" in result.out and "only a smoke test" in result.out


# On real photographs


def some_images(folder, every=1):
    """Write a list of the photographs from ImageNet's validation set, which are 227 px squares."""
    photos = outside("data", "photos", "manifest.csv")
    rows = photos.read_text().splitlines()
    kept = [row for row in rows[1:] if "acuity_val" in row][::every]
    listed = folder / "some.csv"
    listed.write_text("\n".join([rows[0], *(f"{photos.parent}/{row}" for row in kept)]))
    return listed


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name,
            marks=[pytest.mark.xfail(reason="resized in a way that is not known")]
            if name in UNMATCHED
            else [],
        )
        for name in TOP1
    ],
)
def test_real_models_get_as_many_images_right_as_others_saw(tmp_path, name):
    spec, maps = name, []
    if name.startswith("mobilenet"):
        spec, maps = str(outside("data", "models", f"{name}.tflite")), ["background-first"]
    model = load_model(spec, CPU, label_maps=maps)
    images = load_images(some_images(tmp_path), "native")
    found = check_model(model, images, ModelCheckSettings(n=1))
    assert found.n_images == 900
    assert abs(found.top1 - TOP1[name]) <= 0.01, found.top1


@pytest.mark.slow
@pytest.mark.parametrize(("wrong", "every"), [("[0.0039, 0.0039, 0.0039]", 9), ("[1, 1, 1]", 2)])
def test_a_wrong_normalisation_of_a_real_network_is_told(tmp_path, run, wrong, every):
    photos = some_images(tmp_path, every)
    path = card(tmp_path, f"mean: [0, 0, 0]\nstd: {wrong}", "efficientnet_lite0")
    result = run("models", "check", path, "--images", photos)
    assert result.status == 1
    assert "write  mean: [0.5, 0.5, 0.5]  and  std: [0.5, 0.5, 0.5]  into its card." in result.err


@pytest.mark.slow
def test_a_real_network_that_is_fed_right_passes(tmp_path, run):
    photos = some_images(tmp_path, every=9)
    result = run("models", "check", "efficientnet_lite0", "--images", photos)
    assert result.status == 0, result.err
    assert "none is significantly better" in result.out
