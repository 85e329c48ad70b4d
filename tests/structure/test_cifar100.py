"""CIFAR-100's files, written small as Python 2 and Python 3 do, and the published hold-out."""

import json
import pickle
import struct
from collections import Counter

import numpy as np
import pytest

from commands import assert_rejected
from eyechart.core.errors import UsageError
from eyechart.core.progress import NO_PROGRESS
from eyechart.models.checkpoint import read_checkpoint
from eyechart.structure.cifar100 import PUBLISHED, load_cifar100, published_order
from eyechart.structure.folds import subclass_folds
from eyechart.training.data import training_data

# the coarse class of every fine one, as the archive's own labels have it
COARSE = [
    *(4, 1, 14, 8, 0, 6, 7, 7, 18, 3, 3, 14, 9, 18, 7, 11, 3, 9, 7, 11, 6, 11, 5, 10, 7),
    *(6, 13, 15, 3, 15, 0, 11, 1, 10, 12, 14, 16, 9, 11, 5, 5, 19, 8, 8, 15, 13, 14, 17, 18, 10),
    *(16, 4, 17, 4, 2, 0, 17, 4, 18, 17, 10, 3, 2, 12, 12, 16, 12, 1, 9, 19, 2, 10, 0, 1, 16),
    *(12, 9, 13, 15, 13, 16, 19, 2, 4, 6, 19, 5, 5, 8, 19, 18, 1, 2, 15, 6, 0, 17, 8, 14, 13),
]
FIRST = (72, 73, 92, 16, 51, 40, 20, 14, 43, 37, 49, 15, 75, 77, 11, 29, 65, 56, 8, 81)
FINE_NAMES = [f"fine{number}" for number in range(100)]
# sorted, they come in another order than that of their numbers
COARSE_NAMES = [f"{7 * number % 20:02d} coarse {number}" for number in range(20)]
EACH = {"train": 3, "test": 2}


# What Python 2 wrote, opcode by opcode


def text2(value):
    return b"T" + struct.pack("<i", len(value)) + value


def number2(value):
    return b"J" + struct.pack("<i", value)


def list2(values):
    return b"](" + b"".join(values) + b"e"


