"""Import tables from the model-vs-human toolbox, with one row per trial."""

import re
from collections.abc import Sequence
from pathlib import Path, PurePath

import numpy as np

from eyechart.core.arrays import FloatArray
from eyechart.core.csv_table import CsvRow, read_rows
from eyechart.core.errors import UsageError
from eyechart.humans.human_responses import HumanResponses, are_simulated, make_responses
from eyechart.humans.import_settings import ImportSettings
from eyechart.humans.importing import check_corruption, read_labels
from eyechart.humans.placement import Placement, find_placement, strength_of

ORIGINAL = re.compile(r"n\d{8}_\d+")
"""Name of the original ImageNet image, which is part of a stimulus file's name."""

STIMULUS = re.compile(
    r"\d+_(?P<experiment>[^_]+)_[^_]+_(?P<condition>[^_]+)_[^_]+_\d+_(?P<image>.+)"
)
"""File name of a stimulus: trial, experiment, observer, condition, category, number and image."""

COLUMNS = ("subj", "object_response", "category", "condition", "imagename")


def read(paths: Sequence[Path], options: ImportSettings) -> HumanResponses:
    """Return the responses in tables from the model-vs-human toolbox, one row per trial.

    Without Δv, that is, with neither a placement nor a column delta_v, only error consistency κ can
    be computed, and no curves can be fitted. Experiments are then named after their files, unless a
    corruption is passed.
    """
    placement = None if options.placement is None else find_placement(options.placement)
    rows: list[CsvRow] = []
    changes, names = [], []
    for path in paths:
        file_rows = list(read_rows(path, COLUMNS))
        rows += file_rows
        changes.append(_changes(file_rows, placement))
        name = options.corruption or options.placement or ""
        if not name and "corruption" not in file_rows[0] and "delta_v" in file_rows[0]:
            # A curve belongs to a corruption; a file name is not one.
            raise UsageError(
                f"{path} must name the corruption of the images: pass a placement or a corruption."
            )
        names += [
            name or row.cells.get("corruption") or experiment_of(path)
            for row in file_rows
            if check_corruption(row, options)
        ]
    raw_responses = [row["object_response"] for row in rows]
    labeled = read_labels(rows, "category", raw_responses, options)
    return make_responses(
        len(rows),
        source="model-vs-human",
        corruption=names,
        condition=[row["condition"] for row in rows],
        subject=[row.filled("subj") for row in rows],
        image=[_original(row["imagename"]) for row in rows],
        stimulus_set=[stimulus_of(row["imagename"])[0] for row in rows],
        label=labeled.labels,
        response=labeled.responses,
        delta_v=np.concatenate(changes),
        choices=labeled.choices,
        label_space=labeled.label_space,
        simulated=are_simulated(rows),
    )


def _changes(rows: Sequence[CsvRow], placement: Placement | None) -> FloatArray:
    """Return each row's Δv, or NaN if neither the table nor a placement provides it."""
    if "delta_v" in rows[0]:
        return np.array([row.share("delta_v", unknown=True) for row in rows])
    return np.full(len(rows), np.nan) if placement is None else _placed(rows, placement)


def experiment_of(path: Path) -> str:
    """Return the experiment that a file is named after: "sketch" for sketch_subject-01_….csv."""
    return path.name.removesuffix(".gz").removesuffix(".csv").split("_subject-")[0]


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
    for (_, strength), places in groups.items():
        # Values are assigned in random order, because the order of trials may carry meaning.
        # The seed is fixed, so that importing a table again gives the same Δv.
        order = np.random.default_rng(0).permutation(len(places))
        delta_v[places] = placement.spread(strength, len(places))[order]
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
