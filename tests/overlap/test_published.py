"""Tables 1 and 2 of the ImageNet-NOC paper: from a study of both benchmarks, and as printed."""

import csv
import re

import numpy as np
import pytest

import published_scores as published
from commands import assert_rejected
from eyechart.core.errors import UsageError
from eyechart.overlap.accuracy_table import write_accuracies
from eyechart.overlap.benchmarks import (
    balance_of,
    direct_test,
    published_balance,
    published_direct_test,
)
from eyechart.scores.baseline_tables import find_baseline, joined_baseline
from overlap_cases import CLEAN_1, CLEAN_7, CLEAN_8, paper_study

COVERAGE = ("--by", "imagenet-noc", "--of", "imagenet-c")
SUITES = ("--suite", "imagenet-c", "--suite", "imagenet-noc")
BOTH = {"imagenet-c": "alexnet", "imagenet-noc": "noc-alexnet"}


@pytest.fixture
def study(tmp_path):
    path = tmp_path / "study.csv"
    write_accuracies(paper_study(), path)
    return path


def printed(model):
    """A row of table 1: its entries and the printed mean."""
    *entries, mean = published.NOC_TABLE_1[model]
    return entries, mean


def latex_rows(path):
    """The rows of all LaTeX tables in a file: first cell, then the other cells."""
    lines = [line for line in path.read_text().splitlines() if line.endswith(r" \\")]
    cells = [line.removesuffix(r" \\").split(" & ") for line in lines]
    return [(row[0].strip(), row[1:]) for row in cells]


@pytest.mark.parametrize("baseline", ["alexnet", "noc-alexnet"])
def test_a_study_of_both_benchmarks_gives_table_1_by_one_command(run, study, baseline, tmp_path):
    told = run(
        "overlap", "coverage", study, *COVERAGE, "--baseline", baseline,
        "--latex", tmp_path / "table1.tex",
    )  # fmt: skip
    assert told.status == 0, told.err
    assert (
        "Training on all of imagenet-noc improves robustness to 15 of 15 corruptions." in told.out
    )
    assert "robustness to 6 of 8 corruptions, not to noc/border, noc/hue." in told.out
    for suite, own in BOTH.items():
        assert f"relative CE on {suite} in percent, baseline {own}" in told.out
    rows = latex_rows(tmp_path / "table1.tex")
    # plain and relative errors on ImageNet-C, then on ImageNet-NOC; each has a head and two rows
    relative = {3: "Standard-IC", 9: "Standard-INOC"}
    for at, standard in relative.items():
        trained = "m_INOC" if at == 3 else "m_IC"
        for place, model in ((at + 1, standard), (at + 2, trained)):
            _, cells = rows[place]
            assert float(cells[0]) == pytest.approx(CLEAN_1.get(model, 0.247))
            assert [float(cell) for cell in cells[1:-1]] == printed(model)[0]
    # the paper's 81 is not the mean of its entries
    assert rows[5][1][-1] == "80" and printed("m_INOC")[1] == 81
    assert rows[11][1][-1] == "59" == f"{printed('m_IC')[1]:.0f}"


@pytest.mark.parametrize("baseline", ["alexnet", "noc-alexnet"])
def test_a_study_of_both_benchmarks_gives_table_2_by_one_command(run, study, baseline, tmp_path):
    told = run(
        "overlap", "balance", study, *SUITES, "--baseline", baseline, "--out", tmp_path / "e.csv"
    )
    assert told.status == 0, told.err
    with (tmp_path / "e.csv").open() as file:
        means = {
            (row["benchmark"], row["trained_on"]): 100 * float(row["corruption_error"])
            for row in csv.DictReader(file)
            if (row["form"], row["tested_on"]) == ("relative", "mean")
        }
        assert len(means) == 16 + 9
    for suite, names, table in (
        ("imagenet-c", published.CORRUPTIONS, published.NOC_TABLE_2A),
        ("imagenet-noc", published.NOC, published.NOC_TABLE_2B),
    ):
        for name, mean in zip(names, table, strict=True):
            assert means[suite, name] == pytest.approx(mean, abs=0.55)
    spreads = re.findall(
        r"relative mCE \(baseline \S+\): population standard deviation ([\d.]+)", told.out
    )
    assert [float(text) for text in spreads] == pytest.approx([12.1, 3.7], abs=0.15)


def test_nothing_is_printed_before_a_rejection(run, study):
    for wanted in (("coverage", study, *COVERAGE), ("balance", study, *SUITES)):
        rejected = run("overlap", *wanted, "--baseline", "robustbench-alexnet")
        assert_rejected(rejected, "Unknown corruption for baseline 'robustbench-alexnet'", "noc/")
        assert rejected.out == ""


