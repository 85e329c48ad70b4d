"""How alike two overlap matrices are, against SciPy on pairs that are written out by hand."""

from itertools import combinations, product
from math import isnan, nan
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import kendalltau, pearsonr, rankdata, spearmanr

import eyechart as ec
from commands import assert_rejected
from eyechart.cli.overlap.matrices import matrix_among
from eyechart.core.errors import UsageError
from eyechart.overlap.matrix import OverlapMatrix
from eyechart.overlap.matrix_file import write_matrix
from eyechart.overlap.matrix_intervals import compare_matrices
from overlap_cases import by_trying_all, random_scores

NAMES = ("fog", "snow", "frost", "contrast", "noc/blur", "noc/hue")


def matrix_of(scores, names=NAMES):
    return OverlapMatrix(tuple(names[: len(scores)]), np.asarray(scores, dtype=float))


def two(count=6, seeds=(1, 2), unknown=0.0):
    """Two matrices that have something in common."""
    first, second = (random_scores(count, seed, unknown=unknown) for seed in seeds)
    return matrix_of(first), matrix_of((first + second) / 2)


def pairs_of(one, other):
    """The scores of every two names that both matrices know, found by name."""
    shared = [name for name in one.names if name in other.names]
    found = [(one[a, b], other[a, b]) for a, b in combinations(shared, 2)]
    return np.array([pair for pair in found if not isnan(pair[0]) and not isnan(pair[1])]).T


@pytest.mark.parametrize("unknown", [0.0, 0.15])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_correlations_are_scipys_of_the_pairs(seed, unknown):
    one, other = two(seeds=(seed, seed + 10), unknown=unknown)
    own, theirs = pairs_of(one, other)
    found = compare_matrices(one, other, n_bootstrap=20)
    assert found.pairs == len(own)
    assert (found.pairs < 15) == (unknown > 0)
    assert found.rank == pytest.approx(spearmanr(own, theirs).statistic)
    # the same by hand: the linear correlation of ranks
    ranks = np.corrcoef(rankdata(own), rankdata(theirs))[0, 1]
    assert found.rank == pytest.approx(ranks)
    assert found.linear == pytest.approx(pearsonr(own, theirs).statistic)
    assert found.difference == pytest.approx(np.mean(np.abs(own - theirs)))
    assert found.shift == pytest.approx(np.mean(theirs) - np.mean(own))
    assert np.sign(found.rank) == np.sign(kendalltau(own, theirs).statistic)


def test_six_pairs_by_hand():
    one = [[1, 0.1, 0.2, 0.3], [0.1, 1, 0.4, 0.5], [0.2, 0.4, 1, 0.6], [0.3, 0.5, 0.6, 1]]
    other = [[1, 0.3, 0.2, 0.1], [0.3, 1, 0.4, 0.5], [0.2, 0.4, 1, 0.6], [0.1, 0.5, 0.6, 1]]
    found = compare_matrices(matrix_of(one), matrix_of(other), n_bootstrap=10)
    # ranks 1 … 6 and 3 2 1 4 5 6: 1 − 6 Σd² / n(n² − 1) with Σd² = 8
    assert found.rank == pytest.approx(1 - 6 * 8 / (6 * 35))
    assert found.difference == pytest.approx(0.4 / 6) and found.shift == pytest.approx(0)
    assert found.corruptions == NAMES[:4] and found.pairs == 6


def test_a_matrix_is_as_alike_to_itself_as_can_be():
    one, _ = two()
    found = compare_matrices(one, one, n_bootstrap=30)
    assert found.rank == pytest.approx(1) and found.linear == pytest.approx(1)
    assert found.interval == pytest.approx((1, 1))
    assert found.difference == found.shift == 0


def test_a_rising_change_keeps_ranks_and_not_the_line():
    one, _ = two()
    found = compare_matrices(one, matrix_of(np.array(one) ** 4), n_bootstrap=30)
    assert found.rank == pytest.approx(1) and found.interval == pytest.approx((1, 1))
    assert found.linear < 0.99
    turned = compare_matrices(one, matrix_of(2 - np.array(one)), n_bootstrap=30)
    assert turned.rank == pytest.approx(-1) and turned.linear == pytest.approx(-1)


def test_corruptions_are_found_by_name_and_others_left_out():
    one, other = two()
    order = [4, 0, 5, 2, 3, 1]
    moved = other.only([NAMES[place] for place in order])
    assert compare_matrices(one, moved, 20) == compare_matrices(one, other, 20)
    fewer = compare_matrices(one, moved.only(moved.names[:5]), 20)
    assert fewer.corruptions == tuple(name for name in NAMES if name != "snow")
    assert fewer.pairs == 10
    own, theirs = pairs_of(one, moved.only(moved.names[:5]))
    assert fewer.rank == pytest.approx(spearmanr(own, theirs).statistic)


