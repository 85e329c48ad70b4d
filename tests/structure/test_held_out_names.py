"""Subclasses that are held out by name, and those that the ICONS-50 authors held out."""

import json
import unicodedata

import pytest

from eyechart.core.errors import UsageError
from eyechart.structure.held_out_names import (
    hold_named,
    hold_published,
    published_names,
    read_names,
)
from icon_packages import NAMES
from kinds_data import Row, colors, in_memory, tinted, write_rows

# by the published code's own list: several of one class, and names that are also classes' names
SOME = ("small_airplane", "books", "monkey", "family_man_boy", "cartwheel_type_6", "pencil")


def icons(names, others=("other_1", "other_2", "other_3", "other_4")):
    """Icons of the class "Thing", two of each of these and of other subclasses."""
    rows = [Row("Thing", subclass=name) for name in (*names, *others) for _ in range(2)]
    return [*rows, *(Row("Stuff", subclass=name) for name in others for _ in range(2))]


def numbered(rows):
    return [Row(row.label, row.style, row.subclass, number) for number, row in enumerate(rows)]


def test_the_published_list_has_50_names_and_present_ones_that_are_other_names():
    names = published_names()
    assert len(names) == 50 and set(SOME) <= set(names)
    assert sum(name.startswith("family_") for name in names) == 5
    assert all(present != name for name, present in names.items())


@pytest.mark.parametrize(
    ("published", "character"),
    [
        ("top_with_upwards_arrow_above", "🔝"),
        ("derelict_house_building", "🏚"),
        ("face_throwing_a_kiss", "😘"),
        ("circled_ideograph_accept", "🉑"),
        ("closed_lock_with_key", "🔐"),
        ("banknote_with_dollar_sign", "💵"),
        ("no_smoking_symbol", "🚭"),
    ],
)
def test_a_present_name_is_of_the_emoji_whose_character_has_the_published_name(
    published, character
):
    """By Unicode's own table: characters keep their names, emoji get simpler ones."""
    assert unicodedata.name(character).lower().replace(" ", "_") == published
    assert published_names()[published]


def test_names_are_compared_as_a_whole_and_never_with_a_path(tmp_path):
    rows = [Row("Books", subclass=name) for name in ("books", "old_books", "ledger", "notebook")]
    kinds = in_memory(numbered([*rows, *rows, *icons(())]))
    assert hold_named(kinds, ["books"]) == ("Books/books",)
    assert hold_named(kinds, ["Old Books", "LEDGER"]) == (
        "Books/ledger",
        "Books/old_books",
    )


def test_a_name_of_two_classes_is_both_unless_its_class_is_said():
    kinds = in_memory(numbered(colors(2, ("plain",))))
    assert len(hold_named(kinds, ["calm"])) == 3
    assert hold_named(kinds, ["red/calm"]) == ("red/calm",)


def test_published_names_that_are_there_are_found_without_a_note():
    kinds = in_memory(numbered(icons(published_names())))
    held, notes = hold_published(kinds)
    assert held == tuple(sorted(f"Thing/{name}" for name in published_names()))
    assert notes == ()


def test_other_names_of_the_same_emoji_are_found_and_said():
    given = [present or name for name, present in published_names().items()]
    given[given.index("chequered_flag")] = "checkered_flag"
    given.remove("rabbit_face")
    held, notes = hold_published(in_memory(numbered(icons(given))))
    assert set(held) == {f"Thing/{name}" for name in given}
    renamed, missing = notes
    assert "14 of the 50 published subclasses have other names" in renamed
    assert "face_throwing_a_kiss is face_blowing_a_kiss" in renamed
    assert "chequered_flag is checkered_flag" in renamed
    assert "rabbit_face (1 of the 50" in missing


def test_present_names_are_those_of_the_package_that_icons_are_drawn_from():
    known = set(" ".join(NAMES.values()).split())
    assert {"face_blowing_a_kiss", "person_cartwheeling"} <= known & set(published_names().values())


def test_data_without_most_of_them_is_rejected():
    few = list(published_names())[:20]
    with pytest.raises(UsageError, match="has 20 of the 50 subclasses"):
        hold_published(in_memory(numbered(icons(few))))


def test_a_file_holds_names_between_spaces_commas_or_lines(tmp_path):
    path = tmp_path / "names.txt"
    path.write_text("small_airplane duck, ledger # a comment\nbooks\n")
    assert read_names([str(path), "monkey"]) == [
        *("small_airplane", "duck", "ledger", "books", "monkey")
    ]
    path.write_text("# nothing\n")
    with pytest.raises(UsageError, match="at least one"):
        read_names([str(path)])
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="text file"):
        read_names([str(path)])


def test_the_command_trains_without_what_is_named_and_tests_on_it(run, tmp_path):
    where = write_rows(tmp_path / "set", colors(3, ("plain",)), tinted)
    (tmp_path / "held.txt").write_text("red/calm\n")
    words = (
        "--arch",
        "textures:network",
        "--epochs",
        1,
        "--batch-size",
        8,
        "--out",
        tmp_path / "out",
    )
    given = ("--hold", "blue/wild", "--hold", tmp_path / "held.txt")
    told = run("structure", "subclass", "--images", where, *given, *words)
    assert told.status == 0, told.err
    (fold,) = json.loads((tmp_path / "out" / "results.json").read_text())["folds"]
    assert fold["held"] == ["blue/wild", "red/calm"]
    assert fold["n_images"] == [6, 2, 10] and fold["missing"] == ["green"]


def test_the_command_says_and_records_what_stands_for_published_names(run, tmp_path):
    given = [present or name for name, present in published_names().items()][:40]
    rows = [Row(("red", "blue")[n % 2], subclass=name) for n, name in enumerate(given)]
    rows += [Row(label, subclass=f"other{n}") for label in ("red", "blue") for n in range(3)]
    where = write_rows(tmp_path / "set", rows, tinted)
    words = (
        "--arch",
        "textures:network",
        "--epochs",
        1,
        "--batch-size",
        4,
        "--out",
        tmp_path / "out",
    )
    told = run("structure", "subclass", "--images", where, "--order", "published", *words)
    assert told.status == 0, told.err
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    # as in the paper, all others are trained on
    assert results["folds"][0]["n_images"] == [40, 0, len(rows) - 40]
    assert results["protocol"] == "published"
    assert json.loads((tmp_path / "out" / "run.json").read_text())["stimulus"] == "32x32"
    for note in results["notes"]:
        assert f"Note: {note}" in told.out
    assert "the closest ones" in results["notes"][0] and "(10 of the 50" in results["notes"][1]


def test_published_names_can_be_held_out_with_familiar_images(run, tmp_path):
    rows = [Row(("red", "blue")[n % 2], subclass=name) for n, name in enumerate(published_names())]
    rows += [Row(label, subclass=f"other{n}") for label in ("red", "blue") for n in range(3)]
    where = write_rows(tmp_path / "set", rows, tinted)
    words = ("--arch", "textures:network", "--epochs", 1, "--batch-size", 4)
    given = ("--order", "published", "--protocol", "familiar", "--out", tmp_path / "out", *words)
    told = run("structure", "subclass", "--images", where, *given)
    assert told.status == 0, told.err
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert results["folds"][0]["n_images"] == [50, 2, 4] and results["familiar"] is not None
    assert json.loads((tmp_path / "out" / "run.json").read_text())["stimulus"] == "32x32"
