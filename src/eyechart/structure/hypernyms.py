"""WordNet's kinds of things: which synset is a kind of which, from a file of pairs of ids."""

import re
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from eyechart.core.errors import UsageError

ID = re.compile(r"n[0-9]{8}")
"""A noun of WordNet, such as n01440764: what ImageNet's folders are called."""

SHOWN = 5
"""Synsets of a cycle that are named."""


@dataclass(frozen=True)
class Hypernyms:
    """`kinds`: the synsets right below each synset; one without any has an empty tuple."""

    source: str
    kinds: Mapping[str, tuple[str, ...]]

    def __contains__(self, synset: object) -> bool:
        return synset in self.kinds

    def below(self, synset: str) -> dict[str, int]:
        """Return all kinds of a synset with the fewest steps down to each; to itself they are 0."""
        steps = {synset: 0}
        waiting = deque([synset])
        while waiting:
            above = waiting.popleft()
            for kind in self.kinds[above]:
                if kind not in steps:
                    steps[kind] = steps[above] + 1
                    waiting.append(kind)
        return steps


def read_hypernyms(path: Path) -> Hypernyms:
    """Return the pairs of a file, "parent child" in each line, as wordnet.is_a.txt has them."""
    kinds: dict[str, dict[str, None]] = {}
    for number, line in enumerate(read_lines(path), start=1):
        pair = line.split()
        if not pair:
            continue
        if len(pair) != 2 or not all(map(ID.fullmatch, pair)):
            raise UsageError(
                f"{path}, line {number}: a line must be two WordNet ids, that of a thing and that"
                f" of a kind of it, such as 'n02084071 n02085374', got {line.strip()[:60]!r}."
            )
        parent, child = pair
        kinds.setdefault(parent, {})[child] = None
        kinds.setdefault(child, {})
    if not kinds:
        raise UsageError(f"{path} holds no pairs of WordNet ids: give wordnet.is_a.txt.")
    found = {synset: tuple(own) for synset, own in kinds.items()}
    cycle = find_cycle(found)
    if cycle:
        shown = [*cycle[:SHOWN], "…"] if len(cycle) > SHOWN else [*cycle, cycle[0]]
        raise UsageError(
            f"{path} has a cycle, {' > '.join(shown)}: nothing can be a kind of itself, so take one"
            " of these lines out."
        )
    return Hypernyms(str(path), found)


def read_lines(path: Path) -> list[str]:
    """Return the lines of a text file, or say in one sentence why there are none."""
    try:
        return path.read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        raise UsageError(f"Cannot read {path}: {error.strerror or error}.") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path} is no text file (UTF-8).") from None


def find_cycle(kinds: Mapping[str, Iterable[str]]) -> list[str]:
    """Return synsets each of which is right above the next, and the last above the first, or []."""
    above: dict[str, list[str]] = {synset: [] for synset in kinds}
    for parent, own in kinds.items():
        for child in own:
            above[child].append(parent)
    # what has nothing above it is in no cycle, nor is what is then left without anything above it
    left = Counter({synset: len(parents) for synset, parents in above.items()})
    free = [synset for synset, count in left.items() if not count]
    while free:
        synset = free.pop()
        del left[synset]
        for child in kinds[synset]:
            left[child] -= 1
            if not left[child]:
                free.append(child)
    if not left:
        return []
    # of what is left, everything has something left above it: going up must come round
    way = [min(left)]
    while True:
        parent = min(each for each in above[way[-1]] if each in left)
        if parent in way:
            cycle = way[way.index(parent) :][::-1]
            first = cycle.index(min(cycle))
            return cycle[first:] + cycle[:first]
        way.append(parent)


def nearest(
    hypernyms: Hypernyms, tops: Sequence[str]
) -> tuple[dict[str, str], dict[str, tuple[str, ...]]]:
    """Return the top that each synset is a kind of, the one the fewest steps above it, and ties.

    Ties: synsets that are equally near to several tops, with those; they belong to none.
    """
    found: dict[str, tuple[int, list[str]]] = {}
    for top in tops:
        for synset, steps in hypernyms.below(top).items():
            known = found.get(synset)
            if known is None or steps < known[0]:
                found[synset] = (steps, [top])
            elif steps == known[0]:
                known[1].append(top)
    return (
        {synset: own[0] for synset, (_, own) in found.items() if len(own) == 1},
        {synset: tuple(own) for synset, (_, own) in found.items() if len(own) > 1},
    )
