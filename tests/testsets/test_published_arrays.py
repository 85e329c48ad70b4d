"""CIFAR-10-C from its own .npy files: the right rows, clean pictures beside them, bad input."""

import json
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

import eyechart as ec
from commands import assert_rejected
from eyechart.testsets.plan import Plan
from eyechart.testsets.published_files import find_published, load_published
from published_files import TWO, arrays, recorded

MODEL = "small_models:pale_colors"
SMALL = ("--bins", 9, "--min-per-bin", 3, "--n-bootstrap", 20, "--humans", "none")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return arrays(tmp_path_factory.mktemp("arrays") / "CIFAR-10-C")


@pytest.fixture
def root(made, tmp_path):
    """A copy that can be broken."""
    shutil.copy(made.parent / "clean.npy", tmp_path / "clean.npy")
    return shutil.copytree(made, tmp_path / "CIFAR-10-C")


@pytest.fixture
def evaluate(run, tmp_path):
    def call(images, *arguments, out=tmp_path / "out"):
        return run("evaluate", MODEL, "--images", images, "--out", out, *SMALL, *arguments)

    return call


def test_rows_come_in_the_order_of_severities(made):
    published = find_published(made)
    images = load_published(published, published.plan(Plan()), None)
    assert [image.name for image in images.listed] == [str(place) for place in range(8)]
    assert images.labels == tuple("00112233")
    whole = np.load(made / "fog.npy")
    found = torch.stack(images.files.read("fog", [1, 5, 3], [0, 7, 2]))
    assert (found.permute(0, 2, 3, 1).numpy() == whole[[0, 39, 18]]).all()
    taken = images.select([7, 2]).files.read("fog", [5, 3], [0, 1])
    assert torch.equal(torch.stack(taken), found[1:])
    assert isinstance(images.files.arrays["fog"], np.memmap)


def test_visual_change_and_errors_are_those_of_a_plain_count(evaluate, made, tmp_path):
    ran = evaluate(made, "--clean", made.parent / "clean.npy", "--check")
    assert ran.status == 0, ran.err
    found = json.loads((tmp_path / "out" / "results.json").read_text("utf-8"))
    space = found["models"][0]["spaces"]["native"]
    assert found["config"]["suite"] == "imagenet-c"
    levels, clean = np.load(made / "fog.npy"), np.load(made.parent / "clean.npy")
    rows = pq.read_table(tmp_path / "out" / "predictions" / "fog.parquet").to_pylist()
    assert len(rows) == 40
    # 32 px have fewer scales than 224, as for pictures that are corrupted here
    change = ec.delta_v(np.tile(clean, (5, 1, 1, 1)), levels)
    for row in rows:
        place = (int(row["severity"]) - 1) * 8 + int(row["image"])
        assert row["delta_v"] == pytest.approx(change[place], abs=1e-9)
        assert 0 < row["scales"] < 4
    wrong = np.mean(
        [row["prediction"] != int(row["label"]) for row in rows if row["severity"] == 5]
    )
    assert space["corruptions"]["fog"]["error_by_severity"]["5"] == pytest.approx(wrong)
    assert found["coverage"]["fog"]["largest"] == pytest.approx(change.max())


