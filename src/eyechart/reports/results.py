"""An evaluation as files: results.json, results.csv and scores.parquet."""

import csv
import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache
from io import StringIO
from pathlib import Path
from typing import Any

from eyechart.core.arguments import as_folder
from eyechart.core.files import file_in
from eyechart.curves.curve import Curve
from eyechart.humans.reference import Point
from eyechart.labels.categories import NONE
from eyechart.reports.interval_text import known
from eyechart.results.schema import RESULTS_FILE, SCHEMA_VERSION
from eyechart.results.scores_file import SCORES_FILE, write_scores
from eyechart.scores.by_class import ClassScore
from eyechart.scores.evaluation import (
    CorruptionScore,
    Evaluation,
    Experiment,
    ModelScore,
    Normalised,
    PeopleScore,
    PropertyScore,
    SpaceScore,
    check_evaluation,
)
from eyechart.scores.registry import BASELINE, DECLARED, PROPERTIES, Score, find, values_of
from eyechart.stats.estimate import Estimate

CSV_FILE = "results.csv"
CURVE_POINTS = 101
DIGITS = 6
"""Decimals of curves and bands in the file."""

NUMBERS = re.compile(r"\[\n[-+.\deEnul,\s]*\]")
"""A list of numbers over several lines; in JSON no string has a line's end."""


def write_results(evaluation: Evaluation, out: str | os.PathLike[str]) -> list[Path]:
    """Write results.json, results.csv and scores.parquet into a folder and return their paths.

    A folder that is missing is made.
    """
    check_evaluation(evaluation)
    folder = as_folder(out, "out")
    texts = {
        RESULTS_FILE: _in_lines(to_json(evaluation)),
        CSV_FILE: to_csv(evaluation),
    }
    for name, text in texts.items():
        with file_in(folder, name) as temporary:
            temporary.write_text(text, encoding="utf-8")
    write_scores(evaluation, folder / SCORES_FILE)
    return [folder / name for name in (*texts, SCORES_FILE)]


def _in_lines(found: Mapping[str, Any]) -> str:
    """Return JSON to be read by people too: indented, but numbers of a list in one line."""
    text = json.dumps(found, indent=1, allow_nan=False)
    return NUMBERS.sub(lambda own: " ".join(own[0].split()), text) + "\n"


def to_json(evaluation: Evaluation) -> dict[str, Any]:
    """Return the evaluation as plain values; numbers that do not exist are null."""
    found: dict[str, Any] = {
        "schema": SCHEMA_VERSION,
        "config": evaluation.config,
        "provenance": {"command": "", "made": "", **evaluation.provenance},
        "images": evaluation.images,
        "warnings": list(evaluation.warnings),
        "coverage": evaluation.coverage,
        "models": [_model(model) for model in evaluation.models],
        "paired": [asdict(paired) for paired in evaluation.paired],
        "agreements": [
            {
                "space": own.space,
                "first": own.first,
                "second": own.second,
                "kappa": _estimate(own.kappa),
                "trials": own.trials,
            }
            for own in evaluation.agreements
        ],
        "people": [_experiment(experiment) for experiment in evaluation.people],
        "examples": [asdict(example) for example in evaluation.examples],
    }
    plain: dict[str, Any] = _without_nan(found)
    return plain


def _model(model: ModelScore) -> dict[str, Any]:
    return {
        "name": model.name,
        "identity": model.identity,
        "classes": model.classes,
        "category": model.category,
        "outputs": model.outputs,
        "trained_on": model.trained_on,
        "marked": model.marked,
        "spaces": {space.space: _space(space) for space in model.spaces},
    }


def _space(space: SpaceScore) -> dict[str, Any]:
    return {
        "pictures": space.pictures,
        "classes": space.classes,
        "left_out": space.left_out,
        "verdict": space.verdict,
        "clean_accuracy": _estimate(space.clean_accuracy),
        "means": {name: _estimate(mean) for name, mean in space.means.items()},
        "corruptions": {
            score.corruption: _corruption(score, space.verdict) for score in space.corruptions
        },
        "corruption_error": _normalised(space.normalised),
        "similar": [
            {"first": first, "second": second, **asdict(found)}
            for first, second, found in space.similar
        ],
        "by_class": [_class(score, space.class_names) for score in space.by_class],
    }


def _class(score: ClassScore, names: Sequence[str]) -> dict[str, Any]:
    own = {name: getattr(score, name) for name in score.__dataclass_fields__}
    instead = "" if score.instead == NONE else names[score.instead]
    return {
        **own,
        "corrupted": _estimate(score.corrupted),
        "name": names[score.label],
        "instead": instead,
    }


def _normalised(own: Normalised | None) -> dict[str, Any] | None:
    if own is None:
        return None
    return {
        "baseline": own.baseline,
        "ce": {name: _estimate(value) for name, value in own.ce.items()},
        "mce": _estimate(own.mce),
        "relative_ce": {name: _estimate(value) for name, value in own.relative_ce.items()},
        "relative_mce": _estimate(own.relative_mce),
        "note": own.note,
    }


def _corruption(score: CorruptionScore, verdict: str) -> dict[str, Any]:
    return {
        "unmeasurable": score.unmeasurable,
        "error": _estimate(score.error),
        "clean_error": _estimate(score.clean_error),
        "error_by_severity": {f"{k:g}": v for k, v in score.error_by_severity.items()},
        **{
            name: None if own is None else _property(own, verdict)
            for name, own in (("accuracy", score.accuracy), ("consistency", score.consistency))
        },
    }


