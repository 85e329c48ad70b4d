"""Pictures decoded to stimuli once, known by their digests, kept while memory allows."""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from torch import Tensor

from eyechart.core.arguments import as_path
from eyechart.core.devices import free_memory
from eyechart.core.errors import UsageError
from eyechart.core.progress import Advance, no_advance
from eyechart.core.randomness import hash64
from eyechart.images.identity import file_digest
from eyechart.images.image_files import read_picture, unread_notes
from eyechart.images.image_list import Picture, find_images
from eyechart.images.published_source import Corrupted
from eyechart.images.stimulus import SMALLEST_SIDE, Stimulus, find_stimulus

READERS = 8
MOST_DAMAGED = 0.01
"""The share of pictures that may be unreadable; more mean that something is wrong with the set."""

KEPT_SHARE = 0.25
"""How much of the memory that is free now decoded pictures may take."""


@dataclass(frozen=True)
class Damaged:
    """A picture that was left out, and the sentence that says why."""

    name: str
    why: str


@dataclass(frozen=True, eq=False, repr=False)
class ImageSet:
    """Pictures that can be used, in their order.

    `digests`: SHA-256 of each file; `sizes`: height and width of each stimulus in px; `damaged`:
    what was left out. `files`: where they are read corrupted, if they are not corrupted here; then
    there may be no clean pictures, and digests are of their names. `notes`: sentences that a reader
    must know.
    """

    source: str
    stimulus: Stimulus
    pictures: tuple[Picture, ...]
    digests: tuple[str, ...]
    sizes: tuple[tuple[int, int], ...]
    damaged: tuple[Damaged, ...] = ()
    kept: dict[int, Tensor] = field(default_factory=dict)
    files: Corrupted | None = None
    has_clean: bool = True
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.pictures)

    def __repr__(self) -> str:
        return f"<ImageSet of {len(self)} pictures from {self.source}, {self.stimulus.name}>"

    @property
    def labels(self) -> tuple[str | None, ...]:
        """The label of each picture as the data set has it."""
        return tuple(picture.label for picture in self.pictures)

    @property
    def categories(self) -> tuple[str | None, ...]:
        """The everyday category that the data set names for each picture."""
        return tuple(picture.category for picture in self.pictures)

    @property
    def digest(self) -> str:
        """Return 16 hexadecimal digits that stand for all pictures, whatever their order."""
        return f"{hash64(*sorted(self.digests)):016x}"

    @property
    def fingerprint(self) -> str:
        """Return 16 hexadecimal digits for the pictures in their order, their names and labels."""
        named = zip(self.pictures, self.digests, strict=True)
        parts = (f"{p.name}\n{digest}\n{p.label}\n{p.category}" for p, digest in named)
        return f"{hash64(*parts):016x}"

    def take(self, places: Sequence[int]) -> "ImageSet":
        """Return some of the pictures."""
        return replace(
            self,
            pictures=tuple(self.pictures[index] for index in places),
            digests=tuple(self.digests[index] for index in places),
            sizes=tuple(self.sizes[index] for index in places),
            kept={new: self.kept[old] for new, old in enumerate(places) if old in self.kept},
            files=None if self.files is None else self.files.take(places),
        )

    def batch(self, places: Sequence[int]) -> Tensor:
        """Return the stimuli at these places, uint8 (B, 3, H, W); all must have one size."""
        missing = [index for index in dict.fromkeys(places) if index not in self.kept]
        again: dict[int, Tensor] = {}
        if missing:
            with ThreadPoolExecutor(READERS) as pool:
                again = dict(zip(missing, pool.map(self._read_again, missing), strict=True))
        return torch.stack([self.kept[p] if p in self.kept else again[p] for p in places])

    def _read_again(self, index: int) -> Tensor:
        path = self.pictures[index].path
        try:
            digest = file_digest(path)
        except OSError as error:
            raise UsageError(f"Cannot read {path} again: {error.strerror}.") from None
        if digest != self.digests[index]:
            raise UsageError(f"{path} changed while it was used: start again.")
        return self.stimulus(read_picture(path))


def load_images(
    source: str | os.PathLike[str], stimulus: str = "224", leave_out: Path | None = None
) -> ImageSet:
    """Return the pictures of a class folder or manifest, decoded.

    Damaged pictures are left out; more than 1 % of them are an error. Nothing in the folder
    `leave_out` counts.
    """
    as_path(source, "images", "the path of a folder or a list")
    if leave_out is not None:
        leave_out = Path(as_path(leave_out, "leave_out", "the path of a folder"))
    listed, notes = find_images(Path(source), leave_out), unread_notes(Path(source), leave_out)
    return load_pictures(listed, str(source), stimulus, notes=notes)


def load_pictures(
    listed: Sequence[Picture],
    source: str,
    stimulus: str = "224",
    advance: Advance = no_advance,
    notes: tuple[str, ...] = (),
) -> ImageSet:
    """Return these pictures, decoded; `advance` is told of each, and of the `notes` on them."""
    for note in notes:
        advance(0, note)
    how = find_stimulus(stimulus)
    good: list[tuple[Picture, str, tuple[int, int]]] = []
    damaged: list[Damaged] = []
    kept: dict[int, Tensor] = {}
    room = free_memory(torch.device("cpu")) * KEPT_SHARE

    def read(picture: Picture) -> tuple[Picture, str, Tensor | str]:
        try:
            stimulus = how(read_picture(picture.path))
            if min(stimulus.shape[1:]) < SMALLEST_SIDE:
                raise UsageError(f"{picture.path} is smaller than {SMALLEST_SIDE} px.")
            return picture, file_digest(picture.path), stimulus
        except UsageError as error:
            return picture, "", str(error)

    with ThreadPoolExecutor(READERS) as pool:
        for start in range(0, len(listed), 4 * READERS):
            for picture, digest, outcome in pool.map(read, listed[start : start + 4 * READERS]):
                if isinstance(outcome, str):
                    damaged.append(Damaged(picture.name, outcome))
                    if len(damaged) > MOST_DAMAGED * len(listed):
                        raise UsageError(
                            f"At least {len(damaged)} of {len(listed)} pictures cannot be used,"
                            f" more than 1 %, the last because: {outcome} Mend or remove them."
                        )
                else:
                    room -= outcome.numel()
                    if room > 0:
                        kept[len(good)] = outcome
                    height, width = outcome.shape[1:]
                    good.append((picture, digest, (height, width)))
                advance(1, "")
    pictures, digests, sizes = zip(*good, strict=True)
    return ImageSet(source, how, pictures, digests, sizes, tuple(damaged), kept, notes=notes)
