"""ImageNet-C from its own folders: the same answers as on the fly, and what is refused."""

import json
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

import eyechart as ec
import small_models
from commands import assert_rejected
from eyechart.images import imageset
from eyechart.testsets.coverage import coverage_of
from eyechart.testsets.plan import Plan
from eyechart.testsets.published_files import find_published, load_published
from eyechart.testsets.published_sources import list_published
from eyechart.testsets.samples import plan_samples
from eyechart.testsets.stimuli import iterate_samples
from published_files import TWO, cheap_folder, publish, recorded
from small_models import save_images

MODEL = "small_models:pale_colors"
SMALL = ("--bins", 9, "--min-per-bin", 3, "--n-bootstrap", 20, "--humans", "none")
BENCHMARK = [*ec.list_corruptions("imagenet-c")]
NINETEEN = [*BENCHMARK, *ec.list_corruptions("imagenet-c-extra")[:4]]


@pytest.fixture(scope="module")
def clean(tmp_path_factory):
    return save_images(tmp_path_factory.mktemp("clean") / "photos", each=2)


@pytest.fixture(scope="module")
def root(clean, tmp_path_factory):
    """PNG files of two corruptions."""
    return publish(clean, tmp_path_factory.mktemp("published") / "imagenet-c")


@pytest.fixture
def cheap(tmp_path):
    return cheap_folder(tmp_path / "cheap")


@pytest.fixture
def evaluate(run, tmp_path):
    def call(images, *arguments, model=MODEL, out=tmp_path / "out"):
        return run("evaluate", model, "--images", images, "--out", out, *SMALL, *arguments)

    return call


def results(out):
    return json.loads((out / "results.json").read_text("utf-8"))


def load(root, plan=None, clean=None):
    published = find_published(root)
    return load_published(published, published.plan(plan or Plan()), clean, "native")


# The same as on the fly


@pytest.mark.parametrize(("format", "jpeg"), [("png", ()), ("jpeg", ("--jpeg", 85))])
def test_files_that_eyechart_wrote_give_what_a_run_on_the_fly_gives(
    run, evaluate, clean, tmp_path, format, jpeg
):
    names = ("gaussian_noise", "gaussian_blur")
    for name in names:
        for severity in range(1, 6):
            out = tmp_path / "files" / name / str(severity)
            given = ("--corruption", name, "--severity", severity, "--format", format)
            assert run("corrupt", clean, *given, "--out", out).status == 0
    given = ("--clean", clean, "--stimulus", "native")
    assert evaluate(tmp_path / "files", *given, out=tmp_path / "a").status == 0
    chosen = [text for name in names for text in ("--corruption", name)]
    given = ("--stimulus", "native", "--suite", "imagenet-c", *chosen, *jpeg)
    assert evaluate(clean, *given, out=tmp_path / "b").status == 0
    for name in ("clean", *names):
        from_files, on_the_fly = (recorded(tmp_path / out, name) for out in "ab")
        assert len(from_files) == (8 if name == "clean" else 40)
        assert from_files == on_the_fly
    one, two = (results(tmp_path / out) for out in "ab")
    assert one["coverage"] == two["coverage"]
    native = [each["models"][0]["spaces"]["native"] for each in (one, two)]
    assert native[0]["clean_accuracy"] == native[1]["clean_accuracy"]
    for name in names:
        own, other = (each["corruptions"][name] for each in native)
        assert own["error_by_severity"] == other["error_by_severity"]
        assert own["consistency"] == other["consistency"]


def test_images_are_brought_to_the_224_px_that_published_files_have(tmp_path):
    clean = save_images(tmp_path / "clean", each=1, side=250)
    save = {"format": "JPEG", "quality": 85, "optimize": True}
    files = publish(clean, tmp_path / "files", "224", ("contrast",), **save)
    given = {"n_bootstrap": 5, "bins": 5, "min_per_bin": 2, "humans": None}
    ec.evaluate(MODEL, files, clean=clean, out=tmp_path / "a", **given)
    ec.evaluate(
        MODEL, clean, "imagenet-c", corruptions=["contrast"], jpeg=85, out=tmp_path / "b", **given
    )
    for name in ("clean", "contrast"):
        assert recorded(tmp_path / "a", name) == recorded(tmp_path / "b", name)
    found = pq.read_table(tmp_path / "a" / "predictions" / "contrast.parquet")
    assert set(found["stimulus"].to_pylist()) == {"files"}
    assert set(found["scales"].to_pylist()) == {4}


