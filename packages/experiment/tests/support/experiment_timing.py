"""Records how long an image of a trial is on the screen, without asking the page.

What was shown is told by the screencast: every frame that leaves the browser's compositor. When it
was shown is told by the trace of the display's own thread, which notes each time that it swaps a
frame in; the screencast's times are those at which another thread got round to the frame, which can
be some frames late. The page's scripts have no part in either: neither their clock nor their thread
is used, and what they drew but the browser did not show in time is seen here as late. (A second
reader of the canvas within the page would share the thread whose lateness is in question.) The
compositor hands on a frame only when something has changed, so that few frames are recorded, hardly
any while the image stands.
"""

import base64
import hashlib
import io
import os
import subprocess
import sys
import time
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from sqlalchemy import select, update

from browser import launched
from experiment_studies import Sizes, make_study
from eyechart_experiment.storage.database import open_database
from eyechart_experiment.storage.database_tables import ResponseRow, StimulusImageRow
from eyechart_experiment.storage.experiment_folder import StudyFolder, image_path
from machine_stalls import stalls, touches

SIDE = 224
STIMULUS_MS = 200
FRAME_MS = 1000 / 60
"""Of Chromium without a window."""

NEAR_MS = 60.0
"""A machine that stood still so short a time before or after an image may have held it up."""

COLOR = (230, 20, 150)
"""Of every image; background, fixation and mask are gray."""

# All but the image is short: more trials in the same time, and less quiet before each image.
SHORT = {"fixation_ms": 50, "stimulus_ms": STIMULUS_MS, "mask_ms": 50, "response_ms": 34}

BUSY = """
addEventListener("DOMContentLoaded", () => new MutationObserver(() => {
  const phase = document.querySelector(".stage")?.dataset.phase;
  if (phase === window.lastPhase) return;
  window.lastPhase = phase;
  const until = performance.now() + (phase === "PHASE" ? MILLISECONDS : 0);
  while (performance.now() < until);
}).observe(document, {subtree: true, attributes: true, attributeFilter: ["data-phase"]}));
"""
"""Keeps the page busy after a phase was drawn and before the browser can paint it."""


@dataclass(frozen=True)
class Busy:
    """What keeps the page from painting a phase, for so many ms."""

    phase: str
    ms: int


@dataclass(frozen=True)
class Recorded:
    """How long each image was seen, in ms, while the machine was calm or not, and what the page
    itself said of it.
    """

    seen: np.ndarray
    calm: np.ndarray
    frames: list[int]
    flags: list[list[str]]

    def within_one_frame(self) -> float:
        """Return the share of images that were at most one frame too short or too long.

        Of those during which the machine did not stand still: that is no fault of the page.
        """
        return float(np.mean(np.abs(self.seen[self.calm] - STIMULUS_MS) <= FRAME_MS))


@contextmanager
def undisturbed() -> Iterator[Any]:
    """Give a browser that goes before everything else on the machine, where that is allowed.

    It is the page that is measured, and not what else this machine has to do. This process goes
    first as well: a screencast pauses until its frames are fetched.
    """
    with _going(first=True), launched() as browser:
        yield browser


@contextmanager
def _going(first: bool) -> Iterator[None]:
    """Let this thread and what it starts go first, or as everybody does."""
    if not hasattr(os, "sched_setscheduler"):
        yield
        return
    before = os.sched_getscheduler(0), os.sched_getparam(0)
    policy = os.SCHED_RR if first else os.SCHED_OTHER
    try:
        os.sched_setscheduler(0, policy, os.sched_param(int(first)))
    except PermissionError:
        yield
        return
    try:
        yield
    finally:
        os.sched_setscheduler(0, *before)


def record(
    path: Path, browser: Any, trials: int, throttle: float = 1, busy: Busy | None = None
) -> Recorded:
    """Take part in a new study of so many trials, with a CPU slowed down by `throttle`."""
    folder = _study(path, trials)
    with served(folder) as address, stalls() as late:
        onsets, seen = _take_part(browser, address, throttle, busy, trials)
    calm = [
        not touches(late, onset - NEAR_MS, onset + duration + NEAR_MS)
        for onset, duration in zip(onsets, seen, strict=True)
    ]
    database = open_database(folder.database_url)
    with database.reading() as db:
        rows = db.scalars(select(ResponseRow).order_by(ResponseRow.received_at)).all()
        said = Recorded(
            seen,
            np.array(calm, dtype=bool),
            [int(row.stamps["stimulus_frames"]) for row in rows],
            [row.flags for row in rows],
        )
    database.close()
    return said


