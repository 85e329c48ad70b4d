"""Several human references: whose responses stand for a corruption, merging, and what is told."""

import json
import re

import numpy as np
import pytest

import eyechart as ec
from commands import assert_rejected
from eyechart.humans.combined import References, merge
from eyechart.humans.human_responses import make_responses, read_responses, write_responses
from eyechart.humans.reference import Reference, find_reference
from eyechart.images.labels.imagenet import wordnet_ids
from eyechart.results.published_results import implied_areas, packaged_areas
from places import ROOT
from report_runs import save_hues
from small_models import TINTS, save_images

CLASSES = (404, 294, 281, 409)
"""Of ImageNet, one for each tint: airplane, bear, cat and clock."""


PAGE = (ROOT / "docs" / "concepts" / "humans.md").read_text("utf-8")


def documented(first_cell):
    """Return the numbers in the page's table row that begins with this cell and has numbers."""
    rows = [line for line in PAGE.splitlines() if line.startswith(f"| {first_cell}")]
    (numbers,) = filter(None, (re.findall(r"\d\.\d{3}", row) for row in rows))
    return [float(number) for number in numbers]


def responses(*names, count=600, clean=0.9, seed=0, humans="ann bob"):
    """Responses to corruptions, right from .9 down along Δv, and as often to clean images."""
    numbers = np.random.default_rng(seed)
    corruption = np.repeat([*names, "clean"], count)
    change = np.where(corruption == "clean", 0, numbers.random(len(corruption)))
    right = numbers.random(len(corruption)) < np.where(change > 0, 0.9 - 0.7 * change, clean)
    same = numbers.random(len(corruption)) < 0.85 - 0.6 * change
    return make_responses(
        len(corruption),
        source="simulated",
        choices=16,
        label_space="entry16",
        corruption=corruption,
        subject=np.array(humans.split())[np.arange(len(corruption)) % len(humans.split())],
        delta_v=change,
        correct=right.astype(float),
        consistent=same.astype(float),
    )


