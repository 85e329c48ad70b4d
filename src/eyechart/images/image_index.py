"""The index of an image set: the digests and sizes of its images, so that they are decoded once.

Processes that share a run need all digests, but decode only the images of their own shards.
"""

import time
from collections.abc import Sequence
from pathlib import Path

from eyechart.core.locks import try_lock
from eyechart.core.progress import Advance, no_advance
from eyechart.core.records import Record
from eyechart.images.image_list import ImageListing, ListedImage
from eyechart.images.imageset import Damaged, ImageSet, load_listing
from eyechart.images.stimulus import find_stimulus

INDEX = "images.parquet"
"""Name of the index in an output folder."""

HEADER = "eyechart images"
"""Metadata key of the header."""

WAIT = 0.5
"""Seconds between two looks whether another process has written the index."""


class IndexHeader(Record):
    """What an index was made from, and what it says about the set as a whole.

    Attributes:
        source: The source of the images.
        requested: The stimulus as requested, such as "auto".
        stimulus: The stimulus that was used.
        notes: Sentences for the reader of the results.
    """

    source: str
    requested: str
    stimulus: str
    notes: tuple[str, ...] = ()


def load_indexed(
    listing: ImageListing, stimulus: str, index: Path, advance: Advance = no_advance
) -> ImageSet:
    """Return the images of a listing; they are decoded only if there is no index of them yet.

    With an index, images are decoded when a batch needs them, and their digests are compared then.
    Of several processes that start together, one writes the index and the others wait for it.

    Args:
        listing: The images.
        stimulus: As for `load_images`.
        index: The file of the index, which is written if it is missing or of other images.
        advance: Called after every image.
    """
    while True:
        indexed = _read_index(listing, stimulus, index)
        if indexed is not None:
            advance(len(listing.images), "")
            return indexed
        index.parent.mkdir(parents=True, exist_ok=True)
        with try_lock(index) as is_free:
            # The process that held the lock before may have written the index.
            if is_free and _read_index(listing, stimulus, index) is None:
                images = load_listing(listing, stimulus, advance)
                _write_index(images, listing, stimulus, index)
                return images
        if not is_free:
            time.sleep(WAIT)


def _write_index(images: ImageSet, listing: ImageListing, stimulus: str, index: Path) -> None:
    import pyarrow as pa

    from eyechart.core.parts import write_parquet

    reasons = {damaged.name: damaged.why for damaged in images.damaged}
    header = IndexHeader(
        source=listing.source,
        requested=stimulus,
        stimulus=images.stimulus.name,
        notes=images.notes,
    )
    found = iter(zip(images.digests, images.sizes, strict=True))
    rows = []
    for image in listing.images:
        why = reasons.get(image.name)
        digest, (height, width) = ("", (0, 0)) if why is not None else next(found)
        rows.append((image.name, digest, height, width, why))
    columns = zip(*rows, strict=True)
    table = pa.table(
        dict(zip(("name", "digest", "height", "width", "damage"), map(list, columns), strict=True))
    )
    write_parquet(table.replace_schema_metadata({HEADER: header.model_dump_json()}), index)


def _read_index(listing: ImageListing, stimulus: str, index: Path) -> ImageSet | None:
    """Return the image set that an index describes; None if it is missing or of other images."""
    from eyechart.core.parts import read_header, read_parquet

    if not index.is_file():
        return None
    try:
        header = IndexHeader.model_validate_json(read_header(index).get(HEADER, ""))
    except ValueError:  # of another version; it is written again
        return None
    if (header.source, header.requested) != (listing.source, stimulus):
        return None
    rows = read_parquet(index).to_pylist()
    if [row["name"] for row in rows] != [image.name for image in listing.images]:
        return None
    good: Sequence[tuple[ListedImage, dict[str, object]]] = [
        (image, row) for image, row in zip(listing.images, rows, strict=True) if not row["damage"]
    ]
    return ImageSet(
        listing.source,
        find_stimulus(header.stimulus),
        tuple(image for image, _ in good),
        tuple(str(row["digest"]) for _, row in good),
        tuple((int(str(row["height"])), int(str(row["width"]))) for _, row in good),
        tuple(Damaged(row["name"], row["damage"]) for row in rows if row["damage"]),
        notes=header.notes,
        class_names=listing.class_names,
        index=index,
    )
