"""Published results as data: numbers from papers and leaderboards, with source and image set.

Published results are shown next to runs, and ranked with them only if the images are the same.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from eyechart.core.csv_table import packaged_rows
from eyechart.core.errors import UsageError
from eyechart.core.registry import unknown_name
from eyechart.humans.reference import PACKAGED, find_reference
from eyechart.humans.transfer import bare_name
from eyechart.results.image_sets import IMAGE_SETS
from eyechart.results.severity_table import SeverityErrors, read_severity_errors
from eyechart.scores.baseline_names import ROBUSTBENCH_ALEXNET
from eyechart.scores.baseline_tables import (
    Baseline,
    built_in,
    find_baseline,
    mean_errors,
    siblings,
)
from eyechart.scores.corruption_error import mean_corruption_error
from eyechart.scores.registry import CURVE_SCORES, SCORES
from eyechart.stats.curve_settings import SPLINE

TableEntry = Mapping[str, Any]
"""Entry of tables.yaml for one table."""

FOLDER = Path(str(files("eyechart.results").joinpath("data", "published")))
LEADERBOARD = "robustbench_models.csv"
"""Clean accuracies of the models in RobustBench's tables, in percent."""

TABLE = "vcr-table3"

WHO = (
    "The packaged human reference (geirhos: 5 or 6 observers in a laboratory, who saw other images,"
    " in grayscale)"
)

MEANING = "HMRI and MRSI relative to those participants would usually be lower"


@dataclass(frozen=True)
class PublishedModel:
    """One row of a published table; all numbers are ratios (0.767 where a table prints 76.7).

    Attributes:
        model: Name of the model.
        scores: clean_accuracy, error (mean over corruptions), mce, relative_mce; for VCR r_a,
            hmri_a and so on, the implied human areas human_area_a and human_area_p, and coverage;
            accuracy on held-out styles and subclasses.
        ce: CE by corruption; empty if not published.
        relative_ce: Relative CE by corruption; empty if not published.
        corruption: The corruption, if the scores are for a single one; "" for a whole suite.
    """

    model: str
    scores: Mapping[str, float]
    ce: Mapping[str, float] = field(default_factory=dict)
    relative_ce: Mapping[str, float] = field(default_factory=dict)
    corruption: str = ""


@dataclass(frozen=True)
class PublishedTable:
    """Published results of models on one suite and one image set.

    Attributes:
        name: Name of the table.
        suite: Suite of the results.
        title: Title.
        source: Citation.
        images: Key of `IMAGE_SETS`; "" if unknown.
        baseline: Baseline of the corruption errors; "" for none.
        models: Rows of the table.
        note: A note for the reader.
        is_computed: Whether corruption errors were computed here from published accuracies, not
            published by the source.

    Example:
        >>> import eyechart as ec
        >>> table = ec.published_tables()[0]
        >>> table.name, table.model("AlexNet").scores["mce"]
        ('imagenet-c-paper', 1.0)
    """

    name: str
    suite: str
    title: str
    source: str
    images: str
    baseline: str
    models: tuple[PublishedModel, ...]
    note: str = ""
    is_computed: bool = False

    @property
    def image_title(self) -> str:
        """Title of the image set."""
        return IMAGE_SETS.get(self.images, "images not named in the file")

    def model(self, name: str) -> PublishedModel:
        """Return the row of a model."""
        rows = {row.model: row for row in self.models}
        if name not in rows:
            raise unknown_name(f"model in {self.name}:", name, rows)
        return rows[name]


@cache
def published_tables() -> tuple[PublishedTable, ...]:
    """Return all published results that come with the package.

    Example:
        >>> import eyechart as ec
        >>> [table.name for table in ec.published_tables() if table.suite == "vcr"]
        ['vcr-table3', 'vcr-coverage']
    """
    listed = yaml.safe_load((FOLDER / "tables.yaml").read_text(encoding="utf-8"))
    return tuple(_load(entry) for entry in listed)


def find_published(name: str) -> tuple[PublishedTable, ...]:
    """Return the published tables of a suite ("imagenet-c"), or one table by its name."""
    tables = tuple(table for table in published_tables() if name in (table.suite, table.name))
    if not tables:
        known = {key for table in published_tables() for key in (table.suite, table.name)}
        raise unknown_name("published results", name, known)
    return tables


