"""What must hold of VIF and Δv whatever the photograph and whatever was done to it."""

from contextlib import contextmanager
from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from PIL import Image
from scipy.ndimage import gaussian_filter
from skimage import data

import eyechart as ec
from real_images import stimulus

DETAILED = ("astronaut", "camera", "chelsea", "coffee", "coins")
IMAGES = (*DETAILED, "rocket")
DEFINITIONS = st.sampled_from(["vif", "sheikh2006", "vif-pixel"])
TOLERANCE = {"float64": 1e-9, "float32": 1e-6}
DTYPES = st.sampled_from(list(TOLERANCE))
SEEDS = st.integers(0, 2**32 - 1)

settings.register_profile("visual change", deadline=None, derandomize=True, database=None)


def examples(count):
    return settings(settings.get_profile("visual change"), max_examples=count)


@cache
def whole(name):
    return getattr(data, name)()


@st.composite
def real_images(draw, names=IMAGES, low=72, high=200, sides=None):
    """Most of a photograph, at any size, as uint8 (H, W, C)."""
    photo = whole(draw(st.sampled_from(names)))
    shorter = min(photo.shape[:2])
    side = draw(st.integers(int(0.6 * shorter), shorter))
    top = draw(st.integers(0, photo.shape[0] - side))
    left = draw(st.integers(0, photo.shape[1] - side))
    height, width = sides or draw(st.tuples(st.integers(low, high), st.integers(low, high)))
    part = Image.fromarray(photo[top : top + side, left : left + side])
    levels = np.asarray(part.resize((width, height), Image.Resampling.BILINEAR))
    return levels.reshape(height, width, -1)


def eight_bits(values):
    return np.clip(np.rint(values), 0, 255).astype(np.uint8)


def noisy(image, sigma, seed=0):
    field = np.random.default_rng(seed).normal(0, 1, image.shape)
    return eight_bits(image + sigma * field)


def blurred(image, sigma):
    return eight_bits(gaussian_filter(image.astype(np.float64), (sigma, sigma, 0)))


def squeezed(image, contrast):
    return eight_bits(128 + contrast * (image - 128.0))


@contextmanager
def threads(number):
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


# ---- nothing lost, something gained


@examples(25)
@given(real_images(low=45), DEFINITIONS, DTYPES)
def test_an_image_keeps_all_of_its_own_information(image, ruler, dtype):
    result = ec.vif(image, image, ruler=ruler, dtype=dtype)
    assert result == pytest.approx(1, abs=TOLERANCE[dtype])


@examples(25)
@given(real_images(), DEFINITIONS, DTYPES, st.integers(-60, 60))
def test_an_offset_without_clipping_loses_nothing(image, ruler, dtype, offset):
    clean = squeezed(image, 0.5)
    shifted = (clean.astype(np.int64) + offset).astype(np.uint8)
    result = ec.vif(clean, shifted, ruler=ruler, dtype=dtype)
    assert result == pytest.approx(1, abs=TOLERANCE[dtype])


@examples(20)
@given(real_images(DETAILED), DEFINITIONS, st.floats(0.3, 0.5), st.floats(1.4, 2))
def test_more_contrast_gives_vif_above_1_and_no_visual_change(image, ruler, contrast, gain):
    clean, corrupted = squeezed(image, contrast), squeezed(image, contrast * gain)
    assert ec.vif(clean, corrupted, ruler=ruler) > 1
    assert ec.delta_v(clean, corrupted, ruler=ruler) == 0


# ---- more of the same


@examples(25)
@given(real_images(low=96), SEEDS, st.floats(0, 60), st.floats(0, 60))
def test_more_of_the_same_noise_never_raises_vif(image, seed, sigma, more):
    less, most = ec.vif(
        image, np.stack([noisy(image, sigma, seed), noisy(image, sigma + more, seed)])
    )
    assert most <= less + 1e-3


@examples(25)
@given(real_images(low=96), st.floats(0, 4), st.floats(0, 4))
def test_more_blur_never_raises_vif(image, sigma, more):
    less, most = ec.vif(image, np.stack([blurred(image, sigma), blurred(image, sigma + more)]))
    assert most <= less + 1e-3


# ---- batches


