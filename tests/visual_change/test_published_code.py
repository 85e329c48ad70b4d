"""VIF against published values, OpenCV's gray, and plain NumPy and SciPy implementations."""

import zlib
from functools import cache

import cv2
import numpy as np
import pytest
import torch
from scipy.ndimage import gaussian_filter
from skimage import data

import eyechart as ec
from eyechart.visual_change.gray import to_gray
from places import ROOT
from vif_reference import (
    VIF_VALUES,
    distorted,
    eight_bits,
    gray,
    prepare,
    vif,
    vif_of_pixels,
    vif_of_sheikh,
)

pytestmark = pytest.mark.usefixtures("with_styles")

TOLERANCE = {"float64": 1e-9, "float32": 2e-4}
IMAGES = ("astronaut", "camera", "chelsea", "coffee", "coins", "rocket")
GRAY_IMAGES = ("camera", "coins", "chelsea")
REFERENCES = {"sheikh2006": vif_of_sheikh, "vif-pixel": vif_of_pixels}


@cache
def camera():
    return data.camera()[144:368, 144:368]


@cache
def gray_image(name):
    if name == "camera":
        return camera()
    return data.coins() if name == "coins" else gray(data.chelsea()).astype(np.uint8)


def changed(image, kind, amount, seed=12345):
    return distorted(image, kind, amount, seed).astype(np.uint8)


# ---- published values


