"""The ruler vif-human: a moved image has hardly changed, and all else is measured as by VIF."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

import eyechart as ec
from eyechart.visual_change.registration.human_ruler import HUMAN_RULER, HumanRuler, MotionPenalty
from eyechart.visual_change.vif.rulers import SubbandRuler
from eyechart.visual_change.vif.statistics import HUMAN, VCR
from moved_images import CUBIC, LINEAR, NEAREST, map_of, move
from real_images import real_images


@pytest.fixture(scope="module")
def clean():
    return torch.from_numpy(real_images()).permute(0, 3, 1, 2).contiguous()


@pytest.fixture(scope="module")
def description(clean):
    return HUMAN_RULER.describe(clean)


def moved(images, back, order=LINEAR):
    planes = [[move(plane.numpy(), back, order) for plane in image] for image in images]
    return torch.from_numpy(np.stack(planes))


@pytest.mark.parametrize("order", [NEAREST, LINEAR, CUBIC])
def test_a_pixel_and_a_degree_are_hardly_a_change(clean, description, order):
    for back, most in ((map_of(across=1), 0.02), (map_of(1), 0.03)):
        corrupted = moved(clean[:2], back, order)
        change = HUMAN_RULER.compare(description.select(torch.tensor([0, 1])), corrupted)
        assert (change > 0).all() and (change < most).all()
        assert (ec.delta_v(clean[:2], corrupted) > 0.4).all()


def test_a_degree_is_hardly_a_change_if_pillow_interpolates(clean, description):
    images = [Image.fromarray(image.permute(1, 2, 0).numpy()) for image in clean]
    turned = np.stack([np.asarray(image.rotate(1, Image.Resampling.BICUBIC)) for image in images])
    change = HUMAN_RULER.compare(description, torch.from_numpy(turned).permute(0, 3, 1, 2))
    assert (change > 0).all() and (change < 0.03).all()


def test_turned_and_mirrored_images_keep_all_but_the_penalty(clean, description):
    penalty = MotionPenalty()
    for place, (corrupted, total) in enumerate(
        (
            (clean.rot90(1, (2, 3)), penalty.rotation / 2),
            (clean.rot90(2, (2, 3)), penalty.rotation),
            (clean.flip(3), penalty.mirror),
        )
    ):
        two = torch.tensor([place, place + 1])
        change = HUMAN_RULER.compare(description.select(two), corrupted[two])
        torch.testing.assert_close(
            change, torch.full_like(change, 1 - np.exp(-total)), rtol=0, atol=1e-4
        )


def test_what_left_the_frame_is_lost_in_proportion(clean, description):
    two = torch.tensor([0, 2])
    change = HUMAN_RULER.compare(description.select(two), moved(clean[two], map_of(across=45)))
    left = (1 - change) / np.exp(-MotionPenalty().shift * 45 / 224)
    torch.testing.assert_close(left, torch.full_like(left, 179 / 224), rtol=0, atol=5e-3)


def test_unmoved_images_have_the_vif_of_the_definition(clean, description):
    plain = SubbandRuler(HUMAN)
    for name in ("gaussian_noise", "contrast"):
        corrupted = ec.corrupt(clean, name, severity=3)
        expected = plain.compare(plain.describe(clean), corrupted)
        assert torch.equal(HUMAN_RULER.compare(description, corrupted), expected)


def test_equal_images_have_no_change_at_all(clean, description):
    assert (HUMAN_RULER.compare(description, clean) == 0).all()


def test_values_do_not_depend_on_the_batch(clean, description):
    corrupted = torch.cat(
        [moved(clean[:1], map_of(14, 1.1)), ec.corrupt(clean[1:2], "snow", severity=4),
         clean[2:3].flip(3), moved(clean[3:], map_of(0.4))]
    )  # fmt: skip
    together = HUMAN_RULER.compare(description, corrupted)
    order = torch.tensor([2, 0, 3, 0])
    assert torch.equal(
        HUMAN_RULER.compare(description.select(order), corrupted[order]), together[order]
    )
    alone = HUMAN_RULER.compare(HUMAN_RULER.describe(clean[3:]), corrupted[3:])
    assert torch.equal(alone, together[3:])


def test_noise_and_weights_are_parameters(clean):
    clean = clean[:2]
    noisy = ec.corrupt(clean, "gaussian_noise", severity=3)
    as_published = HumanRuler(replace(HUMAN, noise_variance=VCR.noise_variance, scale_weights=()))
    torch.testing.assert_close(
        as_published.compare(as_published.describe(clean), noisy), ec.delta_v(clean, noisy)
    )
    coarse, fine = (
        ruler.compare(ruler.describe(clean), noisy)
        for ruler in (
            HumanRuler(replace(HUMAN, scale_weights=weights))
            for weights in ((0.0, 0.0, 0.0, 1.0), (1.0, 0.0, 0.0, 0.0))
        )
    )
    # noise is mostly fine
    assert (coarse < fine).all()


def test_its_raw_value_is_its_value():
    values = torch.tensor([0.0, 0.4, 1.0], dtype=torch.float64)
    assert torch.equal(HUMAN_RULER.raw(values), values) and HUMAN_RULER.raw_name == "Δv"
