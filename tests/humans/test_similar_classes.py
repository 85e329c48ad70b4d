"""Which corruptions look alike: classes as data, every two human curves compared, transfer."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import eyechart as ec
from commands import assert_rejected
from eyechart.humans.human_responses import make_responses, write_responses
from eyechart.humans.reference import Reference
from eyechart.humans.transfer import (
    find_classes,
    grouped,
    published_classes,
    read_classes,
    write_classes,
)
from eyechart.reports.html.charts.curve_charts import experiment_charts
from eyechart.results.curve_results import HumanCurve, HumanExperiment, SampledCurve
from eyechart.scores.similar import compare_curves, find_similar
from eyechart.stats.p_values import holm

HEAD = "kind: similar-classes\nversion: 1\nsource: x\nclasses:\n"
CLASS = HEAD + "- {{name: a, members: [b, c], provenance: study, test: t, {}}}\n"
FALLS = {"frost": 0.8, "fog": 0.8, "snow": 0.3}


def responses(falls, count, seed=0):
    """Responses of humans whose accuracy falls from .95 by so much, with the cube of Δv."""
    numbers = np.random.default_rng(seed)
    change = numbers.random(count * len(falls))
    loss = np.repeat(list(falls.values()), count)
    return make_responses(
        len(change),
        source="simulated",
        choices=16,
        label_space="entry16",
        corruption=np.repeat(list(falls), count),
        image=np.array([f"p{place // 5}" for place in range(len(change))]),
        delta_v=change,
        correct=(numbers.random(len(change)) < 0.95 - loss * change**3).astype(float),
    )


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    """A reference of which two corruptions are equal and the third is not."""
    path = tmp_path_factory.mktemp("humans") / "mine.parquet"
    write_responses(path, responses(FALLS, 3000))
    return path


# The published classes


def test_the_packaged_classes_are_those_of_the_paper():
    """Section 4.4: the noise class and the blur class; the remaining of 14 are dissimilar."""
    found = published_classes()
    assert "Shen, Hu, Czarnecki, Marsso, Chechik" in found.source and "4.4" in found.source
    by_name = {own.name: set(own.members) for own in found.classes}
    assert by_name == {
        "noise": {"shot_noise", "impulse_noise", "gaussian_noise", "uniform_noise"},
        "blur": {"blur", "median_blur", "gaussian_blur", "glass_blur", "defocus_blur"},
    }
    assert {own.provenance for own in found.classes} == {"published"}
    tested = [name for name in ec.list_corruptions(suite="vcr") if found.is_tested(name)]
    assert len(tested) == 14
    alone = {name for name in tested if found.find(name) is None}
    assert alone == {
        "vcr/motion_blur", "vcr/brightness", "vcr/frost", "vcr/hue_saturation_value",
        "vcr/color_jitter",
    }  # fmt: skip


@pytest.mark.parametrize("name", ["speckle_noise", "zoom_blur", "noc/blur", "contrast", "custom"])
def test_what_nobody_tested_is_untested_and_not_unlike_others(name):
    assert published_classes().find(name) is None
    assert not published_classes().is_tested(name)


@pytest.mark.parametrize(
    ("kind", "tested", "words"),
    [
        ("", False, "Humans under corruptions not tested for similarity: accuracy"),
        ("", True, "Humans under corruptions that look like no other tested corruption: accuracy"),
        ("fog+frost", True, "Humans under fog+frost, which look alike to them: accuracy"),
    ],
)
def test_the_report_calls_untested_what_is_untested(kind, tested, words):
    line = SampledCurve(**dict.fromkeys(SampledCurve.model_fields, (0.5,)))
    own = HumanExperiment(
        name="a", title="a", kind=kind, members=("a",), size="4 people", tested=tested,
        accuracy=HumanCurve(line=line, points=()), consistency=None,
    )  # fmt: skip
    (chart,) = experiment_charts([own], 0, 0)
    assert chart.title == words


# Groups


@given(st.sets(st.sampled_from(list(combinations(range(7), 2)))))
def test_every_two_members_of_a_group_are_alike_and_nothing_could_be_added(pairs):
    names = [str(place) for place in range(7)]
    alike = {frozenset(map(str, pair)) for pair in pairs}
    groups = grouped(names, [tuple(pair) for pair in alike])
    members = [name for group in groups for name in group]
    assert len(members) == len(set(members))
    for group in groups:
        assert all(frozenset(pair) in alike for pair in combinations(group, 2))
        for name in set(names) - set(members):
            assert not all(frozenset((name, own)) in alike for own in group)
    left = set(names) - set(members)
    assert not any(frozenset(pair) in alike for pair in combinations(left, 2))


def test_likeness_does_not_carry_over_from_pair_to_pair():
    assert grouped(["a", "b", "c"], [("a", "b"), ("b", "c")]) == [("a", "b")]
    assert grouped(["a", "b", "c"], [("b", "a"), ("c", "b"), ("a", "c")]) == [("a", "b", "c")]


# Curves compared


def test_all_pairs_are_compared_and_corrected_for_their_number():
    pairs, reasons = compare_curves(Reference("mine", responses(FALLS, 3000)), n_bootstrap=200)
    assert [(own.a, own.b) for own in pairs] == list(combinations(FALLS, 2)) and not reasons
    assert [own.p_holm for own in pairs] == holm([own.p for own in pairs]).tolist()
    by_pair = {(own.a, own.b): own for own in pairs}
    assert by_pair["frost", "fog"].verdict == "similar"
    for pair in (("frost", "snow"), ("fog", "snow")):
        own = by_pair[pair]
        assert (own.verdict, own.published_rule, own.n) == ("different", "apart", 3000)
        # at Δv 1 they differ by .5
        assert own.largest == pytest.approx(0.5, abs=0.1) and own.at_most > own.largest
    found = find_similar(pairs, "mine", "simultaneous")
    (own,) = found.classes
    assert (own.members, own.provenance, own.n) == (("frost", "fog"), "study", 3000)
    assert own.p == pytest.approx(by_pair["frost", "fog"].p_holm)
    assert found.is_tested("snow") and not found.is_tested("contrast")


def test_few_responses_are_no_sign_of_likeness():
    (own,), _ = compare_curves(
        Reference("few", responses({"frost": 0.8, "fog": 0.8}, 150)), n_bootstrap=100
    )
    assert own.verdict == "undecided" and own.at_most > 0.2
    found = find_similar([own], "few", "simultaneous")
    assert not found.classes and not found.is_tested("frost")
    # the published rule decides all the same
    by_rule = find_similar([own], "few", "published")
    assert by_rule.is_tested("frost") and bool(by_rule.classes) == (own.published_rule == "overlap")


def test_the_published_rule_errs_where_the_simultaneous_test_does_not():
    """A pair of equal truth whose 83 % intervals are apart somewhere."""
    equal = Reference("equal", responses({"frost": 0.8, "fog": 0.8}, 1500, seed=2))
    (own,), _ = compare_curves(equal, n_bootstrap=300)
    assert own.published_rule == "apart" and own.verdict != "different" and own.p > 0.05


@pytest.mark.slow
def test_of_equal_pairs_the_published_rule_calls_many_different_and_the_test_few():
    apart = different = 0
    for seed in range(40):
        equal = Reference("equal", responses({"frost": 0.8, "fog": 0.8}, 1500, seed=1000 + seed))
        (own,), _ = compare_curves(equal, n_bootstrap=300)
        apart += own.published_rule == "apart"
        different += own.verdict == "different"
    assert apart >= 10  # a rule at 5 % would have more than 5 once in 100 times
    assert different <= 6  # 0.05 × 40 and more than two standard errors


# The command, and what it writes


def test_similar_writes_classes_that_are_read_again(run, three, tmp_path):
    out = tmp_path / "classes.yaml"
    write_classes(out, published_classes())  # a file of ours may be written again
    result = run("humans", "similar", three, "--all", "--out", out)
    assert result.status == 0, result.err
    assert "Class frost+fog: frost, fog (study mine; largest difference" in result.out
    assert "Tested, but in no class: snow." in result.out and "untested" in result.out
    assert "Caution: the published rule" in result.out
    found = read_classes(out)
    assert find_classes(str(out)).classes == found.classes
    assert len(found.pairs) == 3 and {own.of for own in found.pairs} == {"accuracy"}
    (own,) = found.classes
    assert own.evidence.startswith("study mine; ") and "n ≥ 3,000" in own.evidence
    both = find_classes(["published", str(out)])
    assert [each.name for each in both.classes] == ["noise", "blur", "frost+fog"]
    assert find_classes("none").classes == ()


def test_classes_of_same_different_judgements_are_written_too(run, tmp_path):
    rows = [
        f"fog,frost,p{person},{shown},{('same', 'different')[(person + place) % 2]}"
        for person in range(60)
        for place in range(10)
        for shown in ("same", "different")
    ]
    file = tmp_path / "study" / "judgements.csv"
    file.parent.mkdir()
    file.write_text("a,b,subject,shown,response\n" + "\n".join(rows) + "\n", encoding="utf-8")
    result = run("humans", "similar", file.parent, "--out", tmp_path / "classes.yaml")
    assert result.status == 0, result.err
    (own,) = read_classes(tmp_path / "classes.yaml").classes
    assert (own.members, own.n, own.source) == (("fog", "frost"), 1200, "study")
    assert "same/different judgements" in own.test


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("- 1\n", "kind must be similar-classes"),
        ("kind: similar-classes\nversion: 2\n", "version must be 1, got 2"),
        ("kind: similar-classes\nversion: 1\nsource: x\n", "'classes' is missing"),
        (HEAD, "must be a file of similar classes"),
        (HEAD + "- {name: a, members: [b], provenance: study, test: t}\n", "at least two"),
        (HEAD + "- {name: a, members: [b, c], provenance: guess, test: t}\n", "provenance must be"),
        (
            HEAD + "- {name: a, members: [b, c], provenance: study, test: t}\n" * 2,
            "b must be in one class, but is in 2",
        ),
        ("a: [", "invalid YAML"),
        ("[" * 99 + "]" * 99, "nested more than 50 levels deep"),
        (CLASS.format("p: abc"), "p of a must be a number from 0 to 1, got 'abc'"),
        (CLASS.format("p: 2"), "p of a must be a number from 0 to 1, got 2"),
        (CLASS.format("n: 1.5"), "n of a must be a whole number of at least 0, got 1.5"),
    ],
)
def test_a_file_that_holds_no_classes_is_rejected_and_kept(run, three, tmp_path, text, sentence):
    path = tmp_path / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ec.UsageError, match=sentence):
        find_classes(str(path))
    assert_rejected(run("humans", "similar", three, "--out", path), "not a file of similar classes")
    assert path.read_text(encoding="utf-8") == text


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["geirhos", "noise", "lowpass", "--all"], "omit the two names"),
        (["geirhos", "--rule", "publishd"], "Did you mean 'published'"),
        (["geirhos", "--margin", "2"], "margin"),
        (["geirhos", "--out", "none/x.yaml"], "No such folder"),
    ],
)
def test_what_cannot_be_compared_is_rejected_in_a_sentence(run, arguments, word):
    assert_rejected(run("humans", "similar", *arguments), word)


# Transfer


def test_a_later_class_keeps_the_members_that_no_earlier_one_has(tmp_path):
    """Of [fog, snow, rain] two are left, of [frost, contrast] one, of which nothing is known."""
    paths = [tmp_path / "one.yaml", tmp_path / "two.yaml"]
    later = ("[fog, snow, rain]", "[vcr/frost, contrast]")
    for path, members in zip(paths, (("[frost, fog]",), later), strict=True):
        rows = (
            f"- {{name: c{place}, members: {own}, provenance: study, test: t}}\n"
            for place, own in enumerate(members)
        )
        path.write_text(HEAD + "".join(rows), encoding="utf-8")
    found = find_classes([str(path) for path in paths])
    assert [(own.name, own.members) for own in found.classes] == [
        ("c0", ("frost", "fog")), ("c0 (x)", ("snow", "rain")),
    ]  # fmt: skip
    assert found.is_tested("rain") and not found.is_tested("contrast")
    assert found.find("vcr/frost") is found.find("fog") is found.classes[0]


def test_responses_are_transferred_within_the_classes_given(tmp_path):
    """Humans saw frost; a study found that fog looks like it."""
    reference = Reference("mine", responses({"frost": 0.8}, 600))
    assert reference.match("fog") is None
    path = tmp_path / "classes.yaml"
    text = (
        HEAD + "- {name: cold, members: [frost, fog], provenance: study, test: t, p: 0.4, n: 9}\n"
    )
    path.write_text(text, encoding="utf-8")
    with_class = Reference("mine", reference.responses, similar=find_classes(str(path)))
    assert (with_class.match("fog"), with_class.kind("fog")) == ("frost", "transferred")
    assert "within the cold class (study x; t; p ≥ 0.4; n ≥ 9)" in with_class.describe("fog")
    assert with_class.kind("vcr/frost") == "direct"
    # noises are in no class of this file
    assert Reference("g", responses({"gaussian_noise": 0.8}, 600)).kind("shot_noise") is not None
    other = Reference("g", responses({"gaussian_noise": 0.8}, 600), similar=with_class.similar)
    assert other.kind("shot_noise") is None
