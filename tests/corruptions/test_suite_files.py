"""Suites as files: ranges of severities, benchmarks put together, what is written reads back."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import yaml
from hypothesis import given
from hypothesis import strategies as st

import eyechart as ec
from calling import CPU, photo_levels, randomness
from eyechart.core.randomness import ImageRandom, hash64
from eyechart.corruptions.suites.apply import corrupt_batch, draw_random
from eyechart.corruptions.suites.assets import assets_of
from eyechart.corruptions.suites.published import PUBLISHED
from eyechart.corruptions.suites.strength import draw_severities, draw_strengths
from eyechart.corruptions.suites.suite import Suite, find_entry, load_suite, parse_suite
from eyechart.corruptions.suites.suite_file import choose_entries, suite_text, write_suite
from eyechart.images.identity import named_keys
from eyechart.testsets.plan import Plan
from eyechart.testsets.samples import plan_samples
from places import ROOT
from small_models import save_images

pytestmark = pytest.mark.usefixtures("with_styles")

HEAD = "name: mine\ntitle: Mine\nsource: me\ncorruptions:\n"
RANGES = HEAD + (
    '  - {same_as: "imagenet-c:fog", severity: [0.5, 3.5]}\n'
    '  - {same_as: "vcr:vcr/blur", severity: [1, 2]}\n'
    '  - {same_as: "imagenet-c:contrast"}\n'
)
NOC = ("quantization", "blur", "vertical_artifacts", "rain", "border", "shear", "brightness", "hue")
TEN = [0.65, 0.95, 1.25, 1.55, 1.85, 2.15, 2.45, 2.75, 3.05, 3.35]
"""The severities that are drawn from 0.5 to 3.5."""


# How strong where nobody says


def drawn(entry, count=4000, seed=0):
    return draw_strengths(entry, randomness(count, seed))


def test_without_levels_parameters_are_drawn_over_the_domain():
    severity, values = drawn(find_entry("noc/border"))
    assert np.isnan(severity).all()
    assert set(values["thickness"]) == set(range(9, 47))
    assert values["grey"].min() < 0.01 < 0.99 < values["grey"].max()


def test_with_levels_each_of_the_five_is_drawn_equally_often():
    severity, values = drawn(find_entry("fog"))
    levels, counts = np.unique(severity, return_counts=True)
    assert levels.tolist() == [1, 2, 3, 4, 5]
    assert values == {}
    # binomial, 800 each: four standard deviations
    assert np.abs(counts - 800).max() < 4 * np.sqrt(4000 * 0.2 * 0.8)


@pytest.mark.parametrize("name", ["fog", "vcr/shot_noise"])
def test_a_range_of_severities_is_drawn_evenly_and_comes_before_all_else(name):
    entry = replace(find_entry(name), severity=(0.5, 3.5))
    severity, values = drawn(entry)
    assert values == {}
    levels, counts = np.unique(severity, return_counts=True)
    # the middles of ten equal parts of the range
    np.testing.assert_allclose(levels, TEN, rtol=1e-12)
    # binomial, 400 each: four standard deviations
    assert np.abs(counts - 400).max() < 4 * np.sqrt(4000 * 0.1 * 0.9)


def test_a_drawn_strength_belongs_to_the_image_and_its_draw_alone():
    fog = find_entry("fog")
    keys = torch.arange(50)
    whole = draw_random(fog, keys, 3, [2] * 50, CPU)
    half = draw_random(fog, keys[25:], 3, [2] * 25, CPU)
    np.testing.assert_array_equal(draw_strengths(fog, whole)[0][25:], draw_strengths(fog, half)[0])
    other = draw_random(fog, keys, 3, [1] * 50, CPU)
    assert (draw_strengths(fog, whole)[0] != draw_strengths(fog, other)[0]).any()


def test_severities_in_a_range_of_ones_own_lie_in_it():
    severity = draw_severities(randomness(1000), 2.0, 2.5)
    assert 2 < severity.min() < severity.max() < 2.5


@pytest.mark.parametrize("suite", ["imagenet-c", "imagenet-c-extra", "vcr", "noc-candidates"])
def test_every_published_corruption_can_be_drawn_and_applied(suite):
    # large enough for the mildest of VCR's kernels, which small pictures do not feel
    images = photo_levels(112, 112, 2)
    keys = named_keys(["one", "two"], 2)
    for entry in load_suite(suite):
        random = draw_random(entry, keys, 0, [7] * 2, CPU)
        assets = assets_of(entry)
        made = corrupt_batch(images, entry, draw_strengths(entry, random), random, assets)
        assert made.shape == images.shape
        assert (made != images).any(), entry.name


def test_what_is_drawn_for_training_is_what_a_test_set_draws(tmp_path):
    images = ec.load_images(save_images(tmp_path, 3), "native")
    (clean, samples) = plan_samples(
        images, Plan("noc-candidates", 24, seed=5, corruptions=("noc/border",))
    )
    assert len(clean) == 12
    keys = named_keys([images.digests[place] for place in samples.image], len(samples))
    random = draw_random(samples.entry, keys, 5, samples.draw.tolist(), CPU)
    for name, values in draw_strengths(samples.entry, random)[1].items():
        np.testing.assert_array_equal(values, samples.values[name])


# The key `severity`


def test_a_file_may_give_the_range_that_severities_are_drawn_from():
    fog, blur, contrast = parse_suite(RANGES, "mine")
    assert (fog.severity, blur.severity, contrast.severity) == ((0.5, 3.5), (1, 2), None)
    assert (fog.at_levels, blur.at_levels, contrast.at_levels) == (False, False, True)
    assert fog == replace(find_entry("fog"), suite="mine", severity=(0.5, 3.5))


def test_a_range_of_severities_is_part_of_what_tells_entries_apart():
    fog, _, contrast = parse_suite(RANGES, "mine")
    assert "severity=(0.5, 3.5)" in repr(fog)
    assert fog.fingerprint != replace(fog, severity=None).fingerprint
    assert "severity=None" in contrast.fingerprint


def test_notes_are_not_part_of_what_tells_entries_apart():
    (rain,) = (entry for entry in load_suite("imagenet-noc") if entry.name == "noc/rain")
    assert rain.note and rain.variants
    variants = {name: {**fields, "note": "other"} for name, fields in rain.variants.items()}
    other = replace(rain, note="other", variants=variants)
    assert other.fingerprint == rain.fingerprint
    for name in rain.variants:
        assert other.in_variant(name).fingerprint == rain.in_variant(name).fingerprint
        assert rain.in_variant(name).fingerprint != rain.fingerprint
    assert replace(rain, version=rain.version + 1).fingerprint != rain.fingerprint


def test_fingerprints_are_those_of_the_first_release():
    # a test set that was drawn must still be read, unless its pixels are others now
    known = {
        ("imagenet-noc", ()): "bb67066f5968d4f5",
        ("vcr", ("vcr/gaussian_noise", "vcr/median_blur")): "b4563d0febfb68c8",
        ("imagenet-c", ("brightness", "contrast")): "d4711093ec7dfbc6",
    }
    for (suite, corruptions), strengths in known.items():
        assert Plan(suite, corruptions=corruptions).settings()["strengths"] == strengths


@pytest.mark.parametrize(
    ("item", "sentence"),
    [
        ('{same_as: "imagenet-c:fog", severity: [3, 1]}', "two increasing numbers in [0, 5]"),
        ('{same_as: "imagenet-c:fog", severity: [1, 6]}', "two increasing numbers in [0, 5]"),
        ('{same_as: "imagenet-c:fog", severity: [-1, 2]}', "two increasing numbers in [0, 5]"),
        ('{same_as: "imagenet-c:fog", severity: [2]}', "two increasing numbers in [0, 5]"),
        ('{same_as: "imagenet-c:fog", severity: 3}', "severity must be a list of numbers"),
        ('{same_as: "imagenet-c:fog", severity: [.nan, 3]}', "two increasing numbers"),
        (
            '{same_as: "imagenet-c:fog", note: mine}',
            "only severity and variant are allowed, got note",
        ),
        ("{name: fog, group: weather, severity: [1, 2]}", "severity requires levels or a path"),
        ("{name: fog, group: weather, severity: 2}", "severity must be of type list"),
    ],
)
def test_a_range_that_cannot_be_is_rejected_in_one_sentence(item, sentence):
    with pytest.raises(ec.UsageError) as error:
        parse_suite(f"{HEAD}  - {item}\n", "mine.yaml")
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


def test_a_suite_may_name_a_variant_of_another():
    text = HEAD + '  - {same_as: "noc-candidates:noc/rain", variant: paper}\n'
    (rain,) = parse_suite(text, "mine")
    assert rain == replace(find_entry("noc/rain", "paper"), suite="mine")
    with pytest.raises(ec.UsageError, match="has no variant 'papr'"):
        parse_suite(text.replace("paper", "papr"), "mine")


def test_a_test_set_draws_severities_from_their_range_and_shows_levels_elsewhere(tmp_path):
    images = ec.load_images(save_images(tmp_path / "images", 3), "native")
    path = tmp_path / "mine.yaml"
    path.write_text(RANGES)
    found = {samples.name: samples for samples in plan_samples(images, Plan(str(path), 60, seed=1))}
    fog, blur, contrast = (found[name] for name in ("fog", "vcr/blur", "contrast"))
    assert len(fog) == len(blur) == 60
    assert len(contrast) == 12 * 5
    np.testing.assert_allclose(np.unique(fog.severity), TEN, rtol=1e-12)
    # its parameters are those of the severity: 3 to 15, the first quarter of it
    assert set(blur.values["kernel"]) <= {3, 5, 7}
    again = plan_samples(images, Plan(str(path), 60, seed=1))
    np.testing.assert_array_equal(again[1].severity, found["fog"].severity)


def test_a_suite_with_ranges_can_be_listed_drawn_and_evaluated(run, tmp_path):
    images = save_images(tmp_path / "images", 4)
    path = tmp_path / "mine.yaml"
    path.write_text(RANGES)
    assert run("list", "corruptions", "--suite", path).out.split() == [
        "fog",
        "vcr/blur",
        "contrast",
    ]
    done = run(
        "evaluate", "small_models:colors", "--images", images, "--stimulus", "native",
        "--suite", path, "--n", 60, "--bins", 4, "--min-per-bin", 3, "--n-bootstrap", 5,
        "--out", tmp_path / "out",
    )  # fmt: skip
    assert done.status == 0, done.err
    assert "fog" in done.out
    saved = yaml.safe_load((tmp_path / "out" / "results.json").read_text())
    rows = saved["models"][0]["spaces"]["native"]["corruptions"]
    levels = {name: row["error_by_severity"] for name, row in rows.items()}
    assert levels["fog"] == levels["vcr/blur"] == {}
    assert set(levels["contrast"]) == {"1", "2", "3", "4", "5"}
    drawn = run("testset", "make", "--images", images, "--suite", path, "--stimulus", "native",
    "--n", 20,
                "--out", tmp_path / "t.parquet")  # fmt: skip
    assert drawn.status == 0, drawn.err


# Writing


def renamed(suite, name="mine"):
    """The suite under names that are nobody's, so that every entry is written in full."""
    entries = tuple(
        replace(entry, suite=name, name=f"{name}/{entry.name.replace('/', '-')}") for entry in suite
    )
    return Suite(name, suite.title, suite.source, entries)


