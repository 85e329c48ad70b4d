"""Notes that several commands print."""

from collections.abc import Iterable


def note_left_out(names: Iterable[str]) -> None:
    """Say of each of these corruptions that it is left out, because it lacks what it needs."""
    for name in dict.fromkeys(names):
        print(f"Note: {name} is left out, since it needs a network of yours (see docs, structure).")
