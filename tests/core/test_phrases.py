"""Numbers with their nouns and verbs, and the first of many names."""

import pytest

from eyechart.core.phrases import count_of, first_names, listed, verb


@pytest.mark.parametrize(
    ("number", "word", "text"),
    [
        (1, "damaged image", "1 damaged image"),
        (0, "class", "0 classes"),
        (2, "category", "2 categories"),
        (2, "key", "2 keys"),
        (1, "category", "1 category"),
        (1234, "sample", "1,234 samples"),
    ],
)
def test_a_number_agrees_with_its_noun(number, word, text):
    assert count_of(number, word) == text


def test_a_verb_agrees_with_its_number():
    assert [verb(number, "was") for number in (0, 1, 2)] == ["were", "was", "were"]


def test_the_first_names_are_followed_by_the_number_of_the_others():
    assert first_names(["a"]) == "a"
    assert first_names(["a", "b", "c"]) == "a, b, c"
    assert first_names(["a", "b", "c", "d", "e"]) == "a, b, c and 2 more"
    assert first_names(["a", "b", "c"], 1) == "a and 2 more"


def test_enumerations_end_with_and():
    assert listed(["a"]) == "a" and listed(["a", "b", "c"]) == "a, b and c" and listed([]) == ""
