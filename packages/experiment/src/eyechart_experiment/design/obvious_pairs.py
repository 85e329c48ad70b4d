"""Same/different trials whose correct response is obvious to an attentive participant.

They serve as practice, qualification and catch trials. A "same" pair shows two source images that
the same corruption changed strongly. A "different" pair shows two images strongly changed by
corruptions that are not confused with each other, such as noise and blur, so that "different"
has the same meaning as in the main trials. If the test set has no such corruptions, a "different"
pair shows a clean image beside a corrupted one. Strongly changed samples are those in the upper
fifth of their corruption's Δv values. Only corruptions whose upper fifth begins at Δv 0.5 or above
are used; if there are none, only the strongest corruption is used.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from eyechart.core.errors import UsageError
from eyechart.core.randomness import hash64
from eyechart.corruptions.suites.suite import all_entries
from eyechart.humans.human_responses import DIFFERENT, SAME
from eyechart.humans.transfer import class_of
from eyechart_experiment.design.stimulus_design import PlannedStimulus
from eyechart_experiment.design.study_samples import StudyImage, StudySample

OBVIOUS = 0.5
STRONG_SHARE = 0.8


def obvious_pairs(
    sources: Sequence[StudyImage], counts: Mapping[str, int], seed: int
) -> list[PlannedStimulus]:
    """Return the obvious pairs for each role, half of them "same".

    No source image is used twice. Images with few corrupted samples are used first, so that as many
    samples as possible remain for the main trials.
    """
    order = sorted(
        sources, key=lambda image: (len(image.corrupted), hash64(seed, "aside", image.digest))
    )
    left = {source.digest: source for source in order}
    limits = strong_limits(sources)
    turns = sorted(limits, key=lambda name: hash64(seed, "turn", name))
    stimuli: list[PlannedStimulus] = []
    for role, count in counts.items():
        for number in range(count):
            # Each corruption appears in one "same" and one "different" pair before the next one is
            # used.
            name = turns[len(stimuli) // 2 % len(turns)]
            truth = SAME if number % 2 == 0 else DIFFERENT
            first = _take_strong(left, name, limits[name], None)
            other = name if truth == SAME else _unlike(name, turns, number)
            if other is None:
                # `left` keeps its order, so this is the image with the fewest corrupted samples.
                second = left.pop(next(iter(left))).clean
            else:
                # Similar in Δv, so that strength alone does not distinguish the two images.
                second = _take_strong(left, other, limits[other], first.change)
            # The strongly changed image must not always be on the same side.
            swap = hash64(seed, "swap", first.row) % 2
            stimuli.append(
                PlannedStimulus(role, truth, None, (second, first) if swap else (first, second))
            )
    return stimuli


def _unlike(name: str, names: Sequence[str], number: int) -> str | None:
    """Return a corruption that humans do not confuse with this one, or None if there is none."""
    kind = _kind(name)
    unlike = [other for other in names if _kind(other) != kind]
    return unlike[number // 2 % len(unlike)] if unlike else None


def _kind(name: str) -> str:
    """Return the class of similar corruptions that contains this one, or else its family."""
    known = all_entries().get(name)
    return class_of(name) or (name if known is None else known.corruption.family)


def strong_limits(sources: Sequence[StudyImage]) -> dict[str, float]:
    """Return, for each obvious corruption, the Δv at which an image counts as strongly changed."""
    changes: dict[str, list[float]] = {}
    for source in sources:
        for row in source.corrupted:
            changes.setdefault(row.corruption, []).append(row.change)
    if not changes:
        raise UsageError(
            "No corrupted image in the test set has a measurable visual change:"
            " make another test set."
        )
    limits = {
        name: float(np.quantile(values, STRONG_SHARE)) for name, values in sorted(changes.items())
    }
    strong = {name: limit for name, limit in limits.items() if limit >= OBVIOUS}
    best = max(limits, key=lambda name: limits[name])
    return strong or {best: limits[best]}


def _take_strong(
    left: dict[str, StudyImage], name: str, limit: float, like: float | None
) -> StudySample:
    """Return a strongly changed sample of this corruption and remove its source image from `left`.

    If `like` is given, the sample with the Δv closest to it is chosen. If no sample reaches
    `limit`, the strongest sample is chosen.
    """
    rows = [
        sample for image in left.values() for sample in image.corrupted if sample.corruption == name
    ]
    if not rows:
        raise UsageError(
            f"No image corrupted by {name} is left for practice, qualification and catch trials:"
            " use fewer of these trials, or make the test set from more images."
        )
    strong = [row for row in rows if row.change >= limit]
    if not strong:
        chosen = max(rows, key=lambda row: row.change)
    elif like is None:
        # The first one belongs to the image with the fewest corrupted samples.
        chosen = strong[0]
    else:
        chosen = min(strong, key=lambda row: abs(row.change - like))
    del left[chosen.digest]
    return chosen