@pytest.fixture
def written(tmp_path):
    def write(name, *corruptions, **more):
        path = tmp_path / f"{name}.parquet"
        write_responses(path, responses(*corruptions, **more))
        return path

    return write


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Tinted pictures in folders of four classes of ImageNet."""
    home = save_images(tmp_path_factory.mktemp("images") / "photos", each=3)
    for tint, place in zip(TINTS, CLASSES, strict=True):
        (home / tint).rename(home / wordnet_ids()[place])
    return home


@pytest.fixture(scope="module")
def enough(tmp_path_factory):
    """As many images of eight categories as a comparison of corruptions needs."""
    return save_hues(tmp_path_factory.mktemp("enough") / "photos", each=5)


def evaluate(folder, **more):
    options = {"n": 60, "n_bootstrap": 20, "bins": 7, "min_per_bin": 3} | more
    return ec.evaluate(
        "small_models:thousand", folder, suite="vcr", stimulus="native", labels="entry16", **options
    )


# Names


@pytest.mark.parametrize(
    ("shown", "corruption", "kind"),
    [
        ("uniform_noise", "vcr/uniform_noise", "direct"),
        ("frost", "vcr/frost", "direct"),
        ("frost", "frost", "direct"),
        ("vcr/frost", "vcr/frost", "direct"),
        ("vcr/frost", "frost", None),
        ("rain", "noc/rain", "direct"),
        ("contrast", "noc/contrast", None),
        ("blur", "vcr/blur", "direct"),
        ("blur", "noc/blur", None),
        ("uniform_noise", "vcr/shot_noise", "transferred"),
        ("my_own", "my_own", "direct"),
    ],
)
def test_a_bare_name_is_the_corruption_that_it_resolves_to(shown, corruption, kind):
    assert Reference("mine", responses(shown)).kind(corruption) == kind


def test_ones_own_data_come_before_those_of_the_class():
    """Uniform noise by its bare name, and more responses to Gaussian noise."""
    both = merge(
        [
            Reference("one", responses("gaussian_noise", count=900)),
            Reference("two", responses("uniform_noise", count=300)),
        ]
    )
    assert Reference("both", both).match("vcr/uniform_noise") == "uniform_noise"


def test_import_says_what_it_matched(run, tmp_path):
    table = tmp_path / "trials.csv"
    head = "corruption,subject,image,label,response,delta_v\n"
    rows = (f"{name},ann,1,dog,dog,0.5\n" for name in ("frost", "uniform_noise", "my_own"))
    table.write_text(head + "".join(rows), encoding="utf-8")
    result = run("humans", "import", table, "--format", "trials", "--out", tmp_path / "p.parquet")
    assert result.status == 0, result.err
    lines = {line.split(":")[0].strip(): line for line in result.out.splitlines()}
    assert lines["frost"].endswith("direct for frost, vcr/frost")
    assert "direct for vcr/uniform_noise; transferred to gaussian_noise" in lines["uniform_noise"]
    assert lines["uniform_noise"].endswith("(noise class, published)")
    assert "matches no corruption in a suite" in lines["my_own"]


# Precedence


def test_direct_responses_come_before_transferred_ones_and_the_first_before_others():
    one = Reference("one", responses("gaussian_blur"))
    two = Reference("two", responses("glass_blur", "gaussian_blur"))
    both = References((one, two))
    assert both.source("gaussian_blur") is one
    assert both.source("glass_blur") is two  # responses to itself, though given later
    assert both.source("median_blur") is one
    assert References((two, one)).source("median_blur") is two
    assert both.source("vcr/frost") is None


def test_a_property_that_the_first_lacks_comes_from_another():
    geirhos, mine = find_reference("geirhos"), Reference("mine", responses("gaussian_blur"))
    both = References((geirhos, mine))
    assert both.source("gaussian_blur") is geirhos
    assert both.source("gaussian_blur", "consistency") is mine


def test_a_study_of_frost_keeps_the_packaged_noise_and_blur(run, folder, written, tmp_path):
    out = tmp_path / "out"
    result = run(
        "evaluate", "small_models:thousand", "--images", folder, "--labels", "entry16",
        "--humans", written("mine", "frost"), "--humans", "geirhos", "--stimulus", "native",
        "--n", 60, "--bins", 7, "--min-per-bin", 3, "--n-bootstrap", 20, "--corruption", "frost",
        "--corruption", "median_blur", "--corruption", "brightness", "--out", out,
    )  # fmt: skip
    assert result.status == 0, result.err
    text = result.out
    assert "(precedence: " in text and "mine.parquet, geirhos; direct before" in text
    assert "  vcr/frost: frost of mine (2 humans, 600 responses), shown to humans directly" in text
    blur = "low-pass filtering of geirhos (6 humans, 7,680 responses), transferred within the blur"
    assert f"vcr/median_blur: accuracy: {blur} class (published); consistency: no human" in text
    assert "  vcr/brightness: no human reference" in text
    saved = json.loads((out / "results.json").read_text(encoding="utf-8"))
    (space,) = saved["models"][0]["spaces"].values()
    found = {
        name: own["accuracy"]["humans"] and own["accuracy"]["humans"]["reference"]
        for name, own in space["corruptions"].items()
    }
    assert found == {"vcr/frost": "mine", "vcr/median_blur": "geirhos", "vcr/brightness": None}
    humans = space["corruptions"]["vcr/median_blur"]["accuracy"]["humans"]
    assert (humans["experiment"], humans["observers"]) == ("lowpass", 6)
    assert {own["reference"] for own in saved["humans"]} == {"mine", "geirhos"}
    # the packaged one is below the published crowd, and all who read it are told
    caution = [note for note in saved["warnings"] if "VCR paper" in note]
    area = humans["areas"]["human"]
    assert f"median blur {area:.3f} against 0.837" in caution[0] and "Note: The packaged" in text
    page = tmp_path / "report.html"
    result = run("report", out, "--out", page)
    assert result.status == 0, result.err
    text = page.read_text(encoding="utf-8")
    assert "Human reference: frost of mine (2 humans, 600 responses), shown to humans" in text
    assert "6 humans, 7,680 responses), transferred within the blur class (published)" in text
    assert text.count("against 0.837") >= 2  # in the note, and beside the verdict


@pytest.mark.parametrize(
    ("given", "word"),
    [
        (["none", "geirhos"], "cannot be combined"),
        (["geirhos", "geirhos"], "geirhos twice"),
        (["geirhos", "geirhoss"], "Did you mean 'geirhos'"),
    ],
)
def test_references_that_cannot_be_together_are_rejected(run, folder, tmp_path, given, word):
    options = [text for name in given for text in ("--humans", name)]
    out = ["--out", tmp_path / "out"]
    result = run("evaluate", "small_models:thousand", "--images", folder, *options, *out)
    assert_rejected(result, word)


def test_runs_whose_human_curves_have_other_bins_are_not_compared(run, folder, written, tmp_path):
    """40 bins are a model's number without asking; humans then have fewer, or no curve."""
    mine = written("mine", "frost", count=200)
    for name, asked in (("usual", ()), ("forty", ("--bins", 40))):
        result = run(
            "evaluate", "small_models:thousand", "--images", folder, "--labels", "entry16",
            "--humans", mine, "--stimulus", "native", "--n", 60, "--min-per-bin", 3,
            "--n-bootstrap", 5,
            "--corruption", "frost", *asked, "--out", tmp_path / name,
        )  # fmt: skip
        assert result.status == 0, result.err
    rejected = run("compare", tmp_path / "usual", tmp_path / "forty")
    assert_rejected(rejected, "human_bins is auto")


