"""Results as files: results.json, results.csv and scores.parquet, and the schema of the first.

Reading them is in `schema` and `scores_file`; what the files say is declared in `schema`.
"""

import csv
import json
import os
import re
from collections.abc import Iterator
from io import StringIO
from math import isnan
from pathlib import Path
from typing import TypeAlias

from eyechart.core.arguments import as_folder
from eyechart.core.files import file_in
from eyechart.results.model_results import CorruptionResults, PropertyResults, SpaceResults
from eyechart.results.schema import RESULTS_FILE, Results, check_results
from eyechart.results.scores_file import SCORES_FILE, write_scores
from eyechart.scores.registry import BASELINE, DECLARED, PROPERTIES, Score, find
from eyechart.stats.estimate import Estimate

CSV_FILE = "results.csv"
Cell: TypeAlias = str | int | float
"""Of a line of results.csv; an undetermined number is NaN."""

NUMBERS = re.compile(r"\[\n[-+.\deEnul,\s]*\]")
"""A list of numbers over several lines; in JSON no string has a line's end."""


def write_results(results: Results, out: str | os.PathLike[str]) -> list[Path]:
    """Write results.json, results.csv and scores.parquet into a folder and return their paths.

    A folder that is missing is made.
    """
    check_results(results)
    folder = as_folder(out, "out")
    texts = {
        RESULTS_FILE: to_json(results),
        CSV_FILE: to_csv(results),
    }
    for name, text in texts.items():
        with file_in(folder, name) as temporary:
            temporary.write_text(text, encoding="utf-8")
    write_scores(results, folder / SCORES_FILE)
    return [folder / name for name in (*texts, SCORES_FILE)]


def to_json(results: Results) -> str:
    """Return the text of results.json, to be read by humans too: lists of numbers in one line."""
    text = results.model_dump_json(indent=1, by_alias=True, ensure_ascii=True)
    return NUMBERS.sub(lambda numbers: " ".join(numbers[0].split()), text) + "\n"


def schema_text() -> str:
    """Return the JSON Schema of results.json, which the package publishes."""
    schema = Results.model_json_schema(mode="serialization", by_alias=True)
    published = {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
    return json.dumps(published, indent=1, ensure_ascii=False) + "\n"


def csv_columns() -> tuple[str, ...]:
    """Return the columns of results.csv: those of each score once, for accuracy and consistency."""
    names = ["model", "space", "corruption", "property", "answers", "rate"]
    for score in DECLARED:
        if score.of_test:
            continue
        # what goes with the scores of curves stands behind them, what goes with CE before it
        names += ["scenario", "human_reference"] if score.group != "curve" else []
        names += ["baseline"] if BASELINE in score.needs else []
        names += _score_columns(score)
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
    """Yield the lines of results.csv by the names of columns; what is missing is left out."""
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
        "answers": results.answers,
        "rate": results.rate.value,
        "note": results.note or results.people_note,
    }
    if results.people is not None:
        line |= {"scenario": results.people.scenario, "human_reference": results.people.about}
    record, errors = space[corruption], space.corruption_error
    values = record.scores
    if errors is not None and letter == "a":
        line["baseline"] = errors.baseline
    for score in DECLARED:
        # what is of neither property stands beside accuracy
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
    """Return a value as the file has it: an undetermined end of an interval is empty."""
    if not isinstance(value, float):
        return value
    return "" if isnan(value) else round(value, 6)
