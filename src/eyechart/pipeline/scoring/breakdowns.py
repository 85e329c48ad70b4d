"""Scores of parts of the samples: by class, and at single conditions of a corruption.

Conditions are quarter turns, or the only one of a corruption without strengths.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array

from eyechart.core.arrays import FloatArray, IntArray
from eyechart.corruptions.suites.suite import Entry
from eyechart.humans.placement import human_conditions
from eyechart.images.labels.imagenet import NONE
from eyechart.predictions.reading import Predictions
from eyechart.results.model_results import ClassResults, ConditionResults
from eyechart.scores.scoring import Fit, estimate_mean
from eyechart.scores.statistic import ratio
from eyechart.stats.bootstrap import resample_sums
from eyechart.stats.estimate import make_estimates
from eyechart.testsets.samples import Samples

QUARTER_TURNS = (90, 180, 270)
"""Clockwise angles at which humans were tested."""


@dataclass(frozen=True, eq=False)
class ImageTotals:
    """Numbers of predictions and of correct predictions per image, under one corruption.

    `wrong`: label and prediction of each incorrect prediction, (2, n_wrong).
    """

    images: IntArray
    counts: IntArray
    n_correct: FloatArray
    wrong: IntArray


def count_by_image(predictions: Predictions) -> ImageTotals | None:
    """Return the totals of the predictions under one corruption; None without any label."""
    # Samples without a label belong to no class.
    labeled = predictions.select(predictions.label != NONE)
    if not len(labeled):
        return None
    counts, n_correct = np.bincount(labeled.image), np.bincount(labeled.image, labeled.correct)
    images = np.flatnonzero(counts)
    assert labeled.prediction is not None
    missed = labeled.correct == 0
    return ImageTotals(
        images=images,
        counts=counts[images],
        n_correct=n_correct[images].astype(np.float64),
        wrong=np.stack([labeled.label[missed], labeled.prediction[missed]]),
    )


def results_by_class(
    clean: Predictions,
    totals: Mapping[str, ImageTotals],
    class_names: Sequence[str],
    n_bootstrap: int,
    seed: int,
) -> list[ClassResults]:
    """Return the results of every class with predictions, in the order of labels.

    Args:
        clean: Predictions for clean images.
        totals: Totals of the corruptions that have any, by name.
        class_names: Names of all labels.
        n_bootstrap: Number of bootstrap replicates.
        seed: Seed of the bootstrap.
    """
    if not totals:
        return []
    labels, class_index = np.unique(clean.label, return_inverse=True)
    names, shape = list(totals), (len(totals), len(labels))
    # Numbers of predictions and of correct predictions by corruption and class, and by image.
    counts, hits = np.zeros(shape), np.zeros(shape)
    image_counts, image_hits = np.zeros(len(clean)), np.zeros(len(clean))
    for row, of_corruption in enumerate(totals.values()):
        # Clean images are sorted and contain every image of the test.
        images = np.searchsorted(clean.image, of_corruption.images)
        classes = class_index[images]
        counts[row] = np.bincount(classes, of_corruption.counts, len(labels))
        hits[row] = np.bincount(classes, of_corruption.n_correct, len(labels))
        image_counts[images] += of_corruption.counts
        image_hits[images] += of_corruption.n_correct
    n_images = np.bincount(class_index[image_counts > 0], minlength=len(labels))
    chosen = np.flatnonzero((labels != NONE) & (n_images > 0))
    # Hits and counts side by side, so that one resampling draws both with the same weights.
    units = np.arange(len(clean))
    table = coo_array(
        (
            np.concatenate([image_hits, image_counts]),
            (np.tile(units, 2), np.concatenate([class_index, class_index + len(labels)])),
        ),
        shape=(len(clean), 2 * len(labels)),
    )
    sums = resample_sums(table.tocsr(), n_bootstrap, seed)
    corrupted = make_estimates(
        ratio(hits.sum(axis=0), counts.sum(axis=0))[chosen],
        ratio(sums[:, : len(labels)], sums[:, len(labels) :]).T[chosen],
        n_images[chosen],
    )
    # Infinity keeps corruptions without predictions from being chosen as the worst.
    rates = np.where(counts > 0, ratio(hits, counts), np.inf)
    worst = rates.argmin(axis=0)
    # Accuracy on clean images; NaN if it is unknown.
    known = ~np.isnan(clean.correct)
    clean_hits = np.bincount(class_index[known], clean.correct[known], len(labels))
    clean_counts = np.bincount(class_index[known], minlength=len(labels))
    clean_rates = ratio(clean_hits.astype(np.float64), clean_counts.astype(np.float64))
    mistakes = _mistakes(list(totals.values()))
    results = []
    for column, estimate in zip(chosen.tolist(), corrupted, strict=True):
        label = int(labels[column])
        most_frequent, share = mistakes.get(label, (NONE, None))
        results.append(
            ClassResults(
                label=label,
                name=class_names[label],
                n_images=int(n_images[column]),
                n_samples=int(counts[:, column].sum()),
                clean=None if np.isnan(clean_rates[column]) else float(clean_rates[column]),
                corrupted=estimate,
                worst=names[worst[column]],
                worst_rate=float(rates[worst[column], column]),
                instead="" if most_frequent == NONE else class_names[most_frequent],
                instead_share=share,
            )
        )
    return results


def _mistakes(totals: Sequence[ImageTotals]) -> dict[int, tuple[int, float]]:
    """Return each class's most frequent incorrect prediction.

    The second value is the fraction of the class's errors with this prediction.
    """
    wrong = np.concatenate([of_corruption.wrong for of_corruption in totals], axis=1)
    if not wrong.size:
        return {}
    # One number for each pair, in the order of labels and then of predictions, which start at
    # −1: sorting numbers is much faster than sorting pairs.
    width = int(wrong[1].max()) + 2
    codes, counts = np.unique(wrong[0] * width + wrong[1] + 1, return_counts=True)
    pairs = np.stack([codes // width, codes % width - 1])
    mistakes = {}
    labels, starts = np.unique(pairs[0], return_index=True)
    # np.unique sorts, so that the pairs of a label are adjacent.
    ends = np.searchsorted(pairs[0], labels, side="right")
    for label, start, end in zip(labels.tolist(), starts, ends, strict=True):
        predictions, frequency = pairs[1, start:end], counts[start:end]
        # Ties go to the smaller class index: np.unique sorts.
        most = int(frequency.argmax())
        mistakes[label] = (int(predictions[most]), float(frequency[most] / frequency.sum()))
    return mistakes


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
        chosen = predictions.select(np.isin(predictions.row, rows))
        labeled = chosen.select(chosen.label != NONE)
        accuracy, n_trials, source = None, None, ""
        if has_humans and (entry.name, condition) in human_conditions():
            accuracy, n_trials, source = human_conditions()[entry.name, condition]
        if not len(chosen):
            continue
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
