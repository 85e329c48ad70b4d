"""What was asked for, kept beside results: the same goes on, something else is refused."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from eyechart.core.errors import UsageError
from eyechart.core.files import atomic_file


def first_difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> str | None:
    """Return the first setting in `new` that is not the same in `old`, if there is one."""
    return next((name for name in new if old.get(name) != new[name]), None)


def difference(name: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Return a setting's old and new value in a few words; of long lists what differs."""
    before, now = old.get(name), new[name]
    if isinstance(before, list) and isinstance(now, list) and _short(before) == _short(now):
        gone = [each for each in before if each not in now]
        added = [each for each in now if each not in before]
        told = [
            f"{words} {_short(which)}"
            for words, which in (("no longer", gone), ("now also", added))
            if which
        ]
        return f"{name}: {', '.join(told) or 'in another order'}"
    return f"{name}: {_short(before)}, now {_short(now)}"


def _short(value: object) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, list | dict) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def read_settings(record: Path) -> Mapping[str, Any]:
    """Return the settings in a JSON file."""
    try:
        settings = json.loads(record.read_text(encoding="utf-8"))
        if not isinstance(settings, dict):
            raise ValueError
    except (OSError, ValueError):
        raise UsageError(
            f"{record} cannot be read: delete it to start anew, or choose another --out."
        ) from None
    return settings


def refuse_other(record: Path, settings: Mapping[str, Any], what: str) -> None:
    """Raise a UsageError if a folder holds `what` of other settings, by the record in it."""
    if not record.exists():
        return
    old = read_settings(record)
    name = first_difference(old, settings)
    if name is not None:
        raise UsageError(
            f"{record.parent} holds {what} ({difference(name, old, settings)}): choose another"
            " --out, or delete it."
        )


def write_settings(record: Path, settings: Mapping[str, Any]) -> None:
    """Write the settings, whole or not at all."""
    with atomic_file(record) as temporary:
        temporary.write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")
