"""The samples of a test set as a table: each row suffices to regenerate its image."""

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch

from eyechart.core.arrays import FloatArray, IntArray
from eyechart.core.errors import UsageError
from eyechart.corruptions.suites.suite import Entry
from eyechart.images.imageset import ImageSet
from eyechart.images.labels.imagenet import CATEGORIES, NONE
from eyechart.images.labels.matching import category_labels
from eyechart.testsets.plan import CLEAN, Plan
from eyechart.testsets.samples import Samples
from eyechart.visual_change.ruler import DELTA_V, Ruler

VERSION = 1
"""Version of the schema; increases when the meaning of a column changes."""

SCHEMA = pa.schema(
    [
        ("row", pa.int64()),
        ("digest", pa.string()),
        ("image", pa.string()),
        ("label", pa.string()),
        ("category", pa.string()),
        ("suite", pa.string()),
        ("corruption", pa.string()),
        ("version", pa.int32()),
        ("draw", pa.int32()),
        ("severity", pa.float64()),
        ("parameters", pa.map_(pa.string(), pa.float64())),
        ("seed", pa.int64()),
        ("stimulus", pa.string()),
        ("ruler", pa.string()),
        ("scales", pa.int8()),
        ("delta_v", pa.float64()),
        ("pixels", pa.uint64()),
    ]
)
"""`digest`: SHA-256 of the image file. `version`: version of the corruption. `severity`: null if
parameters were sampled directly. `delta_v`: null if the clean image contains too little
information to measure a change. `pixels`: a digest of the corrupted 8-bit values.
"""

RAW = "raw"
"""Column of the ruler's raw value, in manifests by rulers whose raw value is not Δv itself."""


def samples_table(
    images: ImageSet,
    plan: Plan,
    samples: Samples,
    delta_v: FloatArray,
    pixels: IntArray,
    scales: int,
) -> pa.Table:
    """Return the table of samples with what was measured on their corrupted images.

    Args:
        images: All images.
        plan: The plan of the test set.
        samples: The samples.
        delta_v: Visual change of each sample, NaN where it is undefined.
        pixels: Digest of the pixels of each sample.
        scales: Number of scales of the visual change.
    """
    count, entry = len(samples), samples.entry
    indices = pa.array(samples.image)
    columns = {
        "row": samples.row,
        **{name: column.take(indices) for name, column in _of_images(images).items()},
        "suite": [plan.suite] * count,
        "corruption": [samples.name] * count,
        "version": np.full(count, 1 if entry is None else entry.version, dtype=np.int32),
        "draw": samples.draw.astype(np.int32),
        "severity": _null_for_nan(samples.severity),
        "parameters": _maps(samples),
        "seed": np.full(count, plan.seed),
        "stimulus": [images.stimulus.name] * count,
        "ruler": [plan.ruler] * count,
        "scales": np.full(count, scales, dtype=np.int8),
        "delta_v": _null_for_nan(delta_v),
        # The same 64 bits: torch computes the digests as signed numbers.
        "pixels": pixels.view(np.uint64),
    }
    return pa.table(columns, schema=SCHEMA)


def with_raw(table: pa.Table, ruler: Ruler) -> pa.Table:
    """Return a manifest with the ruler's raw values, unless they are Δv itself."""
    if ruler.raw_name == DELTA_V:
        return table
    delta_v = table["delta_v"].to_numpy()
    raw = ruler.raw(torch.from_numpy(delta_v.copy())).numpy()
    return table.append_column(pa.field(RAW, pa.float64()), _null_for_nan(raw))


# Called for every batch of a run, always with the same image set.
@lru_cache(maxsize=4)
def _of_images(images: ImageSet) -> dict[str, pa.Array]:
    """Return the table columns that identify an image, with a value for every image of the set."""
    categories = category_labels(images.labels, images.categories)
    names = [None if category == NONE else CATEGORIES[category] for category in categories]
    columns = {
        "digest": images.digests,
        "image": [image.name for image in images.listed],
        "label": images.labels,
        "category": names,
    }
    return {name: pa.array(values, pa.string()) for name, values in columns.items()}


def _null_for_nan(values: FloatArray) -> pa.Array:
    return pa.array(values, pa.float64(), mask=np.isnan(values))


def _maps(samples: Samples) -> pa.Array:
    names, count = list(samples.values), len(samples)
    # Arrow stores maps as one flat list of keys and values, and offsets that mark each row's slice.
    offsets = np.arange(count + 1, dtype=np.int32) * len(names)
    items = np.stack(list(samples.values.values()), axis=1).ravel() if names else np.empty(0)
    return pa.MapArray.from_arrays(
        pa.array(offsets), pa.array(names * count, pa.string()), pa.array(items, pa.float64())
    )


def read_samples(table: pa.Table, images: ImageSet, entries: Sequence[Entry]) -> list[Samples]:
    """Return the samples of a table by corruption, in order of appearance, for this image set.

    Raises:
        UsageError: If the image set lacks an image of the table, or a corruption has changed since
            the table was written.
    """
    known = {entry.name: entry for entry in entries}
    indices: dict[str | tuple[str, str], int] = {}
    # Reversed, so that of several files with the same bytes the first is used.
    for position, digest in reversed(list(enumerate(images.digests))):
        # The same file may occur twice, under two names and labels.
        indices[digest] = indices[digest, images.listed[position].name] = position
    groups = []
    for name in table["corruption"].unique().to_pylist():
        rows = table.filter(pc.equal(table["corruption"], name))
        entry = None if name == CLEAN else known.get(name)
        if entry is None and name != CLEAN:
            raise UsageError(
                f"The test set has {name}, which is not in its suite: draw a new test set."
            )
        # A different version of a corruption gives pixels that differ from the measured ones.
        if entry is not None and set(rows["version"].to_pylist()) != {entry.version}:
            raise UsageError(f"The test set has an older version of {name}: draw a new test set.")
        groups.append(_to_samples(rows, entry, indices))
    return groups


def _to_samples(
    table: pa.Table, entry: Entry | None, indices: Mapping[str | tuple[str, str], int]
) -> Samples:
    keys = list(zip(table["digest"].to_pylist(), table["image"].to_pylist(), strict=True))
    for digest, name in keys:
        if digest not in indices:
            raise UsageError(
                f"The test set was drawn from other images: {name} is missing here, or its content"
                " differs; give the folder or manifest that it was drawn from."
            )
    maps = table["parameters"]
    # All samples of a corruption have the same parameters, so that one row names them.
    names = [name for name, _ in maps[0].as_py()]
    return Samples(
        entry,
        table["row"].to_numpy(),
        np.array([indices.get(key, indices[key[0]]) for key in keys], dtype=np.int64),
        table["draw"].to_numpy().astype(np.int64),
        table["severity"].to_numpy().astype(np.float64),
        {name: pc.map_lookup(maps, name, "first").to_numpy().copy() for name in names},
    )
