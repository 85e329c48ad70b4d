"""`--fail-under`: the scores that it requires, and the models that do not reach them.

The caller decides what follows: an exit status, or an exception. Settings read this module, so
nothing slow is imported.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from eyechart.core.arguments import as_text, as_texts, as_within
from eyechart.core.errors import UsageError
from eyechart.core.registry import unknown_name

if TYPE_CHECKING:
    from eyechart.results.schema import Results

POINT = "point"
"""Written after a number, with a colon: the score itself must reach it, not its interval."""


@dataclass(frozen=True)
class ScoreLimit:
    """A requirement of `fail_under`: the score, its limit, and whether its interval is ignored."""

    name: str
    value: float
    is_point: bool = False


def read_limit(text: str) -> ScoreLimit:
    """Return the requirement written as NAME=NUMBER or NAME=NUMBER:point.

    Example:
        >>> read_limit("hmri_a=0.8")
        ScoreLimit(name='hmri_a', value=0.8, is_point=False)
    """
    name, equals, number = text.partition("=")
    number, _, kind = number.partition(":")
    if kind not in ("", POINT):
        raise UsageError(f"--fail-under must be NAME=NUMBER or NAME=NUMBER:{POINT}, got '{text}'.")
    try:
        limit = float(number)
    except ValueError:
        limit = float("nan")
    if not equals or limit != limit:
        raise UsageError(f"--fail-under must be NAME=NUMBER, such as hmri_a=0.8, got '{text}'.")
    bare = name.rstrip("<> ")
    if bare != name.rstrip():
        raise UsageError(
            f"--fail-under must be NAME=NUMBER, got '{text}': give {bare}={limit:g}, which is a"
            " minimum (for errors, a maximum)."
        )
    return ScoreLimit(name, limit, kind == POINT)


def read_limits(fail_under: Sequence[str] | Mapping[str, float | str]) -> tuple[ScoreLimit, ...]:
    """Return the requirements of `fail_under`, each written as text or as a name with a number."""
    from eyechart.scores.registry import OVERALL

    known = [score.name for score in OVERALL if score.can_gate]
    if isinstance(fail_under, Mapping):
        texts = tuple(
            f"{as_text(name, 'Each of fail_under')}={limit}" for name, limit in fail_under.items()
        )
    else:
        texts = as_texts(fail_under, "fail_under")
    limits = tuple(read_limit(text) for text in texts)
    for limit in limits:
        if limit.name not in known:
            raise unknown_name("score", limit.name, known)
        # every score that can gate is a share, so that any other limit is a mistake
        as_within(limit.value, f"--fail-under {limit.name}", 0, 1)
    return limits


def check_limits(results: "Results", limits: Sequence[ScoreLimit]) -> list[tuple[bool, str]]:
    """Return, for each required score and model, whether it is reached, and a sentence about it.

    The confidence bound must reach the limit: the lower end of the 95 % interval, or the upper end
    for errors, and the data must suffice for a claim. With ":point", the score itself must reach
    the limit.

    Raises:
        UsageError: If a model lacks a required score.
    """
    from eyechart.scores.registry import SCORES

    outcomes = []
    for limit in limits:
        is_minimum = SCORES[limit.name].higher_is_better
        for model in results.models:
            # The primary label space comes first.
            spaces = [name for name, space in model.spaces.items() if limit.name in space.scores]
            if not spaces:
                raise UsageError(
                    f"--fail-under {limit.name}: {model.name} has no {limit.name}; see the notes"
                    " above. Results were written."
                )
            space = model.spaces[spaces[0]]
            estimate = space.scores[limit.name]
            low, high = estimate.interval95
            bound = low if is_minimum else high
            value = estimate.value if limit.is_point else bound
            # An undetermined bound (NaN) reaches nothing.
            is_reached = value >= limit.value if is_minimum else value <= limit.value
            sentence = f"{model.name}: {limit.name} {estimate.value:.3f} ({spaces[0]})"
            if not limit.is_point:
                sentence += f" with {'lower' if is_minimum else 'upper'} bound {bound:.3f}"
            if is_minimum:
                sentence += " reaches" if is_reached else " does not reach"
            else:
                sentence += " is within" if is_reached else " is over"
            sentence += f" {limit.value:g}"
            if is_reached and space.verdict:
                # A bound claims something about other images; the score itself does not.
                is_reached, sentence = limit.is_point, f"{sentence}, but with {space.verdict}"
            outcomes.append((is_reached, f"{sentence}."))
    return outcomes
