"""Import human responses from tables of experiments, with a function for each format."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from eyechart.core.arrays import FloatArray
from eyechart.core.csv_table import CsvRow, column_names, read_rows
from eyechart.core.errors import UsageError
from eyechart.core.options import takes_fields_of
from eyechart.humans.human_responses import (
    CLEAN,
    HumanResponses,
    are_simulated,
    make_responses,
)
from eyechart.humans.human_settings import FORMATS, ImportSettings
from eyechart.humans.placement import Placement, find_placement, strength_of
from eyechart.humans.same_different import read_single_judgements
from eyechart.images.labels.imagenet import CATEGORIES

COUNTED = {"accuracy": ("num_accs", "correct"), "preserved": ("num_pre", "consistent")}
"""Maps each column of rates to its column of hit counts and to the field that it fills."""

COUNTED_CHOICES = 2
"""Number of choices in the experiment for which the format "counts" was made."""

ORIGINAL = re.compile(r"n\d{8}_\d+")
"""Name of the original ImageNet image, which is part of a stimulus file's name."""

STIMULUS = re.compile(
    r"\d+_(?P<experiment>[^_]+)_[^_]+_(?P<condition>[^_]+)_[^_]+_\d+_(?P<image>.+)"
)
"""File name of a stimulus: trial, experiment, observer, condition, category, number and image."""


@takes_fields_of(ImportSettings)
def import_responses(settings: ImportSettings) -> HumanResponses:
    """Return the responses in CSV files that have one of the `FORMATS`."""
    read = FORMATS[str(settings.form)]
    if not settings.files:
        raise UsageError("Pass at least one file to import.")
    responses = read(settings.files, settings)
    judgements = (
        () if settings.judgements is None else tuple(read_single_judgements(settings.judgements))
    )
    return replace(
        responses, citation=settings.citation, license=settings.license, judgements=judgements
    )


def read_counts(paths: Sequence[Path], options: ImportSettings) -> HumanResponses:
    """Return the responses in tables that count correct or consistent responses by Δv."""
    rows: list[tuple[str, float, int, dict[str, float]]] = []
    for path in paths:
        rate = next((name for name in COUNTED if name in column_names(path)), None)
        if rate is None:
            raise UsageError(f"{path} lacks the column Accuracy or Preserved.")
        number, known = COUNTED[rate]
        for row in read_rows(path, ("iqa", rate, "count", number)):
            total, hits = row.whole("count"), row.whole(number)
            # The tables also list empty bins.
            if not total:
                continue
            # Rates in these tables are rounded; a larger difference means an inconsistent row.
            if abs(hits / total - row.share(rate)) > 1e-3:
                raise row.rejection(f"{rate} is not {number} / count: fix the row or remove it")
            corruption = row.cells.get("corruption") or options.corruption
            if not corruption:
                raise UsageError(
                    f"{path} does not name the corruption of the images: pass a corruption."
                )
            rows.append((corruption, row.share("iqa"), total, {known: hits / total}))
    if not rows:
        raise UsageError(f"{paths[0]} contains no responses.")
    corruptions, delta_v, trials, rates = zip(*rows, strict=True)
    return make_responses(
        len(rows),
        source="counts",
        choices=options.choices or COUNTED_CHOICES,
        label_space=options.label_space or f"{options.choices or COUNTED_CHOICES} choices",
        corruption=corruptions,
        delta_v=delta_v,
        trials=trials,
        correct=[rate.get("correct", np.nan) for rate in rates],
        consistent=[rate.get("consistent", np.nan) for rate in rates],
    )


def read_trials(paths: Sequence[Path], options: ImportSettings) -> HumanResponses:
    """Return the responses in eyechart's tables of trials, one row per trial."""
    rows = [
        row
        for path in paths
        for row in read_rows(
            path, ("corruption", "subject", "image", "label", "response", "delta_v")
        )
    ]
    clean = [response_of(row["clean_response"]) if "clean_response" in row else "" for row in rows]
    return make_responses(
        len(rows),
        **read_labels(rows, "label", "response", options, clean),
        source="trials",
        corruption=[corruption_of(row, options) for row in rows],
        subject=[row["subject"] for row in rows],
        image=[row["image"] for row in rows],
        clean_response=clean,
        delta_v=[row.share("delta_v", unknown=True) for row in rows],
        simulated=are_simulated(rows),
    )


def read_vcr(paths: Sequence[Path], options: ImportSettings) -> HumanResponses:
    """Return the responses in tables with the columns of the VCR study.

    `transf_pred` is the response to the corrupted image, `orig_pred` is another participant's
    response to the clean image, and `vd_score` is Δv.
    """
    rows = [
        row
        for path in paths
        for row in read_rows(path, ("orig_pred", "transf_pred", "label", "vd_score"))
    ]
    clean = [response_of(row["orig_pred"]) for row in rows]
    return make_responses(
        len(rows),
        **read_labels(rows, "label", "transf_pred", options, clean),
        source="vcr",
        corruption=[corruption_of(row, options) for row in rows],
        subject=[row.cells.get("subject", "") for row in rows],
        image=[row.cells.get("image", "") for row in rows],
        clean_response=clean,
        # The study's code does not clamp Δv at 0, so small negative values are valid.
        delta_v=[row.share("vd_score", unknown=True, below=True) for row in rows],
    )


