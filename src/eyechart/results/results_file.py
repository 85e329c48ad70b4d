"""Read and write the results of a run: results.json with its JSON Schema, and results.csv.

`schema` declares the content of results.json, `scores_file` that of scores.parquet.
"""

import csv
import json
import os
import re
from collections.abc import Iterator
from io import StringIO
from math import isnan
from os import PathLike
from pathlib import Path
from typing import TypeAlias

from pydantic import ValidationError

from eyechart.core.arguments import as_folder, as_path
from eyechart.core.errors import UsageError
from eyechart.core.records import first_problem
from eyechart.core.storage.files import file_in
from eyechart.results.model_results import CorruptionResults, PropertyResults, SpaceResults
from eyechart.results.schema import RESULTS_FILE, SCHEMA_VERSION, Results, check_results
from eyechart.results.scores_file import SCORES_FILE, read_scores, scores_of, write_scores
from eyechart.scores.registry import BASELINE, DECLARED, PROPERTIES, Score, find
from eyechart.stats.estimate import Estimate

CSV_FILE = "results.csv"

Cell: TypeAlias = str | int | float
"""Cell of results.csv; an undetermined number is NaN."""

# "n", "u" and "l" are the letters of null.
NUMBERS = re.compile(r"\[\n[-+.\deEnul,\s]*\]")
"""Matches a list of numbers over several lines; JSON strings contain no line breaks."""


def read_results(folder: Path) -> Results:
    """Return the results of a finished run in a folder.

    Raises:
        UsageError: If the folder has no results, or the file is damaged, has a different version or
            was not written by eyechart.
    """
    path = folder / RESULTS_FILE
    if folder.is_file():
        raise UsageError(f"Give the folder of a run, {folder.parent}, not the file {folder.name}.")
    if not path.is_file():
        raise UsageError(
            f"{folder} has no finished run ({RESULTS_FILE} is missing): give the --out folder of a "
            "completed eyechart evaluate."
        )
    try:
        content = path.read_bytes()
    except OSError:
        raise UsageError(f"{path} cannot be read: run the evaluation again.") from None
    # The version is read first: a file of another version may fail validation for other reasons.
    try:
        plain = json.loads(content)
    except (ValueError, RecursionError):
        raise UsageError(f"{path} cannot be read: run the evaluation again.") from None
    version = plain.get("schema") if isinstance(plain, dict) else None
    if not isinstance(version, int):
        raise UsageError(f"{path} was not written by eyechart evaluate: give another folder.")
    if version != SCHEMA_VERSION:
        raise UsageError(
            f"{folder} was written by another version of eyechart (schema {version}, not"
            f" {SCHEMA_VERSION}): evaluate again into another folder."
        )
    try:
        # Strict: a number in quotes is damage, not a number.
        return Results.model_validate_json(content, strict=True).kept_in(folder)
    except ValidationError as error:
        problem = first_problem(error).rstrip(".")
        raise UsageError(f"{path} is damaged ({problem}): run the evaluation again.") from None


def write_results(results: Results, out: str | os.PathLike[str]) -> list[Path]:
    """Write results.json, results.csv and scores.parquet to a folder; return their paths.

    Args:
        results: Results of `evaluate` or `load`.
        out: The folder; created if missing.

    Example:
        >>> import tempfile
        >>> import eyechart as ec
        >>> def mean_color(images):  # a toy model: one score per channel
        ...     return images.mean(dim=(2, 3))
        >>> results = ec.evaluate(
        ...     mean_color, n=20, corruptions=["gaussian_blur"], labels="none", max_images=2,
        ...     bins=4,
        ...     min_per_bin=2, n_bootstrap=10,
        ... )
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     [path.name for path in ec.write_results(results, folder)]
        ['results.json', 'results.csv', 'scores.parquet']
    """
    check_results(results)
    folder = as_folder(out, "out")
    # Both texts are complete before the first file is written: an error leaves the old files.
    texts = {
        RESULTS_FILE: to_json(results),
        CSV_FILE: to_csv(results),
    }
    for name, text in texts.items():
        # Written to a temporary file first, so that an interruption leaves no half-written results.
        with file_in(folder, name) as temporary:
            temporary.write_text(text, encoding="utf-8")
    write_scores(results, folder / SCORES_FILE)
    return [folder / name for name in (*texts, SCORES_FILE)]


def to_json(results: Results) -> str:
    """Return the text of results.json, with each list of numbers on one line for readability."""
    text = results.model_dump_json(indent=1, by_alias=True, ensure_ascii=True)
    # Curves of 101 points would otherwise take 101 lines each.
    return NUMBERS.sub(lambda numbers: " ".join(numbers[0].split()), text) + "\n"


