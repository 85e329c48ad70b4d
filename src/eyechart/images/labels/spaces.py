"""The label spaces by name, and the rules that lead from 1,000 class probabilities to a category.

A rule is applied to the recorded predictions, so that it can be changed after a run. This module
imports nothing slow, because the command line lists spaces and rules.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from eyechart.core.registry import Registry

NATIVE, ENTRY16, NO_LABELS = "native", "entry16", "none"
"""Label spaces: the dataset's classes, the 16 categories of human experiments, or no labels."""

SPACES = (NATIVE, ENTRY16, NO_LABELS)
SCORED_SPACES = (NATIVE, ENTRY16)
"""The label spaces that are scored, in the order in which they are tried."""


if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Scores = NDArray[np.floating]


LabelRule = Callable[["Scores", "Scores", "Scores"], "Scores"] | None
"""A function that returns category scores (N, 16); the highest-scoring category is predicted.

Its arguments are logarithms: the probability of the likeliest class in each category, (N, 16), the
summed probability of all its classes, (N, 16), and the number of its classes, (16,).

None stands for the rule without category scores: it predicts the category of the top-1 class among
all 1,000, and no category if that class belongs to none."""

RULES: Registry[LabelRule] = Registry("rule")

# the category of the likeliest class among the 207 that belong to a category
RULES.add("max", lambda maxima, sums, sizes: maxima)
# subtracting the log of the size divides by it; categories with many classes are at a disadvantage
RULES.add("mean", lambda maxima, sums, sizes: sums - sizes)
RULES.add("sum", lambda maxima, sums, sizes: sums)
RULES.add("top1", None)

DEFAULT_RULE = "max"
