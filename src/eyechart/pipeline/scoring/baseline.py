"""The baseline of CE: choose it before any prediction, and divide by its errors afterwards.

It is a built-in table, a model on the same images, or humans.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from eyechart.core.arguments import FilePath
from eyechart.core.csv_table import read_rows
from eyechart.core.errors import UsageError
from eyechart.core.randomness import hash64
from eyechart.core.registry import unknown_name
from eyechart.corruptions.suites.catalogue import list_corruptions
from eyechart.corruptions.suites.suite import all_entries
from eyechart.humans.combined import References
from eyechart.humans.reference import Reference
from eyechart.images.imageset import ImageSet
from eyechart.models.find import NAMED
from eyechart.models.model import Model
from eyechart.predictions.reading import Predictions
from eyechart.results.image_sets import ALEXNET_BASELINE, invalid_reason
from eyechart.results.model_results import (
    CorruptionResults,
    ModelResults,
    NormalizedErrors,
    SpaceResults,
)
from eyechart.scores.baseline_tables import Baseline, built_in, find_baseline, measured_baseline
from eyechart.scores.corruption_error import corruption_error, mean_corruption_error_replicates
from eyechart.scores.human_relative import clean_expected_error, expected_error
from eyechart.scores.scoring import Fit, human_curve
from eyechart.stats.estimate import Estimate, make_estimate, mean_estimate
from eyechart.testsets.plan import CLEAN, Plan
from eyechart.testsets.testset_settings import LEVELS, PARAMETERS

if TYPE_CHECKING:
    from eyechart.pipeline.settings import OneModel

AUTO, NONE, HUMANS = "auto", "none", "humans"
TABLE = ".csv"

PUBLISHED_TITLE = "AlexNet (published table)"
"""Title of the built-in tables, which all have the errors of AlexNet."""


@dataclass(frozen=True)
class BaselineChoice:
    """The baseline of CE: a table, a model or humans.

    `name`: name of the table or model, "humans", or "" for no baseline. `table`: the table, None
    for other baselines. `note` explains why there is no baseline although a built-in table exists.
    """

    name: str = ""
    table: Baseline | None = None
    note: str = ""

    @property
    def title(self) -> str:
        """What CE is computed against, or why there is no CE; "" if a suite has no table."""
        if not self.name:
            return self.note.rstrip(".")
        is_published = self.table is not None and bool(self.table.suites)
        return f"CE against {PUBLISHED_TITLE if is_published else self.name}"


def choose_baseline(
    wanted: str,
    plan: Plan,
    images: ImageSet,
    models: Sequence[str],
    has_testset: bool = False,
) -> BaselineChoice:
    """Return the baseline of CE.

    A built-in table is looked up by suite. "auto" selects the suite's first table that is valid for
    the images, or no baseline if there is no such table.

    Args:
        wanted: Name of a table or model, a CSV file, "humans", "auto" or "none".
        plan: Plan of the test.
        images: Images of the test.
        models: Names of the evaluated models.
        has_testset: Whether the samples come from a given test set.

    Raises:
        UsageError: If a table was requested that is not valid for these images.
    """
    if wanted == NONE:
        return BaselineChoice()
    if wanted == AUTO:
        return _automatic(plan, images, has_testset)
    if wanted == HUMANS:
        return BaselineChoice(HUMANS)
    if wanted in models:
        return BaselineChoice(wanted)
    if wanted.lower().endswith(TABLE):
        table = read_baseline(Path(wanted), [entry.name for entry in plan.entries()])
        return BaselineChoice(table.name, table)
    table = find_baseline(wanted, suite=plan.suite)
    reason = _invalid_reason(table, plan, images, has_testset)
    if reason is not None:
        raise UsageError(reason)
    return BaselineChoice(table.name, table)


def read_baseline(path: Path, tested: Sequence[str] = ()) -> Baseline:
    """Return the error rates in a CSV file with the columns corruption and error, in [0, 1].

    The row "clean" is the error rate on clean images. The user must ensure that the errors were
    measured on the same images.

    Args:
        path: The file.
        tested: Names that are valid in addition to the corruptions of known suites.
    """
    rows = read_rows(path, ("corruption", "error"))
    errors: dict[str, float] = {}
    known = {*all_entries(), *tested}
    for row in rows:
        name = row.filled("corruption")
        if name in errors:
            raise row.rejection(f"{name} appears twice")
        if name != CLEAN and name not in known:
            raise row.rejection(str(unknown_name("corruption", name, known)).rstrip(".?"))
        errors[name] = row.share("error")
    # The digest keeps two files with the same name apart.
    digest = f"{hash64(*(f'{name} {value!r}' for name, value in sorted(errors.items()))):016x}"
    clean = errors.pop(CLEAN, None)
    if not errors:
        raise UsageError(f"{path} has no error rate for any corruption: add a row for each.")
    return measured_baseline(f"{path.name}#{digest[:8]}", errors, clean)


def with_baseline(
    models: Sequence[Model],
    baseline: "OneModel | FilePath | None",
    load: Callable[[Any], Model],
) -> tuple[list[Model], str]:
    """Return the models, including the baseline (loaded if necessary), and the baseline's name."""
    reserved = (AUTO, NONE, HUMANS, *built_in())
    names = [model.name for model in models]
    if baseline is None:
        return list(models), NONE
    if isinstance(baseline, PathLike):
        baseline = fspath(baseline)
    if isinstance(baseline, str):
        if baseline.lower().endswith(TABLE) or baseline in (*reserved, *names):
            return list(models), baseline
        # A name without prefix or path may be a misspelt baseline or model: suggest both.
        is_bare = not set(baseline) & set(":./")
        if is_bare and baseline not in NAMED:
            # neither prefix nor file: what is misspelt may be a baseline's name or a model's
            raise unknown_name("baseline", baseline, (*reserved, *NAMED, *names))
    loaded = load(baseline)
    # The baseline may be one of the evaluated models under another spelling.
    if loaded.name in names:
        return list(models), loaded.name
    return [*models, loaded], loaded.name


