"""Whose responses stand for each corruption, in words, for the terminal and for the report."""

from collections.abc import Iterable, Iterator

from eyechart.results.schema import HumanComparison, Results
from eyechart.scores.registry import PROPERTIES

NONE = "no human reference"


def source_in_words(comparisons: Iterable[tuple[str, HumanComparison | None]]) -> str:
    """Return whose responses stand for one corruption, given them by the property's letter."""
    by_words: dict[str, list[str]] = {}
    for letter, comparison in comparisons:
        words = NONE if comparison is None else comparison.about
        by_words.setdefault(words, []).append(PROPERTIES[letter])
    if len(by_words) == 1:
        return next(iter(by_words))
    return "; ".join(f"{' and '.join(names)}: {words}" for words, names in by_words.items())


def source_lines(results: Results) -> Iterator[str]:
    """Yield a line for each human reference that was used, with the corruptions it stands for."""
    order = results.config.human_names
    by_words: dict[str, list[str]] = {}
    corruptions = [
        item for space in results.models[0].spaces.values() for item in space.corruptions.items()
    ]
    for corruption, score in corruptions:
        people = [(letter, scored.people) for letter, scored in score.properties.items()]
        if any(comparison is not None for _, comparison in people):
            by_words.setdefault(source_in_words(people), []).append(corruption)
    known = {name for names in by_words.values() for name in names}
    if not known:
        return
    more = ""
    if len(order) > 1:
        more = f" (precedence: {', '.join(order)}; a corruption's own responses before transferred)"
    yield f"Human reference of each corruption{more}:"
    for words, names in by_words.items():
        yield f"  {', '.join(names)}: {words}"
    none = [name for name in dict(corruptions) if name not in known]
    if none:
        yield f"  {', '.join(none)}: {NONE}"