def test_which_comes_first_only_turns_the_shift():
    one, other = two(unknown=0.1)
    there, back = compare_matrices(one, other, 20), compare_matrices(other, one, 20)
    assert there.shift == pytest.approx(-back.shift) and there.shift != 0
    assert (there.rank, there.linear, there.difference) == pytest.approx(
        (back.rank, back.linear, back.difference)
    )


def test_the_interval_is_that_of_corruptions_drawn_again():
    """Every draw of four corruptions, all 256, instead of some at random."""
    one, other = (random_scores(4, seed) for seed in (3, 4))
    other = one + 0.7 * other
    ranks = []
    for taken in product(range(4), repeat=4):
        drawn = [
            (one[a, b], other[a, b]) for a, b in combinations(taken, 2) if a != b
        ]  # a pair of one corruption with itself is none
        own, theirs = np.array(drawn).T if drawn else ((), ())
        if len(own) >= 4 and np.ptp(own) > 0 and np.ptp(theirs) > 0:
            ranks.append(spearmanr(own, theirs).statistic)
    found = compare_matrices(matrix_of(one), matrix_of(other), n_bootstrap=600)
    low, high = np.quantile(ranks, [0.025, 0.975])
    # few different values: both ends must be among them, next to where all draws have them
    assert np.mean(np.array(ranks) < found.interval[0] - 1e-9) < 0.06
    assert np.mean(np.array(ranks) > found.interval[1] + 1e-9) < 0.06
    assert found.interval == pytest.approx((low, high), abs=0.25)
    assert found.interval[0] <= found.rank <= found.interval[1]
    assert compare_matrices(matrix_of(one), matrix_of(other), 50, seed=1).rank == found.rank


def test_too_little_in_common_is_one_sentence():
    one, other = two()
    three = other.only(NAMES[:3])
    with pytest.raises(UsageError, match=r"share at least 4 corruptions to be compared, got 3\."):
        compare_matrices(one, three)
    with pytest.raises(UsageError, match=r"got 0\."):
        compare_matrices(one, OverlapMatrix(tuple("abcd"), random_scores(4, 0)))
    known = np.full((6, 6), nan)
    known[0, 1] = known[1, 0] = known[2, 3] = known[3, 2] = known[4, 5] = known[5, 4] = 0.5
    with pytest.raises(UsageError, match="got 3"):
        compare_matrices(one, matrix_of(known))
    with pytest.raises(UsageError, match="must not all be equal"):
        compare_matrices(one, matrix_of(np.full((6, 6), 0.25)))
    # just enough
    assert compare_matrices(one.only(NAMES[:4]), other, 10).pairs == 6


