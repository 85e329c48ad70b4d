"""Score one model under one corruption: from predictions to records of results.json.

Formulas are in `scores`, `curves` and `stats`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import nan

import numpy as np

from eyechart.core.arrays import FloatArray
from eyechart.core.errors import UsageError
from eyechart.humans.combined import References
from eyechart.humans.human_fit import corrected_curve
from eyechart.humans.reference import Reference
from eyechart.images.labels.imagenet import CATEGORIES, NONE
from eyechart.predictions.reading import Predictions
from eyechart.results.curve_results import HumanComparison, ModelCurve, sample_curve
from eyechart.results.model_results import CorruptionResults, PropertyResults
from eyechart.scores.break_point import find_break_point
from eyechart.scores.human_relative import (
    HUMANS_AHEAD,
    INCONCLUSIVE,
    MODEL_AHEAD,
    compared_areas,
    compared_replicates,
    hmri_bounds,
    ranges,
    scenario,
    significant_ranges,
)
from eyechart.scores.registry import PROPERTIES, computed_scores
from eyechart.scores.scoring import (
    NO_REFERENCE,
    Fit,
    errors_by_severity,
    estimate_mean,
    human_curve,
)
from eyechart.stats.curve import Curve, fit_curve
from eyechart.stats.curve_samples import right_end
from eyechart.stats.estimate import Estimate, complement, make_estimate
from eyechart.stats.intervals import CONFIDENCE
from eyechart.stats.p_values import holm

NO_CLEAN = "only errors, no curves and no consistency: --clean with the clean images adds them"
NO_VISUAL_CHANGE = "visual change is undefined"
NOT_AFTER_CORRECTION = "not significant after correction for the number of corruptions"


@dataclass(frozen=True, kw_only=True)
class CorruptionScorer:
    """Scores a model under one corruption.

    Attributes:
        corruption: Name of the corruption, used to look up the human reference.
        fit: How curves are fitted.
        geometric: Whether the corruption moves image content.
        why_no_curve: Reason why there is no curve over Δv; "" if there is one.
        classes: Number of classes, 0 if unknown.
        labeled: Whether the images have labels.
        reference: Human reference; None if it does not apply.
        why_no_reference: Reason why it does not apply.
    """

    corruption: str
    fit: Fit
    geometric: bool
    why_no_curve: str
    classes: int
    labeled: bool
    reference: References | Reference | None
    why_no_reference: str

    def score(self, predictions: Predictions) -> CorruptionResults:
        """Return the scores of the predictions under the corruption."""
        known = predictions.label != NONE
        accuracy = clean_error = None
        computed: dict[str, Estimate] = {}
        if self.labeled and known.any():
            with_label = predictions.select(known)
            if not np.isnan(with_label.clean_correct).any():
                clean_error = estimate_mean(1 - with_label.clean_correct, with_label, self.fit)
            accuracy = self._property(
                "accuracy",
                with_label,
                with_label.correct,
                with_label.clean_correct,
                with_label.blank_correct,
            )
            computed = computed_scores(with_label, self.fit.n_bootstrap, self.fit.seed)
        consistency = None
        if not np.isnan(predictions.consistent).all():
            consistency = self._property(
                "consistency",
                predictions,
                predictions.consistent,
                np.ones(len(predictions)),
                predictions.blank_consistent,
            )
        return CorruptionResults(
            unmeasurable=int(np.isnan(predictions.delta_v).sum()),
            error=None if accuracy is None else complement(accuracy.rate),
            clean_error=clean_error,
            computed_scores=computed,
            error_by_severity=errors_by_severity(predictions.select(known)) if self.labeled else {},
            accuracy=accuracy,
            consistency=consistency,
        )

    def _property(
        self,
        metric: str,
        predictions: Predictions,
        hits: FloatArray,
        clean: FloatArray,
        blank: FloatArray,
    ) -> PropertyResults:
        """Return accuracy, or consistency with the clean prediction, over visual change.

        Args:
            metric: "accuracy" or "consistency".
            predictions: The predictions.
            hits: Whether each prediction is correct, or consistent.
            clean: The same for the clean image of each prediction.
            blank: How often predictions for images without content would be.
        """
        without_curve = PropertyResults(
            rate=estimate_mean(hits, predictions, self.fit),
            n_samples=len(hits),
            human_note=NO_VISUAL_CHANGE,
        )
        if self.why_no_curve:
            return without_curve.model_copy(update={"note": self.why_no_curve})
        # Published corrupted files without --clean have neither anchors nor Δv.
        if np.isnan(predictions.clean_correct).all() and np.isnan(predictions.delta_v).all():
            return without_curve.model_copy(update={"note": NO_CLEAN})
        try:
            curve = self._fit_curve(metric, predictions, hits, clean, blank)
        except UsageError as error:
            notes = {"note": f"no curve: {error}", "human_note": "no curve"}
            return without_curve.model_copy(update=notes)
        if self.geometric:
            # A movement reaches a part of the axis: an area up to Δv = 1 would be extrapolated.
            curve = replace(curve, density=curve.density.up_to(curve.observed[-1][1]))
        n_images = int(np.count_nonzero(np.bincount(predictions.image)))
        comparison, why_none = self._compare(metric, curve, n_images)
        return PropertyResults(
            rate=without_curve.rate,
            n_samples=len(hits),
            robustness=make_estimate(curve.area, curve.areas, n_images),
            bounds=curve.bounds,
            break_point=find_break_point(curve, self._chance(metric, blank), n_images),
            observed=tuple(curve.observed),
            humans=comparison,
            human_note=why_none,
            curve=ModelCurve.of(curve),
        )

    def _chance(self, metric: str, blank: FloatArray) -> float:
        """Return the rate that a curve approaches: chance accuracy, or chance agreement."""
        if metric == "accuracy":
            return 1 / self.classes if self.classes else 0.0
        # How often predictions for images without content agree with those for the clean images.
        known = blank[~np.isnan(blank)]
        return float(known.mean()) if len(known) else 0.0

    def _fit_curve(
        self,
        metric: str,
        predictions: Predictions,
        hits: FloatArray,
        clean: FloatArray,
        blank: FloatArray,
    ) -> Curve:
        weights = predictions.weights
        return fit_curve(
            predictions.delta_v,
            hits,
            # The same pixels yield the same prediction: a model's consistency starts at 1.
            anchor=1.0 if metric == "consistency" else clean,
            right_anchor=right_end(
                self.fit.right_anchor,
                float(np.average(clean, weights=weights)),
                self._chance("accuracy", blank),
                blank,
                weights,
            ),
            clusters=predictions.image,
            all_clusters=predictions.resampled_images,
            weights=weights,
            **self.fit.options(),
        )

    def _compare(
        self, metric: str, curve: Curve, n_images: int
    ) -> tuple[HumanComparison | None, str]:
        """Compare a model's curve with the human curve; return None and a reason if this fails."""
        if self.reference is None:
            return None, self.why_no_reference
        source = self.reference.source(self.corruption, metric)
        if source is None:
            return None, NO_REFERENCE
        human, why_no_curve = human_curve(source, self.corruption, metric, self.fit)
        if human is None:
            return None, why_no_curve
        # The human curve is corrected for chance; the model chose among the 16 categories.
        model = corrected_curve(curve, len(CATEGORIES)) if source.corrected else curve
        try:
            verdict = scenario(human, model)
        except UsageError:
            return None, "humans and the model have no observed visual change in common"
        areas = compared_areas(human, model)
        hmri, mrsi = compared_replicates(human, model)
        experiment = source.match(self.corruption) or ""
        comparison = HumanComparison(
            about=source.describe(self.corruption, metric),
            kind=source.kind(self.corruption) or "",
            hmri=make_estimate(areas.hmri, hmri, n_images),
            hmri_bounds=hmri_bounds(human, model),
            mrsi=make_estimate(areas.mrsi, mrsi, n_images),
            scenario=verdict.name,
            needed=verdict.needed(n_images),
            lead_limits=(verdict.human_lead, verdict.model_lead),
            corrected_for_chance=source.corrected,
            areas=areas,
            leads=tuple(ranges(human, model)),
            significant=tuple(significant_ranges(human, model)),
            tested=verdict.leads,
            p_humans=verdict.p_human,
            p_model=verdict.p_model,
            line=sample_curve(human),
            model_line=sample_curve(model),
            # The correction for chance moves chance to 0.
            human_break_point=find_break_point(
                human, 0.0 if source.corrected else 1 / source.choices
            ),
            human_bins=len(human.bins.counts),
            human_left_anchor=human.left,
            human_right_anchor=human.right,
            reference=source.name,
            experiment=experiment,
            observers=source.n_participants(experiment, metric),
            responses=source.count(experiment, metric),
        )
        return comparison, ""


