"""Phrases of messages: numbers with their nouns, enumerations, and the first of many names."""

from collections.abc import Iterable, Sequence

MAX_NAMES = 3
"""Maximum number of names that a sentence lists."""

VERBS = {
    "is": "are", "was": "were", "has": "have", "does": "do", "comes": "come", "ends": "end",
    "violates": "violate",
}  # fmt: skip
"""Verbs in the singular and in the plural."""


def plural(number: int, word: str) -> str:
    """Return a word in the plural if the number is not 1.

    Example:
        >>> plural(2, "category")
        'categories'
        >>> plural(1, "image"), plural(2, "key")
        ('image', 'keys')
    """
    if number == 1:
        return word
    if word.endswith("y") and word[-2] not in "aeiou":
        return f"{word[:-1]}ies"
    return f"{word}es" if word.endswith("s") else f"{word}s"


def count_of(number: int, word: str) -> str:
    """Return a number with its noun.

    Example:
        >>> count_of(1, "image"), count_of(0, "class"), count_of(1200, "damaged image")
        ('1 image', '0 classes', '1,200 damaged images')
    """
    return f"{number:,} {plural(number, word)}"


def verb(number: int, singular: str) -> str:
    """Return a verb in the form that a number of things takes.

    Example:
        >>> verb(1, "has"), verb(2, "has")
        ('has', 'have')
    """
    return singular if number == 1 else VERBS[singular]


def first_names(names: Sequence[str], most: int = MAX_NAMES) -> str:
    """Return the first names of a list and the number of the others.

    Example:
        >>> first_names(["a.png", "b.png", "c.png", "d.png"])
        'a.png, b.png, c.png and 1 more'
    """
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def listed(words: Sequence[str]) -> str:
    """Return words as an enumeration, such as "a, b and c".

    Example:
        >>> listed(["fog", "snow", "frost"])
        'fog, snow and frost'
    """
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1]))) if words else ""


def at_least(counts: Iterable[float], word: str) -> str:
    """Return minimum counts in words; several if runs differ.

    Example:
        >>> at_least([1], "sample")
        'at least 1 sample'
        >>> at_least([1, 20, 20], "sample")
        'at least 1 and 20 samples'
    """
    distinct = list(dict.fromkeys(counts))
    numbers = listed([f"{count:g}" for count in distinct])
    return f"at least {numbers} {word if distinct == [1] else plural(2, word)}"
