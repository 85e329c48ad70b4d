"""Records of finished shards, by which a merge finds missing, double and foreign shards.

Every shard writes one file next to its work. `core/storage/shards.py` says what belongs to a shard.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from eyechart.core.errors import UsageError
from eyechart.core.storage.run_folder import Settings, first_change, read_settings, write_settings
from eyechart.core.storage.shards import Shard, shards_of

_NAME = re.compile(r"([1-9]\d*)-of-([1-9]\d*)\.json")
SHARDS = ".shards"
"""Folder for records in folders that otherwise contain results only."""


def record_path(folder: Path, shard: Shard) -> Path:
    """Return the path of a shard's record."""
    return folder / f"{shard.folder}.json"


def write_shard_record(
    folder: Path, shard: Shard, identity: Settings, counts: Mapping[str, int]
) -> None:
    """Record that a shard is finished.

    Args:
        folder: the folder for the records, which is created.
        shard: the finished shard.
        identity: everything that all shards of a task have in common, as plain JSON values.
        counts: numbers of items that the shard has, by noun.

    Raises:
        UsageError: the record cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_settings(record_path(folder, shard), {"identity": identity, "counts": counts})
    except OSError as error:
        raise UsageError(f"Cannot write into {folder}: {error.strerror or error}.") from None


def read_shard_records(folder: Path) -> tuple[Settings, dict[Shard, Mapping[str, int]]]:
    """Return what the shards of a folder have in common, and the counts of each.

    Raises:
        UsageError: a shard is missing, there are two splits, or a record is from another task.
    """
    shards: dict[Shard, Path] = {}
    for path in sorted(folder.glob("*-of-*")):
        match = _NAME.fullmatch(path.name)
        if match is None or int(match[1]) > int(match[2]):
            raise UsageError(
                f"{path} is not the record of a shard, such as 2-of-7.json: delete it if it is a"
                " copy, or move it elsewhere."
            )
        shards[Shard(int(match[1]), int(match[2]))] = path
    if not shards:
        raise UsageError(f"{folder} has no finished shards: run the command with --shard first.")
    counts = sorted({shard.count for shard in shards})
    if len(counts) > 1:
        first = next(path for shard, path in shards.items() if shard.count == counts[0])
        raise UsageError(
            f"{folder} has shards of a split into {counts[0]} and of a split into {counts[1]}, such"
            f" as {first.name}: delete the records of one split."
        )
    for shard in shards_of(counts[0]):
        if shard not in shards:
            raise missing_shard(folder, shard)
    records = {shard: read_settings(shards[shard]) for shard in shards_of(counts[0])}
    identity = _part(records[Shard(1, counts[0])], "identity")
    for shard, record in records.items():
        change = first_change(identity, _part(record, "identity"))
        if change is not None:
            raise UsageError(
                f"{shards[shard]} is from another task than {shards[Shard(1, counts[0])].name}"
                f" ({change}): run the command again with --shard for the wrong one of them."
            )
    return identity, {shard: _part(record, "counts") for shard, record in records.items()}


def missing_shard(folder: Path, shard: Shard) -> UsageError:
    """Return the error for a shard that has not finished."""
    return UsageError(
        f"Shard {shard} of {folder} is missing or not finished: run the same command with --shard"
        f" {shard}."
    )


def remove_shard_records(folder: Path) -> None:
    """Remove the records of all shards, and their folder if nothing else is in it."""
    for path in folder.glob("*-of-*.json"):
        if _NAME.fullmatch(path.name):
            path.unlink(missing_ok=True)
    if folder.name == SHARDS and folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


def _part(record: Settings, name: str) -> dict[str, int]:
    part = record.get(name)
    return part if isinstance(part, dict) else {}
