"""The scores that `--fail-under` requires, as they are written; `fail_under` compares results."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from eyechart.core.arguments import as_text, as_texts, as_within
from eyechart.core.errors import UsageError
from eyechart.core.registry import unknown_name

if TYPE_CHECKING:
    # slow to import, and the command's help reads the declarations above
    from eyechart.results.schema import Results

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


@dataclass(frozen=True)
class FloorOutcome:
    """Whether a model reaches a required score, and a sentence that says so."""

    is_reached: bool
    sentence: str


def floor_outcomes(results: "Results", floors: Sequence[Floor]) -> list[FloorOutcome]:
    """Return the outcome for each required score and model.

    The confidence bound must reach the limit: the lower end of the 95 % interval, or the upper end
    for errors, and the data must suffice for a claim. With ":point", the score itself must reach
    the limit.

    Raises:
        UsageError: If a model lacks a required score.
    """
    return [outcome for floor in floors for outcome in _outcomes(results, floor)]


def _outcomes(results: "Results", floor: Floor) -> Iterator[FloorOutcome]:
    from eyechart.scores.registry import SCORES  # slow to import, like the results

    score = SCORES[floor.name]
    for model in results.models:
        known = {
            label: space.scores[floor.name]
            for label, space in model.spaces.items()
            if floor.name in space.scores
        }
        if not known:
            raise UsageError(
                f"--fail-under {floor.name}: {model.name} has no {floor.name}; see the notes"
                " above. Results were written."
            )
        # The primary label space comes first.
        space, estimate = next(iter(known.items()))
        low, high = estimate.interval95
        bound = low if score.higher_is_better else high
        value = estimate.value if floor.is_point else bound
        # An undetermined bound (NaN) reaches nothing.
        is_reached = value >= floor.value if score.higher_is_better else value <= floor.value
        about = f"{model.name}: {floor.name} {estimate.value:.3f} ({space})"
        if not floor.is_point:
            about += f" with {'lower' if score.higher_is_better else 'upper'} bound {bound:.3f}"
        if score.higher_is_better:
            side = "reaches" if is_reached else "does not reach"
        else:
            side = "is within" if is_reached else "is over"
        sentence = f"{about} {side} {floor.value:g}"
        few = model.spaces[space].verdict
        if is_reached and few:
            # A bound claims something about other images; the score itself does not.
            is_reached, sentence = floor.is_point, f"{sentence}, but with {few}"
        yield FloorOutcome(is_reached, f"{sentence}.")
