"""Image sources beside folders: tar shards, arrays, torch datasets and images of 16 bits."""

import hashlib
import io
import json
import sys
import tarfile
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import Dataset, Subset, TensorDataset

import eyechart as ec
from commands import assert_rejected
from eyechart.images.imageset import KEPT_SHARE
from eyechart.images.labels.imagenet import class_names, wordnet_ids
from eyechart.images.labels.matching import dataset_classes, native_labels, output_names
from eyechart.images.stimulus import find_stimulus, split_window, with_window
from eyechart.images.tar_shards import expand_braces
from small_models import TINTS, Colors, save_images

CLASSES = tuple(TINTS)
SMALL = {
    "n": 40,
    "bins": 6,
    "min_per_bin": 3,
    "n_bootstrap": 10,
    "stimulus": "native",
    "humans": None,
}
ROOM = np.random.default_rng(0)


def pixels(count, side=24):
    return ROOM.integers(0, 256, (count, side, side, 3), dtype=np.uint8)


def encoded(levels, suffix=".png"):
    stream = io.BytesIO()
    Image.fromarray(levels).save(stream, "PNG" if suffix == ".png" else "JPEG")
    return stream.getvalue()


def write_tar(path, members):
    """Write a tar file with these members, as (name, bytes or text)."""
    with tarfile.open(path, "w") as tar:
        for name, content in members:
            data = content.encode() if isinstance(content, str) else content
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Class folders of PPM files, whose digest equals that of the same pixels in memory."""
    root = save_images(tmp_path_factory.mktemp("images") / "photos", each=2)
    for path in sorted(root.rglob("*.png")):
        Image.open(path).convert("RGB").save(path.with_suffix(".ppm"))
        path.unlink()
    return root


@pytest.fixture(scope="module")
def files(folder):
    return sorted(folder.rglob("*.ppm"))


class Pairs(Dataset):
    """A torch dataset of the files, with `classes` in a given order."""

    def __init__(self, files, classes, kind="pil"):
        self.files, self.classes, self.kind = files, list(classes), kind

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        image = Image.open(self.files[index])
        label = self.classes.index(self.files[index].parent.name)
        if self.kind == "array":
            return np.asarray(image), np.int64(label)
        planes = torch.from_numpy(np.asarray(image).transpose(2, 0, 1).copy())
        if self.kind == "uint8":
            return planes, torch.tensor(label)
        return (planes / 255, label) if self.kind == "float" else (image, label)


# The same run from every source


def sources(kind, files, folder, tmp_path):
    """Return the same images from another source."""
    levels = np.stack([np.asarray(Image.open(path)) for path in files])
    numbers = np.array([CLASSES.index(path.parent.name) for path in files])
    if kind == "tar":
        members = [
            member
            for number, path in enumerate(files)
            for member in (
                (f"{number:04d}.ppm", path.read_bytes()),
                (f"{number:04d}.json", json.dumps({"label": path.parent.name})),
            )
        ]
        half = len(members) // 2
        write_tar(tmp_path / "shard-000.tar", members[:half])
        write_tar(tmp_path / "shard-001.tar", members[half:])
        return tmp_path / "shard-{000..001}.tar"
    if kind == "folder tar":
        members = [(str(path.relative_to(folder)), path.read_bytes()) for path in files]
        return write_tar(tmp_path / "photos.tar", members)
    if kind == "npz":
        names = np.array(CLASSES)
        path = tmp_path / "photos.npz"
        np.savez_compressed(path, images=levels, labels=numbers, class_names=names)
        return path
    if kind == "npy":
        np.save(tmp_path / "photos.npy", levels)
        np.save(tmp_path / "labels.npy", numbers)
        return tmp_path / "photos.npy"
    if kind == "arrays":
        return levels, [path.parent.name for path in files]
    if kind == "tensors":
        return torch.from_numpy(levels).permute(0, 3, 1, 2), torch.from_numpy(numbers)
    return Pairs(files, CLASSES, kind)


@pytest.fixture(scope="module")
def expected(folder):
    return ec.evaluate(Colors(), folder, corruptions=["gaussian_noise"], **SMALL)


@pytest.mark.parametrize(
    "kind",
    ["tar", "folder tar", "npz", "npy", "arrays", "tensors", "pil", "array", "uint8", "float"],
)
def test_every_source_gives_the_scores_of_the_folder(kind, expected, files, folder, tmp_path):
    source = sources(kind, files, folder, tmp_path)
    found = ec.load_images(source, "native")
    reference = ec.load_images(folder, "native")
    # equal digests mean equal random numbers, so that also the noise is the same
    assert found.digests == reference.digests
    assert torch.equal(found.batch(range(len(found))), reference.batch(range(len(found))))
    results = ec.evaluate(Colors(), source, corruptions=["gaussian_noise"], **SMALL)
    (name,) = [model.name for model in results.models]
    ours, theirs = (r[name]["gaussian_noise"] for r in (results, expected))
    assert (float(ours.r_a), float(ours.r_p)) == (float(theirs.r_a), float(theirs.r_p))


def test_a_run_on_a_dataset_resumes_and_is_not_mixed_with_other_images(files, tmp_path):
    dataset = Pairs(files, CLASSES)
    options = {**SMALL, "corruptions": ["brightness"], "out": tmp_path / "out"}
    first = ec.evaluate(Colors(), dataset, **options)
    again = ec.evaluate(Colors(), Pairs(files, CLASSES), **options)
    assert [m.r_a for m in first.models] == [m.r_a for m in again.models]
    with pytest.raises(ec.UsageError, match="images"):
        ec.evaluate(Colors(), Subset(dataset, range(1, len(files))), **options)


def test_images_are_identified_by_content_in_any_order(files):
    dataset = Pairs(files, CLASSES)
    forward = ec.load_images(dataset, "native")
    backward = ec.load_images(Subset(dataset, range(len(files) - 1, -1, -1)), "native")
    assert backward.digests == forward.digests[::-1]
    assert backward.digest == forward.digest
    assert forward.digests[0] == hashlib.sha256(files[0].read_bytes()).hexdigest()


# Class names


def test_declared_classes_are_outputs_in_their_order_not_alphabetically(files):
    order = ("red", "grey", "blue", "green")
    images = ec.load_images(Pairs(files, order), "native")
    assert images.class_names == order
    assert set(images.labels) == set(CLASSES)
    indices = native_labels(images.labels, 4, None, images.class_names)
    assert [order[index] for index in indices] == [path.parent.name for path in files]
    assert output_names(images.labels, 4, None, images.class_names) == order
    # the model's own names take precedence
    by_name = native_labels(images.labels, 4, CLASSES, images.class_names)
    assert [CLASSES[index] for index in by_name] == [path.parent.name for path in files]


def test_declared_classes_of_another_number_are_not_guessed():
    with pytest.raises(ec.UsageError, match="unknown to a model with 2 classes"):
        native_labels(["a", "b"], 2, None, ["a", "b", "c"])
    assert native_labels(["b"], 3, None, ["c", "b", "a"]).tolist() == [1]


def test_class_names_appear_in_results(files):
    results = ec.evaluate(Colors(), Pairs(files, CLASSES), corruptions=["brightness"], **SMALL)
    assert results.models[0].outputs == CLASSES


def test_names_of_imagenet_become_wordnet_ids_in_any_spelling():
    spelled = [(name.upper(), "synonym") for name in class_names()]
    assert dataset_classes(spelled, "data") == wordnet_ids()
    assert dataset_classes([f"{name}, other" for name in class_names()], "data") == wordnet_ids()
    # fewer classes are another dataset, and so are 1,000 others
    assert dataset_classes(class_names()[:100], "data") == class_names()[:100]
    others = tuple(f"class {index}" for index in range(1000))
    assert dataset_classes(others, "data") == others


def test_a_subset_has_the_classes_of_its_dataset_and_targets_spare_decoding(files):
    class Lazy(Pairs):
        reads = 0

        def __getitem__(self, index):
            type(self).reads += 1
            return super().__getitem__(index)

    lazy = Lazy(files, CLASSES)
    lazy.targets = [lazy.classes.index(path.parent.name) for path in files]
    images = ec.load_images(lazy, "native")
    # the first item twice, to find random transforms, then every image once
    assert Lazy.reads == 2 + len(files)
    assert images.labels == tuple(path.parent.name for path in files)
    assert ec.load_images(Subset(lazy, [0, 3]), "native").class_names == CLASSES


# Nothing is kept but what fits


@pytest.mark.parametrize("kind", ["tar", "npz", "pil"])
def test_images_are_read_again_when_memory_is_short(kind, files, folder, tmp_path, monkeypatch):
    source = sources(kind, files, folder, tmp_path)
    whole = ec.load_images(source, "native")
    monkeypatch.setattr("eyechart.images.imageset.KEPT_SHARE", KEPT_SHARE * 0)
    lean = ec.load_images(source, "native")
    assert len(whole.kept) == len(files) and not lean.kept
    assert torch.equal(lean.batch([2, 0]), whole.batch([2, 0]))


def test_arrays_in_files_are_mapped_and_leave_no_copy_behind(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "room"))
    (tmp_path / "room").mkdir()
    np.savez_compressed(tmp_path / "x.npz", images=pixels(3))
    images = ec.load_images(tmp_path / "x.npz", "native")
    assert images.labels == (None,) * 3
    assert list((tmp_path / "room").iterdir()) == []


def test_a_tar_member_that_changed_is_rejected(tmp_path, monkeypatch):
    monkeypatch.setattr("eyechart.images.imageset.KEPT_SHARE", 0)
    path = write_tar(tmp_path / "a.tar", [("0.png", encoded(pixels(1)[0]))])
    images = ec.load_images(path, "native")
    write_tar(path, [("0.png", encoded(pixels(1)[0]))])
    with pytest.raises(ec.UsageError, match=r"0\.png"):
        images.batch([0])


# Tar shards


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a-{000..002}.tar", ["a-000.tar", "a-001.tar", "a-002.tar"]),
        ("a-{9..11}.tar", ["a-9.tar", "a-10.tar", "a-11.tar"]),
        ("{x,y}-{0..1}.tar", ["x-0.tar", "x-1.tar", "y-0.tar", "y-1.tar"]),
        ("plain.tar", ["plain.tar"]),
    ],
)
def test_braces_stand_for_shards(text, names):
    assert expand_braces(text) == names


def test_a_folder_of_shards_is_read_but_an_archive_beside_images_is_not(tmp_path):
    members = [("0.png", encoded(pixels(1)[0])), ("0.cls", "3")]
    write_tar(tmp_path / "a.tar", members)
    write_tar(tmp_path / "b.tar", [("0.png", encoded(pixels(1)[0])), ("0.cls", "4\n")])
    images = ec.load_images(tmp_path, "native")
    assert [(image.name, image.label) for image in images.listed] == [
        ("a.tar/0.png", "3"),
        ("b.tar/0.png", "4"),
    ]
    (tmp_path / "cat").mkdir()
    Image.fromarray(pixels(1)[0]).save(tmp_path / "cat" / "1.png")
    assert ec.load_images(tmp_path, "native").labels == ("cat",)


def test_a_mask_beside_an_image_is_not_an_image(tmp_path):
    image, mask = encoded(pixels(1)[0]), encoded(pixels(1)[0])
    path = write_tar(tmp_path / "a.tar", [("0.png", image), ("0.seg.png", mask), ("0.cls", "1")])
    assert [image.name for image in ec.load_images(path, "native").listed] == ["0.png"]
    path = write_tar(tmp_path / "b.tar", [("cat/a.1.png", image), ("cat/a.2.png", mask)])
    assert ec.load_images(path, "native").labels == ("cat", "cat")


def test_categories_in_json_are_used(tmp_path):
    record = json.dumps({"wnid": "n02123045", "category16": "cat"})
    path = write_tar(tmp_path / "a.tar", [("0.png", encoded(pixels(1)[0])), ("0.json", record)])
    images = ec.load_images(path, "native")
    assert (images.labels, images.categories) == (("n02123045",), ("cat",))


PNG = encoded(pixels(1)[0])


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ([], ("is empty",)),
        ([("0.txt", "caption")], ("has no images", ".jpg")),
        ([("0.png", "no image")], ("0.png is not an image",)),
        ([("0.png", PNG[:200])], ("0.png is damaged or truncated",)),
        ([("0.png", PNG), ("0.cls", "1"), ("1.png", PNG)], ("1 of 2 have none", "1.png")),
        (
            [("0.png", PNG), ("0.cls", "1"), ("1.png", PNG), ("1.cls", "cat")],
            ("all be whole numbers or all be strings", "1 and 'cat'"),
        ),
        ([("0.png", PNG), ("0.json", "{")], ("0.json must be", "JSON")),
        ([("0.png", PNG), ("0.cls", b"\xff")], ("0.cls must be UTF-8",)),
        ([("0.png", PNG), ("0.json", '{"label": 0.5}')], ("whole numbers or strings, got 0.5",)),
        ([("0.png", PNG), ("0.json", '{"category16": "cta"}')], ("Did you mean 'cat'",)),
        ([("0.png", PNG), ("0.png", PNG)], ("0.png twice",)),
        ([("0.png", PNG), ("0.jpg", PNG), ("0.cls", "1")], ("2 images with the key 0",)),
    ],
)
def test_bad_tar_files_are_one_sentence(tmp_path, run, members, words):
    path = write_tar(tmp_path / "a.tar", members)
    result = run("evaluate", "small_models:pale_colors", "--images", path, "--out", tmp_path / "o")
    assert_rejected(result, *words)


def test_files_that_are_no_tar_files_are_one_sentence(tmp_path):
    path = write_tar(tmp_path / "a.tar", [("0.png", PNG)])
    whole = path.read_bytes()
    path.write_bytes(whole[: 512 + len(PNG) // 2])
    with pytest.raises(ec.UsageError, match=r"a\.tar"):
        ec.load_images(path, "native")
    path.write_bytes(b"not a tar file" * 100)
    with pytest.raises(ec.UsageError, match="not a complete, uncompressed tar file"):
        ec.load_images(path)
    with tarfile.open(path, "w:gz") as tar:
        tar.add(tmp_path, "x", recursive=False)
    with pytest.raises(ec.UsageError, match="not a complete, uncompressed tar file"):
        ec.load_images(path)
    with pytest.raises(ec.UsageError, match=r"No such file: .*shard-1\.tar"):
        write_tar(tmp_path / "shard-0.tar", [("0.png", PNG)])
        ec.load_images(tmp_path / "shard-{0..1}.tar")


# Arrays and datasets in memory


class Items(Dataset):
    """A dataset of these items."""

    def __init__(self, *items):
        self.items = items

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        return self.items[index]


LEVELS = pixels(2)
GOOD = (LEVELS[0], 1)


class Randomized(Items):
    def __getitem__(self, index):
        return pixels(1)[0], 0


class Broken(Items):
    def __getitem__(self, index):
        raise KeyError("lost")


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (LEVELS[0], ("(N, H, W, 3)", "(24, 24, 3)")),
        (LEVELS.transpose(0, 3, 1, 2), ("(N, H, W, 3)", "(2, 3, 24, 24)")),
        (torch.from_numpy(LEVELS), ("(N, C, H, W)", "(2, 24, 24, 3)")),
        (LEVELS[:0], ("empty",)),
        (LEVELS.astype(np.int64), ("uint8 or float", "int64")),
        (LEVELS / 1.0, ("in [0, 1]", "divide by 255")),
        (torch.from_numpy(LEVELS).permute(0, 3, 1, 2) / 127.5 - 1, ("undo their normalization",)),
        ((LEVELS, [1]), ("one label for each image", "1 label for 2 images")),
        ((LEVELS, [1, "cat"]), ("all be whole numbers or all be strings", "1 and 'cat'")),
        ((LEVELS, [1, 0.5]), ("whole numbers or strings", "0.5 for image 1")),
        ((LEVELS, np.eye(2)), ("whole numbers or strings", "a list")),
        ((LEVELS, [1, -7]), ("-1 for no label", "-7")),
        (Items(), ("empty",)),
        (Items(LEVELS[0]), ("a pair (image, label)", "ndarray")),
        (Items((LEVELS[0], 1, 2)), ("a pair (image, label)", "tuple")),
        (Items((LEVELS, 1)), ("Item 0", "(2, 24, 24, 3)")),
        (Items(GOOD, (LEVELS[1], "cat")), ("all be whole numbers or all be strings",)),
        (Items((torch.full((3, 24, 24), 2.0), 1)), ("Item 0", "in [0, 1]", "clip")),
        (Items((torch.zeros(24, 24, 3), 1)), ("Item 0", "channels", "24")),
        (Items(("cat.png", 1)), ("Item 0", "PIL.Image.open")),
        (Randomized(GOOD), ("the same image at every read", "random transforms")),
        (Broken(GOOD), ("Cannot read item 0", "lost")),
        ([LEVELS[0]], ("images must be the path", "a list")),
        ({"image": LEVELS}, ("images must be the path", "a dict")),
    ],
)
def test_bad_images_in_memory_are_one_sentence(source, words):
    with pytest.raises(ec.UsageError) as rejected:
        ec.evaluate(Colors(), source, corruptions=["brightness"], **SMALL)
    assert all(word in str(rejected.value) for word in words), str(rejected.value)
    assert "\n" not in str(rejected.value)


def test_labels_beyond_the_classes_are_one_sentence(files):
    dataset = Pairs(files, CLASSES)
    dataset.targets = [9] * len(files)
    with pytest.raises(ec.UsageError, match="must be 0 to 3, since it has 4 classes, got 9"):
        ec.load_images(dataset, "native")
    dataset.classes = ["a", "a"]
    with pytest.raises(ec.UsageError, match="two classes named 'a'"):
        ec.load_images(dataset, "native")


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (lambda path: np.savez(path, x=LEVELS, y=[1, 2]), "named images.*it has x, y"),
        (lambda path: path.write_bytes(b"zip"), "not a file of NumPy arrays"),
        (lambda path: np.savez(path, images=LEVELS, labels=[1]), "1 label for 2 images"),
        (lambda path: np.savez(path, images=LEVELS.astype(object)), "not a file of NumPy arrays"),
    ],
)
def test_bad_array_files_are_one_sentence(tmp_path, write, words):
    write(tmp_path / "x.npz")
    with pytest.raises(ec.UsageError, match=words):
        ec.load_images(tmp_path / "x.npz", "native")


def test_a_tensor_dataset_and_a_list_of_pairs_are_read(files):
    planes = torch.from_numpy(LEVELS).permute(0, 3, 1, 2)
    images = ec.load_images(TensorDataset(planes, torch.tensor([1, -1])), "native")
    assert images.labels == ("1", None)
    assert torch.equal(images.batch([0, 1]), planes)
    assert ec.load_images([GOOD, (LEVELS[1], 0)], "native").labels == ("1", "0")


def test_a_hub_name_needs_leave_to_download(run, tmp_path):
    result = run("evaluate", "small_models:pale_colors", "--images", "hf:user/data:test",
                 "--out", tmp_path / "out")  # fmt: skip
    assert_rejected(result, "hf:user/data:test", "--download", "save_to_disk")


def test_a_saved_dataset_without_the_package_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    for name in ("state.json", "dataset_info.json"):
        (tmp_path / name).write_text("{}")
    with pytest.raises(ec.UsageError, match=r'pip install -e "\.\[datasets\]"'):
        ec.load_images(tmp_path)


# Images of 16 bits


DEEP = np.array([[0, 999, 1000, 1001], [1500, 2000, 2999, 3000], [3001, 4095, 40000, 65535]])
WINDOW = (1000.0, 3000.0)
"""Closed form: level = 255 · (value − 1000) / 2000, rounded, and 0 or 255 outside."""
MAPPED = [[0, 0, 0, 0], [64, 128, 255, 255], [255, 255, 255, 255]]


@pytest.mark.parametrize("suffix", [".png", ".tif"])
def test_a_window_maps_16_bits_linearly_and_clips_beyond(tmp_path, suffix):
    deep = np.tile(DEEP.astype(np.uint16), (8, 6))
    Image.fromarray(deep).save(tmp_path / f"a{suffix}")
    images = ec.load_images(tmp_path, "native", window=WINDOW)
    levels = images.batch([0])[0].numpy()
    expected = np.tile(MAPPED, (8, 6))
    for channel in levels:
        np.testing.assert_array_equal(channel, expected)


def test_the_full_range_is_the_identity_on_multiples_of_257(tmp_path):
    deep = (np.arange(256, dtype=np.uint16) * 257).reshape(1, 256).repeat(20, axis=0)
    Image.fromarray(deep).save(tmp_path / "a.png")
    levels = ec.load_images(tmp_path, "native", window=(0, 65535)).batch([0])[0, 0].numpy()
    np.testing.assert_array_equal(levels[0], np.arange(256))


def test_signed_and_float_tiffs_have_windows_too(tmp_path):
    values = np.linspace(-160, 240, 256).reshape(16, 16).repeat(2, 0).repeat(2, 1)
    Image.fromarray(values.astype(np.float32)).save(tmp_path / "a.tif")
    Image.fromarray(np.round(values).astype(np.int32)).save(tmp_path / "b.tif")
    images = ec.load_images(tmp_path, "native", window=(-160, 240))
    floats, integers = images.batch([0, 1])[:, 0].numpy().astype(int)
    np.testing.assert_array_equal(floats.ravel()[::2][:16], np.arange(16))
    assert np.abs(floats - integers).max() <= 1
    assert (integers.min(), integers.max()) == (0, 255)


@pytest.mark.parametrize("count", [1, 200])
def test_16_bits_without_a_window_are_rejected_with_their_range(tmp_path, run, count):
    deep = np.full((24, 24), 700, np.uint16)
    deep[0, 0], deep[5, 5] = 12, 3071
    Image.fromarray(deep).save(tmp_path / "a.tif")
    # also one of many, although up to 1 % of images may be damaged
    for index in range(count - 1):
        Image.fromarray(LEVELS[0]).save(tmp_path / f"{index}.png")
    result = run("evaluate", "small_models:pale_colors", "--images", tmp_path, "--labels", "none",
                 "--out", tmp_path / "out")  # fmt: skip
    assert_rejected(result, "a.tif", "from 12 to 3071", "--window LOW HIGH")


def test_a_window_for_8_bit_images_is_rejected(tmp_path):
    Image.fromarray(LEVELS[0]).save(tmp_path / "a.png")
    with pytest.raises(ec.UsageError, match=r"a\.png has 8 bits per channel: omit the window"):
        ec.load_images(tmp_path, window=(0, 100))


def test_arrays_and_shards_of_16_bits_use_the_window(tmp_path):
    deep = ROOM.integers(0, 4096, (2, 24, 24), dtype=np.uint16)
    expected = np.round(deep / 4095 * 255)
    images = ec.load_images((deep, [0, 1]), "native", window=(0, 4095))
    np.testing.assert_array_equal(images.batch([0, 1])[:, 1].numpy(), expected)
    stream = io.BytesIO()
    Image.fromarray(deep[0]).save(stream, "PNG")
    write_tar(tmp_path / "a.tar", [("0.png", stream.getvalue())])
    images = ec.load_images(tmp_path / "a.tar", "native", window=(0, 4095))
    np.testing.assert_array_equal(images.batch([0])[0, 2].numpy(), expected[0])
    with pytest.raises(ec.UsageError, match=f"from {deep[0].min()} to {deep[0].max()}"):
        ec.load_images((deep, [0, 1]), "native")


def test_the_window_is_part_of_the_run(tmp_path, run):
    values = ROOM.integers(0, 4096, (4, 32, 32), dtype=np.uint16)
    for index, deep in enumerate(values):
        folder = tmp_path / "data" / str(index % 2)
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(deep).save(folder / f"{index}.png")
    out = tmp_path / "out"
    options = ["--images", tmp_path / "data", "--out", out, "--corruption", "brightness", "--n", 40,
               "--bins", 6, "--min-per-bin", 3, "--n-bootstrap", 10]  # fmt: skip
    result = run("evaluate", "small_models:pale_colors", *options, "--window", -100, 4095)
    assert result.status == 0, result.err
    assert ec.load(out).images.stimulus == "native:window=-100,4095"
    result = run("evaluate", "small_models:pale_colors", *options, "--window", 0, 4095)
    assert_rejected(result, "stimulus")


@pytest.mark.parametrize("window", [(5, 5), (9, 1), (0,), (0, 1, 2), (0, float("inf")), "ab", 7])
def test_a_bad_window_is_one_sentence(window, tmp_path):
    with pytest.raises(ec.UsageError, match=r"(?i)window must be"):
        ec.load_images(tmp_path, window=window)


def test_the_name_of_a_stimulus_holds_its_window():
    name = with_window("112", (0, 1 / 3))
    stimulus = find_stimulus(name)
    assert (stimulus.name, stimulus.crop) == (name, 112)
    assert find_stimulus("native:window=-100,4095").description == (
        "gray values -100 to 4095 mapped to 0 to 255; original size"
    )
    assert stimulus.window == pytest.approx((0, 1 / 3))
    assert split_window("auto:window=0,4095") == ("auto", (0, 4095))
    for wrong in ("224:window=", "224:window=3,1", "224:window=a,b", "224:window=1,2,3"):
        with pytest.raises(ec.UsageError, match="window of a stimulus must be"):
            find_stimulus(wrong)


def test_a_test_set_keeps_the_window(tmp_path):
    deep = ROOM.integers(0, 4096, (2, 32, 32), dtype=np.uint16)
    drawn = ec.sample_testset(
        (deep, [0, 1]), n=2, corruptions=["brightness"], stimulus="native", window=(0, 4095)
    )
    assert drawn.header.stimulus == "native:window=0,4095"
    drawn.save(tmp_path / "drawn.parquet")
    options = {key: value for key, value in SMALL.items() if key not in ("n", "stimulus")}
    kept = Path(tmp_path / "drawn.parquet")
    results = ec.evaluate(Colors(), (deep, [0, 1]), testset=kept, stimulus="auto", **options)
    assert results.images.stimulus == "native:window=0,4095"
