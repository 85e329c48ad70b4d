"""Where information was lost: the map adds up to Δv and lies where the change was made."""

import numpy as np
import pytest
import torch

import eyechart as ec
from eyechart.visual_change.grey import to_grey
from eyechart.visual_change.registry import RULERS
from eyechart.visual_change.vif.fidelity import fidelity
from eyechart.visual_change.vif.maps import loss_map, losses_by_scale
from photographs import photographs


def greys(size=224):
    return to_grey(torch.from_numpy(photographs()).permute(0, 3, 1, 2)[..., :size, :])


@pytest.mark.parametrize("definition", ["vcr", "sheikh2006"])
def test_the_losses_of_all_blocks_add_up_to_one_minus_vif(definition):
    clean = greys()
    noisy = ec.corrupt(clean[:, None], "gaussian_noise", severity=2)[:, 0]
    statistics = RULERS[definition].describe_grey(clean)
    losses = losses_by_scale(statistics, noisy)
    total = sum(loss.mean(dim=(1, 2)) for loss in losses)
    assert torch.allclose(total, 1 - fidelity(statistics, noisy), atol=1e-12)


def test_the_map_has_the_size_of_the_picture_and_about_the_mean_of_delta_v():
    clean = greys(160)
    blurred = ec.corrupt(clean[:, None], "gaussian_blur", severity=2)[:, 0]
    statistics = RULERS["vcr"].describe_grey(clean)
    lost = loss_map(statistics, blurred)
    assert lost.shape == clean.shape
    assert torch.allclose(lost.mean(dim=(1, 2)), 1 - fidelity(statistics, blurred), atol=0.08)


def test_nothing_lost_is_a_map_of_zeros():
    clean = greys()
    lost = loss_map(RULERS["vcr"].describe_grey(clean), clean)
    assert lost.abs().max() < 1e-9


def test_the_loss_lies_where_the_picture_was_covered():
    clean = greys()
    covered = clean.clone()
    covered[:, 96:128, 150:182] = 128
    lost = loss_map(RULERS["vcr"].describe_grey(clean), covered).numpy()
    inside = lost[:, 100:124, 154:178].mean(axis=(1, 2))
    far = lost[:, :, :40].mean(axis=(1, 2))
    assert np.all(inside > 0.3)
    assert np.all(far < 0.05 * inside)
