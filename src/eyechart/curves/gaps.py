"""What the area can be whatever a falling curve does where nothing was observed."""

import numpy as np
from scipy.interpolate import PPoly

from eyechart.curves.bins import Bins, Numbers
from eyechart.curves.density import Density, piece_areas
from eyechart.curves.pieces import refined


def area_bounds(
    pieces: PPoly, bins: Bins, least: float, left: bool, right: bool, density: Density
) -> tuple[Numbers, Numbers]:
    """Return the least and the greatest area of each of many curves.

    Over usable bins a curve stays as it is; over a gap it lies between its values on both sides.
    `left`, `right`: whether an anchor says what it is at 0 and at 1.
    """
    edges = bins.edges
    places = np.union1d(pieces.x, edges)
    fine = refined(pieces, places)
    running = np.cumsum(piece_areas(fine, density), axis=0)
    running = np.concatenate([np.zeros_like(running[:1]), running])
    own = np.diff(running[np.searchsorted(places, edges)], axis=0)
    values, mass = pieces(edges), density.between(np.zeros(1), np.zeros(1), edges)[0]
    usable = np.moveaxis(bins.usable(least), -1, 0)
    before = values[0] if left else np.ones_like(values[0])
    low, high, reached = (np.zeros_like(before) for _ in range(3))
    for place, seen in enumerate(usable):
        gap, value = mass[place] - reached, values[place]
        low += seen * (gap * value + own[place])
        high += seen * (gap * np.maximum(before, value) + own[place])
        reached = np.where(seen, mass[place + 1], reached)
        before = np.where(seen, values[place + 1], before)
    floor = np.minimum(values[-1], before) if right else np.zeros_like(before)
    return low + (1 - reached) * floor, high + (1 - reached) * before
