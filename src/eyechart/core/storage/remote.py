"""Files and folders at URLs such as s3://bucket/val.tar, read and written through fsspec.

The package for a kind of URL (s3fs, gcsfs) is imported by fsspec when such a URL is used. Object
stores have neither renames nor locks. Output is therefore written to a local folder and uploaded as
soon as a file is complete, one put for each file; one process writes a folder at a time.
"""

import re
import shutil
import tempfile
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, cast

from eyechart.core.arguments import FilePath, as_path, regular_file
from eyechart.core.errors import UsageError, install_hint, reason_of

# two letters or more: "C:/" is a path on Windows
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/+")

Untyped = Any
"""Type of fsspec's file systems, which declare no types."""


def is_url(source: object) -> bool:
    """Return whether this is a URL of a file or folder.

    Example:
        >>> is_url("s3://bucket/val"), is_url("hf:NAME"), is_url("photos/cats")
        (True, False, False)
    """
    return isinstance(source, str) and re.match(f"{_URL.pattern[:-1]}/", source) is not None


def as_shown(path: object) -> str:
    """Return a path for messages; a URL gets back the second slash, which paths do not keep.

    Example:
        >>> as_shown(Path("s3://bucket/cat.jpg"))
        's3://bucket/cat.jpg'
    """
    return _URL.sub(r"\1://", str(path), count=1) if _URL.match(str(path)) else str(path)


@dataclass(frozen=True)
class RemoteFile:
    """A file at a URL, with those methods of a path that readers of datasets need."""

    url: str

    def __str__(self) -> str:
        return self.url

    @property
    def name(self) -> str:
        """The last part of the URL."""
        return PurePosixPath(self.url).name

    @property
    def suffix(self) -> str:
        """The suffix of the name, with the dot."""
        return PurePosixPath(self.url).suffix

    def open(self) -> BinaryIO:
        """Return the file, open for reading; only the parts that are read are downloaded."""
        system, path = file_system(self.url)
        with _reading(self.url):
            return cast(BinaryIO, system.open(path, "rb"))

    def read(self, start: int | None = None, stop: int | None = None) -> bytes:
        """Return the bytes of the file, or those from `start` to before `stop`."""
        system, path = file_system(self.url)
        with _reading(self.url):
            return cast(bytes, system.cat_file(path, start=start, end=stop))


DataFile = Path | RemoteFile
"""A file that is read in pieces: on disk, or at a URL."""


def open_file(file: DataFile) -> BinaryIO:
    """Return a file, open for reading."""
    return regular_file(file).open("rb") if isinstance(file, Path) else file.open()


def read_piece(file: DataFile, start: int, size: int) -> bytes:
    """Return `size` bytes of a file from `start`; fewer at its end."""
    if isinstance(file, RemoteFile):
        return file.read(start, start + size)
    with regular_file(file).open("rb") as opened:
        opened.seek(start)
        return opened.read(size)


def remote_files(folder: str, suffixes: tuple[str, ...]) -> list[tuple[RemoteFile, PurePosixPath]]:
    """Return the files below a URL with these suffixes, sorted, and their paths relative to it.

    Hidden files are left out.
    """
    system, root = file_system(folder)
    with _reading(folder):
        system.invalidate_cache()
        paths = sorted(system.find(root))
        base = system._strip_protocol(root)
        relative = [PurePosixPath(path).relative_to(base) for path in paths]
    return [
        (RemoteFile(f"{folder.rstrip('/')}/{path}"), path)
        for path in relative
        if path.name.lower().endswith(suffixes) and not path.name.startswith(".")
    ]


def is_remote_file(url: str) -> bool:
    """Return whether there is a file, not a folder, at a URL."""
    system, path = file_system(url)
    with _reading(url):
        return bool(system.isfile(path))


def file_system(url: str) -> tuple[Untyped, str]:
    """Return fsspec's file system for a URL, and the path in it.

    Raises:
        UsageError: The kind of URL is unknown, or its package is missing.
    """
    try:
        from fsspec.core import url_to_fs

        with _reading(url):
            system, path = url_to_fs(url)
    except ImportError as error:
        raise UsageError(
            f"{url} needs another package ({error}): {install_hint('cloud')}."
        ) from None
    return system, str(path)


@contextmanager
def _reading(url: str) -> Iterator[None]:
    """Turn the errors of a file system into a UsageError that names the URL."""
    try:
        yield
    except (UsageError, ImportError):
        raise
    except FileNotFoundError:
        raise UsageError(f"No such file or folder: {url}.") from None
    # each kind of file system raises errors of its own packages
    except Exception as error:
        raise UsageError(f"Cannot read {url}: {reason_of(error)}.") from error


MIRROR, UPLOADS = ".mirror", ".uploads"
"""Files in the local copy of a folder at a URL: its URL, and a list of the uploaded files."""


