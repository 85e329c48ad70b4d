"""Compare a model's scores under two similar corruptions, such as uniform and Gaussian noise."""

from eyechart.core.records import NaNFloat, Record
from eyechart.scores.curve_significance import (
    Lead,
    apart_ranges,
    check_comparable,
    pair_orders,
)
from eyechart.scores.human_relative import compared_areas, compared_scores
from eyechart.stats.bootstrap import shuffle_replicates
from eyechart.stats.curve import Curve
from eyechart.stats.intervals import CONFIDENCE, PUBLISHED_LEVEL, percentile_interval
from eyechart.stats.pieces import take_curves


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
            take_curves(human_curve.replicates, human_order),
            take_curves(curve.replicates, model_order[:count]),
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
