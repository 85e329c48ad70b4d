"""From the tables of experiments to answers: one function for each format."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path, PurePath
from typing import NamedTuple

import numpy as np

from eyechart.core.csv_table import CsvRow, column_names, read_rows
from eyechart.core.errors import UsageError
from eyechart.core.options import takes_fields_of
from eyechart.core.registry import unknown_name
from eyechart.humans.human_responses import CLEAN, HumanResponses, Numbers, make_responses
from eyechart.humans.import_settings import ImportSettings
from eyechart.humans.placement import Placement, find_placement, strength_of
from eyechart.humans.same_different import read_single_judgements
from eyechart.labels.categories import CATEGORIES

NO_ANSWER = ("", "na", "nan", "none")
ORIGINAL = re.compile(r"n\d{8}_\d+")
"""The original's name inside the name of a file made from it."""

STIMULUS = re.compile(
    r"\d+_(?P<experiment>[^_]+)_[^_]+_(?P<condition>[^_]+)_[^_]+_\d+_(?P<image>.+)"
)
"""A stimulus of model-vs-human: trial, experiment, observer, condition, category, number, image."""

MODEL_VS_HUMAN = ("subj", "object_response", "category", "condition", "imagename")
VCR = ("orig_pred", "transf_pred", "label", "vd_score")
TRIALS = ("corruption", "subject", "picture", "label", "answer", "delta_v")
COUNTED = {"accuracy": ("num_accs", "correct"), "preserved": ("num_pre", "consistent")}
"""Of tables of counts: the column of rates, that of hits, and the property that they are of."""

COUNTS_CHOICES = 2
"""How many choices people had in the experiment whose format the tables of counts have."""


@takes_fields_of(ImportSettings)
def import_responses(settings: ImportSettings) -> HumanResponses:
    """Return the responses in CSV files of a form: one of `FORMATS`."""
    if settings.form not in FORMATS:
        raise unknown_name("format", str(settings.form), FORMATS)
    if not settings.files:
        raise UsageError("Give at least one file to import.")
    responses = FORMATS[settings.form](settings.files, settings)
    judgements = (
        () if settings.judgements is None else tuple(read_single_judgements(settings.judgements))
    )
    return replace(
        responses, citation=settings.citation, licence=settings.licence, judgements=judgements
    )


def read_model_vs_human(paths: Sequence[Path], options: ImportSettings) -> HumanResponses:
    """Return the answers in tables of the model-vs-human toolbox, one row for each trial.

    Without Δv (no placement, no column delta_v) they make no curves, but error consistency κ.
    They are then called by their files' names, unless a corruption is given.
    """
    placement = None if options.placement is None else find_placement(options.placement)
    rows: list[CsvRow] = []
    changes, names = [], []
    for path in paths:
        file_rows = list(read_rows(path, MODEL_VS_HUMAN))
        rows += file_rows
        changes.append(_changes(file_rows, placement))
        name = options.corruption or options.placement or ""
        if not name and "corruption" not in file_rows[0] and "delta_v" in file_rows[0]:
            # a curve needs a corruption, not a file's name
            raise UsageError(f"{path} must say what was done: give a placement or a corruption.")
        names += [
            name or row.cells.get("corruption") or experiment_of(path)
            for row in file_rows
            if _agrees(row, options)
        ]
    raw_responses = [row["object_response"] for row in rows]
    labelled = _labels(rows, "category", raw_responses, options)
    return make_responses(
        len(rows),
        source="model-vs-human",
        corruption=names,
        condition=[row["condition"] for row in rows],
        subject=[row.filled("subj") for row in rows],
        picture=[_original(row["imagename"]) for row in rows],
        stimulus_set=[stimulus_of(row["imagename"])[0] for row in rows],
        label=labelled.labels,
        answer=labelled.responses,
        delta_v=np.concatenate(changes),
        choices=labelled.choices,
        label_space=labelled.label_space,
    )


def _changes(rows: Sequence[CsvRow], placement: Placement | None) -> Numbers:
    """Return Δv for each row, NaN where the table does not say it and there is no placement."""
    if "delta_v" in rows[0]:
        return np.array([row.share("delta_v", unknown=True) for row in rows])
    return np.full(len(rows), np.nan) if placement is None else _placed(rows, placement)


