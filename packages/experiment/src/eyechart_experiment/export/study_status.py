"""Report a study's progress: responses, participants, exclusions and preliminary accuracy."""

from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from statistics import median

from sqlalchemy import select

from eyechart.core.errors import UsageError
from eyechart.humans.human_responses import CLEAN, HumanResponses, Judgement
from eyechart.humans.reference import Reference
from eyechart.humans.same_different import PairResult, analyze
from eyechart.stats.intervals import CONFIDENCE, wilson_interval
from eyechart_experiment.export.export_tables import (
    counted,
    human_records,
    pair_of,
)
from eyechart_experiment.quality.judging import has_ended, has_left, judge_all
from eyechart_experiment.storage.database_tables import (
    ACTIVE,
    FAILED,
    StudyRow,
)
from eyechart_experiment.storage.experiment_folder import OpenStudy
from eyechart_experiment.storage.session_records import SessionRecord
from eyechart_experiment.storage.stimulus_counts import (
    StimulusGroup,
    group_stimuli,
    main_stimuli,
)
from eyechart_experiment.study_config import StudyConfig

SHOWN_DELTA_V = (0.2, 0.4, 0.6, 0.8)
"""Values of Δv at which the preliminary curve is evaluated."""

BINS, MIN_PER_BIN, N_BOOTSTRAP = 10, 20, 100
GOING, DONE, NOT_PASSED, LEFT = "active now", "finished", "not qualified", "dropped out"
STATES = (GOING, DONE, NOT_PASSED, LEFT)


RateInterval = tuple[float, float, float]
"""A rate with its 95 % confidence interval."""


@dataclass(frozen=True)
class StudyStatus:
    """The progress of a study.

    Attributes:
        participants: Number of participants in each state.
        reasons: Number of sessions that violate each rule.
        minutes: Median duration of finished sessions, in minutes.
        clean: Accuracy on clean images.
        curves: Accuracy for each corruption at each Δv in SHOWN_DELTA_V; None at a Δv with
            insufficient data.
        pairs: Accuracy for each pair of corruptions in a same/different study.
    """

    name: str
    kind: str
    is_open: bool
    groups: tuple[StimulusGroup, ...]
    participants: dict[str, int]
    excluded: int
    reasons: dict[str, int]
    minutes: float | None
    left_out: int
    clean: RateInterval | None
    curves: dict[str, tuple[RateInterval | None, ...]]
    pairs: tuple[PairResult, ...]


def read_status(study: OpenStudy, now: datetime) -> StudyStatus:
    """Return the progress of a study; nothing is written."""
    config = study.config
    with study.database.reading() as db:
        status = db.scalar(select(StudyRow.status).where(StudyRow.id == study.id))
        judged = judge_all(db, study.id, config)
        kept = counted(judged)
        stimuli = main_stimuli(db, study.id)
    records = [session.record for session in judged]
    states = Counter(participant_state(record, config, now) for record in records)
    n_counting = sum(len(session.record.of("main")) for session in judged if session.counts)
    times = [
        (record.finished_at - record.created_at).total_seconds() / 60
        for record in records
        if record.finished_at is not None and record.state not in (ACTIVE, FAILED)
    ]
    # An active session may still satisfy the rules.
    ended = [session for session in judged if has_ended(session.record, config, now)]
    reasons = Counter(rule for session in ended for rule, _ in session.broken)
    responses = human_records(kept, config) if config.kind == "categorise" else None
    judgements = (
        Judgement(*pair_of(item.response), item.subject, item.response.truth, item.response.choice)
        for item in kept
    )
    return StudyStatus(
        name=config.name,
        kind=config.kind,
        is_open=status == "open",
        groups=group_stimuli(stimuli, Counter(item.response.stimulus for item in kept)),
        participants={state: states.get(state, 0) for state in STATES},
        excluded=sum(not session.counts for session in ended),
        reasons=dict(reasons.most_common()),
        minutes=median(times) if times else None,
        left_out=n_counting - len(kept),
        clean=None if responses is None else _clean_rate(responses),
        curves={} if responses is None else _running_curves(responses),
        pairs=tuple(analyze(judgements)) if responses is None else (),
    )


def participant_state(record: SessionRecord, config: StudyConfig, now: datetime) -> str:
    """Return the participant's state, one of STATES."""
    if record.state == ACTIVE:
        return LEFT if has_left(record, config, now) else GOING
    return NOT_PASSED if record.state == FAILED else DONE


def _clean_rate(responses: HumanResponses) -> RateInterval | None:
    """Return the accuracy on clean images with its Wilson interval; None if nobody responded."""
    correct = responses.correct[responses.corruption == CLEAN]
    if not len(correct):
        return None
    share = float(correct.mean())
    return share, *wilson_interval(share, len(correct), CONFIDENCE)


def _running_curves(responses: HumanResponses) -> dict[str, tuple[RateInterval | None, ...]]:
    """Return human accuracy, with bootstrap intervals, by corruption at SHOWN_DELTA_V."""
    reference = Reference("running", responses)
    curves: dict[str, tuple[RateInterval | None, ...]] = {}
    for name in responses.experiments:
        try:
            curve = reference.curve(
                name, binning="equal", bins=BINS, min_per_bin=MIN_PER_BIN, n_bootstrap=N_BOOTSTRAP
            )
        except UsageError:
            curve = None  # Insufficient responses so far to fit a curve.
        if curve is None:
            curves[name] = (None,) * len(SHOWN_DELTA_V)
            continue
        rates = []
        for delta_v in SHOWN_DELTA_V:
            is_seen = any(start <= delta_v <= end for start, end in curve.observed)
            low, high = curve.band(delta_v)
            rate = float(curve(delta_v)), float(low), float(high)
            # Beyond the observed ranges the curve is extrapolated.
            rates.append(rate if is_seen else None)
        curves[name] = tuple(rates)
    return curves
