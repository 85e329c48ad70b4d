"""Where information was lost: the map adds up to Δv and lies where the change was made."""

import numpy as np
import pytest
import torch

import eyechart as ec
from eyechart.visual_change.gray import to_gray
from eyechart.visual_change.registry import RULERS
from eyechart.visual_change.vif.fidelity import fidelity
from eyechart.visual_change.vif.rulers import loss_map, losses_by_scale
from real_images import real_images


def grays(size=224):
    return to_gray(torch.from_numpy(real_images()).permute(0, 3, 1, 2)[..., :size, :])


@pytest.mark.parametrize("ruler", ["vif", "sheikh2006"])
def test_the_losses_of_all_blocks_add_up_to_one_minus_vif(ruler):
    clean = grays()
    noisy = ec.corrupt(clean[:, None], "gaussian_noise", severity=2)[:, 0]
    statistics = RULERS[ruler].describe_gray(clean)
    losses = losses_by_scale(statistics, noisy)
    total = sum(loss.mean(dim=(1, 2)) for loss in losses)
    assert torch.allclose(total, 1 - fidelity(statistics, noisy), atol=1e-12)


def test_the_map_has_the_size_of_the_image_and_about_the_mean_of_delta_v():
    clean = grays(160)
    blurred = ec.corrupt(clean[:, None], "gaussian_blur", severity=2)[:, 0]
    statistics = RULERS["vif"].describe_gray(clean)
    lost = loss_map(statistics, blurred)
    assert lost.shape == clean.shape
    assert torch.allclose(lost.mean(dim=(1, 2)), 1 - fidelity(statistics, blurred), atol=0.08)


def test_nothing_lost_is_a_map_of_zeros():
    clean = grays()
    lost = loss_map(RULERS["vif"].describe_gray(clean), clean)
    assert lost.abs().max() < 1e-9


def test_the_loss_lies_where_the_image_was_covered():
    clean = grays()
    covered = clean.clone()
    covered[:, 96:128, 150:182] = 128
    lost = loss_map(RULERS["vif"].describe_gray(clean), covered).numpy()
    inside = lost[:, 100:124, 154:178].mean(axis=(1, 2))
    far = lost[:, :, :40].mean(axis=(1, 2))
    assert np.all(inside > 0.3)
    assert np.all(far < 0.05 * inside)
