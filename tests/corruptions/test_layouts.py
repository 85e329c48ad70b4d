"""`eyechart corrupt --layout`: whole benchmarks that loaders of the published ones read."""

import json
import shutil
import signal
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

import eyechart as ec
from commands import assert_rejected, image_file
from eyechart.corruptions.suites import array_layout, file_corruption, folder
from eyechart.corruptions.suites.suite import find_entry
from eyechart.images.stimulus import find_stimulus
from eyechart.testsets.plan import Plan
from eyechart.testsets.published_files import find_published, load_published
from layout_readers import list_folder, read_arrays, read_listed
from small_models import save_images

FIFTEEN = (
    "shot_noise", "motion_blur", "snow", "pixelate", "gaussian_noise", "defocus_blur", "brightness",
    "fog", "zoom_blur", "frost", "glass_blur", "impulse_noise", "contrast", "jpeg_compression",
    "elastic_transform",
)  # fmt: skip
LISTED = ["n01440764/ILSVRC2012_val_00000293.JPEG", "n01440764/ILSVRC2012_val_00002138.JPEG",
          "n01443537/ILSVRC2012_val_00000236.JPEG"]  # fmt: skip
ONE = ("--corruption", "brightness")


@pytest.fixture
def val(tmp_path):
    """Three images as ImageNet's validation set has them."""
    for number, name in enumerate(LISTED):
        image_file(tmp_path / "val" / name, number, (60, 80))
    return tmp_path / "val"


@pytest.fixture
def cifar(tmp_path):
    """Eight images of 32 px in four class folders."""
    for place, label in enumerate(("airplane", "bird", "cat", "truck")):
        for number in range(2):
            image_file(tmp_path / "cifar" / label / f"{number}.png", 2 * place + number, (32, 32))
    return tmp_path / "cifar"


def folders(run, val, out, *more):
    return run("corrupt", val, "--layout", "imagenet-c", "--out", out, *more)


def arrays(run, source, out, *more):
    return run("corrupt", source, "--layout", "cifar-c", "--out", out, *more)


def files(out):
    return {path.relative_to(out).as_posix(): path.read_bytes() for path in out.rglob("*.*")}


# ImageNet-C's folders


def test_the_whole_tree_has_the_names_sizes_and_pixels_of_the_published_one(run, val, tmp_path):
    out = tmp_path / "ImageNet-C"
    result = folders(run, val, out, "--suite", "imagenet-c", "--stimulus", "32")
    assert result.status == 0, result.err
    assert f"{15 * 5 * 3} images written" in result.out
    assert {path.name for path in out.iterdir() if path.is_dir()} == set(FIFTEEN)
    stimulus = find_stimulus("32")
    for name in FIFTEEN:
        for severity in (1, 2, 3, 4, 5):
            images, numbers = read_listed(out, name, severity, LISTED)
            assert images.shape == (3, 32, 32, 3) and numbers == [0, 0, 1]
            assert list_folder(out / name / str(severity)) == list(
                zip(LISTED, numbers, strict=True)
            )
    # as published: the corrupted stimulus, stored as JPEG of quality 85
    digest = ec.load_images(val, "32").digests[0]
    with Image.open(val / LISTED[0]) as opened:
        clean = stimulus(opened)
    by_hand = ec.corrupt(clean, "fog", severity=4, keys=[digest]).permute(1, 2, 0).numpy()
    Image.fromarray(by_hand).save(tmp_path / "by_hand.jpg", quality=85)
    with (
        Image.open(tmp_path / "by_hand.jpg") as opened,
        Image.open(out / "fog" / "4" / LISTED[0]) as written,
    ):
        assert written.format == "JPEG"
        assert written.quantization == opened.quantization
        np.testing.assert_array_equal(np.asarray(written), np.asarray(opened))


def test_by_default_images_are_brought_to_224_px(run, val, tmp_path):
    out = tmp_path / "out"
    assert folders(run, val, out, *ONE).status == 0
    images, _ = read_listed(out, "brightness", 1, LISTED)
    assert images.shape == (3, 224, 224, 3)


def test_what_was_written_is_read_as_a_published_suite(run, val, tmp_path):
    out = tmp_path / "out"
    folders(run, val, out, *ONE, "--corruption", "contrast", "--stimulus", "32", "--format", "png")
    result = run(
        "evaluate", "small_models:colors", "--images", out, "--clean", val, "--stimulus", "32",
        "--labels", "none", "--out", tmp_path / "run", "--bins", 5, "--min-per-bin", 1,
        "--n-bootstrap", 10,
    )  # fmt: skip
    assert result.status == 0, result.err
    found = json.loads((tmp_path / "run" / "results.json").read_text("utf-8"))
    assert found["config"]["corruptions"] == ["brightness", "contrast"]


