"""`Corrupt` as an albumentations transform; only `Corrupt.as_albumentations` imports this file."""

from typing import TYPE_CHECKING, Any

import numpy as np
from albumentations import DualTransform
from numpy.typing import NDArray

from eyechart.integrations.targets import Moves

if TYPE_CHECKING:
    from eyechart.integrations.transform import Corrupt


class CorruptDual(DualTransform):  # type: ignore[misc]
    """Corrupts the image and moves masks and boxes with it; `Corrupt` sets `p` and the seed."""

    def __init__(self, corrupt: "Corrupt") -> None:
        super().__init__(p=1.0)
        self.corrupt = corrupt

    @property
    def targets_as_params(self) -> list[str]:
        """The fields from which the parameters are computed."""
        return ["image"]

    def get_params_dependent_on_data(
        self, params: dict[str, Any], data: dict[str, Any]
    ) -> dict[str, Any]:
        """Return the corrupted image and how its pixels moved."""
        self.corrupt.check_targets(
            len(data.get("keypoints", ())) > 0,
            any(data.get(name) is not None for name in ("mask", "masks", "bboxes")),
        )
        image, moves = self.corrupt.corrupt_with_moves(data["image"])
        return {"corrupted": image, "moves": moves}

    def apply(self, img: Any, corrupted: Any, **params: Any) -> Any:
        """Return the corrupted image."""
        return corrupted

    def apply_to_mask(self, mask: Any, moves: Moves, **params: Any) -> Any:
        """Return the moved mask."""
        return moves.move_mask(mask)

    def apply_to_bboxes(self, bboxes: Any, moves: Moves, **params: Any) -> Any:
        """Return the moved boxes, in fractions of the width and the height."""
        sides: NDArray[np.float64] = np.tile((moves.width, moves.height), 2).astype(np.float64)
        moved = moves.move_boxes(bboxes[:, :4] * sides) / sides
        return np.concatenate((moved.astype(bboxes.dtype), bboxes[:, 4:]), axis=1)

    def apply_to_keypoints(self, keypoints: Any, **params: Any) -> Any:
        """Return the points unchanged; corruptions that would move them were rejected before."""
        return keypoints
