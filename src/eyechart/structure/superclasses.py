"""WordNet superclasses, such as bird, and their subclasses inside and outside ImageNet-1K."""

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import networkx as nx

from eyechart.core.arguments import regular_file
from eyechart.core.errors import UsageError
from eyechart.core.phrases import count_of
from eyechart.core.randomness import hash64
from eyechart.images.image_list import ListedImage
from eyechart.images.labels.imagenet import wordnet_ids

ID = re.compile(r"n[0-9]{8}")
"""WordNet id of a noun, such as n01440764, as in the names of ImageNet's folders."""

MAX_NAMED = 5
"""Maximum number of synsets listed in an error message about a cycle."""


def read_hypernyms(path: Path) -> nx.DiGraph:
    """Return WordNet's hierarchy: an edge from each synset to each direct hyponym.

    `path`: a file with "parent child" on each line, such as wordnet.is_a.txt; the graph's name.
    """
    graph = nx.DiGraph(name=str(path))
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
    return graph


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


@dataclass(frozen=True)
class Superclass:
    """A synset high in WordNet's hierarchy, with its name."""

    name: str
    wnid: str


PUBLISHED = (
    Superclass("amphibian", "n01627424"),
    Superclass("appliance", "n02729837"),
    Superclass("aquatic mammal", "n02062017"),
    Superclass("bear", "n02131653"),
    Superclass("beverage", "n07881800"),
    Superclass("big cat", "n02127808"),
    Superclass("bird", "n01503061"),
    Superclass("building", "n02913152"),
    Superclass("cat", "n02121620"),
    Superclass("clothing", "n03051540"),
    Superclass("dog", "n02084071"),
    Superclass("electronic equipment", "n03278248"),
    Superclass("fish", "n02512053"),
    Superclass("footwear", "n03380867"),
    Superclass("fruit", "n13134947"),
    Superclass("fungus", "n12992868"),
    Superclass("geological formation", "n09287968"),
    Superclass("hoofed animal", "n02370806"),
    Superclass("insect", "n02159955"),
    Superclass("musical instrument", "n03800933"),
    Superclass("primate", "n02469914"),
    Superclass("reptile", "n01661091"),
    Superclass("utensil", "n04516672"),
    Superclass("vegetable", "n07707451"),
    Superclass("vehicle", "n04576211"),
)
"""The 25 superclasses of Hendrycks & Dietterich (appendix G), in alphabetical order."""


@dataclass(frozen=True)
class SeenUnseenSplit:
    """Images of subclasses inside (seen) and outside (unseen) ImageNet-1K.

    An image's label is its synset, and its `subclass` is the name of the superclass.

    Attributes:
        superclasses: Superclasses with images to train on.
        seen: Images of seen subclasses.
        unseen: Images of unseen subclasses.
        notes: Sentences about what was left out.
        seen_test: Separate test images of seen subclasses; if empty, a fifth of `seen` is used.
    """

    superclasses: tuple[Superclass, ...]
    seen: tuple[ListedImage, ...]
    unseen: tuple[ListedImage, ...]
    notes: tuple[str, ...]
    seen_test: tuple[ListedImage, ...] = ()


def read_superclasses(path: Path) -> tuple[Superclass, ...]:
    """Return the superclasses in a file with a WordNet id and a name on each line."""
    superclasses: dict[str, Superclass] = {}
    for number, line in enumerate(read_lines(path), start=1):
        words = line.split()
        if not words:
            continue
        if len(words) < 2 or not ID.fullmatch(words[0]):
            raise UsageError(
                f"{path}, line {number}: a line must be a WordNet id and a name, such as"
                f" 'n01503061 bird', got {line.strip()[:60]!r}."
            )
        wnid, name = words[0], " ".join(words[1:])
        if wnid in superclasses or any(name == other.name for other in superclasses.values()):
            raise UsageError(f"{path}, line {number}: {wnid} or {name!r} appears twice.")
        superclasses[wnid] = Superclass(name, wnid)
    if len(superclasses) < 2:
        raise UsageError(f"{path} must name at least 2 superclasses, got {len(superclasses)}.")
    return tuple(superclasses.values())


