"""Accuracy tables and matrices as files: what is written is read, what is wrong is said."""

import re

import numpy as np
import pytest

from eyechart.core.errors import UsageError
from eyechart.overlap.accuracy_table import read_accuracies, write_accuracies
from eyechart.overlap.matrix_file import find_matrix, read_matrix, write_matrix
from eyechart.overlap.overlap_settings import MatrixSettings
from overlap_cases import make_table, small_table, write_small

GOOD = """trained_on,clean,fog,rain
standard,0.9,0.5,0.6
rain,0.9,0.5,0.8
fog,0.8,0.7,0.6
all:mine,0.85,0.7,0.7
"""
SEEDS = """trained_on,seed,clean,fog,rain
standard,0,0.9,0.5,0.6
fog,0,0.8,0.7,0.6
rain,0,0.9,0.5,0.8
standard,1,0.8,0.4,0.6
fog,1,0.8,0.7,0.6
rain,1,0.8,0.4,0.8
"""


def write(folder, text, name="accuracies.csv"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_rows_may_come_in_any_order(tmp_path):
    table = read_accuracies(write(tmp_path, GOOD))
    assert table.corruptions == ("fog", "rain") and table.benchmarks == ("mine",)
    assert table.models == ("standard", "fog", "rain", "all:mine")
    assert table.of("fog").tolist() == [0.8, 0.7, 0.6]
    assert table.robustness()[0].tolist() == [
        [0.5 / 0.9, 0.6 / 0.9], [0.7 / 0.8, 0.6 / 0.8], [0.5 / 0.9, 0.8 / 0.9],
    ]  # fmt: skip


def test_a_folder_is_read_by_its_table(tmp_path):
    write(tmp_path, GOOD)
    assert read_accuracies(tmp_path).corruptions == ("fog", "rain")
    with pytest.raises(UsageError, match=r"has no accuracies\.csv"):
        read_accuracies(tmp_path.parent)


def test_seeds_are_kept_apart_and_overlaps_are_of_their_mean_robustness(tmp_path):
    table = read_accuracies(write(tmp_path, SEEDS))
    assert table.seeds == ("0", "1") and table.values.shape == (2, 3, 3)
    assert table.of("standard") == pytest.approx([0.85, 0.45, 0.6])
    robustness = table.robustness()
    assert robustness.shape == (2, 3, 2)
    mean = robustness.mean(axis=0)
    added = mean[1:] - mean[0]
    want = 0.5 * (added[0, 1] / added[1, 1] + added[1, 0] / added[0, 0])
    assert table.matrix()["fog", "rain"] == pytest.approx(max(0, want))
    each = [
        make_table(table.corruptions, table.models, own).matrix()["fog", "rain"]
        for own in table.values
    ]
    assert table.seed_deviation()[0, 1] == pytest.approx(np.std(each, ddof=1))
    assert small_table().seed_deviation() is None


@pytest.mark.parametrize("seeds", [("",), ("0", "1", "2")])
def test_what_is_written_is_read_to_the_last_bit(tmp_path, seeds):
    table = small_table(seeds)
    write_accuracies(table, tmp_path / "table.csv")
    again = read_accuracies(tmp_path / "table.csv")
    assert again.corruptions == table.corruptions and again.models == table.models
    assert again.seeds == seeds and np.array_equal(again.values, table.values)


BAD = [
    ("", "must begin with the row trained_on,clean"),
    (GOOD.replace("trained_on", "name"), "must begin with the columns trained_on"),
    (GOOD.replace(",clean", ",fogg"), "got trained_on, fogg"),
    (GOOD.replace(",fog,rain", ",fog,"), "a named column for each corruption"),
    ("trained_on,clean\nstandard,0.9\n", "a named column for each corruption"),
    (GOOD.replace(",fog,rain", ",fog,fog"), "got fog twice"),
    (GOOD.replace("rain,0.9", "fog,0.9"), "got fog twice"),
    (GOOD.replace("standard", "baseline"), "must have a row 'standard'"),
    (GOOD.replace("rain,0.9,0.5,0.8\n", ""), "must have a row for every corruption, but has none"),
    (GOOD.replace("all:mine", "snow"), "has none for snow"),
    (GOOD.replace("0.7,0.6", "0.7"), "must have 4 cells in every row, got 3 in the row of fog"),
    (GOOD.replace("0.9,0.5,0.8", "90,50,80"), "got '90' in the row of rain: divide percent by 100"),
    (GOOD.replace("0.9,0.5,0.8", "0.9,-0.5,0.8"), "between 0 and 1, got '-0.5'"),
    (GOOD.replace("0.9,0.5,0.8", "0.9,,0.8"), "between 0 and 1, got ''"),
    (GOOD.replace("0.9,0.5,0.8", "0.9,nan,0.8"), "between 0 and 1, got 'nan'"),
    (GOOD.replace("0.9,0.5,0.8", "0.9,much,0.8"), "between 0 and 1, got 'much'"),
    (GOOD.replace("rain,0.9,0.5", "rain,0,0.5"), "got 0 for rain"),
    (SEEDS.replace("rain,1,0.8,0.4,0.8\n", ""), "has none for rain with seed 1"),
    (SEEDS.replace("rain,1,", "rain,0,"), "got rain with seed 0 twice"),
]


@pytest.mark.parametrize("text, words", BAD)
def test_bad_tables_are_rejected_in_one_sentence(tmp_path, text, words):
    with pytest.raises(UsageError) as error:
        read_accuracies(write(tmp_path, text))
    said = str(error.value)
    assert words in said and said.endswith(".") and "\n" not in said
    assert len(re.findall(r"\. [A-Z]", said)) == 0


def test_files_that_cannot_be_read_are_rejected(tmp_path):
    with pytest.raises(UsageError, match="cannot be read as an accuracy table: No such file"):
        read_accuracies(tmp_path / "none.csv")
    (tmp_path / "bytes.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="UTF-8"):
        read_accuracies(tmp_path / "bytes.csv")


def test_low_clean_accuracy_is_noted():
    table = small_table()
    low = make_table(table.corruptions, table.models, table.values * 0.5)
    assert any("5 of 5 models" in note for note in low.matrix().notes)
    assert not any("clean images" in note for note in table.matrix(classes=10).notes)


def test_a_matrix_is_read_as_it_was_written(tmp_path):
    matrix = small_table().matrix()
    write_matrix(matrix, tmp_path / "overlap.csv", ("shot_noise", "defocus_blur"))
    stored, selected = read_matrix(tmp_path / "overlap.csv")
    assert stored.names == matrix.names
    assert np.array_equal(stored.scores, matrix.scores, equal_nan=True)
    assert selected == ("shot_noise", "defocus_blur")
    write_matrix(matrix, tmp_path / "overlap.csv")
    assert read_matrix(tmp_path / "overlap.csv")[1] == ()
    first = (tmp_path / "overlap.csv").read_text().splitlines()[-1]
    assert first == "noc/hue,,,,"


def test_a_matrix_is_found_in_a_file_of_scores_of_accuracies_or_in_a_folder(tmp_path):
    path = write_small(tmp_path)
    matrix = small_table().matrix()
    write_matrix(matrix, tmp_path / "overlap.csv")
    for source in (path, tmp_path, tmp_path / "overlap.csv"):
        found = find_matrix(source)
        assert found.names == matrix.names
        assert np.array_equal(found.scores, matrix.scores, equal_nan=True)
    assert find_matrix(path, MatrixSettings(min_gain=0.001)).undetermined == ()


def test_a_matrix_that_is_not_square_or_not_symmetric_is_rejected(tmp_path):
    for text, words in (
        (",fog,rain\nfog,1,0.2\n", "at least two"),
        (",fog,rain\nfog,1,0.2\nsnow,0.2,1\n", "rain across and snow down"),
        (",fog,rain\nfog,1,0.2\nrain,0.3,1\n", "symmetric"),
        (",fog,rain\nfog,1,20%\nrain,0.3,1\n", "got '20%'"),
    ):
        with pytest.raises(UsageError, match=re.escape(words)):
            read_matrix(write(tmp_path, text, "overlap.csv"))
