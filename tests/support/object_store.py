"""A stand-in for an object store: whole objects are put and read, nothing is renamed or appended.

It keeps objects as files, so that several processes can use it.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import fsspec
from fsspec import AbstractFileSystem
from fsspec.implementations.local import LocalFileSystem

BUCKET = "bucket"


class ObjectStore(AbstractFileSystem):
    """fsspec's file system for objects://bucket/KEY, with a list of the keys that were put."""

    protocol = "objects"
    root: Path
    puts: list[str]
    is_read_only = False

    def names(self) -> list[str]:
        paths = (path for path in self.root.rglob("*") if path.is_file())
        return sorted(path.relative_to(self.root).as_posix() for path in paths)

    def _file(self, path: str) -> Path:
        bucket, _, key = self._strip_protocol(path).partition("/")
        assert bucket == BUCKET, path
        return self.root / key

    def put_file(self, lpath, rpath, **_):
        if self.is_read_only:
            raise PermissionError("no permission")
        target = self._file(rpath)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(lpath, target)
        self.puts.append(target.relative_to(self.root).as_posix())

    def get_file(self, rpath, lpath, **_):
        shutil.copyfile(self._file(rpath), lpath)

    def rm_file(self, path):
        self._file(path).unlink()

    def mv(self, path1, path2, **_):
        raise NotImplementedError("an object store has no renames")

    def ls(self, path, detail=True, **_):
        folder = self._file(path)
        if not folder.is_dir():
            raise FileNotFoundError(path)
        name = self._strip_protocol(path).rstrip("/")
        found = [
            {
                "name": f"{name}/{child.name}",
                "size": child.stat().st_size,
                "type": "directory" if child.is_dir() else "file",
            }
            for child in sorted(folder.iterdir())
        ]
        return found if detail else [entry["name"] for entry in found]

    def info(self, path, **_):
        file = self._file(path)
        if not file.exists():
            raise FileNotFoundError(path)
        kind = "directory" if file.is_dir() else "file"
        size = 0 if file.is_dir() else file.stat().st_size
        return {"name": self._strip_protocol(path), "size": size, "type": kind}

    def _open(self, path, mode="rb", **_):
        if mode != "rb":
            raise NotImplementedError("objects are put as a whole")
        return LocalFileSystem().open(str(self._file(path)), "rb")


@contextmanager
def use_store(root: Path) -> Iterator[ObjectStore]:
    """Yield a store whose objects are in this folder; objects:// names it until the block ends."""
    root.mkdir(parents=True, exist_ok=True)
    fsspec.register_implementation("objects", ObjectStore, clobber=True)
    # of the class, since fsspec makes an instance for each thread
    ObjectStore.root, ObjectStore.puts = root, []
    try:
        yield fsspec.filesystem("objects")
    finally:
        ObjectStore.clear_instance_cache()