def test_clean_images_that_have_the_size_of_the_files_are_not_resized(root, clean, tmp_path):
    """Resized to 256 and cropped to 224 they would not lie above the files."""
    given = {"n_bootstrap": 5, "humans": None}
    for name, more in (("told", {"stimulus": "native"}), ("found", {})):
        ec.evaluate(MODEL, root, clean=clean, out=tmp_path / name, **given, **more)
    assert recorded(tmp_path / "told", "gaussian_noise") == recorded(
        tmp_path / "found", "gaussian_noise"
    )


def test_another_suite_than_that_of_the_files_is_rejected(evaluate, root):
    assert_rejected(evaluate(root, "--suite", "vcr"), "--suite is vcr")
    assert evaluate(root, "--suite", "imagenet-c", "--corruption", "gaussian_noise").status == 0


def test_coverage_is_that_of_a_drawn_test_set(root, clean, tmp_path):
    found = ec.evaluate(
        MODEL, root, clean=clean, stimulus="native", min_per_bin=3, bins=9, n_bootstrap=5,
        humans=None, out=tmp_path / "out",
    )  # fmt: skip
    drawn = ec.sample_testset(clean, "imagenet-c", corruptions=list(TWO), stimulus="native")
    for own in coverage_of(drawn.table, 3):
        assert found.coverage[own.corruption].paper == own.paper > 0
        assert found.coverage[own.corruption].largest == own.largest
        assert found.coverage[own.corruption].rows == own.rows == 40


# Without clean pictures


def test_without_clean_images_there_are_errors_by_severity_and_one_note(evaluate, root, tmp_path):
    ran = evaluate(root)
    assert ran.status == 0
    assert sum("--clean" in line for line in ran.out.splitlines()) == 1
    found = results(tmp_path / "out")
    assert found["coverage"] == {} and found["config"]["clean"] is None
    space = found["models"][0]["spaces"]["native"]
    assert space["clean_accuracy"] is None
    table = pq.read_table(tmp_path / "out" / "predictions" / "fog.parquet").to_pylist()
    assert all(row["delta_v"] is None for row in table)
    own = space["corruptions"]["fog"]
    place = {"blue": 0, "green": 1, "grey": 2, "red": 3}
    for severity in range(1, 6):
        rows = [row for row in table if row["severity"] == severity]
        wrong = np.mean([row["prediction"] != place[row["label"]] for row in rows])
        assert own["error_by_severity"][str(severity)] == pytest.approx(wrong)
    assert not (tmp_path / "out" / "predictions" / "clean.parquet").exists()


