"""Triton kernels against the torch code that they replace, in Triton's interpreter on the CPU."""

import os

import numpy as np
import pytest
import torch

from eyechart.core import randomness
from eyechart.core.randomness import ImageRandom
from eyechart.corruptions import blur, color
from eyechart.corruptions.kernels import arithmetic, correlation, filters, shuffle
from eyechart.corruptions.kernels.filters import median_filter
from eyechart.images import identity
from eyechart.visual_change.gray import HALF, SHIFT, WEIGHTS, to_gray
from eyechart.visual_change.vif.pyramid import _by_convolution

if torch.cuda.is_available():
    pytest.skip("cuda_check.py compares the compiled kernels", allow_module_level=True)
# Triton reads this when it is imported, since decorators decide how kernels run.
os.environ["TRITON_INTERPRET"] = "1"
pytest.importorskip("triton", reason="Triton is part of CUDA builds of torch")

CPU = torch.device("cpu")
pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True, scope="module")
def interpreted():
    """Let the interpreter run with newer versions of NumPy."""
    from triton.runtime import interpreter

    patch = interpreter._patch_lang_tensor

    def patched(tensor, scope):
        patch(tensor, scope)
        # Triton 3.6 converts arrays of one element, which NumPy 2.5 rejects.
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))

    interpreter._patch_lang_tensor = patched
    yield
    interpreter._patch_lang_tensor = patch


@pytest.fixture
def generator():
    return np.random.default_rng(0)


@pytest.fixture
def levels(generator):
    """Color images with gray, black and equal pixels, of odd height."""
    images = generator.integers(0, 256, (3, 3, 19, 26), dtype=np.uint8)
    images[0, :, :5] = images[0, :1, :5]
    images[1] = images[1] // 64 * 64
    images[2, :, :5] = 0
    return torch.from_numpy(images)


@pytest.fixture
def images(levels):
    return arithmetic.to_unit(levels)


@pytest.fixture
def random():
    return ImageRandom(torch.arange(3), [5] * 3, CPU)


def test_hue_saturation_and_value_are_equal_to_the_bit(images, random, generator):
    from eyechart.corruptions.kernels.color_triton import shift_hsv_in_triton

    hue, saturation, value = generator.uniform(-100, 100, (3, 3))
    expected = color.hue_saturation_value(
        images, random, hue=hue, saturation=saturation, value=value
    )
    computed = shift_hsv_in_triton(images, hue / 180, saturation / 255, value / 255)
    assert torch.equal(computed, expected)


def test_color_jitter_is_equal_to_the_bit_in_every_order(images, random, generator):
    from eyechart.corruptions.kernels.color_triton import jitter_in_triton

    for first in range(0, 24, 3):
        order = np.arange(first, first + 3.0)
        amounts = generator.uniform(0, 2, (3, 4)) - [0, 0, 0, 1]
        expected = color.color_jitter(
            images, random, brightness=amounts[:, 0], contrast=amounts[:, 1],
            saturation=amounts[:, 2], hue=amounts[:, 3], order=order,
        )  # fmt: skip
        steps = np.array(color._ORDERS)[order.astype(int)]
        computed = jitter_in_triton(images, steps, np.take_along_axis(amounts, steps, axis=1))
        assert torch.equal(computed, expected)


@pytest.mark.parametrize("height", [19, 18, 1])
def test_medians_are_equal(levels, height):
    from eyechart.corruptions.kernels.neighborhood_triton import median_in_triton

    gray, kernel = levels[:, :1, :height], np.array([1.0, 5, 17])
    assert torch.equal(median_in_triton(gray, kernel), median_filter(gray, kernel))


@pytest.mark.parametrize("dim", [2, 3])
def test_pixels_are_swapped_in_the_order_of_a_stable_sort(images, random, dim):
    from eyechart.corruptions.kernels.neighborhood_triton import swap_in_triton

    halves, limit = random.halves("x", 19 * 26), np.array([0, 500, 15_000])
    expected = shuffle.swap_by_sorting(images, halves, limit, dim)
    assert torch.equal(swap_in_triton(images, halves, limit, down=dim == 2), expected)