def read_model_vs_human(paths: Sequence[Path], options: ImportSettings) -> HumanResponses:
    """Return the responses in tables from the model-vs-human toolbox, one row per trial.

    Without Δv, that is, with neither a placement nor a column delta_v, only error consistency κ can
    be computed, and no curves can be fitted. Experiments are then named after their files, unless a
    corruption is passed.
    """
    placement = None if options.placement is None else find_placement(options.placement)
    rows: list[CsvRow] = []
    changes, names = [], []
    for path in paths:
        file_rows = list(
            read_rows(path, ("subj", "object_response", "category", "condition", "imagename"))
        )
        rows += file_rows
        changes.append(_changes(file_rows, placement))
        name = options.corruption or options.placement or ""
        if not name and "corruption" not in file_rows[0] and "delta_v" in file_rows[0]:
            # A curve belongs to a corruption; a file name is not one.
            raise UsageError(
                f"{path} must name the corruption of the images: pass a placement or a corruption."
            )
        for row in file_rows:
            check_corruption(row, options)
        # "sketch" for sketch_subject-01_….csv
        experiment = path.name.removesuffix(".gz").removesuffix(".csv").split("_subject-")[0]
        names += [name or row.cells.get("corruption") or experiment for row in file_rows]
    return make_responses(
        len(rows),
        **read_labels(rows, "category", "object_response", options),
        source="model-vs-human",
        corruption=names,
        condition=[row["condition"] for row in rows],
        subject=[row.filled("subj") for row in rows],
        image=[_original(row["imagename"]) for row in rows],
        stimulus_set=[stimulus_of(row["imagename"])[0] for row in rows],
        delta_v=np.concatenate(changes),
        simulated=are_simulated(rows),
    )


def _changes(rows: Sequence[CsvRow], placement: Placement | None) -> FloatArray:
    """Return each row's Δv, or NaN if neither the table nor a placement provides it."""
    if "delta_v" in rows[0]:
        return np.array([row.share("delta_v", unknown=True) for row in rows])
    return np.full(len(rows), np.nan) if placement is None else _placed(rows, placement)


def _placed(rows: Sequence[CsvRow], placement: Placement) -> FloatArray:
    """Return a Δv for each row; each participant's rows are spread evenly over a condition's Δv."""
    groups: dict[tuple[str, float], list[int]] = {}
    for index, row in enumerate(rows):
        try:
            strength = strength_of(row["condition"])
            # Raises if the placement lacks this strength, so that the message can name the row.
            placement.spread(strength, 1)
        except UsageError as error:
            raise row.rejection(str(error).rstrip(".")) from None
        groups.setdefault((row["subj"], strength), []).append(index)
    delta_v = np.empty(len(rows))
    for (_, strength), indices in groups.items():
        # Values are assigned in random order, because the order of trials may carry meaning.
        # The seed is fixed, so that importing a table again gives the same Δv.
        order = np.random.default_rng(0).permutation(len(indices))
        delta_v[indices] = placement.spread(strength, len(indices))[order]
    return delta_v


def stimulus_of(name: str) -> tuple[str, str, str]:
    """Return the experiment, condition and image in the file name of a stimulus.

    The trial and the observer in the name are ignored. If the name has a different format, the
    experiment and the condition are "".

    Example:
        >>> stimulus_of("0001_ske_s01_0_boat_00_boat-0068.png")
        ('ske', '0', 'boat-0068')
    """
    stem = PurePath(name).stem
    match = STIMULUS.fullmatch(stem)
    return (match["experiment"], match["condition"], match["image"]) if match else ("", "", stem)


def plain_condition(condition: str) -> str:
    """Return a condition in normalized form: "0.10" becomes "0.1"."""
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


def corruption_of(row: CsvRow, options: ImportSettings) -> str:
    """Return the corruption of a row, from its table or from the option --corruption."""
    check_corruption(row, options)
    if not options.corruption and "corruption" not in row:
        raise UsageError(
            f"{row.path} must name the corruption of the images: pass --corruption, or add a column"
            " corruption."
        )
    return options.corruption or row.filled("corruption")


def check_corruption(row: CsvRow, options: ImportSettings) -> None:
    """Raise a UsageError if the table and the option name different corruptions."""
    corruption = row.cells.get("corruption", "")
    if options.corruption and corruption not in ("", CLEAN, options.corruption):
        raise row.rejection(
            f"corruption is {corruption}, not {options.corruption}: omit --corruption, which is "
            "only for tables without that column"
        )


def read_labels(
    rows: Sequence[CsvRow],
    label_column: str,
    response_column: str,
    options: ImportSettings,
    clean: Sequence[str] = (),
) -> dict[str, Any]:
    """Return labels, responses, number of choices and label space as `make_responses` takes them.

    `clean`: responses to the clean images; empty if the table has none.
    """
    labels = [row.filled(label_column) for row in rows]
    responses = [response_of(row[response_column]) for row in rows]
    # 16 choices mean the 16 categories unless another label space is passed.
    sixteen = options.choices == 16 and options.label_space in (None, "entry16")
    if sixteen or (options.choices is None and set(labels) <= set(CATEGORIES)):
        for row, *texts in zip(rows, labels, responses, clean or responses, strict=True):
            for text in texts:
                if text and text not in CATEGORIES:
                    raise row.rejection(f"'{text}' is not one of the 16 categories; pass --choices")
        return {"label": labels, "response": responses, "choices": 16, "label_space": "entry16"}
    if options.choices is None:
        strange = next(row for row in rows if row[label_column] not in CATEGORIES)
        raise strange.rejection(
            f"'{strange[label_column]}' is not one of the 16 categories: pass the number of choices"
            " (choices)"
        )
    return {
        "label": labels,
        "response": responses,
        "choices": options.choices,
        "label_space": options.label_space or f"{options.choices} choices",
    }


def response_of(text: str) -> str:
    """Return a response in the normalized form used for comparison; "" for no response."""
    # Tables of model-vs-human write "na" for missed trials.
    return "" if text.lower() in ("", "na", "nan", "none") else text