def upload_written(path: Path) -> None:
    """Upload a file that was just written, if it is in the local copy of a folder at a URL."""
    folder = next((parent for parent in path.parents if (parent / MIRROR).is_file()), None)
    if folder is None:
        return
    name, state = path.relative_to(folder).as_posix(), _state_of(path, folder)
    put_file(path, f"{(folder / MIRROR).read_text(encoding='utf-8')}/{name}")
    # one short line in one write, so that several processes can share the list
    with (folder / UPLOADS).open("a", encoding="utf-8") as file:
        file.write(f"{state}\n")


def put_file(path: Path, url: str) -> None:
    """Write a local file to a URL, in one put.

    Raises:
        UsageError: The file cannot be written.
    """
    system, target = file_system(url)
    with _writing(url):
        system.put_file(str(path), target)


@contextmanager
def _writing(url: str) -> Iterator[None]:
    try:
        yield
    # each kind of file system raises errors of its own packages
    except Exception as error:
        raise UsageError(
            f"Cannot write {url}: {reason_of(error)}; finished work is kept: run the same command"
            " again to resume."
        ) from error


class TemporaryFolder:
    """A new folder that is deleted with the last reference to it, at the latest at exit.

    Unlike tempfile.TemporaryDirectory, it is meant to be kept by other objects, and can be copied
    and pickled with them. A pickled copy knows the path, but does not keep the folder.
    """

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="eyechart-"))
        self._delete = weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)

    def delete(self) -> None:
        """Delete the folder now."""
        self._delete()

    def __deepcopy__(self, memo: object) -> "TemporaryFolder":
        # Both objects need the same folder, which is never changed.
        return self

    def __getstate__(self) -> dict[str, Path]:
        return {"path": self.path}


@dataclass(frozen=True)
class OutputFolder:
    """Where a command writes its files.

    Attributes:
        path: The local folder.
        shown: The folder as the user gave it: a path or a URL.
        temporary: The local copy of a folder at a URL; None if the folder is local.
    """

    path: Path
    shown: str
    temporary: TemporaryFolder | None = None

    def show(self, file: Path) -> str:
        """Return the path or URL of a file in the folder, for messages."""
        if self.temporary is None:
            return str(file)
        return f"{self.shown}/{file.relative_to(self.path).as_posix()}"


@contextmanager
def output_folder(out: FilePath) -> Iterator[OutputFolder]:
    """Yield a local folder in which files are written; for a URL, a copy of the folder there.

    What is at the URL is downloaded first, so that work resumes. Files written by `atomic_file`
    are uploaded at once, in whichever process they are written, and all others at the end. Files
    that are deleted locally are deleted at the end.

    Raises:
        UsageError: The URL cannot be read or written.
    """
    shown = as_shown(as_path(out, "out", "the path of a folder"))
    if not is_url(shown):
        yield OutputFolder(Path(out), shown)
        return
    shown = shown.rstrip("/")
    temporary = TemporaryFolder()
    local = temporary.path
    system, root = file_system(shown)
    with _reading(shown):
        # another machine may have written there since the folder was listed
        system.invalidate_cache()
        paths = system.find(root) if system.exists(root) else []
        targets = [local / PurePosixPath(path).relative_to(root) for path in paths]
        for target in targets:
            target.parent.mkdir(parents=True, exist_ok=True)
        if paths:
            # by lists of both: fsspec would read names as patterns and decide by slashes
            system.get(paths, [str(target) for target in targets])
    downloaded = _states_in(local)
    # every process that writes into the folder finds the URL there
    (local / MIRROR).write_text(shown, encoding="utf-8")
    try:
        yield OutputFolder(local, shown, temporary)
    finally:
        # also after an error: what is complete can be resumed
        _upload_changes(local, shown, downloaded)


def _state_of(path: Path, folder: Path) -> str:
    """Return one line that differs when a file has changed: its size, its time, and its name."""
    status = path.stat()
    return f"{status.st_size} {status.st_mtime_ns} {path.relative_to(folder).as_posix()}"


def _states_in(folder: Path) -> dict[str, str]:
    """Return the state of each file below a folder; locks and temporary files are hidden."""
    return {
        path.relative_to(folder).as_posix(): _state_of(path, folder)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.startswith(".")
    }


def _upload_changes(local: Path, url: str, downloaded: Mapping[str, str]) -> None:
    """Upload the files that have changed, and delete those that are gone.

    Files that other processes have put at the URL are left alone.
    """
    uploads = local / UPLOADS
    lines = uploads.read_text(encoding="utf-8").split("\n")[:-1] if uploads.exists() else []
    known = {**downloaded, **{state.split(" ", 2)[2]: state for state in lines}}
    states = _states_in(local)
    for name, state in states.items():
        if known.get(name) != state:
            put_file(local / name, f"{url}/{name}")
    for name in known.keys() - states.keys():
        system, target = file_system(f"{url}/{name}")
        with _writing(f"{url}/{name}"), suppress(FileNotFoundError):
            system.rm_file(target)
