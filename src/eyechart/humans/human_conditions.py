"""Published human accuracy at single conditions, such as quarter turns, as points beside models."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from eyechart.core.csv_table import packaged_rows


@dataclass(frozen=True)
class HumanCondition:
    """Human accuracy in one condition of an experiment with 16 categories.

    Example:
        >>> human_conditions()["geometry/rotate", "180°"].accuracy
        0.8
    """

    accuracy: float
    n_trials: int
    n_participants: int
    source: str


@cache
def human_conditions() -> Mapping[tuple[str, str], HumanCondition]:
    """Return the packaged conditions by corruption and condition."""
    rows = packaged_rows("eyechart.humans", "data", "geirhos2021_rotation.csv")
    return {
        (row["corruption"], row["condition"]): HumanCondition(
            float(row["accuracy"]), int(row["n_trials"]), int(row["n_participants"]), row["source"]
        )
        for row in rows
    }