@pytest.mark.parametrize("name", PUBLISHED)
def test_what_is_written_reads_back_the_same(name, tmp_path):
    suite = load_suite(name)
    variants = [
        replace(entry.in_variant(variant), name=f"{entry.name}-{variant}")
        for entry in suite
        for variant in entry.variants
    ]
    for each in (suite, renamed(suite), replace(suite, entries=(*suite, *variants))):
        write_suite(each, tmp_path / "a.yaml")
        assert load_suite(str(tmp_path / "a.yaml")) == each


@given(
    sigma=st.tuples(*[st.floats(1e-300, 1, allow_subnormal=False)] * 2),
    severity=st.none() | st.tuples(st.floats(0, 2.4), st.floats(2.5, 5)),
    note=st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=40),
    name=st.sampled_from(["yes", "123", "a: b", "- x", "noc/blur", "ü", "1e3", "#"]),
)
def test_any_numbers_and_names_read_back_the_same(sigma, severity, note, name):
    entry = replace(
        find_entry("vcr/gaussian_noise"),
        suite="mine", name=name, path={"sigma": sigma}, severity=severity, note=note,
    )  # fmt: skip
    suite = Suite("mine", note or "title", "source", (entry,))
    assert parse_suite(suite_text(suite), "mine").entries == (entry,)


