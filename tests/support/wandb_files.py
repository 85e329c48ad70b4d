"""Reads the file of an offline run of W&B with W&B's own messages, independently of eyechart.

Older versions of wandb have a reader of the file; newer ones have only its messages. The file is a
log as in LevelDB, https://github.com/google/leveldb/blob/main/doc/log_format.md: blocks of 32 KiB,
in which each piece has a checksum (4 bytes), a length (2) and a kind (1). W&B begins with 7 bytes
of its own.
"""

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

BLOCK, HEAD = 32 * 1024, 7
FULL, FIRST, MIDDLE, LAST = 1, 2, 3, 4


@dataclass(frozen=True)
class OfflineRun:
    """An offline run: its name, project, settings, the last value of each key, and its files."""

    name: str
    project: str
    config: dict[str, object]
    history: dict[str, object]
    files: set[str]
    exit_code: int | None


def read_offline_run(folder: Path) -> OfflineRun:
    """Return what the .wandb file in the folder of an offline run says."""
    from wandb.proto import wandb_internal_pb2 as messages

    (path,) = folder.glob("*.wandb")
    name = project = ""
    config: dict[str, object] = {}
    history: dict[str, object] = {}
    files: set[str] = set()
    exit_code = None
    for content in pieces_of(path):
        record = messages.Record()
        record.ParseFromString(content)
        kind = record.WhichOneof("record_type")
        if kind == "run":
            name, project = record.run.display_name, record.run.project
            config |= _items(record.run.config.update)
        elif kind == "config":
            config |= _items(record.config.update)
        elif kind == "history":
            history |= _items(record.history.item)
        elif kind == "files":
            files |= {file.path for file in record.files.files}
        elif kind == "exit":
            exit_code = record.exit.exit_code
    return OfflineRun(name, project, config, history, files, exit_code)


def _items(items) -> dict[str, object]:
    """Return values by key; a value below a nested key is in a dictionary of its own."""
    values: dict[str, object] = {}
    for item in items:
        *outer, last = item.nested_key or [item.key]
        inner = values
        for key in outer:
            inner = inner.setdefault(key, {})
        inner[last] = json.loads(item.value_json)
    return values


def pieces_of(path: Path) -> Iterator[bytes]:
    """Yield each message in the file, joined from its pieces."""
    content, place, message = path.read_bytes(), HEAD, b""
    assert content[:4] == b":W&B"
    while place + HEAD <= len(content):
        left = BLOCK - place % BLOCK
        if left < HEAD:
            # the rest of a block that has no space for another piece is padding
            place += left
            continue
        _, length, kind = struct.unpack("<IHB", content[place : place + HEAD])
        assert kind in (FULL, FIRST, MIDDLE, LAST)
        message += content[place + HEAD : place + HEAD + length]
        place += HEAD + length
        if kind in (FULL, LAST):
            yield message
            message = b""
    assert place == len(content) and not message
