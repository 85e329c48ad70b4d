"""Simulate participants in a copy of a study, to test it before the first real participant.

Robots ("robots.py") read the pages in a real browser and click like participants; or they respond
without a browser and without waiting, through the functions that the server calls.
"""

import os
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING
from uuid import UUID

import numpy as np
from sqlalchemy import insert, select

from eyechart.core.errors import UsageError
from eyechart.core.progress import Advance
from eyechart.core.records import Record
from eyechart.core.storage.files import write_text
from eyechart_experiment.design.psychometric import Psychometric
from eyechart_experiment.quality.judging import judge_all, judge_session, stored_config
from eyechart_experiment.recruiters.link import RECRUITER
from eyechart_experiment.server.responses import store
from eyechart_experiment.server.serve import listen, make_server
from eyechart_experiment.server.session_progress import planned, progress_of
from eyechart_experiment.server.sessions import Rejection, claim_tab, finish, join
from eyechart_experiment.server.trial_allocation import allocate
from eyechart_experiment.server.wire import ResponseBody, TabClaim
from eyechart_experiment.simulate.robots import Kind, Robot, RobotQuestion
from eyechart_experiment.storage.database import Database, open_database
from eyechart_experiment.storage.database_tables import (
    EXPIRED,
    Base,
    InstallationRow,
    SessionRow,
    SourceImageRow,
    StimulusImageRow,
    StimulusRow,
    StudyRow,
    TrialRow,
)
from eyechart_experiment.storage.experiment_folder import (
    CONFIG,
    ROBOTS,
    SECRET,
    STIMULI,
    OpenStudy,
    StudyFolder,
    connect_study,
    database_url,
    fingerprint,
    new_secret,
    open_study,
    write_private,
)
from eyechart_experiment.storage.stimulus_counts import drop_all
from eyechart_experiment.storage.tokens import read_token
from eyechart_experiment.study_config import choices_of

if TYPE_CHECKING:
    from playwright.sync_api import Page

AT_ONCE = 8
"""Number of robots that take part concurrently without a browser."""

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
BROWSER_OPTIONS = ("--no-sandbox", "--disable-background-networking", "--no-first-run")
PATIENCE_S = 120.0
"""Seconds that a robot stays on the same screen before it gives up."""

FULL_SCREENS = ("full", "closed")
LAST_SCREENS = ("debrief", "failed", *FULL_SCREENS)

LOOK = """() => {
  const root = document.querySelector('[data-screen]');
  const trial = document.querySelector('[data-trial]');
  const actions = ['agree', 'eyesight-normal', 'start', 'continue', 'next'];
  const action = actions.find(name => {
    const button = document.querySelector(`[data-action='${name}']`);
    return button && !button.disabled && button.offsetParent !== null;
  });
  return {
    screen: root?.dataset.screen || '',
    part: root?.dataset.part || '',
    phase: trial?.dataset.phase || '',
    trial: trial?.dataset.trial || '',
    action: action || '',
  };
}"""
CLICK = "selector => { const it = document.querySelector(selector); if (it) it.click(); }"


@dataclass(frozen=True)
class RobotOutcome:
    """A robot's pseudonym, its kind, and the state in which its session ended."""

    participant: str
    kind: Kind
    state: str


class RobotList(Record):
    """Content of the file that lists the robots of a simulated study."""

    curve: Psychometric
    robots: tuple[RobotOutcome, ...]


def copy_study(folder: StudyFolder, out: Path) -> StudyFolder:
    """Copy a study into a new folder with a separate database and no participants."""
    if out.exists():
        raise UsageError(f"{out} already exists: choose another --out.")
    if not out.parent.is_dir():
        raise UsageError(f"No such folder: {out.parent}.")
    with connect_study(folder) as study:
        (out / STIMULI).mkdir(parents=True)
        shutil.copy(folder.path / CONFIG, out / CONFIG)
        # A new secret: whoever has the rehearsal must not be able to sign tokens for the study, or
        # to recognize its participants.
        secret = new_secret()
        write_private(out / SECRET, secret.hex())
        for path in folder.stimuli.iterdir():
            try:
                # A hard link needs no disk space; other file systems need a copy.
                os.link(path, out / STIMULI / path.name)
            except OSError:
                shutil.copy(path, out / STIMULI)
        copy = open_database(database_url(out), create=True)
        with study.database.reading() as old, copy.writing() as new:
            # Participants are not copied, so that no stimulus is taken yet.
            changes: dict[type[Base], dict[str, object]] = {
                InstallationRow: {"secret": fingerprint(secret), "simulated": True},
                StudyRow: {"visits": 0},
                SourceImageRow: {},
                StimulusRow: {"taken": 0},
                StimulusImageRow: {},
            }
            for table, changed in changes.items():
                stored = old.execute(select(table.__table__)).mappings()
                rows = [{**row, **changed} for row in stored]
                if rows:
                    new.execute(insert(table), rows)
        copy.close()
    return open_study(out)


