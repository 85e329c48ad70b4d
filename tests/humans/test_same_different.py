"""Same or different: tests pooled and by people, intervals, correction, verdicts, the command."""

from itertools import chain, combinations, product
from math import comb

import numpy as np
import pytest
from scipy.stats import binomtest
from scipy.stats import norm as normal

import eyechart as ec
from commands import assert_rejected
from eyechart.humans.same_different import (
    Judgement,
    analyze,
    read_single_judgements,
)
from eyechart.stats.p_values import holm

HEAD = "a,b,subject,shown,response\n"


def judged(a, b, humans, each, right, seed=0, bias=0.0):
    """Answers of people who are so often right; the rest lean to "same" by `bias`."""
    numbers = np.random.default_rng(seed)
    rows = []
    for person, place in product(range(humans), range(each)):
        shown = ("same", "different")[place % 2]
        said = shown
        if numbers.random() > 2 * right - 1:  # does not know and guesses
            said = "same" if numbers.random() < 0.5 + bias else "different"
        rows.append(Judgement(a, b, f"p{person}", shown, said))
    return rows


def write(path, rows):
    lines = (f"{each.a},{each.b},{each.subject},{each.truth},{each.response}\n" for each in rows)
    path.write_text(HEAD + "".join(lines), encoding="utf-8")
    return path


# A pair


def test_of_a_pair_every_figure_follows_from_its_counts():
    rows = [
        Judgement("fog", "frost", f"p{place % 7}", shown, said)
        for shown, said, count in (
            ("same", "same", 30), ("same", "different", 5),
            ("different", "same", 15), ("different", "different", 20),
        )
        for place in range(count)
    ]  # fmt: skip
    rows.append(Judgement("fog", "frost", "p1", "same", ""))
    (found,) = analyze(rows)
    assert (found.n_judgements, found.n_missing, found.n_participants, found.n_correct) == (
        70,
        1,
        7,
        50,
    )
    assert found.said_same == pytest.approx((30 / 35, 15 / 35))
    # two-sided: 50 or more of 70, or 20 or fewer
    assert found.pooled == pytest.approx(2 * sum(comb(70, k) for k in range(50, 71)) / 2**70)
    hit, alarm = (normal.ppf((k + 0.5) / 36) for k in (20, 5))
    assert found.sensitivity == pytest.approx(hit - alarm)
    assert found.bias == pytest.approx(-(hit + alarm) / 2) and found.bias > 0
    assert found.by_participant_holm == found.by_participant


@pytest.mark.parametrize(
    ("humans", "each", "right", "verdict"),
    [
        (20, 20, 0.8, "told apart"),
        (60, 20, 0.5, "not told apart"),
        (150, 20, 0.55, "hardly told apart"),
        (10, 4, 0.5, "undecided"),
        (5, 100, 0.9, "too few responses"),
        (20, 1, 0.9, "too few responses"),
    ],
)
def test_near_chance_with_few_responses_is_no_sign_of_likeness(humans, each, right, verdict):
    (found,) = analyze(judged("a", "b", humans, each, right, seed=3))
    assert found.verdict == verdict, found


def test_who_always_says_same_tells_nothing_apart():
    rows = judged("a", "b", 30, 20, 0.5, bias=0.5)
    (found,) = analyze(rows)
    assert found.accuracy == 0.5 and found.said_same == (1, 1)
    assert found.sensitivity == pytest.approx(0) and found.verdict == "undecided"


def test_p_values_are_corrected_over_all_pairs():
    rows = list(
        chain.from_iterable(
            judged(a, b, 12, 10, 0.6, seed=place)
            for place, (a, b) in enumerate(combinations("abcd", 2))
        )
    )
    found = analyze(rows)
    assert [(each.a, each.b) for each in found] == list(combinations("abcd", 2))
    assert [each.by_participant_holm for each in found] == holm(
        [each.by_participant for each in found]
    ).tolist()
    # order of rows means nothing
    np.random.default_rng(0).shuffle(rows)
    assert analyze(rows) == found


def test_responses_of_which_none_came_in_time_are_no_pair():
    assert analyze([Judgement("a", "b", "p", "same", "")]) == []


# Files and the command