def test_a_check_of_files_passes_and_finds_a_file_that_changed(run, root, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(root, copy)
    given = ("evaluate", MODEL, "--images", copy, "--out", tmp_path / "out", *SMALL, "--check")
    ran = run(*given)
    assert ran.status == 0 and "0 differ in pixels" in ran.out
    for target in copy.glob("fog/[345]/*/*.png"):
        with Image.open(target) as opened:
            levels = 255 - np.asarray(opened)
        Image.fromarray(levels).save(target)
    ran = run(*given)
    # 20 of 40 rows are looked at, and 24 are others now
    assert ran.status == 1 and "; 0 differ in pixels" not in ran.err


def test_without_labels_and_clean_images_nothing_can_be_scored(evaluate, root):
    assert_rejected(evaluate(root, "--labels", "none"), "nothing to score", "--clean")


def test_without_labels_but_with_clean_images_there_is_consistency(evaluate, root, clean):
    ran = evaluate(root, "--labels", "none", "--clean", clean, "--stimulus", "native")
    assert ran.status == 0 and "R_p" in ran.out and "R_a" not in ran.out


def test_clean_images_given_later_are_another_run(evaluate, root, clean):
    assert evaluate(root).status == 0
    again = evaluate(root, "--clean", clean, "--stimulus", "native")
    assert_rejected(again, "holds another run", "clean: None, now native")


# What is recognized


def test_the_folders_of_the_tar_files_may_stay(cheap, tmp_path):
    flat = load(cheap)
    (cheap / "noise").mkdir()
    (cheap / "gaussian_noise").rename(cheap / "noise" / "gaussian_noise")
    nested = load(cheap)
    assert nested.fingerprint == flat.fingerprint
    places, severities = range(8), [1, 2, 3, 4, 5, 1, 2, 3]
    own, other = (
        each.files.read("gaussian_noise", severities, places) for each in (nested, load(cheap))
    )
    assert torch.equal(torch.stack(own), torch.stack(other))


@pytest.mark.parametrize(
    ("there", "suite"),
    [(NINETEEN, "imagenet-c"), (BENCHMARK, "imagenet-c"), (["spatter"], "imagenet-c-extra")],
)
def test_the_suite_follows_from_what_is_there(tmp_path, there, suite):
    for name in there:
        (tmp_path / name / "1").mkdir(parents=True)
    plan = find_published(tmp_path).plan(Plan())
    assert plan.suite == suite and plan.settings()["corruptions"] == there
    if there == NINETEEN:
        plan = find_published(tmp_path).plan(Plan("imagenet-c"))
        assert plan.settings()["corruptions"] == BENCHMARK


def test_only_the_corruptions_that_are_named_are_looked_at(evaluate, cheap, tmp_path):
    shutil.rmtree(cheap / "gaussian_noise" / "2")
    assert evaluate(cheap, "--corruption", "fog", model="small_models:four_classes").status == 0
    assert results(tmp_path / "out")["config"]["corruptions"] == ["fog"]


def test_other_folders_are_left_aside_with_a_note(evaluate, cheap):
    (cheap / "my_own" / "1").mkdir(parents=True)
    ran = evaluate(cheap, model="small_models:four_classes", out=cheap / "results")
    assert ran.status == 0
    assert "Ignored because they are not in imagenet-c: my_own." in ran.out


def test_class_folders_named_like_corruptions_are_class_folders(tmp_path):
    for name in ("fog", "snow"):
        save_images(tmp_path / name, each=1, tints=("blue",))
    assert find_published(tmp_path) is None


def test_a_png_among_jpegs_is_the_same_image(cheap):
    before = load(cheap)
    target = cheap / "fog" / "4" / "c2" / "1.png"
    with Image.open(target) as opened:
        opened.save(target.with_suffix(".bmp"))
    target.unlink()
    after = load(cheap)
    assert after.fingerprint == before.fingerprint
    place = [image.name for image in after.listed].index("c2/1.png")
    one, two = before.files.read("fog", [3], [place]), after.files.read("fog", [4], [place])
    assert torch.is_tensor(one[0]) and torch.is_tensor(two[0])
    assert after.files.path("fog", 4, place).name == "1.bmp"


def test_names_of_validation_images_are_found_without_class_folders(tmp_path):
    root = cheap_folder(tmp_path / "files", each=1)
    flat = tmp_path / "flat"
    flat.mkdir()
    for label in range(4):
        name = f"ILSVRC2012_val_{label:08d}"
        for folder in root.glob(f"*/*/c{label}"):
            (folder / "0.png").rename(folder / f"{name}.png")
        Image.fromarray(np.full((20, 20, 3), label, np.uint8)).save(flat / f"{name}.bmp")
    found = load(root, clean=flat)
    assert found.labels == ("c0", "c1", "c2", "c3")
    assert found.batch([0, 1, 2, 3])[:, 0, 0, 0].tolist() == [0, 1, 2, 3]


def test_files_are_read_a_few_at_a_time_and_ahead(cheap, monkeypatch):
    monkeypatch.setattr("eyechart.testsets.stimuli.AHEAD", {"cpu": 3})
    images = load(cheap)
    plan = find_published(cheap).plan(Plan())
    groups = plan_samples(images, plan)
    read = []
    work = iterate_samples(images, [groups], plan, torch.device("cpu"))
    for each in work:
        assert each.from_files.shape == (len(each.samples), 3, 20, 20) and len(each.samples) <= 3
        read += each.samples.row.tolist()
        for place, severity, image in zip(
            each.samples.image, each.samples.severity, each.from_files, strict=True
        ):
            path = images.files.path(each.samples.name, int(severity), place)
            expected = np.asarray(Image.open(path)).transpose(2, 0, 1)
            assert (image.numpy() == expected).all()
    assert sorted(read) == sorted(np.concatenate([samples.row for samples in groups]).tolist())


# What is missing


def broken(cheap, what):
    if what == "severity":
        shutil.rmtree(cheap / "fog" / "4")
    elif what == "image":
        (cheap / "fog" / "2" / "c1" / "0.png").unlink()
    elif what == "class":
        shutil.rmtree(cheap / "gaussian_noise" / "1" / "c3")
    elif what == "empty class":
        for file in (cheap / "fog" / "5" / "c0").iterdir():
            file.unlink()
    elif what == "empty everywhere":
        for folder in cheap.glob("*/*"):
            (folder / "c9").mkdir()
    elif what == "first folder":
        shutil.rmtree(cheap / "gaussian_noise" / "1")
        (cheap / "gaussian_noise" / "1").mkdir()
    elif what == "corruption":
        shutil.rmtree(cheap / "fog")
        (cheap / "fog").mkdir()


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("severity", ("8 images are missing", "fog has no folder 4")),
        ("image", ("1 image is missing", "fog/2 lacks 1 of 8 images", "c1/0")),
        ("class", ("2 images are missing", "gaussian_noise/1 lacks 2 of 8", "c3/0")),
        ("empty class", ("2 images are missing", "fog/5 lacks 2 of 8 images", "c0/0")),
        ("empty everywhere", ("class c9 is empty everywhere",)),
        ("first folder", ("8 images are missing", "gaussian_noise/1 lacks 8 of 8")),
        ("corruption", ("40 images are missing", "fog has no folder 1", "2 more such gaps")),
    ],
)
def test_a_half_downloaded_folder_is_rejected_with_what_is_missing(
    evaluate, cheap, tmp_path, what, words
):
    broken(cheap, what)
    assert_rejected(evaluate(cheap, model="small_models:four_classes"), "is incomplete", *words)
    assert not (tmp_path / "out" / "predictions").exists()


