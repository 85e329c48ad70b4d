"""A run's folder: what was asked for, so that the same run goes on and another is refused."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from eyechart.core.errors import UsageError
from eyechart.core.files import remove_leftovers
from eyechart.core.settings import difference, first_difference, read_settings, write_settings

RECORD = "run.json"
PREDICTIONS = "predictions"
OURS = (
    *("results.json", "results.csv", "scores.parquet"),
    *("curves.png", "curves-entry16.png", "testset.parquet", "examples"),
)
"""What a run writes besides; without its record they are somebody else's."""


def open_run(out: Path, settings: Mapping[str, Any]) -> Path:
    """Return the folder for predictions in `out`, which is new, empty, or of the same run."""
    record, folder = out / RECORD, out / PREDICTIONS
    if out.exists() and not out.is_dir():
        raise UsageError(f"Cannot write into {out}: it is a file, not a folder.")
    if record.exists():
        _check_same(out, read_settings(record), settings)
    else:
        foreign = [name for name in OURS if (out / name).exists()]
        if foreign or (folder.exists() and any(folder.iterdir())):
            where = out / foreign[0] if foreign else folder
            raise UsageError(f"{where} is there already and of no run: choose another --out.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        remove_leftovers([out, folder])
        write_settings(record, settings)
    except OSError as error:
        raise UsageError(f"Cannot write into {out}: {error.strerror or error}.") from None
    return folder


def _check_same(out: Path, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    name = first_difference(old, new)
    if name is None:
        return
    if name == "models" and list(old.get(name) or ()) == list(new[name]):
        before, after = old[name], new[name]
        changed = next(each for each in after if before[each] != after[each])
        raise UsageError(
            f"{out} holds a run of another {changed}: its weights, its card or its precision"
            " changed since; choose another --out, or delete it."
        )
    raise UsageError(
        f"{out} holds another run ({difference(name, old, new)}): choose another --out, or delete"
        " it."
    )
