"""Image sets: images decoded to stimuli once, identified by digests, cached in free memory.

The index of a set (digest and size of every image) is stored, so that processes that share a run
decode only the images that they need.
"""

import json
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import torch
from torch import Tensor

from eyechart.core.arguments import as_flag, as_path
from eyechart.core.devices import free_memory
from eyechart.core.errors import UsageError
from eyechart.core.phrases import count_of, first_names
from eyechart.core.progress import Advance, no_advance
from eyechart.core.randomness import hash64
from eyechart.core.records import CheckedFields
from eyechart.core.storage.parts import read_header, read_parquet, write_parquet
from eyechart.images.identity import named_keys
from eyechart.images.image_files import READERS, Window, WindowError
from eyechart.images.image_list import ImageListing, ListedImage
from eyechart.images.image_sources import ImageData, find_listing
from eyechart.images.published_source import CorruptedSource
from eyechart.images.stimulus import (
    AUTO,
    MUCH_SMALLER,
    SMALLEST_SIDE,
    Stimulus,
    find_stimulus,
    resolve_auto,
    split_window,
    usual_stimulus,
    with_window,
)

MOST_DAMAGED = 0.01
"""Maximum fraction of unreadable images; a larger one indicates a problem with the dataset."""

KEPT_SHARE = 0.25
"""Fraction of the currently free memory that decoded images may occupy."""

LARGEST_KEPT = 3 << 20
"""Number of values of the largest stimuli that are kept in memory: one megapixel in color. Decoding
larger ones again costs little compared with corrupting and measuring them.
"""


@dataclass(frozen=True)
class Damaged:
    """An image that was left out, with the reason as a sentence."""

    name: str
    why: str


def reject_too_many(damaged: Sequence[Damaged], n_images: int, advice: str) -> None:
    """Raise a UsageError that names the first damaged images if they are more than 1 %."""
    if len(damaged) > MOST_DAMAGED * n_images:
        names = first_names([image.name for image in damaged])
        raise UsageError(
            f"At least {len(damaged):,} of {count_of(n_images, 'image')} cannot be used, which is"
            f" more than 1 %: {names}; the first error is: {damaged[0].why} {advice}"
        )


