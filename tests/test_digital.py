"""Pixels and JPEG against Pillow, on the paths with it and on those without it."""

from io import BytesIO

import numpy as np
import pytest
import torch
from PIL import Image

import eyechart as ec
from calling import apply, photo_levels
from eyechart.corruptions import blocks
from eyechart.corruptions.jpeg import CHROMINANCE, LUMINANCE, _steps, jpeg_in_torch


def picture(levels):
    """One image (C, H, W) as a Pillow picture."""
    if len(levels) == 1:
        return Image.fromarray(levels[0].numpy())
    return Image.fromarray(levels.permute(1, 2, 0).contiguous().numpy())


def planes(pil):
    pixels = np.asarray(pil)
    return pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)


# ---- pixelate


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("size", [(224, 224), (61, 40), (8, 8)])
@pytest.mark.parametrize("share", [0.25, 0.3, 0.6, 0.95, 1.0])
def test_pixelate_is_pillows_box_down_and_box_up(share, size, channels):
    levels = photo_levels(*size, channels=channels)
    result = apply("pixelate", levels, size=[share, 0.5])
    small = (int(size[1] * share), int(size[0] * share))
    box = Image.Resampling.BOX
    expected = picture(levels[0]).resize(small, box).resize(size[::-1], box)
    np.testing.assert_array_equal(result[0], planes(expected))


@pytest.mark.parametrize("before", [(64, 64), (64, 31), (100, 9), (12, 301)])
@pytest.mark.parametrize("share", [0.01, 0.1, 0.26, 0.33, 0.5, 0.77, 0.95, 1])
def test_shrinking_in_torch_is_pillows_to_the_last_bit(before, share):
    levels = photo_levels(*before, batch=4)
    levels[3] = torch.from_numpy(np.random.default_rng(0).integers(0, 2, (3, *before)) * 255)
    after = tuple(max(1, int(side * share)) for side in before)
    in_torch = blocks.shrink_in_torch(levels, after)
    assert torch.equal(in_torch, blocks.shrink(levels, after))
    for image, own in zip(levels, in_torch, strict=True):
        wide = picture(image).resize((after[1], before[0]), Image.Resampling.BOX)
        np.testing.assert_array_equal(own, planes(wide.resize(after[::-1], Image.Resampling.BOX)))


@pytest.mark.parametrize("after", [(64, 64), (65, 40), (200, 31)])
def test_enlarging_blocks_is_pillows_box(after):
    levels = photo_levels(19, 23)
    expected = picture(levels[0]).resize(after[::-1], Image.Resampling.BOX)
    if min(after) >= 23:
        np.testing.assert_array_equal(blocks.enlarge(levels, after)[0], planes(expected))
    np.testing.assert_array_equal(
        blocks.enlarge(levels, (2 * 19, 3 * 23))[0],
        levels[0].repeat_interleave(2, dim=1).repeat_interleave(3, dim=2),
    )


# ---- JPEG


def through_pillow(levels, quality):
    file = BytesIO()
    picture(levels).save(file, "JPEG", quality=quality)
    return file


QUALITIES = [1, 7, 15, 25, 50, 65, 80, 95, 100]


@pytest.mark.parametrize("quality", QUALITIES)
def test_jpeg_is_pillows_own(quality):
    levels = photo_levels(61, 40)
    result = apply("jpeg_compression", levels, quality=[quality, 30])
    expected = planes(Image.open(through_pillow(levels[0], quality)))
    np.testing.assert_array_equal(result[0], expected)


@pytest.mark.parametrize("quality", QUALITIES)
def test_the_quantisation_tables_are_pillows(quality):
    header = Image.open(through_pillow(photo_levels(16, 16)[0], quality))
    for number, table in ((0, LUMINANCE), (1, CHROMINANCE)):
        steps = _steps(np.array([float(quality)]), table)[0]
        assert steps.tolist() == header.quantization[number]


def gap_to_pillow(levels, quality):
    """The mean absolute difference of each image between the torch path and Pillow."""
    in_torch = jpeg_in_torch(levels, np.full(len(levels), float(quality)))
    assert in_torch.dtype == torch.uint8
    pillow = np.stack([planes(Image.open(through_pillow(image, quality))) for image in levels])
    return np.abs(in_torch.numpy().astype(int) - pillow).mean(axis=(1, 2, 3))


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("size", [(224, 224), (225, 227)])
@pytest.mark.parametrize("quality", [1, 7, 25, 50, 95, 100])
def test_jpeg_in_torch_is_within_half_a_grey_level_of_pillow(size, channels, quality):
    gaps = gap_to_pillow(photo_levels(*size, batch=4, channels=channels), quality)
    assert gaps.max() < 0.5


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("size", [(64, 64), (61, 43), (24, 24), (16, 8)])
def test_jpeg_in_torch_is_near_pillow_on_small_pictures_too(size, channels):
    # one coefficient that falls to the other side of a rounding shows in a whole block
    levels = photo_levels(*size, batch=4, channels=channels)
    gaps = [gap_to_pillow(levels, quality).mean() for quality in QUALITIES]
    assert np.mean(gaps) < 0.5
    assert np.median(gaps) < 0.5


def test_jpeg_in_torch_is_much_nearer_to_pillow_than_to_the_picture():
    levels = photo_levels(64, 64)
    in_torch = jpeg_in_torch(levels, np.array([10.0, 10.0])).int()
    pillow = apply("jpeg_compression", levels, quality=10).int()
    assert (in_torch - pillow).abs().double().mean() < 0.1 * (
        (in_torch - levels.int()).abs().double().mean()
    )


def test_severity_3_stores_at_the_published_quality():
    levels = photo_levels(224, 224, batch=1)
    expected = planes(Image.open(through_pillow(levels[0], 15)))
    np.testing.assert_array_equal(ec.corrupt(levels, "jpeg_compression", severity=3)[0], expected)
