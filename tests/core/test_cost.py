"""Sessions: time by stage, kept while a run goes on, added up over processes and shards."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from eyechart.core import cost
from eyechart.core.cost import Cost, Session, kept_cost, stated_watts, total_cost


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def worked(folder, clock, watts=None, **stages):
    """A session that spends so many seconds in each stage."""
    meters = [] if watts is None else [stated_watts(watts, clock)]
    with Session(clock) as session:
        session.measure(meters)
        for stage, seconds in stages.items():
            with session.stage(stage):
                clock.now += seconds
                session.keep_in(folder) if stage == "sampling" else None
    return session


def test_a_stage_that_comes_again_adds_up(clock):
    session = Session(clock)
    for seconds in (3, 4):
        with session.stage("predictions"):
            clock.now += seconds
        clock.now += 100  # between two stages
    assert dict(session.cost().seconds) == {"predictions": 7}


def test_a_stage_that_failed_counts(clock):
    session = Session(clock)
    with pytest.raises(KeyboardInterrupt), session.stage("predictions"):
        clock.now += 5
        raise KeyboardInterrupt
    assert dict(session.cost().seconds) == {"predictions": 5}


def test_a_stage_that_is_not_over_counts_so_far(clock):
    session = Session(clock)
    with session.stage("predictions"):
        clock.now += 5
        assert dict(session.cost().seconds) == {"predictions": 5}
    assert dict(session.cost().seconds) == {"predictions": 5}


def test_a_resumed_run_adds_to_what_was_spent_before(tmp_path, clock):
    worked(tmp_path, clock, 100, loading=2, sampling=3, predictions=10)
    worked(tmp_path, clock, 100, loading=1, sampling=0, predictions=20, scoring=5)
    total = kept_cost(tmp_path)
    assert dict(total.seconds) == {"loading": 3, "sampling": 3, "predictions": 30, "scoring": 5}
    assert total.n_sessions == 2
    assert total.energy["stated"].joules == pytest.approx(100 * 41)
    assert total.energy["stated"].seconds == pytest.approx(41)


def test_shards_are_added_like_sessions(tmp_path, clock):
    for name in ("1-of-2", "2-of-2"):
        worked(tmp_path / name, clock, sampling=1, predictions=10)
    total = total_cost(kept_cost(folder) for folder in sorted(tmp_path.iterdir()))
    assert (total.n_sessions, total.seconds["predictions"]) == (2, 20)


def test_a_source_that_only_some_sessions_have_shows_its_time(tmp_path, clock):
    worked(tmp_path, clock, None, sampling=30)
    worked(tmp_path, clock, 100, sampling=10)
    total = kept_cost(tmp_path)
    assert total.energy["stated"].seconds == 10 and total.seconds["sampling"] == 40


def test_processes_at_the_same_time_have_files_of_their_own(tmp_path, clock):
    first, second = Session(clock), Session(clock)
    for session in (first, second):
        session.keep_in(tmp_path)
        with session.stage("predictions"):
            clock.now += 1
        session.write()
    assert len(list((tmp_path / "sessions").iterdir())) == 2
    assert kept_cost(tmp_path).seconds["predictions"] == 2


@pytest.mark.parametrize("content", ["", "{", '{"seconds": 3}', "[]"])
def test_a_session_that_ended_before_its_file_was_written_costs_nothing(tmp_path, content, clock):
    worked(tmp_path, clock, sampling=3)
    (tmp_path / "sessions" / "0002.json").write_text(content)
    total = kept_cost(tmp_path)
    assert (total.n_sessions, dict(total.seconds)) == (2, {"sampling": 3})


def test_a_folder_without_sessions_costs_nothing(tmp_path):
    assert kept_cost(tmp_path) == Cost(n_sessions=0)


def test_a_meter_that_fails_does_not_end_the_run(clock):
    class Broken:
        source = "nvml"

        def joules(self):
            raise RuntimeError("GPU is lost")

    with Session(clock) as session:
        session.measure([Broken(), stated_watts(10, clock)])
        clock.now += 5
        assert list(session.cost().energy) == ["stated"]


KILLED = """
import sys
from pathlib import Path
from time import sleep
from eyechart.core import cost
cost.READ_SECONDS = cost.WRITE_SECONDS = 0.05
with cost.Session() as session, session.stage("predictions"):
    session.keep_in(Path(sys.argv[1]))
    print("started", flush=True)
    sleep(60)
"""


def test_a_process_that_is_killed_leaves_what_it_spent(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, tmp_path], stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert process.stdout.readline() == "started\n"
    file = tmp_path / "sessions" / "0001.json"
    limit = time.monotonic() + 20
    while json.loads(file.read_text())["seconds"]["predictions"] < 0.3:
        assert time.monotonic() < limit
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert 0.3 <= kept_cost(tmp_path).seconds["predictions"] < 20
    assert cost.WRITE_SECONDS <= 10  # so much is lost at most
