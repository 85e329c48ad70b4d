"""The regenerated conditions of human experiments, against their published formulas."""

import numpy as np
import pytest
import torch
from scipy.ndimage import gaussian_filter

from eyechart.humans.placement import MEAN_GRAY, apply_condition
from eyechart.rulers import conditions
from eyechart.rulers.conditions import amplitudes, make_clean, to_shown
from eyechart.rulers.human_experiments import EXPERIMENTS
from eyechart.rulers.vif_fit import quarter_turns
from eyechart.visual_change.gray import to_gray
from real_images import real_images


@pytest.fixture(scope="module")
def levels():
    return to_gray(torch.from_numpy(real_images()).movedim(-1, 1))


@pytest.fixture(scope="module")
def clean(levels):
    return make_clean(levels)


@pytest.mark.parametrize(
    ("function", "experiment", "strength"),
    [
        (conditions.contrast, "contrast", 0.05),
        (conditions.low_pass, "lowpass", 3.0),
        (conditions.low_pass, "lowpass", 40.0),
        (conditions.low_pass, "lowpass", 0.0),
    ],
)
def test_contrast_and_blur_equal_those_by_scipy(clean, levels, function, experiment, strength):
    shown = to_shown(function(clean, strength))
    expected = [apply_condition(gray.numpy(), experiment, strength) for gray in levels]
    # sums in another order may fall on the other side of a half
    assert (shown.int() - torch.from_numpy(np.stack(expected)).int()).abs().max() <= 1
    assert (shown == torch.from_numpy(np.stack(expected))).float().mean() > 0.999


@pytest.mark.parametrize("sigma", [0.4, 3.0])
def test_high_pass_is_what_the_blur_removes_around_the_mean_gray(clean, sigma):
    gray = clean.gray[0].numpy()
    removed = gray - gaussian_filter(gray, sigma, mode="constant", cval=MEAN_GRAY)
    expected = removed - removed.mean() + MEAN_GRAY
    assert np.allclose(conditions.high_pass(clean, sigma)[0], expected, atol=1e-9)


def test_an_infinite_high_pass_is_the_clean_image(clean):
    assert torch.equal(conditions.high_pass(clean, float("inf")), clean.gray)


def test_uniform_noise_has_its_width_and_variance_at_low_contrast(clean):
    noise = conditions.uniform_noise(clean, 0.2) - conditions.contrast(clean, 0.3)
    assert noise.abs().max() <= 0.2
    assert noise.var().item() == pytest.approx(0.2**2 / 3, rel=0.02)


def test_scrambled_phases_are_those_of_averaged_conjugate_pairs(clean):
    """By hand: the real part averages F'(k) and the conjugate of F'(−k)."""
    width, (height, breadth) = 90.0, clean.gray.shape[1:]
    half = (height - 1) * (breadth - 1) // 2
    uniform = clean.random("phase-scrambling", width).uniform("phase", (half,))
    shifts = (2 * uniform[0].numpy().astype(float) - 1) * np.deg2rad(width)
    angles = np.zeros((height, breadth))
    angles[1:, 1:] = np.concatenate([shifts, [0], -shifts]).reshape(height - 1, breadth - 1)
    angles = np.roll(angles, (-(height // 2), -(breadth // 2)), axis=(0, 1))
    turned = np.fft.fft2(clean.gray[0].numpy()) * np.exp(1j * angles)
    opposite = np.roll(turned[::-1, ::-1], (1, 1), axis=(0, 1)).conj()
    expected = np.fft.ifft2((turned + opposite) / 2)
    assert np.abs(expected.imag).max() < 1e-12
    assert np.allclose(conditions.phase_scrambling(clean, width)[0], expected.real, atol=1e-9)


def test_no_phase_shift_changes_nothing_and_the_mean_always_stays(clean):
    assert torch.allclose(conditions.phase_scrambling(clean, 0.0), clean.gray, atol=1e-12)
    scrambled = conditions.phase_scrambling(clean, 180.0)
    assert torch.allclose(scrambled.mean(dim=(1, 2)), clean.gray.mean(dim=(1, 2)), atol=1e-9)


def test_equalised_images_share_their_amplitudes_and_keep_their_phases(clean, levels):
    equal = conditions.power_equalisation(clean, 1.0)
    spectrum = torch.fft.fft2(equal)
    assert torch.allclose(
        spectrum.abs(), amplitudes(levels).mean(dim=0).expand_as(equal), atol=1e-6
    )
    agreement = (spectrum / torch.fft.fft2(clean.gray)).angle().abs()
    assert agreement.median() < 1e-9
    assert torch.equal(conditions.power_equalisation(clean, 0.0), clean.gray)


@pytest.mark.parametrize(("degrees", "turns"), [(0, 0), (90, 1), (180, 2), (270, 3)])
def test_rotations_are_counterclockwise_and_their_quarter_turns_are_found(
    clean, levels, degrees, turns
):
    rotated = to_shown(conditions.rotation(clean, float(degrees)))
    assert np.array_equal(rotated[0], np.rot90(levels[0].numpy(), turns))
    assert quarter_turns(levels, rotated).tolist() == [turns] * len(levels)


def test_noise_blur_and_contrast_are_not_taken_for_a_rotation(clean, levels):
    for function, strength in (
        (conditions.contrast, 0.03), (conditions.low_pass, 10.0), (conditions.uniform_noise, 0.35),
        (conditions.high_pass, 0.7), (conditions.phase_scrambling, 120.0),
    ):  # fmt: skip
        shown = to_shown(function(clean, strength))
        assert quarter_turns(levels, shown).tolist() == [0] * len(levels), function.__name__


def test_an_eidolon_without_reach_is_the_finest_blur_and_reach_destroys_it(levels):
    clean = make_clean(levels[:1])
    still = conditions.eidolon(clean, 0.0, 1.0, 10.0)
    # the scales add up to the image at the finest one
    expected = gaussian_filter(clean.gray[0].numpy(), 2**-0.5, mode="reflect", truncate=8)
    assert np.abs(still[0].numpy() - expected).max() < 0.01
    distances = [
        (conditions.eidolon(clean, reach, 0.0, 10.0) - clean.gray).abs().mean()
        for reach in (2.0, 16.0)
    ]
    assert distances[0] < distances[1]
    coherent = conditions.eidolon(clean, 16.0, 1.0, 10.0)
    assert (coherent - clean.gray).abs().mean() < distances[1]


def test_a_condition_depends_on_the_image_alone_not_on_its_batch(clean, levels):
    alone = make_clean(levels[1:2], clean.mean_amplitude)
    for experiment in EXPERIMENTS.values():
        if experiment.name.startswith("eidolon"):
            continue
        parameters = list(experiment.parameters.values())[-1]
        both, one = (experiment.condition(some, *parameters) for some in (clean, alone))
        assert torch.equal(to_shown(both)[1:2], to_shown(one)), experiment.name
