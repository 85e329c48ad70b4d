"""The 16 categories of people's answers, and the four rules that lead to them."""

import pytest
import torch

import eyechart as ec
from eyechart.labels.categories import (
    CATEGORIES,
    RULES,
    category_of,
    category_scores,
    members,
    to_categories,
)

DOG, KNIFE, CAT = (CATEGORIES.index(name) for name in ("dog", "knife", "cat"))


def probabilities(**given):
    """One row of 1,000: what is given by class index, the rest shared out evenly."""
    row = torch.zeros(1000, dtype=torch.float64)
    for name, value in given.items():
        row[int(name[1:])] = value
    rest = row == 0
    row[rest] = (1 - row.sum()) / rest.sum()
    return row[None]


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


def test_rules_agree_where_one_class_has_nearly_all():
    row = probabilities(_281=0.999)
    assert {rule: int(to_categories(row, rule)) for rule in RULES} == dict.fromkeys(RULES, CAT)


def test_the_mean_puts_dogs_at_a_disadvantage():
    row = probabilities(_200=0.98, _499=0.01)
    assert int(to_categories(row, "max")) == int(to_categories(row, "sum")) == DOG
    assert int(to_categories(row, "mean")) == KNIFE
    assert category_scores(row, "mean")[0, DOG] == pytest.approx(0.009, abs=0.0001)


def test_the_sum_lets_many_small_chances_win():
    row = probabilities(_499=0.05)
    assert int(to_categories(row, "sum")) == DOG
    assert int(to_categories(row, "max")) == KNIFE


def test_a_class_without_a_category_is_passed_over_by_max_and_wrong_by_top1():
    row = probabilities(_0=0.6, _281=0.3)
    assert int(to_categories(row, "max")) == CAT
    assert int(to_categories(row, "top1")) == -1


def test_max_is_the_likeliest_of_the_207_classes():
    rows = torch.rand(50, 1000, generator=torch.Generator().manual_seed(0))
    own = torch.tensor([index for category in CATEGORIES for index in members(category)])
    best = own[rows[:, own].argmax(dim=1)]
    assert torch.equal(to_categories(rows), category_of(best))


def test_what_cannot_be_mapped_is_refused():
    with pytest.raises(ec.UsageError, match=r"\(B, 1000\)"):
        to_categories(torch.rand(2, 10))
    with pytest.raises(ec.UsageError, match="Unknown rule"):
        to_categories(torch.rand(2, 1000), "median")
    with pytest.raises(ec.UsageError, match="Did you mean 'truck'"):
        members("trucks")