def read_synsets(path: Path | None) -> frozenset[str]:
    """Return the WordNet ids at the start of a file's lines; ImageNet-1K's ids if `path` is None.

    The rest of each line, such as names, is ignored.
    """
    if path is None:
        return frozenset(wordnet_ids())
    synsets = set()
    for number, line in enumerate(read_lines(path), start=1):
        if not line.split():
            continue
        wnid = line.split()[0]
        if not ID.fullmatch(wnid):
            raise UsageError(
                f"{path}, line {number}: a line must begin with a WordNet id, such as n01440764,"
                f" got {line.strip()[:60]!r}."
            )
        synsets.add(wnid)
    if not synsets:
        raise UsageError(f"{path} has no WordNet ids.")
    return frozenset(synsets)


def nearest(
    hypernyms: nx.DiGraph, superclasses: Sequence[Superclass]
) -> tuple[dict[str, Superclass], dict[str, tuple[str, ...]]]:
    """Return each synset's nearest superclass, and separately the names of superclasses in ties.

    A tie is a synset that is equally near to several superclasses; it is assigned to none of them.
    """
    nearest_of: dict[str, tuple[int, list[Superclass]]] = {}
    for superclass in superclasses:
        if superclass.wnid not in hypernyms:
            raise UsageError(
                f"The superclass {superclass.name!r} ({superclass.wnid}) is not in"
                f" {hypernyms.name}: use WordNet's complete file, or remove the superclass from"
                " --superclasses."
            )
        # The shortest distance, because several paths may lead from one synset to another.
        lengths = nx.single_source_shortest_path_length(hypernyms, superclass.wnid)
        for synset, steps in lengths.items():
            known = nearest_of.get(synset)
            if known is None or steps < known[0]:
                nearest_of[synset] = (steps, [superclass])
            # WordNet is not a tree: a synset may be equally near to two superclasses.
            elif steps == known[0]:
                known[1].append(superclass)
    return (
        {synset: near[0] for synset, (_, near) in nearest_of.items() if len(near) == 1},
        {
            synset: tuple(superclass.name for superclass in near)
            for synset, (_, near) in nearest_of.items()
            if len(near) > 1
        },
    )


def sort_images(
    images: Sequence[ListedImage],
    source: str,
    hypernyms: nx.DiGraph,
    *,
    superclasses: Sequence[Superclass] = PUBLISHED,
    imagenet: Collection[str] | None = None,
    most: int | None = None,
) -> SeenUnseenSplit:
    """Return the superclasses' images, divided into seen and unseen subclasses.

    Args:
        images: Images labeled with WordNet ids.
        source: Name of the data source.
        hypernyms: WordNet's hierarchy.
        superclasses: The superclasses.
        imagenet: WordNet ids of seen subclasses; ImageNet-1K's by default.
        most: Maximum number of images per unseen synset.
    """
    if most is not None and most < 1:
        raise UsageError(f"max_images must be a whole number of at least 1, got {most}.")
    known = read_synsets(None) if imagenet is None else imagenet
    notes = _strangers(images, source)
    above, ties = nearest(hypernyms, superclasses)
    notes += _ties(images, ties)
    below = _below(images, above)
    # Seen means part of ImageNet-1K, on which the networks were pretrained.
    seen = [item for item in below if item.label in known]
    unseen = [item for item in below if item.label not in known]
    if not seen or not unseen:
        kind = "in ImageNet-1K" if not seen else "outside ImageNet-1K"
        raise UsageError(
            f"{source} has no images of subclasses {kind} of the {len(superclasses)} superclasses:"
            " images of both seen and unseen subclasses are needed, as in ImageNet-22K."
        )
    taught = {item.subclass for item in seen}
    # The network's classes are the superclasses that have training images.
    kept = tuple(item for item in superclasses if item.name in taught)
    if len(kept) < 2:
        raise UsageError(
            f"{source} has images of seen subclasses for only one superclass, {kept[0].name!r}: "
            "use images of at least two."
        )
    tested = {item.subclass for item in unseen}
    notes += _bare(superclasses, taught, tested)
    # A superclass without seen images has no class in the network and cannot be tested.
    unseen = _at_most([item for item in unseen if item.subclass in taught], most)
    if not unseen:
        raise UsageError(
            f"In {source}, no superclass has both seen and unseen subclasses: add images."
        )
    return SeenUnseenSplit(kept, tuple(seen), tuple(unseen), tuple(notes))


