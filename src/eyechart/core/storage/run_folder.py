"""The output folder of a long task: created, checked and resumed in the same way everywhere.

The folder's record (run.json) contains the settings of the task. The files that the task writes are
declared elsewhere.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from eyechart.core.arguments import regular_file
from eyechart.core.errors import UsageError
from eyechart.core.storage.files import atomic_file, remove_leftovers

RECORD = "run.json"

Settings = Mapping[str, object]
"""All settings that influence the output, as plain JSON values."""


def open_run_folder(
    out: Path,
    settings: Settings,
    *,
    work: str,
    folders: Sequence[str] = (),
    files: Sequence[str] = (),
    growing: Settings | None = None,
) -> None:
    """Create an output folder, or check that it belongs to the same task, which then resumes.

    Args:
        out: the folder, which must be new, contain none of the files, or have the same settings.
        settings: the requested settings.
        work: a noun for the folder's contents, as in "holds another study".
        folders: the names of subfolders, which are created.
        files: the names of the other files that the task writes.
        growing: settings that are recorded but may differ from the values recorded before.

    Raises:
        UsageError: a setting differs (the first one is named), or a file is from a different task.
    """
    record = out / RECORD
    if out.exists() and not out.is_dir():
        raise UsageError(f"Cannot write into {out}: it is a file, not a folder.")
    # looked for before the record, which a process that starts at the same time writes first
    foreign = next((out / name for name in (*files, *folders) if (out / name).exists()), None)
    if record.exists():
        check_same(record, settings, f"another {work}")
    elif foreign is not None:
        raise UsageError(
            f"{foreign} already exists and is not from this {work}: choose another --out."
        )
    try:
        # the record first, so that a process that starts at the same time recognizes this work
        out.mkdir(parents=True, exist_ok=True)
        # also when work resumes, since growing settings may have changed
        write_settings(record, {**settings, **(growing or {})})
        for name in folders:
            (out / name).mkdir(exist_ok=True)
            remove_leftovers([out / name, *(p for p in (out / name).iterdir() if p.is_dir())])
        remove_leftovers([out])
    except OSError as error:
        raise UsageError(f"Cannot write into {out}: {error.strerror or error}.") from None


def check_same(record: Path, settings: Settings, other: str) -> None:
    """Raise a UsageError if a record has different settings; `other` describes it in the error."""
    change = first_change(read_settings(record), settings) if record.exists() else None
    if change is not None:
        raise UsageError(
            f"{record.parent} holds {other} ({change}): choose another --out, or delete it."
        )


def read_settings(record: Path) -> Settings:
    """Return the settings in a JSON file."""
    try:
        settings = json.loads(regular_file(record).read_text(encoding="utf-8"))
        if not isinstance(settings, dict):
            raise ValueError
    except (OSError, ValueError):
        raise UsageError(
            f"{record} cannot be read: delete it to start over, or choose another --out."
        ) from None
    return settings


def write_settings(record: Path, settings: Settings) -> None:
    """Write the settings atomically."""
    with atomic_file(record) as temporary:
        temporary.write_text(settings_text(settings), encoding="utf-8")


def settings_text(settings: Settings) -> str:
    """Return the settings as the text of a JSON file."""
    return json.dumps(settings, indent=1) + "\n"


def first_change(old: Settings, new: Settings) -> str | None:
    """Return the first setting of `new` that differs from `old`, with both values in short form.

    Return None if all settings are the same. For long lists, name the added and the removed
    entries.
    """
    # settings that are only in the old record, such as growing ones, are not compared
    name = next((name for name in new if old.get(name) != new[name]), None)
    if name is None:
        return None
    before, now = old.get(name), new[name]
    # two long lists can look the same once they are shortened
    if isinstance(before, list) and isinstance(now, list) and _short(before) == _short(now):
        gone = [value for value in before if value not in now]
        added = [value for value in now if value not in before]
        changes = [
            f"{words} {_short(values)}"
            for words, values in (("no longer", gone), ("now also", added))
            if values
        ]
        return f"{name}: {', '.join(changes) or 'in a different order'}"
    return f"{name}: {_short(before)}, now {_short(now)}"


def _short(value: object) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, list | dict) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
