"""The folder of a study: its settings, its secret, its database's location, and its images."""

import hashlib
import os
import re
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import numpy as np
from PIL import Image
from sqlalchemy import URL, make_url, select
from sqlalchemy.exc import ArgumentError

from eyechart.core.errors import UsageError
from eyechart.core.storage.files import atomic_file
from eyechart.images.image_files import UNREADABLE
from eyechart_experiment.storage.database import Database, open_database
from eyechart_experiment.storage.database_tables import InstallationRow, StudyRow
from eyechart_experiment.study_config import StudyConfig, read_config

CONFIG, SECRET, DATABASE, STIMULI, PLAN = (
    "study.yaml", "secret", "database.txt", "stimuli", "plan.txt",
)  # fmt: skip
ROBOTS = "robots.json"
"""Name of the list of robots in the folder of a simulated study."""

RESPONSES = "responses.sqlite"
"""File name of the database in a study's folder."""

DIGEST = re.compile(r"[0-9a-f]{64}")
REPAIR = "re-run the eyechart experiment new command that created the study to fix it"


@dataclass(frozen=True)
class StudyFolder:
    """An existing study. `secret`: the 32-byte key for pseudonyms and tokens."""

    path: Path
    config: StudyConfig
    # Hidden, so that a printed or logged folder reveals neither the key nor a password in the URL.
    secret: bytes = field(repr=False)
    database_url: str = field(repr=False)

    @property
    def stimuli(self) -> Path:
        """Folder of the images."""
        return self.path / STIMULI

    @property
    def sqlite_file(self) -> Path | None:
        """The file of an SQLite database; None for a database of PostgreSQL."""
        url = make_url(self.database_url)
        return Path(str(url.database)) if url.get_backend_name() == "sqlite" else None


def open_study(path: str | os.PathLike[str]) -> StudyFolder:
    """Return the study in a folder; raise `UsageError` if there is none."""
    where = Path(path)
    if not where.exists():
        raise UsageError(f"No such folder: {where}.")
    config = read_config(where / CONFIG)
    return StudyFolder(where, config, read_secret(where / SECRET), database_url(where))


def database_url(study: Path) -> str:
    """Return the SQLAlchemy URL of a study's database, by default a file in its folder."""
    named = study / DATABASE
    try:
        if named.exists():
            return named.read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise UsageError(f"Cannot read {named}: {error}.") from None
    # URL.create escapes characters in the folder's name that are special in a URL.
    url = URL.create("sqlite", database=str(study.resolve() / RESPONSES))
    return url.render_as_string(hide_password=False)


def full_url(url: str) -> str:
    """Return a database URL that does not depend on the working directory."""
    try:
        parsed = make_url(url)
        file = parsed.database or ""
        # Anything that is not a file is rejected when it is opened.
        if parsed.get_backend_name() != "sqlite" or file.startswith((":", "file:")) or not file:
            return url
        full = parsed.set(database=str(Path(file).resolve()))
    except (ArgumentError, ValueError):
        raise UsageError(
            f"'{url}' is not a database URL: use sqlite:///FILE or"
            " postgresql+psycopg://USER@HOST/NAME."
        ) from None
    return full.render_as_string(hide_password=False)


def fingerprint(secret: bytes) -> str:
    """Return a secret's fingerprint, which may be stored and shown."""
    return hashlib.sha256(secret).hexdigest()


def read_secret(path: Path) -> bytes:
    """Return the 32 bytes stored in a secret file; `path` may also be the study's folder."""
    file = path / SECRET if path.is_dir() else path
    try:
        text = file.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        raise UsageError(
            f"The secret {file} does not exist: pass a study's folder or its secret file."
        ) from None
    except OSError as error:
        raise UsageError(f"Cannot read {file}: {error.strerror}.") from None
    except ValueError:
        text = ""
    if not DIGEST.fullmatch(text):
        raise UsageError(f"{file} is not a secret file: it must have 64 hexadecimal digits.")
    return bytes.fromhex(text)


def new_secret() -> bytes:
    """Return 32 random bytes."""
    return secrets.token_bytes(32)


def write_private(path: Path, text: str) -> None:
    """Write a file atomically, readable only by its owner."""
    with atomic_file(path) as temporary:
        # Created with its final permissions: a later chmod would leave it readable for a moment.
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)


def append_private(path: Path, line: str) -> None:
    """Append a line to a file that only its owner can read; it is on disk before this returns."""
    size = path.stat().st_size if path.exists() else 0
    # Append only, so that no earlier line can be lost.
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(line + "\n")
            file.flush()
            # A power failure must not undo what is recorded here.
            os.fsync(file.fileno())
    except OSError as error:
        # Half a line would make the file unreadable.
        os.truncate(path, size)
        raise UsageError(f"Cannot write {path}: {error.strerror}.") from None


def image_path(study: Path, sha256: str) -> Path:
    """Return the path of a study's image with these pixels."""
    # The digest becomes part of a path, which must stay inside the folder.
    if not DIGEST.fullmatch(sha256):
        raise UsageError(f"The digest of an image must be 64 hexadecimal digits, got '{sha256}'.")
    return study / STIMULI / f"{sha256}.png"


def read_pixels(study: Path, sha256: str, side: int) -> bytes:
    """Return the pixels of a study's image, side × side × 3 bytes.

    Raises:
        UsageError: If the file is missing or its pixels do not match `sha256`.
    """
    path = image_path(study, sha256)
    try:
        with Image.open(path) as image:
            # `Image.open` reads only the header; damaged pixels are found here.
            image.load()
            levels = np.asarray(image)
    except FileNotFoundError:
        raise UsageError(f"{path} is missing: {REPAIR}.") from None
    except UNREADABLE:
        raise UsageError(f"{path} is damaged: {REPAIR}.") from None
    pixels = levels.tobytes()
    is_valid = levels.shape == (side, side, 3) and levels.dtype == np.uint8
    if not is_valid or hashlib.sha256(pixels).hexdigest() != sha256:
        raise UsageError(f"{path} is damaged (its pixels differ from the original): {REPAIR}.")
    return pixels


@dataclass(frozen=True, eq=False)
class OpenStudy:
    """A study's folder and its row in the database, opened together; a context manager.

    `row` is the database row as it was when the study was opened.
    """

    folder: StudyFolder
    database: Database
    row: StudyRow

    @property
    def id(self) -> int:
        """The study's key in the database."""
        return self.row.id

    @property
    def config(self) -> StudyConfig:
        """The settings of the study."""
        return self.folder.config

    @property
    def secret(self) -> bytes:
        """The secret key for pseudonyms and tokens."""
        return self.folder.secret

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.database.close()


def connect_study(folder: StudyFolder) -> OpenStudy:
    """Return a study with its database.

    Raises:
        UsageError: If the database lacks the study, or has a different secret or settings.
    """
    database = open_database(folder.database_url)
    try:
        with database.reading() as db:
            row = db.scalar(select(StudyRow).where(StudyRow.name == folder.config.name))
            known = db.scalar(select(InstallationRow.secret))
        if known is not None and known != fingerprint(folder.secret):
            raise UsageError(
                f"{folder.path / SECRET} does not match the database: restore the original secret"
                " file."
            )
        if row is None:
            raise UsageError(
                f"The database has no study '{folder.config.name}': create it with experiment new."
            )
        # Responses under different settings could not be told apart later.
        if row.config_hash != folder.config.digest:
            raise UsageError(
                f"{folder.path / CONFIG} was changed after the study was created: restore it, or"
                " create another study."
            )
    except UsageError:
        database.close()
        raise
    return OpenStudy(folder, database, row)
