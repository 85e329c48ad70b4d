"""By whose errors those of models are divided: a table's, a model's on the same pictures, people's.

What is chosen is checked before the work; the division itself comes after it, in `normalise`.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eyechart.core.arguments import FilePath
from eyechart.core.csv_table import read_rows
from eyechart.core.errors import UsageError
from eyechart.core.randomness import hash64
from eyechart.core.registry import unknown_name
from eyechart.images.imageset import ImageSet
from eyechart.models.find import NAMED
from eyechart.models.model import Model
from eyechart.results.image_sets import INSTEAD, holds
from eyechart.scores.baseline_tables import Baseline, built_in, find_baseline, measured_baseline
from eyechart.suites.suite import all_entries
from eyechart.testsets.plan import CLEAN, Plan
from eyechart.testsets.testset_settings import PAPER

if TYPE_CHECKING:
    from eyechart.pipeline.settings import OneModel

AUTO, NONE, HUMANS = "auto", "none", "people"
TABLE = ".csv"


@dataclass(frozen=True)
class BaselineChoice:
    """Whose errors to divide by: a `table`, or of that `name` a model or people; "" for nobody's.

    `note`: why nobody's, where a table could have been.
    """

    name: str = ""
    table: Baseline | None = None
    note: str = ""


def choose_baseline(
    wanted: str,
    plan: Plan,
    images: ImageSet,
    models: Sequence[str],
    has_testset: bool = False,
) -> BaselineChoice:
    """Return whose errors to divide by; a table that does not hold for the pictures is refused.

    A table is looked up for the suite. "auto": the first table of the suite that holds, else
    nobody's. `has_testset`: the rows were given.
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
    why = _why_not(table, plan, images, has_testset)
    if why:
        raise UsageError(why)
    return BaselineChoice(table.name, table)


def read_baseline(path: Path, tested: Sequence[str] = ()) -> Baseline:
    """Return the errors in a CSV file with the columns corruption and error, shares 0…1.

    `tested`: names that may stand there besides those that are known here. A row whose corruption
    is "clean" has the error on clean pictures. The user answers for it that they are of the same
    pictures.
    """
    rows = read_rows(path, ("corruption", "error"))
    errors: dict[str, float] = {}
    known = {*all_entries(), *tested}
    for row in rows:
        name = row.filled("corruption")
        if name in errors:
            raise row.refusal(f"{name} is there twice")
        if name != CLEAN and name not in known:
            raise row.refusal(str(unknown_name("corruption", name, known)).rstrip(".?"))
        errors[name] = row.share("error")
    # two files of one name are two baselines
    digest = f"{hash64(*(f'{name} {value!r}' for name, value in sorted(errors.items()))):016x}"
    clean = errors.pop(CLEAN, None)
    if not errors:
        raise UsageError(f"{path} has no error of any corruption: add a row for each.")
    return measured_baseline(f"{path.name}#{digest[:8]}", errors, clean)


def with_baseline(
    models: Sequence[Model],
    baseline: "OneModel | FilePath | None",
    load: Callable[[Any], Model],
) -> tuple[list[Model], str]:
    """Return the models with that of the baseline, loaded if it is not among them, and its name."""
    reserved = (AUTO, NONE, HUMANS, *built_in())
    names = [model.name for model in models]
    if baseline is None:
        return list(models), NONE
    if isinstance(baseline, PathLike):
        baseline = fspath(baseline)
    if isinstance(baseline, str):
        if baseline.lower().endswith(TABLE) or baseline in (*reserved, *names):
            return list(models), baseline
        is_bare = not set(baseline) & set(":./")
        if is_bare and baseline not in NAMED:
            # neither prefix nor file: what is misspelt may be a baseline's name or a model's
            raise unknown_name("baseline", baseline, (*reserved, *NAMED, *names))
    loaded = load(baseline)
    if loaded.name in names:
        return list(models), loaded.name
    return [*models, loaded], loaded.name


def _automatic(plan: Plan, images: ImageSet, has_testset: bool) -> BaselineChoice:
    tables = [table for table in built_in().values() if plan.suite in table.suites]
    if not tables or all(label is None for label in images.labels):
        return BaselineChoice()
    reasons = {table.name: _why_not(table, plan, images, has_testset) for table in tables}
    for table in tables:
        if not reasons[table.name]:
            return BaselineChoice(table.name, table)
    return BaselineChoice(note=f"No CE: {reasons[tables[0].name]}")


def _is_even(plan: Plan, images: ImageSet) -> bool:
    """Whether every picture is there equally often under every corruption."""
    drawn = [entry for entry in plan.entries() if not entry.at_levels]
    return images.files is not None or not drawn or plan.n % len(images) == 0


def _why_not(table: Baseline, plan: Plan, images: ImageSet, has_testset: bool) -> str:
    sides = {side for size in images.sizes for side in size}
    if plan.labels == "entry16":
        return (
            f"The table '{table.name}' holds for ImageNet's 1,000 classes, not for 16 categories:"
            " use --labels native."
        )
    why = holds(
        table,
        suite=plan.suite,
        corruptions=[entry.name for entry in plan.entries()],
        names=[picture.name for picture in images.pictures],
        labels_per_class=Counter(label for label in images.labels if label is not None),
        side=sides.pop() if len(sides) == 1 else 0,
        published_files=images.files is not None,
        jpeg=plan.jpeg,
    )
    if not why and (has_testset or plan.sampling != PAPER or not _is_even(plan, images)):
        return (
            f"The table '{table.name}' holds for the published strengths, with every picture shown"
            f" equally often, and these were drawn otherwise: {INSTEAD}."
        )
    return why
