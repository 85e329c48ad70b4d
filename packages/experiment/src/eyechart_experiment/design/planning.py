"""Plan a study, with its budget, from a test set and the experimenter's request."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from eyechart.core.errors import UsageError
from eyechart.core.randomness import hash64
from eyechart.core.registry import unknown_name
from eyechart.humans.placement import HUMAN_RULER
from eyechart.testsets.testset import TestSet
from eyechart_experiment.design.budget import Budget, Prices, plan_budget
from eyechart_experiment.design.pair_design import CorruptionPair, all_pairs, design_pairs
from eyechart_experiment.design.stimulus_design import (
    CATCH,
    MAIN,
    QUALIFICATION,
    Chosen,
    PlannedStimulus,
    StudyImage,
    design_categories,
    find_images,
    group_by_source,
    read_rows,
    source_loads,
)
from eyechart_experiment.design.study_settings import MINUTES, PER_PAIR, StudyRequest
from eyechart_experiment.study_config import StudyConfig

PLANNED_SHARE = 0.95
"""Share of the studies that shall end with all responses."""

PRESENT = 8
"""Number of participants who take part at the same time, and share what is left at the end."""

MAX_RUNS, MIN_RUNS, RESPONSES_SIMULATED = 100, 20, 400_000
"""Number of simulated studies; of large studies fewer are simulated."""

PATIENCE = 20
"""A simulated study ends after this many times as many participants as without any loss."""

Demand = tuple[int, tuple[Hashable, ...]]
"""A stimulus of the main part: how many responses are wanted, and its source images."""


@dataclass(frozen=True)
class Collection:
    """How the collection of a study's responses ends.

    Attributes:
        n_participants: Number of participants with which `PLANNED_SHARE` of the studies end.
        n_short: Mean number of participants who get less than half of the main trials.
        complete_share: Share of the studies in which all stimuli have their responses.
        n_incomplete: Mean number of stimuli that lack responses.
    """

    n_participants: int
    n_short: float
    complete_share: float
    n_incomplete: float

    @property
    def is_complete(self) -> bool:
        """Whether enough of the studies end with all responses."""
        return self.complete_share >= PLANNED_SHARE


@dataclass(frozen=True, eq=False)
class StudyPlan:
    """A planned study, the collection of its responses, and its budget.

    Attributes:
        request: What the experimenter requested.
        config: Final settings, except for the size of the images.
        testset: The test set from which the stimuli were chosen.
        stimuli: The stimuli.
        chosen: The images that the experimenter chose for qualification and catch trials.
        collection: How the collection of responses ends.
        budget: Participants, duration and cost.
        prices: Prices from which the budget was computed.
        left_out: Number of images whose Δv is unknown.
    """

    request: StudyRequest
    config: StudyConfig
    testset: TestSet
    stimuli: Sequence[PlannedStimulus]
    chosen: Chosen
    collection: Collection
    budget: Budget
    prices: Prices
    left_out: int

    @property
    def rows(self) -> set[int]:
        """The test-set rows whose images are shown."""
        return {row.row for planned in self.stimuli for row in planned.images}


def plan_study(
    testset: TestSet,
    config: StudyConfig,
    request: StudyRequest,
    prices: Prices,
    minutes: int | None = None,
) -> StudyPlan:
    """Return the plan of the requested study.

    Args:
        testset: The test set from which stimuli are chosen.
        config: Settings of the study, but for its duration.
        request: Options for the choice of stimuli and for the folder.
        prices: Pay, fee and expected losses.
        minutes: Paid minutes per participant; None to pay for the estimated duration.

    Raises:
        UsageError: If the test set is not suitable for this study.
    """
    if testset.plan.ruler != HUMAN_RULER:
        raise UsageError(
            f"A study needs a test set measured with the ruler {HUMAN_RULER}, with which"
            f" humans and models are compared, got {testset.plan.ruler}: make one"
            " without --ruler."
        )
    rows = read_rows(testset)
    sources = group_by_source(rows)
    chosen = {
        role: find_images(path, sources)
        for role, path in (
            (QUALIFICATION, request.qualification_images), (CATCH, request.catch_images),
        )
        if path is not None
    }  # fmt: skip
    stimuli = _stimuli(sources, testset, config, request, chosen)
    demands = [
        (stimulus.capacity or 0, tuple({row.digest for row in stimulus.images}))
        for stimulus in stimuli
        if stimulus.role == MAIN
    ]
    collection = plan_collection(demands, config, prices, request.seed)
    if not collection.is_complete and not config.min_trials:
        # If participants are admitted only for half of the main trials, the last stimuli stay open.
        config = replace(config, min_trials=1)
        collection = plan_collection(demands, config, prices, request.seed)
    responses = sum(stimulus.capacity or 0 for stimulus in stimuli)
    budget = plan_budget(
        config, responses, source_loads(stimuli), prices, minutes, collection.n_participants
    )
    consent = config.consent.replace(MINUTES, str(budget.minutes))
    return StudyPlan(
        request=request,
        config=replace(config, minutes=budget.minutes, consent=consent),
        testset=testset,
        stimuli=stimuli,
        chosen=chosen,
        collection=collection,
        budget=budget,
        prices=prices,
        left_out=sum(row.delta_v is None for row in rows if not row.is_clean),
    )


def _stimuli(
    sources: Sequence[StudyImage],
    testset: TestSet,
    config: StudyConfig,
    request: StudyRequest,
    chosen: Chosen,
) -> list[PlannedStimulus]:
    # Each study sets different images aside, so that a returning participant has not seen all of
    # them.
    seed = hash64(request.seed, config.name) % 2**32
    if config.kind == "categorise":
        return design_categories(sources, config, seed, request.catch_pool, chosen)
    names = testset.corruptions
    chosen_pairs = [_find_pair(text, names, testset.plan.suite) for text in request.pairs]
    pairs = list(dict.fromkeys(chosen_pairs)) or all_pairs(names)
    per_pair = PER_PAIR if request.per_pair is None else request.per_pair
    return design_pairs(sources, pairs, per_pair, config, seed=seed, catch_pool=request.catch_pool)


def _find_pair(text: str, names: Sequence[str], suite: str) -> CorruptionPair:
    """Return the two corruptions named in the text "A:B"; the suite's prefix may be omitted."""
    pair = []
    for part in text.split(":"):
        name = part.strip()
        full = name if name in names else f"{suite}/{name}"
        if full not in names and text.count(":") == 1:
            raise unknown_name("corruption of the test set", name, names)
        pair.append(full)
    if len(pair) != 2 or pair[0] == pair[1]:
        raise UsageError(f"--pair must name two corruptions as A:B, got '{text}'.")
    return min(pair), max(pair)