def array2(value):
    kind = b"cnumpy\ndtype\n(" + text2(b"u1") + number2(0) + number2(1) + b"tR("
    kind += number2(3) + text2(b"|") + b"NNN" + number2(-1) + number2(-1) + number2(0) + b"tb"
    shape = b"(" + b"".join(map(number2, value.shape)) + b"t"
    made = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(" + number2(0) + b"t"
    made += text2(b"b") + b"tR"
    return made + b"(" + number2(1) + shape + kind + b"\x89" + text2(value.tobytes()) + b"tb"


def by_python2(held):
    parts = []
    for key, value in held.items():
        if isinstance(value, np.ndarray):
            own = array2(value)
        elif isinstance(value[0], str):
            own = list2([text2(each.encode()) for each in value])
        else:
            own = list2(map(number2, value))
        parts.append(text2(key.encode()) + own)
    return b"\x80\x02}(" + b"".join(parts) + b"u."


WRITERS = {
    "python 2": by_python2,
    "python 3, protocol 2": lambda held: pickle.dumps(held, 2),
    "python 3, protocol 4": lambda held: pickle.dumps(held, 4),
    "python 3, protocol 5": lambda held: pickle.dumps(held, 5),
}


def parts(seed=0):
    """Every fine class in both parts, in random order; pictures of one look somewhat alike."""
    numbers = np.random.default_rng(seed)
    held = {"meta": {"fine_label_names": FINE_NAMES, "coarse_label_names": COARSE_NAMES}}
    for part, each in EACH.items():
        fine = numbers.permutation(np.repeat(np.arange(100), each)).tolist()
        patches = numbers.integers(0, 256, (len(fine), 3, 8, 8), dtype=np.uint8)
        held[part] = {
            "filenames": [f"{part}_{number}.png" for number in range(len(fine))],
            "fine_labels": fine,
            "coarse_labels": [COARSE[kind] for kind in fine],
            "data": patches.repeat(4, axis=2).repeat(4, axis=3).reshape(len(fine), 3072),
        }
    return held


def write_archive(folder, write=by_python2, held=None):
    folder.mkdir(parents=True)
    for name, own in (held or parts()).items():
        (folder / name).write_bytes(write(own))
    return folder


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    return write_archive(tmp_path_factory.mktemp("data") / "cifar-100-python")


@pytest.fixture(scope="module")
def kinds(archive):
    return load_cifar100(archive, NO_PROGRESS)


# Reading


def test_the_bytes_of_this_test_are_what_pickle_takes_for_python_2s():
    held = parts()["test"]
    told = pickle.loads(by_python2(held), encoding="bytes")
    assert set(told) == {b"filenames", b"fine_labels", b"coarse_labels", b"data"}
    assert told[b"fine_labels"] == held["fine_labels"] and told[b"data"].dtype == np.uint8
    assert (told[b"data"] == held["data"]).all()


@pytest.mark.parametrize("writer", WRITERS)
def test_every_image_comes_with_its_classes_and_part(tmp_path, writer):
    held = parts()
    kinds = load_cifar100(write_archive(tmp_path / "c", WRITERS[writer]), NO_PROGRESS)
    assert len(kinds.data) == 500 and kinds.to_test.tolist() == [False] * 300 + [True] * 200
    assert kinds.data.class_names == tuple(sorted(COARSE_NAMES))
    place = 0
    for part in ("train", "test"):
        for number, (kind, pixels) in enumerate(
            zip(held[part]["fine_labels"], held[part]["data"], strict=True)
        ):
            own = kinds.data.images.listed[place]
            assert (own.name, own.label) == (f"{part}/{number}", COARSE_NAMES[COARSE[kind]])
            assert own.subclass == FINE_NAMES[kind]
            assert kinds.data.class_names[kinds.labels[place]] == own.label
            # all red values row by row, then green, then blue
            image = kinds.data.batch([place])[0].numpy()
            assert (image == pixels.reshape(3, 32, 32)).all()
            place += 1


def test_pixels_that_cannot_be_written_to_are_read_too(tmp_path):
    held = parts()
    for part in EACH:
        held[part]["data"].flags.writeable = False
    folder = write_archive(tmp_path / "c", WRITERS["python 3, protocol 5"], held)
    assert len(load_cifar100(folder, NO_PROGRESS).data) == 500


def test_the_folder_above_is_as_good(archive, kinds):
    assert load_cifar100(archive.parent, NO_PROGRESS).data.fingerprint == kinds.data.fingerprint
    assert published_order(kinds, archive.parent) == published_order(kinds, archive)


# The published order


def test_the_published_order_is_of_the_fine_classes_of_each_coarse_one():
    assert tuple(own[0] for own in PUBLISHED) == FIRST
    for coarse, own in enumerate(PUBLISHED):
        assert sorted(own) == [fine for fine in range(100) if COARSE[fine] == coarse]


# from the list of the published code: the first, a middle and the last class
THREE = {0: [72, 4, 95], 9: [37, 17, 76], 19: [81, 69, 41]}


@pytest.mark.parametrize("per_class", [1, 2, 3])
def test_the_first_of_every_class_are_held_out(archive, kinds, per_class):
    order = published_order(kinds, archive)
    fold, *_ = subclass_folds(kinds, per_class, folds=1, order=order)
    held = {int(name.rpartition("fine")[2]) for name in fold.held}
    assert len(held) == len(fold.held) == 20 * per_class
    assert set(FIRST) <= held
    for coarse, first in THREE.items():
        assert {fine for fine in held if COARSE[fine] == coarse} == set(first[:per_class])
    for name in fold.held:
        coarse, _, fine = name.rpartition("/fine")
        assert coarse == COARSE_NAMES[COARSE[int(fine)]]


@pytest.mark.parametrize("folds", [2, 5])
def test_the_published_hold_out_is_not_averaged_with_others(archive, kinds, run, tmp_path, folds):
    with pytest.raises(UsageError, match="one fold"):
        subclass_folds(kinds, 1, folds=folds, order=published_order(kinds, archive))
    told = run(*words_of(archive, tmp_path / "o", "--order", "published", "--folds", folds))
    assert_rejected(told, f"got {folds}", "--folds", "--order random")
    assert not (tmp_path / "o").exists()


def test_training_is_with_the_train_part_and_testing_with_the_test_part(archive, kinds):
    images = kinds.data.images.listed
    for per_class in (1, 2, 3):
        order = published_order(kinds, archive)
        for fold in subclass_folds(kinds, per_class, folds=1, order=order):
            assert {images[p].name.split("/")[0] for p in fold.train} == {"train"}
            for tested in (fold.held_out, fold.familiar):
                assert {images[p].name.split("/")[0] for p in tested} == {"test"}
            assert fold.copies == 0
            held = set(fold.held)
            assert len(fold.held_out) == 20 * per_class * EACH["test"]
            assert len(fold.train) == (100 - 20 * per_class) * EACH["train"]
            for place in fold.train:
                assert f"{images[place].label}/{images[place].subclass}" not in held
            # as many familiar ones of each class as there are
            most = min(per_class, 5 - per_class) * EACH["test"]
            assert Counter(images[p].label for p in fold.familiar) == dict.fromkeys(
                COARSE_NAMES, most
            )


def test_a_copy_in_the_train_part_of_a_tested_image_is_left_out(tmp_path):
    held = parts()
    # all test pictures are also there to train with
    held["train"]["data"][:200] = held["test"]["data"]
    folder = write_archive(tmp_path / "c", held=held)
    kinds = load_cifar100(folder, NO_PROGRESS)
    (fold,) = subclass_folds(kinds, 1, folds=1, order=published_order(kinds, folder))
    tested = {bytes(kinds.data.batch([p]).numpy()) for p in (*fold.held_out, *fold.familiar)}
    assert not any(bytes(kinds.data.batch([p]).numpy()) in tested for p in fold.train)
    assert fold.copies >= len(fold.familiar)


# The command


def words_of(folder, out, *more):
    usual = ("--arch", "textures:network", "--epochs", 1, "--out", out)
    return ("structure", "subclass", "--cifar100", folder, *usual, *more)


def test_the_command_holds_out_what_was_published(archive, kinds, run, tmp_path):
    out = tmp_path / "out"
    told = run(*words_of(archive.parent, out, "--order", "published"))
    assert told.status == 0, told.err
    results = json.loads((out / "results.json").read_text())
    (fold,) = results["folds"]
    assert {int(name.rpartition("fine")[2]) for name in fold["held"]} == set(FIRST)
    assert fold["n_images"] == [40, 40, 240] and results["classes"] == 20
    assert results["protocol"] == "published" and results["familiar"] is not None
    assert "familiar images are from the dataset's test set. Training images: 240." in told.out
    assert fold["missing"] == [] and "has no pictures" not in told.out
    recipe = json.loads((out / "run.json").read_text())
    # the published recipe, where nothing else is said
    assert (recipe["mixup"], recipe["weight_decay"], recipe["normalize"]) == (1, 5e-4, True)
    assert recipe["mixup_per_image"] is True
    assert (recipe["batch_size"], recipe["lr"], recipe["nesterov"]) == (128, 0.1, True)
    # what was trained with, by its fingerprint
    checkpoint = read_checkpoint(out / "models" / "0" / "fold 1.pt")
    images = kinds.data.images.listed
    own = [
        place
        for place, each in enumerate(images)
        if each.name.startswith("train/") and int(each.subclass.removeprefix("fine")) not in FIRST
    ]
    expected = training_data(kinds.data.images.select(own), kinds.data.class_names)
    assert checkpoint.recipe["settings"]["data"] == expected.fingerprint
    # normalized by those pictures alone
    pixels = kinds.data.batch(own).numpy() / 255
    assert checkpoint.mean == pytest.approx(pixels.mean(axis=(0, 2, 3)), abs=6e-4)
    assert checkpoint.std == pytest.approx(pixels.std(axis=(0, 2, 3)), abs=6e-4)


def test_a_random_order_holds_out_others(archive, run, tmp_path):
    told = run(*words_of(archive, tmp_path / "out", "--per-class", 2, "--folds", 2))
    assert told.status == 0, told.err
    one, two = json.loads((tmp_path / "out" / "results.json").read_text())["folds"]
    held = [{int(name.rpartition("fine")[2]) for name in fold["held"]} for fold in (one, two)]
    assert not held[0] & held[1] and all(len(own) == 40 for own in held)
    assert not set(FIRST) <= held[0]
    assert json.loads((tmp_path / "out" / "run.json").read_text())["mixup_per_image"] is False
    for own in held:
        assert Counter(COARSE[fine] for fine in own) == dict.fromkeys(range(20), 2)


def test_the_published_order_is_of_each_class_not_over_all(archive, run, tmp_path):
    told = run(*words_of(archive, tmp_path / "o", "--order", "published", "--in-all", 30))
    assert_rejected(told, "--in-all", "published")


# Files that are none


def test_a_pickle_that_asks_for_a_command_runs_nothing(tmp_path, run):
    mark = tmp_path / "ran"
    payload = f"cos\nsystem\n(S'touch {mark}'\ntR.".encode()
    for name in ("meta", "train", "test"):
        folder = write_archive(tmp_path / name)
        (folder / name).write_bytes(payload)
        told = run(*words_of(folder, tmp_path / "out"))
        assert_rejected(
            told, f"{folder / name} is not a file of the Python version of CIFAR-100", "os.system"
        )
        assert not mark.exists() and not (tmp_path / "out").exists()
    # it would have run
    pickle.loads(payload)
    assert mark.exists()


@pytest.mark.parametrize("asked", ["builtins\neval", "builtins\ngetattr", "numpy\nload"])
def test_a_pickle_that_asks_for_anything_else_is_rejected(tmp_path, asked):
    folder = write_archive(tmp_path / "c")
    (folder / "train").write_bytes(f"c{asked}\n(S'1'\ntR.".encode())
    with pytest.raises(UsageError, match=f"it refers to {asked.replace(chr(10), '.')}"):
        load_cifar100(folder, NO_PROGRESS)


def changed(part, **own):
    """The content of a file with other values; None takes one out."""
    held = {**parts()[part], **own}
    return {key: value for key, value in held.items() if value is not None}


BAD = {
    "no labels": ("train", changed("train", fine_labels=None)),
    "no pictures": ("test", changed("test", data=None)),
    "fewer labels": ("test", changed("test", coarse_labels=[0] * 199)),
    "an unknown class": ("train", changed("train", fine_labels=[100] * 300)),
    "a negative class": ("train", changed("train", coarse_labels=[-1] * 300)),
    "another size": ("test", changed("test", data=np.zeros((200, 3000), dtype=np.uint8))),
    "words as labels": ("test", changed("test", fine_labels=["cat"] * 200)),
    "levels above 255": ("test", changed("test", data=[[300] * 3072] * 200)),
    "labels in rows": ("test", changed("test", fine_labels=[[1]] * 200)),
    "no names": ("meta", changed("meta", fine_label_names=None)),
    "names that are none": ("meta", changed("meta", fine_label_names="apple")),
    "names that are not strings": ("meta", changed("meta", coarse_label_names=[b"\xff"] * 20)),
    "a list": ("meta", [1, 2]),
    "a number": ("train", 3),
}


@pytest.mark.parametrize("case", BAD)
def test_files_that_hold_something_else_are_one_sentence(tmp_path, run, case):
    name, held = BAD[case]
    folder = write_archive(tmp_path / "c")
    (folder / name).write_bytes(pickle.dumps(held))
    told = run(*words_of(folder, tmp_path / "out"))
    assert_rejected(told, str(folder / name), "again")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["meta", "train", "test"])
