"""Classes of pictures one by one: how often a model is right, and what it says instead."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array

from eyechart.labels.categories import NONE
from eyechart.predictions.reading import Predictions
from eyechart.results.schema import ClassResults
from eyechart.stats.bootstrap import resample_sums
from eyechart.stats.estimate import make_estimate
from eyechart.testsets.samples import FloatArray, IntArray


@dataclass
class ByClass:
    """Gathers outcomes, a corruption at a time; `results` then says how each class did.

    `clean`: the answers to clean pictures. `replicates` and `seed`: of resampled sets of them.
    `class_names`: of all labels.
    """

    clean: Predictions
    replicates: int
    seed: int
    class_names: Sequence[str]
    _names: list[str] = field(default_factory=list)
    _totals: list[tuple[IntArray, NDArray[Any], NDArray[Any]]] = field(default_factory=list)
    _wrong: list[NDArray[np.int64]] = field(default_factory=list)

    def add(self, corruption: str, outcomes: Predictions) -> None:
        """Take the answers to one corruption into account; those without a label do not count."""
        own = outcomes.take(outcomes.label != NONE)
        if not len(own):
            return
        pictures, which, counts = np.unique(own.picture, return_inverse=True, return_counts=True)
        self._names.append(corruption)
        self._totals.append((pictures, counts, np.bincount(which, own.correct)))
        assert own.answer is not None
        missed = own.correct == 0
        self._wrong.append(np.stack([own.label[missed], own.answer[missed]]))

    def results(self) -> list[ClassResults]:
        """Return every class that has answers, in the order of labels."""
        if not self._names:
            return []
        universe, label = self.clean.picture, self.clean.label
        size = len(universe)
        counts, hits = np.zeros((len(self._names), size)), np.zeros((len(self._names), size))
        for place, (pictures, count, right) in enumerate(self._totals):
            where = np.searchsorted(universe, pictures)
            counts[place, where], hits[place, where] = count, right
        labels, which = np.unique(label, return_inverse=True)
        replicates = self._replicates(counts.sum(axis=0), hits.sum(axis=0), which, len(labels))
        instead = self._instead()
        return [
            self._score(int(own), which == place, counts, hits, replicates[:, place], instead)
            for place, own in enumerate(labels)
            if own != NONE and counts[:, which == place].any()
        ]

    def _replicates(
        self, counts: FloatArray, hits: FloatArray, which: IntArray, classes: int
    ) -> FloatArray:
        """Return the share of right answers of every class in every resampled set of pictures."""
        units = np.arange(len(counts))
        columns = np.concatenate([which, which + classes])
        table = coo_array(
            (np.concatenate([hits, counts]), (np.tile(units, 2), columns)),
            shape=(len(counts), 2 * classes),
        )
        sums = resample_sums(table.tocsr(), self.replicates, self.seed)
        right, total = sums[:, :classes], sums[:, classes:]
        shares: FloatArray = np.full(right.shape, np.nan)
        np.divide(right, total, out=shares, where=total > 0)
        return shares

    def _score(
        self,
        label: int,
        own: NDArray[np.bool_],
        counts: FloatArray,
        hits: FloatArray,
        replicates: FloatArray,
        instead: dict[int, tuple[int, float]],
    ) -> ClassResults:
        total, right = counts[:, own].sum(axis=1), hits[:, own].sum(axis=1)
        value = float(right.sum() / total.sum())
        rates = np.divide(right, total, out=np.full(len(total), np.inf), where=total > 0)
        worst = int(rates.argmin())
        clean = self.clean.correct[own]
        pictures = int((counts[:, own].sum(axis=0) > 0).sum())
        most_frequent, share = instead.get(label, (NONE, None))
        # a draw without any of these pictures says nothing new
        replicates = np.where(np.isnan(replicates), value, replicates)
        return ClassResults(
            label=label,
            name=self.class_names[label],
            pictures=pictures,
            answers=int(total.sum()),
            clean=None if np.isnan(clean).all() else float(np.nanmean(clean)),
            corrupted=make_estimate(value, replicates, pictures),
            worst=self._names[worst],
            worst_rate=float(rates[worst]),
            instead="" if most_frequent == NONE else self.class_names[most_frequent],
            instead_share=share,
        )

    def _instead(self) -> dict[int, tuple[int, float]]:
        """Return for each class the most frequent wrong answer, and its share of all wrong ones."""
        pairs, counts = np.unique(np.concatenate(self._wrong, axis=1), axis=1, return_counts=True)
        found = {}
        for label in np.unique(pairs[0]):
            own = pairs[0] == label
            most = int(counts[own].argmax())
            found[int(label)] = (
                int(pairs[1][own][most]),
                float(counts[own].max() / counts[own].sum()),
            )
        return found
