"""Corruptions that look similar to humans, such as uniform and Gaussian noise.

They are found by comparing all pairs of human curves: the VCR paper's rule (83 % intervals overlap
everywhere) is reported next to a simultaneous test of the largest difference along the curves, with
Holm's correction. A model's scores are then compared between two of them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from eyechart.core.errors import UsageError
from eyechart.core.records import NaNFloat, Record
from eyechart.humans.reference import METRICS, Reference
from eyechart.humans.same_different import NOT_TOLD, TOLD_APART, PairResult
from eyechart.humans.transfer import (
    STUDY,
    ComparedPair,
    CorruptionClass,
    SimilarClasses,
    grouped,
)
from eyechart.scores.curve_significance import (
    Lead,
    apart_ranges,
    check_comparable,
    pair_orders,
    resampled_gaps,
    unbroken_ranges,
)
from eyechart.scores.human_relative import compared_areas, compared_scores
from eyechart.stats.bootstrap import shuffle_replicates
from eyechart.stats.curve import Curve
from eyechart.stats.curve_settings import N_BOOTSTRAP, SPLINE
from eyechart.stats.intervals import CONFIDENCE, PUBLISHED_LEVEL, percentile_interval
from eyechart.stats.p_values import SIGNIFICANT, bootstrap_p_value, holm
from eyechart.stats.pieces import select_curves


class SimilarDifference(Record):
    """Difference of a model's scores between two corruptions: first minus second."""

    delta_hmri: NaNFloat
    """HMRI under the first corruption minus HMRI under the second."""
    hmri_interval: tuple[NaNFloat, NaNFloat]
    """95 % interval of the difference in HMRI."""
    delta_mrsi: NaNFloat
    """MRSI under the first corruption minus MRSI under the second."""
    mrsi_interval: tuple[NaNFloat, NaNFloat]
    """95 % interval of the difference in MRSI."""
    ranges: tuple[Lead, ...]
    """Ranges of Δv in which the 83 % bands of the model's two curves do not overlap."""
    human_curves: int
    """Number of human curves: 2 if humans saw both corruptions, 1 if one curve is used for both."""


def compare_corruptions(
    human: Curve,
    first: Curve,
    second: Curve,
    level: float = CONFIDENCE,
    second_human: Curve | None = None,
) -> SimilarDifference:
    """Return how a model's scores differ between two corruptions that look similar to humans.

    The model's curves are resampled together if they were fitted with the same clusters, seed and
    number of replicates.

    Args:
        human: Human curve of the similarity class. Each of its bootstrap replicates is compared
            with both curves of the model, so that part of the human sampling error cancels.
        first: The model's curve under the first corruption.
        second: The model's curve under the second corruption.
        level: Level of the intervals of the differences.
        second_human: Human curve under the second corruption, if humans saw both; `human` is then
            the curve under the first, and the two are resampled independently.

    Returns:
        The differences; `ranges` follow the VCR paper's rule at 83 %.
    """
    other_human = human if second_human is None else second_human
    for name, curve in (("first", first), ("second", second), ("second_human", other_human)):
        check_comparable(human, curve, ("human", name))
    pairs, other_pairs = pair_orders(first, second, first.draws.pairs_with(second.draws))
    count = min(len(pairs), human.draws.n_bootstrap, other_human.draws.n_bootstrap)
    # Human replicates are shuffled: independent of the model's, and of each other if there are two.
    order, other_order = shuffle_replicates(count, 1, n_orders=2)
    if second_human is None:
        other_order = order
    (hmri, mrsi), (other_hmri, other_mrsi) = (
        compared_scores(
            select_curves(human_curve.replicates, human_order),
            select_curves(curve.replicates, model_order[:count]),
            human.density,
        )
        for human_curve, human_order, curve, model_order in (
            (human, order, first, pairs),
            (other_human, other_order, second, other_pairs),
        )
    )
    # Point estimates come from the fitted curves, intervals from the replicates.
    areas, other_areas = compared_areas(human, first), compared_areas(other_human, second)
    return SimilarDifference(
        delta_hmri=areas.hmri - other_areas.hmri,
        hmri_interval=percentile_interval(hmri - other_hmri, level),
        delta_mrsi=areas.mrsi - other_areas.mrsi,
        mrsi_interval=percentile_interval(mrsi - other_mrsi, level),
        ranges=tuple(apart_ranges(first, second, PUBLISHED_LEVEL, ("first", "second"))),
        human_curves=1 if second_human is None else 2,
    )


SIMULTANEOUS, PUBLISHED_RULE = "simultaneous", "published"
RULES = (SIMULTANEOUS, PUBLISHED_RULE)
JUDGEMENTS = "judgements"
OVERLAP, APART = "overlap", "apart"
SIMILAR, DIFFERENT, UNDECIDED = "similar", "different", "undecided"

GRID = np.linspace(0, 1, 1001)

MARGIN = 0.2
"""Curves are similar only if the upper limit of their largest difference is at most this.

Without this limit, few responses would make everything similar, because nothing would differ
significantly.
"""

TESTS = {
    SIMULTANEOUS: "largest difference of the human curves, simultaneous bootstrap test, Holm",
    PUBLISHED_RULE: "83 % confidence intervals of the human curves overlap",
}
JUDGEMENT_TESTS = {
    SIMULTANEOUS: "accuracy of same/different judgements, sign test over participants, Holm",
    PUBLISHED_RULE: "accuracy of same/different judgements, pooled binomial test",
}