@st.composite
def pairs(draw):
    """Some photographs of one size and noisy copies, as two batches (B, H, W, C)."""
    sides = draw(st.tuples(st.integers(45, 200), st.integers(45, 200)))
    names = [name for name in IMAGES if whole(name).ndim == 3]
    cleans = draw(st.lists(real_images(names, sides=sides), min_size=2, max_size=6))
    sigmas = draw(st.lists(st.floats(0, 90), min_size=len(cleans), max_size=len(cleans)))
    corrupted = [noisy(clean, sigma) for clean, sigma in zip(cleans, sigmas, strict=True)]
    return np.stack(cleans), np.stack(corrupted)


@examples(6)
@given(pairs(), DEFINITIONS, DTYPES)
def test_a_batch_and_single_images_agree_on_any_number_of_threads(pair, ruler, dtype):
    options = {"ruler": ruler, "dtype": dtype}
    alone = [ec.vif(*each, **options) for each in zip(*pair, strict=True)]
    for number in (1, 2):
        with threads(number):
            np.testing.assert_allclose(ec.vif(*pair, **options), alone, rtol=1e-6)
            lists = [list(each) for each in pair]
            np.testing.assert_allclose(ec.vif(*lists, **options), alone, rtol=1e-6)


@examples(12)
@given(pairs(), st.sampled_from(["vif", "sheikh2006"]), DTYPES)
def test_clean_statistics_serve_as_the_clean_images_do(pair, ruler, dtype):
    clean, corrupted = pair
    options = {"ruler": ruler, "dtype": dtype}
    alone = [ec.vif(*each, **options) for each in zip(*pair, strict=True)]
    for number in (1, 2):
        with threads(number):
            statistics = ec.clean_statistics(clean, **options)
            for _ in range(2):
                result = ec.vif(statistics, corrupted, **options)
                np.testing.assert_allclose(result, alone, rtol=1e-6)


@examples(12)
@given(pairs(), DEFINITIONS, DTYPES)
def test_one_clean_image_serves_a_whole_batch(pair, ruler, dtype):
    clean, corrupted = pair[0][0], pair[1]
    options = {"ruler": ruler, "dtype": dtype}
    alone = [ec.vif(clean, each, **options) for each in corrupted]
    sources = [clean, clean[None]]
    if ruler != "vif-pixel":
        sources.append(ec.clean_statistics(clean, **options))
    for source in sources:
        np.testing.assert_allclose(ec.vif(source, corrupted, **options), alone, rtol=1e-6)


# ---- turned pictures


@examples(20)
@given(real_images(), DEFINITIONS, st.floats(0, 60))
def test_transposing_both_images_changes_nothing(image, ruler, sigma):
    corrupted = noisy(image, sigma)
    upright = ec.vif(image, corrupted, ruler=ruler)
    turned = ec.vif(image.swapaxes(0, 1), corrupted.swapaxes(0, 1), ruler=ruler)
    assert turned == pytest.approx(upright, abs=1e-9)


# the pyramid samples from the top left; where most of a picture is sky, that counts for more
@pytest.mark.parametrize(
    ("name", "margin"),
    [("astronaut", 0.02), ("camera", 0.02), ("chelsea", 0.02), ("coffee", 0.02), ("rocket", 0.1)],
)
@examples(4)
@given(
    st.sampled_from([(1, -1), (-1, 1), (-1, -1)]),
    st.sampled_from([noisy, blurred]),
    st.floats(0.5, 20),
)
def test_mirroring_both_images_changes_little(name, margin, steps, corrupt, sigma):
    clean = stimulus(whole(name)).reshape(224, 224, -1)
    corrupted = corrupt(clean, sigma)
    mirrored = (image[:: steps[0], :: steps[1]] for image in (clean, corrupted))
    assert ec.vif(*mirrored) == pytest.approx(ec.vif(clean, corrupted), abs=margin)


# ---- any pixels at all


@st.composite
def any_two_images(draw):
    shape = draw(st.tuples(st.integers(18, 48), st.integers(18, 48)))
    levels = st.sampled_from([0, 1, 127, 128, 254, 255]) | st.integers(0, 255)
    image = hnp.arrays(np.uint8, shape, elements=levels, fill=levels)
    return draw(image), draw(image)


@examples(60)
@given(any_two_images(), st.sampled_from(["vif", "sheikh2006"]), DTYPES)
def test_visual_change_is_between_0_and_1_or_not_a_number(pair, ruler, dtype):
    change = ec.measure_change(*pair, ruler=ruler, dtype=dtype)
    assert np.isfinite(change.vif).all()
    assert (change.vif >= 0).all()
    np.testing.assert_array_equal(np.isnan(change.delta_v), ~change.measurable)
    assert (np.isnan(change.delta_v) | ((change.delta_v >= 0) & (change.delta_v <= 1))).all()