def test_the_papers_own_tables_are_printed_by_the_same_commands(run, tmp_path):
    told = run("overlap", "coverage", "published", *COVERAGE, "--latex", tmp_path / "t1.tex")
    assert told.status == 0, told.err
    assert (
        "Training on all of imagenet-noc improves robustness to 15 of 15 corruptions." in told.out
    )
    assert "is not the mean of its entries, 79.9" in told.out
    rows = dict(latex_rows(tmp_path / "t1.tex"))
    assert [float(cell) for cell in rows["all:imagenet-noc"][1:]] == [
        *printed("m_INOC")[0], printed("m_INOC")[1],
    ]  # fmt: skip
    told = run("overlap", "balance", "published", "--latex", tmp_path / "t2.tex")
    assert told.status == 0, told.err
    assert "population standard deviation 12.1, range 40" in told.out
    assert "population standard deviation 3.7, range 11" in told.out
    means = [cells for name, cells in latex_rows(tmp_path / "t2.tex") if name == "Rel. mCE"]
    assert [[float(cell) for cell in row] for row in means] == [
        published.NOC_TABLE_2A,
        published.NOC_TABLE_2B,
    ]


def test_published_balance_and_coverage_are_the_printed_numbers():
    for suite, table, clean in (
        ("imagenet-c", published.NOC_TABLE_7, CLEAN_7),
        ("imagenet-noc", published.NOC_TABLE_8, CLEAN_8),
    ):
        own = published_balance(suite)
        for (model, errors), row in zip(own.errors.items(), table.values(), strict=True):
            assert [100 * value for value in errors.values()] == pytest.approx(row[:-1])
            assert 100 * own.means[model] == pytest.approx(row[-1])
        assert list(own.clean.values()) == pytest.approx(clean)
        assert own.relative and own.baseline.name == BOTH[suite]
    test = published_direct_test("imagenet-c", "imagenet-noc")
    assert [100 * value for value in test.errors.values()] == pytest.approx(printed("m_IC")[0])
    assert test.means == pytest.approx((0.59, 0.89)) and test.clean == pytest.approx((0.239, 0.247))


def test_errors_of_both_benchmarks_together_are_divided_each_by_its_own_table():
    table = paper_study()
    own = balance_of(table, baseline="alexnet")
    assert own.baseline.name == "alexnet + noc-alexnet" and "alexnet + noc-alexnet" in own.note
    for suite, name in BOTH.items():
        part = find_baseline(name)
        alone = balance_of(table, part.corruptions, baseline=name)
        for corruption in part.corruptions:
            error = 1 - table.of("fog")[table.place(corruption)]
            expected = error / part.errors[corruption]
            assert own.errors["fog"][corruption] == pytest.approx(expected)
            if suite == "imagenet-c":
                assert alone.errors["fog"][corruption] == pytest.approx(expected)
    assert np.isclose(own.means["fog"], np.mean(list(own.errors["fog"].values())))


def test_a_baseline_is_looked_up_by_suite_and_never_among_other_images():
    assert find_baseline("alexnet", published.NOC).name == "noc-alexnet"
    assert find_baseline("noc-alexnet", published.CORRUPTIONS).name == "alexnet"
    assert find_baseline("robustbench-alexnet", ["flash"]).name == "robustbench-alexnet-3dcc"
    # nobody has these errors on RobustBench's images, so they are not taken from other images
    assert find_baseline("robustbench-alexnet", published.NOC).name == "robustbench-alexnet"
    with pytest.raises(UsageError, match="baseline 'robustbench-alexnet': 'noc/hue'"):
        joined_baseline("robustbench-alexnet", ["fog", "noc/hue"])
    test = direct_test(
        paper_study(), "imagenet-c", published.NOC, relative=True, baseline="alexnet"
    )
    assert test.baseline.name == "noc-alexnet"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("balance", "published", "--suite", "vcr"), "not for vcr"),
        (("balance", "published", "--baseline", "standard"), "omit --baseline standard"),
        (("balance", "published", "--figure", "x.png"), "add --relative"),
        (("balance", "published", "--latex", "x.txt"), "must end in .tex"),
        (("balance", "published", "--latex", "mine.tex"), "not written by eyechart"),
        (("coverage", "published", "--by", "imagenet-c", "--of", "imagenet-c"), "on itself"),
        (("coverage", "overlaps.csv", *COVERAGE, "--latex", "x.tex"), "no row all:imagenet-noc"),
    ],
)
def test_what_was_not_printed_is_rejected_in_one_sentence(
    run, study, tmp_path, monkeypatch, arguments, words
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.tex").write_text("my own table\n")
    if "overlaps.csv" in arguments:
        assert run("overlap", "matrix", study, "--out", "overlaps.csv").status == 0
    assert_rejected(run("overlap", *arguments), words)
    assert (tmp_path / "mine.tex").read_text() == "my own table\n"


def test_a_file_called_published_is_the_users_own(run, study, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    study.rename(tmp_path / "published")
    told = run("overlap", "balance", "published", *SUITES)
    assert told.status == 0 and "baseline standard" in told.out
