"""Spend the next response where the human curve is least certain.

Main stimuli are grouped by corruption and bin of visual change. The next stimulus comes from the
group whose accuracy has the widest confidence interval, and within it from the stimuli with the
fewest responses. Clean images keep their planned share of the responses, because the consistency
of responses is judged by them.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal
from weakref import WeakKeyDictionary

from sqlalchemy import Integer, bindparam, cast, func, select
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.orm import Session as Db

from eyechart.stats.intervals import CONFIDENCE, wilson_interval
from eyechart_experiment.server.open_stimuli import OpenStimulus, StoredStimuli, pick_between
from eyechart_experiment.storage.database_tables import (
    CLEAN,
    ResponseRow,
    SessionRow,
    StimulusImageRow,
    StimulusRow,
    TrialRow,
)

BINS = 10
"""Number of bins of visual change per corruption."""

REFRESH = 25
"""Number of trials handed out before the counts are read from the database again."""

TRIES = 3
"""Number of groups that are searched; a participant may have seen all images of one."""


@dataclass(frozen=True, order=True)
class Group:
    """Stimuli of one corruption whose visual change lies in one bin; clean images have bin 0."""

    corruption: str
    number: int

    @property
    def limits(self) -> tuple[float, float]:
        """The visual changes in the bin, from the first up to but without the second."""
        # Values of exactly 1 belong to the last bin.
        end = 2.0 if self.number == BINS - 1 else (self.number + 1) / BINS
        return self.number / BINS, end


def group_of(corruption: str, delta_v: float | None) -> Group:
    """Return the group of a stimulus."""
    if corruption == CLEAN or delta_v is None:
        return Group(corruption, 0)
    return Group(corruption, min(BINS - 1, int(delta_v * BINS)))


@dataclass
class GroupCount:
    """Responses wanted for a group, handed out or received so far, received, and correct."""

    wanted: int = 0
    taken: int = 0
    n_responses: int = 0
    n_correct: int = 0

    @property
    def is_full(self) -> bool:
        """Whether no more responses are wanted."""
        return self.taken >= self.wanted

    @property
    def width(self) -> float:
        """Width of the 95 % interval of the accuracy; trials without a response yet count too."""
        # Otherwise, all trials until the next response would go to the same group.
        if self.taken == 0:
            return 1.0
        # 1/2 without responses, and never exactly 0 or 1, so that one early response does not make
        # a group look certain.
        rate = (self.n_correct + 0.5) / (self.n_responses + 1)
        low, high = wilson_interval(rate, self.taken, CONFIDENCE)
        return high - low


def groups_in_order(counts: dict[Group, GroupCount]) -> list[Group]:
    """Return the groups that want responses, the one with the widest interval first.

    Clean images come first whenever they have less than their planned share.
    """
    open_groups = [group for group, count in counts.items() if not count.is_full]
    # Ties are broken by the group itself, not by the order of the database's rows.
    order = sorted(open_groups, key=lambda group: (-counts[group].width, group))
    behind = [group for group in order if group.corruption == CLEAN and _is_behind(group, counts)]
    corrupted = [group for group in order if group.corruption != CLEAN]
    return behind + corrupted


def _is_behind(clean: Group, counts: dict[Group, GroupCount]) -> bool:
    taken = sum(count.taken for count in counts.values())
    wanted = sum(count.wanted for count in counts.values())
    # Shares compared as products: there is no division by zero while nothing is taken.
    return counts[clean].taken * wanted <= counts[clean].wanted * taken


@dataclass
class _KeptCounts:
    """Counts that are kept between trials; `age` is the number of trials handed out since."""

    counts: dict[Group, GroupCount] = field(default_factory=dict)
    # Outdated from the start, so that the first trial reads the counts.
    age: int = REFRESH


# Weak keys, so that the counts of a closed database are dropped with its engine.
_KEPT: WeakKeyDictionary[Engine, dict[int, _KeptCounts]] = WeakKeyDictionary()


def pick_adaptive(db: Db, session: SessionRow) -> OpenStimulus | None:
    """Return a stimulus from the group that is least certain; None to let another rule choose."""
    bind = db.get_bind()
    # Connections come and go with the pool; the engine lasts as long as the counts.
    engine = bind.engine if isinstance(bind, Connection) else bind
    kept = _KEPT.setdefault(engine, {}).setdefault(session.study_id, _KeptCounts())
    if kept.age >= REFRESH:
        kept.counts, kept.age = read_counts(db, session.study_id), 0
    for group in groups_in_order(kept.counts)[:TRIES]:
        stimulus = pick_between(db, session, group.corruption, *group.limits)
        if stimulus is not None:
            kept.age += 1
            # Counted here too, since the database is read again only after REFRESH trials.
            kept.counts[group].taken += 1
            return stimulus
    return None


class AdaptiveStimuli(StoredStimuli):
    """The stimuli that are left for a session, the least certain part of the curve first."""

    def least_taken(self) -> OpenStimulus | Literal["wait"] | None:
        """Return an unseen main stimulus, "wait", or None."""
        return pick_adaptive(self.db, self.session) or super().least_taken()


_STIMULI = (
    select(
        StimulusImageRow.corruption,
        StimulusImageRow.delta_v,
        StimulusRow.capacity,
        StimulusRow.taken,
        func.count(ResponseRow.trial_id).label("n_responses"),
        func.coalesce(func.sum(cast(ResponseRow.correct, Integer)), 0).label("n_correct"),
    )
    .join(StimulusImageRow, StimulusImageRow.stimulus_id == StimulusRow.id)
    # Outer joins: a stimulus without trials still adds to the responses its group wants.
    .outerjoin(TrialRow, TrialRow.stimulus_id == StimulusRow.id)
    .outerjoin(ResponseRow, ResponseRow.trial_id == TrialRow.id)
    .where(StimulusRow.study_id == bindparam("study_id"), StimulusRow.role == "main")
    .group_by(
        StimulusRow.id,
        StimulusImageRow.corruption,
        StimulusImageRow.delta_v,
        StimulusRow.capacity,
        StimulusRow.taken,
    )
)


def read_counts(db: Db, study_id: int) -> dict[Group, GroupCount]:
    """Return the counts of all groups of a study."""
    rows = db.connection().execute(_STIMULI, {"study_id": study_id})
    return add_up(
        (
            group_of(row.corruption, row.delta_v),
            GroupCount(row.capacity or 0, row.taken, row.n_responses, int(row.n_correct)),
        )
        for row in rows
    )


def add_up(stimuli: Iterable[tuple[Group, GroupCount]]) -> dict[Group, GroupCount]:
    """Return the sums over the stimuli of each group."""
    counts: dict[Group, GroupCount] = {}
    for group, one in stimuli:
        total = counts.setdefault(group, GroupCount())
        total.wanted += one.wanted
        total.taken += one.taken
        total.n_responses += one.n_responses
        total.n_correct += one.n_correct
    return counts
