"""The index of a dataset: digest and size of every image, stored so that it is decoded only once.

Processes that share a run read the index and then only the images that they need.
"""

import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from eyechart.core.errors import UsageError
from eyechart.core.progress import Advance
from eyechart.core.storage.parts import read_header, read_parquet, write_parquet
from eyechart.images.image_list import ImageListing, ListedImage
from eyechart.images.imageset import Damaged, ImageSet, load_listing
from eyechart.images.stimulus import AUTO, find_stimulus, resolve_auto, split_window

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
        _write(images, listing.images, index)
        return images
    images = _read(listing, stimulus, index)
    advance(len(listing.images), "")
    return images


def _write(images: ImageSet, listed: Sequence[ListedImage], index: Path) -> None:
    usable = {
        image.name: (digest, *size)
        for image, digest, size in zip(images.listed, images.digests, images.sizes, strict=True)
    }
    damaged = {image.name: image.why for image in images.damaged}
    rows = []
    for image in listed:
        digest, height, width = usable.get(image.name, ("", 0, 0))
        why = "" if digest else damaged[image.name]
        rows.append(dict(zip(SCHEMA.names, (image.name, digest, height, width, why), strict=True)))
    header = {"stimulus": images.stimulus.name, "notes": images.notes}
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    table = table.replace_schema_metadata({HEADER: json.dumps(header)})
    index.parent.mkdir(parents=True, exist_ok=True)
    write_parquet(table, index)


def _read(listing: ImageListing, stimulus: str, index: Path) -> ImageSet:
    table = read_parquet(index, SCHEMA.names)
    rows = table.to_pylist()
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
    usable = [
        (image, row["digest"], (row["height"], row["width"]))
        for image, row in zip(listing.images, rows, strict=True)
        if not row["why"]
    ]
    images, digests, sizes = zip(*usable, strict=True)
    return ImageSet(
        listing.source,
        find_stimulus(header["stimulus"]),
        images,
        digests,
        sizes,
        tuple(Damaged(row["name"], row["why"]) for row in rows if row["why"]),
        notes=tuple(header["notes"]),
        class_names=listing.class_names,
    )