def test_published_entries_are_written_as_whose_they_are():
    fog = replace(find_entry("fog"), suite="mine", severity=(0.5, 3))
    rain = replace(find_entry("noc/rain", "paper"), suite="mine")
    blur = replace(find_entry("noc/blur"), suite="mine")
    changed = replace(blur, domain={"weight": (0.1, 0.2), "side": (3.0, 3.0)}, name="x")
    lines = suite_text(Suite("mine", "t", "s", (fog, rain, blur, changed))).splitlines()
    assert "  - {same_as: 'imagenet-c:fog', severity: [0.5, 3]}" in lines
    assert "  - {same_as: 'noc-candidates:noc/rain', variant: paper}" in lines
    assert "  - same_as: noc-candidates:noc/blur" in lines
    assert "    domain: {weight: [0.1, 0.2], side: [3, 3]}" in lines


def test_nothing_but_a_suite_is_overwritten(tmp_path):
    suite = load_suite("imagenet-noc")
    foreign = tmp_path / "a.yaml"
    foreign.write_text("my: notes\n")
    with pytest.raises(ec.UsageError, match="is not a suite"):
        write_suite(suite, foreign)
    assert foreign.read_text() == "my: notes\n"
    own = tmp_path / "b.yaml"
    write_suite(load_suite("vcr"), own)
    write_suite(suite, own)
    assert load_suite(str(own)) == suite
    assert {path.name for path in tmp_path.iterdir()} == {"a.yaml", "b.yaml"}
    with pytest.raises(ec.UsageError, match=r"must end in \.yaml"):
        write_suite(suite, tmp_path / "b.json")
    with pytest.raises(ec.UsageError, match="No such folder"):
        write_suite(suite, tmp_path / "none" / "b.yaml")