@dataclass(frozen=True, eq=False, repr=False)
class ImageSet(CheckedFields):
    """The usable images of a dataset, in order.

    Attributes:
        source: Where the images come from.
        stimulus: How each image is resized and cropped.
        listed: File, name and label of each image.
        digests: SHA-256 of each image's encoded bytes, or of its pixels if it has none, or of its
            name if there are no clean images.
        sizes: Height and width of each stimulus in px.
        damaged: The images that were left out.
        kept: Decoded stimuli that are cached in memory, by position.
        files: Source of corrupted images that are read from files; None if eyechart corrupts the
            images itself.
        has_clean: Whether there are clean images.
        notes: Sentences for the reader of the results.
        class_names: The classes in the order of their numbers, if the dataset declares it.

    Example:
        >>> import tempfile
        >>> from PIL import Image
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for label in ("cat", "dog"):
        ...         (Path(folder) / label).mkdir()
        ...         Image.new("RGB", (300, 260)).save(Path(folder) / label / "0.png")
        ...     images = load_images(folder)
        >>> len(images), images.labels, images.sizes[0]
        (2, ('cat', 'dog'), (224, 224))
        >>> images.batch([0, 1]).shape
        torch.Size([2, 3, 224, 224])
    """

    source: str
    stimulus: Stimulus
    listed: tuple[ListedImage, ...]
    digests: tuple[str, ...]
    sizes: tuple[tuple[int, int], ...]
    damaged: tuple[Damaged, ...] = ()
    kept: dict[int, Tensor] = field(default_factory=dict)
    files: CorruptedSource | None = None
    has_clean: bool = True
    notes: tuple[str, ...] = ()
    class_names: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return len(self.listed)

    def __repr__(self) -> str:
        return f"<ImageSet of {len(self)} images from {self.source}, {self.stimulus.name}>"

    @property
    def labels(self) -> tuple[str | None, ...]:
        """The label of each image as the dataset spells it, or None if the image has no label."""
        return tuple(image.label for image in self.listed)

    @property
    def categories(self) -> tuple[str | None, ...]:
        """The everyday category of each image, or None if the dataset does not state it."""
        return tuple(image.category for image in self.listed)

    @property
    def has_large(self) -> bool:
        """Whether some stimuli have more than a megapixel."""
        return any(3 * height * width > LARGEST_KEPT for height, width in self.sizes)

    @property
    def digest(self) -> str:
        """16 hexadecimal digits that identify the set of images regardless of their order."""
        return f"{hash64(*sorted(self.digests)):016x}"

    @property
    def fingerprint(self) -> str:
        """16 hexadecimal digits that identify the images with their order, names and labels."""
        named = zip(self.listed, self.digests, strict=True)
        parts = (f"{p.name}\n{digest}\n{p.label}\n{p.category}" for p, digest in named)
        return f"{hash64(*parts, *(self.class_names or ())):016x}"

    def keys(self, indices: Iterable[int] | None = None) -> Tensor:
        """Return the 64-bit keys of the images (all by default) that seed their random numbers.

        Keys are derived from file digests, so an image is corrupted identically in every dataset.
        """
        wanted = range(len(self)) if indices is None else list(indices)
        return named_keys([self.digests[position] for position in wanted], len(wanted))

    def select(self, indices: Sequence[int]) -> "ImageSet":
        """Return a subset: the images at these positions."""
        return replace(
            self,
            listed=tuple(self.listed[index] for index in indices),
            digests=tuple(self.digests[index] for index in indices),
            sizes=tuple(self.sizes[index] for index in indices),
            kept={new: self.kept[old] for new, old in enumerate(indices) if old in self.kept},
            files=None if self.files is None else self.files.select(indices),
        )

    def batch(self, indices: Sequence[int]) -> Tensor:
        """Return the stimuli at these positions, all of the same size, as uint8 (B, 3, H, W)."""
        # dict.fromkeys drops repeated positions and keeps their order.
        missing = [index for index in dict.fromkeys(indices) if index not in self.kept]
        again: dict[int, Tensor] = {}
        if missing:
            with ThreadPoolExecutor(READERS) as pool:
                again = dict(zip(missing, pool.map(self._read_again, missing), strict=True))
        return torch.stack([self.kept[p] if p in self.kept else again[p] for p in indices])

    def _read_again(self, index: int) -> Tensor:
        image = self.listed[index]
        stimulus, digest, _ = image.stimulus(self.stimulus)
        # Samples are keyed by digest, so a changed file would silently yield a different image.
        if digest != self.digests[index]:
            raise UsageError(f"{image.where} changed while it was in use: start again.")
        return stimulus