def experiment_of(path: Path) -> str:
    """Return what an experiment is called by its file: "sketch" of sketch_subject-01_session_1."""
    return path.name.removesuffix(".gz").removesuffix(".csv").split("_subject-")[0]


def read_vcr(paths: Sequence[Path], options: ImportSettings) -> HumanResponses:
    """Return the answers in tables with the columns of the VCR study, one row for each answer.

    `transf_pred`: to the corrupted image; `orig_pred`: to the clean one, of whoever saw that;
    `vd_score`: Δv, which that study's code does not keep from falling below 0.
    """
    rows = [row for path in paths for row in read_rows(path, VCR)]
    clean = [_response(row["orig_pred"]) for row in rows]
    raw_responses = [row["transf_pred"] for row in rows]
    labelled = _labels(rows, "label", raw_responses, options, clean)
    return make_responses(
        len(rows),
        source="vcr",
        corruption=[_corruption(row, options) for row in rows],
        subject=[row.cells.get("subject", "") for row in rows],
        picture=[row.cells.get("picture", "") for row in rows],
        label=labelled.labels,
        answer=labelled.responses,
        clean_answer=clean,
        delta_v=[row.share("vd_score", unknown=True, below=True) for row in rows],
        choices=labelled.choices,
        label_space=labelled.label_space,
    )


def _corruption(row: CsvRow, options: ImportSettings) -> str:
    """Return what was done to a row's image: as its table says, or as was told for all."""
    _agrees(row, options)
    return options.corruption or _column(row, "corruption")


def _agrees(row: CsvRow, options: ImportSettings) -> bool:
    """Return True, or raise a UsageError where a table names another corruption than was told."""
    corruption = row.cells.get("corruption", "")
    if options.corruption and corruption not in ("", CLEAN, options.corruption):
        raise row.refusal(
            f"corruption is {corruption}, not {options.corruption}: leave out --corruption, which"
            " is for tables without that column"
        )
    return True


def _column(row: CsvRow, name: str) -> str:
    if name not in row:
        raise UsageError(
            f"{row.path} does not say what was done to the images: give --{name}, or a column"
            f" {name}."
        )
    return row.filled(name)


def read_counts(paths: Sequence[Path], options: ImportSettings) -> HumanResponses:
    """Return the answers in tables of counts by Δv; the columns say which property they are of."""
    rows: list[tuple[str, float, int, dict[str, float]]] = []
    for path in paths:
        rate = next((name for name in COUNTED if name in column_names(path)), None)
        if rate is None:
            raise UsageError(f"{path} lacks the column Accuracy or Preserved.")
        number, known = COUNTED[rate]
        for row in read_rows(path, ("iqa", rate, "count", number)):
            total, hits = row.whole("count"), row.whole(number)
            if not total:
                continue
            if abs(hits / total - row.share(rate)) > 1e-3:
                raise row.refusal(f"{rate} is not {number} / count: mend the row or remove it")
            corruption = row.cells.get("corruption") or options.corruption
            if not corruption:
                raise UsageError(
                    f"{path} does not say what was done to the pictures: give a corruption."
                )
            rows.append((corruption, row.share("iqa"), total, {known: hits / total}))
    if not rows:
        raise UsageError(f"{paths[0]} counts no answers.")
    corruptions, delta_v, trials, rates = zip(*rows, strict=True)
    return make_responses(
        len(rows),
        source="counts",
        choices=options.choices or COUNTS_CHOICES,
        label_space=options.label_space or f"{options.choices or COUNTS_CHOICES} choices",
        corruption=corruptions,
        delta_v=delta_v,
        trials=trials,
        correct=[rate.get("correct", np.nan) for rate in rates],
        consistent=[rate.get("consistent", np.nan) for rate in rates],
    )