def correct_for_number(scores: Sequence[CorruptionResults]) -> list[CorruptionResults]:
    """Return the scores with p-values corrected for the number of corruptions (Holm).

    Accuracy and consistency are corrected separately. The p-values of the two directions
    (humans ahead, model ahead) are corrected separately as well, because both directions belong to
    one two-sided test.
    """
    accuracy = _corrected([score.accuracy for score in scores])
    consistency = _corrected([score.consistency for score in scores])
    return [
        score.model_copy(update={"accuracy": first, "consistency": second})
        for score, first, second in zip(scores, accuracy, consistency, strict=True)
    ]


def _corrected(scores: Sequence[PropertyResults | None]) -> list[PropertyResults | None]:
    corrected = list(scores)
    compared = [
        (index, score, score.humans)
        for index, score in enumerate(scores)
        if score is not None and score.humans is not None
    ]
    p_human = holm([comparison.p_humans for _, _, comparison in compared])
    p_model = holm([comparison.p_model for _, _, comparison in compared])
    for (index, score, comparison), of_human, of_model in zip(
        compared, p_human, p_model, strict=True
    ):
        changes: dict[str, object] = {"p_humans": float(of_human), "p_model": float(of_model)}
        # Only the claim that one side is ahead can be withdrawn; other verdicts name no winner.
        p_ahead = {HUMANS_AHEAD: of_human, MODEL_AHEAD: of_model}.get(comparison.scenario, 0.0)
        if p_ahead >= 1 - CONFIDENCE:
            # One of many corruptions would get such a verdict by chance.
            changes |= {"scenario": INCONCLUSIVE, "needed": NOT_AFTER_CORRECTION}
        changed = comparison.model_copy(update=changes)
        corrected[index] = score.model_copy(update={"humans": changed})
    return corrected


def without_claim(score: CorruptionResults, verdict: str) -> CorruptionResults:
    """Return the scores without any claim of a comparison with humans, for insufficient data.

    `verdict`: the note on insufficient data, which replaces the scenario.
    """
    nothing = {
        "scenario": verdict,
        "needed": "",
        "leads": (),
        "significant": (),
        "tested": (),
        "p_humans": nan,
        "p_model": nan,
    }
    changes = {}
    for letter, results in score.properties.items():
        if results.humans is not None:
            comparison = results.humans.model_copy(update=nothing)
            changes[PROPERTIES[letter]] = results.model_copy(update={"humans": comparison})
    return score.model_copy(update=changes)
