"""Pictures of a data set: found, labeled, brought to size, known by their bytes, re-read."""

import csv
import hashlib
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image
from skimage import data

import eyechart as ec
from commands import image_file
from eyechart.images.image_sources import find_images
from eyechart.images.imageset import load_listed
from eyechart.images.stimulus import Stimulus, find_stimulus
from real_images import stimulus


def listed(source):
    return {each.name: (each.label, each.category) for each in find_images(source)}


def levels(batch):
    """The pictures as NumPy has them, (B, H, W, 3)."""
    return batch.permute(0, 2, 3, 1).numpy()


def write_csv(path, header, *rows, encoding="utf-8"):
    with path.open("w", newline="", encoding=encoding) as file:
        csv.writer(file).writerows([header, *rows])
    return path


# Which pictures there are


def test_the_first_folder_is_the_label_however_deep_the_image_lies(tmp_path):
    for name in ("cat/a.png", "dog/deep/deeper/b.png", "dog/c.jpg", "d.png"):
        image_file(tmp_path / name)
    (tmp_path / "dog" / "notes.txt").write_text("no picture")
    assert listed(tmp_path) == {
        "cat/a.png": ("cat", None),
        "dog/deep/deeper/b.png": ("dog", None),
        "dog/c.jpg": ("dog", None),
        "d.png": (None, None),
    }


def test_a_flat_folder_has_no_labels(tmp_path):
    for name in ("a.png", "b.png"):
        image_file(tmp_path / name)
    assert set(listed(tmp_path).values()) == {(None, None)}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_a_table_in_csv_lists_images_from_its_own_folder(tmp_path, encoding):
    path = write_csv(
        tmp_path / "list.csv",
        ["path", "label", "category16"],
        ["deep/a.png", "n02123045", "cat"],
        ["b.png", "", ""],
        ["c.png", "-1", " dog "],
        encoding=encoding,
    )
    assert listed(path) == {
        "deep/a.png": ("n02123045", "cat"),
        "b.png": (None, None),
        "c.png": (None, "dog"),
    }
    assert find_images(path)[0].path == tmp_path / "deep" / "a.png"


def test_a_table_in_parquet_says_the_same_as_one_in_csv(tmp_path):
    rows = {"path": ["a.png", "b.png"], "label": [3, None], "category16": [None, "cat"]}
    pq.write_table(pa.table(rows), tmp_path / "list.parquet")
    write_csv(tmp_path / "list.csv", list(rows), ["a.png", 3, ""], ["b.png", "", "cat"])
    expected = {"a.png": ("3", None), "b.png": (None, "cat")}
    assert listed(tmp_path / "list.parquet") == listed(tmp_path / "list.csv") == expected


def test_a_class_of_minus_one_takes_the_wordnet_id_away(tmp_path):
    path = write_csv(
        tmp_path / "list.csv",
        ["file", "wnid", "imagenet_index", "category"],
        ["a.png", "n02123045", "281", "cat"],
        ["b.png", "n02121808", "-1", "cat"],
    )
    assert listed(path) == {"a.png": ("n02123045", "cat"), "b.png": (None, "cat")}


@pytest.mark.parametrize(
    ("header", "rows", "words"),
    [
        (["image", "label"], [["a.png", "1"]], ("column named path", "image, label")),
        (["path", "label"], [["a.png", "1"], ["", "2"]], ("Row 3", "path")),
        (["path", "label"], [], ("has no rows",)),
    ],
)
def test_a_table_that_lists_no_images_is_rejected(tmp_path, header, rows, words):
    path = write_csv(tmp_path / "list.csv", header, *rows)
    with pytest.raises(ec.UsageError) as rejected:
        find_images(path)
    for word in words:
        assert word in str(rejected.value)


@pytest.mark.parametrize(
    ("name", "content", "word"),
    [
        (
            "list.csv",
            "path,label\ncaf\xe9.png,1\n".encode("latin-1"),
            "not UTF-8 text: save",
        ),
        ("list.parquet", b"no Parquet", "list.parquet"),
        ("list.parquet", b"", "list.parquet"),
        ("list.txt", b"path,label\n", "not a list of images"),
        ("list.csv", b"", "has no rows"),
    ],
)
def test_a_file_that_is_no_table_is_rejected(tmp_path, name, content, word):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ec.UsageError, match=word):
        find_images(tmp_path / name)