def read_published(path: Path, baseline: str = ROBUSTBENCH_ALEXNET) -> tuple[PublishedTable, ...]:
    """Return corruption errors by suite, computed from a CSV file of accuracies at each severity.

    The images of a CSV file are unknown, so its rows are never ranked with runs.

    Args:
        path: The CSV file.
        baseline: Name of a built-in table. If the file has corruptions from several suites, the
            errors of the same AlexNet under each suite are used.
    """
    models = read_severity_errors(path)
    named = find_baseline(baseline)
    tables = [
        PublishedTable(
            path.name, table.suites[0], f"Accuracies in {path.name}", str(path), "", table.name,
            tuple(_of_accuracies(models, table)), is_computed=True,
        )
        for table in (named, *siblings(named))
        if any(_in(table, model_errors.errors) for model_errors in models.values())
    ]  # fmt: skip
    known = [name for table in (named, *siblings(named)) for name in table.errors]
    for model_errors in models.values():
        for corruption in model_errors.errors:
            if corruption not in known:
                raise unknown_name(f"corruption for baseline '{baseline}':", corruption, known)
    return tuple(tables)


def _load(entry: TableEntry) -> PublishedTable:
    # Four forms of published data: accuracies by severity, curves, plain scores, printed errors.
    if "accuracy" in entry:
        rows = _of_leaderboard(read_severity_errors(FOLDER / entry["accuracy"]), entry["baseline"])
    elif "curves" in entry:
        rows = _of_curves(entry["curves"])
    elif "scores" in entry:
        rows = _of_scores(entry["scores"])
    else:
        rows = _of_printed(entry)
    named = {name: entry[name] for name in ("name", "suite", "title", "source", "images")}
    return PublishedTable(
        **named,
        baseline=entry["baseline"],
        models=tuple(rows),
        note=entry.get("note", ""),
        is_computed="accuracy" in entry,
    )


def _of_printed(entry: TableEntry) -> Iterator[PublishedModel]:
    """Yield the rows of corruption error tables, with plain and relative errors side by side."""
    forms = {form: _rows(entry[form]) for form in ("ce", "relative_ce") if form in entry}
    # Both forms list the same models; the clean error is read from the first.
    for model, first in next(iter(forms.values())).items():
        scores = {}
        if first["clean_error"]:
            scores["clean_accuracy"] = 1 - float(first["clean_error"]) / 100
        errors: dict[str, dict[str, float]] = {}
        for form, rows in forms.items():
            row = rows[model]
            # Printed means are kept even where they differ from the mean of the printed entries.
            scores["mce" if form == "ce" else "relative_mce"] = float(row["mean"]) / 100
            names = [name for name in row if name not in ("model", "clean_error", "mean")]
            errors[form] = {name: float(row[name]) / 100 for name in names}
        plain, relative = (errors.get(form, {}) for form in ("ce", "relative_ce"))
        yield PublishedModel(model, scores, plain, relative)


def _of_leaderboard(
    models: Mapping[str, SeverityErrors], baseline: str
) -> Iterator[PublishedModel]:
    # RobustBench publishes clean accuracies in a separate file.
    clean = {
        model: 1 - float(row["clean_accuracy"]) / 100 for model, row in _rows(LEADERBOARD).items()
    }
    known = {
        model: SeverityErrors(model_errors.errors, clean[model])
        for model, model_errors in models.items()
    }
    return _of_accuracies(known, built_in()[baseline])


def _of_accuracies(
    models: Mapping[str, SeverityErrors], table: Baseline
) -> Iterator[PublishedModel]:
    """Yield the corruption errors of models that were tested on a baseline's suite."""
    for model, model_errors in models.items():
        errors = _in(table, model_errors.errors)
        if not errors:
            continue
        missing = [name for name in table.corruptions if name not in errors]
        if missing:
            raise UsageError(
                f"mCE on {table.suites[0]} needs all {len(table.corruptions)} corruptions, but "
                f"{model} has no rows for {missing[0]}: add them."
            )
        # Extra corruptions of a suite do not enter its mean.
        errors = {name: errors[name] for name in table.corruptions}
        plain = mean_corruption_error(errors, table)
        error = sum(mean_errors(errors).values()) / len(errors)
        scores = {"error": error, "mce": plain.value}
        relative: Mapping[str, float] = {}
        if model_errors.clean is not None:
            # Relative errors need the clean error; without it only plain ones are computed.
            scores = {"clean_accuracy": 1 - model_errors.clean, **scores}
            also = mean_corruption_error(errors, table, model_errors.clean, relative=True)
            scores["relative_mce"], relative = also.value, also.by_corruption.values
        yield PublishedModel(model, scores, plain.by_corruption.values, relative)