def _study(path: Path, trials: int) -> StudyFolder:
    nothing = {"practice": 0, "qualification": 0, "catch": 0}
    sizes = Sizes(main=trials, stimuli=1, **nothing)
    folder = make_study(
        path, sizes=sizes, side=SIDE, trials=trials, block=trials + 1, **(SHORT | nothing)
    )
    pixels = np.full((SIDE, SIDE, 3), COLOR, np.uint8)
    name = hashlib.sha256(pixels.tobytes()).hexdigest()
    Image.fromarray(pixels).save(image_path(folder.path, name))
    database = open_database(folder.database_url)
    with database.writing() as db:
        db.execute(update(StimulusImageRow).values(sha256=name))
    database.close()
    return folder


@contextmanager
def served(folder: StudyFolder) -> Iterator[str]:
    """Give the address of the study on a server of its own."""
    command = [sys.executable, "-m", "eyechart", "experiment", "serve", str(folder.path)]
    with _going(first=False):
        # a server is elsewhere as a rule, and takes nothing from the browser
        server = subprocess.Popen([*command, "--port", "0"], stdout=subprocess.PIPE, text=True)
    with server:
        try:
            assert server.stdout is not None
            yield server.stdout.readline().split()[-1]
        finally:
            server.terminate()


def _take_part(
    browser: Any, address: str, throttle: float, busy: Busy | None, trials: int
) -> tuple[np.ndarray, np.ndarray]:
    context = browser.new_context(viewport={"width": 1024, "height": 768})
    try:
        page = context.new_page()
        if busy is not None:
            script = BUSY.replace("PHASE", busy.phase).replace("MILLISECONDS", str(busy.ms))
            page.add_init_script(script)
        devices = context.new_cdp_session(page)
        frames: list[tuple[float, str]] = []
        devices.on("Page.screencastFrame", lambda frame: _keep(devices, frames, frame))
        page.goto(address)
        page.click("[data-action=agree]")
        page.wait_for_selector("[data-action=start]")
        devices.send("Emulation.setCPUThrottlingRate", {"rate": throttle})
        with _swaps(browser, page) as swaps:
            size = {"maxWidth": 128, "maxHeight": 96}
            devices.send("Page.startScreencast", {"format": "jpeg", "quality": 60, **size})
            page.click("[data-action=start]")
            _wait_for_the_end(page, trials)
            devices.send("Page.stopScreencast")
    finally:
        context.close()
    return _durations([(_swap_of(moment, swaps), data) for moment, data in frames])


def _wait_for_the_end(page: Any, trials: int) -> None:
    for _ in range(30 + 2 * trials):
        # seldom, since looking at the page disturbs it
        page.wait_for_timeout(1000)
        if page.get_attribute("#app", "data-screen") == "debrief":
            return
    raise AssertionError(page.content())


@contextmanager
def _swaps(browser: Any, page: Any) -> Iterator[list[float]]:
    """Give a list that in the end holds when the display swapped a frame in, in ms of the epoch."""
    tracer = browser.new_browser_cdp_session()
    found: list[float] = []
    ends: list[object] = []
    # a trace has the monotonic clock in microseconds, a screencast the epoch's in seconds
    offset = 1000 * (time.time() - time.monotonic())

    def collect(part: dict[str, Any]) -> None:
        found.extend(
            offset + (event["ts"] + event["dur"]) / 1000
            for event in part["value"]
            if event["name"] == "Display::DrawAndSwap" and event["ph"] == "X"
        )

    tracer.on("Tracing.dataCollected", collect)
    tracer.on("Tracing.tracingComplete", lambda end: ends.append(end))
    wanted = {"includedCategories": ["viz"], "excludedCategories": ["*"]}
    tracer.send("Tracing.start", {"transferMode": "ReportEvents", "traceConfig": wanted})
    yield found
    tracer.send("Tracing.end")
    while not ends:
        page.wait_for_timeout(100)
    tracer.detach()
    found.sort()


def _keep(devices: Any, frames: list[tuple[float, str]], frame: dict[str, Any]) -> None:
    frames.append((1000 * frame["metadata"]["timestamp"], frame["data"]))
    devices.send("Page.screencastFrameAck", {"sessionId": frame["sessionId"]})


def _swap_of(moment: float, swaps: list[float]) -> float:
    """Return when the frame that was recorded at a moment had come to the screen: the last swap."""
    place = bisect_right(swaps, moment)
    assert place, "a frame was recorded before any was shown"
    return swaps[place - 1]


def _durations(frames: list[tuple[float, str]]) -> tuple[np.ndarray, np.ndarray]:
    """Return since when each image was seen and how long: to the first frame without it."""
    onsets, durations, onset = [], [], None
    for moment, data in frames:
        if _shows_image(data):
            onset = moment if onset is None else onset
        elif onset is not None:
            onsets.append(onset)
            durations.append(moment - onset)
            onset = None
    return np.array(onsets), np.array(durations)


def _shows_image(data: str) -> bool:
    image = Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB")
    red, green, _ = image.getpixel((image.width // 2, image.height // 2))
    return bool(red - green > (COLOR[0] - COLOR[1]) / 2)
