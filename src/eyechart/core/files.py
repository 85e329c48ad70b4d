"""Files that are whole or not there at all."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from eyechart.core.errors import UsageError

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

LOCK = ".lock"
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


def write_torch(held: Mapping[str, Any], path: Path) -> None:
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


@contextmanager
def one_at_a_time(folder: Path) -> Iterator[None]:
    """Refuse to go on while another process is within this for the same folder.

    The lock is the operating system's, so that it ends with the process, however that ends.
    """
    with ExitStack() as stack:
        try:
            ours = stack.enter_context(_locked(folder / LOCK))
        except OSError as error:
            raise UsageError(f"Cannot write into {folder}: {error.strerror or error}.") from None
        if not ours:
            raise UsageError(
                f"Another run is writing into {folder}: wait for it, or choose another --out."
            )
        yield


@contextmanager
def only_writer(path: Path) -> Iterator[None]:
    """Refuse to go on while another process is within this for the same file.

    A folder in which no file can be made is refused as well, before any work is done.
    """
    with ExitStack() as stack:
        try:
            ours = stack.enter_context(claimed(path))
        except OSError as error:
            raise UsageError(f"Cannot write {path}: {error.strerror or error}.") from None
        if not ours:
            raise UsageError(
                f"Another run is writing {path}: wait for it, or choose another --out."
            )
        yield


@contextmanager
def only_writer_in(folder: Path) -> Iterator[None]:
    """Make the folder and refuse to go on while another process is within this for it.

    A folder in which no file can be made is refused as well. One that was made here and is empty in
    the end goes.
    """
    was_there = folder.is_dir()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"Cannot write into {folder}: {error.strerror or error}.") from None
    try:
        with one_at_a_time(folder):
            yield
    finally:
        if not was_there:
            with suppress(OSError):  # it holds something
                folder.rmdir()


@contextmanager
def claimed(path: Path) -> Iterator[bool]:
    """Give whether nobody else is at work on this file, and keep others off it within this.

    Whoever is killed lets go of it.
    """
    with _locked(path.with_name(f".{path.name}{LOCK}")) as ours:
        yield ours


@contextmanager
def _locked(path: Path) -> Iterator[bool]:
    """Give whether the lock file could be locked; it is removed by whoever held it."""
    if fcntl is None:
        yield True
        return
    while True:
        with path.open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                yield False
                return
            if not _is_still(file.fileno(), path):
                continue
            try:
                yield True
            finally:
                # before the lock is let go of, so that nobody removes the file of the next
                with suppress(OSError):
                    path.unlink()
            return


def _is_still(file: int, path: Path) -> bool:
    """Whether the open file is the one at this path, and was not removed before it was locked."""
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False


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
