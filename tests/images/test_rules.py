"""The rules by which 1,000 classes become 16 categories, applied to what is recorded."""

import numpy as np
import pyarrow as pa
import pytest
import torch

import eyechart as ec
from eyechart.images.labels.imagenet import CATEGORIES, category_of, members
from eyechart.images.labels.spaces import RULES
from eyechart.predictions.batches import predictions_table, record_scores
from eyechart.predictions.reading import categories_of
from eyechart.testsets.manifest_rows import SCHEMA as ROWS

DOG, KNIFE, CAT = (CATEGORIES.index(name) for name in ("dog", "knife", "cat"))


def probabilities(**known):
    """One row of 1,000: what is known by class index, the rest shared out evenly."""
    row = torch.zeros(1000, dtype=torch.float64)
    for name, value in known.items():
        row[int(name[1:])] = value
    rest = row == 0
    row[rest] = (1 - row.sum()) / rest.sum()
    return row[None]


def category(rows, rule):
    """The category of each row of probabilities."""
    samples = pa.table([pa.nulls(len(rows), field.type) for field in ROWS], schema=ROWS)
    table = predictions_table(samples, "mine", record_scores(rows.log()))
    return categories_of(table, table["prediction"].to_numpy().astype(np.int64), rule).tolist()


def test_rules_agree_where_one_class_has_nearly_all():
    row = probabilities(_281=0.999)
    assert {rule: category(row, rule) for rule in RULES} == {rule: [CAT] for rule in RULES}


def test_the_mean_puts_dogs_at_a_disadvantage():
    row = probabilities(_200=0.98, _499=0.01)
    assert category(row, "max") == category(row, "sum") == [DOG]
    assert category(row, "mean") == [KNIFE]


def test_the_sum_lets_many_small_chances_win():
    row = probabilities(_499=0.05)
    assert (category(row, "sum"), category(row, "max")) == ([DOG], [KNIFE])


def test_a_class_without_a_category_is_passed_over_by_max_and_wrong_by_top1():
    row = probabilities(_0=0.6, _281=0.3)
    assert (category(row, "max"), category(row, "top1")) == ([CAT], [-1])


def test_max_is_the_likeliest_of_the_207_classes():
    rows = torch.rand(50, 1000, generator=torch.Generator().manual_seed(0))
    known = torch.tensor([index for name in CATEGORIES for index in members(name)])
    best = known[rows[:, known].argmax(dim=1)]
    assert category(rows / rows.sum(dim=1, keepdim=True), "max") == category_of(best).tolist()


def test_a_rule_that_is_none_is_rejected():
    with pytest.raises(ec.UsageError, match="Unknown rule 'median'"):
        category(probabilities(_281=0.5), "median")
