"""Plan a study, with its budget, from a test set and the experimenter's request."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pydantic import JsonValue

from eyechart.core.errors import UsageError
from eyechart.core.randomness import hash64
from eyechart.core.registry import unknown_name
from eyechart.humans.placement import HUMAN_RULER
from eyechart.testsets.testset import TestSet
from eyechart_experiment.design.budget import (
    Budget,
    Collection,
    Losses,
    Prices,
    plan_budget,
    plan_collection,
)
from eyechart_experiment.design.pair_design import Question, design_pairs, questions_of
from eyechart_experiment.design.plan_text import plan_text
from eyechart_experiment.design.stimulus_design import (
    CATCH,
    MAIN,
    QUALIFICATION,
    Chosen,
    PlannedStimulus,
    design_categories,
    source_loads,
)
from eyechart_experiment.design.study_build import StudyOrder, StudyOrigin
from eyechart_experiment.design.study_samples import (
    StudyImage,
    find_images,
    group_by_source,
    read_rows,
)
from eyechart_experiment.design.study_settings import PER_PAIR, StudyRequest, StudySettings
from eyechart_experiment.storage.experiment_folder import full_url, read_secret


@dataclass(frozen=True)
class StudyPlan:
    """A planned study, the collection of its responses, and its budget.

    `left_out` is the number of images whose Δv is unknown. `drawn` are the roles, of the
    qualification and catch trials, whose images were drawn at random.
    """

    order: StudyOrder
    collection: Collection
    budget: Budget
    prices: Prices
    left_out: int
    drawn: tuple[str, ...]

    def text(self, side: int) -> str:
        """Return the plan in words, for images `side` px wide and high."""
        config = self.order.config
        stimuli = self.order.stimuli
        return plan_text(
            config, side, stimuli, self.budget, self.collection,
            prices=self.prices, left_out=self.left_out, drawn=self.drawn,
        )  # fmt: skip


def plan_study(
    testset: TestSet, settings: StudySettings, request: StudyRequest, prices: Prices
) -> StudyPlan:
    """Return the plan of the requested study.

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
    stimuli = _stimuli(sources, testset, settings, request, chosen)
    responses = sum(stimulus.capacity or 0 for stimulus in stimuli)
    loads = source_loads(stimuli)
    settings, collection = _admission(settings, stimuli, prices, request.seed)
    budget = plan_budget(
        settings.config, responses, loads, prices, settings.minutes, collection.n_participants
    )
    # Plain JSON values, as they are read back from the record of the build.
    design: dict[str, JsonValue] = {
        "catch_pool": request.catch_pool, "pairs": [*request.pairs], "per_pair": request.per_pair,
    }  # fmt: skip
    for role, images in chosen.items():
        design[role] = [*sorted(image.digest for image in images)]
    order = StudyOrder(
        request.folder,
        settings.final(budget.minutes),
        testset,
        stimuli,
        request.seed,
        design,
        None if request.database is None else full_url(request.database),
        None if request.secret is None else read_secret(request.secret),
        _origin(testset, request),
    )
    roles = {stimulus.role for stimulus in stimuli} - chosen.keys()
    drawn = tuple(role for role in (QUALIFICATION, CATCH) if role in roles)
    left_out = sum(row.delta_v is None for row in rows if not row.is_clean)
    return StudyPlan(order, collection, budget, prices, left_out, drawn)


def _origin(testset: TestSet, request: StudyRequest) -> StudyOrigin:
    plan = testset.plan
    # Names alone: the folders of a machine are nobody else's business.
    return StudyOrigin(
        testset=request.testset.resolve().name,
        images="demo images" if request.images is None else request.images.resolve().name,
        suite=plan.suite,
        sampling=str(plan.sampling),
        n=plan.n,
        seed=plan.seed,
    )


def _admission(
    settings: StudySettings, stimuli: Sequence[PlannedStimulus], prices: Prices, seed: int
) -> tuple[StudySettings, Collection]:
    """Return the settings with the minimum of trials with which the study becomes complete.

    If participants are admitted only for half of the main trials, the last stimuli stay open.
    """
    places = [
        (stimulus.capacity or 0, tuple({row.digest for row in stimulus.images}))
        for stimulus in stimuli
        if stimulus.role == MAIN
    ]
    losses = Losses(prices.excluded, prices.leaving)
    collection = plan_collection(places, settings.config, losses, seed)
    if not collection.is_complete and not settings.config.min_trials:
        settings = replace(settings, config=replace(settings.config, min_trials=1))
        collection = plan_collection(places, settings.config, losses, seed)
    return settings, collection


def _stimuli(
    sources: Sequence[StudyImage],
    testset: TestSet,
    settings: StudySettings,
    request: StudyRequest,
    chosen: Chosen,
) -> list[PlannedStimulus]:
    config = settings.config
    # Each study sets different images aside, so that a returning participant has not seen all of
    # them.
    seed = hash64(request.seed, config.name) % 2**32
    if config.kind == "categorise":
        return design_categories(sources, config, seed, request.catch_pool, chosen)
    names = testset.corruptions
    questions = (
        [find_question(text, names, testset.plan.suite) for text in request.pairs]
        if request.pairs
        else questions_of(names)
    )
    unique = list(dict.fromkeys(questions))
    per_pair = PER_PAIR if request.per_pair is None else request.per_pair
    return design_pairs(sources, unique, per_pair, config, seed=seed, catch_pool=request.catch_pool)


def find_question(text: str, names: Sequence[str], suite: str) -> Question:
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
    return Question(*sorted(pair))
