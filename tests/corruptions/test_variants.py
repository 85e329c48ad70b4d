"""What a paper says where its code does otherwise: one corruption at a time, and whole suites."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

import eyechart as ec
from calling import CPU, photo, photo_levels
from commands import assert_rejected, image_file
from eyechart.cli.overlap.run import entries_of
from eyechart.core.randomness import ImageRandom
from eyechart.corruptions.suites.strength import draw_from_domain
from eyechart.corruptions.suites.suite import find_entry, load_suite
from eyechart.reports.titles import suite_title
from eyechart.testsets.plan import Plan
from eyechart.testsets.testset import read_testset
from report_runs import SHARP, evaluate, save_hues

WITH_PAPER = ("imagenet-noc", "noc-candidates", "vcr")

# ---- suites


@pytest.mark.parametrize("name", WITH_PAPER)
def test_a_suite_in_a_variant_has_it_wherever_a_corruption_has_it(name):
    usual, paper = load_suite(name), load_suite(f"{name}@paper")
    assert paper.name == f"{name}@paper"
    assert [entry.name for entry in paper] == [entry.name for entry in usual]
    for entry, own in zip(usual, paper, strict=True):
        has_it = "paper" in entry.variants
        assert own.variant == ("paper" if has_it else None)
        assert own.suite == paper.name
        expected = find_entry(entry.name, "paper" if has_it else None)
        assert (own.function, own.domain, own.path) == (
            expected.function, expected.domain, expected.path
        )  # fmt: skip
    assert sum(entry.variant == "paper" for entry in paper) >= 3


def test_a_file_of_ones_own_has_variants_too_and_may_have_an_at_in_its_name(tmp_path):
    text = (
        "name: mine\ntitle: Mine\nsource: me\ncorruptions:\n"
        '  - {same_as: "noc-candidates:noc/rain"}\n'
    )
    path = tmp_path / "mine@home.yaml"
    path.write_text(text)
    assert [entry.variant for entry in load_suite(str(path))] == [None]
    assert [entry.variant for entry in load_suite(f"{path}@paper")] == ["paper"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("imagenet-c@paper", ("imagenet-c has no variant 'paper'", "it has none")),
        ("vcr@papre", ("vcr has no variant 'papre'", "it has: paper")),
        ("vcr@", ("has no variant ''",)),
        ("vrc@paper", ("Unknown suite 'vrc'", "vcr")),
    ],
)
def test_a_variant_that_is_not_there_is_an_error_in_one_sentence(run, name, words):
    assert_rejected(run("list", "corruptions", "--suite", name), *words)


def test_what_is_drawn_from_a_variant_is_told_apart():
    usual, paper = (Plan(name).settings() for name in ("imagenet-noc", "imagenet-noc@paper"))
    assert paper["suite"] == "imagenet-noc@paper"
    assert paper["strengths"] != usual["strengths"]


def test_a_variant_has_a_title():
    assert suite_title("imagenet-noc@paper") == "ImageNet-NOC (paper variant)"
    assert suite_title("imagenet-noc") == "ImageNet-NOC"


def test_commands_take_a_suite_in_a_variant(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    listed = run("list", "corruptions", "--suite", "imagenet-noc@paper")
    assert "noc/rain" in listed.out.split()
    image = image_file(tmp_path / "one.png", size=(40, 40))
    sheet = run(
        "gallery", image, "--suite", "imagenet-noc@paper", "--columns", 1, "--size", 32,
        "--out", "sheet.png",
    )  # fmt: skip
    assert sheet.status == 0, sheet.err
    made = run(
        "testset", "make", "--images", save_hues(tmp_path / "hues", each=1, side=48), "--suite",
        "imagenet-noc@paper", "--corruption", "noc/rain", "--corruption", "noc/hue",
        "--n", 8, "--stimulus", "native", "--out", "set.parquet",
    )  # fmt: skip
    assert made.status == 0, made.err
    testset = read_testset("set.parquet")
    assert testset.plan.suite == "imagenet-noc@paper"
    assert [entry.variant for entry in testset.plan.entries()] == ["paper", None]
    assert set(testset.table["suite"].to_pylist()) == {"imagenet-noc@paper"}
    # lengths of a 224 px image: the paper's drops have a radius of 7, the code's of 6
    parameters = testset.table["parameters"].to_pylist()
    radii = [dict(own)["radius"] for own in parameters if own and "radius" in dict(own)]
    assert radii
    assert set(radii) == {7.0}


def test_a_corruption_takes_a_variant_behind_its_name(run, tmp_path):
    images = photo_levels(64, 64)
    usual, paper = (
        ec.corrupt(images, "noc/rain", severity=3, variant=variant) for variant in (None, "paper")
    )
    assert not torch.equal(usual, paper)
    assert torch.equal(ec.corrupt(images, "noc/rain@paper", severity=3), paper)
    assert ec.describe_corruption("noc/rain@paper").variant == "paper"
    with pytest.raises(ec.UsageError, match="give it once"):
        ec.corrupt(images, "noc/rain@paper", severity=3, variant="code")
    with pytest.raises(ec.UsageError, match="noc/hue has no variant 'paper'"):
        ec.corrupt(images, "noc/hue@paper", severity=3)
    image = image_file(tmp_path / "one.png", size=(40, 40))
    out = tmp_path / "out"
    made = run("corrupt", image, "-c", "noc/rain@paper", "-s", 3, "--out", out)
    assert made.status == 0, made.err
    settings = json.loads((out / "eyechart.json").read_text())["settings"]
    assert (settings["corruption"], settings["variant"]) == ("noc/rain", "paper")
    again = run("corrupt", image, "-c", "noc/rain", "--variant", "paper", "-s", 3, "--out", out)
    assert "1 already exist" in again.out


def test_a_study_of_overlaps_takes_a_suite_in_a_variant():
    functions = {entry.name: entry.function for entry in entries_of(["noc-candidates@paper"], [])}
    assert functions["noc/gaussian"] == "gaussian_noise"
    assert functions["noc/salt_pepper"] == "noc/salt_pepper_pixels"


def test_evaluate_takes_and_records_a_suite_in_a_variant(tmp_path):
    run = evaluate(
        save_hues(tmp_path / "hues", each=2, side=48), tmp_path / "run", "--suite", "vcr@paper",
        "--corruption", "motion_blur", "--n", 16, models=(SHARP,),
    )  # fmt: skip
    results = json.loads((run / "results.json").read_text())
    assert results["config"]["suite"] == "vcr@paper"
    rows = pq.read_table(run / "predictions" / "vcr-motion_blur.parquet").to_pylist()
    assert {row["suite"] for row in rows} == {"vcr@paper"}
    assert {name for row in rows for name, _ in row["parameters"]} == {"radius", "sigma", "angle"}


# ---- VCR: the paper names ImageNet-C's functions and the noise of Geirhos et al.


@pytest.mark.parametrize(
    ("name", "function", "values"),
    [
        ("vcr/motion_blur", "motion_blur", {"radius": 20, "sigma": 15, "angle": 30}),
        ("vcr/defocus_blur", "defocus_blur", {"radius": 6, "softness": 0.5}),
    ],
)
def test_the_blurs_that_the_paper_names_are_imagenet_cs(name, function, values):
    images = photo(224, 224, batch=1)
    own = ec.corrupt(images, name, variant="paper", **values)
    assert torch.equal(own, ec.corrupt(images, function, **values))


def test_the_papers_motion_blur_is_a_fading_trail_on_one_side():
    point = torch.zeros(1, 1, 224, 224)
    point[0, 0, 112, 112] = 1
    options = {"variant": "paper", "radius": 20, "sigma": 15, "angle": 0}
    result = ec.corrupt(point, "vcr/motion_blur", **options)[0, 0].double()
    across = result.sum(dim=0)
    weights = np.exp(-(np.arange(41) ** 2) / (2 * 15**2))
    before, after = across[:112], across[113:]
    assert min(before.sum(), after.sum()) < 1e-6
    trail = torch.cat((across[112:113], after if after.sum() > before.sum() else before.flip(0)))
    np.testing.assert_allclose(trail[:41], weights / weights.sum(), atol=1e-5)


def test_the_papers_glass_overwrites_pixels_and_the_repaired_one_loses_none():
    images = photo_levels(224, 224, batch=1)
    before = images.flatten(2).sort(dim=2).values

    def after(variant):
        result = ec.corrupt(images, "vcr/glass_blur", variant=variant, sigma=0, reach=6)
        return result.flatten(2).sort(dim=2).values

    assert torch.equal(after(None), before)
    assert not torch.equal(after("paper"), before)


def test_the_papers_frost_takes_a_piece_of_a_texture_and_not_the_whole():
    black = torch.zeros(12, 3, 224, 224)
    options = {"image_weight": 1, "frost_weight": 1, "texture": 0.5, "keys": list(range(12))}
    pieces = ec.corrupt(black, "vcr/frost", variant="paper", scale=1, **options)
    whole = ec.corrupt(black, "vcr/frost", **options)
    assert len({own.numpy().tobytes() for own in whole}) == 1
    assert len({own.numpy().tobytes() for own in pieces}) == 12


def test_the_papers_uniform_noise_is_gray_of_low_contrast_and_symmetric():
    images = photo(224, 224, batch=1)
    gray = images[:, 0] * 0.299 + images[:, 1] * 0.587 + images[:, 2] * 0.114
    options = {"variant": "paper", "contrast": 0.3, "color": 0}
    still, noisy = (
        ec.corrupt(images, "vcr/uniform_noise", width=width, **options) for width in (0, 0.2)
    )
    expected = (0.35 + 0.3 * gray).unsqueeze(1).expand(-1, 3, -1, -1)
    torch.testing.assert_close(still, expected, atol=1e-6, rtol=0)
    noise = noisy - still
    assert torch.equal(noisy[:, 0], noisy[:, 1])
    # uniform on ±w: no more than w, mean 0, standard deviation w/√3; nothing is clipped here
    assert noise.abs().max() <= 0.2 + 1e-6
    assert noise.mean().item() == pytest.approx(0, abs=0.003)
    assert noise.std().item() == pytest.approx(0.2 / 3**0.5, rel=0.01)


@pytest.mark.parametrize(
    ("name", "ranges"),
    [
        ("vcr/motion_blur", {"radius": (10, 40), "sigma": (10, 30), "angle": (-45, 45)}),
        ("vcr/uniform_noise", {"width": (0, 0.9), "contrast": (0.3, 0.3), "color": (0, 0)}),
        ("vcr/glass_blur", {"sigma": (0, 5), "reach": (1, 9), "passes": (1, 1)}),
        ("vcr/defocus_blur", {"radius": (0, 10), "softness": (0, 1)}),
        ("vcr/frost", {"image_weight": (0.01, 1), "frost_weight": (0.01, 1), "scale": (1, 1)}),
    ],
)
def test_variants_of_vcr_are_drawn_from_their_published_ranges(name, ranges):
    random = ImageRandom(torch.arange(400), [3] * 400, CPU)
    drawn = draw_from_domain(find_entry(name, "paper"), random)
    for parameter, (low, high) in ranges.items():
        values = drawn[parameter]
        assert values.min() >= low
        assert values.max() <= high
        assert np.ptp(values) >= 0.9 * (high - low)


# ---- ImageNet-NOC


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_the_papers_salt_and_pepper_hits_whole_pixels(dtype):
    white = 255 if dtype == torch.uint8 else 1.0
    images = torch.full((1, 3, 224, 224), 100 if dtype == torch.uint8 else 0.4, dtype=dtype)
    result = ec.corrupt(images, "noc/salt_pepper", variant="paper", amount=0.2)[0]
    hit = result != images[0]
    assert torch.equal(hit[0], hit[1])
    assert torch.equal(hit[0], hit[2])
    assert hit[0].double().mean().item() == pytest.approx(0.2, abs=0.006)
    assert set(result[:, hit[0]].unique().tolist()) == {0, white}
    assert (result[0][hit[0]] == white).double().mean().item() == pytest.approx(0.5, abs=0.02)
    # the code's, by default: every channel by itself
    usual = ec.corrupt(images, "noc/salt_pepper", amount=0.2)[0] != images[0]
    assert not torch.equal(usual[0], usual[1])
