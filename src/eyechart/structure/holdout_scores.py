"""Accuracy on held-out and familiar images and the gap between them, with intervals.

The records are defined in `study_results`; `holdout_study` trains and predicts.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from PIL import Image

from eyechart.core.arrays import FloatArray, IntArray
from eyechart.core.errors import UsageError
from eyechart.core.storage.files import atomic_file
from eyechart.core.storage.parts import read_parquet
from eyechart.stats.bootstrap import Seed, draw_units, resample_means
from eyechart.stats.estimate import LEVELS, Estimate, make_estimate
from eyechart.stats.intervals import hull, percentile_interval, sum_interval
from eyechart.structure.folds import Fold
from eyechart.structure.holdout_images import HoldoutImages
from eyechart.structure.holdout_study import HoldoutJob, HoldoutStudy, file_of
from eyechart.structure.study_results import (
    AccuracyEstimate,
    Confusion,
    FoldScore,
    HeldOutExample,
    HoldoutResults,
    write_results,
)

N_BOOTSTRAP = 2000
"""Number of bootstrap replicates; larger than for curves, because resampling rates is cheap."""

MAX_CONFUSIONS = 20
"""Maximum number of confusions stored per fold, most frequent first."""

MAX_EXAMPLES, EXAMPLES_FOLDER = 20, "examples"
"""Maximum number of example images per fold, and the folder that contains them."""

HELD_OUT, FAMILIAR, FOLDS = 0, 1, 2
"""Keys of independent streams of random numbers."""


def score_study(study: HoldoutStudy, kinds: HoldoutImages, out: Path) -> HoldoutResults:
    """Score the predictions in `out`, write the scores to results.json, and return them."""
    tables = {
        fold.name: [read_parquet(HoldoutJob(fold, seed).test(out)) for seed in study.seeds]
        for fold in study.folds
    }
    # Images of the same subclass resemble each other, so whole subclasses are resampled.
    resampled = "subclasses"
    try:
        groups = np.unique(np.array(kinds.names("subclass")), return_inverse=True)[1]
    except UsageError:
        groups, resampled = np.arange(len(kinds.data)), "images"
    scores, estimates = [], []
    for number, fold in enumerate(study.folds):
        score, accuracies = _score(fold, tables[fold.name], kinds, groups, number)
        examples = keep_examples(fold, tables[fold.name][0], score.by_class, kinds, out)
        scores.append(score.model_copy(update={"examples": examples}))
        estimates.append(accuracies)
    held_out = _mean_over_folds(
        [own for own, _ in estimates], sum(score.n_images[HELD_OUT] for score in scores)
    )
    familiar_estimates = [own for _, own in estimates if own is not None]
    familiar = None
    if len(familiar_estimates) == len(estimates):
        n_familiar = sum(score.n_images[FAMILIAR] for score in scores)
        familiar = _mean_over_folds(familiar_estimates, n_familiar)
    results = HoldoutResults(
        kind=study.kind,
        network=study.network,
        epochs=study.recipe.epochs,
        seeds=study.seeds,
        classes=len(kinds.data.class_names),
        folds=tuple(scores),
        held_out=AccuracyEstimate.of(held_out),
        familiar=_stored(familiar),
        gap=_stored(None if familiar is None else estimate_gap(familiar, held_out)),
        protocol=study.protocol,
        resampled=resampled,
        notes=study.notes,
    )
    write_results(results, out)
    return results


def _score(
    fold: Fold, tables: Sequence[pa.Table], kinds: HoldoutImages, groups: IntArray, number: int
) -> tuple[FoldScore, tuple[Estimate, Estimate | None]]:
    names = kinds.data.class_names
    # All networks of a fold are tested on the same images in the same order.
    indices = tables[0]["place"].to_numpy()
    held = tables[0]["held_out"].to_numpy(zero_copy_only=False)
    labels = tables[0]["label"].to_numpy()
    predictions = np.array([table["prediction"].to_numpy() for table in tables])
    # Mean over the networks (seeds) of a fold, per image.
    correct = (predictions == labels).mean(axis=0)
    held_out = estimate_accuracy(correct[held], groups[indices[held]], (number, HELD_OUT))
    familiar, guessing = None, 0.0
    if not held.all():
        familiar = estimate_accuracy(correct[~held], groups[indices[~held]], (number, FAMILIAR))
        guessing = float(np.bincount(labels[~held]).max() / (~held).sum())
    counts = np.bincount(labels[held], minlength=len(names))
    by_class = {
        name: float(correct[held & (labels == label)].mean())
        for label, name in enumerate(names)
        if counts[label]
    }
    score = FoldScore(
        name=fold.name,
        held=fold.held,
        held_out=AccuracyEstimate.of(held_out),
        familiar=_stored(familiar),
        gap=_stored(None if familiar is None else estimate_gap(familiar, held_out)),
        n_images=(int(held.sum()), int((~held).sum()), len(fold.train)),
        copies=fold.copies,
        missing=tuple(name for label, name in enumerate(names) if not counts[label]),
        by_class=by_class,
        confusions=count_confusions(labels[held], predictions[:, held], names),
        guessing=guessing,
    )
    return score, (held_out, familiar)


def _stored(estimate: Estimate | None) -> AccuracyEstimate | None:
    return None if estimate is None else AccuracyEstimate.of(estimate)


def notes_on(results: HoldoutResults) -> list[str]:
    """Return notes on the validity of the results, one sentence each."""
    notes = list(results.notes)
    # A network no better than predicting the most frequent class has learned nothing, so its gap is
    # meaningless.
    blind = [
        fold
        for fold in results.folds
        if fold.familiar is not None and fold.familiar.interval[0] <= fold.guessing
    ]
    if blind:
        more = f" and {len(blind) - 1} more" if len(blind) > 1 else ""
        notes.append(
            f"Networks trained without {blind[0].name}{more} are hardly more accurate on familiar "
            f"images than predicting one class for all of them ({100 * blind[0].guessing:.0f} %), "
            "so the gap is not meaningful: train longer."
        )
    held = Counter(name for fold in results.folds for name in fold.held)
    repeated = [name for name, count in held.items() if count > 1]
    if repeated:
        notes.append(
            f"{len(repeated):,} of {len(held):,}"
            f" {'styles' if results.kind == 'style' else 'subclasses'}, such as {repeated[0]}, were"
            " held out in more than one fold, because too few are available."
        )
    return notes


def estimate_accuracy(correct: FloatArray, groups: IntArray, seed: Seed) -> Estimate:
    """Return the accuracy over images, with an interval from resampling groups of images.

    The interval is never narrower than for the same number of independent images.

    Args:
        correct: Fraction of networks whose prediction is correct, for each image.
        groups: Group of each image, such as its subclass.
        seed: Seed of the bootstrap.
    """
    _, unit = np.unique(groups, return_inverse=True)
    drawn = resample_means(np.bincount(unit, correct), np.bincount(unit), N_BOOTSTRAP, seed)
    return _with_floor(float(correct.mean()), drawn, len(correct))


def _with_floor(value: float, replicates: FloatArray, n_images: int) -> Estimate:
    # The binomial variance is the lower limit of the uncertainty.
    return make_estimate(value, replicates, n_images, value * (1 - value) / n_images)


def estimate_gap(familiar: Estimate, held_out: Estimate) -> Estimate:
    """Return the difference of two accuracies, with an interval no narrower than Newcombe's."""
    # A few images that are all correct (or all incorrect) would have a bootstrap interval of width
    # 0.
    replicates = familiar.replicates - held_out.replicates
    intervals = []
    for level, one, two in (
        (LEVELS[0], familiar.interval95, held_out.interval95),
        (LEVELS[1], familiar.interval83, held_out.interval83),
    ):
        floor = sum_interval([(1, familiar.value, one), (-1, held_out.value, two)])
        intervals.append(hull(percentile_interval(replicates, level), floor))
    return Estimate.of(familiar.value - held_out.value, intervals[0], intervals[1], replicates)


