"""Notes on what limits the interpretation of scores: their numbers, nouns and verbs."""

import pytest

from eyechart.pipeline.scoring.caveats import FAR, _unobserved
from eyechart.testsets.coverage import CorruptionCoverage


def reaching(largest):
    return CorruptionCoverage(
        rows=10, paper=0.0, equal=0.0, reached=0.0, largest=largest, histogram=(0,) * 39
    )


@pytest.mark.parametrize(
    ("largest", "words"),
    [
        ([0.9499], "1 of 1 corruption ends below Δv 0.95 (the lowest at 0.9499)"),
        ([0.9499999, 0.97], "1 of 2 corruptions ends below Δv 0.95 (the lowest at 0.9499999)"),
        ([0.5, 0.912, 1.0], "2 of 3 corruptions end below Δv 0.95 (the lowest at 0.50)"),
    ],
)
def test_the_lowest_end_is_below_the_limit_as_it_is_printed(largest, words):
    coverage = {f"c{index}": reaching(value) for index, value in enumerate(largest)}
    (sentence,) = _unobserved(coverage)
    assert sentence.startswith(f"{words}; curves are extrapolated")


def test_curves_up_to_the_limit_have_no_note():
    assert not list(_unobserved({"c": reaching(FAR)}))