def rejected(evaluate, cheap, clean, what):
    if what == "twice":
        shutil.copytree(cheap / "fog", cheap / "weather" / "fog")
        return evaluate(cheap), ("fog exists twice", "remove one")
    if what == "two suffixes":
        shutil.copy(cheap / "fog" / "1" / "c0" / "0.png", cheap / "fog" / "1" / "c0" / "0.jpg")
        return evaluate(cheap), ("two files with the same name", "class c0")
    if what == "nothing":
        for file in cheap.rglob("*.png"):
            file.unlink()
        return evaluate(cheap), ("No images in",)
    if what == "one corruption":
        return evaluate(cheap / "fog"), ("single corruption", "parent folder")
    if what == "unknown corruption":
        return evaluate(cheap, "--corruption", "frog"), ("Unknown corruption", "'fog'")
    if what == "absent corruption":
        return evaluate(cheap, "--corruption", "snow"), ("Unknown corruption in", "snow")
    if what == "suite":
        return evaluate(cheap, "--suite", "imagenet-noc"), ("imagenet-noc",)
    if what == "absent suite":
        return evaluate(cheap, "--suite", "imagenet-c-extra"), (
            "no corruptions of the suite imagenet-c-extra",
        )
    if what == "jpeg":
        return evaluate(cheap, "--jpeg", 85), (
            "jpeg applies only to images that eyechart corrupts",
        )
    if what == "sampling":
        return evaluate(cheap, "--sampling", "pilot"), ("sampling applies only to images",)
    if what == "testset":
        return evaluate(cheap, "--testset", "x.parquet"), ("need no test set",)
    if what == "clean of other size":
        own = save_images(cheap.parent / "other", each=2, tints=("blue", "red"))
        for place, name in enumerate(("c0", "c1")):
            shutil.copytree(own / ("blue", "red")[place], own / name)
            shutil.copytree(own / name, own / f"c{place + 2}")
        return evaluate(cheap, "--clean", own, "--stimulus", "native"), ("20 × 20 px", "40 × 40")
    if what == "clean of others":
        return evaluate(cheap, "--clean", clean), ("8 of 8 images have no clean image", "c0/0")
    if what == "no clean there":
        return evaluate(cheap, "--clean", cheap / "none"), ("No such file or folder",)
    if what == "clean twice":
        for suffix in ("png", "bmp"):
            for label in range(4):
                target = cheap.parent / "twice" / f"c{label}" / f"0.{suffix}"
                target.parent.mkdir(parents=True, exist_ok=True)
                Image.new("RGB", (20, 20)).save(target)
        return evaluate(cheap, "--clean", cheap.parent / "twice"), ("have the same name",)
    return evaluate(clean, "--clean", clean), ("--clean applies to published corrupted images",)


