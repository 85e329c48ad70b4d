"""The effect of retraining: compare every score of a model before and after."""

from dataclasses import dataclass

from eyechart.results.model_results import SpaceResults
from eyechart.results.schema import Results
from eyechart.scores.registry import SCORES
from eyechart.stats.estimate import Estimate
from eyechart.stats.p_values import PairedDifference, holm, paired_difference

CLEAN_ACCURACY = "clean_accuracy"


@dataclass(frozen=True, eq=False)
class ScoreChange:
    """One score before and after retraining, on the same images.

    `corruption`: the corruption's name, or "" for clean accuracy. `difference`: after minus before,
    with a paired test. `corrected`: the p-value of the difference, corrected by Holm's method over
    all changes in the table.
    """

    space: str
    corruption: str
    score: str
    before: Estimate
    after: Estimate
    difference: PairedDifference
    corrected: float

    @property
    def is_apart(self) -> bool:
        """Whether the two 95 % intervals do not overlap."""
        one, two = sorted((self.before.interval95, self.after.interval95))
        return one[1] < two[0]


def changes_of(results: Results) -> tuple[ScoreChange, ...]:
    """Return the change of every score from the first model to the second model."""
    before, after = results.models
    pairs = []
    for space in before.spaces:
        scores_after = _scores(after.spaces[space]) if space in after.spaces else {}
        for (corruption, score), estimate in _scores(before.spaces[space]).items():
            if (corruption, score) in scores_after:
                pairs.append((space, corruption, score, estimate, scores_after[corruption, score]))
    tests = [paired_difference(after, before) for *_, before, after in pairs]
    # All scores in the table are tested, so their p-values are corrected together.
    corrected = holm([test.p_value for test in tests])
    return tuple(
        ScoreChange(*pair, test, float(p))
        for pair, test, p in zip(pairs, tests, corrected, strict=True)
    )


def _scores(space: SpaceResults) -> dict[tuple[str, str], Estimate]:
    """Return the main scores of a label space by corruption and name."""
    scores = {}
    if space.clean_accuracy is not None:
        scores["", CLEAN_ACCURACY] = space.clean_accuracy
    for corruption, record in space.corruptions.items():
        scores |= {
            (corruption, name): estimate
            for name, estimate in record.scores.items()
            if SCORES[name].is_main and SCORES[name].has_mean
        }
    return scores
