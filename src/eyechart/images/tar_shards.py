"""WebDataset's tar shards: images with .cls or .json labels, read in place without unpacking."""

import json
import re
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from eyechart.core.errors import UsageError
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

    def read(self) -> bytes:
        """Return the member's bytes."""
        try:
            return read_piece(self.shard, self.offset, self.size)
        except OSError as error:
            raise UsageError(f"Cannot read {self.shard}: {error.strerror}.") from None


@dataclass
class Sample:
    """Members with the same key: images by extension, and the values in .cls and .json files."""

    images: dict[str, Member] = field(default_factory=dict)
    values: dict[str, object] = field(default_factory=dict)


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
        samples = _samples(shard)
        before = len(images)
        for key, sample in samples.items():
            for member in _images(sample, key):
                # Members of different shards may have the same name.
                name = member.name if len(shards) == 1 else f"{shard.name}/{member.name}"
                where = f"{shard}/{member.name}"
                category = first_of(CATEGORY_COLUMNS, sample.values)
                stated = None if category is None else str(sample.values[category])
                images.append(
                    ListedImage(
                        Path(where),
                        name,
                        category=checked_category(stated, where),
                        content=partial(_checked_bytes, member),
                    )
                )
                label = first_of((CLS, *LABEL_COLUMNS), sample.values)
                labels.append(None if label is None else sample.values[label])
        if len(images) == before:
            raise UsageError(
                f"{shard} has no images: it must contain files ending in"
                f" {', '.join(IMAGE_SUFFIXES)}."
            )
    if all(label is None for label in labels):
        labels = [_folder(image.name, len(shards) > 1) for image in images]
    elif None in labels:
        bare = images[labels.index(None)].name
        raise UsageError(
            f"Either all images of {source} must have a label or none, but"
            f" {labels.count(None)} of {len(labels)} have none, such as {bare}: add a .cls or .json"
            " file for each."
        )
    return ImageListing(
        source,
        [
            ListedImage(i.path, i.name, label, i.category, content=i.content)
            for i, label in zip(images, label_texts(labels, source), strict=True)
        ],
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
                # Folders, links and hidden files are not samples.
                if not info.isreg() or not stem:
                    continue
                member = Member(shard, printable(info.name), info.offset_data, info.size)
                sample = samples.setdefault(f"{folder}{slash}{stem}", Sample())
                extension = extension.lower()
                if f".{extension.rpartition('.')[2]}" in IMAGE_SUFFIXES:
                    if extension in sample.images:
                        raise UsageError(f"{shard} contains {member.name} twice: remove one.")
                    sample.images[extension] = member
                elif extension in (CLS, JSON):
                    label_file = tar.extractfile(info)
                    assert label_file is not None, "a regular file"
                    sample.values.update(_values(label_file.read(), member, extension))
    except tarfile.TarError as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise UsageError(
            f"{shard} is not a complete, uncompressed tar file ({reason}): write or download it"
            " again."
        ) from None
    except OSError as error:
        raise UsageError(f"Cannot read {shard}: {error.strerror or error}.") from None
    if not samples:
        raise UsageError(f"{shard} is empty: give a tar file with images.")
    return samples


def _values(content: bytes, member: Member, extension: str) -> Mapping[str, object]:
    """Return the label in a .cls file, or the fields of a .json file."""
    where = f"{member.shard}/{member.name}"
    try:
        text = content.decode("utf-8").strip()
        if extension == CLS:
            # WebDataset writes class numbers as text.
            is_number = text.isascii() and text.removeprefix("-").isdecimal()
            return {CLS: int(text) if is_number else text or None}
        record = json.loads(text)
    except ValueError:
        raise UsageError(f"{where} must be UTF-8 text (.cls) or JSON (.json).") from None
    # A .json file may also hold a caption or a list, which says nothing about labels.
    return record if isinstance(record, dict) else {}


def _images(sample: Sample, key: str) -> list[Member]:
    """Return the images of a sample: the one without a second extension if there are several."""
    plain = [member for extension, member in sample.images.items() if "." not in extension]
    if len(sample.images) < 2 or not (plain or sample.values):
        # Without labels, names with dots such as photo.1.jpg and photo.2.jpg are separate images.
        return list(sample.images.values())
    if len(plain) != 1:
        shard = next(iter(sample.images.values())).shard
        raise UsageError(
            f"{shard} has {len(sample.images)} images with the key {printable(key)}"
            f" ({', '.join(sample.images)}): keep one per key."
        )
    return plain


def _folder(name: str, has_shard: bool) -> str | None:
    """Return the first folder in a member's name, or None if there is no folder."""
    folders = [part for part in name.split("/")[:-1] if part != "."][has_shard:]
    return folders[0] if folders else None


def _checked_bytes(member: Member) -> bytes:
    encoded = member.read()
    # The file may have been cut after its members were listed.
    if len(encoded) < member.size:
        raise UsageError(f"{member.shard}/{member.name} is truncated.")
    return encoded
