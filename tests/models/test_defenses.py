"""What comes before a model: equalized lightness, noise taken away, ten views of a picture."""

import inspect
import json
from itertools import product

import cv2
import numpy as np
import pytest
import torch
from PIL import Image
from skimage import data
from torch import nn

import eyechart as ec
import small_models
from commands import assert_rejected
from eyechart.images.stimulus import find_stimulus
from eyechart.models.defenses import apply_defenses, denoise, equalize, noise_level, ten_views
from eyechart.models.find import load_model
from eyechart.models.label_map import log_probabilities, map_of
from eyechart.models.model import Preprocessing
from eyechart.models.registries import DEFENSES, split_name
from eyechart.reports.titles import short_names
from real_images import real_images
from tiny_networks import random_images, tiny

CPU = torch.device("cpu")
SIZES = ((224, 224), (97, 64), (33, 31), (32, 32), (9, 8), (8, 8))
CLAHE = ((2.0, 8), (3.0, 4), (0.5, 8), (40.0, 3), (1.0, 1))


def photos(height=224, width=224):
    whole = (cv2.resize(each, (width, height), interpolation=cv2.INTER_AREA) for each in PHOTOS)
    return np.stack(list(whole))


PHOTOS = real_images()


def as_batch(pixels):
    return torch.from_numpy(np.ascontiguousarray(pixels)).permute(0, 3, 1, 2).contiguous()


def as_pixels(batch):
    return batch.permute(0, 2, 3, 1).numpy()


def noisy(pixels, sigma, seed=0):
    noise = np.random.default_rng(seed).normal(0, sigma, pixels.shape)
    return np.rint(pixels + noise).clip(0, 255).astype(np.uint8)


def model_of(module=None):
    return load_model(tiny() if module is None else module, CPU)


# Equalisation


@pytest.mark.parametrize(("height", "width"), SIZES)
@pytest.mark.parametrize(("clip", "tiles"), CLAHE)
def test_images_are_equalized_as_opencv_does_it(height, width, clip, tiles):
    theirs, expected = cv2.createCLAHE(clip, (tiles, tiles)), []
    for image in photos(height, width):
        lab = cv2.cvtColor(image, cv2.COLOR_RGB2LAB)
        lab[..., 0] = theirs.apply(np.ascontiguousarray(lab[..., 0]))
        expected.append(cv2.cvtColor(lab, cv2.COLOR_LAB2RGB))
    found = as_pixels(equalize(as_batch(photos(height, width)), clip, tiles))
    np.testing.assert_array_equal(found, np.stack(expected))


def test_a_gray_image_is_equalized_by_its_histogram_without_a_limit_and_in_one_tile():
    gray = np.repeat(photos(50, 70)[..., :1], 3, axis=3)
    for image, found in zip(gray, as_pixels(equalize(as_batch(gray), 256.0, 1)), strict=True):
        lightness = cv2.cvtColor(image, cv2.COLOR_RGB2LAB)[..., 0]
        share = np.cumsum(np.bincount(lightness.flatten(), minlength=256)) / lightness.size
        back = np.stack([np.rint(255 * share)[lightness], *np.full((2, 50, 70), 128)], axis=-1)
        expected = cv2.cvtColor(back.astype(np.uint8), cv2.COLOR_LAB2RGB)
        assert np.abs(found.astype(int) - expected).max() <= 1


# Noise


@pytest.mark.parametrize("sigma", [1, 5, 20, 40])
def test_the_noise_that_was_added_is_found(sigma):
    gray = np.full((2, 128, 160, 3), 128, np.uint8)
    found = noise_level(as_batch(noisy(gray, sigma)))
    # rounding to whole levels adds a variance of 1/12
    assert found.numpy() == pytest.approx(np.sqrt(sigma**2 + 1 / 12), rel=0.05)


