"""What the picture browser is told, as plain values: tests and models, rows, one row, curves."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from eyechart.core.errors import UsageError
from eyechart.labels.categories import NONE
from eyechart.labels.spaces import ENTRY16
from eyechart.reports.browse.answers import Answers, Said
from eyechart.reports.series.report import Part, Report
from eyechart.reports.words import corruption_title, space_title, suite_title
from eyechart.results.schema import ModelCurve, PropertyResults, SpaceResults
from eyechart.scores.registry import PROPERTIES
from eyechart.testsets.samples import FloatArray

UNKNOWN = -1
"""Where 1 stands for yes and 0 for no: nobody knows."""

Plain = dict[str, Any]


def about_tests(report: Report) -> list[Plain]:
    """Return what there is to choose from: tests, their corruptions, models, label spaces."""
    return [
        {
            "suite": part.suite,
            "title": suite_title(part.suite),
            "corruptions": [
                {"name": name, "title": corruption_title(name)} for name in part.corruptions
            ],
            "models": [
                {
                    "name": model.name,
                    "short": model.short,
                    "colour": model.colour,
                    "run": model.run,
                    "spaces": [
                        {"name": name, "title": space_title(name)} for name in model.model.spaces
                    ],
                }
                for model in part.models
            ],
        }
        for part in report.parts
    ]


def about_runs(report: Report) -> list[Plain]:
    """Return where each run is, what its pictures were, and who answered."""
    return [
        {
            "folder": str(run.folder),
            "suite": run.config.suite,
            "source": run.results.images.source,
            "models": list(run.models),
        }
        for run in report.runs
    ]


def about_rows(answers: Answers, corruption: str, model: str, space: str) -> Plain:
    """Return all rows of a corruption from mild to strong, and the model's curves.

    Rows without Δv come last; where none has one they go by severity. `correct` and `same` (answer
    as on the clean picture): 1, 0, or −1 where nobody knows.
    """
    said = answers.said(corruption, model, space)
    own, shown = said.outcomes, answers.shown[corruption]
    rows = shown["row"].to_numpy()
    order = np.lexsort((rows, _last(own.severity), _last(own.delta_v)))
    pictures = shown["picture"].combine_chunks().dictionary_encode()
    return {
        "space": said.space,
        "rows": rows[order].tolist(),
        "delta_v": _nulls(own.delta_v[order]),
        "correct": _flags(own.correct[order]),
        "same": _flags(own.consistent[order]),
        "picture": pictures.indices.to_numpy()[order].tolist(),
        "pictures": pictures.dictionary.to_pylist(),
        "curves": about_curves(answers, corruption, model, said.space),
    }


def about_curves(answers: Answers, corruption: str, model: str, space: str) -> Plain:
    """Return the curves that rows lie on: s_a and s_p of the model and of people, and why not."""
    spaces = answers.model(model).spaces
    score = spaces[space].corruptions.get(corruption)
    found: Plain = {"notes": []}
    for letter, own in ({} if score is None else score.properties).items():
        if own.curve is None:
            found["notes"].append(f"{PROPERTIES[letter]}: {own.note}" if own.note else "")
            continue
        found[letter] = _line(own.curve)
        if own.people is not None and not own.people.corrected_for_chance:
            found[f"people_{letter}"] = _line(own.people.line)
            found["people"] = own.people.about
        else:
            why = _no_people(own, PROPERTIES[letter]) if space == ENTRY16 else _where(spaces)
            found["notes"].append(why)
    found["notes"] = [note for note in dict.fromkeys(found["notes"]) if note]
    return found


def about_row(
    answers: Mapping[int, Answers], part: Part, run: int, corruption: str, row: int, space: str
) -> Plain:
    """Return all that is known of one row, with the answers of all models of its test.

    `answers`: by the place of their run in the report.
    """
    table = answers[run].table(corruption, row)
    (own,) = table.select(
        ["picture", "label", "delta_v", "severity", "draw", "stimulus", "digest"]
    ).to_pylist()
    said = list(_everybody(answers, part, table, corruption, row, space))
    truth = next((truth for _, truth in said if truth), "")
    if not truth and space == ENTRY16:
        native = _everybody(answers, part, table, corruption, row, "native")
        own_class = next((truth for _, truth in native if truth), "")
        truth = f"{own_class} (none of the 16 categories)" if own_class else ""
    return {
        **own,
        "row": row,
        "corruption": corruption,
        "title": corruption_title(corruption),
        "truth": truth,
        "parameters": _parameters(answers[run], table, corruption),
        "answers": [answer for answer, _ in said],
    }


def _everybody(
    answers: Mapping[int, Answers],
    part: Part,
    table: pa.Table,
    corruption: str,
    row: int,
    space: str,
) -> Iterator[tuple[Plain, str]]:
    """Yield each model's answer, and what the picture shows in its label space."""
    for model in part.models:
        own = answers[model.run]
        if own.corruption_of(row) != corruption:
            continue
        there = own.table(corruption, row)
        # the same number in another run is the same picture only if its pixels are
        if any(there[name][0] != table[name][0] for name in ("digest", "pixels")):
            continue
        place = own.place(corruption, row)
        said = own.said(corruption, model.name, space)
        yield _answer(said, place, model.name, model.short, model.colour), _truth(said, place)


