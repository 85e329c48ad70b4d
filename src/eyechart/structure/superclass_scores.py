"""Accuracy on seen and unseen subclasses and the gap between them, with intervals.

The records are defined in `study_results`; `superclass_study` fine-tunes and predicts.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from eyechart.core.arrays import IntArray
from eyechart.core.errors import UsageError
from eyechart.stats.intervals import sum_interval
from eyechart.structure.holdout_scores import count_confusions, estimate_accuracy
from eyechart.structure.study_results import (
    AccuracyEstimate,
    SuperclassModelScore,
    SuperclassResults,
    SuperclassScore,
    read_superclass_results,
    write_results,
)
from eyechart.structure.superclass_images import Split
from eyechart.structure.superclass_study import PREDICTIONS, predictions_in
from eyechart.training.recipe import Recipe


def score_superclasses(
    specs: Sequence[str],
    data: Split,
    recipe: Recipe,
    accuracies: Mapping[str, float | None],
    out: Path,
) -> SuperclassResults:
    """Score the predictions in `out`, write the scores to results.json, and return them.

    Models fine-tuned by an earlier command in the same study stay in the results.
    """
    # A second command may add models to a study.
    # The folder's settings ensure that earlier scores come from the same images and recipe.
    scores = {score.name: score for score in _earlier_scores(out)}
    for spec in specs:
        predictions = predictions_in(spec, out).read(PREDICTIONS)["prediction"].to_numpy()
        scores[spec] = score_model(spec, predictions, data, accuracies.get(spec))
    n_seen = len(data.seen)
    results = SuperclassResults(
        tune=recipe.tune,
        epochs=recipe.epochs,
        lr=recipe.lr,
        n_images=(len(data.train), n_seen, len(data.unseen)),
        synsets=(len(set(data.synsets[:n_seen])), len(set(data.synsets[n_seen:]))),
        models=tuple(scores.values()),
        notes=data.notes,
    )
    write_results(results, out)
    return results


def _earlier_scores(out: Path) -> tuple[SuperclassModelScore, ...]:
    """Return the model scores in existing results; () if there are no valid results."""
    try:
        return read_superclass_results(out).models
    except UsageError:
        return ()


def score_model(
    name: str, predictions: IntArray, data: Split, imagenet_accuracy: float | None = None
) -> SuperclassModelScore:
    """Return a model's score; `predictions` has the seen images first, then the unseen."""
    labels = np.concatenate([data.seen.labels.numpy(), data.unseen.labels.numpy()])
    correct = (predictions == labels).astype(np.float64)
    groups = np.unique(np.array(data.synsets), return_inverse=True)[1]
    unseen = np.arange(len(labels)) >= len(data.seen)

    def accuracy(images: NDArray[np.bool_], label: int) -> AccuracyEstimate:
        # Independent random numbers for each superclass, and for seen and unseen subclasses.
        seed = (label, int(unseen[images].all()))
        return AccuracyEstimate.of(estimate_accuracy(correct[images], groups[images], seed))

    scores = []
    for label, superclass in enumerate(data.superclasses):
        parts = [(labels == label) & ~unseen, (labels == label) & unseen]
        counts = [int(part.sum()) for part in parts]
        synsets = [len(set(groups[part].tolist())) for part in parts]
        before = accuracy(parts[0], label)
        after = accuracy(parts[1], label) if counts[1] else None
        scores.append(
            SuperclassScore(
                name=superclass.name,
                wnid=superclass.wnid,
                seen=before,
                unseen=after,
                gap=None if after is None else weighted_sum([before, after], [1, -1]),
                synsets=(synsets[0], synsets[1]),
                n_images=(counts[0], counts[1]),
            )
        )
    pairs = [(score.seen, score.unseen) for score in scores if score.unseen is not None]
    before_scores, afters = [seen for seen, _ in pairs], [unseen for _, unseen in pairs]
    # Superclasses without unseen images are left out of both means.
    evenly = [1 / len(pairs)] * len(pairs)
    # A label beyond the superclasses gives the overall accuracy its own random numbers.
    overall = [accuracy(images, len(data.superclasses)) for images in (~unseen, unseen)]
    return SuperclassModelScore(
        name=name,
        imagenet_accuracy=imagenet_accuracy,
        seen=overall[0],
        unseen=overall[1],
        gap=weighted_sum(overall, [1, -1]),
        mean_seen=weighted_sum(before_scores, evenly),
        mean_unseen=weighted_sum(afters, evenly),
        mean_gap=weighted_sum([*before_scores, *afters], [*evenly, *(-share for share in evenly)]),
        superclasses=tuple(scores),
        confusions=count_confusions(
            labels[unseen], predictions[unseen][None], data.seen.class_names
        ),
    )


def weighted_sum(
    estimates: Sequence[AccuracyEstimate], weights: Sequence[float]
) -> AccuracyEstimate:
    """Return a weighted sum of independent accuracies, such as a difference or a mean."""
    pairs = list(zip(weights, estimates, strict=True))
    return AccuracyEstimate(
        value=sum(weight * estimate.value for weight, estimate in pairs),
        interval=sum_interval((weight, term.value, term.interval) for weight, term in pairs),
        narrow_interval=sum_interval(
            (weight, term.value, term.narrow_interval) for weight, term in pairs
        ),
    )
