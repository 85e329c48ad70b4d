"""When the machine itself stood still: virtual machines are put aside for others now and then.

On every core a process that goes before everything else wakes up every few ms and notes when it
woke up late. Whatever is measured meanwhile is then known to have been held up from outside. Where
that is not allowed, nothing is noted, and nothing is excused.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

LATE_MS = 8.0
"""Half a frame: what is late by less can hardly hold up an image."""

WATCH = f"""
import json, os, select, sys, time
os.sched_setaffinity(0, {{int(sys.argv[1])}})
os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(50))
print("ready", flush=True)
late, last = [], time.monotonic()
while not select.select([sys.stdin], [], [], 0.004)[0]:
    now = time.monotonic()
    if 1000 * (now - last) - 4 > {LATE_MS}:
        late.append((last, now))
    last = now
print(json.dumps(late))
"""

Stalls = list[tuple[float, float]]


@contextmanager
def stalls() -> Iterator[Stalls]:
    """Give a list that in the end holds from when to when a core stood still, ms of the epoch."""
    found: Stalls = []
    watchers = []
    for core in sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else ():
        one = subprocess.Popen(
            [sys.executable, "-c", WATCH, str(core)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        if one.stdout.readline() == "ready\n":
            watchers.append(one)
        else:
            one.communicate()
    offset = time.time() - time.monotonic()
    try:
        yield found
    finally:
        for one in watchers:
            told, _ = one.communicate("\n", timeout=30)
            found.extend((1000 * (a + offset), 1000 * (b + offset)) for a, b in json.loads(told))
        found.sort()


def touches(found: Stalls, start: float, end: float) -> bool:
    """Whether a core stood still between two moments, in ms of the epoch."""
    return any(a < end and b > start for a, b in found)
