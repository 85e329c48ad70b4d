"""Corrupted images that others made, under names that are known nowhere: folders and arrays."""

import csv
import json
import shutil

import numpy as np
import pytest
from PIL import Image

import eyechart as ec
from commands import assert_rejected, image_file
from eyechart.testsets.plan import Plan
from eyechart.testsets.published_files import find_published
from published_files import arrays, cheap_folder, publish
from small_models import save_images

MODEL = "small_models:four_classes"
SMALL = ("--bins", 9, "--min-per-bin", 3, "--n-bootstrap", 20, "--humans", "none")
THREE_D = ("near_focus", "far_focus", "bit_error", "color_quant", "flash", "fog_3d", "h265_abr",
           "h265_crf", "iso_noise", "low_light", "xy_motion_blur", "z_motion_blur")  # fmt: skip
BAR = ("blue_noise_sample", "brownish_noise", "caustic_refraction", "checkerboard_cutout",
       "cocentric_sine_waves", "inverse_sparkles", "perlin_noise", "plasma_noise",
       "single_frequency_greyscale", "sparkles")  # fmt: skip


@pytest.fixture
def evaluate(run, tmp_path):
    def call(images, *arguments, model=MODEL, out=tmp_path / "out"):
        return run("evaluate", model, "--images", images, "--out", out, *SMALL, *arguments)

    return call


@pytest.fixture
def made(tmp_path):
    """Clean images, and fog and Gaussian noise under names of somebody's own."""
    clean = save_images(tmp_path / "clean", each=2)
    root = publish(clean, tmp_path / "files")
    (root / "fog").rename(root / "sea_mist")
    (root / "gaussian_noise").rename(root / "grain")
    return clean, root


def results(out):
    return json.loads((out / "results.json").read_text("utf-8"))


def plan_of(root):
    return find_published(root).plan(Plan())


def test_any_names_give_the_scores_that_the_same_files_give_under_known_names(
    evaluate, made, tmp_path
):
    clean, root = made
    own = ("--clean", clean, "--stimulus", "native")
    assert evaluate(root, *own, model="small_models:pale_colors").status == 0
    known = publish(clean, tmp_path / "known")
    ran = evaluate(known, *own, model="small_models:pale_colors", out=tmp_path / "other")
    assert ran.status == 0
    found, expected = results(tmp_path / "out"), results(tmp_path / "other")
    assert found["config"]["suite"] == "files"
    assert found["config"]["corruptions"] == ["grain", "sea_mist"]
    mine, known = (each["models"][0]["spaces"]["native"] for each in (found, expected))
    assert mine["corruptions"]["grain"] == known["corruptions"]["gaussian_noise"]
    assert mine["corruptions"]["sea_mist"] == known["corruptions"]["fog"]
    assert mine["means"] == known["means"]


def test_the_report_shows_them(run, evaluate, made, tmp_path):
    clean, root = made
    assert evaluate(root, "--clean", clean, "--stimulus", "native").status == 0
    made_report = run("report", tmp_path / "out")
    assert made_report.status == 0, made_report.err
    page = next((tmp_path / "out").glob("*.html")).read_text("utf-8")
    assert "Sea mist" in page and "Corrupted images" in page


@pytest.mark.parametrize(
    ("names", "suite"),
    [
        (THREE_D, "imagenet-3dcc"),
        (BAR, "imagenet-c-bar"),
        (("flash",), "imagenet-3dcc"),
        (("flash", "sparkles"), "files"),
        (("speed_lines", "mist"), "files"),
    ],
)
def test_published_benchmarks_are_known_by_their_names(tmp_path, names, suite):
    root = cheap_folder(tmp_path / "any", classes=1, each=1, corruptions=names)
    plan = plan_of(root)
    assert plan.suite == suite
    assert sorted(plan.settings()["corruptions"]) == sorted(names)
    assert all(entry.at_levels for entry in plan.entries())