def test_a_folder_without_images_and_no_folder_at_all_are_rejected(tmp_path):
    with pytest.raises(ec.UsageError, match="No images"):
        ec.load_images(tmp_path)
    with pytest.raises(ec.UsageError, match="No such"):
        ec.load_images(tmp_path / "nowhere")


# What a picture becomes


@pytest.mark.parametrize("name", ["astronaut", "chelsea", "coffee", "rocket"])
def test_the_stimulus_is_what_pillow_makes_of_the_image(tmp_path, name):
    image = getattr(data, name)()
    Image.fromarray(image).save(tmp_path / "a.png")
    found = ec.load_images(tmp_path)
    assert found.sizes == ((224, 224),)
    np.testing.assert_array_equal(levels(found.batch([0]))[0], stimulus(image))


def test_long_images_are_cut_in_the_middle(tmp_path):
    ramp = np.zeros((224 * 8, 224, 3), dtype=np.uint8)
    ramp[..., 0] = np.linspace(0, 255, len(ramp))[:, None]
    Image.fromarray(ramp).save(tmp_path / "a.png")
    column = levels(ec.load_images(tmp_path).batch([0]))[0, :, 112, 0].astype(int)
    assert np.all(np.diff(column) >= 0)
    # the middle 224 of 8 × 256 rows: an eighth, less the border, of the whole ramp
    assert column[0] == pytest.approx(255 * (1024 - 112) / 2048, abs=1)
    assert column[-1] == pytest.approx(255 * (1024 + 112) / 2048, abs=1)


def test_at_native_size_nothing_is_resampled(tmp_path):
    for index, size in enumerate([(32, 48), (48, 32), (32, 48)]):
        image_file(tmp_path / f"{index}.png", index, size)
    found = ec.load_images(tmp_path, "native")
    assert found.sizes == ((32, 48), (48, 32), (32, 48))
    for place in range(3):
        with Image.open(tmp_path / f"{place}.png") as opened:
            np.testing.assert_array_equal(levels(found.batch([place]))[0], np.asarray(opened))


def test_gray_images_have_three_equal_channels_and_transparency_is_dropped(tmp_path):
    values = np.random.default_rng(0).integers(0, 256, (32, 32, 4), dtype=np.uint8)
    Image.fromarray(values[..., 0]).save(tmp_path / "a_grey.png")
    Image.fromarray(values).save(tmp_path / "b_rgba.png")
    gray, rgba = levels(ec.load_images(tmp_path, "native").batch([0, 1]))
    np.testing.assert_array_equal(gray, np.repeat(values[..., :1], 3, axis=2))
    np.testing.assert_array_equal(rgba, values[..., :3])


def test_an_image_that_lies_on_its_side_is_put_upright(tmp_path):
    values = np.random.default_rng(0).integers(0, 256, (32, 48, 3), dtype=np.uint8)
    exif = Image.Exif()
    exif[0x0112] = 6  # turn by 90° clockwise to see it
    Image.fromarray(values).save(tmp_path / "a.png", exif=exif)
    found = ec.load_images(tmp_path, "native")
    assert found.sizes == ((48, 32),)
    np.testing.assert_array_equal(levels(found.batch([0]))[0], np.rot90(values, -1))


def test_an_unknown_stimulus_is_rejected_with_a_suggestion():
    with pytest.raises(ec.UsageError, match="Did you mean 'native'"):
        find_stimulus("nativ")
    with pytest.raises(ec.UsageError, match="224 or native"):
        find_stimulus(224)


@pytest.mark.parametrize(("name", "resize"), [("32", 37), ("64", 73), ("18", 21), ("1024", 1170)])
def test_a_side_is_framed_as_the_usual_224(name, resize):
    how = find_stimulus(name)
    assert (how.name, how.resize, how.crop) == (name, resize, int(name))
    # the same share of the picture is left, as far as whole pixels go
    assert abs(how.crop / how.resize - 224 / 256) < 1 / resize


def test_an_image_is_shown_at_the_side_that_is_named(tmp_path):
    values = np.random.default_rng(0).integers(0, 256, (90, 120, 3), dtype=np.uint8)
    Image.fromarray(values).save(tmp_path / "a.png")
    found = ec.load_images(tmp_path, "64")
    assert found.sizes == ((64, 64),)
    # by hand: shorter side 73, the middle 64
    small = Image.fromarray(values).resize((97, 73), Image.Resampling.BILINEAR)
    np.testing.assert_array_equal(
        levels(found.batch([0]))[0], np.asarray(small.crop((16, 4, 80, 68)))
    )