def _of_curves(file: str) -> Iterator[PublishedModel]:
    """Yield VCR's scores by model and corruption, with the human areas they imply."""
    for row in _lines(file):
        scores = {score.name: float(row[score.name]) for score in CURVE_SCORES}
        for letter in "ap":
            # The paper prints no human areas; they follow from the identity in
            # `implied_human_area`.
            printed = (scores[f"{kind}_{letter}"] for kind in ("r", "hmri", "mrsi"))
            scores[f"human_area_{letter}"] = implied_human_area(*printed)
        model = f"{row['model']}, {row['retraining']} retraining"
        yield PublishedModel(model, scores, corruption=row["corruption"])


def _of_scores(file: str) -> Iterator[PublishedModel]:
    """Yield the rows of a table with a column for each score."""
    for row in _lines(file):
        names = [name for name in row if name not in ("model", "corruption")]
        scores = {name: float(row[name]) for name in names}
        yield PublishedModel(row["model"], scores, corruption=row.get("corruption", ""))


def implied_human_area(robustness: float, hmri: float, mrsi: float) -> float:
    """Return the area under the human curve that a model's scores imply: R (1 − MRSI) / HMRI.

    With O the area below both curves, HMRI = O / A_human and MRSI = 1 − O / R.

    Example:
        >>> round(implied_human_area(0.6, 0.75, 0.0), 6)
        0.8
    """
    return robustness * (1 - mrsi) / hmri


def _in(
    table: Baseline, errors: Mapping[str, Mapping[int, float]]
) -> dict[str, Mapping[int, float]]:
    return {name: by_severity for name, by_severity in errors.items() if name in table.errors}


def _rows(file: str) -> dict[str, dict[str, str]]:
    return {row["model"]: row for row in _lines(file)}


def _lines(file: str) -> list[dict[str, str]]:
    return packaged_rows("eyechart.results", "data", "published", file)


def is_packaged(reference: str) -> bool:
    """Whether this is the reference that comes with the package."""
    return reference in PACKAGED


@cache
def implied_areas(letter: str = "a") -> dict[str, float]:
    """Return the areas under the human curves that the VCR paper's Table 3 implies, by corruption.

    Each model's scores imply the area up to rounding; this is the mean over models. `letter` is "a"
    for accuracy, "p" for consistency.
    """
    # The name of a table, unlike the name of a suite, matches exactly one table.
    (table,) = find_published(TABLE)
    areas: dict[str, list[float]] = {}
    for row in table.models:
        # Every row implies the area; values for the same corruption differ by rounding only.
        areas.setdefault(bare_name(row.corruption), []).append(row.scores[f"human_area_{letter}"])
    return {name: sum(of_models) / len(of_models) for name, of_models in areas.items()}


@cache
def packaged_areas() -> dict[str, float]:
    """Return the area under each packaged human curve, fitted with the VCR paper's estimator."""
    reference = find_reference(PACKAGED[0])
    # Only the areas are needed, no intervals.
    curves = {
        name: reference.curve(name, estimator=SPLINE, n_bootstrap=1) for name in implied_areas()
    }
    return {name: curve.area for name, curve in curves.items() if curve is not None}


def packaged_caution(areas: Mapping[str, float]) -> str:
    """Return a sentence that compares the packaged reference's areas with the paper's.

    `areas`: area under the human accuracy curve of each corruption in a run. If none of these
    corruptions is in the paper, `packaged_areas` is used instead.
    """
    implied, text = implied_areas(), SCORES["r_a"].text
    measured = {bare: area for name, area in areas.items() if (bare := bare_name(name)) in implied}
    compared = "; ".join(
        f"{name.replace('_', ' ')} {text(area)} against {text(implied[name])}"
        for name, area in (measured or packaged_areas()).items()
    )
    return (
        f"{WHO} is less accurate than the participants of the VCR paper, as implied by its Table 3"
        f" (area under the human accuracy curve: {compared}). {MEANING}, and a model that is ahead"
        " of the reference may not be ahead of those participants."
    )