def load_images(
    source: str | os.PathLike[str] | ImageData,
    stimulus: str = "224",
    leave_out: Path | None = None,
    *,
    window: Window | None = None,
    download: bool = False,
) -> ImageSet:
    """Load and decode the images of a dataset.

    Images that cannot be decoded are left out and listed in `damaged`.

    Args:
        source: A folder with one subfolder per class; a CSV or Parquet file with the columns path
            and label; WebDataset's tar files (one, a folder of them, or a name with braces such as
            "shards-{000..003}.tar"); a .npz or .npy file; a folder written by `save_to_disk` of
            Hugging Face's `datasets`, or "hf:NAME:SPLIT". In memory: a `datasets.Dataset`, a torch
            Dataset of (image, label), an array of images (N, H, W, 3), or (images, labels).
        stimulus: "224" (shorter side resized to 256 px, center crop of 224 px), a different side
            in px, "WIDTHxHEIGHT" (plain resize), "uncropped", "native", or "auto" ("native" if all
            images have the same small size, otherwise "224").
        leave_out: A folder inside `source` to skip, such as the output folder.
        window: The two values that become black and white in gray images of more than 8 bits.
        download: Whether "hf:NAME" may be downloaded.

    Returns:
        The decoded images with labels and digests.

    Raises:
        UsageError: If there are no images, or more than 1 % of them cannot be decoded.

    Example:
        >>> import tempfile
        >>> from PIL import Image
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     (Path(folder) / "cat").mkdir()
        ...     Image.new("RGB", (300, 260)).save(Path(folder) / "cat" / "0.png")
        ...     images = load_images(folder, stimulus="64")
        >>> images.labels, images.sizes
        (('cat',), ((64, 64),))

        Arrays, with class numbers as labels:

        >>> import numpy as np
        >>> load_images((np.zeros((2, 32, 32, 3), np.uint8), [1, 0]), "native").labels
        ('1', '0')
    """
    if leave_out is not None:
        leave_out = Path(as_path(leave_out, "leave_out", "the path of a folder"))
    stimulus = with_window(stimulus, window)
    # Checked before anything is listed, which can take long.
    resolve_auto(stimulus)
    listing = find_listing(source, leave_out, download=as_flag(download, "download"))
    return load_listing(listing, stimulus)


def load_listing(
    listing: ImageListing, stimulus: str = "224", advance: Advance = no_advance
) -> ImageSet:
    """Decode the images of a listing; see `load_listed`."""
    images = load_listed(listing.images, listing.source, stimulus, advance, listing.notes)
    return replace(images, class_names=listing.class_names)


def load_listed(
    listed: Sequence[ListedImage],
    source: str,
    stimulus: str = "224",
    advance: Advance = no_advance,
    notes: tuple[str, ...] = (),
) -> ImageSet:
    """Decode the listed images.

    Args:
        listed: The image files.
        source: Name of the source, for messages and results.
        stimulus: See `find_stimulus`; "auto" chooses it from the sizes of the images.
        advance: Called after every image.
        notes: Notes about the source, stored with the image set.
    """
    is_auto = isinstance(stimulus, str) and split_window(stimulus)[0] == AUTO
    if is_auto:
        usual = usual_stimulus(image.size() for image in listed)
        stimulus = with_window(usual, split_window(stimulus)[1])
    how = find_stimulus(stimulus)
    n_enlarged = 0
    good: list[tuple[ListedImage, str, tuple[int, int]]] = []
    damaged: list[Damaged] = []
    kept: dict[int, Tensor] = {}
    room = free_memory(torch.device("cpu")) * KEPT_SHARE

    def read(image: ListedImage) -> tuple[ListedImage, str, Tensor | str, bool]:
        try:
            stimulus, digest, size = image.stimulus(how)
            height, width = stimulus.shape[1:]
            if min(height, width) < SMALLEST_SIDE:
                raise UsageError(f"{image.where} is smaller than {SMALLEST_SIDE} px.")
            enlarged = min(size) < MUCH_SMALLER * min(height, width)
            if stimulus.numel() > LARGEST_KEPT:
                # Only its shape is used, and results of other threads wait for this one.
                stimulus = stimulus.to("meta")
            return image, digest, stimulus, enlarged
        except WindowError:
            raise
        except UsageError as error:
            return image, "", str(error), False

    with ThreadPoolExecutor(READERS) as pool:
        # Small blocks bound the decoded images in flight: pool.map submits its whole input at once.
        for start in range(0, len(listed), 4 * READERS):
            for image, digest, outcome, enlarged in pool.map(
                read, listed[start : start + 4 * READERS]
            ):
                n_enlarged += enlarged
                if isinstance(outcome, str):
                    damaged.append(Damaged(image.name, outcome))
                else:
                    if not outcome.is_meta:
                        # A uint8 tensor takes one byte per element.
                        room -= outcome.numel()
                        if room > 0:
                            kept[len(good)] = outcome
                    height, width = outcome.shape[1:]
                    good.append((image, digest, (height, width)))
                advance(1, "")
            # Fail at once rather than after decoding a large dataset that cannot be used, but after
            # a whole block: several damaged images are named together.
            reject_too_many(damaged, len(listed), "Fix or remove them.")
    # `good` is not empty: if all images were damaged, the limit above has raised.
    images, digests, sizes = zip(*good, strict=True)
    if is_auto and how.width_and_height is None:
        height, width = sizes[0]
        notes += (
            f"All images are {width} × {height} px (width × height) and keep this size; give"
            " --stimulus to resize them.",
        )
    if 2 * n_enlarged > len(good):
        notes += (
            f"{n_enlarged:,} of {len(good):,} images were enlarged to more than twice their size"
            f" ({how.description}): fine detail, which some corruptions remove, is missing from"
            " them; --stimulus native keeps their size.",
        )
    return ImageSet(source, how, images, digests, sizes, tuple(damaged), kept, notes=notes)