def test_other_formats_get_the_name_that_loaders_look_for(run, tmp_path):
    image_file(tmp_path / "val" / "a" / "one.png", 1, (40, 40))
    image_file(tmp_path / "val" / "a" / "two.jpg", 2, (40, 40))
    folders(run, tmp_path / "val", tmp_path / "jpeg", *ONE, "--stimulus", "32")
    there = [name for name, _ in list_folder(tmp_path / "jpeg" / "brightness" / "5")]
    assert there == ["a/one.JPEG", "a/two.jpg"]
    folders(run, tmp_path / "val", tmp_path / "png", *ONE, "--stimulus", "32", "--format", "png")
    there = [name for name, _ in list_folder(tmp_path / "png" / "brightness" / "5")]
    assert there == ["a/one.png", "a/two.png"]


def test_a_run_that_was_stopped_goes_on_and_repeats_nothing(run, val, tmp_path, monkeypatch):
    out, more = tmp_path / "out", (*ONE, "--corruption", "fog", "--stimulus", "32")
    real, calls = file_corruption.corrupt, []

    def interrupted(*arguments, **options):
        calls.append(1)
        if len(calls) == 7:
            signal.raise_signal(signal.SIGINT)
        return real(*arguments, **options)

    monkeypatch.setattr(file_corruption, "corrupt", interrupted)
    stopped = folders(run, val, out, *more)
    assert stopped.status == 130 and "of 30 images are done" in stopped.err
    monkeypatch.setattr(file_corruption, "corrupt", real)
    (out / "brightness" / "1" / "n01440764" / ".x.JPEG.999999999.tmp").touch()
    before = {name: (out / name).stat().st_mtime_ns for name in files(out) if "JPEG" in name}
    went_on = folders(run, val, out, *more)
    assert went_on.status == 0 and "already exist" in went_on.out
    kept = [name for name in before if ".tmp" not in name]
    assert kept and all((out / name).stat().st_mtime_ns == before[name] for name in kept)
    assert not list(out.rglob(".*.tmp"))
    folders(run, val, tmp_path / "whole", *more)
    images = {name: data for name, data in files(out).items() if name.endswith(".JPEG")}
    assert len(images) == 30
    assert all(files(tmp_path / "whole")[name] == data for name, data in images.items())


def test_settings_are_never_mixed_but_a_second_suite_joins_the_first(run, val, tmp_path):
    out, small = tmp_path / "out", ("--stimulus", "32")
    folders(run, val, out, *ONE, *small)
    before = files(out)
    assert_rejected(folders(run, val, out, *ONE), "stimulus 32", "not 224", "or delete it")
    assert_rejected(folders(run, val, out, *ONE, *small, "--seed", 3), "seed 0, not 3")
    assert_rejected(run("corrupt", val, *ONE, "-s", 1, "--out", out), "corruption several")
    assert files(out) == before
    assert folders(run, val, out, "--corruption", "saturate", *small).status == 0
    assert {path.name for path in out.iterdir() if path.is_dir()} == {"brightness", "saturate"}


def test_a_folder_that_was_not_made_here_is_left_alone(run, val, tmp_path):
    mine = image_file(tmp_path / "out" / "brightness" / "mine.png")
    assert_rejected(
        folders(run, val, tmp_path / "out", *ONE), "brightness", "not written by this command"
    )
    assert mine.exists() and not (tmp_path / "out" / "eyechart.json").exists()


def test_an_image_that_cannot_be_read_is_left_out_everywhere_and_told_of_once(run, val, tmp_path):
    (val / LISTED[1]).write_bytes(b"no picture")
    result = folders(run, val, tmp_path / "out", *ONE, "--stimulus", "32")
    assert result.status == 2 and result.err.count(LISTED[1]) == 1
    for severity in (1, 2, 3, 4, 5):
        there = list_folder(tmp_path / "out" / "brightness" / str(severity))
        assert [name for name, _ in there] == [LISTED[0], LISTED[2]]