@pytest.mark.parametrize(
    "what",
    [
        "twice", "two suffixes", "nothing", "one corruption", "unknown corruption",
        "absent corruption", "suite", "absent suite", "jpeg", "sampling", "testset",
        "clean of other size", "clean of others", "no clean there", "clean twice", "clean alone",
    ],
)  # fmt: skip
def test_what_cannot_be_is_rejected_in_one_sentence(evaluate, cheap, clean, tmp_path, what):
    result, words = rejected(evaluate, cheap, clean, what)
    assert_rejected(result, *words)
    assert not (tmp_path / "out" / "predictions").exists()


def test_a_test_set_is_not_drawn_from_corrupted_images(run, cheap, tmp_path):
    made = run("testset", "make", "--images", cheap, "--out", tmp_path / "t.parquet")
    assert_rejected(made, "contains corrupted images", "evaluate --images")


# What cannot be read


@pytest.fixture
def lenient(monkeypatch):
    """One of eight pictures may be damaged."""
    monkeypatch.setattr(imageset, "MOST_DAMAGED", 0.2)


@pytest.mark.parametrize("with_clean", [False, True])
def test_a_damaged_file_leaves_its_image_out_everywhere(
    evaluate, root, clean, tmp_path, lenient, with_clean
):
    copy = tmp_path / "copy"
    shutil.copytree(root, copy)
    (copy / "fog" / "2" / "red" / "1.png").write_bytes(b"not a picture")
    more = ("--clean", clean, "--stimulus", "native") if with_clean else ()
    ran = evaluate(copy, "--check", *more)
    assert ran.status == 0, ran.err
    assert "1 damaged image was left out: red/1.png." in ran.out
    found = results(tmp_path / "out")
    assert [each["name"] for each in found["images"]["damaged"]] == ["red/1.png"]
    space = found["models"][0]["spaces"]["native"]
    assert space["n_images"] == 7
    for name in TWO:
        assert space["corruptions"][name]["accuracy"]["n_samples"] == 35
        if with_clean:
            assert space["corruptions"][name]["consistency"]["n_samples"] == 35
            assert found["coverage"][name]["rows"] == 35


def test_a_damaged_file_that_was_mended_is_read_when_the_run_goes_on(
    evaluate, root, tmp_path, lenient
):
    copy, target = tmp_path / "copy", tmp_path / "copy" / "fog" / "2" / "red" / "1.png"
    shutil.copytree(root, copy)
    whole = target.read_bytes()
    target.write_bytes(whole[:100])
    assert evaluate(copy).status == 0
    target.write_bytes(whole)
    assert evaluate(copy).status == 0
    assert evaluate(root, out=tmp_path / "straight").status == 0
    for name in TWO:
        assert recorded(tmp_path / "out", name) == recorded(tmp_path / "straight", name)
    own, other = (results(tmp_path / out)["models"] for out in ("out", "straight"))
    assert own == other
    assert not list((tmp_path / "out" / "predictions").glob("unreadable*"))


