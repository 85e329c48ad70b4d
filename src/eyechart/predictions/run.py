"""A run's folder: what was asked for, so that the same run goes on and another is refused."""

from pathlib import Path

from eyechart.core.errors import UsageError
from eyechart.core.run_folder import RECORD, Settings, first_change, open_run_folder, read_settings

PREDICTIONS = "predictions"
FILES = (
    *("results.json", "results.csv", "scores.parquet"),
    *("curves.png", "curves-entry16.png", "testset.parquet", "examples"),
)
"""What a run writes besides; without its record they belong to something else."""


def open_run(out: Path, settings: Settings) -> Path:
    """Return the folder for predictions in `out`, which is new, empty, or of the same run."""
    record = out / RECORD
    if record.is_file():
        _check_models(out, read_settings(record), settings)
    open_run_folder(out, settings, work="run", folders=(PREDICTIONS,), files=FILES)
    return out / PREDICTIONS


def _check_models(out: Path, before: Settings, now: Settings) -> None:
    """Raise a UsageError if, first of all, a model of the same name has changed since."""
    old, new = before.get("models"), now["models"]
    if not isinstance(old, dict) or not isinstance(new, dict) or list(old) != list(new):
        return
    changed = next((name for name in new if old[name] != new[name]), None)
    if changed is not None and str(first_change(before, now)).startswith("models:"):
        raise UsageError(
            f"{out} holds a run of another {changed}: its weights, its card or its precision"
            " changed since; choose another --out, or delete it."
        )
