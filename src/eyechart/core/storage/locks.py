"""Locks between processes, so that only one process at a time writes a file or folder.

These are operating-system locks, so each is released when its process ends, even if it is killed.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path

from eyechart.core.errors import UsageError

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

LOCK = ".lock"

NO_LOCKS = (errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK)
"""Errors of file systems that do not support locks, such as some network file systems."""


@contextmanager
def try_lock(path: Path) -> Iterator[bool]:
    """Yield whether this process could lock the file; hold the lock until the block ends."""
    # a separate file: os.replace gives `path` a new inode, which a lock on the old one misses
    with _locked(path.with_name(f".{path.name}{LOCK}")) as is_free:
        yield is_free


@contextmanager
def lock_file(path: Path) -> Iterator[None]:
    """Raise a UsageError if another process is writing the same file.

    A folder that cannot be written to is rejected as well, before any work is done.
    """
    with _only_writer(try_lock(path), str(path)):
        yield


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Create a folder if it is missing, and raise if another process is writing into it.

    A folder that cannot be written to is rejected as well. A folder created here that is empty at
    the end is removed.
    """
    is_new = not folder.is_dir()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"Cannot write into {folder}: {error.strerror or error}.") from None
    try:
        with _only_writer(_locked(folder / LOCK), f"into {folder}"):
            yield
    finally:
        # only now: until its lock was released, the folder held the lock file
        if is_new:
            with suppress(OSError):  # it is not empty
                folder.rmdir()


@contextmanager
def _only_writer(lock: AbstractContextManager[bool], target: str) -> Iterator[None]:
    """Hold a lock; raise a UsageError if another process holds it, or if it cannot be made."""
    with ExitStack() as stack:
        try:
            is_free = stack.enter_context(lock)
        except OSError as error:
            raise UsageError(f"Cannot write {target}: {error.strerror or error}.") from None
        if not is_free:
            raise UsageError(
                f"Another run is writing {target}: wait for it, or choose another --out."
            )
        yield


@contextmanager
def _locked(path: Path) -> Iterator[bool]:
    """Yield whether the lock file could be locked; the process that locked it removes it."""
    if fcntl is None:
        # without these locks a second run is not noticed, but a single one works
        yield True
        return
    while True:
        # "a" creates the file and truncates nothing
        with path.open("a") as file:
            try:
                # released by the kernel when the process ends, also after SIGKILL
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                is_without_locks = error.errno in NO_LOCKS
                if is_without_locks:
                    path.unlink(missing_ok=True)
                # as without fcntl, a single run works
                yield is_without_locks
                return
            # the former holder may have removed the file between our open and our lock
            try:
                is_same = os.path.samestat(os.fstat(file.fileno()), path.stat())
            except FileNotFoundError:
                is_same = False
            if not is_same:
                continue
            try:
                yield True
            finally:
                # before the lock is released: afterwards it could be the next holder's file
                with suppress(OSError):
                    path.unlink()
            return
