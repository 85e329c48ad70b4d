"""Comparisons between models, with humans, and between similar corruptions: κ and curves."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from math import comb
from pathlib import PurePath

import numpy as np
from numpy.typing import NDArray

from eyechart.core.arrays import IntArray
from eyechart.core.errors import UsageError
from eyechart.core.parallel import map_on_threads
from eyechart.core.progress import NO_PROGRESS, Progress
from eyechart.corruptions.suites.suite import Entry
from eyechart.humans.combined import References
from eyechart.humans.human_responses import HumanResponses
from eyechart.humans.importing import plain_condition, stimulus_of
from eyechart.humans.transfer import SimilarClasses
from eyechart.images.published_source import SEVERITIES
from eyechart.predictions.reading import PredictionReader, Predictions
from eyechart.results.model_results import CorruptionResults, ModelResults, SimilarPair
from eyechart.results.schema import ErrorAgreement, PairedComparison
from eyechart.scores.curve_significance import difference, intervals_overlap
from eyechart.scores.error_consistency import (
    ErrorConsistency,
    error_consistency,
    error_consistency_with_humans,
)
from eyechart.scores.registry import PROPERTIES
from eyechart.scores.scoring import Fit
from eyechart.scores.similar import compare_corruptions

HUMANS = "humans"
"""Name that stands for humans in place of a model's name."""

STEPS = 10
"""Number of ranges of Δv within which κ is computed if there are no severities."""

MAX_BOOTSTRAP_OF_KAPPA = 200
"""Maximum number of replicates, because recomputing κ of every pair in every range is slow."""

SAME_CHANGE = 1e6
"""Steps per unit of Δv: values rounded to the same step belong to the same stimulus."""

Key = tuple[str, str, str]
"""Key of a stimulus: corruption, image, Δv; or `STIMULUS` + experiment, image, condition."""

STIMULUS = "stimulus of "
"""Prefix that replaces the corruption's name for an image that was evaluated unchanged."""


@dataclass(frozen=True, eq=False)
class Trials:
    """A model's predictions for all corruptions, in the order of samples.

    Attributes:
        right: 1 if correct, 0 if incorrect, NaN without a label.
        image: Index of the image.
        condition: Corruption and strength as one number.
        delta_v: Visual change.
        corruption: Index of the corruption among the entries.
    """

    right: NDArray[np.float64]
    image: IntArray
    condition: IntArray
    delta_v: NDArray[np.float64]
    corruption: IntArray


def agreements(
    recorded: Mapping[str, Mapping[str, PredictionReader]],
    entries: Sequence[Entry],
    references: References | None,
    fit: Fit,
    progress: Progress,
) -> Iterator[ErrorAgreement]:
    """Yield κ of every pair of models, and of each model with humans who saw the same images.

    κ is computed within each corruption and severity (or tenth of the range of Δv) and averaged.
    Images that are stimuli of a published experiment are not corrupted; for them, κ is computed
    within each condition of the experiment.

    Args:
        recorded: Predictions by label space and model.
        entries: Corruptions of the test.
        references: Human references.
        fit: Settings with replicates and seed.
        progress: Receives one step per pair of models.
    """
    pairs = sum(comb(len(readers), 2) for readers in recorded.values())
    step = progress.begin("agreement", pairs) if pairs else NO_PROGRESS.begin("", 0)
    for space, readers in recorded.items():
        # Humans responded in the 16 categories.
        responses = None if references is None or space != "entry16" else references.responses
        has_humans = responses is not None and bool((responses.image != "").any())
        if len(readers) < 2 and not has_humans:
            continue
        trials = {model: _trials(reader, model, entries) for model, reader in readers.items()}
        for one, two in combinations(trials, 2):
            consistency = _kappa(trials[one], trials[two], fit)
            step(1, "")
            if consistency is not None:
                yield _agreement(space, one, two, consistency)
        if responses is None or not has_humans:
            continue
        for model, corrupted in trials.items():
            names = readers[model].image_names(model)
            stimuli, stimulus_indices = _stimuli(readers[model].clean(model), names, entries)
            # Stimuli are appended after the samples of all corruptions.
            n_corrupted = len(corrupted.right)
            indices = _indices(corrupted, names, entries) | {
                key: n_corrupted + index for key, index in stimulus_indices.items()
            }
            both = _joined(corrupted, stimuli)
            consistency = _with_humans(both, indices, responses, fit)
            if consistency is not None:
                yield _agreement(space, model, HUMANS, consistency)