@pytest.mark.parametrize("what", ["cut", "size"])
def test_too_many_damaged_files_stop_the_run_and_nothing_is_lost(evaluate, root, tmp_path, what):
    copy = tmp_path / "copy"
    shutil.copytree(root, copy)
    target = copy / "fog" / "5" / "red" / "1.png"
    if what == "cut":
        target.write_bytes(target.read_bytes()[:200])
    else:
        Image.new("RGB", (50, 40)).save(target)
    words = (
        "1 of 8 images cannot be used",
        "more than 1 %",
        "damaged" if what == "cut" else "50 × 40 px",
    )
    assert_rejected(evaluate(copy), *words)
    kept = list((tmp_path / "out" / "predictions").glob("gaussian_noise--*.parquet"))
    assert kept
    shutil.copy(root / "fog" / "5" / "red" / "1.png", target)
    assert evaluate(copy).status == 0


def test_an_image_that_is_unreadable_in_the_first_folder_does_not_hide_the_size(cheap):
    (cheap / "gaussian_noise" / "1" / "c0" / "0.png").write_bytes(b"")
    assert load(cheap).sizes[0] == (20, 20)


def test_first_images_that_are_all_damaged_are_rejected(evaluate, cheap):
    for file in (cheap / "gaussian_noise" / "1").rglob("*.png"):
        file.write_bytes(b"")
    assert_rejected(evaluate(cheap), "first images in", "cannot be read")


# Going on


def test_an_interrupted_run_from_files_goes_on_and_repeats_nothing(
    run, root, tmp_path, monkeypatch
):
    # these predict a few images besides the samples, which are counted here, or need what they do
    for check in ("self_test", "check_labels", "check_matching", "reject_changed"):
        monkeypatch.setattr(f"eyechart.pipeline.evaluate.{check}", lambda *_: [])
    asked = []

    def interrupted(images):
        if len(asked) == 5:
            raise KeyboardInterrupt
        asked.append(len(images))
        return small_models.colors(images)

    given = ("--images", root, "--out", tmp_path / "out", *SMALL, "--batch-size", 8)
    monkeypatch.setattr(small_models, "stopped", interrupted, raising=False)
    ran = run("evaluate", "small_models:stopped", *given)
    assert ran.status == 130 and "to resume" in ran.err
    # before the rows: a check of the model, images of nothing
    before = sum(asked[2:])
    again = []

    def counted(images):
        again.append(len(images))
        return small_models.colors(images)

    monkeypatch.setattr(small_models, "stopped", counted)
    assert run("evaluate", "small_models:stopped", *given).status == 0
    assert 0 < sum(again[1:]) == 80 - before < 80
    straight = ec.evaluate(
        "small_models:colors", root, out=tmp_path / "b", n_bootstrap=5, humans=None
    )
    assert straight.images.n_images == 8
    for name in TWO:
        own, other = (
            {key[:2]: (row[0], row[3]) for key, row in recorded(tmp_path / out, name).items()}
            for out in ("out", "b")
        )
        assert own == other


def test_a_run_from_files_can_be_looked_at_again_without_predicting(evaluate, root, tmp_path):
    evaluate(root)
    path = tmp_path / "out" / "predictions" / "fog.parquet"
    before = (path.stat().st_mtime_ns, path.read_bytes())
    evaluate(root, "--n-bootstrap", 30)
    assert (path.stat().st_mtime_ns, path.read_bytes()) == before


# How much listing costs


@pytest.mark.slow
def test_listing_100_000_files_takes_seconds_and_little_memory(tmp_path):
    import time
    import tracemalloc

    one = cheap_folder(tmp_path / "one", classes=1, each=1)
    levels = (one / "fog" / "1" / "c0" / "0.png").read_bytes()
    folders = {}
    for name in TWO:
        folders[name] = tmp_path / "files" / name
        for severity in range(1, 6):
            for label in range(100):
                folder = folders[name] / str(severity) / f"n{label:08d}"
                folder.mkdir(parents=True)
                for place in range(100):
                    file = f"ILSVRC2012_val_{100 * label + place:08d}.png"
                    (folder / file).write_bytes(levels)
    tracemalloc.start()
    before = time.perf_counter()
    found = list_published(tmp_path / "files", folders)
    assert time.perf_counter() - before < 20
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(found.listed) == 10_000
    assert kept < 10e6 and peak < 20e6
