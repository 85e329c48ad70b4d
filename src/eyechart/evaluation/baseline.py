"""By whose errors those of models are divided: a table's, a model's on the same pictures, people's.

What is chosen is checked before the work; the division itself comes after it.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from eyechart.core.errors import UsageError
from eyechart.core.registry import unknown_name
from eyechart.humans.reference import Reference
from eyechart.humans.tables import read_rows
from eyechart.images.imageset import ImageSet
from eyechart.models.find import NAMED
from eyechart.models.model import Model
from eyechart.predictions.outcomes import Outcomes
from eyechart.scores.baselines import (
    Baseline,
    built_in,
    find_baseline,
    holds,
    measured_baseline,
)
from eyechart.scores.corruption_error import (
    corruption_error,
    mean_corruption_error_replicates,
)
from eyechart.scores.estimate import Estimate, make_estimate, mean_estimate
from eyechart.scores.evaluation import CorruptionScore, ModelScore, Normalised, SpaceScore
from eyechart.scores.expected import clean_expected_error, expected_error
from eyechart.scores.scoring import Fit
from eyechart.suites.catalogue import list_corruptions
from eyechart.suites.suite import all_entries
from eyechart.testsets.drawing import Plan
from eyechart.testsets.draws import CLEAN

AUTO, NONE, PEOPLE = "auto", "none", "people"
TABLE = ".csv"


@dataclass(frozen=True)
class Choice:
    """Whose errors to divide by: a `table`, or of that `name` a model or people; "" for nobody's.

    `note`: why nobody's, where a table could have been.
    """

    name: str = ""
    table: Baseline | None = None
    note: str = ""


@dataclass(frozen=True)
class Divisor:
    """A baseline's error under one corruption, and that of clean pictures; tables do not vary."""

    error: Estimate
    clean: Estimate | None


def choose_baseline(wanted: str, plan: Plan, images: ImageSet, models: Sequence[str]) -> Choice:
    """Return whose errors to divide by; a table that does not hold for the pictures is refused.

    "auto": the table of the suite if it holds, else nobody's.
    """
    if wanted == NONE:
        return Choice()
    if wanted == AUTO:
        return _automatic(plan, images)
    if wanted == PEOPLE:
        return Choice(PEOPLE)
    if wanted in models:
        return Choice(wanted)
    if wanted.endswith(TABLE):
        table = read_baseline(Path(wanted))
        return Choice(table.name, table)
    table = find_baseline(wanted)
    why = _why_not(table, plan, images)
    if why:
        raise UsageError(why)
    return Choice(table.name, table)


def read_baseline(path: Path) -> Baseline:
    """Return the errors in a CSV file with the columns corruption and error, shares 0…1.

    A row whose corruption is "clean" has the error on clean pictures. The user answers for it that
    they are of the same pictures.
    """
    rows = read_rows(path, ("corruption", "error"))
    errors: dict[str, float] = {}
    for row in rows:
        name = row.filled("corruption")
        if name in errors:
            raise row.refusal(f"{name} is there twice")
        if name != CLEAN and name not in all_entries():
            raise row.refusal(str(unknown_name("corruption", name, all_entries())).rstrip("."))
        errors[name] = row.share("error")
    return measured_baseline(path.stem, errors, errors.pop(CLEAN, None))


def with_baseline(
    models: Sequence[Model], baseline: Any, load: Callable[[Any], Model]
) -> tuple[list[Model], str]:
    """Return the models with that of the baseline, loaded if it is not among them, and its name."""
    own = (AUTO, NONE, PEOPLE, "robustbench-alexnet", *built_in())
    names = [model.name for model in models]
    if baseline is None:
        return list(models), NONE
    if isinstance(baseline, str) and (baseline in (*own, *names) or baseline.endswith(TABLE)):
        return list(models), baseline
    is_bare = isinstance(baseline, str) and not set(baseline) & set(":./")
    if is_bare and baseline not in NAMED:
        # neither prefix nor file: what is misspelt may be a baseline's name or a model's
        raise unknown_name("baseline", baseline, (*own, *NAMED, *names))
    loaded = load(baseline)
    if loaded.name in names:
        return list(models), loaded.name
    return [*models, loaded], loaded.name


def _automatic(plan: Plan, images: ImageSet) -> Choice:
    table = next((own for own in built_in().values() if plan.suite in own.suites), None)
    if table is None or all(label is None for label in images.labels):
        return Choice()
    why = _why_not(table, plan, images)
    return Choice(note=f"No CE: {why}") if why else Choice(table.name, table)


def _why_not(table: Baseline, plan: Plan, images: ImageSet) -> str:
    sides = {side for size in images.sizes for side in size}
    if plan.labels == "entry16":
        return (
            f"The table '{table.name}' holds for ImageNet's 1,000 classes, not for 16 categories:"
            " use --labels native."
        )
    return holds(
        table,
        suite=plan.suite,
        corruptions=[entry.name for entry in plan.entries()],
        names=[picture.name for picture in images.pictures],
        labels_per_class=Counter(label for label in images.labels if label is not None),
        side=sides.pop() if len(sides) == 1 else 0,
        published_files=images.files is not None,
        jpeg=plan.jpeg,
    )