def test_a_stimulus_can_be_given_without_a_layout(run, val, tmp_path):
    result = run("corrupt", val, *ONE, "-s", 1, "--stimulus", "48x32", "--out", tmp_path / "out")
    assert result.status == 0, result.err
    with Image.open(tmp_path / "out" / LISTED[0].replace("JPEG", "png")) as written:
        assert written.size == (48, 32)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--layout", "imagenet"), ("Unknown layout", "imagenet-c")),
        (("--layout", "imagenet-c"), ("--suite imagenet-c",)),
        (("--layout", "imagenet-c", "--suite", "vcr"), ("suite", "imagenet-c")),
        (("--layout", "imagenet-c", "--suite", "vcr", *ONE), ("suite", "imagenet-c")),
        (
            ("--layout", "imagenet-c", "--suite", "imagenet-c", "-c", "vcr/frost"),
            ("no corruption 'vcr/frost' in imagenet-c, but vcr has it",),
        ),
        (
            ("--suite", "vcr", "-s", 1, "-c", "fog"),
            ("no corruption 'fog' in vcr, but imagenet-c has it",),
        ),
        (("--suite", "mine.yaml", "-s", 1, *ONE), ("Unknown suite 'mine.yaml'", "imagenet-c")),
        (("--suite", "vcr@paper", "--variant", "code", "-c", "frost", "-s", 1), ("variant",)),
        (("--layout", "imagenet-c", *ONE, "-s", 2), ("--severity", "all five")),
        (("--layout", "imagenet-c", *ONE, "--set", "amount=1"), ("--set",)),
        (("--layout", "imagenet-c", *ONE, "--overwrite"), ("--overwrite", "delete")),
        (("--layout", "imagenet-c", *ONE, "--stimulus", "7x7"), ("stimulus",)),
        (("--layout", "imagenet-c", "-c", "brightnes"), ("Did you mean 'brightness'",)),
        (("--layout", "cifar-c", *ONE, "--format", "jpeg"), ("--format", "stores the pixels")),
        (("--layout", "cifar-c", *ONE, "--jpeg-quality", 50), ("--jpeg-quality", "pixels")),
        (("--layout", "cifar-c", *ONE), ("equal size", "--stimulus 32x32")),
        (("--suite", "imagenet-c"), ("--layout imagenet-c",)),
        ((*ONE, "-c", "fog", "-s", 1), ("one --corruption, got 2",)),
        (("-s", 1), ("one --corruption, got 0",)),
    ],
)
def test_what_cannot_be_is_rejected_in_one_sentence(run, val, tmp_path, options, words):
    image_file(val / LISTED[0], 3, (70, 80))
    assert_rejected(run("corrupt", val, "--out", tmp_path / "out", *options), *words)
    assert not (tmp_path / "out").exists()


def test_images_outside_of_class_folders_are_rejected(run, val, tmp_path):
    assert_rejected(folders(run, val.parent, tmp_path / "out", *ONE), "class folders", "below them")
    assert_rejected(folders(run, val / "n01440764", tmp_path / "out", *ONE), "next to them")
    shutil.copy(val / LISTED[0], val / LISTED[0].replace("JPEG", "jpg"))
    assert_rejected(folders(run, val, tmp_path / "out", *ONE), "same file", "rename")


@pytest.mark.parametrize("suite", ["imagenet-c", "imagenet-c-extra"])
def test_corruptions_of_a_suite_are_written_alone(run, val, tmp_path, suite):
    name = {"imagenet-c": "brightness", "imagenet-c-extra": "saturate"}[suite]
    small = ("--stimulus", "32", "--corruption", name)
    assert folders(run, val, tmp_path / "out", *small, "--suite", suite).status == 0
    assert folders(run, val, tmp_path / "other", *small).status == 0
    written = {path.name for path in (tmp_path / "out").iterdir() if path.is_dir()}
    assert written == {name}
    assert files(tmp_path / "out") == files(tmp_path / "other")


def test_a_corruption_of_a_suite_is_written_without_a_layout(run, val, tmp_path):
    usual = ("corrupt", val, "-s", 2, "--stimulus", "32", "--out")
    # ImageNet-C has a frost too, which is another one
    for number, (short, full) in enumerate(
        [
            (("--suite", "vcr", "-c", "frost"), ("-c", "vcr/frost")),
            (("--suite", "vcr@paper", "-c", "frost"), ("-c", "vcr/frost", "--variant", "paper")),
            (("--suite", "imagenet-c", "-c", "frost"), ("-c", "frost")),
        ]
    ):
        one, two = tmp_path / f"short {number}", tmp_path / f"full {number}"
        assert run(*usual, one, *short).status == run(*usual, two, *full).status == 0
        assert files(one) == files(two) and len(files(one)) == 4


# CIFAR-10-C's arrays


