"""The elastic transform: its sampling against OpenCV and SciPy, its affine map by closed forms."""

import numpy as np
import pytest
import torch
from scipy import ndimage

from calling import CPU, apply, photo, randomness
from eyechart.core.randomness import ImageRandom
from eyechart.corruptions.digital import _affine, _affine_places
from eyechart.corruptions.kernels.resampling import fine_levels, sample_bilinear, sample_in_torch


def places(batch, height, width, reach, seed=0):
    """Random places in steps of 1/32 px, up to `reach` px away from each pixel."""
    generator = np.random.default_rng(seed)
    moves = generator.integers(-reach * 32, reach * 32 + 1, (2, batch, height, width)) / 32
    rows = np.arange(height)[:, None] + moves[0]
    columns = np.arange(width) + moves[1]
    return tuple(torch.from_numpy(each.astype(np.float32)) for each in (rows, columns))


@pytest.mark.parametrize("border", ["mirror", "reflect", "replicate"])
@pytest.mark.parametrize("size", [(64, 64), (33, 50), (8, 8)])
@pytest.mark.parametrize("reach", [1, 12, 100])
def test_sampling_in_torch_is_opencvs_to_the_last_bit(border, size, reach):
    # levels between the whole ones too, as after a first sampling
    levels = fine_levels(photo(*size, batch=3) * 0.73)
    where = places(3, *size, reach)
    by_opencv = sample_bilinear(levels, *where, border)
    assert torch.equal(sample_in_torch(levels, *where, border), by_opencv)


@pytest.mark.parametrize(("border", "mode"), [("mirror", "mirror"), ("reflect", "reflect")])
def test_sampling_is_scipys(border, mode):
    levels = fine_levels(photo(40, 50, batch=1))
    rows, columns = places(1, 40, 50, 9)
    result = sample_bilinear(levels, rows, columns, border)
    where = torch.stack((rows[0], columns[0])).numpy().astype(np.float64)
    for plane, own in zip(levels[0].numpy().astype(np.float64), result[0], strict=True):
        expected = ndimage.map_coordinates(plane, where, order=1, mode=mode)
        np.testing.assert_allclose(own, expected, atol=1e-4)


def test_fine_levels_are_the_nearest_64ths():
    images = torch.linspace(0, 1, 10_001).reshape(1, 1, 73, 137)
    levels = fine_levels(images)
    assert torch.equal(levels * 64, torch.round(levels * 64))
    assert (levels - images * 255).abs().max() <= 1 / 128 + 1e-4


def test_an_affine_map_takes_three_points_to_three_points():
    generator = np.random.default_rng(0)
    before, after = generator.random((2, 5, 3, 2)) * 100
    maps = _affine(before, after)
    ones = np.ones((5, 3, 1))
    moved = np.concatenate((before, ones), axis=2) @ maps.transpose(0, 2, 1)
    np.testing.assert_allclose(moved, after, atol=1e-8)


def test_without_a_shift_every_pixel_stays_where_it_is():
    rows, columns = _affine_places(randomness(2), np.zeros(2), 20, 31)
    assert torch.equal(rows[0], torch.arange(20.0)[:, None].expand(20, 31))
    assert torch.equal(columns[1], torch.arange(31.0).expand(20, 31))


def test_without_amplitude_and_shift_nothing_changes():
    images = photo(40, 31)
    result = apply("elastic_transform", images, amplitude=0, sigma=3, shift=0)
    torch.testing.assert_close(result, images, atol=1e-6, rtol=0)


def test_a_shift_moves_the_three_corners_by_at_most_itself():
    batch = 200
    random = ImageRandom(torch.arange(batch), [5] * batch, CPU)
    rows, columns = _affine_places(random, np.full(batch, 4.0), 90, 90)
    # the corners of the published map, as (x, y): center ± a third of the side
    moves = []
    for x, y in ((75, 75), (75, 15), (15, 15)):
        moves += [columns[:, y, x] - x, rows[:, y, x] - y]
    sizes = torch.stack(moves).abs()
    # shearing back moves a little farther than there, and never twice as far
    assert sizes.max() < 8
    # the mean of |U(−4, 4)| is 2
    assert sizes.mean().item() == pytest.approx(2, rel=0.15)


def test_wrinkles_move_pixels_as_far_as_their_smoothed_noise():
    # a ramp shows how far each pixel's content comes from: U(−1, 1) smoothed keeps 1 / (4πσ²)
    ramp = torch.linspace(0, 1, 200).repeat(1, 1, 200, 1)
    result = apply("elastic_transform", ramp, amplitude=12, sigma=2.5, shift=0)
    moved = (result - ramp)[0, 0, 30:-30, 30:-30].numpy() * 199
    expected = 12 * np.sqrt(1 / 3 / (4 * np.pi * 2.5**2))
    assert moved.std() == pytest.approx(expected, rel=0.1)
    assert abs(moved.mean()) < 0.1


def test_a_constant_image_has_nothing_to_move():
    images = torch.full((1, 3, 50, 40), 100 / 255)
    result = apply("elastic_transform", images, amplitude=300, sigma=10, shift=20)
    torch.testing.assert_close(result, images, atol=1e-6, rtol=0)