def test_the_usual_stimulus_and_the_native_one_stay_what_they_are():
    assert find_stimulus("224") == Stimulus("224", 256, 224)
    assert find_stimulus("native") == Stimulus("native", None, None)


@pytest.mark.parametrize(
    "name", ["17", "1025", "0", "9" * 5000, "17x224", "224x1025", "0x0", "32x" + "9" * 5000]
)
def test_a_side_that_cannot_be_is_rejected(name):
    with pytest.raises(ec.UsageError, match="a side from 18 to 1024 px"):
        find_stimulus(name)


@pytest.mark.parametrize(
    "name", ["224x", "x224", "224x224x3", "-32x32", "32 x 32", "32X32", "٣٢x32"]
)
def test_a_width_without_a_height_is_rejected_with_the_forms_there_are(name):
    with pytest.raises(ec.UsageError, match=r"Unknown stimulus .*(Did you mean|Known)"):
        find_stimulus(name)


@pytest.mark.parametrize(("name", "size"), [("32x32", (32, 32)), ("48x30", (48, 30))])
def test_a_width_and_height_are_a_plain_resize_of_the_whole_image(tmp_path, name, size):
    values = np.random.default_rng(0).integers(0, 256, (90, 120, 3), dtype=np.uint8)
    Image.fromarray(values).save(tmp_path / "a.png")
    found = ec.load_images(tmp_path, name)
    assert found.stimulus.name == name
    assert found.sizes == (size[::-1],)
    # by hand: Pillow's antialiased bilinear filter, as torchvision's Resize((height, width)) uses
    by_hand = Image.fromarray(values).resize(size, Image.Resampling.BILINEAR)
    np.testing.assert_array_equal(levels(found.batch([0]))[0], np.asarray(by_hand))


def test_a_plain_resize_keeps_what_a_crop_cuts_off(tmp_path):
    wide = np.zeros((32, 128, 3), dtype=np.uint8)
    wide[:, :16] = wide[:, -16:] = 255
    Image.fromarray(wide).save(tmp_path / "a.png")
    cropped, squashed = (levels(ec.load_images(tmp_path, s).batch([0]))[0] for s in ("32", "32x32"))
    assert cropped.max() == 0
    # a quarter of the image is white, and stays so
    assert squashed.mean() == pytest.approx(255 / 4, abs=2)


# Who they are


def test_an_image_is_known_by_the_sha_256_of_its_file(tmp_path):
    path = image_file(tmp_path / "cat" / "a.png", 1, (32, 32))
    (digest,) = ec.load_images(tmp_path, "native").digests
    assert digest == hashlib.sha256(path.read_bytes()).hexdigest()


def test_the_digest_of_a_set_depends_on_its_files_and_not_on_their_names_or_order(tmp_path):
    for index, name in enumerate("abc"):
        image_file(tmp_path / "one" / f"{name}.png", index, (32, 32))
    (tmp_path / "two").mkdir()
    for old, new in zip("abc", "zyx", strict=True):
        shutil.copy(tmp_path / "one" / f"{old}.png", tmp_path / "two" / f"{new}.png")
    one, two = (ec.load_images(tmp_path / name, "native") for name in ("one", "two"))
    assert one.digests == two.digests[::-1]
    assert one.digest == two.digest
    image_file(tmp_path / "two" / "w.png", 9, (32, 32))
    assert ec.load_images(tmp_path / "two", "native").digest != one.digest


# What is damaged


@pytest.fixture
def many(tmp_path):
    """150 small pictures in a folder."""
    for index in range(150):
        image_file(tmp_path / "many" / f"{index:03d}.png", index, (20, 20))
    return tmp_path / "many"


def test_one_damaged_image_of_150_is_left_out_counted_and_named(many):
    (many / "070.png").write_bytes((many / "070.png").read_bytes()[:200])
    found = ec.load_images(many, "native")
    assert len(found) == len(found.digests) == 149
    assert "070.png" not in {each.name for each in found.listed}
    assert [each.name for each in found.damaged] == ["070.png"]
    assert "damaged or truncated" in found.damaged[0].why