def middle(image):
    top, left = ((side - 224) // 2 for side in image.shape[:2])
    return image[top : top + 224, left : left + 224]


def channels(image):
    return [image] if image.ndim == 2 else [image[..., k] for k in range(3)]


def luma(image):
    """Gray without rounding, as piq converts colors."""
    planes = [plane.astype(np.float64) for plane in channels(image)]
    return planes[0] if len(planes) == 1 else np.dot(np.stack(planes, -1), [0.299, 0.587, 0.114])


def vifs_of_packages(clean, corrupted):
    """Return VIFp by eyechart, piq, torchmetrics and sewar, and torchmetrics from 0 to 1."""
    pairs = list(zip(channels(clean), channels(corrupted), strict=True))
    by_channel = [
        np.mean([vif_of_pixels(one / scale, two / scale) for one, two in pairs])
        for scale in (1.0, 255.0)
    ]
    return [
        ec.vif(clean, corrupted, ruler="vif-pixel"),
        vif_of_pixels(luma(clean), luma(corrupted)),
        *by_channel,
    ]


def test_the_differences_of_vif_pixel_from_other_packages_are_those_of_the_page():
    """The figures of the packages were measured with them; here they are computed otherwise."""
    text = (ROOT / "docs" / "concepts" / "visual_change.md").read_text("utf-8")
    lines = text.partition("| image | noise: `vif-pixel` |")[2].splitlines()[2:]
    rows = [line.strip("| ").split(" | ") for line in lines[: lines.index("")]]
    assert [row[0].split()[0] for row in rows] == [
        "camera", "astronaut", "coffee", "chelsea", "rocket",
    ]  # fmt: skip
    for name, *figures in rows:
        image = camera() if "gray" in name else middle(getattr(data, name)())
        random = np.random.default_rng(12345)
        noisy = eight_bits(image + random.normal(0, 10, image.shape))
        sigmas = (1, 1) + (0,) * (image.ndim - 2)
        blurred = eight_bits(gaussian_filter(image.astype(np.float64), sigmas))
        computed = [
            value
            for corrupted in (noisy, blurred)
            for value in vifs_of_packages(image, corrupted.astype(np.uint8))
        ]
        np.testing.assert_allclose(computed, np.array(figures, float), atol=6e-4, err_msg=name)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("place", range(3))
def test_vif_has_the_published_values(place, dtype):
    clean = gray_image(GRAY_IMAGES[place])
    corrupted = np.stack([changed(clean, *how) for how in VIF_VALUES])[..., None]
    expected = [values[place] for values in VIF_VALUES.values()]
    result = ec.vif(clean, corrupted, dtype=dtype)
    np.testing.assert_allclose(result, expected, rtol=0, atol=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_vif_of_color_has_the_published_value(dtype):
    photo = data.astronaut()[0:224, 120:344]
    result = ec.vif(photo, changed(photo, "noise", 10, seed=7), dtype=dtype)
    assert result == pytest.approx(0.6847859623, abs=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_a_constant_image_has_nothing_to_lose_and_a_constant_copy_keeps_nothing(dtype):
    constant = np.full_like(camera(), 128)
    assert ec.vif(constant, camera(), dtype=dtype) == 1.0
    assert ec.vif(camera(), constant, dtype=dtype) == pytest.approx(0.0000020487, abs=1e-9)


@pytest.mark.parametrize(
    ("kind", "amount", "sheikh2006", "pixel"),
    [
        ("noise", 10, 0.541, 0.443),
        ("noise", 50, 0.165, 0.144),
        ("noise", 150, 0.054, 0.044),
        ("blur", 1, 0.527, 0.478),
        ("blur", 5, 0.071, 0.114),
        ("gain", 0.5, 0.665, 0.719),
    ],
)
def test_the_other_definitions_have_the_published_digits(kind, amount, sheikh2006, pixel):
    corrupted = changed(camera(), kind, amount)
    for ruler, expected in (("sheikh2006", sheikh2006), ("vif-pixel", pixel)):
        result = ec.vif(camera(), corrupted, ruler=ruler)
        assert result == pytest.approx(expected, abs=0.00051)


# ---- other implementations


def random_crop(numbers):
    """A crop of a photograph, of any size from 72 to 224 px."""
    photo = getattr(data, numbers.choice(IMAGES))()
    height, width = numbers.integers(72, 225, 2)
    top = numbers.integers(photo.shape[0] - height + 1)
    left = numbers.integers(photo.shape[1] - width + 1)
    return photo[top : top + height, left : left + width]


def reference_gray(image):
    return gray(image) if image.ndim == 3 else image.astype(np.float64)


@pytest.mark.parametrize("triples", [1, pytest.param(4, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ec.list_corruptions())
def test_vif_is_that_of_the_reference_whatever_image_corruption_and_strength(name, triples):
    numbers = np.random.default_rng(zlib.crc32(name.encode()))
    for _ in range(triples):
        clean, severity = random_crop(numbers), numbers.uniform(0.05, 5)
        corrupted = ec.corrupt(clean, name, severity=severity)
        expected = vif(prepare(reference_gray(clean)), reference_gray(corrupted))
        assert ec.vif(clean, corrupted) == pytest.approx(expected, abs=1e-8)


def test_the_corruptions_above_make_at_least_200_triples():
    assert 4 * len(ec.list_corruptions()) >= 200


@pytest.mark.parametrize("how", [("noise", 5), ("noise", 80), ("blur", 1.5), ("gain", 1.3)])
@pytest.mark.parametrize("name", ["camera", "coffee", "rocket"])
@pytest.mark.parametrize("ruler", REFERENCES)
def test_the_other_definitions_are_those_of_their_reference(ruler, name, how):
    photo = getattr(data, name)()[100:196, 60:180]
    clean = reference_gray(photo)
    corrupted = changed(clean, *how)
    expected = REFERENCES[ruler](clean, corrupted.astype(np.float64))
    result = ec.vif(clean.astype(np.uint8), corrupted, ruler=ruler)
    assert result == pytest.approx(expected, abs=1e-8)


def test_gray_is_that_of_opencv():
    levels = np.arange(0, 256, 3, dtype=np.uint8)
    colors = np.stack(np.meshgrid(levels, levels, levels), axis=-1).reshape(86, -1, 3)
    expected = cv2.cvtColor(colors, cv2.COLOR_RGB2GRAY)
    result = to_gray(torch.from_numpy(colors).permute(2, 0, 1)[None])
    np.testing.assert_array_equal(result[0], expected)


def test_color_is_compared_by_its_gray():
    clean = data.coffee()[:100, :120]
    corrupted = ec.corrupt(clean, "vcr/color_jitter", severity=3)
    grays = (cv2.cvtColor(image, cv2.COLOR_RGB2GRAY) for image in (clean, corrupted))
    assert ec.vif(clean, corrupted) == ec.vif(*grays)


# ---- small pictures


@pytest.mark.parametrize("ruler", ["vif", "sheikh2006"])
@pytest.mark.parametrize(
    ("height", "width", "scales"),
    [
        (72, 72, 4),
        (72, 150, 4),
        (71, 71, 3),
        (200, 50, 3),
        (36, 36, 3),
        (35, 35, 2),
        (27, 90, 2),
        (18, 18, 2),
    ],
)
def test_small_images_use_as_many_scales_as_fit_and_say_so(height, width, scales, ruler):
    clean = camera()[:height, :width]
    corrupted = changed(clean, "noise", 20)
    change = ec.measure_change(clean, corrupted, ruler=ruler)
    before, after = clean.astype(np.float64), corrupted.astype(np.float64)
    if ruler == "vif":
        expected = vif(prepare(before, scales), after)
    else:
        expected = vif_of_sheikh(before, after, scales)
    assert change.vif[0] == pytest.approx(expected, abs=1e-8)
    assert change.scales[0] == scales


@pytest.mark.parametrize(
    ("ruler", "height", "width", "sentence"),
    [
        ("vif", 17, 60, "at least 18 px on each side, got 60 × 17"),
        ("sheikh2006", 60, 17, "at least 18 px on each side, got 17 × 60"),
        ("vif-pixel", 40, 60, "at least 41 px on each side, got 60 × 40"),
    ],
)
def test_images_that_are_too_small_are_rejected_in_a_sentence(ruler, height, width, sentence):
    clean = camera()[:height, :width]
    with pytest.raises(ec.UsageError) as error:
        ec.vif(clean, clean, ruler=ruler)
    assert sentence in str(error.value)


@pytest.mark.parametrize("side", [41, 42, 43, 57])
def test_the_pixel_definition_takes_images_from_41_px_on(side):
    clean = camera()[:side, :60]
    corrupted = changed(clean, "noise", 20)
    expected = vif_of_pixels(clean.astype(np.float64), corrupted.astype(np.float64))
    change = ec.measure_change(clean, corrupted, ruler="vif-pixel")
    assert change.vif[0] == pytest.approx(expected, abs=1e-8)
    assert change.scales[0] == 4
