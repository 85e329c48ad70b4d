"""`Corrupt`: corruptions as a transform for DataLoader, torchvision v2 and albumentations.

Images are corrupted exactly as by `eyechart.corrupt`. This module chooses a corruption for each
image and moves masks and boxes along with its pixels.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_unflatten

from eyechart.core.arguments import (
    as_int,
    as_list,
    as_number,
    as_text,
    as_within,
    digits,
    short_repr,
)
from eyechart.core.errors import UsageError, install_hint
from eyechart.core.randomness import ImageRandom, check_seed, hash64
from eyechart.corruptions.kernels.affine import PixelMap
from eyechart.corruptions.suites.apply import choose_entries, corrupt_batch, draw_random, image_keys
from eyechart.corruptions.suites.assets import assets_of, ready_entries
from eyechart.corruptions.suites.published import PUBLISHED
from eyechart.corruptions.suites.strength import (
    DEFAULT_SEVERITY,
    Strengths,
    check_severity,
    draw_severities,
    draw_strengths,
    resolve,
)
from eyechart.corruptions.suites.suite import (
    STRONGEST,
    SUITE_SUFFIXES,
    Entry,
    Range,
    find_variant,
    load_suite,
    split_variant,
)
from eyechart.images.image_types import Batch, to_batch
from eyechart.integrations.targets import (
    Moves,
    albumentations_transform,
    move_plain_boxes,
    move_tv_boxes,
    tv_kind,
)

AS_SUITE = "suite"
"""The value of `severity` that draws strengths as the suite defines."""

Keys = Sequence[str | int] | None
ImageLike = Tensor | NDArray[np.generic] | Image.Image


_Group: TypeAlias = tuple[Entry, NDArray[np.int64], Strengths, ImageRandom]
"""A corruption, the indices of the images that get it, their strengths and random numbers."""


class Corrupt(nn.Module):
    """Corrupt images at random, as a transform.

    Accepts the same images as `eyechart.corrupt`: tensors (C, H, W) and batches (B, C, H, W) on any
    device, NumPy arrays (H, W, C) and PIL images; uint8, or float in [0, 1]. Each image gets one of
    the corruptions. Use it

    - in a dataset or after the batch is on the GPU: `transform(images)`;
    - in `torchvision.transforms.v2.Compose`: samples of any structure that hold one image;
      `tv_tensors.Mask` and `BoundingBoxes` follow geometric corruptions;
    - in the style of albumentations: `transform(image=…, mask=…, bboxes=…)` returns a dictionary;
      boxes are x_min, y_min, x_max, y_max in px. `as_albumentations()` returns a transform for
      `albumentations.Compose`.

    All random choices depend only on `seed`, the epoch and the pixels of the image (or its key, if
    `keys` are given), and not on the batch, the order or the number of workers. **Call `set_epoch`
    before each epoch**, as you do for a `DistributedSampler`; otherwise an image looks the same in
    all epochs. Workers see the new epoch even if they are persistent.

    Boxes and masks that leave the image are kept with zero area, so that they match their labels.

    Args:
        names: corruptions such as "fog", suites such as "imagenet-c" or YAML files of suites; one
            name or a list.
        severity: a number in [0, 5]; a range (low, high), from which each image gets one of ten
            evenly spaced values; or "suite" for strengths drawn as the suite defines. By default
            (1, 5), or 3 if parameters are given.
        p: the probability that an image is corrupted.
        seed: the random seed.
        **parameters: parameters of the corruptions, each a number or a range (low, high).

    Raises:
        UsageError: an argument or an image is invalid.

    Example:
        >>> import numpy as np
        >>> import eyechart as ec
        >>> transform = ec.Corrupt(["fog", "gaussian_noise"], severity=(1, 3), p=0.5, seed=1)
        >>> image = np.full((224, 224, 3), 128, dtype=np.uint8)
        >>> transform.set_epoch(4)
        >>> transform(image).shape
        (224, 224, 3)
        >>> shift = ec.Corrupt("noc/translation", across=4, down=0, to_right=1)
        >>> shift(image=image, bboxes=[(8, 8, 16, 16, "cat")])["bboxes"]
        [(12.0, 8.0, 20.0, 16.0, 'cat')]
    """

    def __init__(
        self,
        names: str | Sequence[str],
        severity: float | tuple[float, float] | str | None = None,
        *,
        p: float = 1.0,
        seed: int = 0,
        **parameters: float | tuple[float, float],
    ) -> None:
        super().__init__()
        check_seed(seed)
        self.entries = _find_entries(names)
        self.parameter_ranges = {name: _as_range(name, value) for name, value in parameters.items()}
        self.severity = _check_strength(severity, self.entries, self.parameter_ranges)
        self.p = as_within(p, "p", 0, 1)
        self.seed = seed
        # in shared memory, so that workers that are already running see the next epoch
        self._epoch = torch.zeros((), dtype=torch.int64).share_memory_()  # type: ignore[no-untyped-call]

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        # a copy from a file has ordinary memory; one that was sent to a worker is shared already
        self._epoch.share_memory_()

    @property
    def epoch(self) -> int:
        """The epoch whose random numbers are used."""
        return int(self._epoch)

    def set_epoch(self, epoch: int) -> None:
        """Use the random numbers of this epoch from now on, in all workers.

        Args:
            epoch: 0, 1, 2, …

        Raises:
            UsageError: the epoch is not a whole number, or is negative.
        """
        self._epoch.fill_(as_int(epoch, "epoch", 0, 2**63 - 1))

    def extra_repr(self) -> str:
        """Return the arguments, for `print`."""
        names = ", ".join(entry.name for entry in self.entries)
        ranges = [f"{name}={value}" for name, value in self.parameter_ranges.items()]
        strength = [] if self.severity is None else [f"severity={self.severity}"]
        return ", ".join([names, *strength, *ranges, f"p={self.p:g}", f"seed={self.seed}"])

    def forward(self, *inputs: Any, keys: Keys = None, **fields: Any) -> Any:
        """Return the inputs with the image corrupted, and masks and boxes moved along.

        Args:
            *inputs: an image or a batch; or a sample that holds one, such as (image, target).
            keys: one name or integer per image; by default, images are identified by their pixels.
            **fields: `image` instead of inputs, and optionally `mask`, `masks` and `bboxes`; other
                fields are returned unchanged.

        Returns:
            The same structure, or a dictionary if fields were given.

        Raises:
            UsageError: there is not exactly one image, or it is invalid.
        """
        if fields:
            if inputs or "image" not in fields:
                raise UsageError("Give one image, or image=… with its mask=… and bboxes=….")
            return self._corrupt_fields(fields, keys)
        if not inputs:
            raise UsageError("Give an image: transform(image).")
        # Samples may be nested, as in (image, {"boxes": …, "masks": …}).
        leaves, structure = tree_flatten(inputs[0] if len(inputs) == 1 else inputs)
        position = 0 if len(leaves) == 1 else _find_image(leaves)
        kinds = [tv_kind(leaf) for leaf in leaves]
        if "Video" in kinds:
            raise UsageError("Videos are not supported: corrupt their frames as a batch.")
        self.check_targets("KeyPoints" in kinds, "Mask" in kinds or "BoundingBoxes" in kinds)
        image, moves = self.corrupt_with_moves(leaves[position], keys)
        for index, (leaf, kind) in enumerate(zip(leaves, kinds, strict=True)):
            if kind == "Mask":
                leaves[index] = moves.move_mask(leaf)
            elif kind == "BoundingBoxes":
                leaves[index] = move_tv_boxes(leaf, moves)
        leaves[position] = image
        return tree_unflatten(leaves, structure)

    def arguments(self, images: ImageLike, keys: Keys = None) -> list[dict[str, Any] | None]:
        """Return for each image the arguments of `eyechart.corrupt` that give the same pixels.

        Args:
            images: an image or a batch.
            keys: the same as in a call of the transform.

        Returns:
            One dictionary per image, None for an image that stays clean.

        Raises:
            UsageError: an image is invalid.

        Example:
            >>> import numpy as np
            >>> import eyechart as ec
            >>> transform = ec.Corrupt("vcr", seed=1)
            >>> image = np.full((32, 32, 3), 128, dtype=np.uint8)
            >>> same = ec.corrupt(image, **transform.arguments(image)[0])
            >>> bool((same == transform(image)).all())
            True
        """
        batch, _ = to_batch(images)
        drawn: list[dict[str, Any] | None] = [None] * len(batch)
        for entry, indices, strengths, _ in self._groups(batch, keys):
            for position, index in enumerate(indices):
                severity = float(strengths.severity[position])
                fixed = {
                    name: float(values[position]) for name, values in strengths.parameters.items()
                }
                drawn[index] = {
                    "name": entry.name,
                    "variant": entry.variant,
                    "severity": None if np.isnan(severity) else severity,
                    "seed": self.seed,
                    "draw": self.epoch,
                    "keys": None if keys is None else [keys[index]],
                    **fixed,
                }
        return drawn

    def as_albumentations(self) -> Any:
        """Return a transform for `albumentations.Compose`, which shares the epoch with this one.

        Raises:
            UsageError: albumentations is not installed.
        """
        try:
            return albumentations_transform(self)
        except ModuleNotFoundError as error:
            raise UsageError(
                f"as_albumentations needs {error.name}: {install_hint('albumentations')}."
            ) from None

    def corrupt_with_moves(self, image: ImageLike, keys: Keys = None) -> tuple[Any, Moves]:
        """Return the corrupted image or batch, and how its pixels moved."""
        batch, restore = to_batch(image)
        height, width = batch.shape[-2:]
        maps: list[PixelMap | None] = [None] * len(batch)
        result = batch
        for entry, indices, strengths, random in self._groups(batch, keys):
            # The usual case, one corruption for the whole batch, needs no copy.
            if len(indices) == len(batch):
                result = corrupt_batch(batch, entry, strengths, random, assets_of(entry))
            else:
                result = batch.clone() if result is batch else result
                where = torch.from_numpy(indices).to(batch.device)
                result[where] = corrupt_batch(
                    batch[where], entry, strengths, random, assets_of(entry)
                )
            # Only geometric corruptions move pixels; masks and boxes follow by the same map.
            if entry.corruption.source_map is not None:
                # The same random numbers as for the pixels, so that the map is theirs.
                values = resolve(entry, *strengths, min(height, width), random)
                source = entry.corruption.source_map(height, width, **values)
                for position, index in enumerate(indices):
                    maps[index] = source.part(position)
        return restore(result), Moves(height, width, tuple(maps))

    def _groups(self, batch: Batch, names: Keys) -> list[_Group]:
        """Draw the corruption and the strength of each image; images that stay clean are absent."""
        keys, epoch = image_keys(batch, names), self.epoch
        # which corruption, on the CPU, whatever the device of the images; −1: stays clean
        which = np.zeros(len(batch), dtype=np.int64)
        if len(self.entries) > 1:
            which = choose_entries(len(self.entries), keys.cpu(), self.seed, epoch)
        if self.p < 1:
            # A separate salt, so that `p` does not change the corruption or its strength.
            salts = [hash64(self.seed, "whether to corrupt", epoch)] * len(batch)
            chance = ImageRandom(keys.cpu(), salts, torch.device("cpu")).scalar("whether")
            which[chance >= self.p] = -1
        groups = []
        for number in np.unique(which[which >= 0]):
            entry, indices = self.entries[number], np.flatnonzero(which == number)
            some_keys = keys[torch.from_numpy(indices).to(keys.device)]
            random = draw_random(entry, some_keys, self.seed, epoch, batch.device)
            groups.append((entry, indices, self._strengths(entry, random), random))
        return groups

    def _strengths(self, entry: Entry, random: ImageRandom) -> Strengths:
        if self.severity == AS_SUITE:
            return draw_strengths(entry, random)
        severity = self.severity
        if isinstance(severity, tuple):
            severities = draw_severities(random, *severity)
        else:
            severities = np.full(len(random), severity, dtype=np.float64)
        values = {}
        for name, (low, high) in self.parameter_ranges.items():
            values[name] = np.full(len(random), low)
            # A fixed value draws no number, so that fixing it leaves other draws as they are.
            if low != high:
                uniform = random.scalar(f"parameter {name}")
                values[name] = entry.corruption.parameter(name).sample(uniform, low, high)
        return Strengths(severities, values)

    def _corrupt_fields(self, fields: Mapping[str, Any], keys: Keys) -> dict[str, Any]:
        """Return the fields of an albumentations-style call with the image corrupted."""
        masks, boxes = fields.get("masks"), fields.get("bboxes")
        follows = any(fields.get(name) is not None for name in ("mask", "masks", "bboxes"))
        self.check_targets(fields.get("keypoints") is not None, follows)
        image, moves = self.corrupt_with_moves(fields["image"], keys)
        result = {**fields, "image": image}
        if fields.get("mask") is not None:
            result["mask"] = moves.move_mask(fields["mask"])
        if masks is not None:
            moved = [moves.move_mask(mask) for mask in masks]
            result["masks"] = np.stack(moved) if isinstance(masks, np.ndarray) else moved
        if boxes is not None:
            move = move_plain_boxes if tv_kind(boxes) is None else move_tv_boxes
            result["bboxes"] = move(boxes, moves)
        return result

    def check_targets(self, has_points: bool, has_followers: bool) -> None:
        """Raise an error for targets that cannot follow one of the corruptions."""
        for entry in self.entries:
            corruption = entry.corruption
            if corruption.family != "geometry":
                continue
            if has_points:
                raise UsageError(f"Key points cannot follow {entry.name}: leave one of them out.")
            # raised at the first image, not only when this corruption is drawn
            if has_followers and corruption.source_map is None:
                raise UsageError(
                    f"Masks and boxes cannot follow {entry.name}, whose map has no closed form:"
                    " leave it out of the names."
                )


def _find_entries(names: str | Sequence[str]) -> tuple[Entry, ...]:
    """Return the entries of corruptions and suites, each once."""
    found: dict[str, Entry] = {}
    for name in [names] if isinstance(names, str) else as_list(names, "names"):
        plain, _ = split_variant(as_text(name, "each of names"))
        if plain in PUBLISHED or plain.endswith(SUITE_SUFFIXES):
            entries = ready_entries(load_suite(name))
        else:
            entries = [find_variant(name)]
        for entry in entries:
            # A corruption that is named alone and in a suite is not twice as likely.
            found.setdefault(entry.name, entry)
    if not found:
        raise UsageError("names is empty: give at least one corruption or suite.")
    return tuple(found.values())


def _as_range(name: str, value: object) -> Range:
    """Return a number or an increasing pair as a range."""
    if isinstance(value, tuple | list):
        if len(value) != 2:
            raise UsageError(
                f"{name} must be a number or a range (low, high), got {short_repr(value)}."
            )
        low, high = (as_number(end, name) for end in value)
        # written so that NaN is rejected
        if not low <= high:
            raise UsageError(
                f"{name} must be a range (low, high), got {digits(low)} to {digits(high)}."
            )
        return low, high
    number = as_number(value, name)
    return number, number


def _check_strength(
    severity: object, entries: Sequence[Entry], parameters: Mapping[str, Range]
) -> float | Range | str:
    """Return a severity, a severity range or "suite"; raise an error if a strength is invalid."""
    for entry in entries:
        for name, ends in parameters.items():
            entry.corruption.parameter(name).check(np.array(ends))
    if isinstance(severity, str):
        if severity != AS_SUITE or parameters:
            raise UsageError(
                f'severity must be a number, a range (low, high), or "{AS_SUITE}" without'
                f" parameters, got {short_repr(severity)}."
            )
        return severity
    if severity is None:
        return DEFAULT_SEVERITY if parameters else (1.0, STRONGEST)
    low, high = _as_range("severity", severity)
    check_severity(np.array([low, high]))
    return low if low == high else (low, high)


def _find_image(leaves: Sequence[object]) -> int:
    """Return the index of the only image, by the rule of torchvision v2.

    Images are `tv_tensors.Image` and PIL images. If there are none, the first plain
    tensor or array with the shape of an image is used.
    """
    images = [
        index
        for index, leaf in enumerate(leaves)
        if tv_kind(leaf) == "Image" or isinstance(leaf, Image.Image)
    ]
    if len(images) > 1:
        raise UsageError(
            f"A sample must hold one image, got {len(images)}: corrupt them one by one, or stack"
            " images of the same size into a batch (B, C, H, W)."
        )
    plain = [
        index
        for index, leaf in enumerate(leaves)
        if isinstance(leaf, Tensor | np.ndarray) and tv_kind(leaf) is None and leaf.ndim in (3, 4)
    ]
    if not images and not plain:
        raise UsageError("A sample must hold an image: a tensor, an array or a PIL image.")
    return images[0] if images else plain[0]
