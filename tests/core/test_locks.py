import errno

import pytest

from eyechart.core.errors import UsageError
from eyechart.core.storage import locks
from eyechart.core.storage.locks import lock_file, lock_folder, try_lock


def test_an_empty_folder_goes_only_if_it_was_made_for_the_work(tmp_path):
    (tmp_path / "mine").mkdir()
    for name in ("mine", "new"):
        with lock_folder(tmp_path / name):
            assert (tmp_path / name).is_dir()
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_second_writer_of_a_folder_or_file_is_rejected(tmp_path):
    with lock_folder(tmp_path / "out"):
        with pytest.raises(UsageError, match="Another run is writing into"):
            lock_folder(tmp_path / "out").__enter__()
        (tmp_path / "out" / "result").write_text("kept")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["result"]
    path = tmp_path / "a.csv"
    with lock_file(path), pytest.raises(UsageError, match="Another run is writing"):
        lock_file(path).__enter__()
    with lock_file(path):
        assert not path.exists()


def test_a_file_system_without_locks_is_written_to_all_the_same(tmp_path, monkeypatch):
    def unsupported(file, operation):
        raise OSError(errno.ENOTSUP, "Operation not supported")

    monkeypatch.setattr(locks.fcntl, "flock", unsupported)
    with try_lock(tmp_path / "a") as is_free:
        assert is_free
    assert not list(tmp_path.iterdir())


def test_a_lock_is_free_again_after_an_error(tmp_path):
    with pytest.raises(ValueError, match="stopped"), try_lock(tmp_path / "a") as is_free:
        assert is_free
        raise ValueError("stopped")
    with try_lock(tmp_path / "a") as is_free:
        assert is_free
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UsageError, match="Cannot write into"):
        lock_folder(tmp_path / "file" / "below").__enter__()
