"""Stimuli of the same/different study, which asks whether two images were changed in the same way.

For each pair of corruptions under study, half of the trials show one corruption twice ("same") and
half show both ("different"). The two images always have different source images and a similar Δv,
so that neither content nor strength reveals the correct response. Images with hardly any visual
change are left out, because nobody could tell which corruption was applied.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from eyechart.core.arrays import FloatArray
from eyechart.core.errors import UsageError
from eyechart.core.randomness import hash64
from eyechart.corruptions.suites.suite import all_entries
from eyechart.humans.human_responses import DIFFERENT, SAME
from eyechart.humans.transfer import published_classes
from eyechart_experiment.design.stimulus_design import (
    MAIN,
    PlannedStimulus,
    StudyImage,
    StudySample,
    pool_sizes,
    source_loads,
)
from eyechart_experiment.study_config import StudyConfig

TOLERANCE = 0.02
"""Largest difference in Δv between the two images of a stimulus, if the test set allows it."""

VISIBLE = 0.02
"""Images with a Δv below this value are not used."""

NEAREST = 12
"""Number of samples nearest to the target Δv from which each image of a stimulus is chosen."""

ORDERS = 20
"""Number of random orders tried to find how many trials one participant can complete."""


CorruptionPair = tuple[str, str]
"""Two corruptions, in alphabetical order, that participants are asked to tell apart."""


def all_pairs(corruptions: Sequence[str]) -> list[CorruptionPair]:
    """Return all pairs of these corruptions."""
    if len(corruptions) < 2:
        raise UsageError(
            "A same-different study needs at least 2 corruptions, and the test set has"
            f" {len(corruptions)}: make a test set with more corruptions."
        )
    return list(combinations(sorted(corruptions), 2))


def design_pairs(
    sources: Sequence[StudyImage],
    pairs: Sequence[CorruptionPair],
    per_pair: int,
    config: StudyConfig,
    *,
    seed: int,
    catch_pool: int | None,
) -> list[PlannedStimulus]:
    """Return the stimuli of a same/different study, `per_pair` for each pair of corruptions.

    Raises:
        UsageError: If the test set has too few images for all trials of one participant.
    """
    if per_pair < 2 or per_pair % 2:
        raise UsageError(
            "per-pair must be even, because half of the stimuli show the same corruption twice, got"
            f" {per_pair}."
        )

    def design(n_trials: int) -> tuple[list[PlannedStimulus], int]:
        """Return the stimuli, and how many trials of `n_trials` a participant can complete."""
        pools = pool_sizes(replace(config, trials=n_trials), catch_pool, len(sources))
        stimuli = obvious_pairs(sources, pools, seed)
        taken = {row.digest for stimulus in stimuli for row in stimulus.images}
        rows = [row for image in sources if image.digest not in taken for row in image.corrupted]
        stimuli += matched_pairs(rows, pairs, per_pair, config.k, seed)
        return stimuli, trials_within_reach(stimuli, seed)

    stimuli, reach = design(config.trials)
    if reach < config.trials:
        # With fewer trials more images are set aside for practice, so the number is tried.
        possible, complete = reach, 0
        while possible > 0 and (complete := design(possible)[1]) < possible:
            possible = complete
        lower = f"lower --trials to {possible}, or " if possible else ""
        raise UsageError(
            f"A participant can complete only {reach} of {config.trials} trials, because nobody"
            f" sees a source image twice: {lower}make the test set from more images."
        )
    return stimuli


def matched_pairs(
    rows: Sequence[StudySample], pairs: Sequence[CorruptionPair], per_pair: int, k: int, seed: int
) -> list[PlannedStimulus]:
    """Return the stimuli of the main trials, half "same" and half "different" for each pair.

    Both halves use the same target values of Δv, spaced evenly over the range that the two
    corruptions share. Images that have been used less often are preferred.
    """
    random = np.random.default_rng(seed)
    by_name = {
        name: _Pool([row for row in rows if row.corruption == name and row.change >= VISIBLE])
        for pair in pairs
        for name in pair
    }
    uses: Counter[str] = Counter()
    stimuli = []
    for pair in pairs:
        a, b = (by_name[name] for name in pair)
        low, high = _common_range(pair, a, b)
        half = per_pair // 2
        for step in range(half):
            # Midpoints of equal steps: at the ends of the range, samples lie on one side only.
            wanted = low + (step + 0.5) / half * (high - low)
            # "Same" trials alternate between the two corruptions of the pair.
            alike = (a, a) if step % 2 == 0 else (b, b)
            for truth, (left, right) in ((SAME, alike), (DIFFERENT, (a, b))):
                images = _match(left, right, wanted, uses, random)
                for row in images:
                    uses[row.digest] += 1
                # Otherwise, the first corruption of the pair would always be on the left.
                if random.random() < 0.5:
                    images = images[::-1]
                stimuli.append(PlannedStimulus(MAIN, truth, k, images, "|".join(pair)))
    return stimuli


class _Pool:
    """The samples of one corruption, with their Δv and how often each was used."""

    def __init__(self, rows: Sequence[StudySample]) -> None:
        self.rows = rows
        self.delta_v: FloatArray = np.array([row.change for row in rows], dtype=np.float64)
        self.digests = np.array([row.digest for row in rows], dtype=np.str_)
        self.used = np.zeros(len(rows))


def _common_range(pair: CorruptionPair, a: _Pool, b: _Pool) -> tuple[float, float]:
    for name, pool in zip(pair, (a, b), strict=True):
        n_sources = len(set(pool.digests.tolist()))
        if n_sources < 2:
            raise UsageError(
                f"{name} has samples of {n_sources} source images for the"
                " main trials, but a pair needs 2: make the test set from more images."
            )
    low = float(max(a.delta_v.min(), b.delta_v.min()))
    high = float(min(a.delta_v.max(), b.delta_v.max()))
    if low > high:
        raise UsageError(
            f"The ranges of visual change of {pair[0]} and {pair[1]} do not overlap"
            f" ({a.delta_v.min():.2f} to {a.delta_v.max():.2f} and {b.delta_v.min():.2f} to"
            f" {b.delta_v.max():.2f}): select other pairs with --pair, or make the test set with"
            " --sampling pilot."
        )
    return low, high


def _match(
    left: _Pool, right: _Pool, wanted: float, uses: Counter[str], random: np.random.Generator
) -> tuple[StudySample, ...]:
    """Return one sample from each pool, with different source images and Δv close to `wanted`.

    Among samples within the tolerance, the least used are preferred. If no samples are within the
    tolerance, the samples nearest in Δv are preferred.
    """
    best: tuple[float, int, int] | None = None
    # From both sides: only the nearest samples of the first pool are tried with all of the second.
    for one, other in ((left, right), (right, left)):
        # Stable, so that samples at equal distances are in the same order on every machine.
        near = np.argsort(np.abs(one.delta_v - wanted), kind="stable")[:NEAREST]
        gap = np.abs(one.delta_v[near][:, None] - other.delta_v[None, :])
        load = _load(one, uses)[near][:, None] + _load(other, uses)[None, :]
        # In order of importance: Δv within the tolerance (the factor outweighs every load), rarely
        # used images, a small gap; the random term only breaks ties.
        cost = load + gap + 1e6 * np.maximum(gap - TOLERANCE, 0) + 1e-3 * random.random(gap.shape)
        # Two images of a stimulus never have the same source image.
        cost[one.digests[near][:, None] == other.digests[None, :]] = np.inf
        i, j = np.unravel_index(int(np.argmin(cost)), cost.shape)
        indices = (int(near[i]), int(j)) if one is left else (int(j), int(near[i]))
        match = (float(cost[i, j]), *indices)
        best = match if best is None else min(best, match)
    assert best is not None
    _, first, second = best
    left.used[first] += 1
    right.used[second] += 1
    return left.rows[first], right.rows[second]


def _load(pool: _Pool, uses: Counter[str]) -> FloatArray:
    """Return each sample's reuse cost: 3 per use of the sample, 1 per use of its source image."""
    load: FloatArray = 3 * pool.used + [float(uses[digest]) for digest in pool.digests.tolist()]
    return load


def trials_within_reach(stimuli: Sequence[PlannedStimulus], seed: int) -> int:
    """Return how many main trials one participant can do without seeing a source image twice.

    The number is the minimum over several random orders, because trials are presented in random
    order.
    """
    random = np.random.default_rng(seed)
    main = [
        tuple(row.digest for row in stimulus.images)
        for stimulus in stimuli
        if stimulus.capacity is not None
    ]
    # An upper bound, since every trial uses up at least one source image.
    fewest = len(source_loads(stimuli))
    for _ in range(ORDERS):
        seen: set[str] = set()
        trials = 0
        for index in random.permutation(len(main)):
            if seen.isdisjoint(main[index]):
                seen.update(main[index])
                trials += 1
        fewest = min(fewest, trials)
    return fewest


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
    unlike = [other for other in names if _kind(other) != _kind(name)]
    return unlike[number // 2 % len(unlike)] if unlike else None


def _kind(name: str) -> str:
    """Return the class of similar corruptions that contains this one, or else its family."""
    known = all_entries().get(name)
    similar = published_classes().name_of(name)
    return similar or (name if known is None else known.corruption.family)


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
