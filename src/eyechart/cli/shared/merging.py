"""What `eyechart merge` does with the shards of commands other than `evaluate`."""

from pathlib import Path

from eyechart.core.errors import UsageError
from eyechart.core.phrases import count_of

STUDIES = ("overlap study", "style", "subclass", "superclass")
"""Kinds of studies, as in the record of their folder."""


def merge_other(out: Path) -> str | None:
    """Merge the shards of a test set or of corrupted images, and return a sentence about it.

    Returns None if `out` is neither, so that it can only be an evaluation.

    Raises:
        UsageError: shards are missing or do not belong together, or `out` is a study, which its own
            command finishes.
    """
    from eyechart.core.storage.run_folder import RECORD, read_settings
    from eyechart.corruptions.suites.corrupted_shards import has_corrupted_shards, merge_corrupted
    from eyechart.testsets.testset_shards import has_testset_shards, merge_testset

    if has_testset_shards(out):
        testset = merge_testset(out)
        names = ", ".join(testset.corruptions)
        return f"{out}: {count_of(len(testset), 'sample')} of {names} and clean images."
    if has_corrupted_shards(out):
        return f"{out}: the shards are merged ({merge_corrupted(out):,} images or arrays)."
    if (out / RECORD).is_file() and read_settings(out / RECORD).get("kind") in STUDIES:
        raise UsageError(
            f"{out} is a study: run its command again without --shard, which writes the results."
        )
    return None