def test_the_mean_error_is_over_all_of_the_suite(evaluate, tmp_path):
    root = cheap_folder(tmp_path / "files", corruptions=("mist", "streaks", "veil"))
    with (tmp_path / "mine.csv").open("w", newline="") as file:
        rows = [("corruption", "error"), ("mist", 0.5), ("streaks", 0.25), ("veil", 0.75)]
        csv.writer(file).writerows(rows)
    ran = evaluate(root, "--baseline", tmp_path / "mine.csv")
    assert ran.status == 0, ran.err
    space = results(tmp_path / "out")["models"][0]["spaces"]["native"]
    errors = {name: own["error"]["value"] for name, own in space["corruptions"].items()}
    expected = np.mean([errors["mist"] / 0.5, errors["streaks"] / 0.25, errors["veil"] / 0.75])
    assert space["corruption_error"]["mce"]["value"] == pytest.approx(expected)
    assert space["means"]["error"]["value"] == pytest.approx(np.mean(list(errors.values())))


def test_names_that_are_known_come_first_and_others_on_request(evaluate, tmp_path):
    root = cheap_folder(tmp_path / "files", corruptions=("fog", "mist"))
    ran = evaluate(root)
    assert ran.status == 0 and "Ignored because they are not in imagenet-c: mist." in ran.out
    assert results(tmp_path / "out")["config"]["suite"] == "imagenet-c"
    both = ("--corruption", "fog", "--corruption", "mist")
    ran = evaluate(root, *both, out=tmp_path / "both")
    assert ran.status == 0 and "Ignored because" not in ran.out
    assert results(tmp_path / "both")["config"]["corruptions"] == ["fog", "mist"]
    assert results(tmp_path / "both")["config"]["suite"] == "files"


@pytest.mark.parametrize(
    ("whole", "part", "suite"),
    [
        ("imagenet-c", "flash", "imagenet-c"),
        ("imagenet-c", "sparkles", "imagenet-c"),
        (THREE_D, "fog", "imagenet-3dcc"),
        (BAR, "flash", "imagenet-c-bar"),
        (("fog",), "flash", "imagenet-c"),
    ],
)
def test_a_whole_benchmark_comes_before_a_part_of_another(tmp_path, whole, part, suite):
    names = ec.list_corruptions(whole) if isinstance(whole, str) else whole
    for name in (*names, part):
        (tmp_path / name / "1" / "c").mkdir(parents=True)
    published = find_published(tmp_path)
    plan = published.plan(Plan())
    assert plan.suite == suite and sorted(plan.corruptions) == sorted(names)
    assert published.notes(plan) == (f"Ignored because they are not in {suite}: {part}.",)
    both = published.plan(Plan("files"))
    assert both.suite == "files" and sorted(both.corruptions) == sorted((*names, part))
    assert published.notes(both) == ()


def test_files_can_be_named_as_the_suite_that_runs_of_them_have(evaluate, made, tmp_path):
    clean, root = made
    ran = evaluate(root, "--suite", "files")
    assert ran.status == 0, ran.err
    assert results(tmp_path / "out")["config"]["suite"] == "files"
    known = publish(clean, tmp_path / "known")
    ran = evaluate(known, "--suite", "files", out=tmp_path / "other")
    assert_rejected(ran, "corruptions of imagenet-c, but the suite is files")


def test_clean_images_that_are_not_read_are_told_of(evaluate, made):
    clean, root = made
    (clean / "blue" / "more.heic").write_bytes(b"x")
    ran = evaluate(root, "--clean", clean, "--stimulus", "native")
    assert ran.status == 0
    assert "1 file is skipped because the format is not supported (.heic)" in ran.out + ran.err


def test_arrays_of_unknown_names_beside_known_ones_are_read_on_request(evaluate, tmp_path):
    root = arrays(tmp_path / "cifar-c", corruptions=("fog", "gaussian_noise"))
    (root / "gaussian_noise.npy").rename(root / "grain.npy")
    np.save(root / "sums.npy", np.zeros(3))
    ran = evaluate(root)
    assert ran.status == 0, ran.err
    assert "Ignored because they are not in imagenet-c: grain, sums.npy." in ran.out
    assert results(tmp_path / "out")["config"]["corruptions"] == ["fog"]
    ran = evaluate(root, "--corruption", "grain", out=tmp_path / "grain")
    assert ran.status == 0, ran.err
    assert results(tmp_path / "grain")["config"]["corruptions"] == ["grain"]