def plan_collection(
    demands: Sequence[Demand], config: StudyConfig, prices: Prices, seed: int
) -> Collection:
    """Simulate how a study's responses are collected, and return how the collection ends.

    Stimuli go to participants as the server hands them out: the one with the fewest responses
    first, and no image twice. Participants are admitted by the study's `min_main`. Some of them are
    excluded, half of whom do not pass the qualification, and some leave (see `Prices`); their
    stimuli go to others.
    """
    wanted = sum(capacity for capacity, _ in demands)
    n_runs = min(MAX_RUNS, max(MIN_RUNS, RESPONSES_SIMULATED // max(wanted, 1)))
    # 29: a stream of random numbers that no other simulation of a plan uses.
    runs = [
        _SimulatedCollection(demands, config, prices, np.random.default_rng((seed, 29, number)))
        for number in range(n_runs)
    ]
    for run in runs:
        run.collect()
    n_incomplete = [run.n_incomplete for run in runs]
    # Above the planned share, because so few runs know their extremes only roughly.
    enough = np.quantile([run.n_joined for run in runs], (1 + PLANNED_SHARE) / 2, method="higher")
    return Collection(
        int(enough),
        float(np.mean([run.n_short for run in runs])),
        n_incomplete.count(0) / n_runs,
        float(np.mean(n_incomplete)),
    )


class _SimulatedCollection:
    """One simulated collection."""

    def __init__(
        self,
        demands: Sequence[Demand],
        config: StudyConfig,
        prices: Prices,
        random: np.random.Generator,
    ) -> None:
        # In random order, which decides between stimuli with equally many responses.
        order = random.permutation(len(demands))
        self._images = [demands[index][1] for index in order]
        numbers = {name: number for number, name in enumerate({own[0] for own in self._images})}
        self._first_image = np.array([numbers[own[0]] for own in self._images], dtype=np.int64)
        self._wanted = np.array([demands[index][0] for index in order], dtype=np.int64)
        self._taken = np.zeros(len(demands), dtype=np.int64)
        self._config, self._prices, self._random = config, prices, random
        self.n_joined, self.n_short = 0, 0

    @property
    def n_incomplete(self) -> int:
        """Number of stimuli that lack responses."""
        return int((self._taken < self._wanted).sum())

    def collect(self) -> None:
        """Admit participants until none is admitted any more."""
        n_most = PATIENCE * (int(self._wanted.sum()) // self._config.trials + 1)
        n_most += PATIENCE * int(self._wanted.max(initial=0))
        while self.n_joined < n_most and self._admits():
            # With a larger minimum, nobody is admitted for what those who are present will need.
            n_present = PRESENT if self._config.min_main == 1 else 1
            n_open = int((self._wanted - self._taken).sum())
            share = min(self._config.trials, -(-n_open // n_present))
            returned: list[int] = []
            for _ in range(n_present):
                if not self._admits():
                    break
                self.n_joined += 1
                returned += self._take_part(share)
            np.subtract.at(self._taken, np.array(returned, dtype=np.int64), 1)

    def _admits(self) -> bool:
        is_open = self._taken < self._wanted
        n_open = int((self._wanted - self._taken).sum())
        if self._config.min_main == 1 or n_open < self._config.min_main:
            return n_open >= self._config.min_main
        n_images = np.count_nonzero(np.bincount(self._first_image[is_open]))
        return bool(n_images >= self._config.min_main)

    def _take_part(self, share: int) -> list[int]:
        """Let a participant respond; return the stimuli that go to others after the session."""
        fate = self._random.random()
        if fate < self._prices.excluded / 2:
            return []
        left_at = self._random.random() if fate > 1 - self._prices.leaving else 1.0
        stimuli = self._choose(min(share, round(left_at * self._config.trials)))
        self._taken[stimuli] += 1
        self.n_short += left_at == 1 and len(stimuli) < self._config.trials / 2
        has_left_early = len(stimuli) < self._config.trials / 2 and left_at < 1
        return stimuli if fate < self._prices.excluded or has_left_early else []

    def _choose(self, most: int) -> list[int]:
        open_ones = np.flatnonzero(self._taken < self._wanted)
        seen: set[Hashable] = set()
        chosen: list[int] = []
        for index in open_ones[np.argsort(self._taken[open_ones], kind="stable")].tolist():
            if len(chosen) >= most:
                break
            if seen.isdisjoint(self._images[index]):
                seen.update(self._images[index])
                chosen.append(index)
        return chosen
