"""`eyechart testset make --shard`: shards merge to the bytes of an unsplit test set."""

import shutil

import pytest

from commands import assert_rejected, image_file
from eyechart.core.errors import UsageError
from eyechart.core.storage.shards import shards_of
from eyechart.testsets.testset_shards import has_testset_shards, merge_testset
from interrupting import stopping

SAMPLINGS = {
    "parameters": ("--corruption", "brightness", "--corruption", "glass_blur", "--n", 23),
    "pilot": ("--corruption", "gaussian_noise", "--n", 14, "--sampling", "pilot"),
    "uniform": ("--corruption", "gaussian_noise", "--n", 9, "--sampling", "uniform"),
}
USUAL = ("--stimulus", "native", "--seed", 7)


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Seven images of two sizes in two classes."""
    folder = tmp_path_factory.mktemp("shards") / "photos"
    for number in range(7):
        image_file(folder / "ab"[number % 2] / f"{number}.png", number, (40 + number % 2, 44))
    return folder


def make(run, photos, out, sampling, *more):
    return run(
        "testset", "make", "--images", photos, "--out", out, *USUAL, *SAMPLINGS[sampling], *more
    )


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_shards_merge_to_the_bytes_of_an_unsplit_test_set(run, photos, tmp_path, sampling):
    unsplit = tmp_path / "unsplit.parquet"
    assert make(run, photos, unsplit, sampling).status == 0
    for count in (1, 2, 3):
        out = tmp_path / f"{count}.parquet"
        # strengths of uniform sampling need the candidates of all shards
        for _ in range(2 if sampling == "uniform" else 1):
            for shard in shards_of(count):
                result = make(run, photos, out, sampling, "--shard", shard)
                assert result.status == 0, result.err
        assert f"eyechart merge {out}" in result.out and not out.exists()
        assert has_testset_shards(out)
        assert len(merge_testset(out)) > 0
        assert out.read_bytes() == unsplit.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "1.parquet", "2.parquet", "3.parquet", "unsplit.parquet",
    ]  # fmt: skip


def test_candidates_come_first_and_the_command_without_shard_uses_all_of_them(
    run, photos, tmp_path
):
    unsplit, out = tmp_path / "unsplit.parquet", tmp_path / "t.parquet"
    assert make(run, photos, unsplit, "uniform").status == 0
    first = make(run, photos, out, "uniform", "--shard", "1/2")
    assert "Shard 1/2: all candidates are measured" in first.out
    with pytest.raises(UsageError, match="has no finished shards"):
        merge_testset(out)
    assert "run: eyechart merge" in make(run, photos, out, "uniform", "--shard", "2/2").out
    assert make(run, photos, out, "uniform").status == 0
    assert out.read_bytes() == unsplit.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t.parquet", "unsplit.parquet"]


def test_a_stopped_shard_resumes(run, photos, tmp_path, monkeypatch):
    unsplit, out = tmp_path / "unsplit.parquet", tmp_path / "t.parquet"
    assert make(run, photos, unsplit, "parameters").status == 0
    with monkeypatch.context() as patch:
        stopping("shard 1/2", 2, patch)
        stopped = make(run, photos, out, "parameters", "--shard", "1/2")
    assert stopped.status == 130 and "run the same command again to resume" in stopped.err
    kept = set((tmp_path / "t.parquet.parts").glob("*--*.parquet"))
    assert kept
    for shard in shards_of(2):
        assert make(run, photos, out, "parameters", "--shard", shard).status == 0
    assert kept <= set((tmp_path / "t.parquet.parts").glob("*--*.parquet"))
    merge_testset(out)
    assert out.read_bytes() == unsplit.read_bytes()


def test_a_merge_names_missing_double_and_foreign_shards(run, photos, tmp_path):
    out = tmp_path / "t.parquet"
    parts = tmp_path / "t.parquet.parts"
    for shard in ("1/3", "3/3"):
        assert make(run, photos, out, "parameters", "--shard", shard).status == 0
    with pytest.raises(UsageError, match=r"Shard 2/3 of .* run the same command with --shard 2/3"):
        merge_testset(out)
    assert make(run, photos, out, "parameters", "--shard", "2/3").status == 0

    copied = shutil.copy(parts / "2-of-3.json", parts / "2-of-3 (1).json")
    with pytest.raises(UsageError, match=r"2-of-3 \(1\)\.json is not the record of a shard"):
        merge_testset(out)
    copied.unlink()
    double = shutil.copy(parts / "1-of-3.json", parts / "1-of-2.json")
    with pytest.raises(UsageError, match="a split into 2 and of a split into 3"):
        merge_testset(out)
    double.unlink()
    record = parts / "3-of-3.json"
    text = record.read_text()
    record.write_text(text.replace('"n_images": 7', '"n_images": 8'))
    with pytest.raises(UsageError, match=r"3-of-3\.json is from another task"):
        merge_testset(out)
    record.write_text(text)
    # a part file that was deleted is missed too: all samples of one corruption
    for path in parts.glob("vcr-brightness--*.parquet"):
        path.unlink()
    with pytest.raises(UsageError, match=r"Shard \d/3 of .* is missing or not finished"):
        merge_testset(out)
    assert not out.exists()


def test_shards_of_another_test_set_and_nonsense_are_rejected(run, photos, tmp_path):
    out = tmp_path / "t.parquet"
    assert make(run, photos, out, "parameters", "--shard", "1/2").status == 0
    other = make(run, photos, out, "parameters", "--shard", "2/2", "--seed", 8)
    assert_rejected(other, "t.parquet.parts holds an unfinished test set (seed: 7, now 8)")
    for text in ("4/3", "first"):
        assert_rejected(
            make(run, photos, out, "parameters", "--shard", text), "shard must be", text
        )
    out.write_bytes(b"")
    with pytest.raises(UsageError, match="already exists"):
        merge_testset(out)
