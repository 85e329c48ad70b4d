"""Measure how well pilot sampling covers the reachable visual changes, and what it costs."""

import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as parquet

import eyechart as ec
from eyechart.core.arrays import IntArray
from eyechart.stats.bins import bin_edges, bin_index
from eyechart.stats.curve_settings import BINS
from eyechart.testsets.testset_settings import PARAMETERS, PILOT

REACHABLE = 0.005
"""Minimum fraction of the reference samples in a bin that counts as reachable."""


@dataclass(frozen=True)
class PilotCoverage:
    """Coverage by corruption, and the time of whole runs relative to the paper's sampling.

    Coverage is the fraction of the reachable bins that have samples.
    """

    covered: dict[str, float]
    covered_by_paper: dict[str, float]
    time_ratios: list[float]

    @property
    def time_ratio(self) -> float:
        """Median run time with pilot sampling relative to the paper's sampling."""
        return statistics.median(self.time_ratios)


def measure_pilot(
    images: Path, model: str, device: str, n: int, n_reference: int, repeats: int, out: Path
) -> PilotCoverage:
    """Evaluate a model with both samplings in turn, and with many samples as a reference."""
    settings: dict[str, Any] = {"images": images, "device": device, "humans": None, "seed": 0}
    reference, _ = _counts(model, settings, PARAMETERS, n_reference, out / "reference")
    # Both once before they are timed, because the first run of a process loads kernels.
    for sampling in (PARAMETERS, PILOT):
        _counts(model, settings, sampling, n, out / f"first-{sampling}")
    time_ratios = []
    for repeat in range(repeats):
        by_paper, paper_seconds = _counts(model, settings, PARAMETERS, n, out / f"paper-{repeat}")
        by_pilot, seconds = _counts(model, settings, PILOT, n, out / f"pilot-{repeat}")
        time_ratios.append(seconds / paper_seconds)
    reachable = {name: counts >= REACHABLE * n_reference for name, counts in reference.items()}
    covered, covered_by_paper = (
        {name: float((found[name][bins] > 0).mean()) for name, bins in reachable.items()}
        for found in (by_pilot, by_paper)
    )
    return PilotCoverage(covered, covered_by_paper, time_ratios)


def _counts(
    model: str, settings: dict[str, Any], sampling: str, n: int, out: Path
) -> tuple[dict[str, IntArray], float]:
    """Return the number of samples per bin of each corruption, and the seconds of the run."""
    start = time.perf_counter()
    results = ec.evaluate(model, sampling=sampling, n=n, out=out, **settings)
    seconds = time.perf_counter() - start
    edges = bin_edges("equal", BINS)
    counts = {}
    for name in results.models[0].primary.corruptions:
        file = out / "predictions" / f"{name.replace('/', '-')}.parquet"
        delta_v = parquet.read_table(file, columns=["delta_v"]).column(0).to_numpy()
        known = delta_v[~np.isnan(delta_v)]
        counts[name] = np.bincount(bin_index(known, edges), minlength=BINS)
    return counts, seconds
