"""Atomic files, which appear complete or not at all."""

import os
import platform
import re
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from eyechart.core.errors import UsageError
from eyechart.core.storage.remote import upload_written

MACHINE = f"{zlib.crc32(platform.node().encode()):08x}"
"""Identifies this machine in the names of temporary files."""

# only names that `atomic_file` can have written: other programs leave .tmp files as well
LEFTOVER = re.compile(
    r"\..+\.(?:png|jpe?g|json|csv|npy|parquet|yaml|yml|pt|pth|state|svg|pdf|html|md|tex|xml)(?:\.([0-9a-f]{8}))?"
    r"\.(\d{1,9})\.tmp",
    re.IGNORECASE,
)
"""Pattern for names of temporary files written by `atomic_file`, with machine and process id."""

ABANDONED = 24 * 3600.0
"""Age in seconds at which a temporary file of another machine counts as left by a killed process.
"""


class WriteError(UsageError, OSError):
    """The error for a file that cannot be written: an OSError whose message names the file.

    Callers that can add information, such as how to resume, catch it as an OSError.
    """

    def __init__(self, path: Path, error: OSError) -> None:
        # pyarrow sets only the number of an error, Pillow only the text
        reason = error.strerror or (os.strerror(error.errno) if error.errno else str(error))
        OSError.__init__(self, error.errno, reason.rstrip("."), str(path))

    def __str__(self) -> str:
        return f"Cannot write {self.filename}: {self.strerror}."


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path next to `path`; the file written there replaces `path` at the end.

    In the local copy of a folder at a URL, the file is then uploaded.

    Raises:
        WriteError: the file cannot be written.
    """
    temporary = temporary_path(path)
    try:
        yield temporary
        os.replace(temporary, path)
        upload_written(path)
    except OSError as error:
        # errors of other files, such as one that is read meanwhile, have their own file name
        if error.filename is None or str(error.filename) == str(temporary):
            raise WriteError(path, error) from None
        raise
    finally:
        temporary.unlink(missing_ok=True)


def temporary_path(path: Path) -> Path:
    """Return the path for a file's contents until they are complete."""
    # in the same folder, because os.replace is atomic only within one file system
    # machine and process id keep two writers of one file apart, and tell `remove_leftovers` who
    # left it
    return path.with_name(f".{path.name}.{MACHINE}.{os.getpid()}.tmp")


def create_file(path: Path, text: str) -> bool:
    """Write a file unless it exists; return whether this call wrote it.

    Of several processes, even on several machines, only one writes the file.
    """
    temporary = temporary_path(path)
    try:
        temporary.write_text(text, encoding="utf-8")
        # unlike os.replace, a link fails if the file exists
        os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        temporary.unlink(missing_ok=True)
    return True


def write_torch(held: Mapping[str, object], path: Path) -> None:
    """Write plain values and tensors with torch.save, atomically."""
    import torch  # slow to import, and most users of this module do not need it

    with atomic_file(path) as temporary, temporary.open("wb") as file:
        target = _Target(file)
        torch.save(dict(held), target)  # type: ignore[arg-type]
        # torch.save returned normally although the disk was full
        if target.error is not None:
            raise target.error


class _Target:
    """File object for torch.save that keeps write errors (such as a full disk) that torch hides."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.error: OSError | None = None

    def write(self, data: memoryview) -> int:
        """Write the data, unless an earlier write failed."""
        if self.error is None:
            try:
                self.file.write(data)
            except OSError as error:
                self.error = error
        return len(data)

    def flush(self) -> None:
        """Do nothing, because the file is closed right afterwards."""


@contextmanager
def file_in(folder: Path, name: str) -> Iterator[Path]:
    """Yield a temporary path like `atomic_file`; create the folder if it is missing.

    Raises:
        UsageError: the file cannot be written.
    """
    path = folder / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        remove_leftovers([folder])
        with atomic_file(path) as temporary:
            yield temporary
    except OSError as error:
        raise UsageError(
            f"Cannot write {path}: {error.strerror or error}; choose a writable folder."
        ) from None


def write_text(path: Path, text: str) -> Path:
    """Write a text file atomically, creating its folder if needed, and return its path.

    Raises:
        UsageError: the file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_leftovers([path.parent])
        with atomic_file(path) as temporary:
            temporary.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise UsageError(f"Cannot write {path}: {error.strerror or error}.") from None
    return path


def remove_leftovers(folders: Iterable[Path]) -> None:
    """Remove temporary files that killed processes left in these folders."""
    for folder in folders:
        for path in folder.glob(".*.tmp"):
            ours = LEFTOVER.fullmatch(path.name)
            # a process that is still running is about to rename its file
            if ours and not _is_written(path, ours[1], int(ours[2])):
                path.unlink(missing_ok=True)


def _is_written(path: Path, machine: str | None, process: int) -> bool:
    """Return whether the process that began a temporary file may still be writing it."""
    try:
        if machine not in (None, MACHINE):
            # process ids of another machine say nothing here
            return time.time() - path.stat().st_mtime < ABANDONED
        if os.name == "posix":  # on Windows os.kill(process, 0) would terminate the process
            os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass  # the process belongs to another user, or the file has gone
    return True
