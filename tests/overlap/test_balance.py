"""Balance and coverage: the tables of the ImageNet-NOC paper, and tables made by hand."""

import numpy as np
import pytest

import published_scores as published
from eyechart.core.errors import UsageError
from eyechart.overlap.benchmarks import balance_of, coverage_of, direct_test, published_balance
from eyechart.overlap.matrix import OverlapMatrix
from eyechart.scores.baseline_tables import find_baseline
from overlap_cases import CLEAN_7, CLEAN_8, make_table, small_table

ROUNDED = 0.54
"""How far a printed mean can be from that of printed entries, but for those that METHODS names."""


def table_of(rows, clean, names, baseline, more=()):
    """The accuracies that have these relative corruption errors, in percent, against a baseline."""
    base = find_baseline(baseline)
    values = []
    for (*entries, _), start in zip(rows, clean, strict=True):
        errors = [
            start + entry / 100 * (base.errors[name] - base.clean)
            for entry, name in zip(entries, names, strict=True)
        ]
        values.append([1 - start, *(1 - error for error in errors)])
    return make_table(names, ("standard", *names, *more), np.array(values))


def paper(which):
    if which == 7:
        rows, names, base = published.NOC_TABLE_7, published.CORRUPTIONS, "alexnet"
        return table_of(rows.values(), CLEAN_7, names, base), rows, base
    rows, names, base = published.NOC_TABLE_8, published.NOC, "noc-alexnet"
    return table_of(rows.values(), CLEAN_8, names, base), rows, base


@pytest.mark.parametrize(
    "suite, means, deviation, width, sample",
    [
        ("imagenet-c", published.NOC_TABLE_2A, 12.07, 40, 12.49),
        ("imagenet-noc", published.NOC_TABLE_2B, 3.70, 11, 3.96),
    ],
)
def test_spreads_are_those_that_the_paper_prints(suite, means, deviation, width, sample):
    balance = published_balance(suite)
    own = [100 * balance.means[name] for name in balance.benchmark]
    assert sorted(own) == pytest.approx(sorted(means))
    assert round(100 * balance.deviation, 2) == deviation
    assert 100 * balance.range == pytest.approx(width)
    assert round(np.std(means, ddof=1), 2) == sample != deviation


@pytest.mark.parametrize("which, deviation, width", [(7, 12.1, 40), (8, 3.7, 11)])
def test_the_papers_tables_give_its_balance(which, deviation, width):
    table, rows, base = paper(which)
    balance = balance_of(table, relative=True, baseline=base)
    printed = [row[-1] for row in rows.values()]
    found = [100 * mean for mean in balance.means.values()]
    for name, own, said in zip(rows, found, printed, strict=True):
        if (which, name) == (7, "Standard"):
            assert own == pytest.approx(104.8) and said == 104
        else:
            assert abs(own - said) <= ROUNDED, name
    for (model, own), (*entries, _) in zip(balance.errors.items(), rows.values(), strict=True):
        assert [100 * value for value in own.values()] == pytest.approx(entries), model
    assert 100 * balance.deviation == pytest.approx(deviation, abs=0.15)
    assert 100 * balance.range == pytest.approx(width, abs=1)
    assert balance.title == f"relative mCE (baseline {base})" and "published" in balance.note


def test_imagenet_noc_is_more_balanced_than_imagenet_c():
    spreads = []
    for which in (7, 8):
        table, _, base = paper(which)
        spreads.append(balance_of(table, relative=True, baseline=base).deviation)
    assert spreads[1] < spreads[0] / 3


def test_the_standard_model_is_the_baseline_unless_another_is_named():
    balance = balance_of(small_table(), ("gaussian_noise", "shot_noise", "defocus_blur"))
    assert balance.baseline.name == "standard" and not balance.relative
    assert set(balance.errors["standard"].values()) == {1.0}
    assert balance.errors["shot_noise"]["gaussian_noise"] == pytest.approx(0.28 / 0.55)
    assert balance.means["defocus_blur"] == pytest.approx((1 + 1 + 0.19 / 0.46) / 3)
    assert "standard model" in balance.note
    relative = balance_of(small_table(), relative=True)
    assert relative.errors["shot_noise"]["gaussian_noise"] == pytest.approx(0.18 / 0.45)
    assert list(relative.means) == ["standard", *small_table().corruptions]


def test_the_spread_leaves_the_standard_model_out():
    balance = balance_of(small_table())
    own = [balance.means[name] for name in balance.benchmark]
    assert balance.deviation == pytest.approx(np.std(own))
    assert balance.range == pytest.approx(max(own) - min(own))


