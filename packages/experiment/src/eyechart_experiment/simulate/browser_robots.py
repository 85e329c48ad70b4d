"""Robots in a real browser: they read the pages of the experiment and click like participants."""

import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from time import monotonic
from typing import TYPE_CHECKING

from sqlalchemy import select

from eyechart.core.errors import UsageError
from eyechart.core.progress import Advance
from eyechart_experiment.design.psychometric import Psychometric
from eyechart_experiment.server.serve import listen, make_server
from eyechart_experiment.simulate.robots import Kind, Robot
from eyechart_experiment.simulate.simulation import RobotOutcome, question_of
from eyechart_experiment.storage.database import Database
from eyechart_experiment.storage.database_tables import SessionRow
from eyechart_experiment.storage.experiment_folder import OpenStudy, StudyFolder, connect_study
from eyechart_experiment.study_config import choices_of

if TYPE_CHECKING:
    from playwright.sync_api import Page

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
OPTIONS = ("--no-sandbox", "--disable-background-networking", "--no-first-run")
PATIENCE_S = 120.0
"""Seconds that a robot stays on the same screen before it gives up."""

FULL = ("full", "closed")
DONE = ("debrief", "failed", *FULL)


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
        browser = playwright.chromium.launch(executable_path=path, args=list(OPTIONS))
        for number, kind in enumerate(kinds):
            context = browser.new_context(viewport={"width": 1280, "height": 800})
            page = context.new_page()
            page.goto(f"{base}/s/{folder.config.name}")
            screen = take_part(page, Robot(kind, (seed, number, 8), curve), study)
            context.close()
            if screen in FULL:
                break
            outcomes.append(_newest(study.database, kind))
            step(1, "")
        browser.close()
    return outcomes


def _newest(database: Database, kind: Kind) -> RobotOutcome:
    """Return the outcome of the latest robot."""
    with database.reading() as db:
        session = db.scalars(select(SessionRow).order_by(SessionRow.id.desc()).limit(1)).one()
        return RobotOutcome(session.participant.code, kind, session.state)


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
        if seen["screen"] in DONE:
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
