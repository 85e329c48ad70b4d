"""The rules by which a model's 1,000 classes become one of the 16 categories, declared once.

A rule is applied to what is recorded of a prediction, so that it can be changed after a run.
Nothing slow is imported here: the command line lists the rules.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from eyechart.core.registry import Registry

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Scores = NDArray[np.floating]


class CategoryLogs(Protocol):
    """What is recorded of the categories in N predictions, as logarithms of probabilities."""

    @property
    def maxima(self) -> "Scores":
        """Of the likeliest class of each category, (N, 16)."""

    @property
    def sums(self) -> "Scores":
        """Of all classes of each category together, (N, 16)."""

    @property
    def sizes(self) -> "Scores":
        """The logarithm of the number of classes of each category, (16,)."""


LabelRule = Callable[[CategoryLogs], "Scores"] | None
"""Returns the scores of the categories, of which the highest is the response, (N, 16).

None: the category of the likeliest of all 1,000 classes, if it has one; there are no scores."""

RULES: Registry[LabelRule] = Registry("rule")

# that of the likeliest of the 207 classes that have one
RULES.add("max", lambda logs: logs.maxima)
# puts categories of many classes at a disadvantage
RULES.add("mean", lambda logs: logs.sums - logs.sizes)
RULES.add("sum", lambda logs: logs.sums)
RULES.add("top1", None)

DEFAULT_RULE = "max"