# Choosing


def test_imagenet_noc_is_eight_of_the_candidates():
    published = load_suite("imagenet-noc")
    chosen = choose_entries(
        [load_suite("noc-candidates")], [f"noc/{name}" for name in NOC],
        published.name, published.title, published.source,
    )  # fmt: skip
    assert chosen == published
    assert parse_suite(suite_text(chosen), "x") == published


def test_corruptions_of_several_suites_become_one():
    suites = [load_suite(name) for name in ("noc-candidates", "imagenet-c", "imagenet-noc")]
    chosen = choose_entries(suites, ["fog", "noc/hue", "rain"], "mine", "t", "s")
    assert [entry.name for entry in chosen] == ["fog", "noc/hue", "noc/rain"]
    assert {entry.suite for entry in chosen} == {"mine"}


def test_what_cannot_be_chosen_is_rejected_in_one_sentence():
    noc, benchmark = load_suite("noc-candidates"), load_suite("imagenet-c")
    other = Suite("other", "t", "s", (replace(find_entry("fog"), suite="other", severity=(1, 2)),))
    for suites, names, sentence in (
        ([noc], ["noc/hu"], r"Did you mean 'noc/hue'\?"),
        ([noc], ["contrst"], "Did you mean 'noc/contrast'"),
        ([noc], ["gaussian_noise"], "in noc-candidates, but imagenet-c has it: use that suite"),
        ([noc, benchmark], ["uniform_noise"], "in noc-candidates or imagenet-c, but vcr has it"),
        ([noc], ["gausian_noise"], "'gaussian_noise' in imagenet-c or 'vcr/gaussian_noise' in vcr"),
        ([benchmark], ["imagenet-c/fog"], r"Did you mean 'fog'\?"),
        ([noc], [], "at least one"),
        ([noc], ["noc/hue", "hue"], "given twice"),
        (
            [benchmark, other],
            ["fog"],
            "imagenet-c and other define different corruptions named fog",
        ),
        ([noc, load_suite("vcr")], ["blur"], "'noc/blur' or 'vcr/blur'"),
    ):
        with pytest.raises(ec.UsageError, match=sentence):
            choose_entries(suites, names, "mine", "t", "s")


def test_a_strength_is_drawn_apart_from_the_corruptions_own_numbers():
    # a stream of its own: no parameter and no pixel hangs together with how strong it is
    keys = torch.arange(2000)
    random = ImageRandom(keys, [hash64(0, "x", 0)] * 2000, CPU)
    severity = draw_severities(random, 0, 1)
    for parameter in ("angle", "direction", "grey"):
        assert abs(np.corrcoef(severity, random.scalar(f"parameter {parameter}"))[0, 1]) < 0.1


def test_every_published_suite_cites_its_paper():
    """Authors and title are those of CITATION.cff, which is written once for all."""
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))["references"]
    works = {work["authors"][0]["family-names"]: work for work in cited}
    for name, first in (
        ("imagenet-c", "Hendrycks"), ("imagenet-c-extra", "Hendrycks"), ("vcr", "Shen"),
        ("imagenet-noc", "Laugros"), ("noc-candidates", "Laugros"),
    ):  # fmt: skip
        source, work = load_suite(name).source, works[first]
        assert work["title"].lower() in source.lower(), name
        assert source.startswith(", ".join(a["family-names"] for a in work["authors"])), name


def test_the_version_is_cited():
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))["version"] == ec.__version__
