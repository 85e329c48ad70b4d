"""Pixels and JPEG against Pillow, on the paths with it and on those without it."""

from io import BytesIO

import numpy as np
import pytest
import torch
from PIL import Image

import eyechart as ec
from calling import apply, photo_levels
from eyechart.corruptions.kernels import resampling
from eyechart.corruptions.kernels.jpeg_torch import CHROMINANCE, LUMINANCE, _steps, jpeg_in_torch


def pil_image(levels):
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
    expected = pil_image(levels[0]).resize(small, box).resize(size[::-1], box)
    np.testing.assert_array_equal(result[0], planes(expected))


@pytest.mark.parametrize("before", [(64, 64), (64, 31), (100, 9), (12, 301)])
@pytest.mark.parametrize("share", [0.01, 0.1, 0.26, 0.33, 0.5, 0.77, 0.95, 1])
def test_shrinking_in_torch_is_pillows_to_the_last_bit(before, share):
    levels = photo_levels(*before, batch=4)
    levels[3] = torch.from_numpy(np.random.default_rng(0).integers(0, 2, (3, *before)) * 255)
    after = tuple(max(1, int(side * share)) for side in before)
    in_torch = resampling.shrink_in_torch(levels, after)
    assert torch.equal(in_torch, resampling.shrink_to_blocks(levels, after))
    for image, own in zip(levels, in_torch, strict=True):
        wide = pil_image(image).resize((after[1], before[0]), Image.Resampling.BOX)
        np.testing.assert_array_equal(own, planes(wide.resize(after[::-1], Image.Resampling.BOX)))


@pytest.mark.parametrize("after", [(64, 64), (65, 40), (200, 31)])
def test_enlarging_blocks_is_pillows_box(after):
    levels = photo_levels(19, 23)
    expected = pil_image(levels[0]).resize(after[::-1], Image.Resampling.BOX)
    if min(after) >= 23:
        np.testing.assert_array_equal(resampling.enlarge_blocks(levels, after)[0], planes(expected))
    np.testing.assert_array_equal(
        resampling.enlarge_blocks(levels, (2 * 19, 3 * 23))[0],
        levels[0].repeat_interleave(2, dim=1).repeat_interleave(3, dim=2),
    )


# ---- JPEG


def through_pillow(levels, quality):
    file = BytesIO()
    pil_image(levels).save(file, "JPEG", quality=quality)
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


def extreme_levels(height, width, channels):
    """Photographs, noise, black and white dots, and nothing but white."""
    number = np.random.default_rng(0)
    noise = number.integers(0, 256, (2, channels, height, width), dtype=np.uint8)
    dots = number.integers(0, 2, (2, channels, height, width), dtype=np.uint8) * 255
    white = np.full((1, channels, height, width), 255, dtype=np.uint8)
    photos = photo_levels(height, width, batch=4, channels=channels)
    return torch.cat([photos, *map(torch.from_numpy, (noise, dots, white))])


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(
    "size", [(224, 224), (225, 227), (64, 64), (61, 43), (24, 24), (16, 8), (9, 30), (8, 8)]
)
def test_jpeg_in_torch_has_pillows_pixels(size, channels):
    levels = extreme_levels(*size, channels)
    for quality in (1, 7, 25, 50, 75, 85, 95, 100):
        in_torch = jpeg_in_torch(levels, np.full(len(levels), float(quality)))
        assert in_torch.dtype == torch.uint8
        pillow = [planes(Image.open(through_pillow(image, quality))) for image in levels]
        np.testing.assert_array_equal(in_torch.numpy(), np.stack(pillow))


def test_a_batch_in_torch_may_mix_qualities():
    levels = photo_levels(40, 40)
    mixed = jpeg_in_torch(levels, np.array([10.0, 85.0]))
    for place, quality in enumerate((10, 85)):
        alone = jpeg_in_torch(levels[place : place + 1], np.array([float(quality)]))
        assert torch.equal(mixed[place], alone[0])


def test_severity_3_stores_at_the_published_quality():
    levels = photo_levels(224, 224, batch=1)
    expected = planes(Image.open(through_pillow(levels[0], 15)))
    np.testing.assert_array_equal(ec.corrupt(levels, "jpeg_compression", severity=3)[0], expected)
