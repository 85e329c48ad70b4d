"""Simulated participants in a copy of a study, to try everything before the first real one."""

import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import numpy as np
from sqlalchemy import insert, select

from eyechart.core.errors import UsageError
from eyechart.core.files import atomic_file
from eyechart.core.progress import Advance
from eyechart.experiment.design.study_config import choices_of
from eyechart.experiment.recruiters.recruiter import Arrival
from eyechart.experiment.server.responses import Given, store
from eyechart.experiment.server.sessions import Refusal, claim_tab, finish, join
from eyechart.experiment.server.tokens import read_token
from eyechart.experiment.server.trial_allocation import allocate
from eyechart.experiment.simulate.robots import Asked, Kind, Psychometric, Robot
from eyechart.experiment.storage.database import Database, open_database
from eyechart.experiment.storage.database_tables import (
    InstallationRow,
    PictureRow,
    SourceImageRow,
    StimulusRow,
    StudyRow,
    TrialRow,
)
from eyechart.experiment.storage.experiment_folder import (
    CONFIG,
    SECRET,
    STIMULI,
    StudyFolder,
    database_url,
    open_answers,
    open_study,
)

ROBOTS = "robots.json"
AT_ONCE = 8
"""How many robots take part at the same time."""

DESIGN = (InstallationRow, StudyRow, SourceImageRow, StimulusRow, PictureRow)


@dataclass(frozen=True)
class RobotOutcome:
    """What became of a robot: its pseudonym, what it is, and how its session ended."""

    participant: str
    kind: Kind
    state: str


def copy_study(folder: StudyFolder, out: Path) -> StudyFolder:
    """Make a study like this one with a database of its own and no participants."""
    if out.exists():
        raise UsageError(f"{out} is there already: choose another --out.")
    if not out.parent.is_dir():
        raise UsageError(f"No such folder: {out.parent}.")
    database, _ = open_answers(folder)
    try:
        (out / STIMULI).mkdir(parents=True)
        for name in (CONFIG, SECRET):
            shutil.copy(folder.path / name, out / name)
        for picture in folder.stimuli.iterdir():
            _link(picture, out / STIMULI / picture.name)
        own = open_database(database_url(out), create=True)
        with database.reading() as old, own.writing() as new:
            for table in DESIGN:
                rows = [dict(row) for row in old.execute(select(table.__table__)).mappings()]
                for row in rows:
                    if table is StimulusRow:
                        row["taken"] = 0
                if rows:
                    new.execute(insert(table), rows)
        own.close()
    finally:
        database.close()
    return open_study(out)


def _link(picture: Path, target: Path) -> None:
    try:
        os.link(picture, target)
    except OSError:
        shutil.copy(picture, target)


def asked(database: Database, trial: str) -> Asked:
    """Return what a robot must know of a trial, which the page is never told."""
    with database.reading() as db:
        found = db.scalar(select(StimulusRow).join(TrialRow).where(TrialRow.public_id == trial))
        if found is None:
            raise UsageError(f"There is no trial {trial}.")
        change = max(picture.delta_v or 0.0 for picture in found.pictures)
        return Asked(found.truth, change, found.role)


def write_robots(out: Path, outcomes: Sequence[RobotOutcome], curve: Psychometric) -> None:
    """Write who was what, beside the simulated study."""
    with atomic_file(out / ROBOTS) as temporary:
        told = {"curve": asdict(curve), "robots": [asdict(each) for each in outcomes]}
        temporary.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


def simulate_fast(
    folder: StudyFolder, kinds: Sequence[Kind], curve: Psychometric, seed: int, step: Advance
) -> list[RobotOutcome]:
    """Let robots take part without a browser, through what the server itself calls.

    Each lives in a time of its own, so that nobody waits.
    """
    database, study = open_answers(folder)
    try:
        waiting = list(enumerate(kinds))[::-1]
        here: list[_Sitting] = []
        outcomes: dict[int, RobotOutcome] = {}
        while waiting or here:
            while waiting and len(here) < AT_ONCE:
                number, kind = waiting.pop()
                try:
                    here.append(_Sitting(folder, database, study, number, kind, curve, seed))
                except Refusal:
                    waiting.clear()  # the study has all answers that it needs
            for sitting in list(here):
                outcome = sitting.go_on()
                if outcome is not None:
                    outcomes[sitting.number] = outcome
                    here.remove(sitting)
                    step(1, "")
    finally:
        database.close()
    return [outcomes[number] for number in sorted(outcomes)]


class _Sitting:
    """A robot in its session, one trial at a time."""

    def __init__(
        self,
        folder: StudyFolder,
        database: Database,
        study: StudyRow,
        number: int,
        kind: Kind,
        curve: Psychometric,
        seed: int,
    ) -> None:
        self.number, self._folder, self._database = number, folder, database
        self._config = folder.config
        self._robot = Robot(kind, (seed, number, 8), curve)
        self._uuids = np.random.default_rng((seed, number, 10))
        self._now = datetime.now(UTC)
        arrival = Arrival("link", f"robot-{seed}-{number}", {})
        joined = join(database, study, self._config, folder.secret, arrival, {}, self._now)
        claim = read_token(folder.secret, joined.token)
        assert claim is not None
        self._session = claim.session_id
        claim_tab(database, self._session, self._uuid(), 60.0, self._now)

    def go_on(self) -> RobotOutcome | None:
        """Answer one trial; at the end return what became of the robot."""
        step = allocate(self._database, self._config, self._session, self._uuid(), self._now)
        if step.trial is not None:
            self._answer(step.trial.public_id)
            return None
        state = finish(self._database, self._config, self._folder.secret, self._session, self._now)
        return RobotOutcome(state.participant, self._robot.kind, state.state)

    def _answer(self, trial: str) -> None:
        config = self._config
        question = asked(self._database, trial)
        reaction = self._robot.react(question, choices_of(config), config.response_ms)
        shown = config.fixation_ms + config.stimulus_ms
        stamps = {"fixation": 0.0, "stimulus": float(config.fixation_ms), "blank": float(shown)}
        self._now += timedelta(milliseconds=shown + config.mask_ms + reaction.rt_ms + 100)
        given = Given(self._uuid(), reaction.choice, reaction.rt_ms, stamps, ())
        store(self._database, config, self._folder.secret, self._session, trial, given, self._now)

    def _uuid(self) -> str:
        return str(UUID(bytes=self._uuids.bytes(16)))
