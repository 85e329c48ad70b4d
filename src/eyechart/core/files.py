"""Files that are whole or not there at all."""

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from eyechart.core.errors import UsageError

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

LOCK = ".lock"
LEFTOVER = re.compile(r"\..+\.(?:png|jpg|json|csv|parquet|yaml|yml|pt|pth|state)\.(\d{1,9})\.tmp")


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Give a temporary path beside `path`; what is written there takes its place at the end."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def one_at_a_time(folder: Path) -> Iterator[None]:
    """Refuse to go on while another process is within this for the same folder.

    The lock is the operating system's, so that it ends with the process, however that ends.
    """
    if fcntl is None:
        yield
        return
    try:
        file = (folder / LOCK).open("a")
    except OSError as error:
        raise UsageError(f"Cannot write into {folder}: {error.strerror or error}.") from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UsageError(
                f"Another run is writing into {folder}: wait for it, or choose another --out."
            ) from None
        yield


@contextmanager
def claimed(path: Path) -> Iterator[bool]:
    """Give whether nobody else is at work on this file, and keep others off it within this.

    Whoever is killed lets go of it.
    """
    if fcntl is None:
        yield True
        return
    with path.with_name(f".{path.name}{LOCK}").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
            return
        yield True


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