def _automatic(plan: Plan, images: ImageSet, has_testset: bool) -> BaselineChoice:
    tables = [table for table in built_in().values() if plan.suite in table.suites]
    # Without labels there are no errors to divide.
    if not tables or all(label is None for label in images.labels):
        return BaselineChoice()
    reasons = {table.name: _invalid_reason(table, plan, images, has_testset) for table in tables}
    for table in tables:
        if reasons[table.name] is None:
            return BaselineChoice(table.name, table)
    return BaselineChoice(note=f"No CE: {reasons[tables[0].name]}")


def _is_even(plan: Plan, images: ImageSet) -> bool:
    """Whether every image appears equally often under every corruption."""
    drawn = [entry for entry in plan.entries() if not entry.at_levels]
    # Published files and fixed levels use every image; drawn samples do if n is a multiple.
    return images.files is not None or not drawn or plan.n % len(images) == 0


def _invalid_reason(table: Baseline, plan: Plan, images: ImageSet, has_testset: bool) -> str | None:
    # Tables are valid for one image size only, so that mixed sizes count as 0.
    sides = {side for size in images.sizes for side in size}
    if plan.labels == "entry16":
        return (
            f"The table '{table.name}' is valid for ImageNet's 1,000 classes, not for 16 "
            f"categories: use --labels native, or {ALEXNET_BASELINE}."
        )
    reason = invalid_reason(
        table,
        suite=plan.suite,
        corruptions=[entry.name for entry in plan.entries()],
        names=[image.name for image in images.listed],
        labels_per_class=Counter(label for label in images.labels if label is not None),
        side=sides.pop() if len(sides) == 1 else 0,
        published_files=images.files is not None,
        jpeg=plan.jpeg,
    )
    # A published error is a mean over all images at fixed strengths; other samples change it.
    is_published = plan.sampling in (LEVELS, PARAMETERS) and _is_even(plan, images)
    if reason is not None or (is_published and not has_testset):
        return reason
    remedy = f"give --sampling {PARAMETERS} --n {len(images)}"
    return (
        f"The table '{table.name}' is valid for the published strengths with every image used "
        f"equally often, but these samples differ: {'omit --testset' if has_testset else remedy}."
    )


@dataclass(frozen=True)
class BaselineError:
    """Error of a baseline under one corruption and on clean images; exact if taken from a table."""

    error: Estimate
    clean: Estimate | None


def normalize(
    models: Sequence[ModelResults],
    choice: BaselineChoice,
    plan: Plan,
    human_errors: Mapping[str, Mapping[str, BaselineError]],
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
            divisors = _baseline_errors(choice, name, models, human_errors)
            errors = _normalize(space, choice.name, divisors, suite)
            spaces[name] = space.model_copy(update={"corruption_error": errors})
        normalized.append(model.model_copy(update={"spaces": spaces}))
    return normalized


def human_error(
    references: References | Reference, corruption: str, outcomes: Predictions, fit: Fit
) -> BaselineError | None:
    """Return the human error rate expected on these samples; None without a human curve."""
    reference = references.source(corruption)
    # A curve that is corrected for chance gives no error rate to divide by.
    if reference is None or reference.corrected:
        return None
    human, _ = human_curve(reference, corruption, "accuracy", fit)
    if human is None:
        return None
    error = expected_error(human, outcomes, fit.seed)
    return None if error is None else BaselineError(error, clean_expected_error(human, fit.seed))


def _baseline_errors(
    choice: BaselineChoice,
    space: str,
    models: Sequence[ModelResults],
    human_errors: Mapping[str, Mapping[str, BaselineError]],
) -> Mapping[str, BaselineError]:
    if choice.name == HUMANS:
        return human_errors.get(space, {})
    if choice.table is not None:
        # Tables were measured in the dataset's classes.
        if space != "native":
            return {}
        table = choice.table
        clean = None if table.clean is None else _constant(table.clean)
        return {
            name: BaselineError(_constant(error), clean) for name, error in table.errors.items()
        }
    baseline = next(model for model in models if model.name == choice.name).spaces.get(space)
    if baseline is None:
        return {}
    return {
        corruption: BaselineError(score.error, score.clean_error)
        for corruption, score in baseline.corruptions.items()
        if score.error is not None
    }


def _constant(value: float) -> Estimate:
    # A published number has no sampling error here.
    return Estimate.of(value, (value, value), (value, value), np.array([value]))


def _normalize(
    space: SpaceResults, name: str, divisors: Mapping[str, BaselineError], suite: Sequence[str]
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
    corruption: str, score: CorruptionResults, name: str, divisor: BaselineError, *, relative: bool
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