@pytest.mark.parametrize("kind", ["cut off", "empty", "missing", "tiny"])
def test_two_damaged_images_of_150_are_too_many(many, kind):
    write_csv(many / "list.csv", ["path"], *([f"{i:03d}.png"] for i in range(150)))
    for name in ("003.png", "148.png"):
        path = many / name
        whole = path.read_bytes()
        path.unlink()
        if kind == "tiny":
            image_file(path, 0, (17, 40))
        elif kind != "missing":
            path.write_bytes(whole[:200] if kind == "cut off" else b"")
    with pytest.raises(ec.UsageError) as rejected:
        ec.load_images(many / "list.csv", "native")
    said = str(rejected.value)
    assert "2 of 150 images" in said and "more than 1 %: 003.png, 148.png; the first" in said


def test_one_damaged_image_of_few_is_more_than_one_percent(tmp_path):
    for index in range(5):
        image_file(tmp_path / f"{index}.png", index, (20, 20))
    (tmp_path / "2.png").write_bytes(b"nothing")
    with pytest.raises(ec.UsageError, match=r"1 of 5 images .*2\.png"):
        ec.load_images(tmp_path, "native")


def test_the_first_damaged_images_are_named_and_the_others_counted(tmp_path):
    for index in range(12):
        image_file(tmp_path / f"{index:02}.png", index, (20, 20))
    for index in (1, 4, 6, 8, 11):
        (tmp_path / f"{index:02}.png").write_bytes(b"nothing")
    with pytest.raises(ec.UsageError) as rejected:
        ec.load_images(tmp_path, "native")
    assert str(rejected.value).startswith(
        "At least 5 of 12 images cannot be used, which is more than 1 %: 01.png, 04.png, 06.png"
        f" and 2 more; the first error is: {tmp_path / '01.png'} is not an image"
    )


# What is kept in memory and what is read again


def without_memory(tmp_path, monkeypatch):
    for index in range(4):
        image_file(tmp_path / f"{index}.png", index, (24, 24))
    whole = ec.load_images(tmp_path, "native")
    monkeypatch.setattr("eyechart.images.imageset.free_memory", lambda device: 0.0)
    return whole, ec.load_images(tmp_path, "native")


def test_images_that_are_not_kept_are_read_again_and_are_the_same(tmp_path, monkeypatch):
    whole, lean = without_memory(tmp_path, monkeypatch)
    assert len(whole.kept) == 4 and not lean.kept
    places = [2, 0, 0, 3]
    assert torch.equal(lean.batch(places), whole.batch(places))
    assert lean.batch([2]).dtype == torch.uint8


def test_an_image_that_changed_since_is_rejected(tmp_path, monkeypatch):
    _, lean = without_memory(tmp_path, monkeypatch)
    image_file(tmp_path / "1.png", 99, (24, 24))
    assert lean.batch([0, 2]).shape == (2, 3, 24, 24)
    with pytest.raises(ec.UsageError, match=r"1\.png changed"):
        lean.batch([0, 1])


def test_an_image_that_was_removed_since_is_rejected_in_a_sentence(tmp_path, monkeypatch):
    _, lean = without_memory(tmp_path, monkeypatch)
    (tmp_path / "1.png").unlink()
    with pytest.raises(ec.UsageError, match=r"1\.png"):
        lean.batch([0, 1])


def test_every_image_is_counted_while_they_are_read(tmp_path):
    for index in range(3):
        image_file(tmp_path / f"{index}.png", index, (24, 24))
    told = []
    load_listed(find_images(tmp_path), "here", "native", lambda count, _: told.append(count))
    assert sum(told) == 3


@pytest.mark.parametrize("wrong", [5, None, ["a"]])
def test_images_are_named_by_a_path(wrong):
    with pytest.raises(ec.UsageError, match="images must be the path"):
        ec.load_images(wrong)
    # without a path a test set is of the demo images, as on the command line
    if wrong is not None:
        with pytest.raises(ec.UsageError, match="images must be the path"):
            ec.sample_testset(wrong, n=4)


def test_an_image_must_not_be_listed_twice(tmp_path):
    (tmp_path / "list.csv").write_text("path,label\na.png,1\nb.png,2\na.png,2\n")
    with pytest.raises(ec.UsageError, match=r"a\.png twice, in rows 2 and 4"):
        find_images(tmp_path / "list.csv")


def test_columns_are_known_in_any_case(tmp_path):
    (tmp_path / "list.csv").write_text("Path, LABEL\na.png,cat\n")
    assert find_images(tmp_path / "list.csv")[0].label == "cat"
