"""How far each row's visual change can go, and the strengths that bring it where it is to be."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from eyechart.core.errors import UsageError
from eyechart.core.progress import Advance
from eyechart.images.imageset import ImageSet
from eyechart.testsets.drawing import BATCH, Plan, each_chunk, mildest, severities_of, with_values
from eyechart.testsets.draws import Draws, Real, Whole
from eyechart.testsets.making import Chunk, rows_of
from eyechart.testsets.uniform import choose_levels, draw_targets, find_strengths

TARGET_BINS = 39


@dataclass(frozen=True, eq=False)
class Reach:
    """Between what each row's Δv can lie, and what it is to be: NaN for rows that are not used.

    `severity`: where it is known already, NaN where it has to be found.
    """

    lowest: Real
    highest: Real
    target: Real
    severity: Real

    def take(self, places: Whole) -> "Reach":
        """Return what is known of some of the rows."""
        return Reach(*(getattr(self, name)[places] for name in self.__dataclass_fields__))


def find_reach(
    images: ImageSet, pools: Sequence[Draws], plan: Plan, device: torch.device, step: Advance
) -> dict[str, Reach]:
    """Return what every row of the pools can reach, and the targets of those that are used."""
    found = {
        pool.name: np.full((len(severities_of(entry)), len(pool)), np.nan)
        for pool in pools if (entry := pool.entry) is not None
    }  # fmt: skip
    for chunk in each_chunk(images, pools, plan, device):
        for draws, places in rows_of(pools, chunk.places):
            assert draws.entry is not None
            own = found[draws.name]
            for level, severity in reversed(list(enumerate(severities_of(draws.entry)))):
                if severity:
                    at = np.full(len(draws), severity)
                    own[level, places] = measure_at(images, chunk, draws, at, plan)
                elif plan.jpeg is not None:
                    # stored as JPEG, the picture itself is not without change
                    clean = replace(draws, severity=np.zeros(len(draws)), values={})
                    own[level, places] = measure(chunk, clean)
                else:
                    # severity 0 is the picture itself
                    own[level, places] = own[-1, places] * 0
            step(len(draws), "")
    return {pool.name: _aim(images, pool, found[pool.name], plan) for pool in pools}


def _aim(images: ImageSet, pool: Draws, found: Real, plan: Plan) -> Reach:
    """Return the targets of a pool from its Δv at the severities that were looked at."""
    assert pool.entry is not None
    names = [
        f"{pool.name} {images.digests[image]} {draw}"
        for image, draw in zip(pool.image, pool.draw, strict=True)
    ]
    severities = severities_of(pool.entry)
    edges = np.linspace(*plan.delta_v, TARGET_BINS + 1)
    if len(severities) == 2:
        target = draw_targets(found[0], found[1], names, plan.n, edges, plan.seed)
        _check_reach(pool, plan, target, found)
        return Reach(found[0], found[1], target, np.full(len(pool), np.nan))
    chosen = choose_levels(found, names, plan.n, edges, plan.seed)
    used, rows = chosen >= 0, np.arange(len(pool))
    target = np.where(used, found[chosen, rows], np.nan)
    _check_reach(pool, plan, target, found)
    return Reach(found[0], found[-1], target, np.where(used, severities[chosen], np.nan))


def _check_reach(pool: Draws, plan: Plan, target: Real, found: Real) -> None:
    if np.isnan(target).all():
        low, high = plan.delta_v
        seen = found[~np.isnan(found)]
        reach = f"from {seen.min():.2f} to {seen.max():.2f}" if len(seen) else "nowhere"
        raise UsageError(
            f"{pool.name} reaches no Δv between {low:g} and {high:g} on these pictures, only"
            f" {reach}: widen delta_v, or leave the corruption out."
        )


def find_values(
    images: ImageSet, chunk: Chunk, draws: Draws, reach: Reach, plan: Plan, step: Advance
) -> Draws:
    """Return rows of one chunk with the strengths that bring Δv to its targets."""
    assert draws.entry is not None

    def measure_some(rows: Whole, severity: Real) -> Real:
        return measure_at(images, chunk, draws.take(rows), severity, plan)

    severity = reach.severity
    if np.isnan(severity).any():
        severity, _ = find_strengths(
            reach.target, mildest(draws.entry), reach.lowest, reach.highest, measure_some
        )
    step(len(draws), "")
    return with_values(images, replace(draws, severity=severity), plan.seed)


def measure_at(images: ImageSet, chunk: Chunk, draws: Draws, severity: Real, plan: Plan) -> Real:
    """Return Δv of these rows at these severities."""
    return measure(chunk, with_values(images, replace(draws, severity=severity), plan.seed))


def measure(chunk: Chunk, draws: Draws) -> Real:
    """Return Δv of these rows, made a batch at a time."""
    size = BATCH.get(chunk.device.type, BATCH["cpu"])
    starts = range(0, len(draws), size)
    parts = (draws.take(np.arange(start, min(start + size, len(draws)))) for start in starts)
    return np.concatenate([chunk.make(part).delta_v.cpu().numpy() for part in parts])