def test_judgements_are_read_whichever_way_round_the_pair_is(tmp_path):
    path = tmp_path / "judgements.csv"
    path.write_text(HEAD + "frost,fog,p,same,\nfog,frost,q,different,same\n", encoding="utf-8")
    assert read_single_judgements(path) == [
        Judgement("fog", "frost", "p", "same", ""),
        Judgement("fog", "frost", "q", "different", "same"),
    ]


def test_imported_judgements_are_tested_by_accuracy_and_not_by_how_often_same_is_said(tmp_path):
    """Of 100 trials, half with the same corruption, 90 are called the same: 50 are right."""
    path = tmp_path / "imported.csv"
    rows = ["1,1"] * 45 + ["1,0"] * 5 + ["0,1"] * 45 + ["0,0"] * 5
    lines = (f"{'a,b' if place % 2 else 'b,a'},{row}" for place, row in enumerate(rows))
    path.write_text("a,b,shown_same,same\n" + "\n".join(lines) + "\n", encoding="utf-8")
    (found,) = analyze(read_single_judgements(path))
    assert (found.n_judgements, found.n_correct, found.said_same) == (
        100,
        50,
        pytest.approx((0.9, 0.9)),
    )
    assert found.pooled == pytest.approx(binomtest(50, 100).pvalue) == 1
    assert found.verdict != "told apart"
    # nobody says whose they are: they count as independent, which makes both tests one
    assert found.by_participant == pytest.approx(found.pooled)


def test_whoever_tells_every_imported_pair_apart_is_right(tmp_path):
    path = tmp_path / "imported.csv"
    rows = (f"frost,fog,{shown},{shown},p{place % 8}" for place in range(20) for shown in (0, 1))
    path.write_text("a,b,shown_same,same,subject\n" + "\n".join(rows) + "\n", encoding="utf-8")
    (found,) = analyze(read_single_judgements(path))
    assert (found.n_judgements, found.n_participants, found.accuracy) == (40, 8, 1)
    assert found.pooled == pytest.approx(2 / 2**40) and found.verdict == "told apart"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a,b,same\nfog,frost,1\n", "must have the column shown_same"),
        ("a,b,shown_same,same\nfog,frost,2,1\n", "row 2: shown_same must be 1 or 0, got '2'"),
        ("a,b,shown_same,same\nfog,frost,1,maybe\n", "row 2: same must be 1 or 0, got 'maybe'"),
        ("a,b,shown_same,same\nfog,fog,1,1\n", "row 2: a and b must be different corruptions"),
    ],
)
def test_imported_judgements_that_say_too_little_are_rejected(tmp_path, text, sentence):
    path = tmp_path / "imported.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ec.UsageError, match=sentence):
        read_single_judgements(path)


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ("a,b,p,alike,same", "row 2: shown must be same or different, got 'alike'"),
        ("a,b,p,same,maybe", "row 2: response must be same, different or empty, got 'maybe'"),
        ("a,b,,same,same", "row 2: subject is empty"),
    ],
)
def test_judgements_that_cannot_be_are_rejected(tmp_path, row, sentence):
    path = tmp_path / "judgements.csv"
    path.write_text(HEAD + row + "\n", encoding="utf-8")
    with pytest.raises(ec.UsageError, match=sentence):
        read_single_judgements(path)


def table_of(path, counts, subjects):
    """Write a table of judgements: `counts` has the numbers of correct and of all responses."""
    rows = []
    for (a, b), (right, total) in counts.items():
        # incorrect responses are spread over trials and participants
        for place, rank in enumerate(np.random.default_rng(0).permutation(total)):
            shown = place % 2
            said = shown if rank < right else 1 - shown
            rows.append(f"{a},{b},{shown},{said},{f'p{place % subjects}' if subjects else ''}")
    path.write_text("a,b,shown_same,same,subject\n" + "\n".join(rows) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("counts", "subjects", "verdicts"),
    [
        # six participants: even if all tell two pairs apart, the smallest corrected p is 0.0625
        ({("a", "b"): (54, 60), ("a", "c"): (54, 60)}, 6, ("told apart", "undecided")),
        ({("a", "b"): (62, 72)}, 3, ("told apart", "too few responses")),
        ({("a", "b"): (31, 60)}, 20, ("not told apart", "undecided")),
        ({("a", "b"): (607, 1200)}, 60, ("not told apart", "not told apart")),
    ],
)
def test_the_published_binomial_test_has_its_own_verdict(run, tmp_path, counts, subjects, verdicts):
    path = table_of(tmp_path / "judged.csv", counts, subjects)
    for found in analyze(read_single_judgements(path)):
        right, total = counts[found.a, found.b]
        assert (found.n_correct, found.n_judgements) == (right, total)
        p = min(1, 2 * sum(comb(total, k) for k in range(right, total + 1)) / 2**total)
        assert found.pooled == pytest.approx(p)
        assert (p < 0.05) == (verdicts[0] == "told apart")
        assert (found.published_verdict, found.verdict) == verdicts
    trials, out = tmp_path / "trials.csv", tmp_path / "humans.parquet"
    trials.write_text(
        "corruption,subject,image,label,response,delta_v\na,p,1,dog,dog,0.5\n", encoding="utf-8"
    )
    imported = run(
        "humans", "import", trials, "--format", "trials", "--judgements", path, "--out", out
    )
    assert imported.status == 0, imported.err
    printed = " ".join(run("humans", "similar", out, "a", "b").out.split())
    assert "published verdict: the VCR paper's exact binomial test" in printed
    assert " ".join(verdicts) in printed


