"""ImageNet-C against its published code on four photographs, measured with a reference VIF."""

import json
from functools import cache

import numpy as np
import pytest
from skimage import data

from eyechart.corruptions.suites.suite import find_entry, load_suite
from places import DATA
from published_code import measure, prepared
from real_images import real_images
from vif_reference import VIF_VALUES, distorted, gray, prepare, vif

GOLDEN = DATA / "imagenet_c_skimage.json"
# of style transfer nothing was published but that there is one
NAMES = [
    entry.name
    for suite in ("imagenet-c", "imagenet-c-extra")
    for entry in load_suite(suite)
    if entry.name != "style_transfer"
]
RANDOM_PATTERN = ("frost", "snow", "spatter", "elastic_transform")
TOO_RANDOM_FOR_TWO_SEEDS = {("frost", 1), ("elastic_transform", 1), ("spatter", 1)}


@cache
def photos_and_clean():
    photos = real_images()
    return photos, prepared(photos)


@cache
def golden():
    return json.loads(GOLDEN.read_text())


def check(name, severity, seeds):
    expected = golden()[f"{name}/{severity}"]
    if not find_entry(name).corruption.random:
        seeds = 1
    visual, difference = measure(*photos_and_clean(), name, severity, range(seeds))
    margin, share = (0.06, 0.20) if name in RANDOM_PATTERN else (0.04, 0.12)
    assert visual == pytest.approx(expected["dv"], abs=margin)
    assert difference == pytest.approx(expected["mad"], abs=max(share * expected["mad"], 1))


def test_there_is_a_golden_value_for_every_corruption_and_level():
    assert set(golden()) == {f"{name}/{level}" for name in NAMES for level in range(1, 6)}


@pytest.mark.parametrize(
    "severity", [3, *(pytest.param(level, marks=pytest.mark.slow) for level in (1, 5))]
)
@pytest.mark.parametrize("name", NAMES)
def test_visual_change_and_difference_are_as_published(name, severity):
    if (name, severity) in TOO_RANDOM_FOR_TWO_SEEDS:
        pytest.skip("two seeds say little here; the slow test takes more")
    # with a random number for every pixel one seed is as good as many
    every_pixel = find_entry(name).corruption.family == "noise" or name == "glass_blur"
    check(name, severity, seeds=1 if every_pixel else 2)


@pytest.mark.slow
@pytest.mark.parametrize("severity", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("name", NAMES)
def test_over_many_seeds_visual_change_and_difference_are_as_published(name, severity):
    # a piece of frost weighs more than a pixel's noise: its mean takes more of them
    check(name, severity, seeds=40 if name == "frost" else 8)


# ---- the measure itself, against values of the reference implementation of VIF


@cache
def test_images():
    crop = data.camera()[144:368, 144:368].astype(np.float64)
    images = (crop, data.coins().astype(np.float64), gray(data.chelsea()))
    return [(image, prepare(image)) for image in images]


test_images.__test__ = False


@pytest.mark.parametrize(("kind", "amount"), VIF_VALUES)
def test_the_reference_vif_has_the_published_values(kind, amount):
    for (image, clean), expected in zip(test_images(), VIF_VALUES[kind, amount], strict=True):
        assert vif(clean, distorted(image, kind, amount)) == pytest.approx(expected, abs=1e-9)


def test_the_reference_vif_of_an_image_with_itself_is_1():
    for image, clean in test_images():
        assert vif(clean, image) == pytest.approx(1, abs=1e-12)


def test_the_reference_vif_takes_color_through_opencvs_gray():
    photo = data.astronaut()[0:224, 120:344]
    noisy = distorted(photo, "noise", 10, seed=7)
    assert vif(prepare(gray(photo)), gray(noisy)) == pytest.approx(0.6847859623, abs=1e-9)


def test_the_reference_vif_of_a_blank_image_is_nearly_0():
    _, clean = test_images()[0]
    assert vif(clean, np.full((224, 224), 128.0)) == pytest.approx(0.0000020487, abs=1e-9)