def _mean_over_folds(estimates: Sequence[Estimate], n_images: int) -> Estimate:
    """Return the mean over folds; for intervals, folds are resampled identically for all means."""
    n_folds = len(estimates)
    # The same draw of folds for held-out and familiar images keeps their difference paired.
    folds = draw_units(n_folds, n_folds, N_BOOTSTRAP, (n_folds, FOLDS))
    drawn = np.stack([estimate.replicates for estimate in estimates], axis=1)
    replicates = np.take_along_axis(drawn, folds, axis=1).mean(axis=1)
    value = float(np.mean([estimate.value for estimate in estimates]))
    return _with_floor(value, replicates, n_images)


def count_confusions(
    labels: IntArray, predictions: IntArray, names: Sequence[str]
) -> tuple[Confusion, ...]:
    """Return the most frequent confusions; `predictions` has one row per network."""
    table = np.zeros((len(names), len(names)), dtype=np.int64)
    for row in predictions:
        np.add.at(table, (labels, row), 1)
    counts = table.sum(axis=1)
    # Correct predictions are not confusions, but they count in the total.
    np.fill_diagonal(table, 0)
    order = np.argsort(table, axis=None, kind="stable")[::-1][:MAX_CONFUSIONS]
    confusions = []
    for cell in order.tolist():
        label, prediction = divmod(cell, len(names))
        if table[label, prediction]:
            confusions.append(
                Confusion(
                    label=names[label],
                    prediction=names[prediction],
                    share=float(table[label, prediction] / counts[label]),
                    # The counts include every image once for each network.
                    n_images=int(counts[label] // len(predictions)),
                )
            )
    return tuple(confusions)


def keep_examples(
    fold: Fold, table: pa.Table, by_class: Mapping[str, float], kinds: HoldoutImages, out: Path
) -> tuple[HeldOutExample, ...]:
    """Write examples of held-out images, from the hardest class to the easiest.

    Each example has a typical prediction: incorrect if most predictions for its class are
    incorrect.
    """
    names = kinds.data.class_names
    held = table["held_out"].to_numpy(zero_copy_only=False)
    indices, labels = (table[name].to_numpy()[held] for name in ("place", "label"))
    predictions = table["prediction"].to_numpy()[held]
    order = sorted(by_class, key=lambda name: (by_class[name], name))
    count = min(MAX_EXAMPLES, len(order))
    # Examples are spread from the hardest to the easiest class.
    spread = np.linspace(0, len(order) - 1, count).round().astype(int).tolist()
    examples = []
    folder = out / EXAMPLES_FOLDER / file_of(fold.name)
    folder.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(order[rank] for rank in spread):
        images = np.flatnonzero(labels == names.index(name))
        usual = (predictions[images] == labels[images]) == (by_class[name] >= 0.5)
        chosen = int(images[usual][0] if usual.any() else images[0])
        path = folder / f"{number}.png"
        pixels = kinds.data.batch([int(indices[chosen])])[0].permute(1, 2, 0).numpy()
        with atomic_file(path) as temporary:
            Image.fromarray(pixels).save(temporary, "png")
        prediction = names[int(predictions[chosen])]
        examples.append(
            HeldOutExample(
                image=path.relative_to(out).as_posix(),
                label=name,
                prediction=prediction,
                is_right=prediction == name,
            )
        )
    return tuple(examples)