def test_arrays_have_the_order_labels_and_pixels_of_the_published_ones(run, cifar, tmp_path):
    out = tmp_path / "CIFAR-10-C"
    result = arrays(run, cifar, out, "--suite", "imagenet-c")
    assert result.status == 0, result.err
    assert {path.stem for path in out.glob("*.npy")} == {*FIFTEEN, "labels", "clean"}
    assert (out / "classes.txt").read_text().split() == ["airplane", "bird", "cat", "truck"]
    images = ec.load_images(cifar, "native")
    clean = images.batch(range(8)).permute(0, 2, 3, 1).contiguous().numpy()
    np.testing.assert_array_equal(np.load(out / "clean.npy"), clean)
    for name in FIFTEEN:
        assert np.load(out / f"{name}.npy").shape == (40, 32, 32, 3)
        for severity in (1, 2, 3, 4, 5):
            found, labels = read_arrays(out, name, severity, total=8, n=8)
            assert found.dtype == np.uint8 and labels.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
            expected = ec.corrupt(clean, name, severity=severity, keys=list(images.digests))
            np.testing.assert_array_equal(found, expected)
    assert np.load(out / "labels.npy").tolist() == 5 * [0, 0, 1, 1, 2, 2, 3, 3]
    assert sorted(path.name for path in out.iterdir() if path.name.startswith(".")) == []


def test_an_array_keeps_its_order_and_its_labels(run, tmp_path):
    clean = np.random.default_rng(0).integers(0, 256, (6, 32, 32, 3), dtype=np.uint8)
    (tmp_path / "in").mkdir()
    np.save(tmp_path / "in" / "test.npy", clean)
    assert_rejected(arrays(run, tmp_path / "in" / "test.npy", tmp_path / "out", *ONE), "labels.npy")
    np.save(tmp_path / "in" / "labels.npy", np.array([3, 8, 8, 0, 6, 6]))
    assert arrays(run, tmp_path / "in" / "test.npy", tmp_path / "out", *ONE).status == 0
    np.testing.assert_array_equal(np.load(tmp_path / "out" / "clean.npy"), clean)
    found, labels = read_arrays(tmp_path / "out", "brightness", 3, total=6, n=6)
    assert labels.tolist() == [3, 8, 8, 0, 6, 6]
    np.testing.assert_array_equal(found, ec.corrupt(clean, "brightness", severity=3))


def test_a_list_of_images_gives_its_own_order(run, cifar, tmp_path):
    listed = "path,label\ntruck/1.png,9\nairplane/0.png,0\n"
    (cifar / "list.csv").write_text(listed)
    assert arrays(run, cifar / "list.csv", tmp_path / "out", *ONE).status == 0
    assert np.load(tmp_path / "out" / "labels.npy")[:2].tolist() == [9, 0]
    with Image.open(cifar / "truck" / "1.png") as opened:
        np.testing.assert_array_equal(
            np.load(tmp_path / "out" / "clean.npy")[0], np.asarray(opened)
        )


def test_arrays_that_eyechart_wrote_are_evaluated(run, cifar, tmp_path):
    out = tmp_path / "out"
    arrays(run, cifar, out, *ONE, "--corruption", "contrast")
    result = run(
        "evaluate", "small_models:colors", "--images", out, "--clean", out / "clean.npy",
        "--labels", "none", "--out", tmp_path / "run", "--bins", 5, "--min-per-bin", 1,
        "--n-bootstrap", 10,
    )  # fmt: skip
    assert result.status == 0, result.err
    found = json.loads((tmp_path / "run" / "results.json").read_text("utf-8"))
    assert found["config"]["corruptions"] == ["brightness", "contrast"]


def test_arrays_that_eyechart_wrote_have_the_labels_of_the_class_folders(run, tmp_path):
    for number, label in enumerate(("n02123045", "n02085620", "n02123045")):
        image_file(tmp_path / "in" / label / f"{number}.png", number, (32, 32))
    out = tmp_path / "out"
    assert arrays(run, tmp_path / "in", out, *ONE).status == 0
    assert np.load(out / "labels.npy").tolist() == 5 * [0, 1, 1]
    published = find_published(out)
    found = load_published(published, published.plan(Plan()), out / "clean.npy")
    assert found.labels == ec.load_images(tmp_path / "in", "native").labels
    assert found.labels == ("n02085620", "n02123045", "n02123045")
    (out / "classes.txt").write_text("n02085620\n")
    with pytest.raises(ec.UsageError, match=r"classes\.txt must name each class once.* up to 1"):
        load_published(published, published.plan(Plan()), None)


