"""The 16 categories of people's answers, and the classes that belong to them."""

import pytest
import torch

import eyechart as ec
from eyechart.images.labels.imagenet import (
    CATEGORIES,
    category_maxima,
    category_of,
    category_sums,
    members,
)

DOG = CATEGORIES.index("dog")


def test_207_classes_have_a_category_and_none_has_two():
    found = [index for category in CATEGORIES for index in members(category)]
    assert len(found) == len(set(found)) == 207
    assert list(CATEGORIES) == sorted(CATEGORIES) and len(CATEGORIES) == 16


@pytest.mark.parametrize(
    ("category", "count"), [("dog", 109), ("bird", 49), ("airplane", 1), ("knife", 1), ("oven", 1)]
)
def test_categories_have_as_many_classes_as_published(category, count):
    assert len(members(category)) == count


def test_a_class_knows_its_category():
    classes = torch.tensor([[404, 0], [151, 268]])
    assert category_of(classes).tolist() == [[CATEGORIES.index("airplane"), -1], [-1, DOG]]


def test_maxima_and_sums_are_over_the_classes_of_a_category():
    rows = torch.rand(50, 1000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for place, category in enumerate(CATEGORIES):
        classes = rows[:, list(members(category))]
        assert torch.equal(category_maxima(rows)[:, place], classes.amax(dim=1))
        torch.testing.assert_close(category_sums(rows)[:, place], classes.sum(dim=1))


def test_a_category_that_is_none_is_rejected():
    with pytest.raises(ec.UsageError, match="Did you mean 'truck'"):
        members("trucks")
