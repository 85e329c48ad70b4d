"""Output folders at URLs such as s3://bucket/run: a local copy whose files are uploaded.

Object stores have neither renames nor locks. Files are therefore written to a local folder and
uploaded as soon as they are complete, one put for each file; one process writes a folder at a time.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from eyechart.core.arguments import FilePath, as_path
from eyechart.core.storage.files import TemporaryFolder
from eyechart.core.storage.remote_files import (
    MIRROR,
    FileState,
    as_shown,
    delete_file,
    file_system,
    is_url,
    put_file,
    read_uploads,
    reading,
    state_of,
)


@dataclass
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
    remote = _RemoteFolder(shown, temporary.path)
    remote.download()
    # every process that writes into the folder finds the URL there
    (temporary.path / MIRROR).write_text(shown, encoding="utf-8")
    try:
        yield OutputFolder(temporary.path, shown, temporary)
    finally:
        # also after an error: what is complete can be resumed
        remote.upload_changes()


@dataclass
class _RemoteFolder:
    """A folder at a URL, its local copy, and the files that this run has found or put there."""

    url: str
    local: Path
    known: dict[str, FileState] = field(default_factory=dict)

    def download(self) -> None:
        system, root = file_system(self.url)
        with reading(self.url):
            # another machine may have written there since the folder was listed
            system.invalidate_cache()
            paths = system.find(root) if system.exists(root) else []
            for path in paths:
                relative = PurePosixPath(path).relative_to(PurePosixPath(root)).as_posix()
                target = self.local / relative
                target.parent.mkdir(parents=True, exist_ok=True)
                system.get_file(path, str(target))
                self.known[relative] = state_of(target)

    def upload_changes(self) -> None:
        """Upload the files that have changed, and delete those that are gone.

        Files that other processes have put at the URL are left alone.
        """
        known = {**self.known, **read_uploads(self.local)}
        paths = [path for path in sorted(self.local.rglob("*")) if path.is_file()]
        # locks and temporary files are hidden
        names = [
            path.relative_to(self.local).as_posix()
            for path in paths
            if not path.name.startswith(".")
        ]
        for name in names:
            if known.get(name) != state_of(self.local / name):
                put_file(self.local / name, f"{self.url}/{name}")
        for name in known.keys() - set(names):
            delete_file(f"{self.url}/{name}")
