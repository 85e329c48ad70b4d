"""WordNet's hypernyms, read from a file with pairs of ids: a synset and one of its hyponyms.

Images of synsets are handled in `superclasses`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import networkx as nx

from eyechart.core.arguments import regular_file
from eyechart.core.errors import UsageError

ID = re.compile(r"n[0-9]{8}")
"""WordNet id of a noun, such as n01440764, as in the names of ImageNet's folders."""

MAX_NAMED = 5
"""Maximum number of synsets listed in an error message about a cycle."""


@dataclass(frozen=True, eq=False)
class Hypernyms:
    """WordNet's hierarchy; `graph` has an edge from each synset to each direct hyponym."""

    source: str
    graph: nx.DiGraph

    def __contains__(self, synset: object) -> bool:
        return synset in self.graph

    def below(self, synset: str) -> dict[str, int]:
        """Return the distance of each hyponym from a synset; the synset itself has distance 0."""
        # The shortest distance, because several paths may lead from one synset to another.
        return dict(nx.single_source_shortest_path_length(self.graph, synset))


def read_hypernyms(path: Path) -> Hypernyms:
    """Return the pairs in a file with "parent child" on each line, such as wordnet.is_a.txt."""
    graph = nx.DiGraph()
    for number, line in enumerate(read_lines(path), start=1):
        pair = line.split()
        if not pair:
            continue
        if len(pair) != 2 or not all(map(ID.fullmatch, pair)):
            raise UsageError(
                f"{path}, line {number}: a line must contain two WordNet ids, a synset and one of"
                f" its hyponyms, such as 'n02084071 n02085374', got {line.strip()[:60]!r}."
            )
        graph.add_edge(*pair)
    if not graph:
        raise UsageError(f"{path} has no pairs of WordNet ids: use wordnet.is_a.txt.")
    # In a cycle every synset would be below every other.
    cycle = find_cycle(graph)
    if cycle:
        named = [*cycle[:MAX_NAMED], "…"] if len(cycle) > MAX_NAMED else [*cycle, cycle[0]]
        raise UsageError(
            f"{path} has a cycle, {' > '.join(named)}: a synset cannot be a kind of itself, so "
            "remove one of these lines."
        )
    return Hypernyms(str(path), graph)


def read_lines(path: Path) -> list[str]:
    """Return the lines of a text file; raise a UsageError if it cannot be read."""
    try:
        # utf-8-sig: editors on Windows may add a byte order mark.
        return regular_file(path).read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        raise UsageError(f"Cannot read {path}: {error.strerror or error}.") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not a text file in UTF-8.") from None


def find_cycle(graph: nx.DiGraph) -> list[str]:
    """Return the synsets in a cycle, each the parent of the next, or [] if there is none."""
    try:
        cycle = [parent for parent, _ in nx.find_cycle(graph)]
    except nx.NetworkXNoCycle:
        return []
    # Start at the smallest id, so that the message does not depend on the order of lines.
    first = cycle.index(min(cycle))
    return cycle[first:] + cycle[:first]


def nearest(
    hypernyms: Hypernyms, tops: Sequence[str]
) -> tuple[dict[str, str], dict[str, tuple[str, ...]]]:
    """Return each synset's nearest hypernym among `tops`, and separately the ties.

    A tie is a synset that is equally near to several hypernyms; it is assigned to none of them.
    """
    tops_of: dict[str, tuple[int, list[str]]] = {}
    for top in tops:
        for synset, steps in hypernyms.below(top).items():
            known = tops_of.get(synset)
            if known is None or steps < known[0]:
                tops_of[synset] = (steps, [top])
            # WordNet is not a tree: a synset may be equally near to two superclasses.
            elif steps == known[0]:
                known[1].append(top)
    return (
        {synset: near[0] for synset, (_, near) in tops_of.items() if len(near) == 1},
        {synset: tuple(near) for synset, (_, near) in tops_of.items() if len(near) > 1},
    )