def question_of(database: Database, trial: str) -> RobotQuestion:
    """Return what a robot knows about a trial; the page never receives this."""
    with database.reading() as db:
        row = db.scalars(select(TrialRow).where(TrialRow.public_id == trial)).one()
        stimulus, session = row.stimulus, db.get_one(SessionRow, row.session_id)
        delta_v = max(image.delta_v or 0.0 for image in stimulus.images)
        config = stored_config(db.get_one(StudyRow, session.study_id))
        progress = progress_of(db, session).done("main") / planned(config)["main"]
        return RobotQuestion(stimulus.truth, delta_v, stimulus.role, stimulus.id, progress)


def excluded_by_kind(
    folder: StudyFolder, outcomes: Sequence[RobotOutcome]
) -> dict[Kind, tuple[int, int]]:
    """Return how many robots of each kind are excluded by the study's rules, and how many are."""
    with connect_study(folder) as study, study.database.reading() as db:
        judged = judge_all(db, study.id, study.config)
    counts = {one.record.subject: one.counts for one in judged}
    rates: dict[Kind, tuple[int, int]] = {}
    for outcome in outcomes:
        n_excluded, n_robots = rates.get(outcome.kind, (0, 0))
        is_excluded = not counts[outcome.participant]
        rates[outcome.kind] = (n_excluded + is_excluded, n_robots + 1)
    return rates


def write_robots(out: Path, outcomes: Sequence[RobotOutcome], curve: Psychometric) -> None:
    """Write the list of robots into the folder of the simulated study."""
    content = RobotList(curve=curve, robots=tuple(outcomes))
    write_text(out / ROBOTS, content.model_dump_json(indent=1) + "\n")


def simulate_fast(
    folder: StudyFolder, kinds: Sequence[Kind], curve: Psychometric, seed: int, step: Advance
) -> list[RobotOutcome]:
    """Run robots without a browser, through the functions that the server calls.

    Each robot has a simulated clock, so that no time is spent waiting.
    """
    # Reversed, because `pop` takes the last one.
    waiting = [
        (number, Robot(kind, (seed, number, 8), curve)) for number, kind in enumerate(kinds)
    ][::-1]
    present: list[_RobotSession] = []
    outcomes: dict[int, RobotOutcome] = {}
    with connect_study(folder) as study:
        while waiting or present:
            while waiting and len(present) < AT_ONCE:
                number, robot = waiting.pop()
                try:
                    present.append(_RobotSession(study, robot, number, seed))
                except Rejection:
                    # Those who are present may leave stimuli to others; without them, the study
                    # has all the responses it needs.
                    waiting = [*waiting, (number, robot)] if present else []
                    break
            for session in list(present):
                outcome = session.go_on()
                if outcome is not None:
                    outcomes[session.number] = outcome
                    present.remove(session)
                    step(1, "")
    return [outcomes[number] for number in sorted(outcomes)]


class _RobotSession:
    """A robot's session, which is run one trial at a time."""

    def __init__(self, study: OpenStudy, robot: Robot, number: int, seed: int) -> None:
        self.number, self._study, self._robot = number, study, robot
        self._uuids = np.random.default_rng((seed, number, 10))
        # A separate clock for each robot: a shared one would run fast and end the leases of others.
        self._now = datetime.now(UTC)
        arrival = RECRUITER.arrive({RECRUITER.person: f"robot-{seed}-{number}"})
        reply, _ = join(study, arrival, None, self._now)
        claim = read_token(study.secret, reply.token)
        assert claim is not None
        self._session = claim.session_id
        self._open_page()

    def go_on(self) -> RobotOutcome | None:
        """Respond to one trial and return None, or return the outcome if the session has ended."""
        step = allocate(self._study, self._session, str(self._uuid()), self._now)
        if step.trial is not None:
            return self._respond(step.trial.id)
        state = finish(self._study, self._session, self._now)
        return RobotOutcome(state.participant, self._robot.kind, state.state)

    def _respond(self, trial: str) -> RobotOutcome | None:
        config = self._study.config
        question = question_of(self._study.database, trial)
        if self._robot.leaves(question):
            return self._leave()
        reaction = self._robot.react(question, choices_of(config), config.response_ms)
        self._now += timedelta(milliseconds=self._robot.trial_ms(reaction, config))
        if self._robot.drops(question, reaction):
            self._open_page()
            return None
        response = ResponseBody(
            uuid=self._uuid(),
            choice=reaction.choice,
            rt_ms=reaction.rt_ms,
            stamps=self._robot.stamps(reaction, config),
            flags=[],
        )
        store(self._study, self._session, trial, response, self._now)
        return None

    def _leave(self) -> RobotOutcome:
        """Leave the session to the server, as it is once the robot was silent for long enough."""
        with self._study.database.writing() as db:
            session = db.get_one(SessionRow, self._session)
            drop_all(db, session, EXPIRED, self._now)
            judge_session(db, session)
            return RobotOutcome(session.participant.code, self._robot.kind, session.state)

    def _open_page(self) -> None:
        claim_tab(self._study, self._session, TabClaim(tab=self._uuid(), hz=60.0), self._now)

    def _uuid(self) -> UUID:
        return UUID(bytes=self._uuids.bytes(16))