def test_files_cut_short_empty_or_missing_are_one_sentence(tmp_path, run, name):
    folder = write_archive(tmp_path / "c")
    whole = (folder / name).read_bytes()
    for content in (whole[: len(whole) // 2], b"", b"\x80\x02not a pickle"):
        (folder / name).write_bytes(content)
        told = run(*words_of(folder, tmp_path / "out"))
        assert_rejected(
            told, str(folder / name), "is not a file of the Python version of CIFAR-100"
        )
    (folder / name).unlink()
    told = run(*words_of(folder, tmp_path / "out"))
    assert_rejected(told, "Cannot read", "the files train, test and meta")


def test_a_folder_that_is_no_cifar_100_is_one_sentence(tmp_path, run):
    (tmp_path / "images").mkdir()
    (tmp_path / "archive.tar.gz").write_bytes(b"no")
    for where in ("images", "archive.tar.gz", "nowhere"):
        told = run(*words_of(tmp_path / where, tmp_path / "out"))
        assert_rejected(
            told, "Cannot read", "the Python version of CIFAR-100, with the files train"
        )


def test_other_classes_have_no_published_order(tmp_path, run):
    held = parts()
    held["meta"]["fine_label_names"] = [*FINE_NAMES, "one more"]
    folder = write_archive(tmp_path / "c", held=held)
    told = run(*words_of(folder, tmp_path / "out", "--order", "published"))
    assert_rejected(told, "20 with 101", "--order random")


def test_kinds_that_are_not_cifar_100s_have_no_published_order(tmp_path, run):
    held = parts()
    for part in EACH:
        held[part]["coarse_labels"] = [kind // 5 for kind in held[part]["fine_labels"]]
    folder = write_archive(tmp_path / "c", held=held)
    told = run(*words_of(folder, tmp_path / "out", "--order", "published"))
    assert_rejected(told, "published order", "--order random")


def test_a_size_that_would_be_ignored_is_rejected(archive, run, tmp_path):
    told = run(*words_of(archive.parent, tmp_path / "out", "--stimulus", "native"))
    assert_rejected(told, "--stimulus", "CIFAR-100")
