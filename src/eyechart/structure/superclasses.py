"""Superclasses of WordNet, such as bird: their kinds that ImageNet-1K has, and those it has not."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from eyechart.core.errors import UsageError
from eyechart.core.randomness import hash64
from eyechart.images.dataset import Picture
from eyechart.labels.imagenet import wordnet_ids
from eyechart.structure.hypernyms import ID, Hypernyms, nearest, read_lines


@dataclass(frozen=True)
class Superclass:
    """A synset high in WordNet, and what it is called."""

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
"""The 25 of Hendrycks and Dietterich (appendix G), in alphabetical order."""


@dataclass(frozen=True)
class Sorted:
    """Pictures of kinds that ImageNet-1K has, and of kinds that it has not.

    Their label is the synset, their subclass the name of its superclass. `superclasses`: those with
    pictures to train with. `notes`: sentences that say what was left out. `seen_test`: images of
    seen kinds from elsewhere, to test with; without them a share of `seen` is kept for that.
    """

    superclasses: tuple[Superclass, ...]
    seen: tuple[Picture, ...]
    unseen: tuple[Picture, ...]
    notes: tuple[str, ...]
    seen_test: tuple[Picture, ...] = ()


def read_superclasses(path: Path) -> tuple[Superclass, ...]:
    """Return the superclasses of a file: in each line a WordNet id, and behind it a name."""
    found: dict[str, Superclass] = {}
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
        if wnid in found or any(name == other.name for other in found.values()):
            raise UsageError(f"{path}, line {number}: {wnid} or {name!r} is there twice.")
        found[wnid] = Superclass(name, wnid)
    if len(found) < 2:
        raise UsageError(f"{path} must name at least 2 superclasses, got {len(found)}.")
    return tuple(found.values())


def read_synsets(path: Path | None) -> frozenset[str]:
    """Return the WordNet ids that lines of a file begin with; without a file ImageNet-1K's 1,000.

    What stands behind an id, such as names, counts for nothing.
    """
    if path is None:
        return frozenset(wordnet_ids())
    found = set()
    for number, line in enumerate(read_lines(path), start=1):
        if not line.split():
            continue
        wnid = line.split()[0]
        if not ID.fullmatch(wnid):
            raise UsageError(
                f"{path}, line {number}: a line must begin with a WordNet id, such as n01440764,"
                f" got {line.strip()[:60]!r}."
            )
        found.add(wnid)
    if not found:
        raise UsageError(f"{path} holds no WordNet ids.")
    return frozenset(found)


def superclass_of(
    hypernyms: Hypernyms, superclasses: Sequence[Superclass]
) -> tuple[dict[str, Superclass], dict[str, tuple[str, ...]]]:
    """Return the superclass of each synset below one, the nearest, and ties with their names."""
    for each in superclasses:
        if each.wnid not in hypernyms:
            raise UsageError(
                f"The superclass {each.name!r} ({each.wnid}) is not in {hypernyms.source}: give all"
                " of WordNet's pairs, or --superclasses without it."
            )
    own = {each.wnid: each for each in superclasses}
    found, ties = nearest(hypernyms, list(own))
    return (
        {synset: own[top] for synset, top in found.items()},
        {synset: tuple(own[top].name for top in tops) for synset, tops in ties.items()},
    )


def sort_pictures(
    pictures: Sequence[Picture],
    source: str,
    hypernyms: Hypernyms,
    superclasses: Sequence[Superclass] = PUBLISHED,
    imagenet: Collection[str] | None = None,
    most: int | None = None,
) -> Sorted:
    """Return the pictures of all kinds of the superclasses, seen and unseen.

    `pictures`: labelled with WordNet ids. `imagenet`: the ids of what is seen, without them
    ImageNet-1K's. `most`: at most so many pictures of each unseen synset.
    """
    if most is not None and most < 1:
        raise UsageError(f"pictures must be a whole number from 1, got {most}.")
    known = read_synsets(None) if imagenet is None else imagenet
    notes = _strangers(pictures, source)
    above, ties = superclass_of(hypernyms, superclasses)
    notes += _ties(pictures, ties)
    below = _below(pictures, above)
    seen = [each for each in below if each.label in known]
    unseen = [each for each in below if each.label not in known]
    if not seen or not unseen:
        which = "that ImageNet-1K has" if not seen else "that ImageNet-1K has not"
        raise UsageError(
            f"{source} has no pictures of kinds of the {len(superclasses)} superclasses {which}:"
            " give folders of both, as ImageNet-22K has them."
        )
    taught = {each.subclass for each in seen}
    kept = tuple(each for each in superclasses if each.name in taught)
    if len(kept) < 2:
        raise UsageError(
            f"{source} has pictures of seen kinds of one superclass only, {kept[0].name!r}: give at"
            " least two."
        )
    tested = {each.subclass for each in unseen}
    notes += _bare(superclasses, taught, tested)
    unseen = _at_most([each for each in unseen if each.subclass in taught], most)
    if not unseen:
        raise UsageError(
            f"{source} has no unseen kinds of a superclass of which it has seen ones: add pictures."
        )
    return Sorted(kept, tuple(seen), tuple(unseen), tuple(notes))


def with_seen_test(
    chosen: Sorted,
    pictures: Sequence[Picture],
    source: str,
    hypernyms: Hypernyms,
    imagenet: Collection[str] | None = None,
) -> Sorted:
    """Return what was sorted, with images from elsewhere to test seen kinds with.

    `pictures`: labelled with WordNet ids, as ImageNet-1K's validation images; those of no seen kind
    of the superclasses are left out. Every superclass needs some.
    """
    known = read_synsets(None) if imagenet is None else imagenet
    notes = _strangers(pictures, source)
    above, _ = superclass_of(hypernyms, chosen.superclasses)
    tested = [each for each in _below(pictures, above) if each.label in known]
    there = {each.subclass for each in tested}
    for own in chosen.superclasses:
        if own.name not in there:
            raise UsageError(
                f"{source} must have images of kinds of every superclass that ImageNet-1K has, and"
                f" has none of {own.name!r}: add some, or leave it out of --superclasses."
            )
    return replace(chosen, notes=(*chosen.notes, *notes), seen_test=tuple(tested))


def _below(pictures: Sequence[Picture], above: Mapping[str, Superclass]) -> list[Picture]:
    """Return the pictures of kinds of a superclass, with its name as their subclass."""
    return [
        replace(each, subclass=above[each.label].name)
        for each in pictures
        if each.label is not None and each.label in above
    ]


def _strangers(pictures: Sequence[Picture], source: str) -> list[str]:
    """Return a note on folders that are no WordNet ids; a UsageError if there are no others."""
    # pictures that lie beside the folders are those of the folder itself
    names = {"." if each.label is None else each.label for each in pictures}
    bad = sorted(name for name in names if not ID.fullmatch(name))
    if len(bad) == len(names):
        got = f", got {bad[0]!r}" if bad else ""
        raise UsageError(
            f"{source} must hold folders of pictures that are named by WordNet ids, such as"
            f" n01440764{got}: give the folder right above them."
        )
    if not bad:
        return []
    folders = "1 folder" if len(bad) == 1 else f"{len(bad):,} folders"
    return [f"Left out, because named by no WordNet id: {folders} of {source}, such as {bad[0]!r}."]


def _ties(pictures: Sequence[Picture], ties: Mapping[str, tuple[str, ...]]) -> list[str]:
    labels = {each.label for each in pictures if each.label is not None}
    there = sorted(labels & ties.keys())
    if not there:
        return []
    synsets = "1 synset" if len(there) == 1 else f"{len(there):,} synsets"
    return [
        f"Left out, because equally near to several superclasses: {synsets}, such as {there[0]}"
        f" ({' and '.join(ties[there[0]])})."
    ]


def _bare(
    superclasses: Sequence[Superclass],
    taught: Collection[str | None],
    tested: Collection[str | None],
) -> list[str]:
    """Return notes on superclasses of which there are no seen or no unseen pictures."""
    none = [each.name for each in superclasses if each.name not in taught]
    half = [each.name for each in superclasses if each.name in taught and each.name not in tested]
    notes = []
    if none:
        notes.append(
            f"Without pictures of seen kinds, and so left out: {', '.join(none)}"
            f" ({len(none)} of {len(superclasses)} superclasses)."
        )
    if half:
        notes.append(
            f"Without pictures of unseen kinds, so that nothing is said of those: {', '.join(half)}"
            f" ({len(half)} of {len(superclasses)} superclasses)."
        )
    return notes


def _at_most(pictures: Sequence[Picture], most: int | None) -> list[Picture]:
    """Return at most so many of each synset; which ones follows from their names alone."""
    if most is None:
        return list(pictures)
    taken: Counter[str | None] = Counter()
    chosen = set()
    for place in sorted(range(len(pictures)), key=lambda own: hash64("few", pictures[own].name)):
        if taken[pictures[place].label] < most:
            taken[pictures[place].label] += 1
            chosen.add(place)
    return [each for place, each in enumerate(pictures) if place in chosen]