@contextmanager
def serving(folder: StudyFolder, more_hosts: Sequence[str] = ()) -> Iterator[str]:
    """Serve a study on a free local port inside the `with` block; yield its address."""
    # Robots share one address and click fast, and the limits are meant for humans.
    server, study = make_server(folder, pace=100.0, more_hosts=more_hosts)
    with study, listen("127.0.0.1", 0) as listener:
        sockets = {"sockets": [listener]}
        thread = threading.Thread(target=server.run, kwargs=sockets, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


def find_browser() -> str:
    """Return the path of a browser; raise `UsageError` if it or Playwright is missing."""
    if find_spec("playwright") is None:
        raise UsageError(
            "Robots in a browser need Playwright: pip install playwright, or pass --fast."
        )
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        raise UsageError("Robots in a browser need Chromium: install it, or pass --fast.")
    return path


def simulate_in_browser(
    folder: StudyFolder, kinds: Sequence[Kind], curve: Psychometric, seed: int, step: Advance
) -> list[RobotOutcome]:
    """Run robots one after another, each in a new browser profile."""
    from playwright.sync_api import sync_playwright

    path = find_browser()
    outcomes = []
    with connect_study(folder) as study, serving(folder) as base, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(BROWSER_OPTIONS))
        for number, kind in enumerate(kinds):
            context = browser.new_context(viewport={"width": 1280, "height": 800})
            page = context.new_page()
            page.goto(f"{base}/s/{folder.config.name}")
            screen = take_part(page, Robot(kind, (seed, number, 8), curve), study)
            context.close()
            if screen in FULL_SCREENS:
                break
            with study.database.reading() as db:
                newest = select(SessionRow).order_by(SessionRow.id.desc()).limit(1)
                session = db.scalars(newest).one()
                outcomes.append(RobotOutcome(session.participant.code, kind, session.state))
            step(1, "")
        browser.close()
    return outcomes


def take_part(
    page: "Page",
    robot: Robot,
    study: OpenStudy,
    meddle: Callable[[dict[str, str]], bool] = lambda seen: False,
) -> str:
    """Go through the pages until the session ends; return the last screen's name.

    `meddle` receives the state of each screen and returns whether it acted instead of the robot.
    """
    config, choices = study.config, choices_of(study.config)
    last, since, responded = "", monotonic(), ""
    while True:
        seen = page.evaluate(LOOK)
        if meddle(seen):
            continue
        if seen["screen"] in LAST_SCREENS:
            return str(seen["screen"])
        mark = f"{seen['screen']} {seen['phase']} {seen['trial']}"
        if mark != last:
            last, since = mark, monotonic()
        if monotonic() - since > PATIENCE_S:
            raise UsageError(f"A robot is stuck at the screen '{seen['screen']}'.")
        # One response per trial: the phase can still be visible after the click.
        if seen["phase"] == "response" and seen["trial"] and seen["trial"] != responded:
            responded = seen["trial"]
            question = question_of(study.database, responded)
            reaction = robot.react(question, choices, config.response_ms)
            if robot.drops(question, reaction):
                page.reload()
                continue
            page.wait_for_timeout(max(0.0, reaction.rt_ms - 50))
            page.evaluate(CLICK, f"[data-choice='{reaction.choice}']")
        elif seen["action"]:
            page.evaluate(CLICK, f"[data-action='{seen['action']}']")
            page.wait_for_timeout(30)
        else:
            page.wait_for_timeout(20)