# The commands


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Two matrices on disk, of corruptions of ImageNet-C and of ImageNet-NOC."""
    monkeypatch.chdir(tmp_path)
    names = [*ec.list_corruptions("imagenet-c")[:6], *ec.list_corruptions("imagenet-noc")[:5]]
    first = random_scores(11, 5)
    second = np.triu(first * 0.6 + 0.4 * random_scores(11, 6), 1)
    second = second + second.T + np.eye(11)
    made = {}
    for name, scores in (("one", first), ("two", second)):
        made[name] = matrix_of(scores, names)
        write_matrix(made[name], tmp_path / f"{name}.csv")
    return made


def test_the_sentence_says_what_was_found(run, files):
    found = compare_matrices(files["one"], files["two"])
    told = run("overlap", "compare", "one.csv", "two.csv")
    assert told.status == 0, told.err
    own, theirs = pairs_of(files["one"], files["two"])
    linear = pearsonr(own, theirs).statistic
    lower = "lower" if theirs.mean() < own.mean() else "higher"
    assert told.out == (
        f"55 pairs among 11 corruptions: rank correlation {spearmanr(own, theirs).statistic:.3f}"
        f" (95 % interval {found.interval[0]:.3f} to {found.interval[1]:.3f}, over corruptions),"
        f" linear {linear:.3f}, mean difference {np.abs(own - theirs).mean():.3f};"
        f" overlaps in the second matrix are {abs(theirs.mean() - own.mean()):.3f} {lower}"
        " on average.\n"
    )
    back = run("overlap", "compare", "two.csv", "one.csv").out
    assert ("higher" if lower == "lower" else "lower") in back


def test_selections_are_compared_at_thresholds(run, files):
    told = run("overlap", "compare", "one.csv", "two.csv", "--threshold", 0.3, "--threshold", 0)
    assert told.status == 0
    sets = []
    for matrix in files.values():
        (places, *ties), _ = by_trying_all(np.array(matrix), 0.3)
        assert not ties
        sets.append({matrix.names[place] for place in places})
    both = sorted(sets[0] & sets[1])
    line = (
        f"At threshold 0.3: {len(sets[0])} corruptions are selected from the first matrix and"
        f" {len(sets[1])} from the second, {len(both)} from both"
    )
    assert f"{line} ({', '.join(both) or 'none'})." in told.out
    assert "At threshold 0: " in told.out and told.out.count("\n") == 3


@pytest.mark.parametrize("suite", ["imagenet-c", "imagenet-noc"])
def test_only_corruptions_of_a_suite_are_compared_or_chosen_among(run, files, suite):
    kept = [name for name in files["one"].names if name in ec.list_corruptions(suite)]
    assert 4 < len(kept) < 11
    inner = [matrix.only(kept) for matrix in files.values()]
    own, theirs = pairs_of(*inner)
    told = run("overlap", "compare", "one.csv", "two.csv", "--among", suite)
    assert f"{len(own)} pairs among {len(kept)} corruptions" in told.out
    assert f"correlation {spearmanr(own, theirs).statistic:.3f} " in told.out
    threshold = 0.5
    expected, lowest = by_trying_all(np.array(inner[0]), threshold)
    sets = [[kept[place] for place in places] for places in expected]
    told = run(
        "overlap", "select", "one.csv", "--threshold", threshold, "--among", suite,
        "--marked", "marked.csv",
    )  # fmt: skip
    assert told.status == 0, told.err
    assert f"{len(sets[0])} corruptions overlap by 0.5 or less, by {lowest:.4f}" in told.out
    assert any(f"  {', '.join(own)}\n" in told.out for own in sets)
    marked = Path("marked.csv").read_text(encoding="utf-8").splitlines()
    assert marked[0].split(",") == ["", *kept, "selected"]


def test_several_suites_may_be_chosen_among(files):
    both = matrix_among(files["one"], ["imagenet-noc", "imagenet-c"])
    assert both.names == files["one"].names
    assert matrix_among(files["one"], []) is files["one"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("compare", "one.csv", "none.csv"), "No such file"),
        (("compare", "one.csv", "two.csv", "--among", "vcr"), "leaves 0 corruptions"),
        (("compare", "one.csv", "two.csv", "--among", "nothing"), "Unknown suite"),
        (("compare", "one.csv", "few.csv"), "share at least 4 corruptions"),
        (("compare", "one.csv", "other.csv"), "other.csv"),
        (("compare", "one.csv", "two.csv", "--min-gain", "2"), "min_gain"),
        (("select", "one.csv", "--threshold", "0.5", "--among", "vcr"), "leaves 0 corruptions"),
        (("select", "one.csv", "--all", "--among", "imagnet-c"), "Did you mean 'imagenet-c'"),
    ],
)
def test_what_cannot_be_compared_is_one_sentence(run, files, tmp_path, words, said):
    write_matrix(files["one"].only(files["one"].names[:3]), tmp_path / "few.csv")
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    if "--min-gain" in words:
        # it matters only where overlaps are computed
        (tmp_path / "two.csv").write_text(
            "trained_on,clean,fog,snow\nstandard,1,0.5,0.5\nfog,1,0.8,0.6\nsnow,1,0.6,0.8\n"
        )
    assert_rejected(run("overlap", *words), said)


def test_a_study_or_a_table_can_be_compared_with_a_matrix(run, files, tmp_path):
    names = files["one"].names[:4]
    rows = [f"trained_on,clean,{','.join(names)}", "standard,0.8,0.4,0.4,0.4,0.4"]
    for place, name in enumerate(names):
        # training on one gives 0.2 more on it, and 0.02 to 0.12 on others
        own = [0.6 if place == at else 0.4 + 0.02 * (1 + place + at) for at in range(4)]
        rows.append(f"{name},0.8,{','.join(map(str, own))}")
    (tmp_path / "table.csv").write_text("\n".join(rows) + "\n")
    expected = [0.1 * (1 + one + two) for one, two in combinations(range(4), 2)]
    own = [files["one"][a, b] for a, b in combinations(names, 2)]
    told = run("overlap", "compare", "one.csv", "table.csv")
    assert told.status == 0, told.err
    assert (
        f"6 pairs among 4 corruptions: rank correlation {spearmanr(own, expected).statistic:.3f} "
        in (told.out)
    )
    assert f"linear {pearsonr(own, expected).statistic:.3f}," in told.out
