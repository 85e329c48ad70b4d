"""The rulers fitted to humans: `vif-human`, and `human`, the expected loss of human accuracy.

`vif-human` is VIF after registration, with the visual noise of a human eye: an image that was only
moved keeps nearly all of its information for a human, and for this ruler. `human` maps it to the
loss of accuracy; its map is fitted by `eyechart rulers study --fit` and stored as data.
"""

from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files

import numpy as np
import torch
from torch import Tensor

from eyechart.core.arrays import FloatArray
from eyechart.core.records import Record
from eyechart.visual_change.gray import to_gray
from eyechart.visual_change.registration.estimate import (
    CleanCopies,
    Motion,
    describe_copies,
    motion_of,
    register,
    view_of_clean,
)
from eyechart.visual_change.registration.view import visible_vif
from eyechart.visual_change.registry import find_ruler
from eyechart.visual_change.ruler import CleanDescription, Ruler, check_size
from eyechart.visual_change.vif import pyramid
from eyechart.visual_change.vif.fidelity import map_chunks
from eyechart.visual_change.vif.rulers import DefinedRuler, SubbandRuler, delta_v_from_vif
from eyechart.visual_change.vif.statistics import HUMAN, CleanStatistics, Definition


@dataclass(frozen=True, kw_only=True)
class MotionPenalty:
    """How much of an image is lost by moving it, although all of it can be seen.

    What is left is exp(−p) of what VIF measures, where p is the sum of all terms. What left the
    frame is lost in proportion to its area.

    Attributes:
        rotation: p at 180°; it is proportional to the angle.
        log_scale: p for a magnification by 2 or by ½; proportional to its logarithm.
        shift: p for a shift by the longer side; proportional to the shift.
        shear: p if one direction is magnified twice as much as the other; proportional to the
            logarithm of the ratio.
        mirror: p of a mirrored image.
    """

    # fitted to human accuracy at 90°, 180° and 270°, see docs/research/rulers.md
    rotation: float = 0.9
    log_scale: float = 0.02
    shift: float = 0.02
    shear: float = 0.05
    mirror: float = 0.02

    def retained_fraction(self, motion: Motion) -> Tensor:
        """Return the factor (B,) by which VIF is multiplied, 0 … 1; 1 if nothing moved."""
        total = (
            self.rotation * motion.rotation.abs() / 180
            + self.log_scale * motion.log_scale.abs()
            + self.shift * motion.shift
            + self.shear * motion.shear
            + self.mirror * motion.mirror
        )
        return torch.exp(-total) * motion.share


REGISTERED_AT_ONCE = {"cpu": 1, "cuda": 256}
"""Number of images registered at once: on a CPU one for each core, on a GPU as memory allows."""


@dataclass(frozen=True, eq=False)
class HumanDescription:
    """Clean images as VIF and registration need them."""

    statistics: CleanStatistics
    gray: Tensor
    copies: CleanCopies

    def __len__(self) -> int:
        return len(self.gray)

    @property
    def measurable(self) -> Tensor:
        """Which images contain enough information for their Δv to be defined, bool (B,)."""
        return self.statistics.measurable

    @property
    def n_scales(self) -> int:
        """The number of scales of the pyramid."""
        return self.statistics.n_scales

    def select(self, indices: Tensor) -> "HumanDescription":
        """Return the description of the images at these indices, which may repeat."""
        return HumanDescription(
            self.statistics.select(indices), self.gray[indices], self.copies.select(indices)
        )


@dataclass(frozen=True)
class HumanRuler(DefinedRuler):
    """Δv = 1 − retained · VIF, where VIF compares an image with the clean one moved alike.

    `retained` is below 1 for what left the frame and for the motion itself, see `MotionPenalty`. If
    the images were not moved, Δv is that of VIF with the same definition.
    """

    definition: Definition = HUMAN

    version = 2
    smallest_side, full_side = pyramid.SMALLEST_SIDE, pyramid.FULL_SIDE
    limits = (
        "Undoes one rotation, scaling, shift, shear or mirroring of the whole image, not waves or"
        " perspective; color is converted to gray first, clean images that are nearly constant or a"
        " pure grating have no Δv, and raised contrast counts as no change."
    )

    def describe(self, clean: Tensor) -> HumanDescription:
        """Return the description of clean images, uint8 (B, C, H, W)."""
        check_size(self, clean)
        gray = to_gray(clean)
        statistics = SubbandRuler(self.definition).describe_gray(gray)
        return HumanDescription(statistics, gray, describe_copies(gray))

    def compare(self, description: CleanDescription, corrupted: Tensor) -> Tensor:
        """Return Δv of corrupted images, uint8 (B, C, H, W); NaN where it cannot be measured."""
        assert isinstance(description, HumanDescription)
        gray = to_gray(corrupted)
        if len(description) == 1 and len(gray) > 1:
            # a repeated image shares its spectra, which are looked up by index
            description = description.select(torch.zeros(len(gray), dtype=torch.int64))
        plain = SubbandRuler(self.definition).fidelity(description.statistics, gray)
        # on a CPU, each image is a part, so that its value cannot depend on others
        size = REGISTERED_AT_ONCE.get(gray.device.type, 1)
        parts = map_chunks(
            gray, lambda part: self._registered(description, part, gray[part]), size,
            one_thread_each=True,
        )  # fmt: skip
        vif = torch.cat(parts)
        # registration never makes a change larger, and equal images have none at all
        is_same = (gray == description.gray).flatten(1).all(dim=1)
        vif = torch.where(is_same, 1.0, torch.maximum(plain, vif))
        return delta_v_from_vif(vif, description.measurable)

    def _registered(self, description: HumanDescription, part: slice, gray: Tensor) -> Tensor:
        """Return VIF (B,) of what was moved, with the penalty; 0 for what was not moved."""
        maps = register(description.copies.select(torch.arange(part.start, part.stop)), gray)
        # compared exactly: `register` returns the identity itself where it accepts no map
        is_moved = (maps != torch.eye(2, 3, dtype=maps.dtype, device=maps.device)).any(dim=(1, 2))
        places = is_moved.nonzero().flatten()
        # 0 leaves plain VIF as the maximum in `compare`
        vif = torch.zeros(len(gray), dtype=torch.float64, device=gray.device)
        if not len(places):
            return vif
        clean, moved = description.gray[part][places], gray[places]
        shown, maps = view_of_clean(clean, moved, maps[places])
        motion = motion_of(maps, shown.share, (gray.shape[1], gray.shape[2]))
        value = visible_vif(shown, self.definition)
        return vif.index_copy(0, places, value * MotionPenalty().retained_fraction(motion))


HUMAN_RULER = HumanRuler()


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
        return _interpolated(delta_v, *self._knots)

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
    stored = files("eyechart.visual_change").joinpath("data", "human_calibration.json")
    return HumanCalibration.model_validate_json(stored.read_text(encoding="utf-8"))


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
