"""A folder of corrupted pictures: what goes where, with which settings, and what is there already.

Every picture carries a note of what made it, and the folder a record of its settings, so that a run
that was stopped goes on where it was and never mixes settings. `work.py` does the corrupting.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from eyechart.core.errors import UsageError
from eyechart.core.provenance import versions
from eyechart.core.randomness import hash64
from eyechart.core.version import __version__
from eyechart.images.files import JPEG_QUALITY, atomic_file, find_pictures
from eyechart.suites.strength import check_severity
from eyechart.suites.suite import find_entry
from eyechart.suites.textures import frost_assets

RECORD = "eyechart.json"
SCHEMA = 1
SUFFIX_OF = {"png": ".png", "jpeg": ".jpg"}


@dataclass(frozen=True)
class Settings:
    """Everything besides the picture itself that decides what comes out."""

    corruption: str
    severity: float | None = None
    parameters: dict[str, float] = field(default_factory=dict)
    variant: str | None = None
    seed: int = 0
    format: str = "png"
    jpeg_quality: int | None = None
    device: str = "cpu"
    frost_textures: str | None = None
    eyechart: str = __version__

    def fingerprint(self) -> str:
        """Return 16 hexadecimal digits that stand for these settings."""
        return f"{hash64(json.dumps(asdict(self), sort_keys=True)):016x}"


@dataclass(frozen=True)
class Job:
    """One picture to corrupt, and the file that it becomes."""

    source: Path
    target: Path


def check_settings(settings: Settings) -> Settings:
    """Return the settings with the corruption's full name, if all of them can be used."""
    entry = find_entry(settings.corruption, settings.variant)
    if settings.severity is None and not settings.parameters:
        names = ", ".join(parameter.name for parameter in entry.corruption.parameters)
        raise UsageError(f"Say how strong: give --severity (0 to 5) or --set for any of {names}.")
    if settings.severity is not None:
        check_severity(np.array([settings.severity]))
    for name, value in settings.parameters.items():
        entry.corruption.parameter(name).check(np.array([value]))
    if settings.frost_textures is not None:
        frost_assets(settings.frost_textures)
    if settings.format not in SUFFIX_OF:
        raise UsageError(f"format must be png or jpeg, got {settings.format}.")
    quality = JPEG_QUALITY if settings.jpeg_quality is None else settings.jpeg_quality
    if not 1 <= quality <= 100:
        raise UsageError(f"jpeg-quality must be in [1, 100], got {quality}.")
    kept = quality if settings.format == "jpeg" else None
    return Settings(**{**asdict(settings), "corruption": entry.name, "jpeg_quality": kept})


def plan(pictures: Sequence[Path], out: Path, format: str = "png") -> list[Job]:
    """Return what has to be done; folders keep their structure below `out`."""
    if any(path.is_dir() and path.resolve() == out.resolve() for path in pictures):
        raise UsageError(f"{out} holds the pictures themselves: choose another folder for --out.")
    jobs: dict[Path, Job] = {}
    for found in find_pictures(pictures, leave_out=out):
        target = out / found.place.with_suffix(SUFFIX_OF[format])
        other = jobs.setdefault(target, Job(found.path, target))
        if other.source.resolve() != found.path.resolve():
            raise UsageError(
                f"{other.source} and {found.path} would both become {target}:"
                " give their common folder, rename one, or use two folders for --out."
            )
    sources = {job.source.resolve() for job in jobs.values()}
    for target in jobs:
        if target.resolve() in sources:
            raise UsageError(f"{target} would be overwritten: choose another folder for --out.")
    return list(jobs.values())


def claim(out: Path, settings: Settings, jobs: Sequence[Job], overwrite: bool = False) -> None:
    """Make the folder `out` ready for pictures of these settings, or say why it cannot be used."""
    record = out / RECORD
    if not overwrite:
        _refuse_others(out, record, settings, jobs)
    text = json.dumps(
        {"schema": SCHEMA, "settings": asdict(settings), "versions": versions()}, indent=2
    )
    try:
        out.mkdir(parents=True, exist_ok=True)
        with atomic_file(record) as temporary:
            temporary.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"Cannot write into {out}: {error.strerror}.") from None


def _refuse_others(out: Path, record: Path, settings: Settings, jobs: Sequence[Job]) -> None:
    if not record.exists():
        there = next((job.target for job in jobs if job.target.exists()), None)
        if there is not None:
            raise UsageError(
                f"{there} is there already and was not made by this command:"
                " choose another folder or give --overwrite."
            )
        return
    before, now = _read_record(record), asdict(settings)
    changed = [name for name in now if before.get(name) != now[name]]
    if changed:
        first = changed[0]
        raise UsageError(
            f"{out} holds pictures made with {first} {_show(before.get(first))}, not"
            f" {_show(now[first])}: choose another folder or give --overwrite."
        )


def _show(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}={number:g}" for name, number in value.items()) or "none"
    return "none" if value is None else str(value)


def _read_record(record: Path) -> dict[str, Any]:
    try:
        settings = json.loads(record.read_text(encoding="utf-8"))["settings"]
        if isinstance(settings, dict):
            return settings
    except OSError as error:
        raise UsageError(f"Cannot read {record}: {error.strerror}.") from None
    except (ValueError, KeyError, TypeError):
        pass
    raise UsageError(
        f"{record} is damaged, so what the folder holds is unknown:"
        " choose another folder or give --overwrite."
    )
