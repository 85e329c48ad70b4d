"""An evaluation as files: results.json, results.csv and scores.parquet."""

import csv
import os
import re
from io import StringIO
from pathlib import Path
from typing import Any

from eyechart.core.arguments import as_folder
from eyechart.core.files import file_in
from eyechart.reports.interval_text import known
from eyechart.results.schema import (
    RESULTS_FILE,
    CorruptionResults,
    PropertyResults,
    Results,
    SpaceResults,
    check_results,
)
from eyechart.results.scores_file import SCORES_FILE, write_scores
from eyechart.scores.registry import BASELINE, DECLARED, PROPERTIES, Score, find
from eyechart.stats.estimate import Estimate

CSV_FILE = "results.csv"
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
    """Return one line per model, label space, corruption and property."""
    file = StringIO()
    writer = csv.DictWriter(file, csv_columns(), restval="", lineterminator="\n")
    writer.writeheader()
    for model in results.models:
        for name, space in model.spaces.items():
            for corruption, score in space.corruptions.items():
                for letter, own in score.properties.items():
                    cells = {
                        "model": model.name,
                        "space": name,
                        "corruption": corruption,
                        "trained_on": "yes" if corruption in model.marked else "no",
                        **_line(space, corruption, letter, own),
                    }
                    writer.writerow({key: _csv_cell(value) for key, value in cells.items()})
    return file.getvalue()


def _line(
    space: SpaceResults, corruption: str, letter: str, own: PropertyResults
) -> dict[str, Any]:
    line: dict[str, Any] = {
        "property": PROPERTIES[letter],
        "answers": own.answers,
        "rate": own.rate.value,
        "note": own.note or own.people_note,
    }
    if own.people is not None:
        line |= {"scenario": own.people.scenario, "human_reference": own.people.about}
    record, errors = space[corruption], space.corruption_error
    values = record.scores
    if errors is not None and letter == "a":
        line["baseline"] = errors.baseline
        tables = errors.tables.items()
        values |= {name: table[corruption] for name, table in tables if corruption in table}
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


def _csv_cell(value: Any) -> Any:
    """Return a value as the file has it: an undetermined end of an interval is empty."""
    if not isinstance(value, float):
        return value
    return "" if known(value) is None else round(value, 6)