def compare_curves(
    reference: Reference, n_bootstrap: int = N_BOOTSTRAP, margin: float = MARGIN
) -> tuple[list[ComparedPair], list[str]]:
    """Return comparisons of all pairs of experiments, and the reasons why pairs were left out.

    Accuracy and consistency are compared separately where both exist; p-values are corrected over
    all comparisons (Holm). Pairs without a common range of Δv are left out.
    """
    pairs: list[ComparedPair] = []
    reasons: list[str] = []
    for metric in METRICS:
        curves = {}
        for name in reference.experiments:
            try:
                curve = reference.curve(name, metric, estimator=SPLINE, n_bootstrap=n_bootstrap)
            except UsageError as error:
                reasons.append(str(error))
                continue
            if curve is not None:
                curves[name] = curve
        for a, b in combinations(curves, 2):
            one, two = curves[a], curves[b]
            try:
                rule = APART if bands_apart(one, two) else OVERLAP
                # Experiments are resampled independently.
                gap, chance, _ = resampled_gaps(one, two, paired=False)
            except UsageError as error:
                reasons.append(f"{a} and {b}, {metric}: {error}")
                continue
            largest = float(np.abs(gap).max())
            noise = np.abs(chance).max(axis=0)
            p = bootstrap_p_value(noise >= largest)
            # Similarity is decided by this upper limit: a difference that is not significant is
            # not enough.
            at_most = min(1.0, largest + float(np.quantile(noise, CONFIDENCE)))
            count = min(reference.count(a), reference.count(b))
            pairs.append(ComparedPair(a, b, metric, rule, p, p, largest, at_most, count, UNDECIDED))
    # One family of tests: accuracy and consistency of all pairs are corrected together.
    corrected = holm([pair.p for pair in pairs]).tolist()
    return [
        replace(pair, p_holm=p, verdict=_verdict(p, pair.at_most, margin))
        for pair, p in zip(pairs, corrected, strict=True)
    ], reasons


def compare_judgements(results: Iterable[PairResult]) -> list[ComparedPair]:
    """Compare pairs by same/different judgments; pairs are similar if not told apart by humans."""
    verdicts = {NOT_TOLD: SIMILAR, TOLD_APART: DIFFERENT}
    return [
        ComparedPair(
            result.a,
            result.b,
            of=JUDGEMENTS,
            published_rule=result.published_verdict,
            p=result.by_participant,
            p_holm=result.by_participant_holm,
            largest=result.accuracy,
            at_most=result.interval[1],
            n=result.n_judgements,
            verdict=verdicts.get(result.verdict, UNDECIDED),
        )
        for result in results
    ]


def find_similar(pairs: Sequence[ComparedPair], source: str, rule: str) -> SimilarClasses:
    """Return the classes in which all pairs of corruptions are similar.

    If a pair has curves, they decide its similarity, because human curves are reused for similar
    corruptions; otherwise judgments do. A corruption outside all classes counts as tested only if
    none of its pairs is undecided.

    Args:
        pairs: Compared pairs.
        source: Name of the data.
        rule: "simultaneous" for tests over images or participants, or "published" for the VCR
            paper's rules: overlapping 83 % intervals, and a pooled binomial test of judgements.
    """
    by_curves = {frozenset((pair.a, pair.b)) for pair in pairs if pair.of != JUDGEMENTS}
    used = [
        pair
        for pair in pairs
        if pair.of != JUDGEMENTS or frozenset((pair.a, pair.b)) not in by_curves
    ]
    verdicts: dict[tuple[str, str], list[bool]] = {}
    for pair in used:
        is_alike = pair.verdict == SIMILAR
        if rule == PUBLISHED_RULE:
            is_alike = pair.published_rule in (OVERLAP, NOT_TOLD)
        verdicts.setdefault((pair.a, pair.b), []).append(is_alike)
    names = list(dict.fromkeys(name for pair in used for name in (pair.a, pair.b)))
    groups = grouped(names, [pair for pair, alike in verdicts.items() if all(alike)])
    classes = (_class(group, used, source, rule) for group in groups)
    members = {name for group in groups for name in group}
    undecided: set[str] = set()
    # The published rule has no undecided outcome.
    if rule != PUBLISHED_RULE:
        undecided = {
            name for pair in used if pair.verdict == UNDECIDED for name in (pair.a, pair.b)
        }
    tested = [name for name in names if name in members or name not in undecided]
    return SimilarClasses(source, tuple(classes), tuple(tested), tuple(pairs))


def bands_apart(
    one: Curve, two: Curve, level: float = PUBLISHED_LEVEL
) -> list[tuple[float, float]]:
    """Return the ranges of Δv in which the bands of two curves do not overlap.

    Only ranges observed for both curves count: elsewhere, such as next to a constant anchor, bands
    can be narrower than the actual uncertainty. An empty list means no evidence of a difference.
    """
    both = one.is_observed(GRID) & two.is_observed(GRID)
    if not both.any():
        raise UsageError("The two curves have no range of visual change in common.")
    (low_one, high_one), (low_two, high_two) = one.band(GRID, level), two.band(GRID, level)
    apart = ((low_one > high_two) | (low_two > high_one)) & both
    return unbroken_ranges(GRID, apart)


def _verdict(p: float, at_most: float, margin: float) -> str:
    if p < SIGNIFICANT:
        return DIFFERENT
    return SIMILAR if at_most <= margin else UNDECIDED


def _class(
    members: tuple[str, ...], pairs: Sequence[ComparedPair], source: str, rule: str
) -> CorruptionClass:
    inside = [pair for pair in pairs if {pair.a, pair.b} <= set(members)]
    tests = dict.fromkeys(
        (JUDGEMENT_TESTS if pair.of == JUDGEMENTS else TESTS)[rule] for pair in inside
    )
    return CorruptionClass(
        "+".join(members),
        members,
        STUDY,
        "; ".join(tests),
        # The smallest p-value is the strongest evidence against similarity within the class.
        round(min(pair.p_holm for pair in inside), 6),
        min(pair.n for pair in inside),
        source,
    )
