"""Many participants at once, without browsers: ask, look, respond and try again as the page does.

Runs as a process of its own, `python experiment_load.py LOAD.json RESULT.json`, so that its work is
not counted as the server's.
"""

import asyncio
import hashlib
import json
import random
import sys
import time
from collections import deque
from pathlib import Path
from typing import Any
from uuid import uuid4

from experiment_load_figures import Load, Result
from experiment_load_lines import LOST, Lines, Reply
from experiment_studies import stamps_of

AHEAD = 2
"""Trials that are fetched beside the one that is looked at."""

FIRST_S, LONGEST_S, PATIENCE_S, MOMENT_S = 0.5, 15.0, 20.0, 1.0
"""The page's own pauses: after a failure, at most, for a reply, and before asking again."""

FLUSH_S = 40.0
"""How long after the end responses may still be on their way."""

TRIALS = "/api/trials"


class Crowd:
    """All participants: so many at once, and whoever is done is followed by another one."""

    def __init__(self, load: Load) -> None:
        self.load, self.result = load, Result()
        self.key = json.loads(Path(load.key).read_text(encoding="utf-8"))
        self.began = time.monotonic()
        self.until = self.began + load.seconds
        self.came = 0
        self.busy = 0
        self.last_work = time.monotonic()

    @property
    def is_over(self) -> bool:
        stop = self.load.stop
        return time.monotonic() >= self.until or (bool(stop) and Path(stop).exists())

    async def run(self) -> Result:
        async with asyncio.TaskGroup() as group:
            for place in range(self.load.participants):
                group.create_task(self._place(place / self.load.participants))
        return self.result

    async def _place(self, share: float) -> None:
        """One after another, until the time is over or the study needs nobody any more."""
        await asyncio.sleep(share * self.load.arrive_s)
        while not self.is_over:
            self.came += 1
            person = Person(self, self.came)
            self.busy += 1
            try:
                end = await person.take_part()
            finally:
                person.lines.close()
                self.busy -= 1
            self.result.ends[end] += 1
            if end != "full":
                self.last_work = time.monotonic()
                continue
            # whoever is still at it may be excluded or may have left, and then there is room again
            if not self.busy and time.monotonic() > self.last_work + self.load.patience_s:
                self.until = 0.0
            await asyncio.sleep(MOMENT_S / 2)


