"""`eyechart overlap run --shard`: shards train and test as one process does."""

import shutil

import pyarrow.parquet as pq
import pytest

from commands import assert_rejected, contents
from eyechart.core.storage.shards import shards_of
from interrupting import reject_locks, stopping
from textures import save_textures

CORRUPTIONS = ("--suite", "imagenet-c", "--corruption", "contrast", "--corruption", "fog")
USUAL = ("--arch", "textures:network", "--epochs", 1, "--batch-size", 16, "--stimulus", "native")


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("overlap-shards")
    save_textures(folder / "train", 6, seed=1)
    save_textures(folder / "test", 5, seed=2)
    return folder


def overlap(run, home, out, *more):
    given = ("--images", home / "test", "--train-images", home / "train", "--out", out)
    return run("overlap", "run", *given, *CORRUPTIONS, *USUAL, *more)


def test_shards_write_the_bytes_of_an_unsplit_study(run, home, tmp_path, monkeypatch):
    whole = overlap(run, home, tmp_path / "unsplit", "--seeds", 2)
    assert whole.status == 0, whole.err
    expected = contents(tmp_path / "unsplit")
    for count in (1, 2, 3):
        out = tmp_path / str(count)
        with monkeypatch.context() as patch:
            reject_locks(patch)
            for shard in shards_of(count):
                result = overlap(run, home, out, "--seeds", 2, "--shard", shard)
                assert result.status == 0, result.err
                if shard.number < count:
                    assert f"Shard {shard} is done" in result.out
                    assert not (out / "accuracies.csv").exists()
        # the last shard prints the results, as a study without shards does
        assert result.out.replace(str(out), "OUT") == whole.out.replace(
            str(tmp_path / "unsplit"), "OUT"
        )
        written = contents(out)
        parts = {name for name in written if "-of-" in name}
        assert {name: written[name] for name in written.keys() - parts} == expected
    assert overlap(run, home, out, "--seeds", 2).out == result.out
    assert contents(out) == expected


def test_a_stopped_shard_resumes_and_the_unsplit_command_does_the_rest(
    run, home, tmp_path, monkeypatch
):
    assert overlap(run, home, tmp_path / "unsplit").status == 0
    out = tmp_path / "out"
    with monkeypatch.context() as patch:
        stopping("training", 3, patch)
        assert overlap(run, home, out, "--shard", "1/2").status == 130
    assert overlap(run, home, out, "--shard", "1/2").status == 0
    networks = {path: path.stat().st_mtime_ns for path in out.rglob("*.pt")}
    assert {path.stem for path in networks} == {"standard", "fog"}
    assert overlap(run, home, out).status == 0
    assert {path: path.stat().st_mtime_ns for path in networks} == networks
    assert contents(out) == contents(tmp_path / "unsplit")


@pytest.mark.slow
def test_shards_of_other_studies_and_other_networks_are_not_mixed_in(run, home, tmp_path):
    out = tmp_path / "out"
    assert overlap(run, home, out, "--shard", "1/2").status == 0
    other = overlap(run, home, out, "--shard", "2/2", "--seed", 3)
    assert_rejected(other, f"{out} holds another study (seeds: 0, now 3)")
    # tests of a network with other settings are not taken for those of this study
    assert overlap(run, home, tmp_path / "foreign", "--shard", "1/2", "--lr", 0.01).status == 0
    for path in (tmp_path / "foreign" / "tests" / "0").iterdir():
        shutil.copy(path, out / "tests" / "0" / path.name)
    # neither are those of other test images
    foreign = out / "tests" / "0" / "clean.3-of-4.parquet"
    table = pq.read_table(path)
    header = {**table.schema.metadata, b"eyechart test images": b"others"}
    pq.write_table(table.replace_schema_metadata(header), foreign)
    rejected = overlap(run, home, out, "--shard", "2/2")
    assert_rejected(rejected, f"{foreign} is from a study with other test images: delete it")
    foreign.unlink()
    assert overlap(run, home, out, "--shard", "2/2").status == 0
    assert not (out / "accuracies.csv").exists()
    assert overlap(run, home, out).status == 0
    assert overlap(run, home, tmp_path / "unsplit").status == 0
    assert contents(out) == contents(tmp_path / "unsplit")


def test_a_shard_takes_one_device_and_a_valid_number(run, home, tmp_path):
    out = tmp_path / "out"
    several = overlap(run, home, out, "--shard", "1/2", "--device", "cpu,cpu")
    assert_rejected(several, "A shard runs on one device, got 2")
    assert_rejected(overlap(run, home, out, "--shard", "4/3"), "shard must be NUMBER/COUNT", "4/3")
    assert not out.exists()