def test_each_channel_has_noise_of_its_own():
    gray = np.full((1, 128, 128, 3), 128, np.uint8)
    found = noise_level(as_batch(noisy(gray, np.array([2, 10, 30]))))
    assert found[0].tolist() == pytest.approx([2, 10, 30], rel=0.06)


def test_the_noise_estimate_is_that_of_scikit_image():
    pytest.importorskip("pywt")
    from skimage.restoration import estimate_sigma

    # away from black and white, where clipping leaves flat places
    pixels = noisy(60 + photos() // 2, 8)
    theirs = [estimate_sigma(each.astype(float), channel_axis=-1) for each in pixels]
    np.testing.assert_allclose(noise_level(as_batch(pixels)).numpy(), theirs, rtol=2e-3)


@pytest.mark.parametrize(("height", "width"), [(33, 31), (16, 9), (8, 8)])
def test_the_noise_estimate_is_a_median_of_diagonal_details(height, width):
    pywt = pytest.importorskip("pywt")
    pixels = noisy(60 + photos(height, width) // 2, 8)
    for planes, found in zip(as_batch(pixels).numpy(), noise_level(as_batch(pixels)), strict=True):
        details = [np.abs(pywt.dwt2(plane.astype(float), "db2")[1][2]) for plane in planes]
        expected = [np.median(each[each > 1e-9]) / 0.67449 for each in details]
        assert found.tolist() == pytest.approx(expected, rel=1e-4)


def test_flat_places_do_not_count_as_free_of_noise():
    pixels = np.full((1, 128, 128, 3), 128, np.uint8)
    pixels[:, :, :40] = noisy(pixels[:, :, :40], 10)
    assert noise_level(as_batch(pixels))[0].tolist() == pytest.approx([10] * 3, rel=0.12)


def brute_force(pixels, strength, patch, window):
    """Non-local means of one picture (H, W, 3), pixel by pixel."""
    sigma = float(noise_level(as_batch(pixels[None])).mean())
    half, reach = patch // 2, window // 2
    rows, columns = pixels.shape[:2]
    edge = half + reach
    wide = np.pad(pixels.astype(float), ((edge, edge), (edge, edge), (0, 0)), mode="reflect")
    result = np.zeros(pixels.shape)
    for y, x in product(range(rows), range(columns)):
        own = wide[y + reach : y + reach + patch, x + reach : x + reach + patch]
        total, weights = np.zeros(3), 0.0
        for down, along in product(range(window), repeat=2):
            other = wide[y + down : y + down + patch, x + along : x + along + patch]
            apart = max(((own - other) ** 2).mean() - 2 * sigma**2, 0)
            weight = np.exp(-apart / (strength * sigma) ** 2)
            total += weight * other[half, half]
            weights += weight
        result[y, x] = total / weights
    return result


@pytest.mark.parametrize(("strength", "patch", "window"), [(0.8, 5, 13), (2.0, 3, 5), (0.4, 1, 3)])
def test_non_local_means_are_those_of_a_loop_over_pixels(strength, patch, window):
    pixels = noisy(photos(11, 8)[:1], 12)
    found = as_pixels(denoise(as_batch(pixels), strength, patch, window))[0]
    assert np.abs(found - brute_force(pixels[0], strength, patch, window)).max() <= 0.501


def error_of(found, truth):
    return float(np.sqrt(np.mean((found.astype(float) - truth) ** 2)))


@pytest.mark.parametrize(("sigma", "most"), [(10, 0.6), (30, 0.45)])
def test_noise_is_taken_away(sigma, most):
    clean = PHOTOS[:2]
    given = noisy(clean, sigma)
    found = as_pixels(denoise(as_batch(given)))
    for one, before, after in zip(clean, given, found, strict=True):
        assert error_of(after, one) < most * error_of(before, one)


def test_clean_images_are_nearly_left_alone():
    found = as_pixels(denoise(as_batch(PHOTOS[:2])))
    assert error_of(found, PHOTOS[:2]) < 0.6


@pytest.mark.parametrize("kind", ["even", "rows", "columns"])
def test_an_image_without_noise_is_untouched(kind):
    levels = torch.from_numpy(np.random.default_rng(0).integers(0, 256, 24, dtype=np.uint8))
    line = levels.reshape(1, 1, -1, 1) if kind == "rows" else levels.reshape(1, 1, 1, -1)
    image = (torch.full((1, 1, 1, 1), 77, dtype=torch.uint8) if kind == "even" else line).expand(
        1, 3, 24, 24
    )
    assert not noise_level(image).any()
    assert torch.equal(denoise(image), image)


# Ten crops


class Corner(nn.Module):
    """Answers by how light the first pixel is."""

    def forward(self, images):
        light = images[:, 0, 0, 0]
        return torch.stack([3 * light, torch.zeros_like(light)], dim=1)


def test_a_model_that_looks_at_one_corner_sees_it_in_one_view_of_ten():
    image = torch.zeros(1, 3, 64, 64, dtype=torch.uint8)
    image[..., :6, :6] = 255
    found = apply_defenses(model_of(Corner()), ["ten-crop:share=0.75"])(image).exp()
    light, dark = (1 / (1 + np.exp(-score)) for score in (3, 0))
    assert found[0].tolist() == pytest.approx(
        [(light + 9 * dark) / 10, 1 - (light + 9 * dark) / 10], abs=1e-6
    )


def test_ten_crops_are_the_mean_of_ten_predictions():
    model, pixels = model_of(), photos(40, 48)
    found = apply_defenses(model, ["ten-crop:share=0.75"])(as_batch(pixels)).exp().numpy()
    for image, own in zip(pixels, found, strict=True):
        predictions = []
        for top, left in ((0, 0), (0, 12), (10, 0), (10, 12), (5, 6)):
            crop = Image.fromarray(image[top : top + 30, left : left + 36])
            grown = np.array(crop.resize((48, 40), Image.Resampling.BICUBIC))
            for view in (grown, grown[:, ::-1]):
                predictions.append(model(as_batch(view[None])).softmax(dim=1)[0].numpy())
        np.testing.assert_allclose(own, np.mean(predictions, axis=0), atol=2e-4)


@pytest.mark.parametrize("size", [(256, 341), (300, 256), (256, 256)])
def test_of_larger_images_ten_crops_are_cut_out_and_not_resized(size):
    given = as_batch(noisy(photos(*size), 10))
    views = list(ten_views(given, 0.875))
    height, width = size
    down, along = height - 224, width - 224
    corners = ((0, 0), (0, along), (down, 0), (down, along), (down // 2, along // 2))
    cut = [given[..., top : top + 224, left : left + 224] for top, left in corners]
    assert all(torch.equal(view, own) for view, own in zip(views[:5], cut, strict=True))
    assert all(torch.equal(view, own.flip(3)) for view, own in zip(views[5:], cut, strict=True))
    # the middle one is what a network sees that is not defended
    model = model_of()
    assert torch.equal(apply_defenses(model, ["center-crop"])(given), model(views[4].contiguous()))


def test_the_middle_of_an_uncropped_image_is_the_usual_stimulus():
    for pixels in photos(300, 400):
        image = Image.fromarray(pixels)
        whole = find_stimulus("uncropped")(image)[None]
        assert whole.shape == (1, 3, 256, 341)
        middle = list(ten_views(whole, 0.875))[4][0]
        assert torch.equal(middle, find_stimulus("224")(image))


class Stripes(nn.Module):
    """Class 1 if neighboring columns differ; resized crops of fine stripes are gray."""

    def forward(self, images):
        apart = (images[..., 1:] - images[..., :-1]).abs().mean(dim=(1, 2, 3))
        return torch.stack([torch.full_like(apart, 0.8), apart], dim=1) * 50


def test_ten_crops_of_an_uncropped_image_keep_what_a_crop_of_a_crop_loses():
    """A network that needs the pixels as they are is right on one crop, and must be on ten."""
    columns = (torch.arange(256) % 2 * 255).to(torch.uint8)
    whole = columns.expand(2, 3, 256, 256).contiguous()
    model = model_of(Stripes())
    assert apply_defenses(model, ["center-crop"])(whole).argmax(dim=1).tolist() == [1, 1]
    assert apply_defenses(model, ["ten-crop"])(whole).argmax(dim=1).tolist() == [1, 1]
    crop = whole[..., 16:240, 16:240].contiguous()
    assert model(crop).argmax(dim=1).tolist() == [1, 1]
    assert apply_defenses(model, ["ten-crop"])(crop).argmax(dim=1).tolist() == [0, 0]


def test_what_is_not_larger_than_the_middle_stays_as_it_is():
    model, given = model_of(), random_images(2)
    assert torch.equal(apply_defenses(model, ["center-crop"])(given), model(given))


def test_ten_whole_crops_are_the_image_and_its_mirror_image():
    given = random_images(2, 16)
    views = list(ten_views(given, 1.0))
    assert all(torch.equal(view, given) for view in views[:5])
    assert all(torch.equal(view, given.flip(3)) for view in views[5:])


def test_probabilities_and_logits_give_the_same_ten_crops():
    network, given = tiny(), random_images(3)
    of_logits = apply_defenses(model_of(network), ["ten-crop"])(given)
    shares = model_of(nn.Sequential(network, nn.Softmax(dim=1)))
    of_shares = apply_defenses(shares, ["ten-crop"])(given)
    torch.testing.assert_close(of_logits, of_shares, atol=1e-5, rtol=0)


def test_ten_crops_of_a_model_that_is_very_sure_are_numbers():
    class Sure(nn.Module):
        def forward(self, images):
            return images.mean(dim=(2, 3)) * 1e6

    found = apply_defenses(model_of(Sure()), ["ten-crop"])(random_images(2))
    assert bool(found.isfinite().all())
    assert torch.equal(log_probabilities(found), found.log_softmax(dim=1))


# Wrappers


@pytest.mark.parametrize("name", DEFENSES)
@pytest.mark.parametrize("size", [(8, 8), (8, 13), (40, 24)])
def test_predictions_do_not_depend_on_the_batch_and_images_stay_as_they_are(name, size):
    given = as_batch(noisy(photos(*size), 10))
    before = given.clone()
    model = apply_defenses(model_of(), [name])
    whole = model(given)
    assert torch.equal(given, before)
    assert torch.equal(whole, model(given))
    alone = torch.cat([model(one[None]) for one in given])
    torch.testing.assert_close(whole, alone, atol=1e-6, rtol=0)


@pytest.mark.parametrize("name", DEFENSES)
def test_a_defended_model_predicts_otherwise_than_the_model_which_stays_as_it_was(name):
    model, given = model_of(), as_batch(noisy(photos(32, 32), 25))
    plain = model(given)
    assert not torch.allclose(
        apply_defenses(model, [name])(given), log_probabilities(plain), atol=1e-4
    )
    assert torch.equal(model(given), plain)


@pytest.mark.parametrize("name", DEFENSES)
def test_a_defended_model_is_otherwise_the_model(name):
    model = model_of().with_steps(Preprocessing(side=20, mean=(0.5, 0.5, 0.5)))
    model.trained_on, model.published_accuracy = ("vcr/frost",), 0.7
    model.use_map(map_of(["cat", "-", "dog", "hat", "cup"], "four"))
    other = apply_defenses(model, [name])
    found = other(random_images(2))
    assert found.shape == (2, 4)
    assert (other.classes, other.class_names) == (4, ("cat", "dog", "hat", "cup"))
    assert other.label_map is model.label_map
    assert (other.trained_on, other.published_accuracy, other.device) == (("vcr/frost",), 0.7, CPU)
    assert other.preprocessing == model.preprocessing
    assert other.side == 20 and other.module is model.module
    assert other.name.endswith(f"+{model.name}")


def test_the_identity_tells_defenses_settings_and_order_apart():
    model = model_of()
    kinds = [
        *([], ["clahe"], ["clahe:clip=3"], ["clahe:tiles=4"], ["nlm"], ["ten-crop"]),
        *(["clahe", "nlm"], ["nlm", "clahe"], ["clahe", "clahe"]),
    ]
    found = [apply_defenses(model, names) for names in kinds]
    assert len({each.identity for each in found}) == len({each.name for each in found}) == 9
    usual = apply_defenses(model, ["clahe"]).identity
    assert apply_defenses(model, ["clahe:clip=2,tiles=8"]).identity == usual
    assert apply_defenses(model_of(tiny(seed=1)), ["clahe"]).identity != usual


def test_names_say_which_defenses_and_what_is_unusual():
    model = model_of()
    model.name = "net"
    assert apply_defenses(model, ["clahe", "ten-crop"]).name == "clahe+ten-crop+net"
    given = ["nlm:strength=1.5,window=7", "clahe:clip=2"]
    assert apply_defenses(model, given).name == "nlm:strength=1.5,window=7+clahe+net"
    assert split_name("clahe:clip=3+ten-crop+runs/a+b.pt") == (
        "clahe:clip=3+ten-crop+",
        "runs/a+b.pt",
    )
    assert short_names(["clahe+runs/net.pt", "runs/net.pt"]) == ["clahe+net", "net"]


def test_the_first_defense_gets_the_images_first():
    model, given = model_of(), as_batch(noisy(photos(32, 32), 15))
    both = apply_defenses(model, ["clahe:clip=4", "nlm:strength=1"])
    assert torch.equal(both(given), model(denoise(equalize(given, 4.0), 1.0)))
    nested = apply_defenses(model, ["nlm", "clahe"])
    assert torch.equal(nested(given), model(equalize(denoise(given))))
    crops = apply_defenses(model, ["ten-crop", "clahe"])(given)
    views = [model(equalize(view)).softmax(dim=1) for view in ten_views(given, 0.875)]
    torch.testing.assert_close(crops.exp(), torch.stack(views).mean(dim=0))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("clane", ("Unknown defense", "clahe")),
        ("clahe:clap=3", ("Unknown setting of the defense clahe", "clip")),
        ("clahe:clip", ("clahe:clip=3,tiles=4", "clahe:clip'")),
        ("clahe:clip=two", ("followed by numeric settings", "two")),
        ("clahe:clip=3,clip=4", ("followed by numeric settings",)),
        ("clahe:", ("followed by numeric settings",)),
        ("clahe:clip=0", ("clip", "above 0 and at most 256", "0.0")),
        ("clahe:clip=nan", ("clip", "nan")),
        ("clahe:clip=inf", ("clip", "inf")),
        ("clahe:tiles=2.5", ("tiles", "whole number from 1 to 64", "2.5")),
        ("nlm:patch=4", ("patch", "odd whole number from 1 to 31", "4")),
        ("nlm:window=103", ("window", "101", "103")),
        ("nlm:strength=-1", ("strength", "-1")),
        ("ten-crop:share=1.1", ("share", "at most 1", "1.1")),
    ],
)
def test_bad_settings_are_one_sentence(name, words):
    with pytest.raises(ec.UsageError) as rejected:
        apply_defenses(model_of(), [name])
    text = str(rejected.value)
    assert text.endswith((".", "?")) and "\n" not in text
    for word in words:
        assert word in text, text


@pytest.mark.parametrize("name", DEFENSES)
def test_images_of_another_kind_are_taken_or_rejected_as_by_any_model(name):
    levels = random_images(2, 16)
    own = apply_defenses(model_of(), [name])
    torch.testing.assert_close(own(levels.float() / 255), own(levels))
    with pytest.raises(ec.UsageError, match="undo their normalization"):
        own(torch.rand(1, 3, 16, 16) - 0.5)


def test_steps_without_a_model_have_the_same_defaults():
    for name, step in (("clahe", equalize), ("nlm", denoise)):
        _, *taken = inspect.signature(step).parameters.values()
        assert [one.default for one in taken] == [one.usual for one in DEFENSES[name].settings]


# The command


SMALL = ("--n", 16, "--bins", 6, "--min-per-bin", 2, "--n-bootstrap", 10, "--stimulus", "native")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return small_models.save_images(tmp_path_factory.mktemp("images") / "photos", each=2)


@pytest.fixture
def evaluate(run, folder, tmp_path):
    def call(*more, out=tmp_path / "out"):
        given = ("--images", folder, "--out", out, "--corruption", "brightness", *SMALL)
        return run("evaluate", "small_models:colors", *given, *more)

    return call


def test_the_command_defends_models_and_not_the_baseline(evaluate, tmp_path):
    done = evaluate(
        "--defense", "clahe", "--defense", "ten-crop", "--baseline", "small_models:colors"
    )
    assert done.status == 0, done.err
    found = json.loads((tmp_path / "out" / "results.json").read_text("utf-8"))
    names = [model["name"] for model in found["models"]]
    assert names == ["clahe+ten-crop+small_models:colors", "small_models:colors"]
    assert len({model["identity"] for model in found["models"]}) == 2


def test_crops_of_crops_are_said_to_be_some(evaluate, tmp_path):
    done = evaluate("--defense", "ten-crop")
    assert done.status == 0, done.err
    found = json.loads((tmp_path / "out" / "results.json").read_text("utf-8"))
    (note,) = (note for note in found["warnings"] if "ten-crop" in note)
    assert "--stimulus uncropped" in note and f"Note: {note}" in done.out
    done = evaluate("--defense", "ten-crop", "--stimulus", "uncropped", out=tmp_path / "whole")
    assert done.status == 0, done.err
    found = json.loads((tmp_path / "whole" / "results.json").read_text("utf-8"))
    assert not any("ten-crop" in note for note in found["warnings"])
    assert found["images"]["stimulus"] == "uncropped"


def test_a_folder_of_other_defenses_is_rejected(evaluate):
    assert evaluate("--defense", "clahe").status == 0
    assert evaluate("--defense", "clahe").status == 0
    assert_rejected(evaluate(), "holds another run", "clahe+small_models:colors")
    assert_rejected(evaluate("--defense", "clahe:clip=3"), "holds another run", "clip=3")


@pytest.mark.parametrize("name", ["clane", "clahe:clip=0", "nlm:patch=2"])
def test_the_command_rejects_bad_defenses(evaluate, tmp_path, name):
    assert_rejected(evaluate("--defense", name))
    assert not (tmp_path / "out").exists()


def test_defended_models_are_evaluated_in_python_side_by_side(folder):
    plain = load_model(small_models.colors, CPU)
    plain.name = "colors"
    models = [plain, *(apply_defenses(plain, [name]) for name in ("clahe", "clahe:clip=8"))]
    found = ec.evaluate(
        models, folder, n=16, corruptions=["brightness"],
        stimulus="native", bins=6, min_per_bin=2, n_bootstrap=10,
    )  # fmt: skip
    names = [model.name for model in found.models]
    assert names == ["colors", "clahe+colors", "clahe:clip=8+colors"]


def test_an_image_in_the_dark_is_recognised_again_once_it_is_equalized():
    # what the defense is for: CLAHE spreads the levels of a picture without contrast
    flat = (data.astronaut()[None, :256, :256] // 8 + 100).astype(np.uint8)
    assert as_pixels(equalize(as_batch(flat))).std() > 2 * flat.std()
