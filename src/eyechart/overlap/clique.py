"""Exact search for maximum cliques with the lowest mean cost.

Sets are represented by integers used as bit masks.
"""

from collections.abc import Sequence
from math import fsum

import numpy as np
from numpy.typing import NDArray

from eyechart.core.arrays import FloatArray

EQUAL = 1e-10
"""Mean costs that differ by less than this count as equal, because of rounding errors."""

MOST = 1000
"""Maximum number of equally good sets to list; there may be exponentially many."""


def cheapest_largest(
    allowed: NDArray[np.bool_], costs: FloatArray, at_most: int
) -> tuple[list[tuple[int, ...]], bool]:
    """Return the maximum cliques with the lowest mean cost, and whether there are more of them.

    At most `MOST` are listed. Enumerating all maximal cliques (networkx) would not do: corruptions
    overlap in groups, and 15 groups of 4 have 4¹⁵ maximal cliques.

    Args:
        allowed: Whether two nodes are neighbors (n, n), symmetric, false on the diagonal.
        costs: Costs of pairs (n, n), symmetric and at least 0 for allowed pairs.
        at_most: Upper bound on the size.

    Example:
        >>> costs = np.array([[0, 1, 2], [1, 0, 3], [2, 3, 0]], dtype=float)
        >>> cheapest_largest((costs == 1) | (costs == 3), costs, at_most=3)
        ([(0, 1)], False)
    """
    # Nodes of high degree first: their colors give the tightest bound on the size.
    order = np.argsort(-allowed.sum(axis=1), kind="stable")
    inner = allowed[np.ix_(order, order)]
    neighbors = [sum(1 << int(other) for other in np.flatnonzero(row)) for row in inner]
    everyone = (1 << len(order)) - 1
    apart = [everyone & ~mask & ~(1 << node) for node, mask in enumerate(neighbors)]
    # First the size, then the cheapest sets of that size: the size prunes the second search.
    largest = _largest(neighbors, apart, at_most)
    search = _CliqueSearch(neighbors, apart, costs[np.ix_(order, order)], len(largest))
    # The set that is already known gives the second search an upper bound on the cost.
    search.found(largest)
    search.expand([], everyone, 0.0, np.zeros(len(order)))
    best = [set_ for set_, sum_ in search.best.items() if sum_ <= search.lowest + search.slack]
    return sorted(tuple(sorted(order[list(set_)].tolist())) for set_ in best), search.more


def _colored(candidates: int, apart: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return the candidates ordered by color, and their colors (from 1).

    No two candidates of the same color are allowed together, so a set has at most one member per
    color, and at most c members among the candidates up to color c.
    """
    order, colors, color = [], [], 0
    while candidates:
        color += 1
        free = candidates
        while free:
            # Lowest set bit.
            bit = free & -free
            node = bit.bit_length() - 1
            candidates ^= bit
            free &= apart[node]
            order.append(node)
            colors.append(color)
    return order, colors


def _largest(allowed: Sequence[int], apart: Sequence[int], at_most: int) -> tuple[int, ...]:
    """Return one maximum clique, by branch and bound with coloring."""
    best: tuple[int, ...] = ()

    def expand(members: tuple[int, ...], candidates: int) -> None:
        nonlocal best
        if len(members) > len(best):
            best = members
        order, colors = _colored(candidates, apart)
        for node, color in zip(reversed(order), reversed(colors), strict=True):
            # Colors only decrease from here, so the remaining nodes cannot improve it either.
            if len(best) >= at_most or len(members) + color <= len(best):
                return
            expand((*members, node), candidates & allowed[node])
            candidates ^= 1 << node

    expand((), (1 << len(allowed)) - 1)
    return best


class _CliqueSearch:
    """Search for all sets of `size` members with the lowest sum of costs."""

    def __init__(
        self, allowed: Sequence[int], apart: Sequence[int], costs: FloatArray, size: int
    ) -> None:
        self.allowed, self.apart, self.costs, self.size = allowed, apart, costs, size
        self.best: dict[tuple[int, ...], float] = {}
        self.lowest, self.more = np.inf, False
        # The tolerance is per pair; costs are compared as sums over pairs.
        self.slack = EQUAL * size * (size - 1) / 2
        together = np.array(
            [[neighbors >> node & 1 for node in range(len(allowed))] for neighbors in allowed],
            dtype=bool,
        )
        # Infinite where a pair is not allowed, so that a lower bound never relies on it.
        self.between: FloatArray = np.where(together, costs, np.inf)

    def expand(self, members: list[int], candidates: int, sum_: float, added: FloatArray) -> None:
        """Visit all sets that extend `members` by candidates; `added`: cost of adding each node."""
        missing = self.size - len(members)
        if missing == 0:
            self.found(tuple(sorted(members)))
            return
        order, colors = _colored(candidates, self.apart)
        # Each color contributes at most one member, so there must be enough colors.
        if not order or colors[-1] < missing:
            return
        # Once there are too many equally good sets, search only for better ones.
        limit = self.lowest - self.slack if self.more else self.lowest + self.slack
        if self._min_sum(order, colors, missing, sum_, added) > limit:
            return
        for node, color in zip(reversed(order), reversed(colors), strict=True):
            if color < missing:
                return
            rest = candidates & self.allowed[node]
            if rest.bit_count() >= missing - 1:
                self.expand([*members, node], rest, sum_ + added[node], added + self.costs[node])
            # Every set with this node has been visited.
            candidates ^= 1 << node

    def _min_sum(
        self, order: list[int], colors: list[int], missing: int, sum_: float, added: FloatArray
    ) -> float:
        """Return a lower bound on the cost of any completion.

        Each chosen node costs what it adds to the members, plus at least half the cost of its
        cheapest pairs with other nodes. The cost is halved because each pair is counted for both
        of its nodes. Only one node of each color can be chosen.
        """
        nodes = np.array(order)
        # Index −1 compares the first with the last color, which differs unless there is only one.
        starts = [number for number, color in enumerate(colors) if color != colors[number - 1]] or [
            0
        ]
        cost = added[nodes]
        if missing > 1:
            # The cheapest partner of each color: a set has at most one member per color.
            near = np.minimum.reduceat(self.between[nodes[:, None], nodes], starts, axis=1)
            pairs = np.partition(near, missing - 2, axis=1)[:, : missing - 1]
            cost = cost + pairs.sum(axis=1) / 2
        cheapest = np.minimum.reduceat(cost, starts)
        return float(sum_ + np.partition(cheapest, missing - 1)[:missing].sum())

    def found(self, members: tuple[int, ...]) -> None:
        """Store a set unless a better one is known."""
        ordered = tuple(sorted(members))
        # Exactly rounded sum, which does not depend on the order of members.
        sum_ = fsum(
            float(self.costs[one, two])
            for number, two in enumerate(ordered)
            for one in ordered[:number]
        )
        if sum_ < self.lowest - self.slack:
            self.best, self.more = {}, False
        if sum_ <= self.lowest + self.slack:
            if len(self.best) < MOST:
                self.best[ordered] = sum_
            else:
                self.more = self.more or ordered not in self.best
            self.lowest = min(self.lowest, sum_)
