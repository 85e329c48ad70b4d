"""A few of many pictures: as many of every class, and the same ones whatever their order."""

from collections.abc import Sequence

import numpy as np

from eyechart.core.errors import UsageError
from eyechart.core.randomness import hash64
from eyechart.images.dataset import Picture
from eyechart.labels.categories import NONE
from eyechart.labels.spaces import category_labels
from eyechart.testsets.drawing import Plan
from eyechart.testsets.draws import Whole


def choose_pictures(pictures: Sequence[Picture], plan: Plan) -> Whole:
    """Return the places of the pictures that a plan is about, rising.

    Classes differ by at most one picture, as far as they have them: those of the data set, or
    people's 16. Which pictures of a class depends on the seed and on their file names alone, so
    that corrupted files, clean ones and those in other folders give the same choice.
    """
    places = np.arange(len(pictures))
    if plan.pictures is None:
        return places
    classes: list[str] = [each.label or "" for each in pictures]
    if plan.labels == "entry16":
        own = category_labels([each.label for each in pictures], [p.category for p in pictures])
        classes, places = [str(each) for each in own], np.flatnonzero(own != NONE)
    if plan.labels == "none":
        classes = [""] * len(pictures)
    if plan.pictures > len(places):
        raise UsageError(f"pictures must be at most {len(places)}, got {plan.pictures}.")

    def order(place: int) -> tuple[int, str]:
        name = pictures[place].name
        return hash64(plan.seed, "picture", _stem(name)), name

    members: dict[str, list[int]] = {}
    for place in sorted(places.tolist(), key=order):
        members.setdefault(classes[place], []).append(place)
    turns = sorted(
        (turn, hash64(plan.seed, "class", name), place)
        for name, own in members.items()
        for turn, place in enumerate(own)
    )
    return np.array(sorted(place for _, _, place in turns[: plan.pictures]), dtype=np.int64)


def _stem(name: str) -> str:
    """Return a file's name without its folder and suffix."""
    file = name.rpartition("/")[2]
    return file.rpartition(".")[0] or file