def test_arrays_are_scored_as_the_same_images_in_folders_are(run, tmp_path):
    clean = save_images(tmp_path / "in", each=2, side=32)
    given = ("--bins", 5, "--min-per-bin", 1, "--n-bootstrap", 10, "--humans", "none")
    found = []
    for layout, more in (("cifar-c", ()), ("imagenet-c", ("--format", "png"))):
        out, ran = tmp_path / layout, tmp_path / f"run {layout}"
        call = ("--layout", layout, "--stimulus", "native", "--out", out, *ONE)
        assert run("corrupt", clean, *call, *more).status == 0
        result = run("evaluate", "small_models:pale_colors", "--images", out, "--out", ran, *given)
        assert result.status == 0, result.err
        results = json.loads((ran / "results.json").read_text("utf-8"))
        found.append(results["models"][0]["spaces"]["native"]["corruptions"]["brightness"])
    assert found[0] == found[1] and 0 < found[0]["error"]["value"] < 1


def test_arrays_go_on_where_they_were_stopped(run, cifar, tmp_path, monkeypatch):
    out, real, calls = tmp_path / "out", array_layout.corrupt, []

    def interrupted(*arguments, **options):
        calls.append(options["severity"])
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(*arguments, **options)

    monkeypatch.setattr(array_layout, "corrupt", interrupted)
    stopped = arrays(run, cifar, out, *ONE)
    assert stopped.status == 130 and not (out / "brightness.npy").exists()
    calls[:] = []
    calls += [0, 0, 0]
    assert arrays(run, cifar, out, *ONE).status == 0
    assert calls == [0, 0, 0, 3, 4, 5]
    assert "0 arrays" in arrays(run, cifar, out, *ONE).out
    arrays(run, cifar, tmp_path / "whole", *ONE)
    np.testing.assert_array_equal(
        np.load(out / "brightness.npy"), np.load(tmp_path / "whole" / "brightness.npy")
    )


def test_arrays_of_other_images_or_settings_are_not_mixed(run, cifar, tmp_path):
    out = tmp_path / "out"
    arrays(run, cifar, out, *ONE)
    before = files(out)
    assert_rejected(arrays(run, cifar, out, *ONE, "--seed", 1), "seed 0, not 1")
    shutil.rmtree(cifar / "truck")
    assert_rejected(arrays(run, cifar, out, "--corruption", "fog"), "images")
    assert files(out) == before


def at_version_1(monkeypatch, name):
    """Make a corruption what it was when only the first version was there."""
    older = replace(find_entry(name), version=1)
    monkeypatch.setattr(folder, "find_variant", lambda *_: older)


@pytest.mark.parametrize("layout", ["imagenet-c", "cifar-c"])
def test_an_older_version_of_a_corruption_is_neither_kept_nor_mixed(
    run, cifar, tmp_path, monkeypatch, layout
):
    out, what = tmp_path / "out", "frost.npy" if layout == "cifar-c" else "frost"
    call = ("corrupt", cifar, "--layout", layout, "--stimulus", "native", "--out", out)
    with monkeypatch.context() as before:
        at_version_1(before, "frost")
        assert run(*call, "--corruption", "frost").status == 0
    there = files(out)
    assert_rejected(run(*call, "--corruption", "frost"), f"{what} has version 1 of frost, not 2")
    assert files(out) == there
    # what has one version alone goes beside it, and another version where nothing is
    assert run(*call, *ONE).status == 0
    assert run(*call, "--corruption", "fog").status == 0
    assert "0 " in run(*call, "--corruption", "fog", *ONE).out
    if layout == "cifar-c":
        (out / what).unlink()
    else:
        shutil.rmtree(out / what)
    assert run(*call, "--corruption", "frost").status == 0
    assert "0 " in run(*call, "--corruption", "frost").out


def test_images_of_an_older_version_are_not_kept(run, cifar, tmp_path, monkeypatch):
    call = ("corrupt", cifar, "-c", "frost", "-s", 3, "--out", tmp_path / "out")
    with monkeypatch.context() as before:
        at_version_1(before, "frost")
        assert run(*call).status == 0
    assert_rejected(run(*call), "frost's version 1, not 2", "--overwrite")
    assert "8 images written" in run(*call, "--overwrite").out
    assert "8 already exist" in run(*call).out


def test_images_without_labels_make_no_labels(run, cifar, tmp_path):
    assert_rejected(arrays(run, cifar / "cat", tmp_path / "out", *ONE), "no label", "class folders")
