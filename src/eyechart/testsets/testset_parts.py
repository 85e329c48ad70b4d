"""The folder of part files beside a test set, from which an interrupted run resumes."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from eyechart.core.errors import UsageError
from eyechart.core.storage.parts import Parts
from eyechart.core.storage.run_folder import check_same, write_settings
from eyechart.core.storage.shards import remove_shard_records
from eyechart.images.imageset import ImageSet
from eyechart.testsets.plan import Plan
from eyechart.testsets.reach_parts import remove_reach
from eyechart.visual_change.registry import find_ruler

PLAN = "plan.json"
"""File that states which plan the part files of a test set belong to."""


def parts_folder(out: Path) -> Path:
    """Return the folder next to a test set for its part files."""
    # not `with_name`, which raises for "."
    return out.parent / f"{out.name}.parts"


def open_parts(out: Path, images: ImageSet, plan: Plan) -> Path:
    """Return the folder next to `out` for part files; raise an error if it has a different plan."""
    folder = parts_folder(out)
    record = folder / PLAN
    settings = {
        **plan.settings(),
        "stimulus": images.stimulus.name,
        "images": images.fingerprint,
        "ruler_version": find_ruler(plan.ruler).version,
    }
    try:
        folder.mkdir(exist_ok=True)
        # Never write into a folder that contains files of the user; listed first, because another
        # shard may write its record and then its parts meanwhile.
        contents = list(folder.iterdir())
        if contents and not record.exists():
            raise UsageError(f"{folder} contains other files: move this folder elsewhere.")
        check_same(record, settings, "an unfinished test set")
        write_settings(record, settings)
    except OSError as error:
        raise UsageError(f"Cannot write {folder}: {error.strerror or error}.") from None
    return folder


def remove_parts(folder: Path, names: Sequence[str] = ()) -> None:
    """Remove the part files with these names and the plan's file; all other files are kept."""
    parts = Parts(folder, names)
    for name in names:
        parts.drop(name)
    remove_reach(folder)
    remove_shard_records(folder)
    (folder / PLAN).unlink(missing_ok=True)
    with suppress(OSError):  # the folder contains other files
        folder.rmdir()
