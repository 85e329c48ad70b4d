"""Compare adaptive with uniform allocation: responses needed for an interval, by simulation."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from eyechart.core.errors import UsageError
from eyechart.humans.human_responses import HumanResponses, make_responses
from eyechart.humans.reference import Reference
from eyechart.stats.intervals import CONFIDENCE
from eyechart_experiment.power.simulated_study import (
    AGREEMENT,
    CHOICES,
    StimulusTable,
    success_rates,
)
from eyechart_experiment.server.adaptive_allocation import (
    Group,
    GroupCount,
    add_up,
    group_of,
    groups_in_order,
)
from eyechart_experiment.simulate.psychometric import Psychometric

IMAGES, MAX_PER_STIMULUS, N_BOOTSTRAP = 1000, 20, 200
FIRST, GROWTH = 300, 1.06
"""Number of responses after which the interval is first computed, and factor until the next."""


@dataclass(frozen=True)
class Reached:
    """Number of responses with which the interval was narrow enough, and the interval."""

    n_responses: int
    interval: tuple[float, float]


@dataclass(frozen=True)
class Needed:
    """Responses needed with both allocations, None if not enough; and the simulated area."""

    uniform: Reached | None
    adaptive: Reached | None
    true_area: float


def responses_needed(
    half_width: float = 0.02,
    seed: int = 0,
    curve: Psychometric | None = None,
    agreement: float = AGREEMENT,
    n_images: int = IMAGES,
) -> Needed:
    """Return how many responses each allocation needs until the human area's interval is narrow.

    Both allocations get the same stimuli, with visual changes spread evenly over [0, 1], and the
    same difficulty of each stimulus. The interval is the one of the real analysis: a curve with a
    bootstrap over images.
    """
    human = Psychometric() if curve is None else curve
    random = np.random.default_rng((seed, 28))
    delta_v = random.random(n_images)
    rates = success_rates(delta_v, human, agreement, random)
    table = StimulusTable(
        "simulated",
        tuple(f"image {number}" for number in range(n_images)),
        delta_v,
        np.full(n_images, float(MAX_PER_STIMULUS)),
        np.zeros(n_images),
    )
    uniform, adaptive = (
        # The same stream for both, so that they differ only by their allocation.
        _needed(table, rates, half_width, np.random.default_rng((seed, 29)), is_adaptive)
        for is_adaptive in (False, True)
    )
    # Averaged over the curve and not over these stimuli, which are a sample of all images.
    true_area = float(np.mean([human(value, CHOICES) for value in np.linspace(0, 1, 2001)]))
    return Needed(uniform, adaptive, true_area)


def _needed(
    table: StimulusTable,
    rates: NDArray[np.float64],
    half_width: float,
    random: np.random.Generator,
    is_adaptive: bool,
) -> Reached | None:
    study = _GrowingStudy(table, rates, random, is_adaptive)
    wanted: float = FIRST
    while wanted <= table.n_responses:
        study.grow(round(wanted))
        low, high = study.interval()
        if high - low <= 2 * half_width:
            return Reached(round(wanted), (low, high))
        # Growing steps, since each interval is a bootstrap: the result is at most 6 % too high.
        wanted *= GROWTH
    return None


class _GrowingStudy:
    """A study that receives one response after the other."""

    def __init__(
        self,
        table: StimulusTable,
        rates: NDArray[np.float64],
        random: np.random.Generator,
        is_adaptive: bool,
    ) -> None:
        self._table, self._rates, self._random = table, rates, random
        self._is_adaptive = is_adaptive
        n_stimuli = len(rates)
        self._taken = np.zeros(n_stimuli, dtype=np.int64)
        # Breaks ties at random, but the same way each time.
        self._shuffle = random.random(n_stimuli)
        self._groups = [group_of(table.corruption, value) for value in table.delta_v]
        members: dict[Group, list[int]] = {}
        for number, group in enumerate(self._groups):
            members.setdefault(group, []).append(number)
        self._members = {group: np.array(numbers) for group, numbers in members.items()}
        self._counts = add_up(
            (group, GroupCount(wanted=int(wanted)))
            for group, wanted in zip(self._groups, table.n_wanted, strict=True)
        )
        self._rows: list[int] = []
        self._hits: list[bool] = []

    def grow(self, n_responses: int) -> None:
        """Collect responses until there are this many."""
        while len(self._rows) < n_responses:
            row = self._next()
            hit = bool(self._random.random() < self._rates[row])
            self._taken[row] += 1
            count = self._counts[self._groups[row]]
            self._counts[self._groups[row]] = replace(
                count,
                taken=count.taken + 1,
                n_responses=count.n_responses + 1,
                n_correct=count.n_correct + hit,
            )
            self._rows.append(row)
            self._hits.append(hit)

    def _next(self) -> int:
        """Return the stimulus with the fewest responses, of all or of the widest group."""
        rows = np.arange(len(self._taken))
        if self._is_adaptive:
            rows = self._members[groups_in_order(self._counts)[0]]
        # lexsort's last key is the first to count: fewest responses, then the random order.
        order = np.lexsort((self._shuffle[rows], self._taken[rows]))
        return int(rows[order[0]])

    def interval(self) -> tuple[float, float]:
        """Return the 95 % interval of the human area, which is (0, 1) without a curve."""
        try:
            curve = Reference("simulated", self._responses()).curve(
                self._table.corruption, n_bootstrap=N_BOOTSTRAP
            )
        except UsageError:
            return 0.0, 1.0
        assert curve is not None
        return curve.interval(CONFIDENCE)

    def _responses(self) -> HumanResponses:
        rows, hits = np.array(self._rows), np.array(self._hits)
        return make_responses(
            len(rows),
            source="simulation",
            choices=CHOICES,
            label_space="entry16",
            citation="",
            corruption=[self._table.corruption] * len(rows),
            subject=[""] * len(rows),
            image=np.array(self._table.image)[rows].tolist(),
            # Any two categories do: only whether a response is correct enters the curve.
            label=["cat"] * len(rows),
            response=np.where(hits, "cat", "dog").tolist(),
            delta_v=self._table.delta_v[rows].tolist(),
        )