def normalise(
    models: Sequence[ModelScore],
    choice: Choice,
    plan: Plan,
    people: Mapping[str, Mapping[str, Divisor]],
) -> list[ModelScore]:
    """Return the models with CE and relative CE in every label space that the baseline has.

    `people`: their errors by label space and corruption.
    """
    if not choice.name:
        return list(models)
    suite = list_corruptions(plan.suite)
    found = []
    for model in models:
        spaces = []
        for space in model.spaces:
            divisors = _divisors(choice, space, models, people)
            own = _normalised(space, choice.name, divisors, suite)
            spaces.append(replace(space, normalised=own))
        found.append(replace(model, spaces=tuple(spaces)))
    return found


def _divisors(
    choice: Choice,
    space: SpaceScore,
    models: Sequence[ModelScore],
    people: Mapping[str, Mapping[str, Divisor]],
) -> Mapping[str, Divisor]:
    if choice.name == PEOPLE:
        return people.get(space.space, {})
    if choice.table is not None:
        if space.space != "native":
            return {}
        table = choice.table
        clean = None if table.clean is None else _constant(table.clean)
        return {name: Divisor(_constant(error), clean) for name, error in table.errors.items()}
    own = next(model for model in models if model.name == choice.name).space(space.space)
    if own is None:
        return {}
    return {
        score.corruption: Divisor(score.error, score.clean_error)
        for score in own.corruptions
        if score.error is not None
    }


def _constant(value: float) -> Estimate:
    return Estimate(value, (value, value), (value, value), np.array([value]))


def _normalised(
    space: SpaceScore, name: str, divisors: Mapping[str, Divisor], suite: Sequence[str]
) -> Normalised | None:
    """Return the errors of one model divided by the baseline's, where both have them."""
    plain: dict[str, Estimate] = {}
    relative: dict[str, Estimate] = {}
    notes: dict[str, None] = {}
    for score in space.corruptions:
        divisor = divisors.get(score.corruption)
        if divisor is None or score.error is None:
            continue
        for kind, into in ((False, plain), (True, relative)):
            try:
                own = _divided(score, name, divisor, kind)
            except UsageError as error:
                notes[str(error)] = None
                continue
            if own is not None:
                into[score.corruption] = own
    if not plain:
        return None
    return Normalised(
        name,
        plain,
        relative,
        _mean(plain, suite),
        _mean(relative, suite),
        _note(plain, suite, list(notes)),
    )


def _divided(
    score: CorruptionScore, name: str, divisor: Divisor, relative: bool
) -> Estimate | None:
    error, clean, corruption = score.error, score.clean_error, score.corruption
    if error is None or (relative and (clean is None or divisor.clean is None)):
        return None
    base_clean = None if divisor.clean is None else divisor.clean.value
    table = measured_baseline(name, {corruption: divisor.error.value}, base_clean)
    value = corruption_error(
        {corruption: error.value}, table, None if clean is None else clean.value, relative
    ).values[corruption]
    drawn = mean_corruption_error_replicates(
        {corruption: error.replicates},
        table,
        None if clean is None else clean.replicates,
        relative,
        [corruption],
        {corruption: divisor.error.replicates},
        None if divisor.clean is None else divisor.clean.replicates,
    ).values[corruption]
    return make_estimate(value, drawn)


def _mean(values: Mapping[str, Estimate], suite: Sequence[str]) -> Estimate | None:
    """Return the mean over a whole suite; ImageNet-C's extras have none, nor do single ones."""
    if not set(suite) <= set(values) or _are_extras(suite):
        return None
    return mean_estimate([values[name] for name in suite])


def _are_extras(suite: Sequence[str]) -> bool:
    return set(suite) == set(list_corruptions("imagenet-c-extra"))


def _note(values: Mapping[str, Estimate], suite: Sequence[str], notes: Sequence[str]) -> str:
    if _are_extras(suite):
        return "No mCE: the four extra corruptions are no part of it."
    if not set(suite) <= set(values):
        why = f" ({notes[0].rstrip('.')})" if notes else ""
        return (
            f"No mCE: it is the mean over {len(suite)} corruptions, and CE is known of"
            f" {len(values)}{why}."
        )
    return ""


def people_error(
    reference: Reference, corruption: str, outcomes: Outcomes, fit: Fit
) -> Divisor | None:
    """Return how often people would be wrong on these pictures, None where nobody was asked."""
    human = reference.curve(corruption, "accuracy", replicates=fit.replicates, density=fit.density)
    if human is None:
        return None
    error = expected_error(human, outcomes, fit.seed)
    return None if error is None else Divisor(error, clean_expected_error(human, fit.seed))
