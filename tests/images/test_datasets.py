"""Hugging Face `datasets` and `webdataset` themselves write datasets, and eyechart reads them.

`tests/support/adapters_check.sh datasets` runs these tests in an environment that has both.
"""

import gc

import numpy as np
import pytest
import torch
from PIL import Image

import eyechart as ec
from small_models import SMALL, TINTS, Colors

CLASSES = tuple(TINTS)


@pytest.fixture(scope="module")
def files(folder):
    return sorted(folder.rglob("*.png"))


@pytest.fixture(scope="module")
def expected(folder):
    return ec.evaluate(Colors(), folder, **SMALL)


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    package = pytest.importorskip("datasets")
    package.config.HF_DATASETS_CACHE = tmp_path_factory.mktemp("cache")
    package.disable_progress_bars()
    return package


@pytest.fixture(scope="module")
def dataset(package, files):
    """The images with classes in an order that is not the alphabet's."""
    names = list(CLASSES[::-1])
    features = package.Features(
        {"image": package.Image(), "label": package.ClassLabel(names=names)}
    )
    rows = {
        "image": [str(path) for path in files],
        "label": [names.index(path.parent.name) for path in files],
    }
    return package.Dataset.from_dict(rows, features=features)


class Reversed(Colors):
    """`Colors` with its outputs in the order of the dataset's classes."""

    def forward(self, images):
        return super().forward(images).flip(1)


def assert_same_scores(results, expected):
    ours, theirs = (run[run.models[0].name]["gaussian_noise"] for run in (results, expected))
    assert (float(ours.r_a), float(ours.r_p)) == (float(theirs.r_a), float(theirs.r_p))


def test_a_dataset_gives_the_scores_of_the_folder(dataset, folder, expected):
    images, reference = ec.load_images(dataset, "native"), ec.load_images(folder, "native")
    assert images.digests == reference.digests
    assert images.labels == reference.labels
    assert images.class_names == CLASSES[::-1]
    results = ec.evaluate(Reversed(), dataset, **SMALL)
    assert_same_scores(results, expected)
    assert results.models[0].outputs == CLASSES[::-1]


def test_what_save_to_disk_wrote_gives_them_too(dataset, package, folder, expected, tmp_path):
    dataset.save_to_disk(tmp_path / "saved")
    images = ec.load_images(tmp_path / "saved", "native")
    # the bytes of the files are stored, so that their digests are the same
    assert images.digests == ec.load_images(folder, "native").digests
    assert_same_scores(ec.evaluate(Reversed(), tmp_path / "saved", **SMALL), expected)
    splits = package.DatasetDict({"train": dataset, "test": dataset.select([0, 3])})
    splits.save_to_disk(tmp_path / "splits")
    with pytest.raises(ec.UsageError, match=r"splits train, test: give one, such as .*/train"):
        ec.load_images(tmp_path / "splits")
    assert len(ec.load_images(tmp_path / "splits" / "test", "native")) == 2


def test_the_command_reads_a_saved_dataset(dataset, run, tmp_path):
    dataset.save_to_disk(tmp_path / "saved")
    result = run("evaluate", "small_models:pale_colors", "--images", tmp_path / "saved", "--out",
                 tmp_path / "out", "--n", 40, "--bins", 6, "--min-per-bin", 3, "--n-bootstrap", 10,
                 "--corruption", "brightness")  # fmt: skip
    assert result.status == 0, result.err
    loaded = ec.load(tmp_path / "out")
    assert (loaded.images.source, loaded.run.images) == ("saved", str(tmp_path / "saved"))


def test_order_format_and_transforms_do_not_change_what_is_read(dataset):
    reference = ec.load_images(dataset, "native")
    shuffled = ec.load_images(dataset.shuffle(seed=1), "native")
    assert shuffled.digest == reference.digest and shuffled.digests != reference.digests
    by_digest = dict(zip(reference.digests, reference.labels, strict=True))
    assert tuple(by_digest[digest] for digest in shuffled.digests) == shuffled.labels
    formatted = dataset.with_format("torch")
    assert ec.load_images(formatted, "native").digests == reference.digests
    changed = dataset.with_transform(lambda rows: {"image": [None for _ in rows["image"]]})
    assert ec.load_images(changed, "native").digests == reference.digests


def test_images_are_read_again_when_memory_is_short(dataset, monkeypatch):
    whole = ec.load_images(dataset, "native")
    monkeypatch.setattr("eyechart.images.imageset.KEPT_SHARE", 0)
    lean = ec.load_images(dataset, "native")
    assert not lean.kept
    assert torch.equal(lean.batch([5, 2]), whole.batch([5, 2]))


def test_a_dataset_of_arrays_is_encoded_by_the_package_and_read(package):
    levels = np.random.default_rng(0).integers(0, 256, (2, 24, 24, 3), dtype=np.uint8)
    rows = {"img": [Image.fromarray(image) for image in levels], "label": ["cat", "dog"]}
    dataset = package.Dataset.from_dict(rows).cast_column("img", package.Image())
    images = ec.load_images(dataset, "native")
    np.testing.assert_array_equal(images.batch([0, 1]).permute(0, 2, 3, 1).numpy(), levels)
    assert images.labels == ("cat", "dog")


def test_images_of_16_bits_need_a_window(package, tmp_path):
    deep = np.random.default_rng(0).integers(0, 4096, (24, 24), dtype=np.uint16)
    Image.fromarray(deep).save(tmp_path / "a.png")
    rows = {"image": [str(tmp_path / "a.png")]}
    dataset = package.Dataset.from_dict(rows).cast_column("image", package.Image())
    levels = ec.load_images(dataset, "native", window=(0, 4095)).batch([0])[0, 0].numpy()
    np.testing.assert_array_equal(levels, np.round(deep / 4095 * 255))
    with pytest.raises(ec.UsageError, match=f"from {deep.min()} to {deep.max()}"):
        ec.load_images(dataset, "native")


