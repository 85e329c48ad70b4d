"""The noises against the variances and shares that their definitions promise."""

import numpy as np
import pytest
import torch
from scipy import stats

import eyechart as ec
from calling import apply, photo


def flat(level, batch=1, side=200, channels=3):
    return torch.full((batch, channels, side, side), level)


def noise_of(name, level, **parameters):
    """What is added to an even picture, before anything is clipped; float64."""
    images = flat(level)
    return (apply(name, images, **parameters) - images).numpy().astype(np.float64)


@pytest.mark.parametrize("sigma", [0.04, 0.18, 0.38, 1.0])
def test_gaussian_noise_has_variance_sigma_squared_and_mean_0(sigma):
    noise = noise_of("gaussian_noise", 0.5, sigma=sigma)
    assert noise.var() == pytest.approx(sigma**2, rel=0.02)
    assert abs(noise.mean()) < 4 * sigma / np.sqrt(noise.size)
    assert stats.kurtosis(noise.ravel()) == pytest.approx(0, abs=0.06)


@pytest.mark.parametrize("sigma", [0.06, 0.35, 0.6])
@pytest.mark.parametrize("level", [0.25, 0.5, 1.0])
def test_speckle_noise_has_a_variance_in_proportion_to_the_squared_value(sigma, level):
    noise = noise_of("speckle_noise", level, sigma=sigma)
    assert noise.var() == pytest.approx((sigma * level) ** 2, rel=0.02)


def test_speckle_noise_leaves_black_black():
    assert not noise_of("speckle_noise", 0.0, sigma=0.6).any()


@pytest.mark.parametrize("photons", [0.5, 3, 12, 60, 500, 5000])
@pytest.mark.parametrize("level", [51 / 255, 153 / 255])
def test_shot_noise_has_variance_value_over_photons(photons, level):
    noise = noise_of("shot_noise", level, photons=photons)
    assert noise.var() == pytest.approx(level / photons, rel=0.03)
    assert abs(noise.mean()) < 5 * np.sqrt(level / photons / noise.size)


def test_shot_noise_is_whole_photons():
    result = apply("shot_noise", photo(), photons=12)
    np.testing.assert_allclose(result * 12, torch.round(result * 12), atol=1e-5)


def test_shot_noise_of_endless_photons_is_the_image():
    images = photo()
    np.testing.assert_allclose(apply("shot_noise", images, photons=np.inf), images, atol=0.005)


def test_many_and_few_photons_may_share_a_batch():
    images = photo(40, 40, batch=3)
    together = apply("shot_noise", images, photons=[3, 50_000, 2000])
    assert together[1].sub(images[1]).abs().max() < 0.03
    assert torch.equal(apply("shot_noise", images, photons=[3, 3, 2000])[[0, 2]], together[[0, 2]])


@pytest.mark.parametrize("amount", [0.0, 0.01, 0.09, 0.27, 0.5, 1.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.uint8])
def test_impulse_noise_replaces_the_stated_share_half_black_half_white(amount, dtype):
    gray, white = (0.5, 1) if dtype == torch.float32 else (128, 255)
    images = flat(gray).to(dtype)
    result = apply("impulse_noise", images, amount=amount)
    assert result.dtype == dtype
    margin = 4 * np.sqrt(0.25 / images.numel())
    for value, share in ((0, amount / 2), (white, amount / 2), (gray, 1 - amount)):
        assert (result == value).double().mean().item() == pytest.approx(share, abs=margin)
    assert set(result.unique().tolist()) <= {0, gray, white}


def test_impulse_noise_hits_each_channel_by_itself():
    hit = (apply("impulse_noise", flat(0.5), amount=0.2) != 0.5)[0]
    any_channel = hit.any(dim=0).double().mean().item()
    assert any_channel == pytest.approx(1 - 0.8**3, abs=0.01)


def test_more_impulse_noise_hits_the_same_values_and_more():
    images = flat(0.5)
    few, many = (apply("impulse_noise", images, amount=amount) != 0.5 for amount in (0.1, 0.3))
    assert (many | ~few).all()


@pytest.mark.parametrize("width", [0.03, 0.35, 1.0])
def test_uniform_noise_is_even_on_both_sides_with_variance_a_third_of_the_squared_width(width):
    noise = noise_of("vcr/uniform_noise", 0.5, width=width)
    assert noise.var() == pytest.approx(width**2 / 3, rel=0.02)
    assert abs(noise.mean()) < 4 * width / np.sqrt(3 * noise.size)
    assert np.abs(noise).max() <= width * (1 + 1e-6)
    assert stats.kstest(noise.ravel() / width, "uniform", (-1, 2)).statistic < 0.005


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("gaussian_noise", {"sigma": 0.2}),
        ("speckle_noise", {"sigma": 0.2}),
        ("shot_noise", {"photons": 30}),
        ("vcr/uniform_noise", {"width": 0.3}),
    ],
)
def test_values_channels_and_images_have_noise_of_their_own(name, parameters):
    images = flat(0.6, batch=2)
    noise = (apply(name, images, **parameters) - images).numpy()
    pairs = [
        (noise[0], noise[1]),
        (noise[0, 0], noise[0, 1]),
        (noise[0, 1], noise[0, 2]),
        (noise[..., 1:], noise[..., :-1]),
        (noise[..., 1:, :], noise[..., :-1, :]),
    ]
    for one, other in pairs:
        assert abs(np.corrcoef(one.ravel(), other.ravel())[0, 1]) < 4 / np.sqrt(one.size)


def test_noise_grows_in_place_when_it_grows():
    # the same random numbers at every strength, which a search for a strength relies on
    images = flat(0.5)
    mild, strong = (apply("gaussian_noise", images, sigma=sigma) - images for sigma in (0.1, 0.3))
    np.testing.assert_allclose(strong, 3 * mild, atol=1e-6)


def test_eight_bits_are_truncated_in_imagenet_c_and_rounded_in_vcr():
    images = torch.full((1, 1, 200, 200), 128, dtype=torch.uint8)
    truncated, rounded = (
        ec.corrupt(images, name, sigma=0.05).double().mean().item() - 128
        for name in ("gaussian_noise", "vcr/gaussian_noise")
    )
    assert truncated == pytest.approx(-0.5, abs=0.25)
    assert rounded == pytest.approx(0, abs=0.25)
