"""The ruler `human`: a map stored as data, its inverse, its interval, and its provenance."""

import numpy as np
import pytest
import torch

from eyechart.visual_change.registration.human_ruler import (
    ExpectedLossRuler,
    HumanCalibration,
    read_calibration,
)
from eyechart.visual_change.registry import RULERS, find_ruler
from real_images import real_images

BASE = next(name for name in RULERS if "pixel" in name)
KNOTS = ((0.0, 0.0), (0.5, 0.1), (0.9, 0.4), (1.0, 1.0))


@pytest.fixture
def ruler():
    """A calibration of the fastest ruler, whose map is known."""
    return ExpectedLossRuler(read_calibration().model_copy(update={"ruler": BASE, "knots": KNOTS}))


@pytest.fixture
def images():
    clean = torch.from_numpy(real_images()[:2]).movedim(-1, 1)
    return clean, (clean / 4 + 96).to(torch.uint8)


def test_the_value_is_the_mapped_value_of_the_calibrated_ruler(ruler, images):
    clean, corrupted = images
    base = find_ruler(BASE)
    expected = np.interp(base.compare(base.describe(clean), corrupted), *zip(*KNOTS, strict=True))
    loss = ruler.compare(ruler.describe(clean), corrupted)
    assert loss.numpy() == pytest.approx(expected)
    assert (ruler.compare(ruler.describe(clean), clean) < 1e-9).all()


def test_raw_values_are_the_inverse_of_the_map(ruler):
    delta_v = torch.linspace(0, 1, 50, dtype=torch.float64)
    assert torch.allclose(ruler.raw(ruler.expected_loss(delta_v)), delta_v)
    assert ruler.expected_loss(torch.tensor([float("nan")])).isnan().all()


def test_the_stored_map_rises_strictly_from_0_to_1_and_names_its_sources():
    stored = read_calibration()
    values, losses = np.array(stored.knots).T
    assert (values[0], losses[0], values[-1], losses[-1]) == (0, 0, 1, 1)
    assert (np.diff(values) > 0).all() and (np.diff(losses) > 0).all()
    assert 0 < stored.half_width95 < 0.5
    assert "Geirhos" in stored.humans and stored.n_images >= 20
    assert len(stored.experiments) >= 6


def test_a_calibration_with_an_unknown_field_is_rejected():
    with pytest.raises(ValueError, match="extra"):
        HumanCalibration.model_validate({**read_calibration().model_dump(), "extra": 1})
