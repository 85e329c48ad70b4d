"""How an image was moved, in numbers that a human would name, and how much that counts."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Motion:
    """How images were moved, one value per image (B,).

    Attributes:
        rotation: the angle in degrees, clockwise, −180 … 180.
        log_scale: log₂ of the magnification.
        shift: how far the center of the clean image moved, as a fraction of the longer side.
        shear: log₂ of the ratio of the largest to the smallest magnification over all directions.
        mirror: 1 if the image is mirrored (left and right exchanged before the rotation), or 0.
        share: the share of the clean image's area that is still in the frame.
    """

    rotation: Tensor
    log_scale: Tensor
    shift: Tensor
    shear: Tensor
    mirror: Tensor
    share: Tensor


def motion_of(maps: Tensor, share: Tensor, size: tuple[int, int]) -> Motion:
    """Return how images of a size (height, width) were moved, by their maps (B, 2, 3)."""
    # maps lead from the corrupted image to the clean one, but the motion is the other way round
    forward = torch.linalg.inv(maps[..., :2])
    is_mirrored = forward.det() < 0
    flip = torch.ones((len(maps), 2), dtype=maps.dtype, device=maps.device)
    flip[:, 0] = torch.where(is_mirrored, -1.0, 1.0)
    # mirrored back first, then the rotation is that of the polar decomposition
    turned = forward * flip[:, None, :]
    angle = torch.atan2(turned[:, 1, 0] - turned[:, 0, 1], turned[:, 0, 0] + turned[:, 1, 1])
    stretches = torch.linalg.svdvals(forward)
    # the clean center 0 appears at −A⁻¹·t; only its length is used, so the sign is left out
    center = (forward @ maps[..., 2:])[..., 0]
    return Motion(
        torch.rad2deg(angle),
        # log₂ of the geometric mean: the square root of the change of area
        stretches.log2().mean(dim=1),
        center.norm(dim=1) / max(size),
        # singular values are in descending order, so that the ratio is at least 1
        (stretches[:, 0] / stretches[:, 1]).log2(),
        is_mirrored.to(maps.dtype),
        share,
    )


@dataclass(frozen=True, kw_only=True)
class MotionPenalty:
    """How much of an image is lost by moving it, although all of it can be seen.

    What is left is exp(−p) of what VIF measures, where p is the sum of all terms.

    Attributes:
        rotation: p at 180°; it is proportional to the angle.
        log_scale: p for a magnification by 2 or by ½; proportional to its logarithm.
        shift: p for a shift by the longer side; proportional to the shift.
        shear: p if one direction is magnified twice as much as the other; proportional to the
            logarithm of the ratio.
        mirror: p of a mirrored image.
        hidden: exponent of the share of the clean image's area that is still in the frame; 1 counts
            what left the frame as lost in proportion to its area, 0 ignores it.
    """

    # fitted to human accuracy at 90°, 180° and 270°, see docs/rulers.md
    rotation: float = 0.9
    log_scale: float = 0.02
    shift: float = 0.02
    shear: float = 0.05
    mirror: float = 0.02
    hidden: float = 1.0

    def left(self, motion: Motion) -> Tensor:
        """Return the factor (B,) by which VIF is multiplied, 0 … 1; 1 if nothing moved."""
        total = (
            self.rotation * motion.rotation.abs() / 180
            + self.log_scale * motion.log_scale.abs()
            + self.shift * motion.shift
            + self.shear * motion.shear
            + self.mirror * motion.mirror
        )
        return torch.exp(-total) * motion.share.pow(self.hidden)


def rounded(maps: Tensor) -> Tensor:
    """Return maps (B, 2, 3) with whole degrees and pixels, without any change of scale or shear."""
    linear = maps[..., :2]
    sign = torch.where(linear.det() < 0, -1.0, 1.0)
    # the rotation of the nearest orthogonal map; `sign` covers mirrored maps too
    across = (linear[:, 0, 0] + sign * linear[:, 1, 1], linear[:, 1, 0] - sign * linear[:, 0, 1])
    angle = torch.deg2rad(torch.rad2deg(torch.atan2(across[1], across[0])).round())
    cos, sin = angle.cos(), angle.sin()
    # exact at quarter turns, where pixels are exchanged without interpolation
    cos, sin = (torch.where(value.abs() < 1e-9, 0.0, value) for value in (cos, sin))
    rows = torch.stack((cos, -sign * sin, sin, sign * cos), dim=1).reshape(-1, 2, 2)
    return torch.cat((rows, maps[..., 2:].round()), dim=2)


def is_nearly(maps: Tensor, others: Tensor, size: tuple[int, int], pixels: float) -> Tensor:
    """Return which maps (B, 2, 3) lead every point of the frame nearly to the same place."""
    # an affine difference is largest at a corner, and the sum of absolute values bounds it
    corner = maps.new_tensor([size[1] / 2, size[0] / 2, 1.0])
    return ((maps - others).abs() * corner).sum(dim=(1, 2)) <= pixels
