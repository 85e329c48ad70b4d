"""Which corruptions of a test a model met in training: its scores there foresee what they test."""

from collections.abc import Iterable, Sequence

from eyechart.suites.suite import Entry, all_entries

MARK = "†"
"""Beside every score under a corruption that a model was trained on, and every mean over one."""

MEANING = "trained on this corruption: not a test of unforeseen corruption"


def met_in_training(entries: Iterable[Entry], trained_on: Sequence[str]) -> tuple[str, ...]:
    """Return the names of those entries that count as trained on, in their order.

    An entry does if a corruption of the same name was trained on, in whichever suite (`frost` and
    `vcr/frost`), or one that the same function makes (`impulse_noise` and `noc/salt_pepper`), as
    strong as it may have been. What function a name of nobody's published suite has is known only
    where the test has that very corruption.
    """
    tested = list(entries)
    known = {**all_entries(), **{entry.name: entry for entry in tested}}
    names = {_bare(name) for name in trained_on}
    functions = {known[name].function for name in trained_on if name in known}
    return tuple(
        entry.name for entry in tested if _bare(entry.name) in names or entry.function in functions
    )


def _bare(name: str) -> str:
    """Return a corruption's name without its suite's."""
    return name.rpartition("/")[2]
