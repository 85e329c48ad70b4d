"""Where a study stands: answers, participants, who is left out, and what people can see so far."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median

from sqlalchemy import select
from sqlalchemy.orm import Session as Db

from eyechart.core.errors import UsageError
from eyechart.experiment.design.study_config import StudyConfig
from eyechart.experiment.export.export_tables import (
    CountedResponse,
    JudgedSession,
    counted,
    human_records,
    pair_of,
)
from eyechart.experiment.quality.rules import judge
from eyechart.experiment.storage.database_tables import (
    ACTIVE,
    FAILED,
    PictureRow,
    StimulusRow,
    StudyRow,
)
from eyechart.experiment.storage.session_records import SessionRecord, read_sittings
from eyechart.humans.records import CLEAN, Answers, Judgement
from eyechart.humans.reference import Reference
from eyechart.humans.same_different import PairResult, analyse
from eyechart.stats.intervals import wilson_interval

PLACES = (0.2, 0.4, 0.6, 0.8)
"""Where on the axis of Δv the running curve is read off."""

BINS, LEAST, REPLICATES = 10, 20, 100
GOING, DONE, NOT_PASSED, LEFT = "active now", "finished", "not qualified", "dropped out"
STATES = (GOING, DONE, NOT_PASSED, LEFT)


@dataclass(frozen=True)
class StimulusGroup:
    """The main stimuli of one corruption, or pair: `full` have all answers that are wanted."""

    name: str
    stimuli: int
    full: int
    answers: int
    wanted: int


@dataclass(frozen=True)
class Rate:
    """A rate with its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class StudyStatus:
    """Where a study stands. `people`: participants by state; `reasons`: sessions by rule broken.

    `minutes`: the median of finished sessions. `clean`: how often clean pictures are named rightly.
    `curves`: by corruption, accuracy at PLACES, None where too little is known. `pairs`: what
    people could tell in a same/different study.
    """

    name: str
    kind: str
    is_open: bool
    groups: tuple[StimulusGroup, ...]
    people: dict[str, int]
    excluded: int
    reasons: dict[str, int]
    minutes: float | None
    left_out: int
    clean: Rate | None
    curves: dict[str, tuple[Rate | None, ...]]
    pairs: tuple[PairResult, ...]


def read_status(db: Db, study: StudyRow, config: StudyConfig, now: datetime) -> StudyStatus:
    """Return where a study stands; nothing is written."""
    judged = [JudgedSession(each, judge(each, config)) for each in read_sittings(db, study.id)]
    kept = counted(judged)
    states = Counter(state_of(own.sitting, config, now) for own in judged)
    taken = sum(len(own.sitting.of("main")) for own in judged if own.verdict.counts)
    times = [
        (own.sitting.finished_at - own.sitting.created_at).total_seconds() / 60
        for own in judged
        if own.sitting.finished_at is not None and own.sitting.state not in (ACTIVE, FAILED)
    ]
    answers = human_records(kept, config) if config.kind == "categorise" else None
    return StudyStatus(
        config.name,
        config.kind,
        study.status == "open",
        tuple(_groups(db, study.id, kept)),
        {state: states.get(state, 0) for state in STATES},
        sum(not own.verdict.counts for own in judged),
        dict(Counter(rule for own in judged for rule, _ in own.verdict.broken).most_common()),
        median(times) if times else None,
        taken - len(kept),
        None if answers is None else clean_rate(answers),
        {} if answers is None else running_curves(answers),
        tuple(analyse(_judgements(kept))) if answers is None else (),
    )


def state_of(sitting: SessionRecord, config: StudyConfig, now: datetime) -> str:
    """Return one of STATES; whoever did nothing for as long as a trial may take has dropped out."""
    if sitting.state == ACTIVE:
        gone = now - sitting.last_seen > timedelta(minutes=config.lease_minutes)
        return LEFT if gone else GOING
    return NOT_PASSED if sitting.state == FAILED else DONE


def clean_rate(answers: Answers) -> Rate | None:
    """Return how often clean pictures are named rightly, with the Wilson interval."""
    own = answers.correct[answers.corruption == CLEAN]
    if not len(own):
        return None
    share = float(own.mean())
    return Rate(share, *wilson_interval(share, len(own), 0.95))


def running_curves(answers: Answers) -> dict[str, tuple[Rate | None, ...]]:
    """Return people's accuracy at PLACES for each corruption; intervals resample photographs."""
    reference = Reference("running", answers)
    found: dict[str, tuple[Rate | None, ...]] = {}
    for name in answers.experiments:
        try:
            curve = reference.curve(
                name, binning="equal", bins=BINS, least=LEAST, replicates=REPLICATES
            )
        except UsageError:
            curve = None  # too few answers so far
        if curve is None:
            found[name] = (None,) * len(PLACES)
            continue
        rates = []
        for place in PLACES:
            is_seen = any(start <= place <= end for start, end in curve.observed)
            low, high = curve.band(place)
            rates.append(Rate(float(curve(place)), float(low), float(high)) if is_seen else None)
        found[name] = tuple(rates)
    return found


def _groups(db: Db, study_id: int, kept: Sequence[CountedResponse]) -> list[StimulusGroup]:
    have = Counter(each.answer.stimulus for each in kept)
    rows: dict[str, list[tuple[int, int]]] = {}
    query = (
        select(StimulusRow.id, StimulusRow.capacity, StimulusRow.pair, PictureRow.corruption)
        .join(PictureRow, PictureRow.stimulus_id == StimulusRow.id)
        .where(StimulusRow.study_id == study_id, StimulusRow.role == "main", PictureRow.place == 0)
    )
    for stimulus, capacity, pair, corruption in db.execute(query):
        rows.setdefault(pair or corruption, []).append((have[stimulus], capacity or 0))
    return [
        StimulusGroup(
            name,
            len(own),
            sum(answers >= wanted for answers, wanted in own),
            sum(answers for answers, _ in own),
            sum(wanted for _, wanted in own),
        )
        for name, own in sorted(rows.items(), key=lambda each: (each[0] != CLEAN, each[0]))
    ]


def _judgements(kept: Sequence[CountedResponse]) -> list[Judgement]:
    return [
        Judgement(*pair_of(each.answer), each.subject, each.answer.truth, each.answer.choice)
        for each in kept
    ]
