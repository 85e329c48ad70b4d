"""The scores that `--fail-under` requires, as they are written; `fail_under` compares results."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from eyechart.core.arguments import as_text, as_texts, as_within
from eyechart.core.errors import UsageError
from eyechart.core.registry import unknown_name

POINT = "point"
"""Written after a number, with a colon: the score itself must reach it, not its interval."""


@dataclass(frozen=True)
class Floor:
    """A requirement of `fail_under`: the score, its limit, and whether its interval is ignored."""

    name: str
    value: float
    is_point: bool = False


def read_floor(text: str) -> Floor:
    """Return the requirement written as NAME=NUMBER or NAME=NUMBER:point.

    Example:
        >>> read_floor("hmri_a=0.8")
        Floor(name='hmri_a', value=0.8, is_point=False)
    """
    name, equals, number = text.partition("=")
    number, _, kind = number.partition(":")
    if kind not in ("", POINT):
        raise UsageError(f"--fail-under must be NAME=NUMBER or NAME=NUMBER:{POINT}, got '{text}'.")
    try:
        floor = float(number)
    except ValueError:
        floor = float("nan")
    if not equals or floor != floor:
        raise UsageError(f"--fail-under must be NAME=NUMBER, such as hmri_a=0.8, got '{text}'.")
    bare = name.rstrip("<> ")
    if bare != name.rstrip():
        raise UsageError(
            f"--fail-under must be NAME=NUMBER, got '{text}': give {bare}={floor:g}, which is a"
            " minimum (for errors, a maximum)."
        )
    return Floor(name, floor, kind == POINT)


def read_floors(fail_under: Sequence[str] | Mapping[str, float | str]) -> tuple[Floor, ...]:
    """Return the requirements of `fail_under`, each written as text or as a name with a number."""
    from eyechart.scores.registry import OVERALL

    known = [score.name for score in OVERALL if score.can_gate]
    if isinstance(fail_under, Mapping):
        texts = tuple(
            f"{as_text(name, 'Each of fail_under')}={floor}" for name, floor in fail_under.items()
        )
    else:
        texts = as_texts(fail_under, "fail_under")
    floors = tuple(read_floor(text) for text in texts)
    for floor in floors:
        if floor.name not in known:
            raise unknown_name("score", floor.name, known)
        # every score that can gate is a share, so that any other limit is a mistake
        as_within(floor.value, f"--fail-under {floor.name}", 0, 1)
    return floors
