"""Published results as data: the printed numbers, their sources, and mCE from accuracies."""

import csv
import gzip

import numpy as np
import pytest

import eyechart as ec
import published_scores as published
from eyechart.core.errors import UsageError
from eyechart.results.image_sets import IMAGE_SETS
from eyechart.results.published_results import (
    FOLDER,
    find_published,
    implied_human_area,
    published_tables,
    read_published,
)
from eyechart.scores.baseline_tables import built_in

TABLES = {table.name: table for table in published_tables()}
ROBUSTBENCH = {"robustbench-imagenet-c": 2, "robustbench-imagenet-3dcc": 4}
"""In which column of the leaderboard its mCE stands."""

# table, which errors, the rows of an independent copy (entries, then the mean)
PRINTED = [
    ("imagenet-c-paper", "ce", {k: [*v[2:], v[1]] for k, v in published.CE.items()}),
    (
        "imagenet-c-paper",
        "relative_ce",
        {k: [*v[2:], v[1]] for k, v in published.RELATIVE_CE.items()},
    ),
    ("noc-table4", "relative_ce", published.NOC_TABLE_4),
    ("noc-table5", "relative_ce", published.NOC_TABLE_5),
    ("noc-table6", "relative_ce", published.NOC_TABLE_6),
    ("noc-table7", "relative_ce", published.NOC_TABLE_7),
    ("noc-table8", "relative_ce", published.NOC_TABLE_8),
    *(
        (f"noc-table1-{suite}", "relative_ce", {row: published.NOC_TABLE_1[row] for row in rows})
        for suite, rows in {
            "imagenet-c": ("Standard-IC", "m_INOC"),
            "imagenet-noc": ("Standard-INOC", "m_IC"),
        }.items()
    ),
]


@pytest.mark.parametrize(("name", "form", "rows"), PRINTED)
def test_the_numbers_are_those_of_an_independent_copy(name, form, rows):
    models = TABLES[name].models
    assert len(models) == len(rows)
    for model, (*entries, mean) in zip(models, rows.values(), strict=True):
        own = model.ce if form == "ce" else model.relative_ce
        assert [100 * value for value in own.values()] == pytest.approx(entries), model.model
        score = model.scores["mce" if form == "ce" else "relative_mce"]
        assert 100 * score == pytest.approx(mean)


def test_printed_means_are_those_of_the_entries_except_those_that_a_note_names():
    different = {("noc-table1-imagenet-c", "all:imagenet-noc"): 79.93}
    different |= {("noc-table6", "DenseNet-201"): 66.62, ("noc-table7", "standard"): 104.8}
    checked = 0
    for name, table in TABLES.items():
        for row in table.models:
            for errors, score in ((row.ce, "mce"), (row.relative_ce, "relative_mce")):
                if not errors:
                    continue
                mean, printed = np.mean(list(errors.values())), row.scores[score]
                checked += 1
                if (name, row.model) in different:
                    assert 100 * mean == pytest.approx(different[name, row.model], abs=0.006)
                    assert abs(100 * mean - 100 * printed) > 0.55 and table.note
                else:
                    assert abs(100 * mean - 100 * printed) <= 0.55, (name, row.model)
    assert checked == 7 * 2 + 2 + 2 + 5 + 9 + 9 + 16 + 9 + 8 * 2 + 8 * 2


def test_clean_errors_and_means_without_entries_are_the_printed_ones():
    for name in ("imagenet-c-paper", "noc-table5", "noc-table6"):
        for row in TABLES[name].models:
            model = row.model.replace("+BN", "-BN")
            if model in published.CE:
                clean = 100 * (1 - row.scores["clean_accuracy"])
                assert clean == pytest.approx(published.CE[model][0])
    rows = {row.model: row.scores for row in TABLES["imagenet-c-paper-text"].models}
    assert set(rows) == set(published.IN_TEXT)
    for model, (clean, mean) in published.IN_TEXT.items():
        assert 100 * (1 - rows[model]["clean_accuracy"]) == pytest.approx(clean)
        assert 100 * rows[model]["mce"] == pytest.approx(mean)
    means = [100 * row.scores["mce"] for row in TABLES["noc-table4-imagenet-c"].models]
    assert means == pytest.approx(list(published.NOC_TABLE_4_PLAIN.values()))


