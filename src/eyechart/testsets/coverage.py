"""How much of the range 0…1 of visual change a test set covers."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from eyechart.core.records import Record
from eyechart.testsets.plan import CLEAN
from eyechart.testsets.testset_settings import MIN_PER_BIN

PAPER_BINS, TEXT_BINS = 39, 40
"""Number of bins in the VCR paper's tables, and the number stated in its text."""


class CorruptionCoverage(Record):
    """How much of the range of visual change the samples of a corruption cover."""

    rows: int
    """Number of samples."""
    paper: float
    """Fraction of 39 bins with enough samples, as in the published table."""
    equal: float
    """Fraction of 40 bins with enough samples, as in the published text."""
    reached: float
    """Fraction of the non-empty bins (out of all 39 bins) that have enough samples."""
    largest: float
    """The largest visual change of any sample."""
    histogram: tuple[int, ...]
    """Number of samples in each of the 39 bins."""


class SampleCoverage(CorruptionCoverage):
    """The coverage of a corruption in a test set, with the corruption's name."""

    corruption: str
    """The corruption."""

    @property
    def of_corruption(self) -> CorruptionCoverage:
        """The coverage without the name, for results that are keyed by corruption."""
        return CorruptionCoverage(**self.model_dump(exclude={"corruption"}))


def fewest_in_covered(min_per_bin: float) -> int:
    """Return the minimum number of samples of a covered bin, given a curve's minimum count.

    A minimum count of 0 means that every sample is used: one sample covers a bin.
    """
    return max(1, int(min_per_bin))


def coverage_of(table: pa.Table, min_per_bin: int = MIN_PER_BIN) -> list[SampleCoverage]:
    """Return the coverage of every corruption in a test set's table.

    `min_per_bin` is the minimum number of samples for a bin to count as covered.
    """
    coverages = []
    for name in table["corruption"].unique().to_pylist():
        if name == CLEAN:
            continue
        samples = table.filter(pc.equal(table["corruption"], name))
        # Δv is null where it is undefined; these samples are in no bin.
        values = samples["delta_v"].drop_null().to_numpy()
        paper, equal = _counts(values, PAPER_BINS), _counts(values, TEXT_BINS)
        coverages.append(
            SampleCoverage(
                corruption=name,
                rows=samples.num_rows,
                paper=float((paper >= min_per_bin).mean()),
                equal=float((equal >= min_per_bin).mean()),
                reached=float((paper[paper > 0] >= min_per_bin).mean()) if paper.any() else 0.0,
                largest=float(values.max(initial=0.0)),
                histogram=tuple(int(count) for count in paper),
            )
        )
    return coverages


def _counts(values: NDArray[np.float64], bins: int) -> NDArray[np.int64]:
    # Δv = 1 belongs to the last bin, hence the minimum.
    return np.bincount(np.minimum((values * bins).astype(np.int64), bins - 1), minlength=bins)
