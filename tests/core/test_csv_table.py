import gzip

import pytest

from eyechart.core.csv_table import (
    column_names,
    packaged_rows,
    read_cells,
    read_rows,
    write_cells,
)
from eyechart.core.errors import UsageError


@pytest.fixture
def table(tmp_path):
    def write(text, name="a.csv"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def test_rows_know_their_cells_by_lower_case_names_and_their_numbers(table):
    rows = list(read_rows(table("Name, Share\n a ,0.5\n\nb,1\n"), ["name"]))
    assert [(row.number, row["name"], row.share("share")) for row in rows] == [
        (2, "a", 0.5),
        (4, "b", 1.0),
    ]
    assert "share" in rows[0] and "other" not in rows[0]


def test_gzip_and_a_byte_order_mark_are_read_through(table):
    packed = table(gzip.compress("\ufeffa,b\n1,2\n".encode()), "a.csv.gz")
    assert next(read_rows(packed))["a"] == "1"
    assert column_names(packed) == {"a", "b"}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("b\n1\n", "lacks the column a: it needs a"),
        ("a,b\n1\n", "row 2: 1 cells instead of 2"),
        ("a\n", "has no rows"),
        ('a\n"1"x\n', "row 2: .* the file is not valid CSV"),
        (b"a\n\xe9\n", "not UTF-8 text"),
        (b"\x1f\x8bzz", "damaged or truncated"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(table, text, sentence):
    with pytest.raises(UsageError, match=sentence):
        list(read_rows(table(text), ["a"]))


def test_ragged_rows_are_filled_and_cut(table):
    rows = list(read_rows(table("a,b\n1\n1,2,3\n"), is_ragged=True))
    assert [row.cells for row in rows] == [{"a": "1", "b": ""}, {"a": "1", "b": "2"}]


@pytest.mark.parametrize(
    ("text", "read", "sentence"),
    [
        ("1.5", "share", "row 2: a must be a number from 0 to 1, got '1.5'"),
        ("nan", "share", "from 0 to 1"),
        ("1.5", "whole", "must be a whole number"),
        ("-1", "whole", "must be a whole number"),
        ('" "', "filled", "row 2: a is empty"),
    ],
)
def test_cells_are_checked_with_their_place(table, text, read, sentence):
    row = next(read_rows(table(f"a\n{text}\n")))
    with pytest.raises(UsageError, match=sentence):
        getattr(row, read)("a")


def test_cells_are_read_as_they_were_written(tmp_path):
    rows = [["", "x, y"], ["a", '"1"']]
    write_cells(tmp_path / "a.csv", rows)
    assert read_cells(tmp_path / "a.csv", "a matrix") == rows
    with pytest.raises(UsageError, match="cannot be read as a matrix: No such file"):
        read_cells(tmp_path / "b.csv", "a matrix")


def test_tables_of_the_package_are_read_without_their_comments():
    rows = packaged_rows("eyechart.humans", "data", "geirhos_delta_v.csv")
    assert {"experiment", "strength"} <= set(rows[0])
    assert len(packaged_rows("eyechart.images.labels", "data", "imagenet.csv")) == 1000


def test_a_cell_that_is_too_long_is_one_sentence(tmp_path):
    path = tmp_path / "long.csv"
    path.write_text("a,b\n1," + "x" * 2_000_000 + "\n")
    with pytest.raises(UsageError, match="row 2: field larger than field limit"):
        list(read_rows(path))
    path.write_text("a," + "x" * 2_000_000 + "\n1,2\n")
    for read in (column_names, lambda path: list(read_rows(path)), lambda p: read_cells(p, "it")):
        with pytest.raises(UsageError) as error:
            read(path)
        assert str(error.value).startswith(str(path)) and len(str(error.value)) < 300
