"""Masks and boxes that follow a geometric corruption, by the same map as the pixels.

Also `Corrupt` as an albumentations transform, which moves them in that package's formats.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eyechart.core.arguments import short_repr
from eyechart.core.errors import UsageError
from eyechart.corruptions.kernels.affine import PixelMap, take_nearest

if TYPE_CHECKING:
    from eyechart.integrations.transform import Corrupt

TV_TENSORS = "torchvision.tv_tensors"
UPRIGHT = ("XYXY", "XYWH", "CXCYWH")
"""The formats of boxes whose sides are parallel to those of the image."""


@dataclass(frozen=True)
class Moves:
    """How the pixels of a batch moved: one map per image, or None if its pixels did not move.

    Attributes:
        height: height of the images, in px.
        width: width of the images, in px.
        maps: one map per image, from positions in the output to positions in the source.
    """

    height: int
    width: int
    maps: tuple[PixelMap | None, ...]

    def move_mask(self, mask: Any) -> Any:
        """Return a moved mask of the same type and dtype.

        A mask is a tensor (…, H, W), an array (H, W) or an array (H, W, C).
        """
        if all(one is None for one in self.maps):
            return mask
        if isinstance(mask, np.ndarray):
            planes = mask if mask.ndim == 2 else np.moveaxis(mask, -1, 0)
            moved = self._move_planes(torch.from_numpy(np.ascontiguousarray(planes))).numpy()
            return moved if mask.ndim == 2 else np.ascontiguousarray(np.moveaxis(moved, 0, -1))
        if not isinstance(mask, Tensor):
            raise UsageError(f"A mask must be a tensor or a NumPy array, got {short_repr(mask)}.")
        # as a plain tensor, because a subclass may intercept the operations in between
        return self._move_planes(mask.as_subclass(Tensor)).as_subclass(type(mask))

    def _move_planes(self, mask: Tensor) -> Tensor:
        count, size = len(self.maps), (self.height, self.width)
        if tuple(mask.shape[-2:]) != size or (count > 1 and mask.shape[0] != count):
            expected = f"{self.height} × {self.width} px"
            raise UsageError(
                f"A mask must be as large as its image ({expected}) and one per image,"
                f" got shape {tuple(mask.shape)}."
            )
        planes = mask.reshape(count, -1, *size)
        moved = [
            plane[None] if one is None else take_nearest(plane[None], one)
            for plane, one in zip(planes, self.maps, strict=True)
        ]
        return torch.cat(moved).reshape(mask.shape)

    def move_boxes(self, boxes: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return boxes (N, 4) as x_min, y_min, x_max, y_max in px; moved boxes are clipped.

        A moved box is the smallest upright box around the four moved corners. A box that leaves the
        image is kept with zero area, so that boxes still match their labels.
        """
        if len(self.maps) != 1:
            raise UsageError(
                f"Boxes belong to a single image, got a batch of {len(self.maps)}: corrupt images"
                " with boxes one by one."
            )
        source = self.maps[0]
        if source is None or not len(boxes):
            return boxes
        corners = boxes[:, [[0, 1], [2, 1], [2, 3], [0, 3]]]
        moved = source.to_output(corners, self.height, self.width)
        both = np.concatenate((moved.min(axis=1), moved.max(axis=1)), axis=1)
        return np.asarray(np.clip(both, 0, np.tile((self.width, self.height), 2)))


def tv_kind(value: object) -> str | None:
    """Return the name of a tv_tensor's class, such as "Mask"; None for everything else."""
    # by name: a tv_tensor exists only if torchvision is imported, and this module never imports it
    for kind in type(value).__mro__:
        if kind.__module__.startswith(TV_TENSORS):
            return kind.__name__
    return None


def move_tv_boxes(boxes: Any, moves: Moves) -> Any:
    """Return moved `tv_tensors.BoundingBoxes` with the same format, dtype and canvas size."""
    if boxes.format.name not in UPRIGHT:
        raise UsageError(
            f"Boxes must be in format {', '.join(UPRIGHT)}, got {boxes.format.name}: convert them"
            " first."
        )
    tv_tensors = import_module(TV_TENSORS)
    convert = import_module("torchvision.transforms.v2.functional").convert_bounding_box_format
    upright = tv_tensors.BoundingBoxFormat.XYXY
    # in float64, since halves of whole numbers are lost otherwise
    plain = boxes.as_subclass(Tensor).to(torch.float64)
    corners = convert(plain, old_format=boxes.format, new_format=upright)
    moved = torch.from_numpy(moves.move_boxes(corners.reshape(-1, 4).cpu().numpy()))
    moved = convert(moved, old_format=upright, new_format=boxes.format).reshape(boxes.shape)
    return tv_tensors.wrap(_to_dtype(moved, boxes.dtype).to(boxes.device), like=boxes)


