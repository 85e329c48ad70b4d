"""Records of shards: complete splits are read, and everything else is named."""

import pytest

from eyechart.core.errors import UsageError
from eyechart.core.storage.shards import (
    SHARDS,
    Shard,
    read_shard_records,
    remove_shard_records,
    shards_of,
    write_shard_record,
)

TASK = {"suite": "vcr", "images": "abc"}


@pytest.fixture
def folder(tmp_path):
    """The records of three shards."""
    for shard in shards_of(3):
        write_shard_record(tmp_path / SHARDS, shard, TASK, {"samples": shard.number})
    return tmp_path / SHARDS


def test_complete_records_are_read_and_removed(folder):
    task, counts = read_shard_records(folder)
    assert task == TASK
    assert counts == {shard: {"samples": shard.number} for shard in shards_of(3)}
    remove_shard_records(folder)
    assert not folder.exists()


def test_other_files_are_kept(folder):
    (folder / "notes.txt").write_text("mine")
    remove_shard_records(folder)
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]


def test_a_missing_shard_is_named_with_the_command(folder):
    (folder / "2-of-3.json").unlink()
    with pytest.raises(
        UsageError, match=r"^Shard 2/3 of .*: run the same command with --shard 2/3"
    ):
        read_shard_records(folder)


@pytest.mark.parametrize("name", ["2-of-3 copy.json", "4-of-3.json", "0-of-3.json", "2-of-3"])
def test_a_copy_is_named(folder, name):
    (folder / name).write_text("{}")
    with pytest.raises(UsageError, match=f"{name} is not the record of a shard"):
        read_shard_records(folder)


def test_two_splits_are_named(folder):
    write_shard_record(folder, Shard(1, 2), TASK, {})
    with pytest.raises(UsageError, match=r"into 2 and of a split into 3, such as 1-of-2\.json"):
        read_shard_records(folder)


def test_a_record_of_another_task_is_named(folder):
    write_shard_record(folder, Shard(3, 3), {**TASK, "suite": "imagenet-c"}, {})
    with pytest.raises(
        UsageError, match=r"3-of-3\.json is from another task .*vcr, now imagenet-c"
    ):
        read_shard_records(folder)


def test_a_damaged_record_and_a_folder_without_records_are_rejected(folder):
    (folder / "1-of-3.json").write_text("{")
    with pytest.raises(UsageError, match=r"1-of-3\.json cannot be read: delete it"):
        read_shard_records(folder)
    with pytest.raises(UsageError, match="has no finished shards"):
        read_shard_records(folder.parent / "new")
