"""The experimental ruler `human`: the expected loss of human accuracy, from a map stored as data.

The map is fitted by `eyechart rulers study --fit`; see `HumanCalibration` for what is stored.
"""

from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files

import numpy as np
import torch
from torch import Tensor

from eyechart.core.arrays import FloatArray
from eyechart.core.records import Record
from eyechart.visual_change.registry import find_ruler
from eyechart.visual_change.ruler import CleanDescription, Ruler

STORED = "human_calibration.json"


class HumanCalibration(Record):
    """A map from a ruler's Δv to the expected loss of human accuracy, and where it comes from."""

    ruler: str
    """The ruler whose Δv is mapped."""
    ruler_version: int
    """The version of that ruler for which the map was fitted."""
    knots: tuple[tuple[float, float], ...]
    """Δv of the ruler and expected loss, both increasing from 0 to 1; straight lines in between."""
    half_width95: float
    """95 % quantile of the absolute error over conditions of experiments left out of the fit."""
    experiments: tuple[str, ...]
    """The human experiments behind the map."""
    n_images: int
    """Number of images in which the experiments' conditions were regenerated."""
    images: str
    """Where the images come from."""
    humans: str
    """Where the human counts come from."""
    date: str
    """Date of the fit, in ISO format."""


@dataclass(frozen=True)
class ExpectedLossRuler:
    """Expected loss of human accuracy (0 … 1) in a 16-choice task, from another ruler's Δv.

    0 is the accuracy on clean images, 1 is guessing. It is not a visual change like other rulers'
    Δv, and is never compared with one.
    """

    calibration: HumanCalibration

    name = "human"
    version = 2
    raw_name = "Δv by vif-human"
    summary = "Expected loss of human accuracy, from vif-human by a fitted map (experimental)."
    limits = (
        "Experimental: fitted to six experiments with gray images shown for 200 ms, so that color,"
        " weather, occlusion and larger images are extrapolated; predictions of a new corruption"
        " are off by up to the stated half-width."
    )

    @cached_property
    def base(self) -> Ruler:
        """The ruler whose Δv is mapped."""
        return find_ruler(self.calibration.ruler)

    @property
    def smallest_side(self) -> int:
        """Minimum width and height of images in pixels: that of the mapped ruler."""
        return self.base.smallest_side

    @property
    def full_side(self) -> int:
        """Minimum length of the shorter side at which all scales are used, in pixels."""
        return self.base.full_side

    def describe(self, clean: Tensor) -> CleanDescription:
        """Return the mapped ruler's description of clean images, uint8 (B, C, H, W)."""
        return self.base.describe(clean)

    def compare(self, description: CleanDescription, corrupted: Tensor) -> Tensor:
        """Return the expected loss for corrupted images, uint8 (B, C, H, W), as float64 (B,)."""
        return self.expected_loss(self.base.compare(description, corrupted))

    def expected_loss(self, delta_v: Tensor) -> Tensor:
        """Return the expected loss of human accuracy at Δv of the mapped ruler."""
        values, losses = self._knots
        return _interpolated(delta_v, values, losses)

    def interval(self, loss: Tensor) -> tuple[Tensor, Tensor]:
        """Return the ends of the 95 % prediction interval of the loss under a new corruption."""
        half = self.calibration.half_width95
        return (loss - half).clamp(0, 1), (loss + half).clamp(0, 1)

    def raw(self, delta_v: Tensor) -> Tensor:
        """Return Δv of the mapped ruler, from which the expected loss was computed."""
        values, losses = self._knots
        return _interpolated(delta_v, losses, values)

    @cached_property
    def _knots(self) -> tuple[FloatArray, FloatArray]:
        values, losses = zip(*self.calibration.knots, strict=True)
        return np.array(values), np.array(losses)


def read_calibration() -> HumanCalibration:
    """Return the calibration that is part of the package."""
    text = files("eyechart.visual_change").joinpath("data", STORED).read_text(encoding="utf-8")
    return HumanCalibration.model_validate_json(text)


def _interpolated(places: Tensor, knots: FloatArray, values: FloatArray) -> Tensor:
    """Return the piecewise linear function through knots; NaN stays NaN."""
    x, y = (
        torch.as_tensor(array, dtype=torch.float64, device=places.device)
        for array in (knots, values)
    )
    place = places.to(torch.float64).clamp(0, 1)
    # `searchsorted` needs a number; the share below is NaN in any case
    left = torch.searchsorted(x, place.nan_to_num(), right=True).clamp(1, len(x) - 1) - 1
    share = (place - x[left]) / (x[left + 1] - x[left])
    return y[left] + share * (y[left + 1] - y[left])


EXPECTED_LOSS_RULER = ExpectedLossRuler(read_calibration())
