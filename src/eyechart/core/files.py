"""Files that are whole or not there at all."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from eyechart.core.errors import UsageError

LEFTOVER = re.compile(
    r"\..+\.(?:png|jpe?g|json|csv|npy|parquet|yaml|yml|pt|pth|state)\.(\d{1,9})\.tmp", re.IGNORECASE
)


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Give a temporary path beside `path`; what is written there takes its place at the end."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_torch(held: Mapping[str, object], path: Path) -> None:
    """Write plain values and tensors as torch does; the file appears whole or not at all."""
    import torch  # takes long, and most users of this module do without

    try:
        with atomic_file(path) as temporary, temporary.open("wb") as file:
            target = _Target(file)
            torch.save(dict(held), target)  # type: ignore[arg-type]
            if target.error is not None:
                raise target.error
    except OSError as error:
        raise UsageError(f"Cannot write {path}: {error.strerror or error}.") from None


class _Target:
    """Where torch writes to: keeps the error of a full disk, of which torch itself says nothing."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.error: OSError | None = None

    def write(self, data: memoryview) -> int:
        """Write, unless that failed before."""
        if self.error is None:
            try:
                self.file.write(data)
            except OSError as error:
                self.error = error
        return len(data)

    def flush(self) -> None:
        """Leave it to the file, which is closed next."""


@contextmanager
def file_in(folder: Path, name: str) -> Iterator[Path]:
    """As `atomic_file`, in a folder that is made if it is missing; what fails is one sentence."""
    path = folder / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with atomic_file(path) as temporary:
            yield temporary
    except OSError as error:
        raise UsageError(
            f"Cannot write {path}: {error.strerror or error}; give a folder that can be written to."
        ) from None


def write_text(path: Path, text: str) -> Path:
    """Write a text, whole or not at all, into a folder that is made if missing; return its path.

    Raises:
        UsageError: it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(path) as temporary:
            temporary.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise UsageError(f"Cannot write {path}: {error.strerror or error}.") from None
    return path


def remove_leftovers(folders: Iterable[Path]) -> None:
    """Remove the temporary files that runs left in these folders when they were killed."""
    for folder in folders:
        for path in folder.glob(".*.tmp"):
            ours = LEFTOVER.fullmatch(path.name)
            if ours and not _is_alive(int(ours[1])):
                path.unlink(missing_ok=True)


def _is_alive(process: int) -> bool:
    if os.name != "posix":
        return True  # elsewhere asking would end the process
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass  # it is somebody else's
    return True
