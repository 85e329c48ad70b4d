"""The original ICONS-50: class folders whose file names say everything, or one .npy file."""

import csv
import json
import pickle

import numpy as np
import pytest
from PIL import Image

from commands import assert_rejected
from eyechart.cli.app import main
from eyechart.core.errors import UsageError
from eyechart.structure.icons50 import is_icons50, read_name
from kinds_data import colors, tinted, write_rows


def listed(folder):
    with (folder / "icons.csv").open(newline="", encoding="utf-8") as file:
        return [tuple(row.values()) for row in csv.DictReader(file)]


def icon_image(number):
    return np.full((32, 32, 3), 10 * number, dtype=np.uint8)


@pytest.mark.parametrize(
    ("stem", "found"),
    [
        ("microsoft_2_small_airplane", ("microsoft", "2", "small_airplane")),
        ("small_airplane_microsoft_2", ("microsoft", "2", "small_airplane")),
        ("small-airplane-2-microsoft", ("microsoft", "2", "small_airplane")),
        ("apple_11_books", ("apple", "11", "books")),
        ("Google_monkey", ("google", "", "monkey")),
        ("emoji_one_3_cartwheel_type_6", ("emoji_one", "3", "cartwheel_type_6")),
        ("au_by_kddi_1_apple_tree", ("au_by_kddi", "1", "apple_tree")),
    ],
)
def test_a_name_says_style_rendition_and_subclass_in_any_order(stem, found, tmp_path):
    assert read_name(stem, tmp_path) == found


@pytest.mark.parametrize("stem", ["airplane", "microsoft", "microsoft_2", "microsofty_2_airplane"])
def test_a_name_that_does_not_say_them_is_one_sentence(stem, tmp_path):
    with pytest.raises(UsageError, match="rename it"):
        read_name(stem, tmp_path)


def test_class_folders_become_a_list(run, tmp_path):
    for number, name in enumerate(
        ("bird/apple_1_duck", "bird/google_1_duck", "books/apple_2_books")
    ):
        path = tmp_path / "icons" / f"{name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(icon_image(number)).save(path)
    done = run("structure", "icons", "original", tmp_path / "icons", "--out", tmp_path / "out")
    assert done.status == 0 and "3 icons" in done.out
    assert listed(tmp_path / "out") == [
        ("bird/duck.apple.1.png", "bird", "apple", "duck"),
        ("bird/duck.google.1.png", "bird", "google", "duck"),
        ("books/books.apple.2.png", "books", "apple", "books"),
    ]
    made = np.asarray(Image.open(tmp_path / "out" / "books" / "books.apple.2.png"))
    assert np.array_equal(made, icon_image(2))


def test_the_file_of_numpy_gives_the_same(run, tmp_path):
    held = {
        "class": np.array(["bird", "books"]),
        "style": np.array(["apple", "google"]),
        "subtype": np.array(["duck", "books"]),
        "rendition": np.array([1, 2]),
        # as published: colors first
        "image": np.stack([icon_image(3), icon_image(4)]).transpose(0, 3, 1, 2),
    }
    path = tmp_path / "Icons-50.npy"
    np.save(path, held, allow_pickle=True)
    done = run("structure", "icons", "original", path, "--out", tmp_path / "out")
    assert done.status == 0, done.err
    assert [row[1:] for row in listed(tmp_path / "out")] == [
        ("bird", "apple", "duck"),
        ("books", "google", "books"),
    ]
    made = np.asarray(Image.open(tmp_path / "out" / "books" / "books.google.2.png"))
    assert np.array_equal(made, icon_image(4))


@pytest.fixture(scope="module")
def icons50(tmp_path_factory):
    """Icons of 40 px as the command imports them."""
    folder = tmp_path_factory.mktemp("icons50")
    names = {"plain": "apple", "pale": "google"}
    for number, row in enumerate(colors(3, tuple(names))):
        name = f"{names[row.style]}_{number}_{row.subclass}.png"
        path = folder / "original" / row.label / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(tinted(row, number)).resize((40, 40)).save(path)
    with pytest.raises(SystemExit) as stop:
        main(["structure", "icons", "original", f"{folder}/original", "--out", f"{folder}/icons"])
    assert stop.value.code == 0
    return folder / "icons"