def _agreement(
    space: str, first: str, second: str, consistency: ErrorConsistency
) -> ErrorAgreement:
    return ErrorAgreement(
        space=space,
        first=first,
        second=second,
        kappa=consistency.kappa,
        trials=consistency.trials,
    )


def _trials(recorded: PredictionReader, model: str, entries: Sequence[Entry]) -> Trials:
    parts = [recorded.outcomes(model, entry.name) for entry in entries]
    corruption = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    strength = np.concatenate([_strengths(part) for part in parts])
    return Trials(
        np.concatenate([part.correct for part in parts]),
        np.concatenate([part.image for part in parts]),
        # One code per corruption and strength; strengths are 0…STEPS.
        corruption * (STEPS + 1) + strength,
        np.concatenate([part.delta_v for part in parts]),
        corruption,
    )


def _strengths(outcomes: Predictions) -> IntArray:
    """Return a code for the severity of each sample, or for its tenth of the range of Δv.

    Samples with neither get one additional code.
    """
    known = outcomes.severity[~np.isnan(outcomes.severity)]
    if len(known) and np.isin(known, SEVERITIES).all():
        return np.nan_to_num(outcomes.severity, nan=STEPS).astype(np.int64)
    steps = np.minimum(np.floor(outcomes.delta_v * STEPS), STEPS - 1)
    return np.nan_to_num(steps, nan=STEPS).astype(np.int64)


def _kappa(one: Trials, two: Trials, fit: Fit) -> ErrorConsistency | None:
    try:
        return error_consistency(
            one.right,
            two.right,
            one.image,
            conditions=one.condition,
            n_bootstrap=_replicates(fit),
            seed=fit.seed,
        )
    except UsageError:
        return None  # without labels there is no correct or incorrect


def _indices(trials: Trials, names: Sequence[str], entries: Sequence[Entry]) -> dict[Key, int]:
    """Return the index of each trial by corruption, image and Δv."""
    # Rounded, since Δv that went through a file may differ in the last digit.
    change = np.rint(trials.delta_v * SAME_CHANGE)
    stems = [_stem(name) for name in names]
    return {
        (entries[corruption].name, stems[image], str(level)): index
        for index, (corruption, image, level) in enumerate(
            zip(trials.corruption.tolist(), trials.image.tolist(), change.tolist(), strict=True)
        )
    }


def _stimuli(
    clean: Predictions, names: Sequence[str], entries: Sequence[Entry]
) -> tuple[Trials, dict[Key, int]]:
    """Return the predictions for images that are stimuli of an experiment, and each one's index.

    They are recognized by file name (`stimulus_of`) and were evaluated as they are, so no Δv is
    needed to know that model and humans saw the same stimulus.
    """
    keys = [
        (STIMULUS + experiment, image, plain_condition(condition)) if condition else None
        for experiment, condition, image in map(stimulus_of, names)
    ]
    kept = np.array([keys[index] is not None for index in clean.image.tolist()], dtype=bool)
    stimuli = clean.select(kept)
    known = [key for index in stimuli.image.tolist() if (key := keys[index]) is not None]
    conditions = [(experiment, condition) for experiment, _, condition in known]
    codes = {condition: code for code, condition in enumerate(sorted(set(conditions)))}
    condition_codes = np.array([codes[condition] for condition in conditions], dtype=np.int64)
    # Condition codes of stimuli start after those of all corruptions.
    first = len(entries) * (STEPS + 1)
    trials = Trials(
        stimuli.correct,
        stimuli.image,
        first + condition_codes,
        stimuli.delta_v,
        np.full(len(known), len(entries)),
    )
    return trials, {key: index for index, key in enumerate(known)}


def _joined(one: Trials, two: Trials) -> Trials:
    columns = ("right", "image", "condition", "delta_v", "corruption")
    return Trials(*(np.concatenate([getattr(one, c), getattr(two, c)]) for c in columns))