@pytest.mark.parametrize("border", ["replicate", "mirror", "reflect"])
def test_filters_agree_far_beyond_8_bits(images, border):
    from eyechart.corruptions.kernels.neighborhood_triton import (
        correlate_in_triton,
        filter_separable_in_triton,
    )

    weights = filters.gaussian_weights(np.array([1e-5, 1, 4]))
    expected = filters._separable_matrix(images, weights, border).to(torch.float32)
    computed = filter_separable_in_triton(images, weights, border)
    torch.testing.assert_close(computed, expected, rtol=0, atol=1e-7)
    kernels = blur.disk_kernels(np.array([0, 0.7, 2]), np.array([0, 1, 0.5]), CPU)
    kernels = kernels.to(torch.float32)
    computed = correlate_in_triton(images, kernels, border)
    expected = correlation.correlate_fft(images, kernels, border)
    torch.testing.assert_close(computed, expected, rtol=0, atol=1e-7)


def test_a_streak_has_at_most_as_many_taps_as_declared():
    """A bound that is too low would send wide kernels to the slow method, and the reverse."""
    for length in range(1, 50, 2):
        angles = np.linspace(0, 180, 73)
        kernels = blur.streak_kernels(np.full(73, float(length)), angles, CPU)
        assert int((kernels != 0).sum(dim=(1, 2)).max()) <= 4 * length


def test_levels_are_converted_alike(levels, images):
    from eyechart.corruptions.kernels.color_triton import (
        to_bytes_in_triton,
        to_unit_in_triton,
    )

    assert torch.equal(to_unit_in_triton(levels, arithmetic.UNIT), images)
    wide = images * 1.2 - 0.1
    computed, expected = torch.empty_like(levels), torch.empty_like(levels)
    for amount in (0.5, arithmetic.JUST_BELOW):
        to_bytes_in_triton(wide, computed, amount)
        arithmetic.to_bytes(wide, amount, expected)
        assert torch.equal(computed, expected)


def test_poisson_counts_are_equal(levels, random):
    from eyechart.core.random_triton import count_in_triton

    photons = np.array([1.0, 3.3, 60])
    uniform = random.halves("x", levels[0].numel()).reshape(levels.shape)
    thresholds = randomness._poisson_thresholds(torch.from_numpy(photons), 60.0)
    expected = randomness._poisson_by_search(levels, uniform, photons)
    computed = count_in_triton(levels, uniform, thresholds, torch.arange(3))
    assert torch.equal(computed.to(torch.int64), expected)


def test_keys_and_gray_levels_are_equal(levels, generator):
    from eyechart.images.identity_triton import mix_in_triton
    from eyechart.visual_change.vif.vif_triton import weigh_in_triton

    assert torch.equal(weigh_in_triton(levels, WEIGHTS, HALF, SHIFT), to_gray(levels))
    lanes = torch.from_numpy(generator.integers(-(2**63), 2**63 - 1, (2, 1500)))
    secrets = identity._secrets(0, 1500, CPU)
    expected = identity._mixed_sum(lanes.view(torch.uint8), 0)
    assert torch.equal(mix_in_triton(lanes, secrets, identity.MIX), expected)


def test_subbands_agree(generator):
    from eyechart.visual_change.vif.vif_triton import subbands_by_triton

    gray = torch.from_numpy(generator.integers(0, 256, (2, 37, 46), dtype=np.uint8))
    expected = _by_convolution(gray.to(torch.float64), 3, torch.float64)
    for computed, band in zip(subbands_by_triton(gray, 3, torch.float64), expected, strict=True):
        torch.testing.assert_close(computed, band, rtol=0, atol=1e-12)
