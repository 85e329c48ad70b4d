"""Rates at single conditions of a corruption: quarter turns, or a corruption without strengths."""

from collections.abc import Iterator, Sequence

import numpy as np

from eyechart.core.arrays import IntArray
from eyechart.corruptions.suites.suite import Entry
from eyechart.humans.placement import human_conditions
from eyechart.images.labels.imagenet import NONE
from eyechart.predictions.reading import Predictions
from eyechart.results.model_results import ConditionResults
from eyechart.scores.scoring import Fit, estimate_mean
from eyechart.testsets.samples import Samples

QUARTER_TURNS = (90, 180, 270)
"""Clockwise angles at which humans were tested."""


def score_conditions(
    entry: Entry, groups: Sequence[Samples], predictions: Predictions, fit: Fit, has_humans: bool
) -> Iterator[ConditionResults]:
    """Yield the rates at each single condition of a corruption that has samples.

    `has_humans`: whether the predictions are in the 16 categories, as human responses are.
    """
    if predictions.row is None:
        return
    samples = next((samples for samples in groups if samples.name == entry.name), None)
    for condition, rows in [] if samples is None else _conditions(entry, samples):
        chosen = predictions.take(np.isin(predictions.row, rows))
        labeled = chosen.take(chosen.label != NONE)
        if not len(chosen):
            continue
        accuracy, n_trials, source = None, None, ""
        if has_humans and (entry.name, condition) in human_conditions():
            accuracy, n_trials, source = human_conditions()[entry.name, condition]
        yield ConditionResults(
            condition=condition,
            n_samples=len(chosen),
            accuracy=estimate_mean(labeled.correct, labeled, fit) if len(labeled) else None,
            consistency=None
            if np.isnan(chosen.consistent).any()
            else estimate_mean(chosen.consistent, chosen, fit),
            human_accuracy=accuracy,
            human_trials=n_trials,
            human_source=source,
        )


def _conditions(entry: Entry, samples: Samples) -> Iterator[tuple[str, IntArray]]:
    """Yield the name of each condition with the rows of its samples."""
    values = samples.values
    if entry.is_single:
        yield entry.name.rpartition("/")[2], samples.row
    elif {"degrees", "clockwise"} <= values.keys():
        angle = values["degrees"] * values["clockwise"] % 360
        for turn in QUARTER_TURNS:
            if (angle == turn).any():
                yield f"{turn}°", samples.row[angle == turn]
