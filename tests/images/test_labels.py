"""Labels: from WordNet ids, numbers and names to a model's outputs and to the 16 categories."""

import numpy as np
import pytest

import eyechart as ec
from eyechart.images.labels.imagenet import (
    CATEGORIES,
    category_name,
    class_index,
    class_names,
    members,
    wordnet_ids,
)
from eyechart.images.labels.matching import category_labels, native_labels, output_names

METHODS = """
airplane 404 · bear 294–297 · bicycle 444,671 · boat 472,554,625,814,914 ·
bottle 440,720,737,898,899,901,907 · car 436,511,817 · cat 281–286 · chair 423,559,765,857 ·
clock 409,530,892 · elephant 385,386 · keyboard 508,878 · knife 499 · oven 766 ·
truck 555,569,656,675,717,734,864,867 ·
bird 8,10–16,18–20,22–24,80–83,87–96,98–100,127–133,135–145 ·
dog 152–191,193–203,205–226,228–241,243–250,252–257,259,261–263,265–268
"""
"""The lists of METHODS section 1, verified there against the WordNet ids of Geirhos 2018."""


def published():
    """Return the category of each of the 207 classes that have one, from METHODS' text."""
    found = {}
    for line in METHODS.replace("\n", " ").split("·"):
        name, numbers = line.split()
        for part in numbers.split(","):
            first, _, last = part.partition("–")
            found |= dict.fromkeys(range(int(first), int(last or first) + 1), name)
    return found


def test_there_are_1000_wordnet_ids_in_rising_order():
    ids = wordnet_ids()
    assert len(ids) == len(set(ids)) == len(class_names()) == 1000
    assert list(ids) == sorted(ids)
    assert all(len(each) == 9 and each[0] == "n" and each[1:].isdecimal() for each in ids)


@pytest.mark.parametrize(
    ("wnid", "index", "word"),
    [
        ("n01440764", 0, "tench"),
        ("n01614925", 22, "eagle"),
        ("n02123045", 281, "tabby"),
        ("n02690373", 404, "airliner"),
        ("n03041632", 499, "cleaver"),
        ("n15075141", 999, "toilet"),
    ],
)
def test_well_known_classes_are_where_everybody_has_them(wnid, index, word):
    assert class_index()[wnid] == index
    assert word in class_names()[index].lower()


def test_207_classes_have_the_category_that_the_fact_sheet_lists():
    expected = published()
    assert len(expected) == 207
    assert {i: name for i in range(1000) if (name := category_name(i))} == expected


def test_the_name_of_a_category_agrees_with_its_members():
    for index in range(1000):
        owners = [name for name in CATEGORIES if index in members(name)]
        assert category_name(index) == (owners[0] if owners else None)


@pytest.mark.parametrize("index", [-1, 1000, 10**9])
def test_a_number_outside_the_classes_has_no_category(index):
    assert category_name(index) is None


def test_wordnet_ids_become_outputs_of_a_model_of_1000_classes():
    ids = wordnet_ids()
    found = native_labels([ids[3], None, ids[999], ids[0]], 1000)
    assert found.tolist() == [3, -1, 999, 0] and found.dtype == np.int64


def test_whole_numbers_are_outputs():
    assert native_labels(["7", "0", None, "9"], 10).tolist() == [7, 0, -1, 9]
    assert native_labels(["10", "9", "2"], 11).tolist() == [10, 9, 2]


def test_names_are_outputs_in_alphabetical_order_if_there_are_as_many():
    assert native_labels(["truck", "cat", None, "cat", "dog"], 3).tolist() == [2, 0, -1, 0, 1]


def test_three_numbers_that_name_three_classes_stay_numbers():
    assert native_labels(["2", "0", "1"], 3).tolist() == [2, 0, 1]


def test_unlabeled_images_have_no_output():
    assert native_labels([None, None], 5).tolist() == [-1, -1]


@pytest.mark.parametrize(
    ("labels", "classes", "words"),
    [
        (["n01440764", "n00000001"], 1000, ("1 image has a label", "'n00000001'")),
        (["n01440764", "dog", "dog"], 1000, ("2 images have labels", "'dog'")),
        (["4", "10", "12"], 10, ("2 images have labels", "'10'", "0 to 9")),
        (["cat", "dog"], 3, ("2 images have labels", "'cat'", "3 names")),
        (["cat", "1"], 4, ("2 images have labels",)),
        (["n01440764"], 10, ("ImageNet's labels, such as 'n01440764'", "--label-map FILE")),
        (["n01440764", "n01443537"], 1001, ("1,001 outputs", "--label-map background-first")),
        (["0", "999"], 1001, ("ImageNet's labels", "--label-map background-first")),
        (["n01440764", "5"], 21843, ("21,843 outputs", "--label-map FILE")),
    ],
)
def test_a_label_without_a_place_is_rejected_in_a_sentence(labels, classes, words):
    with pytest.raises(ec.UsageError) as rejected:
        native_labels(labels, classes)
    for word in words:
        assert word in str(rejected.value)


def test_categories_follow_from_ids_numbers_names_and_the_data_sets_own_column():
    labels = ["n02123045", "n01440764", "281", "0", "cat", None, "something", "1000", None]
    own = [None, None, None, None, None, None, None, None, "dog"]
    place = {name: index for index, name in enumerate(CATEGORIES)}
    expected = [place["cat"], -1, place["cat"], -1, place["cat"], -1, -1, -1, place["dog"]]
    assert category_labels(labels, own).tolist() == expected


def test_what_the_data_set_says_counts_more_than_what_its_label_says():
    assert category_labels(["n02123045"], ["truck"]).tolist() == [CATEGORIES.index("truck")]


def test_every_wordnet_id_has_the_category_of_its_index():
    found = category_labels(list(wordnet_ids()), [None] * 1000)
    assert {i: CATEGORIES[c] for i, c in enumerate(found) if c >= 0} == published()


@pytest.mark.parametrize(
    ("labels", "classes", "given", "expected"),
    [
        (["cat", "dog", None], 2, None, ("cat", "dog")),
        (["0", "2"], 3, None, ("0", "1", "2")),
        (["cat"], 3, ("cat", "dog", "owl"), ("cat", "dog", "owl")),
        ([None], 2, None, ("0", "1")),
    ],
)
def test_outputs_are_called_as_labels_place_them(labels, classes, given, expected):
    assert output_names(labels, classes, given) == expected


def test_outputs_of_imagenet_have_its_names():
    names = output_names(["n01440764", None], 1000)
    assert names == class_names() and names[0] == "tench"
    assert output_names(["7", "12"], 1000) == class_names()
    own = [f"kind {place:04d}" for place in range(1000)]
    assert output_names(own, 1000) == tuple(own)