def test_relative_errors_need_a_baseline_that_corruption_hurts():
    table = small_table()
    values = table.values.copy()
    values[0, 0, 4] = values[0, 0, 0]
    with pytest.raises(UsageError, match=r"'noc/hue' must be more than the 0\.1 of"):
        balance_of(make_table(table.corruptions, table.models, values), relative=True)


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"benchmark": ("shot_noise", "fog")}, "Unknown corruption in the table: 'fog'"),
        ({"benchmark": ()}, "at least one corruption"),
        ({"baseline": "alexnett"}, "Did you mean 'alexnet'"),
        ({"baseline": "robustbench-alexnet"}, "noc/hue"),
    ],
)
def test_benchmarks_that_are_not_in_the_table_are_rejected(arguments, words):
    with pytest.raises(UsageError, match=words):
        balance_of(small_table(), **arguments)


# Coverage


def matrix_of(names, known):
    scores = np.eye(len(names))
    for (one, two), score in known.items():
        at = names.index(one), names.index(two)
        scores[at] = scores[at[::-1]] = score
    return OverlapMatrix(tuple(names), scores)


def test_a_corruption_is_covered_by_the_one_that_it_overlaps_most_with():
    names = ["noise", "grain", "blur", "hue"]
    known = {("noise", "grain"): 0.8, ("noise", "blur"): 0.3, ("blur", "hue"): np.nan}
    known |= {("noise", "hue"): np.nan}
    matrix = matrix_of(names, known)
    found = coverage_of(matrix, ("noise",), ("grain", "blur", "hue"))
    assert [(own.nearest, own.score) for own in found.covers[:2]] == [
        ("noise", 0.8),
        ("noise", 0.3),
    ]
    # 0.3 is not more than 0.3
    assert found.covered == ("grain",) and found.uncovered == ("blur",)
    assert found.undetermined == ("hue",) and found.covers[2].nearest == ""
    assert coverage_of(matrix, ("noise",), ("blur",), 0.29).covered == ("blur",)
    other = coverage_of(matrix, ("grain", "hue"), ("blur", "noise"))
    assert other.covered == ("noise",) and other.uncovered == ("blur",)


def test_a_corruption_of_both_benchmarks_is_covered_by_itself():
    found = coverage_of(matrix_of(["noise", "blur"], {}), ("noise", "blur"), ("blur",))
    assert found.covers[0].nearest == "blur" and found.covers[0].score == 1


@pytest.mark.parametrize(
    "by, of, min_overlap, words",
    [
        (("noise",), (), 0.3, "at least one corruption"),
        (("nose",), ("blur",), 0.3, "Did you mean 'noise'"),
        (("noise",), ("blur",), -1, "at least 0"),
    ],
)
def test_coverage_of_what_is_not_there_is_rejected(by, of, min_overlap, words):
    with pytest.raises(UsageError, match=words):
        coverage_of(matrix_of(["noise", "blur"], {}), by, of, min_overlap)


def direct_of_table_1(which):
    """Table 1 of the paper as accuracies: the model trained on all, on the other benchmark."""
    if which == "INOC":
        names, base, clean = published.CORRUPTIONS, "alexnet", 0.199
        rows = [published.NOC_TABLE_1["Standard-IC"], published.NOC_TABLE_1["m_INOC"]]
    else:
        names, base, clean = published.NOC, "noc-alexnet", 0.239
        rows = [published.NOC_TABLE_1["Standard-INOC"], published.NOC_TABLE_1["m_IC"]]
    middle = [rows[0]] * len(names)  # what single models do is not in the table and not asked for
    every = [rows[0], *middle, rows[1]]
    cleans = [*[0.247] * (len(names) + 1), clean]
    table = table_of(every, cleans, names, base, (f"all:{which}",))
    return direct_test(table, which, names, relative=True, baseline=base)


def test_training_on_imagenet_noc_helps_against_all_of_imagenet_c():
    found = direct_of_table_1("INOC")
    assert found.helped == tuple(published.CORRUPTIONS) and found.not_helped == ()
    mean, standard = found.means
    # the paper prints 81 and 104; its own entries have these means
    assert 100 * mean == pytest.approx(79.93, abs=0.01)
    assert 100 * standard == pytest.approx(104.2, abs=0.01)


def test_training_on_imagenet_c_helps_against_neither_hue_nor_border():
    found = direct_of_table_1("IC")
    assert found.not_helped == ("noc/border", "noc/hue") and found.trained_on == "all:IC"
    mean, standard = found.means
    assert (100 * mean, 100 * standard) == pytest.approx((59.12, 88.5), abs=0.01)


def test_the_direct_test_stands_beside_the_standard_model():
    found = direct_test(small_table(), "mine", ("gaussian_noise", "noc/hue"))
    assert found.errors["gaussian_noise"] == pytest.approx(0.25 / 0.55)
    assert set(found.standard.values()) == {1.0}
    assert found.helped == ("gaussian_noise",) and found.not_helped == ("noc/hue",)


def test_the_direct_test_needs_its_model():
    with pytest.raises(UsageError, match=r"needs a row 'all:other' in the table.*has all:mine"):
        direct_test(small_table(), "other", ("noc/hue",))