def read_trials(paths: Sequence[Path], options: ImportSettings) -> HumanResponses:
    """Return the answers in eyechart's own tables of trials, one row for each."""
    rows = [row for path in paths for row in read_rows(path, TRIALS)]
    clean = [_response(row["clean_answer"]) if "clean_answer" in row else "" for row in rows]
    raw_responses = [row["answer"] for row in rows]
    labelled = _labels(rows, "label", raw_responses, options, clean)
    return make_responses(
        len(rows),
        source="trials",
        corruption=[_corruption(row, options) for row in rows],
        subject=[row["subject"] for row in rows],
        picture=[row["picture"] for row in rows],
        label=labelled.labels,
        answer=labelled.responses,
        clean_answer=clean,
        delta_v=[row.share("delta_v", unknown=True) for row in rows],
        choices=labelled.choices,
        label_space=labelled.label_space,
    )


FORMATS: dict[str, Callable[[Sequence[Path], ImportSettings], HumanResponses]] = {
    "model-vs-human": read_model_vs_human,
    "vcr": read_vcr,
    "counts": read_counts,
    "trials": read_trials,
}


class _Labelled(NamedTuple):
    """Labels and responses of a table, and between how many of what people chose."""

    labels: list[str]
    responses: list[str]
    choices: int
    label_space: str


def _labels(
    rows: Sequence[CsvRow],
    column: str,
    raw_responses: Sequence[str],
    options: ImportSettings,
    clean: Sequence[str] = (),
) -> _Labelled:
    """Return labels, responses, and between how many of what people chose.

    `clean`: responses to the clean images, if the table has them.
    """
    labels = [row.filled(column) for row in rows]
    responses = [_response(text) for text in raw_responses]
    sixteen = options.choices == 16 and options.label_space in (None, "entry16")
    if sixteen or (options.choices is None and set(labels) <= set(CATEGORIES)):
        for row, *texts in zip(rows, labels, responses, clean or responses, strict=True):
            for text in texts:
                if text and text not in CATEGORIES:
                    raise row.refusal(f"'{text}' is none of the 16 categories; give --choices")
        return _Labelled(labels, responses, 16, "entry16")
    if options.choices is None:
        strange = next(row for row in rows if row[column] not in CATEGORIES)
        raise strange.refusal(
            f"'{strange[column]}' is none of the 16 categories: say between how many answers people"
            " chose (choices)"
        )
    space = options.label_space or f"{options.choices} choices"
    return _Labelled(labels, responses, options.choices, space)


def _placed(rows: Sequence[CsvRow], placement: Placement) -> Numbers:
    """Return Δv for each row: those of a subject's condition lie evenly over its distribution.

    Which row gets which is drawn, for trials may be in an order that means something.
    """
    groups: dict[tuple[str, float], list[int]] = {}
    for index, row in enumerate(rows):
        try:
            strength = strength_of(row["condition"])
            placement.spread(strength, 1)
        except UsageError as error:
            raise row.refusal(str(error).rstrip(".")) from None
        groups.setdefault((row["subj"], strength), []).append(index)
    delta_v = np.empty(len(rows))
    for (_, strength), places in groups.items():
        order = np.random.default_rng(0).permutation(len(places))
        delta_v[places] = placement.spread(strength, len(places))[order]
    return delta_v


def stimulus_of(name: str) -> tuple[str, str, str]:
    """Return the experiment, the condition and the image of a stimulus by its file's name.

    "0001_ske_s01_0_boat_00_boat-0068.png" is ("ske", "0", "boat-0068") for every observer: trial
    and observer are not part of it. Of any other name experiment and condition are "".
    """
    stem = PurePath(name).stem
    match = STIMULUS.fullmatch(stem)
    return (match["experiment"], match["condition"], match["image"]) if match else ("", "", stem)


def plain_condition(condition: str) -> str:
    """Return a condition as it is compared: 0.10 and 0.1 are one."""
    try:
        return f"{float(condition):g}"
    except ValueError:
        return condition


def _original(imagename: str) -> str:
    originals = ORIGINAL.findall(imagename)
    if originals:
        return str(originals[-1])
    _, condition, image = stimulus_of(imagename)
    return image if condition else imagename


def _response(text: str) -> str:
    return "" if text.lower() in NO_ANSWER else text
