"""From the tables of experiments to answers: one function for each format."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from eyechart.core.errors import UsageError
from eyechart.core.registry import unknown_name
from eyechart.humans.placement import Placement, find_placement, strength_of
from eyechart.humans.records import Answers, Judgements, Numbers, make_answers
from eyechart.humans.tables import Row, head_of, read_rows
from eyechart.labels.categories import CATEGORIES

NO_ANSWER = ("", "na", "nan", "none")
ORIGINAL = re.compile(r"n\d{8}_\d+")
"""The original's name inside the name of a file made from it."""

SAME = {"1": 1, "yes": 1, "true": 1, "same": 1, "0": 0, "no": 0, "false": 0, "different": 0}

MODEL_VS_HUMAN = ("subj", "object_response", "category", "condition", "imagename")
TRIALS = ("corruption", "subject", "picture", "label", "answer", "delta_v")
COUNTED = {"accuracy": ("num_accs", "correct"), "preserved": ("num_pre", "consistent")}
"""Of tables of counts: the column of rates, that of hits, and the property that they are of."""

COUNTS_CHOICES = 2
"""How many choices people had in the experiment whose format the tables of counts have."""


@dataclass(frozen=True)
class Told:
    """What the user says of the data: see `import_answers`."""

    corruption: str | None = None
    choices: int | None = None
    placement: str | None = None
    label_space: str | None = None


def import_answers(
    paths: Sequence[Path],
    form: str,
    *,
    corruption: str | None = None,
    choices: int | None = None,
    placement: str | None = None,
    label_space: str | None = None,
    judgements: Path | None = None,
    citation: str = "",
    licence: str = "",
) -> Answers:
    """Return the answers in CSV files of a form: "model-vs-human", "counts" or "trials".

    `corruption`: what was done to the pictures, where the files do not say. `choices`: between how
    many answers people chose; without it 16 for the 16 categories, and 2 for counts. `placement`:
    the packaged experiment whose conditions say which Δv people saw. `judgements`: a CSV file of
    same/different judgements to go with the answers.
    """
    if form not in FORMATS:
        raise unknown_name("format", str(form), FORMATS)
    if not paths:
        raise UsageError("Give at least one file to import.")
    answers = FORMATS[form](paths, Told(corruption, choices, placement, label_space))
    told = () if judgements is None else read_judgements(judgements)
    return replace(answers, citation=citation, licence=licence, judgements=told)


def read_model_vs_human(paths: Sequence[Path], told: Told) -> Answers:
    """Return the answers in tables of the model-vs-human toolbox, one row for each trial."""
    placement = None if told.placement is None else find_placement(told.placement)
    rows, changes = [], []
    for path in paths:
        says_itself = {*MODEL_VS_HUMAN, "corruption"} <= head_of(path)
        if told.placement is None and told.corruption is None and not says_itself:
            raise UsageError("Say what was done to the pictures: give a placement or a corruption.")
        own = list(read_rows(path, MODEL_VS_HUMAN))
        rows += own
        if "delta_v" in own[0]:
            changes.append(np.array([row.share("delta_v", unknown=True) for row in own]))
        elif placement is not None:
            changes.append(_placed(own, placement))
        else:
            raise UsageError(
                f"{path} does not say how much was changed: give a placement or a column delta_v."
            )
    said = [row["object_response"] for row in rows]
    labels, answers, facts = _labels(rows, "category", said, told)
    return make_answers(
        len(rows),
        source="model-vs-human",
        corruption=[told.corruption or told.placement or row.filled("corruption") for row in rows],
        condition=[row["condition"] for row in rows],
        subject=[row.filled("subj") for row in rows],
        picture=[_original(row["imagename"]) for row in rows],
        label=labels,
        answer=answers,
        delta_v=np.concatenate(changes),
        **facts,
    )