def test_files_give_what_a_run_on_the_fly_gives(made, tmp_path):
    """The same pictures as PNG class folders, corrupted here with the keys of the arrays."""
    from PIL import Image

    clean = np.load(made.parent / "clean.npy")
    for place, pixels in enumerate(clean):
        folder = tmp_path / "pngs" / str(place // 2)
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(folder / f"{place}.png")
    images = ec.load_images(tmp_path / "pngs", "native")
    again = tmp_path / "again"
    again.mkdir()
    shutil.copy(made / "labels.npy", again)
    parts = [
        ec.corrupt(clean, "gaussian_noise", severity=s, keys=list(images.digests))
        for s in range(1, 6)
    ]
    np.save(again / "gaussian_noise.npy", np.concatenate(parts))
    given = {"n_bootstrap": 5, "bins": 5, "min_per_bin": 2, "humans": None}
    ec.evaluate(MODEL, again, clean=made.parent / "clean.npy", out=tmp_path / "a", **given)
    ec.evaluate(
        MODEL, images, "imagenet-c", corruptions=["gaussian_noise"], out=tmp_path / "b", **given
    )
    for name in ("clean", "gaussian_noise"):
        own, other = (
            sorted((severity or 0, *row) for (_, severity, _), row in recorded(where, name).items())
            for where in (tmp_path / "a", tmp_path / "b")
        )
        assert own == other and len(own) >= 8


def test_without_clean_images_there_are_errors_only(evaluate, made):
    ran = evaluate(made)
    assert ran.status == 0 and "R_a" not in ran.out and "--clean" in ran.out


def test_an_interrupt_in_the_middle_goes_on(made, tmp_path, monkeypatch):
    import small_models

    asked = []

    def stopped(images):
        if len(asked) == 11:  # the self-test, images without content, and a batch
            raise KeyboardInterrupt
        asked.append(1)
        return small_models.colors(images)

    monkeypatch.setattr(small_models, "stopped", stopped, raising=False)
    given = {"n_bootstrap": 5, "humans": None, "batch_size": 8, "out": tmp_path / "out"}
    with pytest.raises(KeyboardInterrupt):
        ec.evaluate("small_models:stopped", made, **given)
    assert list((tmp_path / "out" / "predictions").glob("*--*.parquet"))
    monkeypatch.setattr(small_models, "stopped", small_models.colors)
    with pytest.raises(ec.UsageError, match="contains a run of a different"):
        # a module with weights is another model than a function
        ec.evaluate("small_models:stopped", made, **given)
    monkeypatch.setattr(small_models, "stopped", lambda images: small_models.colors(images))
    assert ec.evaluate("small_models:stopped", made, **given).images.n_images == 8
    assert len(recorded(tmp_path / "out", "fog")) == 40


def break_it(root, what):
    fog, labels, clean = root / "fog.npy", root / "labels.npy", root.parent / "clean.npy"
    levels = np.load(fog)
    if what == "type":
        np.save(fog, levels.astype(np.float32) / 255)
    elif what == "dimensions":
        np.save(fog, levels[..., 0])
    elif what == "channels":
        np.save(fog, levels.transpose(0, 3, 1, 2))
    elif what == "other shape":
        np.save(fog, levels[:35])
    elif what == "not by five":
        for name in TWO:
            np.save(root / f"{name}.npy", np.load(root / f"{name}.npy")[:39])
    elif what == "cut":
        fog.write_bytes(fog.read_bytes()[:-1000])
    elif what == "cut in the header":
        fog.write_bytes(fog.read_bytes()[:20])
    elif what == "empty":
        fog.write_bytes(b"")
    elif what == "no array":
        fog.write_bytes(b"<html>not found</html>")
    elif what == "objects":
        np.save(fog, np.array([{}, "x"], dtype=object), allow_pickle=True)
    elif what == "small":
        for name in TWO:
            np.save(root / f"{name}.npy", np.load(root / f"{name}.npy")[:, :16, :16])
    elif what == "no labels":
        labels.unlink()
    elif what == "2-D labels":
        np.save(labels, np.load(labels).reshape(5, -1))
    elif what == "labels of one severity":
        np.save(labels, np.load(labels)[:8])
    elif what == "real labels":
        np.save(labels, np.load(labels).astype(float))
    elif what == "other labels":
        np.save(labels, np.random.default_rng(0).permutation(np.load(labels)))
    elif what == "negative labels":
        np.save(labels, np.load(labels) - 1)
    elif what == "labels of another model":
        np.save(labels, np.load(labels) + 7)
    elif what == "other clean":
        np.save(clean, np.load(clean)[:7])
    elif what == "all corrupted as clean":
        shutil.copy(fog, clean)
    elif what == "folder as clean":
        clean.unlink()
        clean.mkdir()


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("type", ("fog.npy must contain 8-bit images", "float32")),
        ("dimensions", ("fog.npy must have the shape", "(40, 32, 32)")),
        ("channels", ("fog.npy must have the shape", "(40, 3, 32, 32)")),
        ("other shape", ("the same shape", "(35, 32, 32, 3)")),
        ("not by five", ("5 severities", "39")),
        ("cut", ("fog.npy is not a NumPy array, or is truncated",)),
        ("cut in the header", ("fog.npy is not a NumPy array, or is truncated",)),
        ("empty", ("fog.npy is not a NumPy array, or is truncated",)),
        ("no array", ("fog.npy is not a NumPy array, or is truncated",)),
        ("objects", ("fog.npy is not a NumPy array, or is truncated",)),
        ("small", ("16 × 16 px",)),
        ("no labels", ("labels.npy is missing",)),
        ("2-D labels", ("labels.npy must be a one-dimensional array", "(5, 8)")),
        ("labels of one severity", ("8 labels for 40 images",)),
        ("real labels", ("labels.npy must be a one-dimensional array", "float64")),
        ("other labels", ("labels.npy must contain the same",)),
        ("negative labels", ("labels.npy must contain the same", "non-negative")),
        ("labels of another model", ("unknown to a model with 4 classes",)),
        ("other clean", ("clean.npy must contain the clean images", "(7, 32, 32, 3)")),
        ("all corrupted as clean", ("clean.npy must contain", "(40, 32, 32, 3)")),
        ("folder as clean", ("Cannot read", "clean.npy")),
    ],
)
def test_bad_files_are_rejected_in_one_sentence(evaluate, root, tmp_path, what, words):
    break_it(root, what)
    assert_rejected(evaluate(root, "--clean", tmp_path / "clean.npy"), *words)
    assert not (tmp_path / "out" / "predictions").exists()


def test_clean_images_of_arrays_are_an_array(evaluate, root):
    assert_rejected(evaluate(root, "--clean", root), "--clean must be a .npy file")


def test_a_broken_array_can_be_left_out(evaluate, root):
    break_it(root, "cut")
    assert evaluate(root, "--corruption", "gaussian_noise").status == 0


def test_other_arrays_are_left_aside_with_a_note(evaluate, root):
    np.save(root / "mine.npy", np.zeros(3))
    assert "Ignored because they are not in imagenet-c: mine.npy." in evaluate(root).out


def test_a_model_of_other_classes_is_rejected_though_numbers_would_fit(run, tmp_path):
    """Class 3 of CIFAR-10 is a cat, output 3 of ImageNet's a shark."""
    made = arrays(tmp_path / "CIFAR-10-C")
    labels = np.arange(40) % 8
    labels[7::8] = 9
    np.save(made / "labels.npy", labels)
    given = ("--images", made, "--out", tmp_path / "out", *SMALL)
    assert_rejected(run("evaluate", "small_models:thousand", *given), "10 classes", "1,000 outputs")