def _answer(said: Said, index: int, name: str, short: str, colour: str) -> Plain:
    own = said.outcomes
    assert own.answer is not None and own.confidence is not None
    return {
        "model": name,
        "short": short,
        "colour": colour,
        "space": said.space,
        "said": said.name(int(own.answer[index])),
        "confidence": _nulls(own.confidence[index : index + 1])[0],
        "correct": _flags(own.correct[index : index + 1])[0],
        "same": _flags(own.consistent[index : index + 1])[0],
    }


def _truth(said: Said, index: int) -> str:
    label = int(said.outcomes.label[index])
    return "" if label == NONE else said.name(label)


def _parameters(answers: Answers, table: pa.Table, corruption: str) -> list[Plain]:
    """Return each number that made the picture, with its unit and meaning where they are known."""
    try:
        entries = {entry.name: entry for entry in answers.run.config.plan.entries()}
    except UsageError:
        entries = {}  # of a user's own suite that is not there any more
    found = []
    for name, value in table["parameters"][0].as_py() or ():
        entry = entries.get(corruption)
        known = None if entry is None else entry.corruption.parameter(name)
        unit, meaning = ("", "") if known is None else (known.unit, known.meaning)
        found.append({"name": name, "value": value, "unit": unit, "meaning": meaning})
    return found


def _where(spaces: Mapping[str, SpaceResults]) -> str:
    """Return where people's curve is, if it is anywhere."""
    if ENTRY16 not in spaces:
        return ""
    return f"people's curve is with {space_title(ENTRY16)}, which is what they answered in"


def _no_people(score: PropertyResults, name: str) -> str:
    if score.people is not None:
        return f"people's {name}: corrected for chance, and so on another scale than this one"
    return f"people's {name}: {score.people_note}" if score.people_note else ""


def _line(own: Any) -> Plain:
    line = {"delta_v": list(own.delta_v), "values": list(own.values)}
    if isinstance(own, ModelCurve):
        line |= {"low": list(own.low95), "high": list(own.high95)}
    return line


def _last(values: FloatArray) -> FloatArray:
    """Return the values with those that are missing behind all others."""
    return np.where(np.isnan(values), np.inf, values)


def _nulls(values: FloatArray) -> list[float | None]:
    return [None if value != value else value for value in values.tolist()]


def _flags(values: FloatArray) -> list[int]:
    found: list[int] = np.where(np.isnan(values), UNKNOWN, values).astype(np.int8).tolist()
    return found
