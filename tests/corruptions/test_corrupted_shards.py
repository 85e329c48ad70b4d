"""`eyechart corrupt --shard`: shards write the same folder as one process."""

import os
import subprocess
import sys
import time

import pytest

from commands import assert_rejected, image_file
from eyechart.core.errors import UsageError
from eyechart.core.storage.shards import shards_of
from eyechart.corruptions.suites.array_layout import has_corrupted_shards, merge_corrupted

FOG = ("--corruption", "fog", "--severity", 3)
LAYOUTS = {
    "files": FOG,
    "imagenet-c": ("--layout", "imagenet-c", "-c", "fog", "-c", "contrast", "--stimulus", 24),
    "cifar-c": ("--layout", "cifar-c", "-c", "fog", "-c", "shot_noise", "-c", "contrast"),
}
WRITTEN = {"files": 5, "imagenet-c": 50, "cifar-c": 3}
"""Numbers of images or arrays: five images, two corruptions at five severities, three arrays."""


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corrupt") / "photos"
    for number in range(5):
        image_file(folder / "ab"[number % 2] / f"{number}.png", number, (32, 32))
    return folder


def corrupt(run, photos, out, layout, *more):
    return run("corrupt", photos, *LAYOUTS[layout], "--out", out, *more)


def contents(folder):
    """The bytes of every file, hidden or not."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() if path.is_file() else b""
        for path in folder.rglob("*")
    }


@pytest.mark.parametrize("layout", LAYOUTS)
def test_shards_write_the_bytes_of_an_unsplit_run(run, photos, tmp_path, layout):
    assert corrupt(run, photos, tmp_path / "unsplit", layout).status == 0
    expected = contents(tmp_path / "unsplit")
    for count in (1, 2, 3):
        out = tmp_path / str(count)
        # the last first, because shards may run in any order
        for shard in reversed(shards_of(count)):
            result = corrupt(run, photos, out, layout, "--shard", shard)
            assert result.status == 0, result.err
            assert f"run: eyechart merge {out}" in result.out
        assert has_corrupted_shards(out)
        assert merge_corrupted(out) == WRITTEN[layout]
        assert contents(out) == expected


@pytest.mark.parametrize("layout", LAYOUTS)
def test_shards_touch_different_files_and_the_rest_is_done_without_shards(
    run, photos, tmp_path, layout
):
    assert corrupt(run, photos, tmp_path / "unsplit", layout).status == 0
    out = tmp_path / "out"
    assert corrupt(run, photos, out, layout, "--shard", "2/3").status == 0
    second = {path: path.stat().st_mtime_ns for path in out.rglob("*") if has_results(path)}
    assert second
    assert corrupt(run, photos, out, layout, "--shard", "1/3").status == 0
    assert {path: path.stat().st_mtime_ns for path in second} == second
    with pytest.raises(UsageError, match=r"Shard 3/3 of .* run the same command with --shard 3/3"):
        merge_corrupted(out)
    assert corrupt(run, photos, out, layout).status == 0
    assert contents(out) == contents(tmp_path / "unsplit")


def has_results(path):
    """Whether a file is a corrupted image, or the array of a corruption at one severity."""
    return path.suffix in (".png", ".jpg", ".JPEG") or path.parent.name == ".parts"


def test_a_deleted_array_is_named_by_its_shard(run, photos, tmp_path):
    for shard in shards_of(2):
        assert corrupt(run, photos, tmp_path, "cifar-c", "--shard", shard).status == 0
    # the arrays of fog at severities 1 to 5 come first, so that severity 2 belongs to shard 2
    (tmp_path / ".parts" / "fog.2.npy").unlink()
    with pytest.raises(UsageError, match="Shard 2/2"):
        merge_corrupted(tmp_path)
    assert corrupt(run, photos, tmp_path, "cifar-c", "--shard", "2/2").status == 0
    assert merge_corrupted(tmp_path) == 3


@pytest.mark.slow
def test_a_killed_shard_resumes(run, photos, tmp_path):
    assert corrupt(run, photos, tmp_path / "unsplit", "imagenet-c").status == 0
    out = tmp_path / "out"
    words = ["corrupt", photos, *LAYOUTS["imagenet-c"], "--out", out, "--shard", "1/2"]
    with subprocess.Popen(
        [sys.executable, "-m", "eyechart", *map(str, words)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ},
    ) as process:
        while process.poll() is None and not list(out.rglob("*.JPEG")):
            time.sleep(0.01)
        process.kill()
    kept = list(out.rglob("[!.]*.JPEG"))
    assert kept
    for shard in shards_of(2):
        assert corrupt(run, photos, out, "imagenet-c", "--shard", shard).status == 0
    merge_corrupted(out)
    assert contents(out) == contents(tmp_path / "unsplit")


def test_overwriting_is_complete_only_after_all_shards(run, photos, tmp_path):
    other = ("--corruption", "fog", "--severity", 2)
    assert run("corrupt", photos, *other, "--out", tmp_path).status == 0
    first = corrupt(run, photos, tmp_path, "files", "--shard", "1/2", "--overwrite")
    assert first.status == 0, first.err
    # resumed without the option, as an interrupted run is
    second = corrupt(run, photos, tmp_path, "files", "--shard", "2/2")
    assert second.status == 0, second.err
    assert "replacing" not in (tmp_path / "eyechart.json").read_text()
    assert merge_corrupted(tmp_path) == 5


def test_more_shards_than_images_and_unreadable_images(run, tmp_path):
    photos = tmp_path / "photos"
    image_file(photos / "a.png")
    (photos / "b.png").write_bytes(b"no image")
    out = tmp_path / "out"
    outcomes = [corrupt(run, photos, out, "files", "--shard", shard) for shard in shards_of(3)]
    assert [result.status for result in outcomes] == [0, 2, 0]
    assert "1 image of 1 skipped" in outcomes[1].err
    assert merge_corrupted(out) == 1


def test_a_merge_rejects_shards_of_other_images(run, photos, tmp_path):
    assert corrupt(run, photos, tmp_path / "out", "files", "--shard", "1/2").status == 0
    fewer = corrupt(run, photos / "a", tmp_path / "out", "files", "--shard", "2/2")
    assert fewer.status == 0
    with pytest.raises(UsageError, match=r"2-of-2\.json is from another task .*images: 5, now 3"):
        merge_corrupted(tmp_path / "out")
    with pytest.raises(UsageError, match="has no finished shards: run the command with --shard"):
        merge_corrupted(tmp_path / "empty")


@pytest.mark.parametrize("text", ["4/3", "0/3", "3", "one of three"])
def test_nonsense_is_rejected(run, photos, tmp_path, text):
    result = corrupt(run, photos, tmp_path / "out", "files", "--shard", text)
    assert_rejected(result, "shard must be NUMBER/COUNT", text)
    assert not (tmp_path / "out").exists()
