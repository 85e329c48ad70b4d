"""Score one model in one label space: from predictions to scores under every corruption."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from eyechart.core.parallel import map_on_threads, n_cores
from eyechart.core.progress import Advance
from eyechart.corruptions.suites.suite import Entry
from eyechart.humans.combined import References
from eyechart.humans.human_fit import CategoryMix, category_mix
from eyechart.humans.reference import METRICS
from eyechart.images.labels.imagenet import NONE
from eyechart.images.labels.spaces import ENTRY16
from eyechart.models.model import Model
from eyechart.pipeline.evaluation_run import EvaluationRun, LabelSpace
from eyechart.pipeline.scoring.baseline import HUMANS, BaselineError, human_error
from eyechart.pipeline.scoring.breakdowns import (
    ImageTotals,
    count_by_image,
    results_by_class,
    score_conditions,
)
from eyechart.pipeline.scoring.comparisons import similar_corruptions
from eyechart.pipeline.scoring.corruption_scores import (
    CorruptionScorer,
    correct_for_number,
    without_claim,
)
from eyechart.predictions.reading import PredictionReader, Predictions
from eyechart.results.model_results import CorruptionResults, SimilarPair, SpaceResults
from eyechart.scores.registry import SCORES
from eyechart.scores.scoring import (
    Fit,
    class_weights,
    estimate_mean,
    human_curve,
    insufficient_data,
    too_few_images,
)
from eyechart.stats.bootstrap import draw_ahead
from eyechart.stats.estimate import Estimate, mean_estimate

MAX_THREADS = 6
"""Maximum number of threads. A quarter of the work holds Python's lock: with more threads, they
wait for it longer than they compute, and scoring becomes slower again."""


ScoredCorruption = tuple[CorruptionResults, BaselineError | None, ImageTotals | None]
"""The results of one corruption, and what the results over all corruptions need of it: the error of
humans if they are the baseline, and totals by image.
"""


@dataclass(frozen=True, eq=False)
class SpaceScorer:
    """Scores a model of a run in one label space."""

    run: EvaluationRun
    model: Model
    space: LabelSpace

    def start(self) -> Iterator[ScoredCorruption]:
        """Start scoring all corruptions on threads; return the results in order, when ready."""
        fit, n_images = self._fit, len(self._clean)
        # One thread draws the weights of all scores; the others read predictions meanwhile.
        map_on_threads(lambda n: draw_ahead(n, fit.n_bootstrap, fit.seed), [n_images], n_threads())
        self._fit_human_curves()
        # NumPy, SciPy and Arrow compute outside of Python's lock, so that threads are enough.
        return map_on_threads(self._score, self.run.entries, n_threads())

    def finish(
        self, scored_corruptions: Iterator[ScoredCorruption], step: Advance
    ) -> tuple[SpaceResults, dict[str, BaselineError]]:
        """Return the scores and, if humans are the baseline, the expected human errors.

        Args:
            scored_corruptions: What `start` returned.
            step: Called for each corruption.
        """
        fit, clean = self._fit, self._clean
        scores: dict[str, CorruptionResults] = {}
        human_errors: dict[str, BaselineError] = {}
        totals: dict[str, ImageTotals] = {}
        for entry, scored in zip(self.run.entries, scored_corruptions, strict=True):
            scores[entry.name], human_error, totals_of_images = scored
            if human_error is not None:
                human_errors[entry.name] = human_error
            if totals_of_images is not None:
                totals[entry.name] = totals_of_images
            step(1, "")
        # Corrected over all corruptions, which are known only now.
        corruptions = dict(zip(scores, correct_for_number(list(scores.values())), strict=True))
        labels = clean.label[clean.label != NONE]
        verdict = too_few_images(len(clean))
        if self._has_labels:
            n_classes = 0 if self._is_in_categories else self.model.classes or 0
            verdict = insufficient_data(self.space.name, labels, n_classes)
        if verdict:
            corruptions = {
                name: without_claim(score, verdict) for name, score in corruptions.items()
            }
        references = self._humans[0]
        similar: Iterator[SimilarPair] = iter(())
        if references is not None and not verdict:
            # Computed on threads, while the results by class are computed here.
            similar = similar_corruptions(scores, references.similar, n_threads())
        by_class = results_by_class(
            clean, totals, self.space.class_names, fit.n_bootstrap, fit.seed
        )
        results = SpaceResults(
            n_images=len(clean),
            classes=int(np.count_nonzero(np.bincount(labels))),
            left_out=int((self.space.labels == NONE).sum()) if self._is_in_categories else 0,
            verdict=verdict,
            clean_accuracy=self._clean_accuracy(),
            means=mean_scores(corruptions, self.run.means_over, len(clean)),
            corruptions=corruptions,
            corruption_error=None,
            similar=tuple(similar),
            by_class=tuple(by_class),
        )
        return results, human_errors

    def _score(self, entry: Entry) -> ScoredCorruption:
        predictions = self._predictions(entry.name)
        conditions = score_conditions(
            entry, self.run.task.groups, predictions, self._fit, self._is_in_categories
        )
        results = self._scorer(entry).score(predictions)
        return (
            results.model_copy(update={"conditions": tuple(conditions)}),
            self._human_error(entry.name, predictions),
            count_by_image(predictions),
        )

    def _fit_human_curves(self) -> None:
        """Fit the human curves before the threads start.

        Corruptions with the same human curve must share one object, which comparisons look for.
        """
        references = self._humans[0]
        if references is None:
            return
        for entry in self.run.entries:
            for metric in METRICS:
                source = references.source(entry.name, metric)
                if source is not None:
                    human_curve(source, entry.name, metric, self._fit)

    @property
    def _fit(self) -> Fit:
        return self.run.settings.fit

    @cached_property
    def reader(self) -> PredictionReader:
        """The recorded predictions with the labels of the label space."""
        return self.run.reader(self.space)

    @cached_property
    def _clean(self) -> Predictions:
        """Predictions for the clean images that are scored."""
        return self.reader.clean(self.model.name, only_labeled=self._is_in_categories)

    @cached_property
    def _has_labels(self) -> bool:
        return self.reader.has_labels(self.model.name)

    @property
    def _is_in_categories(self) -> bool:
        """Whether labeled images are scored in the 16 categories."""
        return self.space.name == ENTRY16 and self._has_labels

    @property
    def _is_uneven(self) -> bool:
        """Whether the 16 categories are unbalanced because sampling balanced other classes."""
        return self._is_in_categories and self.run.task.plan.labels != ENTRY16

    @property
    def is_compared(self) -> bool:
        """Whether models are compared with humans in this label space."""
        return self._humans[0] is not None

    @cached_property
    def category_mix(self) -> CategoryMix:
        """Shares of the categories among the samples, as weighted in scores; empty if unlabeled."""
        labels = self._clean.label[self._clean.label != NONE]
        mix = category_mix(np.array(self.space.class_names)[labels])
        if not self._is_uneven and not (self.run.task.plan.balanced and self.run.is_sampled):
            return mix
        return {name: 1 / len(mix) for name in mix}

    @property
    def _humans(self) -> tuple[References | None, str]:
        if self.space.name != ENTRY16:
            return None, "humans responded in 16 categories: see entry16"
        return self.run.humans

    def _predictions(self, corruption: str) -> Predictions:
        # In `entry16`, only images that have a category are scored.
        predictions = self.reader.outcomes(
            self.model.name, corruption, only_labeled=self._is_in_categories
        )
        # Otherwise dogs and birds would make up three quarters of ImageNet's images in the
        # categories.
        weights = class_weights(predictions.label) if self._is_uneven else None
        # All corruptions resample the same images, so that replicates can be averaged over
        # corruptions.
        return replace(predictions, resampled_images=self._clean.image, weights=weights)

    def _scorer(self, entry: Entry) -> CorruptionScorer:
        references, why_none = self._humans
        in_categories = self.space.name == ENTRY16
        n_classes = len(self.space.class_names) if in_categories else self.model.classes or 0
        return CorruptionScorer(
            corruption=entry.name,
            fit=self._fit,
            geometric=entry.geometric,
            why_no_curve=self.run.task.plan.why_no_curve(entry),
            classes=n_classes,
            labeled=self._has_labels,
            reference=references,
            why_no_reference=why_none,
        )

    def _human_error(self, corruption: str, predictions: Predictions) -> BaselineError | None:
        references = self._humans[0]
        if self.run.settings.baseline_name != HUMANS or references is None or not self._has_labels:
            return None
        return human_error(references, corruption, predictions, self._fit)

    def _clean_accuracy(self) -> Estimate | None:
        task, clean = self.run.task, self._clean
        if not self._has_labels or not task.images.has_clean:
            return None
        labeled = replace(clean.select(clean.label != NONE), resampled_images=clean.image)
        # Same weighting as the curves, which start at this accuracy.
        if self._is_uneven or (task.plan.balanced and self.run.is_sampled):
            labeled = replace(labeled, weights=class_weights(labeled.label))
        return estimate_mean(labeled.correct, labeled, self._fit)


def n_threads() -> int:
    """Return the number of threads that score; results do not depend on it."""
    return min(n_cores(), MAX_THREADS)


def mean_scores(
    scores: Mapping[str, CorruptionResults], corruptions: Sequence[str], n_images: int
) -> dict[str, Estimate]:
    """Return the mean of every score over the corruptions that have it, by name."""
    by_score: dict[str, list[Estimate]] = {}
    for corruption in scores:
        if corruption in corruptions:
            for name, estimate in scores[corruption].scores.items():
                if not SCORES[name].has_mean:
                    continue
                by_score.setdefault(name, []).append(estimate)
    return {name: mean_estimate(values, n_images) for name, values in by_score.items()}