class Person:
    """One participant."""

    def __init__(self, crowd: Crowd, number: int) -> None:
        self.crowd = crowd
        self.lines = Lines(crowd.load.base, PATIENCE_S)
        self.guesses = _is_one_in(crowd.load.guessers, number)
        self.leaves = _is_one_in(crowd.load.leavers, number + 1)
        self.headers: dict[str, str] = {}
        self.ready: deque[tuple[Any, str]] = deque()
        self.fetching: asyncio.Task[str] | None = None
        self.sending: asyncio.Task[None] | None = None
        self.trial_key = str(uuid4())
        self.seen: list[int] = []

    async def take_part(self) -> str:
        """Return how it ended: full, failed, finished, left, or stopped when the time was over."""
        study = self.crowd.load.study
        body = {"platform": "link", "ids": {"client": str(uuid4())}, "consent": True, "screen": {}}
        joined = await self._ask("POST", f"/api/studies/{study}/sessions", body)
        if joined.status == 409:
            return str(joined.json()["code"])
        tab = str(uuid4())
        self.headers = {"Authorization": f"Bearer {joined.json()['token']}", "X-Tab": tab}
        await self._ask("POST", "/api/session/tab", {"tab": tab, "hz": 60})
        self.crowd.result.seen.append(self.seen)
        while True:
            try:
                end = await self._work()
            finally:
                await self._settle()
            if end != "finish":
                return end
            reply = await self._ask("POST", "/api/session/finish")
            if reply.status == 200:
                return str(reply.json()["state"])
            # meanwhile somebody was excluded or has left, and there is something to do again
            self.crowd.result.ends[f"finish {reply.json()['code']}"] += 1

    async def _work(self) -> str:
        while not self.crowd.is_over:
            found = await self._next()
            if isinstance(found, str):
                return found
            if self.leaves and found[0]["phase"] == "main" and found[0]["number"] % 7 == 6:
                return "left"
            self._poke()
            think = self.crowd.load.think_s
            await asyncio.sleep(think * random.uniform(0.9, 1.1))
            self._response(*found)
        return "stopped"

    async def _settle(self) -> None:
        """Let what is under way come to its end: every response is to be acknowledged."""
        if self.fetching is not None:
            await asyncio.wait([self.fetching])
        await self._flush()

    async def _next(self) -> tuple[Any, str] | str:
        """Return the next trial and the response to it, or how the session ends."""
        asked = 0
        while True:
            if self.ready:
                return self.ready.popleft()
            said = await self._fetch()
            if said == "trial":
                continue
            if said != "wait":
                return said
            await self._flush()
            if asked:
                await asyncio.sleep(MOMENT_S)
            asked += 1

    def _poke(self) -> None:
        """Fetch ahead in the background."""

        def more(task: asyncio.Task[str]) -> None:
            if not task.cancelled() and task.exception() is None and task.result() == "trial":
                self._poke()

        if len(self.ready) < AHEAD and not self.crowd.is_over:
            self._fetch().add_done_callback(more)

    def _fetch(self) -> asyncio.Task[str]:
        if self.fetching is None or self.fetching.done():
            self.fetching = asyncio.create_task(self._fetch_one())
        return self.fetching

    async def _fetch_one(self) -> str:
        reply = await self._ask("POST", TRIALS, {"key": self.trial_key})
        said = reply.json()
        if reply.status != 200:
            return f"trial {reply.status} {said['code']}"
        trial = said["trial"]
        if trial is None:
            return str(said["next"])
        self.trial_key = str(uuid4())
        choice = ""
        for name in trial["images"]:
            image = await self._ask("GET", f"/api/images/{name}")
            if image.status == 404:
                # its lease was over before its image came
                return "trial"
            digest = hashlib.sha256(image.content).hexdigest()
            choice, image = self.crowd.key[digest]
            self.seen.append(image)
        if self.guesses and trial["phase"] == "main":
            choice = random.choice(self.crowd.load.others)
        self.ready.append((trial, choice))
        return "trial"

    def _response(self, trial: Any, choice: str) -> None:
        body = {"uuid": str(uuid4()), "choice": choice, "rt_ms": 200.0, "flags": [],
                "stamps": stamps_of(200.0)}  # fmt: skip
        self.sending = asyncio.create_task(self._send(trial["id"], body, self.sending))

    async def _send(self, trial: str, body: Any, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await before
        result = self.crowd.result
        result.sent[trial] = [body["uuid"], body["choice"]]
        reply = await self._ask("PUT", f"{TRIALS}/{trial}/response", body)
        if reply.status == 200:
            result.acknowledged[trial] = [body["uuid"], body["choice"]]
            result.moments[trial] = time.time()

    async def _flush(self) -> None:
        if self.sending is not None:
            await self.sending

    async def _ask(self, method: str, path: str, body: Any = None) -> Reply:
        """Return the reply, however often it takes; each time with the same body."""
        result, failed = self.crowd.result, 0
        while True:
            began = time.monotonic()
            try:
                reply = await self.lines.request(method, path, body, self.headers)
            except LOST:
                result.statuses["lost"] += 1
            else:
                if path == TRIALS:
                    spent = time.monotonic() - began
                    result.latencies.append((time.time(), 1000 * spent))
                result.statuses[str(reply.status)] += 1
                if reply.status < 500 and reply.status != 429:
                    return reply
            if time.monotonic() > self.crowd.began + self.crowd.load.seconds + FLUSH_S:
                raise TimeoutError(f"{method} {path} had no response in time")
            failed += 1
            pause = min(LONGEST_S, FIRST_S * 2 ** (failed - 1))
            await asyncio.sleep(pause * random.uniform(0.75, 1.25))


def _is_one_in(many: int, number: int) -> bool:
    return many > 0 and number % many == 0


if __name__ == "__main__":
    given, target = map(Path, sys.argv[1:])
    found = asyncio.run(Crowd(Load(**json.loads(given.read_text(encoding="utf-8")))).run())
    target.write_text(json.dumps(vars(found)), encoding="utf-8")