def test_a_repository_is_read_with_leave_to_download(package, dataset, files, tmp_path):
    # the package reads a local folder as it reads one of the hub
    (tmp_path / "repository").mkdir()
    dataset.to_parquet(tmp_path / "repository" / "test-0.parquet")
    name = f"hf:{tmp_path / 'repository'}"
    for source in (name, f"{name}:test"):
        images = ec.load_images(source, "native", download=True)
        assert [label for label in images.labels] == [path.parent.name for path in files]
    dataset.to_parquet(tmp_path / "repository" / "train-0.parquet")
    with pytest.raises(ec.UsageError, match=r"has the splits .*give one, such as hf:.*:"):
        ec.load_images(name, download=True)
    with pytest.raises(ec.UsageError, match="Cannot download"):
        ec.load_images(f"{name}:none", download=True)
    with pytest.raises(ec.UsageError, match="--download"):
        ec.load_images(name)


def test_bad_datasets_are_one_sentence(package, dataset, files, tmp_path):
    both = dataset.add_column("coarse", [0] * len(dataset)).cast_column(
        "coarse", package.ClassLabel(names=["a"])
    )
    classes = package.ClassLabel(names=["a"])
    cases = {
        "must have one column of images": dataset.remove_columns("image"),
        "columns of classes.*rename_column": both.rename_column("label", "fine"),
        "which can be read in any order": dataset.to_iterable_dataset(),
        "is empty": dataset.select([]),
        "splits a, b: give one": package.DatasetDict({"a": dataset, "b": dataset}),
        "whole numbers or strings, got 0.5": dataset.remove_columns("label").add_column(
            "label", [0.5] * len(dataset)
        ),
        "Row 0 of .* has no image": package.Dataset.from_dict(
            {"image": [None], "label": [0]},
            features=package.Features({"image": package.Image(), "label": classes}),
        ),
    }
    for words, wrong in cases.items():
        with pytest.raises(ec.UsageError, match=words):
            ec.load_images(wrong, "native")
    rows = {"image": [str(tmp_path / "gone.png")], "label": [0]}
    gone = package.Dataset.from_dict(
        rows, features=package.Features({"image": package.Image(), "label": classes})
    )
    with pytest.raises(ec.UsageError, match=r"gone\.png: No such file"):
        ec.load_images(gone, "native")


def test_labels_of_minus_one_mean_no_label(package, files):
    features = package.Features(
        {"image": package.Image(), "label": package.ClassLabel(names=["a", "b"])}
    )
    rows = {"image": [str(path) for path in files[:2]], "label": [-1, 1]}
    images = ec.load_images(package.Dataset.from_dict(rows, features=features), "native")
    assert images.labels == (None, "b")


# webdataset


@pytest.fixture(scope="module")
def webdataset():
    return pytest.importorskip("webdataset")


def write_shards(webdataset, pattern, files, label):
    with webdataset.ShardWriter(pattern, maxcount=5, verbose=0) as writer:
        for number, path in enumerate(files):
            writer.write(
                {"__key__": f"{number:06d}", "png": path.read_bytes(), **label(path.parent.name)}
            )


@pytest.mark.parametrize(
    "label",
    [
        lambda name: {"cls": CLASSES.index(name)},
        lambda name: {"json": {"label": name, "source": "photos"}},
        lambda name: {"cls": CLASSES.index(name), "json": {"label": "other"}},
    ],
)
def test_shards_of_webdataset_give_the_scores_of_the_folder(
    webdataset, files, folder, expected, tmp_path, label
):
    write_shards(webdataset, str(tmp_path / "shard-%03d.tar"), files, label)
    assert len(list(tmp_path.glob("*.tar"))) == 2
    source = tmp_path / "shard-{000..001}.tar"
    images = ec.load_images(source, "native")
    assert images.digests == ec.load_images(folder, "native").digests
    assert ec.load_images(tmp_path, "native").digests == images.digests
    assert_same_scores(ec.evaluate(Colors(), source, **SMALL), expected)


# webdataset leaves its tar files to the garbage collector
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_eyechart_and_webdataset_read_the_same_samples(webdataset, files, tmp_path):
    pattern = str(tmp_path / "shard-%03d.tar")
    write_shards(webdataset, pattern, files, lambda name: {"cls": CLASSES.index(name)})
    source = str(tmp_path / "shard-{000..001}.tar")
    theirs = webdataset.WebDataset(source, shardshuffle=False).decode("pil").to_tuple("png", "cls")
    images = ec.load_images(source, "native")
    pairs = list(theirs)
    del theirs
    gc.collect()
    assert [str(label) for _, label in pairs] == list(images.labels)
    for position, (image, _) in enumerate(pairs):
        ours = images.batch([position])[0].permute(1, 2, 0).numpy()
        np.testing.assert_array_equal(ours, np.asarray(image.convert("RGB")))


def test_images_that_webdataset_encoded_as_jpeg_are_read(webdataset, files, tmp_path):
    path = tmp_path / "a.tar"
    with webdataset.TarWriter(str(path)) as writer:
        levels = np.asarray(Image.open(files[0]).convert("RGB"))
        writer.write({"__key__": "a/0", "jpg": levels, "json": {"class": "cat"}})
    images = ec.load_images(path, "native")
    assert (images.labels, images.listed[0].name) == (("cat",), "a/0.jpg")
    assert abs(images.batch([0]).float().mean() - levels.mean()) < 2