# Merging


def test_merged_references_pool_responses_and_keep_clean_images_and_humans_apart(run, written):
    one = written("one", "frost", clean=0.9)
    two = written("two", "frost", "fog", clean=0.6, seed=1)
    out = one.parent / "both.parquet"
    result = run("humans", "merge", one, two, "--out", out)
    assert result.status == 0, result.err
    merged = Reference("both", read_responses(out))
    assert merged.n_participants("frost") == 4 and merged.count("frost") == 1200
    own = {name: find_reference(str(path)) for name, path in (("one", one), ("two", two))}
    # fog was seen by the second study alone, and starts at its clean images
    assert merged.left_end("fog")[0] == own["two"].left_end("fog")[0]
    ends = [own[name].left_end("frost")[0] for name in own]
    assert merged.left_end("frost")[0] == pytest.approx(np.mean(ends))
    area = merged.curve("fog", n_bootstrap=2).area
    assert area == pytest.approx(own["two"].curve("fog", n_bootstrap=2).area, abs=1e-9)


def told_once(clean, **more):
    """One response, cat, to a corrupted image, and what two others said to the clean one."""
    return make_responses(
        3,
        source="simulated",
        choices=16,
        label_space="entry16",
        corruption=["frost", "clean", "clean"],
        subject=["ann", "bob", "cem"],
        image=["1", "1", "1"],
        response=["cat", clean, clean],
        delta_v=[0.5, 0, 0],
        **more,
    )


def test_merged_responses_are_compared_with_clean_responses_of_their_own_study():
    """Image 1 is a cat in the first study and a dog in the second."""
    parts = [Reference(name, told_once(name), "majority") for name in ("cat", "dog")]
    merged = Reference("both", merge(parts), "majority")
    assert merged.judged.consistent.tolist() == [1, 1, 1, 0, 1, 1]


def test_a_part_without_clean_responses_of_its_own_keeps_its_consistency_when_merged(tmp_path):
    given = told_once("dog", clean_response=["cat", "", ""])
    parts = [Reference("one", given, "given"), Reference("two", told_once("cat"), "majority")]
    merged = merge(parts)
    assert merged.consistent.tolist() == [1, 1, 1, 1, 1, 1]
    write_responses(tmp_path / "both.parquet", merged)
    judged = find_reference(str(tmp_path / "both.parquet")).judged
    assert judged.consistent.tolist() == [own for each in parts for own in each.judged.consistent]


def test_the_packaged_reference_can_be_merged_with_a_study():
    geirhos = find_reference("geirhos")
    merged = Reference("both", merge([geirhos, Reference("mine", responses("frost"))]))
    assert merged.kind("vcr/frost") == "direct" and merged.kind("vcr/glass_blur") == "transferred"
    for name in ("noise", "lowpass", "contrast"):
        mine, theirs = (own.curve(name, n_bootstrap=2).area for own in (merged, geirhos))
        assert mine == pytest.approx(theirs, abs=1e-9)
    assert "Geirhos" in merged.citation


@pytest.mark.parametrize(
    ("names", "word"),
    [(["one"], "at least two"), (["one", "one"], "one twice"), (["one", "ten"], "same choices")],
)
def test_what_cannot_be_merged_is_rejected(run, tmp_path, written, names, word):
    written("one", "frost")
    ten = make_responses(2, source="s", choices=10, label_space="10 choices", delta_v=[0.1, 0.2])
    write_responses(tmp_path / "ten.parquet", ten)
    paths = [tmp_path / f"{name}.parquet" for name in names]
    assert_rejected(run("humans", "merge", *paths, "--out", tmp_path / "x.parquet"), word)
    assert not (tmp_path / "x.parquet").exists()