HEADER = "eyechart"

SCHEMA = pa.schema(
    [
        ("name", pa.string()),
        ("digest", pa.string()),
        ("height", pa.int32()),
        ("width", pa.int32()),
        ("why", pa.string()),
    ]
)
"""One row per listed image; `why` is "" for a usable image, otherwise the reason against it."""


def load_indexed(listing: ImageListing, stimulus: str, index: Path, advance: Advance) -> ImageSet:
    """Return the images of a listing, as `load_listing` does; write their index if it is missing.

    With an index, no image is decoded before it is used. An image whose content has changed since
    then is rejected when it is read.

    Raises:
        UsageError: If the index belongs to other images.
    """
    if not index.is_file():
        images = load_listing(listing, stimulus, advance)
        _write_index(images, listing, index)
        return images
    images = _read_index(listing, stimulus, index)
    advance(len(listing.images), "")
    return images


def _write_index(images: ImageSet, listing: ImageListing, index: Path) -> None:
    usable = {
        image.name: (digest, *size, "")
        for image, digest, size in zip(images.listed, images.digests, images.sizes, strict=True)
    }
    damaged = {image.name: ("", 0, 0, image.why) for image in images.damaged}
    outcomes = usable | damaged
    rows = [(image.name, *outcomes[image.name]) for image in listing.images]
    header = {"stimulus": images.stimulus.name, "notes": images.notes}
    table = pa.table([*map(list, zip(*rows, strict=True))], schema=SCHEMA)
    table = table.replace_schema_metadata({HEADER: json.dumps(header)})
    index.parent.mkdir(parents=True, exist_ok=True)
    write_parquet(table, index)


def _read_index(listing: ImageListing, stimulus: str, index: Path) -> ImageSet:
    rows = read_parquet(index, SCHEMA.names).to_pylist()
    if [row["name"] for row in rows] != [image.name for image in listing.images]:
        raise UsageError(
            f"{listing.source} has changed since {index.parent} was created: choose another --out."
        )
    header = json.loads(read_header(index)[HEADER])
    wanted = resolve_auto(stimulus)
    if split_window(stimulus)[0] != AUTO and wanted.name != header["stimulus"]:
        raise UsageError(
            f"{index.parent} was created with --stimulus {header['stimulus']}, not {wanted.name}:"
            " choose another --out."
        )
    usable = [row for row in rows if not row["why"]]
    return ImageSet(
        listing.source,
        find_stimulus(header["stimulus"]),
        tuple(i for i, row in zip(listing.images, rows, strict=True) if not row["why"]),
        tuple(row["digest"] for row in usable),
        tuple((row["height"], row["width"]) for row in usable),
        tuple(Damaged(row["name"], row["why"]) for row in rows if row["why"]),
        notes=tuple(header["notes"]),
        class_names=listing.class_names,
    )