def _property(score: PropertyScore, verdict: str) -> dict[str, Any]:
    return {
        "rate": _estimate(score.rate),
        "answers": score.answers,
        "robustness": _estimate(score.robustness),
        "bounds": score.bounds,
        "observed": score.observed,
        "note": score.why,
        "people": _people(score.people, verdict) if score.people is not None else None,
        "people_note": score.why_no_people,
        "curve": _curve(score) if score.curve is not None else None,
    }


def _people(people: PeopleScore, verdict: str) -> dict[str, Any]:
    return {
        "about": people.about,
        "kind": people.kind,
        "hmri": _estimate(people.hmri),
        "hmri_bounds": people.hmri_bounds,
        "mrsi": _estimate(people.mrsi),
        "scenario": verdict or people.scenario,
        "corrected_for_chance": people.corrected,
        "areas": asdict(people.areas),
        "leads": [asdict(lead) for lead in people.leads],
        "significant": [asdict(lead) for lead in people.significant],
        "tested": [asdict(lead) for lead in people.tested],
        "p_people": people.p_people,
        "p_model": people.p_model,
        "human_bins": len(people.curve.bins.counts),
        "human_left_anchor": people.curve.left,
        "human_right_anchor": people.curve.right,
        "reference": people.reference,
        "experiment": people.experiment,
        "observers": people.observers,
        "line": _line_of(people.curve),
        "model_line": _line_of(people.model_curve),
    }


def _experiment(own: Experiment) -> dict[str, Any]:
    lines = {
        which: {
            "line": _line_of(curve),
            "points": [_point(point) for point in own.points.get(which, ())],
        }
        for which, curve in own.curves.items()
    }
    return {
        "name": own.name,
        "title": own.title,
        "kind": own.kind,
        "members": own.members,
        "size": own.size,
        "accuracy": lines.get("accuracy"),
        "consistency": lines.get("consistency"),
        "tested": own.tested,
        "evidence": own.evidence,
        "reference": own.reference,
    }


def _point(point: Point) -> dict[str, Any]:
    return {
        "delta_v": point.delta_v,
        "answers": point.answers,
        "rate": point.rate,
        "interval95": point.interval(0.95),
        "interval83": point.interval(0.83),
    }


def _curve(score: PropertyScore) -> dict[str, Any]:
    curve = score.curve
    assert curve is not None
    return {
        **_line_of(curve),
        "bin_edges": [float(edge) for edge in curve.bins.edges],
        "bin_counts": [float(count) for count in curve.bins.counts],
        "bin_rates": [float(rate) for rate in curve.bins.rates],
        "smoothing": curve.smoothing,
        "left_anchor": curve.left,
        "right_anchor": curve.right,
    }


@lru_cache(maxsize=64)
def _line_of(curve: Curve) -> dict[str, Any]:
    """Return a curve and its bands at evenly spaced visual changes."""
    places = [place / (CURVE_POINTS - 1) for place in range(CURVE_POINTS)]
    found: dict[str, Any] = {"delta_v": places, "values": _rounded(curve(places))}
    for level in (95, 83):
        low, high = curve.band(places, level / 100)
        found |= {f"low{level}": _rounded(low), f"high{level}": _rounded(high)}
    return found


def _rounded(values: Any) -> list[float]:
    return [round(float(value), DIGITS) for value in values]


def _estimate(estimate: Estimate | None) -> dict[str, Any] | None:
    if estimate is None:
        return None
    return {
        "value": estimate.value,
        "interval95": estimate.interval,
        "interval83": estimate.narrow_interval,
    }


def _without_nan(value: Any) -> Any:
    """Return plain values with null for what is no number: JSON has no NaN."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _without_nan(own) for key, own in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(own) for own in value]
    return value


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


def to_csv(evaluation: Evaluation) -> str:
    """Return one line per model, label space, corruption and property."""
    file = StringIO()
    writer = csv.DictWriter(file, csv_columns(), restval="", lineterminator="\n")
    writer.writeheader()
    for model in evaluation.models:
        for space in model.spaces:
            for score in space.corruptions:
                for letter, own in score.properties.items():
                    writer.writerow(_line(model, space, score, letter, own))
    return file.getvalue()


def _line(
    model: ModelScore, space: SpaceScore, score: CorruptionScore, letter: str, own: PropertyScore
) -> dict[str, Any]:
    line: dict[str, Any] = {
        "model": model.name,
        "space": space.space,
        "corruption": score.corruption,
        "property": PROPERTIES[letter],
        "answers": own.answers,
        "rate": own.rate.value,
        "note": own.why or own.why_no_people,
        "trained_on": "yes" if score.corruption in model.marked else "no",
    }
    if own.people is not None:
        line |= {
            "scenario": space.verdict or own.people.scenario,
            "human_reference": own.people.about,
        }
    values = values_of(score)
    if space.normalised is not None and letter == "a":
        line["baseline"] = space.normalised.baseline
        tables = space.normalised.tables
        values |= {name: table[score.corruption] for name, table in tables.items()
                   if score.corruption in table}  # fmt: skip
    for declared in DECLARED:
        # what is of neither property stands beside accuracy
        if declared.name in values and (declared.letter or "a") == letter:
            line |= _score_cells(declared, values[declared.name], score)
    return {key: _csv_cell(own) for key, own in line.items()}


def _score_cells(declared: Score, estimate: Estimate, score: CorruptionScore) -> dict[str, float]:
    numbers = [estimate.value, *estimate.interval]
    if declared.has_narrow_interval:
        numbers += estimate.narrow_interval
    if declared.bounds:
        numbers += find(score, declared.bounds)
    return dict(zip(_score_columns(declared), numbers, strict=True))


def _csv_cell(value: Any) -> Any:
    """Return a value as the file has it: an undetermined end of an interval is empty."""
    if not isinstance(value, float):
        return value
    return "" if known(value) is None else round(value, 6)