def _to_dtype(values: Tensor, dtype: torch.dtype) -> Tensor:
    # rounded, because the conversion to an integer type truncates
    return values.to(dtype) if dtype.is_floating_point else values.round().to(dtype)


def move_plain_boxes(boxes: Any, moves: Moves) -> Any:
    """Return moved boxes, each with x_min, y_min, x_max and y_max in px.

    Boxes are an array, a tensor or a list of tuples. Values after the first four, such as a label,
    are kept.
    """
    if all(one is None for one in moves.maps) or not len(boxes):
        return boxes
    if isinstance(boxes, Tensor):
        moved = torch.from_numpy(moves.move_boxes(_corners(boxes.detach().cpu().numpy())))
        return torch.cat((_to_dtype(moved, boxes.dtype).to(boxes.device), boxes[:, 4:]), dim=1)
    if isinstance(boxes, np.ndarray):
        moved_boxes = moves.move_boxes(_corners(boxes))
        if not np.issubdtype(boxes.dtype, np.floating):
            moved_boxes = np.rint(moved_boxes)
        return np.concatenate((moved_boxes.astype(boxes.dtype), boxes[:, 4:]), axis=1)
    moved_boxes = moves.move_boxes(_corners([box[:4] for box in boxes]))
    return [
        (*map(float, moved_box), *box[4:])
        for moved_box, box in zip(moved_boxes, boxes, strict=True)
    ]


def _corners(boxes: NDArray[Any] | Sequence[Any]) -> NDArray[np.float64]:
    try:
        values = np.asarray(boxes, dtype=np.float64)
        if values.ndim != 2 or values.shape[1] < 4 or not np.isfinite(values[:, :4]).all():
            raise ValueError
    except (TypeError, ValueError):
        raise UsageError(
            "Each box must be four numbers x_min, y_min, x_max, y_max in px."
        ) from None
    return values[:, :4]


def albumentations_transform(corrupt: "Corrupt") -> Any:
    """Return a transform for `albumentations.Compose`, which uses the probability of `corrupt`.

    Raises:
        ModuleNotFoundError: albumentations is not installed.
    """
    from albumentations import DualTransform

    class CorruptDual(DualTransform):  # type: ignore[misc]
        """Corrupts the image and moves masks and boxes with it."""

        def __init__(self) -> None:
            super().__init__(p=1.0)

        def __reduce__(self) -> tuple[Any, ...]:
            # A worker makes the class again, which it could not import.
            return albumentations_transform, (corrupt,)

        @property
        def targets_as_params(self) -> list[str]:
            """The fields from which the parameters are computed."""
            return ["image"]

        def get_params_dependent_on_data(
            self, params: dict[str, Any], data: dict[str, Any]
        ) -> dict[str, Any]:
            """Return the corrupted image and how its pixels moved."""
            corrupt.check_targets(
                len(data.get("keypoints", ())) > 0,
                any(data.get(name) is not None for name in ("mask", "masks", "bboxes")),
            )
            image, moves = corrupt.corrupt_with_moves(data["image"])
            return {"corrupted": image, "moves": moves}

        def apply(self, img: Any, corrupted: Any, **params: Any) -> Any:
            """Return the corrupted image."""
            return corrupted

        def apply_to_mask(self, mask: Any, moves: Moves, **params: Any) -> Any:
            """Return the moved mask."""
            return moves.move_mask(mask)

        def apply_to_bboxes(self, bboxes: Any, moves: Moves, **params: Any) -> Any:
            """Return the moved boxes, in fractions of the width and the height."""
            sides = np.tile((moves.width, moves.height), 2).astype(np.float64)
            moved = moves.move_boxes(bboxes[:, :4] * sides) / sides
            return np.concatenate((moved.astype(bboxes.dtype), bboxes[:, 4:]), axis=1)

        def apply_to_keypoints(self, keypoints: Any, **params: Any) -> Any:
            """Return the points unchanged; corruptions that would move them were rejected."""
            return keypoints

    return CorruptDual()