@pytest.mark.parametrize(
    ("options", "stimulus", "size"),
    [((), "32x32", "32 × 32"), (("--stimulus", "native"), "native", "40 × 40")],
)
@pytest.mark.parametrize("kind", [("style", "--hold", "apple"), ("subclass", "--folds", 1)])
def test_the_original_icons_are_resized_as_in_the_paper_unless_one_says_otherwise(
    run, icons50, tmp_path, kind, options, stimulus, size
):
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
    told = run("structure", *kind, "--images", icons50 / "icons.csv", *options, *words)
    assert told.status == 0, told.err
    assert json.loads((tmp_path / "out" / "run.json").read_text())["stimulus"] == stimulus
    assert f"36 images ({size} px) of 3 classes" in told.out


def test_only_the_original_icons_are_taken_for_them(icons50, tmp_path):
    assert is_icons50(icons50) and is_icons50(icons50 / "icons.csv")
    other = write_rows(tmp_path / "other", colors(1), tinted)
    assert not is_icons50(other)
    for text in ("", "[]", '{"icons": "others", "side": 32}'):
        (other.parent / "build.json").write_text(text)
        assert not is_icons50(other)


class Evil:
    def __reduce__(self):
        import os

        return os.mkdir, ("was-run",)


def test_a_file_that_asks_for_a_program_runs_nothing(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "Icons-50.npy"
    np.save(path, {"class": Evil()}, allow_pickle=True)
    assert_rejected(run("structure", "icons", "original", path), "mkdir")
    assert not (tmp_path / "was-run").exists()


@pytest.mark.parametrize(("name", "words"), [("../bird", "../bird"), ("", "without a class")])
def test_names_that_would_leave_the_folder_are_rejected(run, tmp_path, name, words):
    held = {
        "class": np.array([name]),
        "style": np.array(["apple"]),
        "subtype": np.array(["duck"]),
        "rendition": np.array([1]),
        "image": icon_image(1)[None],
    }
    path = tmp_path / "Icons-50.npy"
    np.save(path, held, allow_pickle=True)
    out = tmp_path / "deep" / "out"
    assert_rejected(run("structure", "icons", "original", path, "--out", out), words)
    assert not (tmp_path / "deep" / "bird").exists() and not out.exists()


@pytest.mark.parametrize(
    "held",
    [
        pickle.dumps({"class": []}),
        b"",
        {"class": [], "style": []},
        [1, 2],
        {key: np.array(["a"]) for key in ("class", "style", "subtype", "rendition", "image")},
    ],
)
def test_what_is_no_icons_50_is_one_sentence(run, tmp_path, held):
    path = tmp_path / "Icons-50.npy"
    if isinstance(held, bytes):
        path.write_bytes(held)
    else:
        np.save(path, held, allow_pickle=True)
    assert_rejected(
        run("structure", "icons", "original", path, "--out", tmp_path / "out"), "ICONS-50"
    )


def test_folders_that_cannot_be_read_or_written_are_one_sentence(run, tmp_path):
    words = ("structure", "icons", "original")
    assert_rejected(run(*words, tmp_path / "nowhere"), "nowhere")
    (tmp_path / "empty").mkdir()
    assert_rejected(run(*words, tmp_path / "empty", "--out", tmp_path / "out"), "No images")
    Image.fromarray(icon_image(1)).save(tmp_path / "empty" / "apple_1_duck.png")
    assert_rejected(run(*words, tmp_path / "empty", "--out", tmp_path / "out"), "class folder")
    assert_rejected(
        run(*words, tmp_path / "empty", "--out", tmp_path / "empty" / "x"), "choose another --out"
    )