def test_similar_by_the_published_rule_makes_classes_of_judgements(run, tmp_path):
    counts = {("a", "b"): (33, 60), ("a", "c"): (54, 60), ("b", "c"): (54, 60)}
    table_of(tmp_path / "judged.csv", counts, 6)
    rows = read_single_judgements(tmp_path / "judged.csv")
    write(tmp_path / "judgements.csv", rows)
    by_default = run("humans", "similar", tmp_path)
    assert "Undecided, more responses are needed: a, b, c." in by_default.out
    published = run("humans", "similar", tmp_path, "--rule", "published")
    assert published.status == 0, published.err
    assert "Class a+b: a, b (study" in published.out and "binomial test" in published.out
    assert "Tested, but in no class: c." in published.out


def test_responses_without_a_participant_are_not_called_participants(run, tmp_path):
    path = table_of(tmp_path / "judgements.csv", {("a", "b"): (80, 120)}, 0)
    (found,) = analyze(read_single_judgements(path))
    assert (found.n_participants, found.n_anonymous) == (0, 120)
    told = run("humans", "similar", tmp_path)
    assert told.status == 0, told.err
    assert "120 responses have no participant (column subject)" in told.out
    assert "–" in next(line for line in told.out.splitlines() if "120" in line).split()
    table_of(path, {("a", "b"): (80, 120)}, 12)
    assert "column subject" not in run("humans", "similar", tmp_path).out


@pytest.mark.parametrize("inner", ["", "export"])
def test_similar_lists_all_pairs_of_a_study(run, tmp_path, inner):
    home = tmp_path / "study" / inner
    home.mkdir(parents=True)
    rows = judged("fog", "frost", 20, 20, 0.9) + judged("blur", "fog", 40, 30, 0.5, seed=1)
    write(home / "judgements.csv", rows)
    result = run("humans", "similar", tmp_path / "study")
    assert result.status == 0, result.err
    lines = [line.strip() for line in result.out.splitlines()]
    pairs = [line for line in lines if line.endswith("told apart")]
    assert len(pairs) == 2
    assert "Class blur+fog: blur, fog (study" in result.out
    assert "blur" in pairs[0] and "not told apart" in pairs[0] and "1,200" in pairs[0]
    assert "frost" in pairs[1] and pairs[1].endswith("told apart") and "not" not in pairs[1]
    assert "over 2 pairs (Holm)" in result.out
    one = run("humans", "similar", tmp_path / "study", "frost", "fog")
    assert one.status == 0 and "blur" not in one.out and "Before correction: p = " in one.out
    assert "over 2 pairs (Holm)" in one.out


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["frost", "fogg"], "Did you mean 'fog'"),
        (["frost", "blur"], "no judgements of frost and blur"),
        (["frost"], "Give two corruptions or none"),
        (["frost", "frost"], "twice"),
        (["--rule", "publishd"], "Did you mean 'published'"),
        (["--margin", "0.9"], "--margin applies to curves"),
        (["--clean-responses", "given"], "--clean-responses applies to curves"),
    ],
)
def test_what_cannot_be_compared_is_rejected(run, tmp_path, arguments, word):
    rows = judged("fog", "frost", 6, 5, 0.9) + judged("blur", "fog", 6, 5, 0.5)
    write(tmp_path / "judgements.csv", rows)
    assert_rejected(run("humans", "similar", tmp_path, *arguments), word)
