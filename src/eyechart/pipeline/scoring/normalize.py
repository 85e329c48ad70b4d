"""Divide a model's errors by a baseline's: CE and relative CE, and their means over a suite."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from eyechart.core.errors import UsageError
from eyechart.corruptions.suites.catalogue import list_corruptions
from eyechart.humans.combined import References
from eyechart.humans.reference import Reference
from eyechart.pipeline.scoring.baseline_choice import HUMANS, BaselineChoice
from eyechart.predictions.reading import Predictions
from eyechart.results.model_results import (
    CorruptionResults,
    ModelResults,
    NormalizedErrors,
    SpaceResults,
)
from eyechart.scores.baseline_tables import measured_baseline
from eyechart.scores.corruption_error import corruption_error, mean_corruption_error_replicates
from eyechart.scores.human_relative import clean_expected_error, expected_error
from eyechart.scores.scoring import Fit, human_curve
from eyechart.stats.estimate import Estimate, make_estimate, mean_estimate
from eyechart.testsets.plan import Plan


@dataclass(frozen=True)
class Divisor:
    """Error of a baseline under one corruption and on clean images; exact if taken from a table."""

    error: Estimate
    clean: Estimate | None


def normalize(
    models: Sequence[ModelResults],
    choice: BaselineChoice,
    plan: Plan,
    human_errors: Mapping[str, Mapping[str, Divisor]],
) -> list[ModelResults]:
    """Return the models with CE and relative CE in every label space the baseline covers.

    `human_errors` contains human errors by label space and corruption.
    """
    if not choice.name:
        return list(models)
    # The mean needs the whole suite, even if only some corruptions were tested.
    suite = plan.all_names()
    if choice.table is not None and set(choice.table.corruptions) <= set(suite):
        # Of NOC's candidate corruptions, only the eight of ImageNet-NOC enter the mean.
        suite = list(choice.table.corruptions) or suite
    normalized = []
    for model in models:
        spaces = {}
        for name, space in model.spaces.items():
            divisors = _divisors(choice, name, models, human_errors)
            errors = _normalize(space, choice.name, divisors, suite)
            spaces[name] = space.model_copy(update={"corruption_error": errors})
        normalized.append(model.model_copy(update={"spaces": spaces}))
    return normalized


def human_error(
    references: References | Reference, corruption: str, outcomes: Predictions, fit: Fit
) -> Divisor | None:
    """Return the human error rate expected on these samples; None without a human curve."""
    reference = references.source(corruption)
    # A curve that is corrected for chance gives no error rate to divide by.
    if reference is None or reference.corrected:
        return None
    human, _ = human_curve(reference, corruption, "accuracy", fit)
    if human is None:
        return None
    error = expected_error(human, outcomes, fit.seed)
    return None if error is None else Divisor(error, clean_expected_error(human, fit.seed))


def _divisors(
    choice: BaselineChoice,
    space: str,
    models: Sequence[ModelResults],
    human_errors: Mapping[str, Mapping[str, Divisor]],
) -> Mapping[str, Divisor]:
    if choice.name == HUMANS:
        return human_errors.get(space, {})
    if choice.table is not None:
        # Tables were measured in the dataset's classes.
        if space != "native":
            return {}
        table = choice.table
        clean = None if table.clean is None else _constant(table.clean)
        return {name: Divisor(_constant(error), clean) for name, error in table.errors.items()}
    baseline = next(model for model in models if model.name == choice.name).spaces.get(space)
    if baseline is None:
        return {}
    return {
        corruption: Divisor(score.error, score.clean_error)
        for corruption, score in baseline.corruptions.items()
        if score.error is not None
    }


def _constant(value: float) -> Estimate:
    # A published number has no sampling error here.
    return Estimate.of(value, (value, value), (value, value), np.array([value]))


def _normalize(
    space: SpaceResults, name: str, divisors: Mapping[str, Divisor], suite: Sequence[str]
) -> NormalizedErrors | None:
    """Return a model's errors divided by the baseline's; None if they share no corruption."""
    ratios: dict[bool, dict[str, Estimate]] = {False: {}, True: {}}
    reasons: dict[bool, dict[str, None]] = {False: {}, True: {}}
    both = [
        (corruption, score, divisors[corruption])
        for corruption, score in space.corruptions.items()
        if corruption in divisors and score.error is not None
    ]
    if not both:
        return None
    for corruption, score, divisor in both:
        # Relative CE can fail alone, where a corruption adds no errors to the baseline.
        for relative in (False, True):
            try:
                ratios[relative][corruption] = _divided(
                    corruption, score, name, divisor, relative=relative
                )
            except UsageError as error:
                reasons[relative][str(error)] = None
    return NormalizedErrors(
        baseline=name,
        ce=ratios[False],
        mce=_mean(ratios[False], suite),
        relative_ce=ratios[True],
        relative_mce=_mean(ratios[True], suite),
        note=_note(ratios, suite, reasons),
    )


def _divided(
    corruption: str, score: CorruptionResults, name: str, divisor: Divisor, *, relative: bool
) -> Estimate:
    error, clean = score.error, score.clean_error
    assert error is not None
    base_clean = None if divisor.clean is None else divisor.clean.value
    table = measured_baseline(name, {corruption: divisor.error.value}, base_clean)
    value = corruption_error(
        {corruption: error.value}, table, None if clean is None else clean.value, relative
    ).values[corruption]
    # The baseline relative to itself is 1, also in replicates without any error.
    if divisor.error is error:
        # the baseline relative to itself, also in replicates without any error
        return make_estimate(1.0, np.ones(len(error.replicates)))
    drawn = mean_corruption_error_replicates(
        {corruption: error.replicates},
        table,
        None if clean is None else clean.replicates,
        relative,
        corruptions=[corruption],
        baseline_errors={corruption: divisor.error.replicates},
        baseline_clean=None if divisor.clean is None else divisor.clean.replicates,
    ).values[corruption]
    estimate = make_estimate(value, drawn)
    if relative or np.isnan(drawn).any() or (len(divisor.error.replicates) > 1 and error.value):
        return estimate
    # Tables are constant, and so is a model without errors: use at least the interval of the error.
    base = divisor.error.value
    wide, narrow = (
        (min(interval[0], bound[0] / base), max(interval[1], bound[1] / base))
        for interval, bound in (
            (estimate.interval95, error.interval95),
            (estimate.interval83, error.interval83),
        )
    )
    return estimate.model_copy(update={"interval95": wide, "interval83": narrow})


def _mean(values: Mapping[str, Estimate], suite: Sequence[str]) -> Estimate | None:
    """Return the mean over the whole suite; None for ImageNet-C's extras and incomplete suites."""
    if not set(suite) <= set(values) or _are_extras(suite):
        return None
    # Without a number of units, because ratios of errors are not shares and may exceed 1.
    return mean_estimate([values[name] for name in suite])


def _are_extras(suite: Sequence[str]) -> bool:
    return set(suite) <= set(list_corruptions("imagenet-c-extra"))


def _note(
    ratios: Mapping[bool, Mapping[str, Estimate]],
    suite: Sequence[str],
    reasons: Mapping[bool, Mapping[str, None]],
) -> str:
    """Return why there is no mCE, or no relative mCE, in one sentence."""
    if _are_extras(suite):
        return "No mCE: mCE does not include the extra corruptions."
    for relative, title in ((False, "mCE"), (True, "relative mCE")):
        if not set(suite) <= set(ratios[relative]):
            why = next(iter(reasons[relative]), "").rstrip(".")
            return (
                f"No {title}: it is the mean over {len(suite)} corruptions, but "
                f"{'relative ' if relative else ''}CE is known for {len(ratios[relative])}"
                + (f" ({why})." if why else ".")
            )
    return ""