def test_arrays_of_any_name_are_read(evaluate, tmp_path):
    root = arrays(tmp_path / "cifar-c-bar", corruptions=("fog", "gaussian_noise"))
    (root / "fog.npy").rename(root / "mist.npy")
    (root / "gaussian_noise.npy").rename(root / "grain.npy")
    ran = evaluate(root, "--clean", root.parent / "clean.npy", model="small_models:pale_colors")
    assert ran.status == 0, ran.err
    assert results(tmp_path / "out")["config"]["corruptions"] == ["grain", "mist"]


def test_half_a_tree_is_rejected_with_what_is_missing(evaluate, tmp_path):
    root = cheap_folder(tmp_path / "files", corruptions=("mist", "streaks"))
    shutil.rmtree(root / "mist" / "3")
    assert_rejected(evaluate(root), "is incomplete", "mist has no folder 3")
    shutil.rmtree(root / "mist")
    (root / "mist").mkdir()
    assert_rejected(evaluate(root), "CORRUPTION/SEVERITY/CLASS/", "streaks has", "mist has none")
    assert_rejected(evaluate(root / "streaks"), "contains a single corruption", "parent folder")


def test_other_suites_cannot_be_asked_of_them_nor_they_of_clean_images(evaluate, made, tmp_path):
    clean, root = made
    assert_rejected(evaluate(root, "--suite", "vcr"), "other corruptions", "--suite is vcr")
    words = "no corruptions of the suite imagenet-c"
    assert_rejected(evaluate(root, "--suite", "imagenet-c"), words)
    assert_rejected(evaluate(clean, "--suite", "imagenet-3dcc"), "is read from files", "--images")
    assert not (tmp_path / "out").exists()


def test_class_folders_are_class_folders_whatever_lies_in_them(tmp_path):
    for number in range(1, 6):
        image_file(tmp_path / "digits" / str(number) / "a.png")
        image_file(tmp_path / "kinds" / "cat" / str(number) / "a.png")
    (tmp_path / "plain" / "dog").mkdir(parents=True)
    for name in ("digits", "kinds", "plain"):
        assert find_published(tmp_path / name) is None


def test_style_transfer_is_read_from_files_without_a_network(evaluate, tmp_path, monkeypatch):
    monkeypatch.delenv("EYECHART_STYLE_TRANSFER", raising=False)
    root = cheap_folder(tmp_path / "files", corruptions=("style_transfer", "spatter"))
    (tmp_path / "mine.csv").write_text("corruption,error\nstyle_transfer,0.5\n")
    one = ("--corruption", "style_transfer", "--baseline", tmp_path / "mine.csv")
    ran = evaluate(root, *one)
    assert ran.status == 0, ran.err
    found = results(tmp_path / "out")
    assert found["config"]["suite"] == "imagenet-c-extra"
    assert found["config"]["corruptions"] == ["style_transfer"]
    space = found["models"][0]["spaces"]["native"]
    error = space["corruptions"]["style_transfer"]["error"]["value"]
    ce = space["corruption_error"]["ce"]["style_transfer"]["value"]
    assert ce == pytest.approx(error / 0.5)
    again = evaluate(root, *one)
    assert again.status == 0, again.err
    clean = save_images(tmp_path / "clean", each=1)
    made_here = evaluate(clean, "--suite", "imagenet-c-extra", "--corruption", "style_transfer",
                         "--stimulus", "native", out=tmp_path / "made")  # fmt: skip
    assert_rejected(made_here, "needs a trained network")


def test_corruption_errors_of_style_transfer_are_divided_by_alexnets():
    # appendix C: "Style Transfer: 75.7%", which is no part of mCE
    found = ec.corruption_error({"style_transfer": 0.757 / 2}, "alexnet")
    assert found.values["style_transfer"] == pytest.approx(0.5)
    fifteen = dict.fromkeys(ec.list_corruptions("imagenet-c"), 0.5)
    with pytest.raises(ec.UsageError, match="style_transfer is not part of the mean"):
        ec.mean_corruption_error({**fifteen, "style_transfer": 0.9}, "alexnet")


def test_images_of_a_tree_may_be_of_any_format(tmp_path):
    root = cheap_folder(tmp_path / "files", classes=1, each=1, corruptions=("mist",), suffix=".bmp")
    with Image.open(root / "mist" / "1" / "c0" / "0.bmp") as opened:
        assert opened.size == (20, 20)
    assert plan_of(root).corruptions == ("mist",)