@pytest.mark.parametrize(("name", "column"), ROBUSTBENCH.items())
def test_mce_of_robustbench_is_reproduced_to_two_decimals(name, column):
    table = TABLES[name]
    assert {row.model for row in table.models} == set(published.ROBUSTBENCH)
    for row in table.models:
        printed = published.ROBUSTBENCH[row.model]
        assert round(100 * row.scores["mce"], 2) == printed[column], row.model
        assert 100 * row.scores["clean_accuracy"] == pytest.approx(printed[0])
        accuracy = 100 * (1 - row.scores["error"])
        assert accuracy == pytest.approx(printed[column - 1], abs=0.0051)
    base = built_in()[table.baseline]
    assert base.images == table.images and base.clean == pytest.approx(1 - 0.5624)


@pytest.mark.parametrize(("name", "column"), ROBUSTBENCH.items())
def test_the_public_way_from_accuracies_to_mce(name, column, tmp_path):
    """What somebody with a file of RobustBench's format does, in Python."""
    source = FOLDER / f"{name.replace('-', '_')}.csv"
    path = tmp_path / "mine.csv"
    path.write_text(source.read_text().replace("Standard_R50", "mine"))
    own = ec.read_severity_errors(path)["mine"]
    found = ec.mean_corruption_error(own.errors, "robustbench-alexnet")
    assert round(100 * found.value, 2) == published.ROBUSTBENCH["Standard_R50"][column]
    # the full validation set gives 76.70, so the name of the baseline is part of the result
    assert found.baseline.name == TABLES[name].baseline and found.baseline.name in found.title
    (table,) = read_published(path)
    assert table.suite == TABLES[name].suite and table.images == ""
    assert table.model("mine").scores["mce"] == pytest.approx(found.value)


def test_robustbenchs_own_files_give_the_same(tmp_path):
    """Its unaggregated_results.csv: corruptions and severities in two rows above the models."""
    text = (FOLDER / "robustbench_imagenet_3dcc.csv").read_text()
    rows = list(csv.DictReader(text.splitlines()))
    models = list(dict.fromkeys(row["model"] for row in rows))
    first = [row for row in rows if row["model"] == models[0]]
    wide = [["", *(row["corruption"] for row in first)], ["", *(row["severity"] for row in first)]]
    wide += [[model, *(r["accuracy"] for r in rows if r["model"] == model)] for model in models]
    path = tmp_path / "unaggregated_results_3d.csv"
    path.write_text("".join(",".join(line) + "\n" for line in wide))
    found = ec.read_severity_errors(path)
    expected = ec.read_severity_errors(FOLDER / "robustbench_imagenet_3dcc.csv")
    assert found == expected and len(found) == 8
    packed = tmp_path / "packed.csv.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert ec.read_severity_errors(packed) == ec.read_severity_errors(path)


def test_relative_errors_need_clean_accuracy_in_the_file(tmp_path):
    path = tmp_path / "mine.csv"
    text = (FOLDER / "robustbench_imagenet_c.csv").read_text()
    path.write_text(text + "Standard_R50,clean,,0.7672\n")
    (table,) = read_published(path)
    own = TABLES["robustbench-imagenet-c"].model("Standard_R50")
    assert table.model("Standard_R50").scores == pytest.approx(own.scores)
    assert set(table.model("AlexNet").scores) == {"error", "mce"}
    (other,) = read_published(path, "alexnet")
    assert other.baseline == "alexnet"
    assert other.model("Standard_R50").scores["mce"] != own.scores["mce"]


def test_a_file_of_two_suites_is_two_tables(tmp_path):
    parts = [(FOLDER / f"{name.replace('-', '_')}.csv").read_text() for name in ROBUSTBENCH]
    path = tmp_path / "both.csv"
    path.write_text(parts[0] + parts[1].split("\n", 1)[1])
    tables = read_published(path)
    assert [table.suite for table in tables] == ["imagenet-c", "imagenet-3dcc"]
    assert [table.baseline for table in tables] == [TABLES[name].baseline for name in ROBUSTBENCH]


def test_scores_of_vcr_imply_one_human_area_for_each_corruption():
    areas = {}
    rows = iter(TABLES["vcr-table3"].models)
    printed = {}
    for row in rows:
        model, stage = row.model.removesuffix(" retraining").split(", ")
        own = [row.scores[f"{kind}_{letter}"] for letter in "ap" for kind in ("r", "hmri", "mrsi")]
        printed[model, row.corruption.removeprefix("vcr/"), stage] = tuple(own)
        for letter in "ap":
            areas.setdefault((row.corruption, letter), []).append(
                row.scores[f"human_area_{letter}"]
            )
    assert len(printed) == 12
    for (model, corruption), both in published.VCR_TABLE_3.items():
        assert (printed[model, corruption, "before"], printed[model, corruption, "after"]) == both
    expected = {"a": {"median_blur": 0.837, "frost": 0.813, "glass_blur": 0.820}}
    expected["p"] = {"median_blur": 0.852, "frost": 0.817, "glass_blur": 0.830}
    for (corruption, letter), own in areas.items():
        assert np.ptp(own) < 0.005 and len(own) == 4
        area = expected[letter][corruption.removeprefix("vcr/")]
        assert np.mean(own) == pytest.approx(area, abs=0.001)