def schema_text() -> str:
    """Return the JSON Schema of results.json, which is part of the package."""
    # By alias: the file calls the version "schema", a name that pydantic's models already use.
    schema = Results.model_json_schema(mode="serialization", by_alias=True)
    published = {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
    return json.dumps(published, indent=1, ensure_ascii=False) + "\n"


def csv_columns() -> tuple[str, ...]:
    """Return the columns of results.csv, which are the same for accuracy and consistency."""
    names = ["model", "space", "corruption", "property", "n_samples", "rate"]
    for score in DECLARED:
        if score.of_test:
            continue
        # Columns about humans follow the curve scores; the baseline precedes CE.
        names += ["scenario", "human_reference"] if score.group != "curve" else []
        names += ["baseline"] if BASELINE in score.needs else []
        names += _score_columns(score)
    # dict.fromkeys: properties share columns, and each appears once.
    return (*dict.fromkeys(names), "note", "trained_on")


def _score_columns(score: Score) -> list[str]:
    name = score.column
    levels = (95, 83) if score.has_narrow_interval else (95,)
    ends = [f"{name}_{end}{level}" for level in levels for end in ("low", "high")]
    return [name, *ends, *([f"{name}_bound_low", f"{name}_bound_high"] if score.bounds else [])]


def to_csv(results: Results) -> str:
    """Return results.csv: one line per model, label space, corruption and property."""
    file = StringIO()
    writer = csv.DictWriter(file, csv_columns(), restval="", lineterminator="\n")
    writer.writeheader()
    for line in lines_of(results):
        writer.writerow({name: _csv_cell(value) for name, value in line.items()})
    return file.getvalue()


def lines_of(results: Results) -> Iterator[dict[str, Cell]]:
    """Yield each line of results.csv as values by column name; missing values are left out."""
    for model in results.models:
        for name, space in model.spaces.items():
            for corruption, score in space.corruptions.items():
                for letter, record in score.properties.items():
                    yield {
                        "model": model.name,
                        "space": name,
                        "corruption": corruption,
                        "trained_on": "yes" if corruption in model.marked else "no",
                        **_line(space, corruption, letter, record),
                    }


def _line(
    space: SpaceResults, corruption: str, letter: str, results: PropertyResults
) -> dict[str, Cell]:
    line: dict[str, Cell] = {
        "property": PROPERTIES[letter],
        "n_samples": results.n_samples,
        "rate": results.rate.value,
        "note": results.note or results.human_note,
    }
    if results.humans is not None:
        line |= {"scenario": results.humans.scenario, "human_reference": results.humans.about}
    record, errors = space[corruption], space.corruption_error
    values = record.scores
    if errors is not None and letter == "a":
        line["baseline"] = errors.baseline
    for score in DECLARED:
        # Scores that belong to neither property are in the line of accuracy.
        if score.name in values and (score.letter or "a") == letter:
            line |= _score_cells(score, values[score.name], record)
    return line


def _score_cells(score: Score, estimate: Estimate, record: CorruptionResults) -> dict[str, float]:
    numbers = [estimate.value, *estimate.interval95]
    if score.has_narrow_interval:
        numbers += estimate.interval83
    if score.bounds:
        numbers += find(record, score.bounds)
    return dict(zip(_score_columns(score), numbers, strict=True))


def _csv_cell(value: Cell) -> Cell:
    """Return a value as written to the file; an undetermined interval limit becomes empty."""
    if not isinstance(value, float):
        return value
    return "" if isnan(value) else round(value, 6)


def load(folder: str | PathLike[str]) -> Results:
    """Return the results of a finished run, equal to what `evaluate` returned.

    Scores of corruptions have their bootstrap replicates if the folder contains scores.parquet;
    fitted curves are not stored.

    Args:
        folder: Run folder.

    Raises:
        UsageError: If the folder has no finished run.

    Example:
        >>> import tempfile
        >>> import eyechart as ec
        >>> def mean_color(images):  # a toy model: one score per channel
        ...     return images.mean(dim=(2, 3))
        >>> results = ec.evaluate(
        ...     mean_color, n=20, corruptions=["gaussian_blur"], labels="none", max_images=2,
        ...     bins=4,
        ...     min_per_bin=2, n_bootstrap=10,
        ... )
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     files = results.save(folder)
        ...     ec.load(folder) == results
        True
    """
    home = Path(as_path(folder, "folder", "the path of a folder"))
    results, path = read_results(home), home / SCORES_FILE
    if path.is_file():
        kept = read_scores(path)
        for key, estimate in scores_of(results):
            if key in kept:
                # Replicates are too large for results.json and are stored next to it.
                estimate.attach(kept[key].replicates)
    return results
