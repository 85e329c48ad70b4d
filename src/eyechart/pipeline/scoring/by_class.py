"""Results by class: accuracy, worst corruption, and the most frequent incorrect prediction."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.sparse import coo_array

from eyechart.core.arrays import FloatArray, IntArray
from eyechart.labels.categories import NONE
from eyechart.predictions.reading import Predictions
from eyechart.results.model_results import ClassResults
from eyechart.stats.bootstrap import resample_sums
from eyechart.stats.estimate import make_estimate


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
    labeled = predictions.take(predictions.label != NONE)
    if not len(labeled):
        return None
    images, index, counts = np.unique(labeled.image, return_inverse=True, return_counts=True)
    assert labeled.prediction is not None
    missed = labeled.correct == 0
    return ImageTotals(
        images=images,
        counts=counts,
        n_correct=np.bincount(index, labeled.correct).astype(np.float64),
        wrong=np.stack([labeled.label[missed], labeled.prediction[missed]]),
    )


@dataclass
class ByClass:
    """Accumulates totals one corruption at a time; `results` returns the results by class.

    Attributes:
        clean: Predictions for clean images.
        n_bootstrap: Number of bootstrap replicates.
        seed: Seed of the bootstrap.
        class_names: Names of all labels.
    """

    clean: Predictions
    n_bootstrap: int
    seed: int
    class_names: Sequence[str]
    _names: list[str] = field(default_factory=list)
    _totals: list[ImageTotals] = field(default_factory=list)

    def add(self, corruption: str, totals: ImageTotals | None) -> None:
        """Add the totals of one corruption, if it has any."""
        if totals is not None:
            self._names.append(corruption)
            self._totals.append(totals)

    def results(self) -> list[ClassResults]:
        """Return the results of every class with predictions, in the order of labels."""
        if not self._names:
            return []
        shape = (len(self._names), len(self.clean))
        counts, hits = np.zeros(shape), np.zeros(shape)
        for row, totals in enumerate(self._totals):
            # Clean images are sorted and contain every image of the test.
            columns = np.searchsorted(self.clean.image, totals.images)
            counts[row, columns], hits[row, columns] = totals.counts, totals.n_correct
        labels, class_index = np.unique(self.clean.label, return_inverse=True)
        replicates = self._replicates(
            counts.sum(axis=0), hits.sum(axis=0), class_index, len(labels)
        )
        mistakes = self._mistakes()
        results = []
        # The images of each class, in order; comparing all labels with each class would be slow.
        by_label = np.argsort(class_index, kind="stable")
        ends = np.cumsum(np.bincount(class_index))
        for column, label in enumerate(labels.tolist()):
            members = by_label[ends[column - 1] if column else 0 : ends[column]]
            if label != NONE and counts[:, members].any():
                mistake = mistakes.get(label, (NONE, None))
                rates = _ClassRates(counts[:, members], hits[:, members], replicates[:, column])
                results.append(self._result(label, rates, self.clean.correct[members], mistake))
        return results

    def _replicates(
        self, counts: FloatArray, hits: FloatArray, class_index: IntArray, classes: int
    ) -> FloatArray:
        """Return the accuracy of every class in every bootstrap replicate of images."""
        units = np.arange(len(counts))
        # Hits and counts side by side, so that one resampling draws both with the same weights.
        columns = np.concatenate([class_index, class_index + classes])
        table = coo_array(
            (np.concatenate([hits, counts]), (np.tile(units, 2), columns)),
            shape=(len(counts), 2 * classes),
        )
        sums = resample_sums(table.tocsr(), self.n_bootstrap, self.seed)
        right, total = sums[:, :classes], sums[:, classes:]
        shares: FloatArray = np.full(right.shape, np.nan)
        np.divide(right, total, out=shares, where=total > 0)
        return shares

    def _result(
        self,
        label: int,
        rates: "_ClassRates",
        clean: FloatArray,
        mistake: tuple[int, float | None],
    ) -> ClassResults:
        """Return the results of one class; `clean`: which clean images are classified correctly."""
        by_corruption = rates.by_corruption
        worst = int(by_corruption.argmin())
        n_images = int((rates.counts.sum(axis=0) > 0).sum())
        most_frequent, share = mistake
        # A replicate without any image of this class does not count for it.
        replicates = np.where(np.isnan(rates.replicates), rates.value, rates.replicates)
        return ClassResults(
            label=label,
            name=self.class_names[label],
            n_images=n_images,
            n_samples=int(rates.counts.sum()),
            clean=None if np.isnan(clean).all() else float(np.nanmean(clean)),
            corrupted=make_estimate(rates.value, replicates, n_images),
            worst=self._names[worst],
            worst_rate=float(by_corruption[worst]),
            instead="" if most_frequent == NONE else self.class_names[most_frequent],
            instead_share=share,
        )

    def _mistakes(self) -> dict[int, tuple[int, float]]:
        """Return each class's most frequent incorrect prediction.

        The second value is the fraction of the class's errors with this prediction.
        """
        pairs, counts = np.unique(
            np.concatenate([totals.wrong for totals in self._totals], axis=1),
            axis=1,
            return_counts=True,
        )
        mistakes = {}
        labels, starts = np.unique(pairs[0], return_index=True)
        # np.unique sorts pairs by label, so that the pairs of a label are adjacent.
        ends = np.searchsorted(pairs[0], labels, side="right")
        for label, start, end in zip(labels.tolist(), starts, ends, strict=True):
            predictions, frequency = pairs[1, start:end], counts[start:end]
            # Ties go to the smaller class index: np.unique sorts.
            most = int(frequency.argmax())
            mistakes[label] = (int(predictions[most]), float(frequency[most] / frequency.sum()))
        return mistakes


@dataclass(frozen=True, eq=False)
class _ClassRates:
    """Numbers of predictions and of correct predictions for one class, by corruption and image.

    `replicates` contains the accuracy in each bootstrap replicate.
    """

    counts: FloatArray
    hits: FloatArray
    replicates: FloatArray

    @property
    def value(self) -> float:
        """Accuracy over all corruptions."""
        return float(self.hits.sum(axis=1).sum() / self.counts.sum(axis=1).sum())

    @property
    def by_corruption(self) -> FloatArray:
        """Accuracy under each corruption; infinity for a corruption without predictions."""
        total, right = self.counts.sum(axis=1), self.hits.sum(axis=1)
        # Infinity keeps corruptions without predictions from being chosen as the worst.
        rates: FloatArray = np.full(len(total), np.inf)
        np.divide(right, total, out=rates, where=total > 0)
        return rates
