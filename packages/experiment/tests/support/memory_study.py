"""A study without a database, for many simulated studies in little time.

Stimuli are chosen by the server's `next_stimulus`, sessions are judged by the quality rules and
turned into human records by the export. Only the storage of stimuli is written again here.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from heapq import heapify, heappop, heappush

import numpy as np

from eyechart.humans.human_responses import CLEAN, HumanResponses
from eyechart.images.labels.imagenet import CATEGORIES
from eyechart_experiment.export.export_tables import counted, dropped_responses, human_records
from eyechart_experiment.quality.judging import JudgedSession, judge
from eyechart_experiment.server.session_progress import SessionProgress, has_failed, planned
from eyechart_experiment.server.trial_allocation import OpenStimulus, next_stimulus
from eyechart_experiment.simulate.robots import Robot, RobotQuestion
from eyechart_experiment.storage.database_tables import (
    ACTIVE,
    FAILED,
    FINISHED,
    RELOADED,
    ROBOT,
    SessionRow,
)
from eyechart_experiment.storage.session_records import (
    DroppedTrial,
    SessionRecord,
    ShownImage,
    TrialResponse,
    max_delta_v,
)
from eyechart_experiment.study_config import StudyConfig, choices_of

START = datetime(2026, 1, 1, tzinfo=UTC)
CORRUPTION = "simulated"
RESERVED_IMAGES = 2
"""Number of reserved images per planned practice, qualification and catch trial."""


@dataclass
class MemoryStimulus:
    """A stimulus of one image; see `StimulusRow` in `database_tables`."""

    id: int
    role: str
    source: int
    image: ShownImage
    capacity: int | None
    shuffle: float
    taken: int = 0

    @property
    def truth(self) -> str:
        """The correct response."""
        return CATEGORIES[self.source % len(CATEGORIES)]

    @property
    def is_open(self) -> bool:
        """Whether another response is wanted."""
        return self.capacity is None or self.taken < self.capacity


def draw_stimuli(config: StudyConfig, n_sources: int, seed: int) -> list[MemoryStimulus]:
    """Return the stimuli of a categorization study with one corruption, uniform in Δv.

    Each of `n_sources` main images has a corrupted and a clean stimulus.
    """
    # 20 here and 21 in `MemoryStudy` keep the random streams of one seed independent.
    random = np.random.default_rng((seed, 20))
    stimuli: list[MemoryStimulus] = []

    def add(role: str, source: int, corruption: str, capacity: int | None) -> None:
        delta_v = 0.0 if corruption == CLEAN else float(random.random())
        name = f"image {source}"
        image = ShownImage(name, name, corruption, {}, delta_v, "", len(stimuli))
        shuffle = float(random.random())
        stimuli.append(MemoryStimulus(len(stimuli), role, source, image, capacity, shuffle))

    for source in range(n_sources):
        add("main", source, CORRUPTION, config.k)
        add("main", source, CLEAN, config.clean_k)
    source = n_sources
    for role in ("practice", "qualification", "catch"):
        for _ in range(RESERVED_IMAGES * getattr(config, role)):
            add(role, source, CLEAN, None)
            source += 1
    return stimuli


@dataclass
class MemorySession:
    """A session that is under way."""

    row: SessionRow
    seen: set[int] = field(default_factory=set)
    responses: list[TrialResponse] = field(default_factory=list)
    dropped: list[DroppedTrial] = field(default_factory=list)
    n_responded: Counter[str] = field(default_factory=Counter)
    n_correct: Counter[str] = field(default_factory=Counter)
    n_dropped: Counter[str] = field(default_factory=Counter)

    @property
    def progress(self) -> SessionProgress:
        """The numbers of trials so far; no trial is loaded ahead."""
        return SessionProgress(self.n_responded, {}, self.n_correct, self.n_dropped)


class MemoryStudy:
    """The stimuli of a study and its sessions so far."""

    def __init__(self, config: StudyConfig, stimuli: Sequence[MemoryStimulus], seed: int) -> None:
        self.config, self.stimuli = config, stimuli
        self.records: list[SessionRecord] = []
        self._random = np.random.default_rng((seed, 21))
        self._choices = choices_of(config)
        self._reserved = {
            role: [stimulus for stimulus in stimuli if stimulus.role == role]
            for role in ("practice", "qualification", "catch")
        }
        self._queue = [self._entry(stimulus) for stimulus in stimuli if stimulus.role == "main"]
        heapify(self._queue)

    def admit(self, robot: Robot) -> SessionRecord:
        """Let a robot take part until its session ends; return the session."""
        number, config = len(self.records), self.config
        row = SessionRow(seed=int(self._random.integers(2**31)), state=ACTIVE)
        session, now = MemorySession(row), START
        state = ""
        while not state:
            if has_failed(config, session.progress):
                state = FAILED
                break
            choice = next_stimulus(config, row, session.progress, _Pool(self, session))
            if isinstance(choice, str):
                state = FINISHED if choice == "finish" else FAILED
                break
            now = self._show(session, self.stimuli[choice.stimulus_id], robot, now)
        record = SessionRecord(
            id=number,
            subject=f"R{number:04d}",
            platform=ROBOT,
            state=state,
            hz=60.0,
            screen={},
            created_at=START,
            finished_at=now,
            last_seen=now,
            responses=tuple(session.responses),
            dropped=tuple(session.dropped),
        )
        self.records.append(record)
        if judge(record, config).broken:
            # As on the server, the responses are requested from other participants.
            for response in record.responses:
                self._count(self.stimuli[response.stimulus], -1)
        return record

    def judged(self) -> list[JudgedSession]:
        """Return the sessions with what the rules say of them."""
        return [judge(record, self.config) for record in self.records]

    def human_responses(self) -> HumanResponses:
        """Return what an export would contain."""
        judged = self.judged()
        return human_records(counted(judged), self.config, dropped=dropped_responses(judged))

    def _show(
        self, session: MemorySession, stimulus: MemoryStimulus, robot: Robot, now: datetime
    ) -> datetime:
        """Show a stimulus and store the response, or that the trial was dropped."""
        config, images = self.config, (stimulus.image,)
        progress = session.progress.done("main") / planned(config)["main"]
        question = RobotQuestion(
            stimulus.truth, max_delta_v(images), stimulus.role, stimulus.id, progress
        )
        reaction = robot.react(question, self._choices, config.response_ms)
        later = now + timedelta(milliseconds=robot.trial_ms(reaction, config))
        session.seen.add(stimulus.source)
        number = len(session.responses) + len(session.dropped)
        if robot.drops(question, reaction):
            trial = DroppedTrial(
                number=number, role=stimulus.role, truth=stimulus.truth, reason=RELOADED,
                served_at=now, dropped_at=later, images=images, stimulus=stimulus.id,
            )  # fmt: skip
            session.dropped.append(trial)
            session.n_dropped[stimulus.role] += 1
            return later
        self._count(stimulus, 1)
        session.responses.append(
            TrialResponse(
                number=number,
                role=stimulus.role,
                truth=stimulus.truth,
                choice=reaction.choice,
                correct=reaction.choice == stimulus.truth,
                rt_ms=reaction.rt_ms,
                stamps=robot.stamps(reaction, config),
                flags=(),
                served_at=now,
                received_at=later,
                images=images,
                stimulus=stimulus.id,
            )
        )
        session.n_responded[stimulus.role] += 1
        session.n_correct[stimulus.role] += reaction.choice == stimulus.truth
        return later

    def least_taken(self, seen: set[int]) -> MemoryStimulus | None:
        """Return the open main stimulus with the fewest responses whose source is not in `seen`."""
        skipped, choice = [], None
        while self._queue and choice is None:
            taken, _, index = entry = heappop(self._queue)
            stimulus = self.stimuli[index]
            if taken != stimulus.taken or not stimulus.is_open:
                # Its count has changed since, and a newer entry may be in the queue.
                continue
            skipped.append(entry)
            if stimulus.source not in seen:
                choice = stimulus
        # Including the chosen one: if its trial is dropped, its count does not change.
        for entry in skipped:
            heappush(self._queue, entry)
        return choice

    def reserved(self, role: str, seen: set[int]) -> MemoryStimulus | None:
        """Return a random reserved stimulus whose source is not in `seen`."""
        unseen = [one for one in self._reserved[role] if one.source not in seen]
        return unseen[int(self._random.integers(len(unseen)))] if unseen else None

    def _count(self, stimulus: MemoryStimulus, change: int) -> None:
        # Reserved stimuli are unlimited and never in the queue.
        if stimulus.capacity is None:
            return
        stimulus.taken += change
        # The former entry stays, since a heap cannot remove it cheaply; `least_taken` skips it.
        if stimulus.is_open:
            heappush(self._queue, self._entry(stimulus))

    @staticmethod
    def _entry(stimulus: MemoryStimulus) -> tuple[int, float, int]:
        return stimulus.taken, stimulus.shuffle, stimulus.id


@dataclass(frozen=True)
class _Pool:
    """The stimuli that are left for a session; see `StoredStimuli` in `trial_allocation`."""

    study: MemoryStudy
    session: MemorySession

    def returned(self, roles: Sequence[str]) -> OpenStimulus | None:
        done = {response.stimulus for response in self.session.responses}
        for trial in self.session.dropped:
            stimulus = self.study.stimuli[trial.stimulus]
            if trial.role in roles and stimulus.id not in done and stimulus.is_open:
                return OpenStimulus(stimulus.id, stimulus.role, (stimulus.source,), is_return=True)
        return None

    def reserved(self, role: str) -> OpenStimulus | None:
        return _opened(self.study.reserved(role, self.session.seen))

    def least_taken(self) -> OpenStimulus | None:
        return _opened(self.study.least_taken(self.session.seen))


def _opened(stimulus: MemoryStimulus | None) -> OpenStimulus | None:
    if stimulus is None:
        return None
    return OpenStimulus(stimulus.id, stimulus.role, (stimulus.source,))