# One model under two corruptions that look alike


def test_a_model_is_compared_where_humans_responded_to_both(enough, written):
    """The paper's own situation: uniform and Gaussian noise, accuracy and consistency."""
    mine = written("mine", "vcr/gaussian_noise", "vcr/uniform_noise")
    options = {"humans": str(mine), "corruptions": ["gaussian_noise", "uniform_noise"]}
    found = evaluate(enough, accept_labels=True, **options)
    space = found.models[0].space("entry16")
    assert [(own.property, own.human_curves) for own in space.similar] == [("a", 2), ("p", 2)]
    for letter, own in zip("ap", space.similar, strict=True):
        first, second = (space[name].properties[letter].humans for name in (own.first, own.second))
        assert first.line is not second.line
        difference = first.hmri.value - second.hmri.value
        assert own.delta_hmri == pytest.approx(difference, abs=1e-12)


def test_evaluate_transfers_within_a_file_of_classes(folder, written, tmp_path):
    mine, classes = written("mine", "frost"), tmp_path / "classes.yaml"
    classes.write_text(
        "kind: similar-classes\nversion: 1\nsource: x\nclasses:\n"
        "- {name: cold, members: [frost, brightness], provenance: study, test: t, p: 0.4, n: 9}\n",
        encoding="utf-8",
    )
    options = {"humans": [mine], "corruptions": ["frost", "brightness"]}
    found = evaluate(folder, similar=[classes], **options)
    humans = [own.accuracy.humans for own in found.models[0].space("entry16").corruptions.values()]
    assert sorted(own.kind for own in humans) == ["direct", "transferred"]
    assert any("within the cold class (study x; t; p ≥ 0.4; n ≥ 9)" in own.about for own in humans)
    # paths are text in what is written
    assert found.config.similar == (str(classes),) and found.config.humans == str(mine)
    # four categories are too few for the difference of two corruptions
    assert found.models[0].space("entry16").similar == ()
    alone = evaluate(folder, **options).models[0].space("entry16")["vcr/brightness"]
    assert alone.accuracy.humans is None


def test_that_no_corruption_has_a_human_reference_is_said(folder, written):
    mine = written("mine", "frost")
    found = evaluate(folder, humans=str(mine), corruptions=["brightness"], similar="none")
    assert any("responded to none of these corruptions" in note for note in found.warnings)
    found = evaluate(folder, humans=str(mine), corruptions=["frost", "brightness"], similar="none")
    assert not any("responded to none of these corruptions" in note for note in found.warnings)


# The documented figures of the packaged reference


def test_documented_areas_are_those_that_the_command_prints(run):
    result = run("humans", "areas")
    assert result.status == 0, result.err
    rows = [line.split() for line in result.out.splitlines() if " R_a " in line]
    assert [row[0] for row in rows] == ["contrast", "lowpass", "noise"]
    for name, _, area, interval, _, _, clean, *_ in rows:
        low, high = interval.split("–")
        assert documented(f"`{name}`") == [float(text) for text in (clean, area, low, high)]


def test_documented_areas_of_the_paper_are_those_of_its_table():
    for name in ("median blur", "glass blur"):
        key = name.replace(" ", "_")
        packaged, accuracy, consistency = documented(name)
        assert packaged == round(packaged_areas()[key], 3)
        assert accuracy == round(implied_areas()[key], 3)
        assert consistency == round(implied_areas("p")[key], 3)


def test_documented_distances_from_the_curve_of_noise_are_its_own():
    reference = find_reference("geirhos")
    curve, responses = reference.curve("vcr/uniform_noise"), reference.responses
    below = []
    for condition in ("0.6", "0.9"):
        own = (responses.corruption == "noise") & (responses.condition == condition)
        trials, rates = responses.trials[own], responses.correct[own]
        expected = curve(responses.delta_v[own])
        below.append(np.average(expected - rates, weights=trials))
    (text,) = re.findall(r"conditions of noise lie (\S+) and (\S+) below the curve", PAGE)
    assert tuple(f"{distance:.2f}" for distance in below) == text
