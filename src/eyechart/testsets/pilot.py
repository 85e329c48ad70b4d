"""Pilot sampling: measure Δv of a few samples, and choose strengths that make Δv about uniform.

The pilot samples give a map from strength to expected Δv, and the other samples are spread evenly
over expected Δv, which costs little more than uniform strengths.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from eyechart.core.arrays import FloatArray
from eyechart.core.progress import Advance
from eyechart.core.randomness import hash64
from eyechart.core.records import Record
from eyechart.corruptions.suites.suite import STRONGEST, Entry
from eyechart.images.imageset import ImageSet
from eyechart.testsets.plan import Plan
from eyechart.testsets.samples import Samples, is_piloted, mildest, plan_samples, with_values
from eyechart.testsets.stimuli import corrupt_samples
from eyechart.testsets.testset_settings import PILOT

N_PILOT = 24
"""Maximum number of pilot samples per corruption."""

MAX_SHARE = 3
"""At most one in this many samples is a pilot sample."""

SCATTER = 3
"""Number of standard deviations by which single samples may exceed the largest expected Δv."""


class PilotMap(Record):
    """Expected Δv along the strength path of one corruption."""

    severity: tuple[float, ...]
    """Severities of the pilot samples, in ascending order."""
    delta_v: tuple[float, ...]
    """Expected visual change at each of these severities, non-decreasing."""
    highest: float
    """Largest visual change that single samples are likely to have at the strongest severity."""

    def severities(self, share: FloatArray) -> FloatArray:
        """Return the severities at which expected Δv has covered these fractions of its range.

        Fractions beyond the largest expected Δv get the strongest severity, because some of its
        samples have a larger Δv than expected.
        """
        low, high = self.delta_v[0], self.highest
        if self.delta_v[-1] <= low:
            # Δv does not depend on strength: strengths are spread evenly instead.
            return np.asarray(np.interp(share, (0, 1), (self.severity[0], self.severity[-1])))
        # Interpolation needs increasing values; plateaus of the map are made slightly inclined.
        rising = np.asarray(self.delta_v) + 1e-9 * np.arange(len(self.delta_v))
        return np.asarray(np.interp(low + share * (high - low), rising, self.severity))


def _spread(entry: Entry, n: int, seed: int) -> tuple[NDArray[np.bool_], FloatArray]:
    """Return which samples are pilot samples, and a stratified random position of each in 0…1."""
    # From seed and name alone, because `with_strengths` must find the same pilot samples again.
    numbers = np.random.default_rng(hash64(seed, "pilot", entry.name))
    n_pilot = min(N_PILOT, max(2, n // MAX_SHARE)) if n > 2 else n
    is_pilot = np.zeros(n, dtype=np.bool_)
    # Every k-th sample: samples are in the order of their images, so these are different images.
    is_pilot[np.linspace(0, n - 1, n_pilot).astype(np.int64)] = True
    share = np.empty(n)
    for chosen in (is_pilot, ~is_pilot):
        count = int(chosen.sum())
        # Stratified: one sample in each of `count` equal parts of the range.
        share[chosen] = (numbers.permutation(count) + numbers.random(count)) / max(count, 1)
    # The pilot must contain both ends of the path, because the map is not extrapolated.
    ends = np.flatnonzero(is_pilot)[np.argsort(share[is_pilot])]
    share[ends[0]], share[ends[-1]] = 0.0, 1.0
    return is_pilot, share


def measure_maps(
    images: ImageSet, plan: Plan, device: torch.device, step: Advance
) -> dict[str, PilotMap]:
    """Return the map of each corruption with pilot samples; `step` is called for each of them."""
    pools = [_pilot_samples(images, samples, plan) for samples in _piloted(images, plan)]
    delta_v = {pool.name: np.full(len(pool), np.nan) for pool in pools}
    for samples, positions, corrupted in corrupt_samples(images, pools, plan, device):
        delta_v[samples.name][positions] = corrupted.delta_v.cpu().numpy()
        step(len(samples), "")
    return {pool.name: _fit_map(pool.severity, delta_v[pool.name]) for pool in pools}


def count_pilots(images: ImageSet, plan: Plan) -> int:
    """Return the number of pilot samples over all corruptions."""
    return sum(
        int(_spread(samples.entry, len(samples), plan.seed)[0].sum())
        for samples in _piloted(images, plan)
        if samples.entry is not None
    )


def with_strengths(
    images: ImageSet, groups: Sequence[Samples], plan: Plan, maps: Mapping[str, PilotMap]
) -> list[Samples]:
    """Return the samples of a plan with strengths computed from the map of each corruption.

    Pilot samples keep the strengths at which they were measured, and count as samples.
    """
    found = []
    for samples in groups:
        if samples.entry is None or samples.name not in maps:
            found.append(samples)
            continue
        is_pilot, share = _spread(samples.entry, len(samples), plan.seed)
        along_path = _along_path(samples.entry, share)
        severity = np.where(is_pilot, along_path, maps[samples.name].severities(share))
        found.append(with_values(images, replace(samples, severity=severity), plan.seed))
    return found


def _piloted(images: ImageSet, plan: Plan) -> list[Samples]:
    # The strengths behind published files are fixed.
    if images.files is not None or plan.sampling != PILOT:
        return []
    return [samples for samples in plan_samples(images, plan) if is_piloted(samples.entry, plan)]


def _pilot_samples(images: ImageSet, samples: Samples, plan: Plan) -> Samples:
    """Return the pilot samples of a corruption, evenly spread along its strength path."""
    assert samples.entry is not None
    is_pilot, share = _spread(samples.entry, len(samples), plan.seed)
    severity = _along_path(samples.entry, share[is_pilot])
    chosen = samples.select(np.flatnonzero(is_pilot))
    return with_values(images, replace(chosen, severity=severity), plan.seed)


def _along_path(entry: Entry, share: FloatArray) -> FloatArray:
    """Return the severities at these fractions of the strength path."""
    first = mildest(entry)
    return np.asarray(first + share * (STRONGEST - first))


def _fit_map(severity: FloatArray, delta_v: FloatArray) -> PilotMap:
    """Return the non-decreasing map closest to the measured Δv."""
    # Images that are too uniform have no defined Δv and are left out of the fit.
    known = ~np.isnan(delta_v)
    if known.sum() < 2:
        # Without a known Δv the map is flat, which spreads strengths evenly.
        ends = (float(severity.min()), float(severity.max()))
        return PilotMap(severity=ends, delta_v=(0.0, 0.0), highest=0.0)
    order = np.flatnonzero(known)[np.argsort(severity[known], kind="stable")]
    # Pilot samples show different images, whose scatter must not let the map fall.
    fitted = isotonic_regression(delta_v[order], increasing=True).x
    scatter = np.sqrt(np.mean((delta_v[order] - fitted) ** 2))
    # No image can change by more than 1.
    highest = min(1.0, float(fitted[-1] + SCATTER * scatter))
    return PilotMap(
        severity=tuple(severity[order].tolist()),
        delta_v=tuple(np.round(fitted, 6).tolist()),
        highest=round(highest, 6),
    )
