"""One model next to people under several corruptions: chance has as many chances."""

from collections.abc import Sequence
from dataclasses import replace

from eyechart.scores.evaluation import CorruptionScore, PropertyScore
from eyechart.stats.p_values import holm


def correct_for_number(scores: Sequence[CorruptionScore]) -> list[CorruptionScore]:
    """Return the scores with p-values next to people corrected for how many corruptions there are.

    By Holm's method, for accuracy and for consistency each. People and model are two sides of one
    test, so either side is corrected by itself.
    """
    accuracy = _corrected([score.accuracy for score in scores])
    consistency = _corrected([score.consistency for score in scores])
    return [
        replace(score, accuracy=one, consistency=two)
        for score, one, two in zip(scores, accuracy, consistency, strict=True)
    ]


def _corrected(scores: Sequence[PropertyScore | None]) -> list[PropertyScore | None]:
    found = list(scores)
    compared = [
        (place, own, own.people)
        for place, own in enumerate(scores)
        if own is not None and own.people is not None
    ]
    p_people = holm([people.p_people for _, _, people in compared])
    p_model = holm([people.p_model for _, _, people in compared])
    for number, (place, own, people) in enumerate(compared):
        corrected = replace(
            people, p_people=float(p_people[number]), p_model=float(p_model[number])
        )
        found[place] = replace(own, people=corrected)
    return found
