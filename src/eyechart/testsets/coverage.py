"""How much of visual change 0…1 a test set covers."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from eyechart.testsets.plan import CLEAN

PAPER_BINS, TEXT_BINS = 39, 40
"""The bins of the published tables, and those that the text speaks of."""


@dataclass(frozen=True)
class SampleCoverage:
    """What a corruption covers: the share of bins that hold enough rows.

    `paper`: of 39 bins, as the published table counts; `equal`: of 40, as its text says. `reached`:
    of those of the 39 bins that hold any row. `largest`: the largest Δv. `histogram`: rows per bin
    of the 39.
    """

    corruption: str
    rows: int
    paper: float
    equal: float
    reached: float
    largest: float
    histogram: tuple[int, ...]


def coverage_of(table: pa.Table, least: int = 20) -> list[SampleCoverage]:
    """Return the coverage of every corruption in a test set's table."""
    coverages = []
    for name in table["corruption"].unique().to_pylist():
        if name == CLEAN:
            continue
        samples = table.filter(pc.equal(table["corruption"], name))
        values = samples["delta_v"].drop_null().to_numpy()
        paper, equal = _counts(values, PAPER_BINS), _counts(values, TEXT_BINS)
        largest = float(values.max()) if len(values) else 0.0
        coverages.append(
            SampleCoverage(
                name,
                samples.num_rows,
                float((paper >= least).mean()),
                float((equal >= least).mean()),
                float((paper[paper > 0] >= least).mean()) if paper.any() else 0.0,
                largest,
                tuple(int(count) for count in paper),
            )
        )
    return coverages


def _counts(values: NDArray[np.float64], bins: int) -> NDArray[np.int64]:
    return np.bincount(np.minimum((values * bins).astype(np.int64), bins - 1), minlength=bins)
