"""WebDataset's tar shards: images with .cls or .json labels, read in place without unpacking."""

import json
import re
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from eyechart.core.errors import UsageError, reason_of
from eyechart.core.storage.remote import DataFile, open_file, read_piece
from eyechart.images.image_files import IMAGE_SUFFIXES
from eyechart.images.image_list import (
    CATEGORY_COLUMNS,
    LABEL_COLUMNS,
    ImageListing,
    ListedImage,
    checked_category,
    first_of,
    printable,
)
from eyechart.images.labels.matching import label_texts

TAR = ".tar"
BRACES = re.compile(r"\{(\d+)\.\.(\d+)\}|\{([^{}]*,[^{}]*)\}")
CLS, JSON = "cls", "json"


@dataclass(frozen=True)
class Member:
    """A file inside a tar file, with its name, and its offset and size in bytes."""

    shard: DataFile
    name: str
    offset: int
    size: int

    def __str__(self) -> str:
        return f"{self.shard}/{self.name}"

    def read(self) -> bytes:
        """Return the member's bytes."""
        try:
            encoded = read_piece(self.shard, self.offset, self.size)
        except OSError as error:
            raise UsageError(f"Cannot read {self.shard}: {error.strerror}.") from None
        # The file may have been cut after its members were listed.
        if len(encoded) < self.size:
            raise UsageError(f"{self} is truncated.")
        return encoded


Sample = tuple[dict[str, Member], dict[str, object]]
"""Members with the same key: images by extension, and the values in .cls and .json files."""


def expand_braces(text: str) -> list[str]:
    """Return the names that a name with braces stands for.

    Example:
        >>> expand_braces("shard-{08..10}.tar")
        ['shard-08.tar', 'shard-09.tar', 'shard-10.tar']
    """
    braces = BRACES.search(text)
    if braces is None:
        return [text]
    first, last, words = braces.groups()
    if words is not None:
        inside = words.split(",")
    else:
        inside = [f"{number:0{len(first)}d}" for number in range(int(first), int(last) + 1)]
    rest = expand_braces(text[braces.end() :])
    return [text[: braces.start()] + word + end for word in inside for end in rest]


def find_shards(source: Path) -> list[Path]:
    """Return the tar files that a path stands for; it may have braces, as in a-{000..003}.tar."""
    shards = [source] if source.exists() else [Path(name) for name in expand_braces(str(source))]
    missing = [shard for shard in shards if not shard.is_file()]
    if missing or not shards:
        raise UsageError(f"No such file: {(missing or [source])[0]}.")
    return shards


def list_shards(shards: Sequence[DataFile], source: str) -> ImageListing:
    """Return the images in tar files.

    The label of an image is the content of the .cls file with the same key, or the field `label` of
    the .json file. If no image has either, the first folder inside the tar file is the label, as in
    class folders.

    Raises:
        UsageError: If a file is not a tar file or has no images, or if some labels are missing.
    """
    images: list[ListedImage] = []
    labels: list[object] = []
    for shard in shards:
        n_before = len(images)
        for key, sample in _samples(shard).items():
            values = sample[1]
            category = first_of(CATEGORY_COLUMNS, values)
            label = first_of((CLS, *LABEL_COLUMNS), values)
            for member in _images(sample, key):
                stated = None if category is None else str(values[category])
                images.append(
                    ListedImage(
                        Path(str(member)),
                        # Members of different shards may have the same name.
                        member.name if len(shards) == 1 else f"{shard.name}/{member.name}",
                        category=checked_category(stated, str(member)),
                        content=member.read,
                    )
                )
                labels.append(None if label is None else values[label])
        if len(images) == n_before:
            raise UsageError(
                f"{shard} has no images: it must contain files ending in"
                f" {', '.join(IMAGE_SUFFIXES)}."
            )
    if all(label is None for label in labels):
        # The first folder, after the name of the shard where there are several.
        n_skipped = 1 if len(shards) > 1 else 0
        folders = [
            [part for part in image.name.split("/")[:-1] if part != "."][n_skipped:]
            for image in images
        ]
        labels = [inside[0] if inside else None for inside in folders]
    elif None in labels:
        bare = images[labels.index(None)].name
        raise UsageError(
            f"Either all images of {source} must have a label or none, but"
            f" {labels.count(None)} of {len(labels)} have none, such as {bare}: add a .cls or .json"
            " file for each."
        )
    texts = label_texts(labels, source)
    return ImageListing(
        source, [replace(image, label=text) for image, text in zip(images, texts, strict=True)]
    )


def _samples(shard: DataFile) -> Mapping[str, Sample]:
    """Return a tar file's samples by key, the path up to the first dot in the file name."""
    samples: dict[str, Sample] = {}
    try:
        # "r:" because a compressed file cannot be read in place.
        with open_file(shard) as opened, tarfile.open(fileobj=opened, mode="r:") as tar:
            for info in tar:
                folder, slash, file = info.name.rpartition("/")
                stem, _, extension = file.partition(".")
                extension = extension.lower()
                # Folders, links and hidden files are not samples.
                if not info.isreg() or not stem:
                    continue
                member = Member(shard, printable(info.name), info.offset_data, info.size)
                images, values = samples.setdefault(f"{folder}{slash}{stem}", ({}, {}))
                if f".{extension.rpartition('.')[2]}" in IMAGE_SUFFIXES:
                    if extension in images:
                        raise UsageError(f"{shard} contains {member.name} twice: remove one.")
                    images[extension] = member
                elif extension in (CLS, JSON):
                    label_file = tar.extractfile(info)
                    assert label_file is not None, "a regular file"
                    values.update(_values(label_file.read(), str(member), extension))
    except tarfile.TarError as error:
        raise UsageError(
            f"{shard} is not a complete, uncompressed tar file ({reason_of(error)}): write or"
            " download it again."
        ) from None
    except OSError as error:
        raise UsageError(f"Cannot read {shard}: {error.strerror or error}.") from None
    if not samples:
        raise UsageError(f"{shard} is empty: give a tar file with images.")
    return samples


def _values(content: bytes, where: str, extension: str) -> Mapping[str, object]:
    """Return the label in a .cls file, or the fields of a .json file."""
    try:
        text = content.decode("utf-8").strip()
        record = {CLS: text or None} if extension == CLS else json.loads(text)
    except ValueError:
        raise UsageError(f"{where} must be UTF-8 text (.cls) or JSON (.json).") from None
    # WebDataset writes class numbers as text.
    if extension == CLS and text.isascii() and text.removeprefix("-").isdecimal():
        return {CLS: int(text)}
    # A .json file may also hold a caption or a list, which says nothing about labels.
    return record if isinstance(record, dict) else {}


def _images(sample: Sample, key: str) -> list[Member]:
    """Return the images of a sample: the one without a second extension if there are several."""
    images, values = sample
    plain = [member for extension, member in images.items() if "." not in extension]
    if len(images) < 2 or not (plain or values):
        # Without labels, names with dots such as photo.1.jpg and photo.2.jpg are separate images.
        return list(images.values())
    if len(plain) != 1:
        raise UsageError(
            f"{next(iter(images.values())).shard} has {len(images)} images with the key"
            f" {printable(key)} ({', '.join(images)}): keep one per key."
        )
    return plain
