"""Test sets made by several shards: each measures its images, and a merge writes the test set."""

from pathlib import Path

import torch

from eyechart.core.errors import UsageError
from eyechart.core.progress import Advance
from eyechart.core.storage.locks import lock_file
from eyechart.core.storage.parts import ROW, Parts
from eyechart.core.storage.run_folder import read_settings
from eyechart.core.storage.shards import (
    Shard,
    missing_shard,
    read_shard_records,
    write_shard_record,
)
from eyechart.images.imageset import ImageSet
from eyechart.testsets.plan import Plan
from eyechart.testsets.testset import (
    TestSet,
    TestSetHeader,
    header_of,
    join_parts,
    measure_testset,
    plan_from,
)
from eyechart.testsets.testset_parts import PLAN, parts_folder, remove_parts


def make_shard(
    images: ImageSet, plan: Plan, device: torch.device, folder: Path, shard: Shard, *, step: Advance
) -> int | None:
    """Measure the samples of a shard's images into part files.

    Shards write separate files, so that they need no locks.

    Args:
        images: All images.
        plan: The plan of the test set.
        device: Where images are corrupted.
        folder: Folder of the part files, from `open_parts`.
        shard: The shard.
        step: Called for every sample that is measured.

    Returns:
        The number of samples of the shard. None if strengths cannot be found yet (with sampling
        "uniform"), because other shards have not measured their candidates: run it again later.
    """
    counts = measure_testset(images, plan, device, folder, step, shard)
    if counts is None:
        return None
    identity = {"header": header_of(images, plan).model_dump(mode="json"), "names": list(counts)}
    n_samples = sum(counts.values())
    write_shard_record(folder, shard, identity, {"samples": n_samples})
    return n_samples


def has_testset_shards(out: Path) -> bool:
    """Return whether a path is that of a test set whose part files are not merged yet."""
    return (parts_folder(out) / PLAN).is_file()


def merge_testset(out: Path) -> TestSet:
    """Write a test set from the part files of its shards, which are removed; return the test set.

    The images are not needed. The file has the same bytes as without shards.

    Raises:
        UsageError: A shard is missing, unfinished or from another task, or `out` exists.
    """
    with lock_file(out):
        if out.exists():
            raise UsageError(f"{out} already exists: delete it, or choose another --out.")
        folder = parts_folder(out)
        settings = dict(read_settings(folder / PLAN))
        for name in ("stimulus", "images", "ruler_version"):  # they are in the header too
            settings.pop(name, None)
        identity, counts = read_shard_records(folder)
        header = TestSetHeader.from_plain(identity.get("header"), str(folder))
        names = identity.get("names")
        assert isinstance(names, list), "written by `make_shard`"
        digests = _digests(Parts(folder, names))
        for shard, expected in counts.items():
            # A part file may have been deleted since.
            if sum(map(shard.has, digests)) != expected["samples"]:
                raise missing_shard(folder, shard)
        testset = join_parts(folder, names, plan_from(settings, folder / PLAN), header)
        testset.save(out)
        # Only once the manifest is on disk: a merge that is killed earlier starts again.
        remove_parts(folder, names)
    return testset


def _digests(parts: Parts) -> list[str]:
    """Return the image digest of each sample in part files."""
    tables = (parts.read(name, [ROW, "digest"]) for name in parts.names())
    return [digest for table in tables for digest in table["digest"].to_pylist()]