def with_seen_test(
    chosen: SeenUnseenSplit,
    images: Sequence[ListedImage],
    source: str,
    hypernyms: nx.DiGraph,
    imagenet: Collection[str] | None = None,
) -> SeenUnseenSplit:
    """Return the sorted images, with separate test images of seen subclasses added.

    `images` are labeled with WordNet ids, such as ImageNet-1K's validation images; images
    outside the seen subclasses are left out. Every superclass needs at least one test image.
    """
    known = read_synsets(None) if imagenet is None else imagenet
    notes = _strangers(images, source)
    above, _ = nearest(hypernyms, chosen.superclasses)
    tested = [image for image in _below(images, above) if image.label in known]
    present = {image.subclass for image in tested}
    for superclass in chosen.superclasses:
        if superclass.name not in present:
            raise UsageError(
                f"{source} must have images of seen subclasses for every superclass, but has none "
                f"for {superclass.name!r}: add some, or remove the superclass from --superclasses."
            )
    return replace(chosen, notes=(*chosen.notes, *notes), seen_test=tuple(tested))


def _below(images: Sequence[ListedImage], above: Mapping[str, Superclass]) -> list[ListedImage]:
    """Return the images that belong to a superclass, with its name as their `subclass`."""
    return [
        replace(image, subclass=above[image.label].name)
        for image in images
        if image.label is not None and image.label in above
    ]


def _strangers(images: Sequence[ListedImage], source: str) -> list[str]:
    """Return a note on folders not named after WordNet ids.

    Raises:
        UsageError: If no folder is named after a WordNet id.
    """
    # Images next to the class folders have no label and count as the folder itself.
    names = {"." if image.label is None else image.label for image in images}
    bad = sorted(name for name in names if not ID.fullmatch(name))
    if len(bad) == len(names):
        got = f", got {bad[0]!r}" if bad else ""
        raise UsageError(
            f"{source} must contain image folders named after WordNet ids, such as "
            f"n01440764{got}: pass the folder that contains them."
        )
    if not bad:
        return []
    folders = count_of(len(bad), "folder")
    return [
        f"Left out, because their names are not WordNet ids: {folders} in {source}, such as "
        f"{bad[0]!r}."
    ]


def _ties(images: Sequence[ListedImage], ties: Mapping[str, tuple[str, ...]]) -> list[str]:
    labels = {image.label for image in images if image.label is not None}
    tied = sorted(labels & ties.keys())
    if not tied:
        return []
    synsets = count_of(len(tied), "synset")
    return [
        f"Left out, because they are equally near to several superclasses: {synsets}, such as"
        f" {tied[0]}"
        f" ({' and '.join(ties[tied[0]])})."
    ]


def _bare(
    superclasses: Sequence[Superclass],
    taught: Collection[str | None],
    tested: Collection[str | None],
) -> list[str]:
    """Return notes on superclasses that lack images of seen or of unseen subclasses."""
    none = [superclass.name for superclass in superclasses if superclass.name not in taught]
    half = [
        superclass.name
        for superclass in superclasses
        if superclass.name in taught and superclass.name not in tested
    ]
    notes = []
    if none:
        notes.append(
            f"Left out, because they have no images of seen subclasses: {', '.join(none)}"
            f" ({len(none)} of {len(superclasses)} superclasses)."
        )
    if half:
        notes.append(
            f"Not tested, because they have no images of unseen subclasses: {', '.join(half)}"
            f" ({len(half)} of {len(superclasses)} superclasses)."
        )
    return notes


def _at_most(images: Sequence[ListedImage], most: int | None) -> list[ListedImage]:
    """Return up to `most` images per synset, chosen by their file names."""
    if most is None:
        return list(images)
    taken: Counter[str | None] = Counter()
    chosen = set()
    for index in sorted(range(len(images)), key=lambda number: hash64("few", images[number].name)):
        # Going through images in the order of a hash gives a random but reproducible subset.
        if taken[images[index].label] < most:
            taken[images[index].label] += 1
            chosen.add(index)
    return [image for index, image in enumerate(images) if index in chosen]
