"""Color changes against scikit-image, OpenCV and closed forms."""

from itertools import permutations

import cv2
import numpy as np
import pytest
import torch
from skimage.color import hsv2rgb, rgb2hsv

import eyechart as ec
from calling import apply, photo, photo_levels
from eyechart.corruptions.color import hsv_to_rgb, rgb_to_hsv

CORNERS = [
    [0, 0, 0], [255, 255, 255], [255, 0, 0], [0, 255, 0], [0, 0, 255], [255, 255, 0],
    [0, 255, 255], [255, 0, 255], [128, 128, 128], [1, 0, 0], [255, 254, 254], [10, 200, 90],
    [200, 100, 100], [100, 100, 200], [3, 5, 4], [250, 128, 7],
]  # fmt: skip


def colors():
    """A photograph, and the awkward colors: corners of the cube, grays, nearly grays."""
    image = photo(32, 32, batch=1)
    corners = torch.tensor(CORNERS, dtype=torch.float32).T.reshape(3, 1, 16) / 255
    image[0, :, :1, :16] = corners
    return image


def as_pixels(images):
    return images[0].permute(1, 2, 0).numpy().astype(np.float64)


# ---- HSV


def test_hsv_is_that_of_scikit_image_and_leads_back():
    images = colors()
    hsv = torch.stack(rgb_to_hsv(images), dim=-1)[0].numpy()
    expected = rgb2hsv(as_pixels(images))
    # hue is a circle: 0 and 1 are the same
    turn = np.abs(hsv[..., 0] - expected[..., 0])
    assert np.minimum(turn, 1 - turn).max() < 1e-5
    np.testing.assert_allclose(hsv[..., 1:], expected[..., 1:], atol=1e-6)
    torch.testing.assert_close(hsv_to_rgb(*rgb_to_hsv(images)), images, atol=1e-6, rtol=0)


@pytest.mark.parametrize("turns", [-2.0, -1.0, 1.0, 3.0])
def test_whole_turns_of_the_hue_change_nothing(turns):
    images = colors()
    hue, saturation, value = rgb_to_hsv(images)
    back = hsv_to_rgb(hue + turns, saturation, value)
    torch.testing.assert_close(back, images, atol=2e-6, rtol=0)


@pytest.mark.parametrize("amount", [0.05, 0.3, 0.5, 1.0])
def test_brightness_raises_v_as_scikit_image_does(amount):
    images = colors()
    hsv = rgb2hsv(as_pixels(images))
    hsv[..., 2] = np.clip(hsv[..., 2] + amount, 0, 1)
    result = apply("brightness", images, amount=amount)
    np.testing.assert_allclose(as_pixels(result), hsv2rgb(hsv), atol=1e-6)


def test_brightness_of_a_gray_image_is_a_shift():
    images = photo(16, 16, channels=1)
    result = apply("brightness", images, amount=[0.1, 0.4])
    torch.testing.assert_close(result[1], images[1] + 0.4)
    # the same as a gray picture in three channels
    wide = apply("brightness", images.repeat(1, 3, 1, 1), amount=[0.1, 0.4])
    torch.testing.assert_close(wide[:, :1], result.clamp(0, 1))


@pytest.mark.parametrize(("gain", "shift"), [(0.3, 0), (0.1, 0), (2, 0), (5, 0.1), (20, 0.2)])
def test_saturate_changes_s_as_scikit_image_does(gain, shift):
    images = colors()
    hsv = rgb2hsv(as_pixels(images))
    hsv[..., 1] = np.clip(hsv[..., 1] * gain + shift, 0, 1)
    result = apply("saturate", images, gain=gain, shift=shift)
    np.testing.assert_allclose(as_pixels(result), hsv2rgb(hsv), atol=3e-6)


def test_saturate_leaves_a_gray_image_and_a_gain_of_one_alone():
    gray = photo(16, 16, channels=1)
    assert torch.equal(apply("saturate", gray, gain=5, shift=0.2), gray)
    images = colors()
    torch.testing.assert_close(apply("saturate", images, gain=1, shift=0), images)


def opencv_shift(levels, hue, saturation, value):
    """Albumentations' uint8 HSV shift: look-up tables, hue on a circle of 180."""
    pixels = levels[0].permute(1, 2, 0).numpy()
    h, s, v = (
        plane.astype(np.int64) for plane in cv2.split(cv2.cvtColor(pixels, cv2.COLOR_RGB2HSV))
    )
    shifted = (h + hue) % 180, np.clip(s + saturation, 0, 255), np.clip(v + value, 0, 255)
    return cv2.cvtColor(np.stack(shifted, axis=-1).astype(np.uint8), cv2.COLOR_HSV2RGB)


@pytest.mark.parametrize(
    ("hue", "saturation", "value"),
    [(0, 0, 0), (50, 0, 0), (-100, 0, 0), (0, 80, 0), (0, -100, 0), (0, 0, 100), (90, -40, -60)],
)
def test_the_hsv_shift_is_opencvs_within_its_8_bit_rounding(hue, saturation, value):
    levels = photo_levels(64, 64, batch=1)
    result = ec.corrupt(
        levels, "vcr/hue_saturation_value", hue=hue, saturation=saturation, value=value
    )
    expected = opencv_shift(levels, hue, saturation, value)
    difference = np.abs(result[0].permute(1, 2, 0).numpy().astype(int) - expected)
    # OpenCV rounds the hue to two degrees, which is worth up to nine levels of a vivid color
    assert difference.mean() < 1
    assert (difference <= 2).mean() > 0.9
    assert difference.max() <= 12


