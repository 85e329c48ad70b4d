"""The ruler `vif-human`: VIF after registration, with the visual noise of a human eye.

An image that was only moved keeps nearly all of its information for a human, and for this ruler.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from eyechart.core.parallel import on_all_cores
from eyechart.visual_change.gray import to_gray
from eyechart.visual_change.registration.estimate import CleanCopies, describe_copies
from eyechart.visual_change.registration.motion import MotionPenalty, motion_of
from eyechart.visual_change.registration.registered import register, shown_by
from eyechart.visual_change.registration.visible import visible_terms
from eyechart.visual_change.ruler import DELTA_V, CleanDescription, check_size
from eyechart.visual_change.vif import pyramid
from eyechart.visual_change.vif.definitions import HUMAN, Definition
from eyechart.visual_change.vif.rulers import SubbandRuler, lost
from eyechart.visual_change.vif.statistics import CleanStatistics

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
class HumanRuler:
    """Δv = 1 − left · VIF, where VIF compares an image with the clean one moved in the same way.

    `left` is below 1 for what left the frame and for the motion itself, see `MotionPenalty`. If the
    images were not moved, Δv is that of VIF with the same definition.
    """

    definition: Definition = HUMAN
    penalty: MotionPenalty = field(default_factory=MotionPenalty)

    @property
    def name(self) -> str:
        """The name of the definition."""
        return self.definition.name

    @property
    def summary(self) -> str:
        """What the ruler measures, as a sentence."""
        return self.definition.summary

    @property
    def version(self) -> int:
        """The version, increased when the ruler gives different values for the same images."""
        return 2

    @property
    def smallest_side(self) -> int:
        """Minimum width and height of images, in pixels."""
        return pyramid.SMALLEST_SIDE

    @property
    def full_side(self) -> int:
        """Minimum length of the shorter side at which all scales are used, in pixels."""
        return pyramid.FULL_SIDE

    @property
    def limits(self) -> str:
        """The ruler's limitations, as a sentence."""
        return (
            "Undoes one rotation, scaling, shift, shear or mirroring of the whole image, not waves"
            " or perspective; color is converted to gray first, clean images that are nearly"
            " constant or a pure grating have no Δv, and raised contrast counts as no change."
        )

    @property
    def raw_name(self) -> str:
        """Δv itself, because it is already between 0 and 1."""
        return DELTA_V

    def raw(self, delta_v: Tensor) -> Tensor:
        """Return Δv unchanged."""
        return delta_v

    def describe(self, clean: Tensor) -> HumanDescription:
        """Return the description of clean images, uint8 (B, C, H, W)."""
        check_size(self, clean)
        gray = to_gray(clean)
        statistics = SubbandRuler(self.definition).describe_gray(gray)
        return HumanDescription(statistics, gray, describe_copies(gray))

    def compare(self, description: CleanDescription, corrupted: Tensor) -> Tensor:
        """Return Δv of corrupted images, uint8 (B, C, H, W); NaN where it cannot be measured."""
        if not isinstance(description, HumanDescription):
            raise TypeError(f"{self.name} cannot read a {type(description).__name__}")
        gray = to_gray(corrupted)
        if len(description) == 1 and len(gray) > 1:
            # a repeated image shares its spectra, which are looked up by index
            description = description.select(torch.zeros(len(gray), dtype=torch.int64))
        plain = SubbandRuler(self.definition).fidelity(description.statistics, gray)
        vif = torch.cat(
            _each_part(gray, lambda part: self._registered(description, part, gray[part]))
        )
        # registration never makes a change larger, and equal images have none at all
        is_same = (gray == description.gray).flatten(1).all(dim=1)
        vif = torch.where(is_same, 1.0, torch.maximum(plain, vif))
        return lost(vif, description.measurable)

    def _registered(self, description: HumanDescription, part: Tensor, gray: Tensor) -> Tensor:
        """Return VIF (B,) of what was moved, with the penalty; 0 for what was not moved."""
        maps = register(description.copies.select(part), gray)
        # compared exactly: `register` returns the identity itself where it accepts no map
        is_moved = (maps != torch.eye(2, 3, dtype=maps.dtype, device=maps.device)).any(dim=(1, 2))
        places = is_moved.nonzero().flatten()
        # 0 leaves plain VIF as the maximum in `compare`
        vif = torch.zeros(len(gray), dtype=torch.float64, device=gray.device)
        if not len(places):
            return vif
        clean, moved = description.gray[part][places], gray[places]
        shown, maps = shown_by(clean, moved, maps[places])
        terms = visible_terms(shown, self.definition, [self.definition.noise_variance])
        motion = motion_of(maps, shown.share, (gray.shape[1], gray.shape[2]))
        value = terms.vif(self.definition.scale_weights)[:, 0]
        return vif.index_copy(0, places, value * self.penalty.left(motion))


def _each_part(gray: Tensor, work: Callable[[Tensor], Tensor]) -> list[Tensor]:
    """Return the result of `work` for the indices of each part of the batch, on all cores.

    On a CPU, each image is a part, so that its value cannot depend on others.
    """
    size = REGISTERED_AT_ONCE.get(gray.device.type, 1)
    parts = [
        torch.arange(start, min(start + size, len(gray))) for start in range(0, len(gray), size)
    ]
    # threads finish in any order, so that results are stored by index
    results: dict[int, Tensor] = {}

    def one(index: int) -> None:
        results[index] = work(parts[index])

    if gray.device.type == "cpu":
        on_all_cores(one, range(len(parts)), one_thread_each=True)
    else:
        for index in range(len(parts)):
            one(index)
    return [results[index] for index in range(len(parts))]


HUMAN_RULER = HumanRuler()