def read_counts(paths: Sequence[Path], told: Told) -> Answers:
    """Return the answers in tables of counts by Δv; the columns say which property they are of."""
    columns: dict[str, list[Any]] = {name: [] for name in ("corruption", "delta_v", "trials")}
    columns |= {"correct": [], "consistent": []}
    for path in paths:
        rate = next((name for name in COUNTED if name in head_of(path)), None)
        if rate is None:
            raise UsageError(f"{path} lacks the column Accuracy or Preserved.")
        number, known = COUNTED[rate]
        for row in read_rows(path, ("iqa", rate, "count", number)):
            total, hits = row.whole("count"), row.whole(number)
            if not total:
                continue
            if abs(hits / total - row.share(rate)) > 1e-3:
                raise row.refusal(f"{rate} is not {number} / count: mend the row or remove it")
            for name in ("correct", "consistent"):
                columns[name].append(hits / total if name == known else np.nan)
            corruption = row.cells.get("corruption") or told.corruption
            if not corruption:
                raise UsageError(
                    f"{path} does not say what was done to the pictures: give a corruption."
                )
            columns["corruption"].append(corruption)
            columns["delta_v"].append(row.share("iqa"))
            columns["trials"].append(total)
    if not columns["trials"]:
        raise UsageError(f"{paths[0]} counts no answers.")
    return make_answers(
        len(columns["trials"]),
        source="counts",
        choices=told.choices or COUNTS_CHOICES,
        label_space=told.label_space or f"{told.choices or COUNTS_CHOICES} choices",
        **columns,
    )


def read_trials(paths: Sequence[Path], told: Told) -> Answers:
    """Return the answers in eyechart's own tables of trials, one row for each."""
    rows = [row for path in paths for row in read_rows(path, TRIALS)]
    labels, answers, facts = _labels(rows, "label", [row["answer"] for row in rows], told)
    return make_answers(
        len(rows),
        source="trials",
        corruption=[told.corruption or row.filled("corruption") for row in rows],
        subject=[row["subject"] for row in rows],
        picture=[row["picture"] for row in rows],
        label=labels,
        answer=answers,
        clean_answer=[_said(row["clean_answer"]) if "clean_answer" in row else "" for row in rows],
        delta_v=[row.share("delta_v", unknown=True) for row in rows],
        **facts,
    )


def read_judgements(path: Path) -> tuple[Judgements, ...]:
    """Return how often each pair of corruptions was said to look the same (columns a, b, same)."""
    counts: dict[tuple[str, str], list[int]] = {}
    for row in read_rows(path, ("a", "b", "same")):
        said = row["same"].lower()
        if said not in SAME:
            raise row.refusal(f"same must be 1 or 0, got '{row['same']}'")
        first, second = sorted((row.filled("a"), row.filled("b")))
        counts.setdefault((first, second), []).append(SAME[said])
    return tuple(Judgements(*pair, sum(said), len(said)) for pair, said in counts.items())


FORMATS: dict[str, Callable[[Sequence[Path], Told], Answers]] = {
    "model-vs-human": read_model_vs_human,
    "counts": read_counts,
    "trials": read_trials,
}


def _labels(
    rows: Sequence[Row], column: str, said: Sequence[str], told: Told
) -> tuple[list[str], list[str], dict[str, Any]]:
    """Return labels, answers, and between how many of what people chose."""
    labels, answers = [row.filled(column) for row in rows], [_said(text) for text in said]
    sixteen = told.choices == 16 and told.label_space in (None, "entry16")
    if sixteen or (told.choices is None and set(labels) <= set(CATEGORIES)):
        for row, label, answer in zip(rows, labels, answers, strict=True):
            for text in (label, answer):
                if text and text not in CATEGORIES:
                    raise row.refusal(f"'{text}' is none of the 16 categories; give --choices")
        return labels, answers, {"choices": 16, "label_space": "entry16"}
    if told.choices is None:
        strange = next(row for row in rows if row[column] not in CATEGORIES)
        raise strange.refusal(
            f"'{strange[column]}' is none of the 16 categories: say between how many answers people"
            " chose (choices)"
        )
    space = told.label_space or f"{told.choices} choices"
    return labels, answers, {"choices": told.choices, "label_space": space}


def _placed(rows: Sequence[Row], placement: Placement) -> Numbers:
    """Return Δv for each row: those of a subject's condition lie evenly over its distribution.

    Which row gets which is drawn, for trials may be in an order that means something.
    """
    groups: dict[tuple[str, float], list[int]] = {}
    for place, row in enumerate(rows):
        try:
            strength = strength_of(row["condition"])
            placement.spread(strength, 1)
        except UsageError as error:
            raise row.refusal(str(error).rstrip(".")) from None
        groups.setdefault((row["subj"], strength), []).append(place)
    delta_v = np.empty(len(rows))
    for (_, strength), places in groups.items():
        order = np.random.default_rng(0).permutation(len(places))
        delta_v[places] = placement.spread(strength, len(places))[order]
    return delta_v


def _original(imagename: str) -> str:
    found = ORIGINAL.findall(imagename)
    return found[-1] if found else imagename


def _said(text: str) -> str:
    return "" if text.lower() in NO_ANSWER else text