def test_coverage_is_printed_in_39ths_although_the_text_says_40_bins():
    table = TABLES["vcr-coverage"]
    rows = {row.corruption: (row.model, row.scores["coverage"]) for row in table.models}
    assert len(rows) == len(table.models) == 18 and "1/39" in table.note
    for corruption, (imagenet_c, vcr) in published.VCR_COVERAGE.items():
        assert rows[corruption] == ("ImageNet-C", imagenet_c)
        assert rows[f"vcr/{corruption}"] == ("VCR test set", vcr)
        for value in (imagenet_c, vcr):
            assert round(round(39 * value) / 39, 3) == value


@pytest.mark.parametrize(
    ("name", "printed"),
    [("icons-50", published.ICONS_50), ("cifar-100-subclasses", published.CIFAR_100)],
)
def test_accuracies_on_held_out_styles_and_subclasses_are_the_printed_ones(name, printed):
    rows = TABLES[name].models
    assert len(rows) == len(printed)
    for row, (held_out, accuracy) in zip(rows, printed.items(), strict=True):
        assert held_out in row.model and 100 * row.scores["accuracy"] == pytest.approx(accuracy)


def test_the_implied_area_is_exact():
    # humans 1 − v, a model 0.5 everywhere: O = 3/8, A_human = A_model = 1/2
    assert implied_human_area(0.5, hmri=0.75, mrsi=0.25) == pytest.approx(0.5)


def test_every_table_says_where_it_comes_from():
    assert len(TABLES) == len(published_tables()) == 16
    for table in TABLES.values():
        assert table.source and table.title and table.models
        assert table.images in IMAGE_SETS and table.image_title
        assert table.baseline in ("", *built_in())
        if table.baseline:
            assert table.suite in built_in()[table.baseline].suites
    listed = {path.name for path in FOLDER.glob("*.csv")}
    text = (FOLDER / "tables.yaml").read_text() + "robustbench_models.csv"
    assert listed == {name for name in listed if name in text}


def test_results_are_found_by_suite_and_by_name():
    assert {table.suite for table in find_published("imagenet-noc")} == {"imagenet-noc"}
    assert len(find_published("imagenet-c")) == 7
    assert [table.name for table in find_published("noc-table5")] == ["noc-table5"]
    with pytest.raises(UsageError, match="Did you mean 'imagenet-c'"):
        find_published("imagenetc")


HEAD = "model,corruption,severity,accuracy\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no rows|lacks the column model"),
        (HEAD, "no rows"),
        ("model,corruption,accuracy\nm,fog,0.5\n", "lacks the column severity"),
        (HEAD + "m,fog,1,50\n", "accuracy must be a number from 0 to 1, got '50'"),
        (HEAD + "m,fog,6,0.5\n", "severity must be in 1 to 5, got 6"),
        (HEAD + "m,fog,1,0.5\nm,fog,1,0.5\n", "severity 1 of fog appears twice"),
        (HEAD + "m,fog,1,0.5\n", "no severity 2 of fog for m"),
        (HEAD + "m,clean,,0.5\n", "only clean ones"),
        (HEAD + "m,clean,,0.5\nm,clean,,0.6\n", "twice"),
        (HEAD + "".join(f"m,fog,{s},0.5\n" for s in range(1, 6)), "15 corruptions, but m has no"),
        (HEAD + "".join(f"m,fogg,{s},0.5\n" for s in range(1, 6)), "Did you mean 'fog'"),
        (",fog,fog\n,1,2\nm,0.5\n", "must have 3 cells"),
        (",fog,fog\n,1,2\n", "no rows"),
        (",fog\n", "no rows"),
        (",fog\n,1\nm," + "x" * 200_000 + "\n", "must be a valid CSV file"),
        (",fog\n,one\nm,0.5\n", "severity must be a whole number, got 'one'"),
        (",fog\n,1\nm,\n", "accuracy must be a number from 0 to 1, got ''"),
    ],
)
def test_a_file_that_cannot_be_used_is_rejected_in_one_sentence(tmp_path, text, words):
    path = tmp_path / "mine.csv"
    path.write_text(text)
    with pytest.raises(UsageError, match=words) as rejected:
        read_published(path)
    assert "\n" not in str(rejected.value)
