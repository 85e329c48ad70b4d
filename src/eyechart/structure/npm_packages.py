"""Icon packages from npm: downloaded with npm, or found in a folder."""

import gzip
import io
import json
import shutil
import subprocess
import tarfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eyechart.core.arguments import regular_file
from eyechart.core.errors import UsageError
from eyechart.core.progress import Progress

NAMES = "unicode-emoji-json"
"""Package with the names of all emoji."""

STYLES: Mapping[str, str] = {
    "noto": "@iconify-json/noto",
    "twemoji": "@iconify-json/twemoji",
    "openmoji": "@iconify-json/openmoji",
    "fluent-flat": "@iconify-json/fluent-emoji-flat",
    "fluent": "@iconify-json/fluent-emoji",
    "emojione": "@iconify-json/emojione",
    "noto-v1": "@iconify-json/noto-v1",
    "emojione-v1": "@iconify-json/emojione-v1",
}
"""Package of each style. A drawing that two styles share is kept only in the first style."""

DAMAGED = (OSError, EOFError, zlib.error, tarfile.TarError)
"""Exceptions raised by damaged archives."""

PATIENCE = 600
"""Timeout of npm per package, in seconds."""


@dataclass(frozen=True)
class Package:
    """A local package: an npm archive, or its folder."""

    name: str
    path: Path

    def read(self, file: str, needed: bool = True) -> Any:
        """Return the content of a JSON file in the package, or {} if it is missing and optional."""
        try:
            text = self._text(file)
            return {} if text is None and not needed else json.loads(text or "")
        except (ValueError, UnicodeDecodeError):
            raise self.changed(f"{file} is missing, truncated or not JSON") from None
        except DAMAGED as error:
            why = getattr(error, "strerror", None) or "it is damaged"
            raise UsageError(
                f"Cannot read {self.path}: {why}; delete it and download it again."
            ) from None

    def _text(self, file: str) -> str | None:
        if self.path.is_dir():
            path = self.path / file
            return path.read_text(encoding="utf-8") if path.is_file() else None
        # Read to the end: the checksum that reveals damage comes last.
        with gzip.open(regular_file(self.path)) as packed:
            content = io.BytesIO(packed.read())
        with tarfile.open(fileobj=content) as archive:
            for member in archive:
                # Everything in an npm archive is below one folder.
                if member.isfile() and Path(member.name).parts[1:] == (file,):
                    own_content = archive.extractfile(member)
                    return None if own_content is None else own_content.read().decode("utf-8")
        return None

    def changed(self, problem: str) -> UsageError:
        """Return the error for a package with an unexpected format."""
        version = f" {self.version}" if self.version else ""
        return UsageError(
            f"The package {self.name}{version} has a format that is not supported ({problem}): "
            "download it again, or pass an older version with --from."
        )

    @property
    def version(self) -> str:
        """Version of the package, or "" if it is unknown."""
        try:
            metadata = json.loads(self._text("package.json") or "{}")
        except (ValueError, *DAMAGED):
            return ""
        return str(metadata.get("version", "")) if isinstance(metadata, dict) else ""


def find_package(name: str, folder: Path) -> Package:
    """Return the newest package with this name in a folder, archived or installed by npm."""
    archive = name.removeprefix("@").replace("/", "-")
    packages = [
        path
        for path in folder.glob(f"{archive}-*.tgz")
        # A digit after the name: fluent-emoji-1.0.tgz, but not fluent-emoji-flat-1.0.tgz.
        if path.name.removeprefix(f"{archive}-")[:1].isdigit()
    ]
    for path in (folder / name, folder / "node_modules" / name):
        if (path / "package.json").is_file():
            packages.append(path)
    if not packages:
        raise UsageError(
            f"{folder} has no package {name}: run npm pack {name} on a machine with network access,"
            " and copy the file to this folder."
        )
    return max((Package(name, path) for path in packages), key=lambda one: _order(one.version))


def _order(version: str) -> tuple[int, ...]:
    # Numeric comparison: 10.0 is newer than 9.0; pre-releases sort first.
    return tuple(int(part) if part.isdigit() else -1 for part in version.split("."))


def fetch_packages(names: list[str], folder: Path, progress: Progress) -> None:
    """Download the packages that are missing in a folder, from the registry that npm uses."""
    missing = []
    for name in names:
        try:
            # A package without a version was downloaded incompletely.
            is_fetched = bool(find_package(name, folder).version)
        except UsageError:
            is_fetched = False
        if not is_fetched:
            missing.append(name)
    if not missing:
        return
    program = shutil.which("npm")
    if program is None:
        raise UsageError(
            "Icons are downloaded with npm, which is not installed: install it, or pass --from with"
            " a folder of packages made by npm pack on another machine."
        )
    folder.mkdir(parents=True, exist_ok=True)
    step = progress.begin("packages from npm", len(missing))
    for name in missing:
        _fetch(program, name, folder)
        step(1, name)


def _fetch(program: str, name: str, folder: Path) -> None:
    # An absolute path, because npm runs inside the folder.
    words = [program, "pack", name, "--loglevel=error", "--pack-destination", str(folder.resolve())]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, cwd=folder)
    except subprocess.TimeoutExpired:
        why = f"no reply within {PATIENCE // 60} minutes"
    else:
        if done.returncode == 0:
            return
        why = _reason(done.stderr or done.stdout) or f"npm ended with {done.returncode}"
    raise UsageError(
        f"Cannot download {name} ({why}): without network access, pass --from with a folder of"
        " packages made by npm pack on another machine."
    )


def _reason(output: str) -> str:
    """Return the line of npm's output that states the error; if there is none, the first line."""
    lines = [line.removeprefix("npm error").strip().rstrip(".") for line in output.splitlines()]
    lines = [line for line in lines if line]
    return next((line for line in lines if "reason:" in line), lines[0] if lines else "")
