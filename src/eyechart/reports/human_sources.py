"""Whose responses stand for each corruption, in words, for the terminal and for the report."""

from collections.abc import Iterable, Iterator
from typing import Protocol

from eyechart.scores.evaluation import Evaluation
from eyechart.scores.registry import PROPERTIES

NONE = "no human reference"


class Compared(Protocol):
    """Human responses that a model was compared with: `about` says whose."""

    @property
    def about(self) -> str:
        """Whose responses, of how many observers, direct or transferred, in a line."""


def source_in_words(found: Iterable[tuple[str, Compared | None]]) -> str:
    """Return whose responses stand for one corruption, given them by the property's letter."""
    by_words: dict[str, list[str]] = {}
    for letter, own in found:
        by_words.setdefault(NONE if own is None else own.about, []).append(PROPERTIES[letter])
    if len(by_words) == 1:
        return next(iter(by_words))
    return "; ".join(f"{' and '.join(names)}: {words}" for words, names in by_words.items())


def source_lines(evaluation: Evaluation) -> Iterator[str]:
    """Yield a line for each human reference that was used, with the corruptions it stands for."""
    named = evaluation.config.get("humans")
    order = [named] if isinstance(named, str) else list(named or ())
    by_words: dict[str, list[str]] = {}
    spaces = [space for model in evaluation.models[:1] for space in model.spaces]
    for space in spaces:
        for score in space.corruptions:
            found = [(letter, own.people) for letter, own in score.properties.items()]
            if any(own is not None for _, own in found):
                by_words.setdefault(source_in_words(found), []).append(score.corruption)
    known = {name for names in by_words.values() for name in names}
    if not known:
        return
    more = ""
    if len(order) > 1:
        more = f" (precedence: {', '.join(order)}; a corruption's own responses before transferred)"
    yield f"Human reference of each corruption{more}:"
    for words, names in by_words.items():
        yield f"  {', '.join(names)}: {words}"
    every = dict.fromkeys(score.corruption for space in spaces for score in space.corruptions)
    none = [name for name in every if name not in known]
    if none:
        yield f"  {', '.join(none)}: {NONE}"
