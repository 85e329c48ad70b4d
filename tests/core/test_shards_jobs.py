import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from eyechart.core.storage import shards
from eyechart.core.storage.locks import try_lock
from eyechart.core.storage.shards import shards_of, work_off


def test_every_job_is_worked_off_once_in_order_and_its_folder_made(tmp_path):
    done = []
    work_off(["b", "a"], lambda job: tmp_path / "jobs" / job, done.append)
    assert done == ["b", "a"]
    assert (tmp_path / "jobs").is_dir() and not list((tmp_path / "jobs").iterdir())


def test_a_job_that_another_claimed_is_tried_again_after_the_others(tmp_path, monkeypatch):
    held = try_lock(tmp_path / "a")
    assert held.__enter__()
    monkeypatch.setattr(shards.time, "sleep", lambda seconds: held.__exit__(None, None, None))
    done = []
    work_off(["a", "b"], lambda job: tmp_path / job, done.append)
    assert done == ["b", "a"]


def test_a_job_that_fails_is_free_again(tmp_path):
    def fail(job):
        raise ValueError(job)

    with pytest.raises(ValueError, match="a"):
        work_off(["a"], lambda job: tmp_path / job, fail)
    done = []
    work_off(["a"], lambda job: tmp_path / job, done.append)
    assert done == ["a"]


def test_two_workers_share_the_jobs(tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "POLL_SECONDS", 0.01)

    def share(name):
        def work(job):
            if not (tmp_path / job).exists():
                time.sleep(0.02)
                (tmp_path / job).write_text(name)

        work_off([f"{number:02d}" for number in range(20)], lambda job: tmp_path / job, work)

    # a lock is of the open file, so that threads exclude each other as processes do
    with ThreadPoolExecutor(2) as workers:
        list(workers.map(share, "xy"))
    made_by = [path.read_text() for path in sorted(tmp_path.iterdir())]
    assert len(made_by) == 20 and set(made_by) == {"x", "y"}


def test_shards_do_every_job_once_and_without_locks(tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "try_lock", None)
    done = []
    for shard in shards_of(3):
        work_off("abcdefgh", lambda job: tmp_path / "jobs" / job, done.append, shard)
    assert done == [*"adg", *"beh", *"cf"]
    assert (tmp_path / "jobs").is_dir()
