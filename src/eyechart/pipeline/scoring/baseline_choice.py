"""Choose the baseline of CE: a built-in table, a model on the same images, or humans.

The choice is checked before any predictions; later, `normalize` divides by the baseline.
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
from eyechart.corruptions.suites.suite import all_entries
from eyechart.images.imageset import ImageSet
from eyechart.models.find import NAMED
from eyechart.models.model import Model
from eyechart.results.image_sets import ALEXNET_BASELINE, holds
from eyechart.scores.baseline_tables import Baseline, built_in, find_baseline, measured_baseline
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
    why = _why_not(table, plan, images, has_testset)
    if why:
        raise UsageError(why)
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
    reasons = {table.name: _why_not(table, plan, images, has_testset) for table in tables}
    for table in tables:
        if not reasons[table.name]:
            return BaselineChoice(table.name, table)
    return BaselineChoice(note=f"No CE: {reasons[tables[0].name]}")


def _is_even(plan: Plan, images: ImageSet) -> bool:
    """Whether every image appears equally often under every corruption."""
    drawn = [entry for entry in plan.entries() if not entry.at_levels]
    # Published files and fixed levels use every image; drawn samples do if n is a multiple.
    return images.files is not None or not drawn or plan.n % len(images) == 0


def _why_not(table: Baseline, plan: Plan, images: ImageSet, has_testset: bool) -> str:
    # Tables are valid for one image size only, so that mixed sizes count as 0.
    sides = {side for size in images.sizes for side in size}
    if plan.labels == "entry16":
        return (
            f"The table '{table.name}' is valid for ImageNet's 1,000 classes, not for 16 "
            f"categories: use --labels native, or {ALEXNET_BASELINE}."
        )
    why = holds(
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
    if why or (is_published and not has_testset):
        return why
    remedy = f"give --sampling {PARAMETERS} --n {len(images)}"
    return (
        f"The table '{table.name}' is valid for the published strengths with every image used "
        f"equally often, but these samples differ: {'omit --testset' if has_testset else remedy}."
    )
