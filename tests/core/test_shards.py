"""Shards: their text form, Slurm array jobs, and that every item belongs to one shard."""

import hashlib

import pytest

from eyechart.core.errors import UsageError
from eyechart.core.storage.shards import Shard, jobs_of, read_shard, shards_of

DIGESTS = [hashlib.sha256(bytes([number])).hexdigest() for number in range(200)]


@pytest.mark.parametrize("count", [1, 2, 7, 300])
def test_every_item_belongs_to_exactly_one_shard(count: int) -> None:
    shards = shards_of(count)
    for digest in DIGESTS:
        assert sum(shard.has(digest) for shard in shards) == 1
    assert sorted(job for shard in shards for job in jobs_of(DIGESTS, shard)) == sorted(DIGESTS)


def test_shards_are_nearly_equal() -> None:
    sizes = [sum(map(shard.has, DIGESTS)) for shard in shards_of(4)]
    # A binomial count of 200 items with p = 1/4 has a standard deviation of 6.
    assert all(26 <= size <= 74 for size in sizes)


@pytest.mark.parametrize(
    "text", ["", "3", "0/2", "3/2", "1/0", "a/b", "1/2/3", "-1/2", " 1/2", "1.0/2"]
)
def test_other_texts_are_rejected(text: str) -> None:
    with pytest.raises(UsageError, match=r"shard must be NUMBER/COUNT, .* such as 2/7"):
        read_shard(text, {})


@pytest.mark.parametrize("first", [0, 1, 5])
def test_array_jobs_of_slurm_name_every_shard_once(first: int) -> None:
    named = []
    for task in range(first, first + 7):
        variables = {
            "SLURM_ARRAY_TASK_ID": str(task),
            "SLURM_ARRAY_TASK_MIN": str(first),
            "SLURM_ARRAY_TASK_COUNT": "7",
        }
        named.append(read_shard(f"{task}/7", variables))
    assert named == shards_of(7)


def test_an_array_with_gaps_is_rejected() -> None:
    variables = {
        "SLURM_ARRAY_TASK_ID": "9",
        "SLURM_ARRAY_TASK_MIN": "0",
        "SLURM_ARRAY_TASK_COUNT": "4",
    }
    with pytest.raises(UsageError, match="without gaps"):
        read_shard("9/4", variables)


def test_text_and_folder() -> None:
    assert str(Shard(2, 7)) == "2/7"
    assert Shard(2, 7).folder == "2-of-7"