def _with_humans(
    trials: Trials, indices: Mapping[Key, int], responses: HumanResponses, fit: Fit
) -> ErrorConsistency | None:
    """Return κ with humans; None if they saw none of the images.

    Args:
        trials: The model's trials.
        indices: Index of each stimulus in the trials.
        responses: Human responses. Responses without Δv are matched by experiment, condition and
            image.
        fit: Settings with replicates and seed.
    """
    change = np.rint(responses.delta_v * SAME_CHANGE)
    rows: dict[str, NDArray[np.float64]] = {}
    for corruption, image, experiment, condition, level, subject, right in zip(
        responses.corruption.tolist(), responses.image.tolist(), responses.stimulus_set.tolist(),
        responses.condition.tolist(), change.tolist(), responses.subject.tolist(),
        responses.correct.tolist(), strict=True,
    ):  # fmt: skip
        key = (corruption, _stem(image), str(level))
        if np.isnan(level):
            key = (STIMULUS + experiment, image, plain_condition(condition))
        index = indices.get(key)
        # Counts per condition have no single trials, and κ needs them.
        if index is None or not image or right not in (0.0, 1.0):
            continue
        if subject not in rows:
            rows[subject] = np.full(len(trials.right), np.nan)
        rows[subject][index] = right
    if not rows:
        return None
    # Trials that no human did would only cost memory in the bootstrap.
    seen = np.flatnonzero(~np.isnan(np.stack(list(rows.values()))).all(axis=0))
    return error_consistency_with_humans(
        trials.right[seen],
        [row[seen] for row in rows.values()],
        trials.image[seen],
        conditions=trials.condition[seen],
        n_bootstrap=_replicates(fit),
        seed=fit.seed,
    )


def _replicates(fit: Fit) -> int:
    # Every pair of models is resampled; the intervals of κ do not need more replicates.
    return min(fit.n_bootstrap, MAX_BOOTSTRAP_OF_KAPPA)


def _stem(name: str) -> str:
    return PurePath(name).stem


def similar_corruptions(
    scores: Mapping[str, CorruptionResults], classes: SimilarClasses, n_threads: int = 1
) -> Iterator[SimilarPair]:
    """Start to compare a model's scores between similar corruptions; return the differences.

    Accuracy comes first, then consistency. One human curve is used for both corruptions, or one for
    each if humans responded to both.
    """
    kinds = {name: classes.name_of(name) for name in scores}
    pairs = [
        (letter, first, second)
        for letter in PROPERTIES
        for first, second in combinations(scores, 2)
        if kinds[first] is not None and kinds[first] == kinds[second]
    ]
    compared = map_on_threads(partial(_similar_pair, scores), pairs, n_threads)
    return (pair for pair in compared if pair is not None)


def _similar_pair(
    scores: Mapping[str, CorruptionResults], pair: tuple[str, str, str]
) -> SimilarPair | None:
    """Return how a property differs between two corruptions; None if they have no scores."""
    letter, first, second = pair
    properties = (scores[name].properties.get(letter) for name in (first, second))
    one, two = (None if score is None else score.humans for score in properties)
    # Scores with and without correction for chance are on different scales.
    if one is None or two is None or one.corrected_for_chance != two.corrected_for_chance:
        return None
    human, second_human = one.line.fitted, two.line.fitted
    difference_of_scores = compare_corruptions(
        human,
        one.model_line.fitted,
        two.model_line.fitted,
        # The identity shows whether one human curve is used for both corruptions.
        second_human=None if second_human is human else second_human,
    )
    return SimilarPair(**dict(difference_of_scores), first=first, second=second, property=letter)


def paired_models(models: Sequence[ModelResults]) -> Iterator[PairedComparison]:
    """Yield how the curves of each pair of models differ, on the same samples.

    Label spaces with insufficient data are left out.
    """
    for first, second in combinations(models, 2):
        for space in first.spaces:
            # A difference of two models is a claim, which insufficient data do not allow.
            if space not in second.spaces or first.spaces[space].verdict:
                continue
            for corruption, score in first.spaces[space].corruptions.items():
                other = second.spaces[space].corruptions[corruption]
                for letter in PROPERTIES:
                    properties = (scores.properties.get(letter) for scores in (score, other))
                    one, two = (None if rates is None else rates.curve for rates in properties)
                    if one is None or two is None:
                        continue
                    yield PairedComparison(
                        space=space,
                        corruption=corruption,
                        property=letter,
                        first=first.name,
                        second=second.name,
                        difference=difference(one.fitted, two.fitted, paired=True),
                        intervals_overlap=intervals_overlap(one.fitted, two.fitted),
                    )
