"""Pairwise comparisons of curves: two models, or one model under two similar corruptions."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations

from eyechart.core.parallel import map_on_threads
from eyechart.humans.transfer import SimilarClasses
from eyechart.results.model_results import CorruptionResults, ModelResults, SimilarPair
from eyechart.results.schema import PairedComparison
from eyechart.scores.curve_significance import difference, intervals_overlap
from eyechart.scores.registry import PROPERTIES
from eyechart.scores.similar import compare_corruptions


def similar_corruptions(
    scores: Mapping[str, CorruptionResults], classes: SimilarClasses, n_threads: int = 1
) -> Iterator[SimilarPair]:
    """Start to compare a model's scores between similar corruptions; return the differences.

    Accuracy comes first, then consistency. One human curve is used for both corruptions, or one for
    each if humans responded to both.
    """
    kinds = {name: classes.name_of(name) for name in scores}
    pairs = [
        (letter, first, second)
        for letter in PROPERTIES
        for first, second in combinations(scores, 2)
        if kinds[first] is not None and kinds[first] == kinds[second]
    ]
    compared = map_on_threads(partial(_similar_pair, scores), pairs, n_threads)
    return (pair for pair in compared if pair is not None)


def _similar_pair(
    scores: Mapping[str, CorruptionResults], pair: tuple[str, str, str]
) -> SimilarPair | None:
    """Return how a property differs between two corruptions; None if they have no scores."""
    letter, first, second = pair
    properties = (scores[name].properties.get(letter) for name in (first, second))
    one, two = (None if score is None else score.humans for score in properties)
    # Scores with and without correction for chance are on different scales.
    if one is None or two is None or one.corrected_for_chance != two.corrected_for_chance:
        return None
    human, second_human = one.line.fitted, two.line.fitted
    difference_of_scores = compare_corruptions(
        human,
        one.model_line.fitted,
        two.model_line.fitted,
        # The identity shows whether one human curve is used for both corruptions.
        second_human=None if second_human is human else second_human,
    )
    return SimilarPair(**dict(difference_of_scores), first=first, second=second, property=letter)


def paired_models(models: Sequence[ModelResults]) -> Iterator[PairedComparison]:
    """Yield how the curves of each pair of models differ, on the same samples.

    Label spaces with insufficient data are left out.
    """
    for first, second in combinations(models, 2):
        for space in first.spaces:
            # A difference of two models is a claim, which insufficient data do not allow.
            if space not in second.spaces or first.spaces[space].verdict:
                continue
            for corruption, score in first.spaces[space].corruptions.items():
                other = second.spaces[space].corruptions[corruption]
                for letter in PROPERTIES:
                    properties = (scores.properties.get(letter) for scores in (score, other))
                    one, two = (None if rates is None else rates.curve for rates in properties)
                    if one is None or two is None:
                        continue
                    yield PairedComparison(
                        space=space,
                        corruption=corruption,
                        property=letter,
                        first=first.name,
                        second=second.name,
                        difference=difference(one.fitted, two.fitted, paired=True),
                        intervals_overlap=intervals_overlap(one.fitted, two.fitted),
                    )
