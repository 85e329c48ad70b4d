"""`eyechart structure … --shard`: shards train and test as one process does."""

import numpy as np
import pytest
from PIL import Image

from commands import assert_rejected, contents
from eyechart.core.storage.shards import shards_of
from interrupting import reject_locks, stopping
from kinds_data import colors, tinted, write_rows
from trainable import SIDE

HOLDOUT = ("--arch", "textures:network", "--batch-size", 8, "--flip", 0, "--crop", 0, "--epochs", 1)
SEEN = ("n01514668", "n01518878", "n01440764", "n01443537")
"""Cock, ostrich, tench and goldfish."""
UNSEEN = ("n90000001", "n90000003")
SUPERCLASSES = ("n01503061 bird", "n02512053 fish")
MODELS = ("tinted_contrasts:untrained_thousand", "tinted_contrasts:untrained")


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Colors in three styles, and images of seen and unseen subclasses of birds and fish."""
    folder = tmp_path_factory.mktemp("structure-shards")
    write_rows(folder / "colors", colors(3), tinted)
    numbers = np.random.default_rng(0)
    for synset in (*SEEN, *UNSEEN):
        (folder / "kinds" / synset).mkdir(parents=True)
        for number in range(5):
            levels = numbers.integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)
            Image.fromarray(levels).save(folder / "kinds" / synset / f"{number}.png")
    bird, fish = (line.split()[0] for line in SUPERCLASSES)
    pairs = [(bird, name) for name in (*SEEN[:2], UNSEEN[0])]
    pairs += [(fish, name) for name in (*SEEN[2:], UNSEEN[1])]
    (folder / "is_a.txt").write_text("".join(f"{above} {below}\n" for above, below in pairs))
    (folder / "superclasses.txt").write_text("\n".join(SUPERCLASSES))
    return folder


def style(run, home, out, *more):
    images = home / "colors" / "list.csv"
    return run("structure", "style", "--images", images, "--out", out, *HOLDOUT, *more)


def superclass(run, home, out, *more):
    given = ("--images", home / "kinds", "--hypernyms", home / "is_a.txt", "--stimulus", "native")
    named = ("--superclasses", home / "superclasses.txt", "--batch-size", 8)
    return run("structure", "superclass", *MODELS, *given, *named, "--out", out, *more)


@pytest.mark.parametrize("study", [style, pytest.param(superclass, marks=pytest.mark.slow)])
def test_shards_write_the_bytes_of_an_unsplit_study(run, home, tmp_path, monkeypatch, study):
    whole = study(run, home, tmp_path / "unsplit")
    assert whole.status == 0, whole.err
    expected = contents(tmp_path / "unsplit")
    for count in (1, 2, 3):
        out = tmp_path / str(count)
        with monkeypatch.context() as patch:
            reject_locks(patch)
            results = [study(run, home, out, "--shard", shard) for shard in shards_of(count)]
        assert [result.status for result in results] == [0] * count, results[0].err
        # the shard that finds everything done prints the results, and so does the command itself
        assert "Shard 1/" not in results[0].out if count == 1 else "is done" in results[0].out
        assert results[-1].out.replace(str(out), "OUT") == whole.out.replace(
            str(tmp_path / "unsplit"), "OUT"
        )
        assert contents(out) == expected
    networks = {path: path.stat().st_mtime_ns for path in out.rglob("*.pt")}
    assert study(run, home, out).out == results[-1].out
    assert networks and {path: path.stat().st_mtime_ns for path in networks} == networks


def test_a_stopped_shard_resumes(run, home, tmp_path, monkeypatch):
    assert style(run, home, tmp_path / "unsplit").status == 0
    out = tmp_path / "out"
    with monkeypatch.context() as patch:
        stopping("training", 2, patch)
        assert style(run, home, out, "--shard", "2/2").status == 130
    for shard in ("2/2", "1/2"):
        assert style(run, home, out, "--shard", shard).status == 0
    assert contents(out) == contents(tmp_path / "unsplit")


@pytest.mark.parametrize("study", [style, superclass])
def test_nonsense_and_other_studies_are_rejected(run, home, tmp_path, study):
    out = tmp_path / "out"
    for text in ("4/3", "half"):
        assert_rejected(study(run, home, out, "--shard", text), "shard must be", text)
    assert not out.exists()
    assert study(run, home, out, "--shard", "1/2").status == 0
    other = study(run, home, out, "--shard", "2/2", "--lr", 0.3)
    assert_rejected(other, f"{out} holds another study (lr:", "choose another --out, or delete it")