@pytest.mark.parametrize("color", [[255, 0, 0], [0, 255, 0], [0, 0, 255], [128, 64, 64]])
@pytest.mark.parametrize("hue", [-60, 30, 60])
def test_pure_colors_turn_as_opencv_turns_them(color, hue):
    levels = torch.tensor(color, dtype=torch.uint8).reshape(1, 3, 1, 1).repeat(1, 1, 8, 8)
    result = ec.corrupt(levels, "vcr/hue_saturation_value", hue=hue, saturation=0, value=0)
    expected = opencv_shift(levels, hue, 0, 0)
    difference = result[0].permute(1, 2, 0).numpy().astype(int) - expected
    assert np.abs(difference).max() <= 2


# ---- contrast


@pytest.mark.parametrize("factor", [0.05, 0.4, 0.75, 1.0])
@pytest.mark.parametrize("channels", [1, 3])
def test_contrast_scales_about_each_channels_own_mean(factor, channels):
    levels = photo_levels(40, 50, channels=channels)
    images = levels.to(torch.float32) / 255
    mean = images.double().mean(dim=(2, 3), keepdim=True)
    expected = (images - mean) * torch.tensor([factor, 0.5]).reshape(2, 1, 1, 1) + mean
    for given in (images, levels):
        result = apply("contrast", given, factor=[factor, 0.5])
        np.testing.assert_allclose(result, expected, atol=1e-6)


def test_contrast_of_nothing_is_the_mean_itself():
    result = apply("contrast", photo(40, 50), factor=0)
    assert result.flatten(2).std(dim=2).max() == 0


# ---- color jitter

CLEAN = {"brightness": 1, "contrast": 1, "saturation": 1, "hue": 0, "order": 0}


def jitter(images, **changes):
    return apply("vcr/color_jitter", images, **{**CLEAN, **changes})


@pytest.mark.parametrize("order", [0, 7, 23])
def test_jitter_by_nothing_is_the_image_itself(order):
    images = colors()
    torch.testing.assert_close(jitter(images, order=order), images, atol=2e-6, rtol=0)


@pytest.mark.parametrize("turns", [-1, 1])
def test_a_full_turn_of_the_hue_is_the_image_itself(turns):
    images = colors()
    torch.testing.assert_close(jitter(images, hue=turns), images, atol=2e-6, rtol=0)
    levels = photo_levels(32, 32, batch=1)
    stored = ec.corrupt(
        levels, "vcr/color_jitter", hue=turns, brightness=1, contrast=1, saturation=1
    )
    assert torch.equal(stored, levels)


@pytest.mark.parametrize("factor", [0, 0.4, 1.7, 2])
def test_the_brightness_factor_multiplies(factor):
    images = colors()
    torch.testing.assert_close(jitter(images, brightness=factor), (images * factor).clamp(0, 1))


def luma_of(images):
    weights = torch.tensor([0.299, 0.587, 0.114], dtype=torch.float64).reshape(1, 3, 1, 1)
    return (images.double() * weights).sum(dim=1, keepdim=True)


@pytest.mark.parametrize("factor", [0, 0.4, 1.7, 2])
def test_the_contrast_factor_scales_about_the_mean_gray(factor):
    images = colors()
    mean = torch.floor(luma_of(images).mean() * 255 + 0.5) / 255
    expected = ((images - mean) * factor + mean).clamp(0, 1)
    np.testing.assert_allclose(jitter(images, contrast=factor), expected, atol=1e-6)


@pytest.mark.parametrize("factor", [0, 0.4, 1.7, 2])
def test_the_saturation_factor_scales_about_each_pixels_gray(factor):
    images = colors()
    gray = luma_of(images)
    expected = ((images - gray) * factor + gray).clamp(0, 1)
    np.testing.assert_allclose(jitter(images, saturation=factor), expected, atol=1e-6)


@pytest.mark.parametrize("turns", [-0.4, 0.1, 0.5])
def test_the_hue_turns_as_in_scikit_image(turns):
    images = colors()
    hsv = rgb2hsv(as_pixels(images))
    hsv[..., 0] = (hsv[..., 0] + turns) % 1
    np.testing.assert_allclose(as_pixels(jitter(images, hue=turns)), hsv2rgb(hsv), atol=5e-6)


def test_each_of_the_24_orders_is_taken_one_step_after_the_other():
    images = colors()
    steps = [{"brightness": 1.5}, {"contrast": 0.6}, {"saturation": 1.8}, {"hue": 0.2}]
    together = {key: value for step in steps for key, value in step.items()}
    results = jitter(images.repeat(24, 1, 1, 1), **{**together, "order": list(range(24))})
    for order, result in zip(permutations(range(4)), results, strict=True):
        expected = images
        for place in order:
            expected = jitter(expected, **steps[place])
        np.testing.assert_allclose(result, expected[0], atol=5e-6)


def test_a_gray_image_has_no_hue_and_no_saturation_to_jitter():
    images = photo(16, 16, channels=1)
    torch.testing.assert_close(jitter(images, hue=0.3, saturation=0), images, atol=1e-6, rtol=0)
