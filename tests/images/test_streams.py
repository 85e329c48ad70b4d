"""Tar and Parquet files are streamed: rows and members are read when needed, memory is bounded."""

import io
import pickle
import subprocess
import sys
import tarfile
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

from eyechart.core.errors import UsageError
from eyechart.core.progress import no_advance
from eyechart.core.storage.shards import shards_of
from eyechart.images import image_list
from eyechart.images.hf_images import RowReader, list_parquet
from eyechart.images.image_files import PixelRoom
from eyechart.images.image_sources import find_listing
from eyechart.images.imageset import load_images, load_indexed
from small_models import save_images


def encoded(seed, side=24):
    pixels = np.random.default_rng(seed).integers(0, 256, (side, side, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


@pytest.fixture(scope="module")
def contents():
    return [encoded(seed) for seed in range(90)]


@pytest.fixture(scope="module", params=["bytes", "records"])
def tables(request, contents, tmp_path_factory):
    """Two Parquet files with several row groups, of plain bytes and as `datasets` writes them."""
    folder = tmp_path_factory.mktemp(request.param)
    for number, part in enumerate((contents[:50], contents[50:])):
        images = part
        if request.param == "records":
            images = [{"bytes": content, "path": None} for content in part]
        labels = [place % 3 for place in range(len(part))]
        table = pa.table({"image": images, "label": labels, "width": [24] * len(part)})
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=20)
    return folder


def test_parquet_rows_are_the_images_in_order(tables, contents):
    images = load_images(tables, "native")
    assert [images.listed[place].read()[1] for place in range(90)] == list(images.digests)
    alone = load_images(tables / "0.parquet", "native")
    assert alone.labels[:4] == ("0", "1", "2", "0") and alone.listed[7].name == "7"
    for place in (0, 49, 50, 89):
        expected = torch.from_numpy(np.array(Image.open(io.BytesIO(contents[place]))))
        assert torch.equal(images.batch([place])[0], expected.permute(2, 0, 1))


def test_rows_in_any_order_from_many_threads(tables, contents):
    listed = find_listing(tables).images
    order = np.random.default_rng(0).permutation(90).tolist()
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda place: listed[place].content(), order))
    assert found == [contents[place] for place in order]


def test_neighboring_rows_are_read_once(tables, monkeypatch):
    starts = []
    plain = RowReader._start
    monkeypatch.setattr(RowReader, "_start", lambda *key: starts.append(key[1:]) or plain(*key))
    listed = list_parquet(sorted(tables.glob("*.parquet")), "data").images
    for first in range(0, 90, 8):
        for image in reversed(listed[first : first + 8]):
            image.content()
    # 50 and 40 rows in groups of 20
    assert starts == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]


def test_a_reader_of_rows_can_be_sent_to_other_processes(tables, contents):
    image = find_listing(tables).images[60]
    assert image.content() == contents[60]
    assert pickle.loads(pickle.dumps(image.content))() == contents[60]


def test_class_names_that_datasets_stores_are_used(tmp_path, contents):
    table = pa.table({"image": contents[:3], "label": [1, 0, -1]})
    features = '{"info": {"features": {"label": {"names": ["cat", "dog"], "_type": "ClassLabel"}}}}'
    table = table.replace_schema_metadata({"huggingface": features})
    pq.write_table(table, tmp_path / "a.parquet")
    listing = find_listing(tmp_path / "a.parquet")
    assert [image.label for image in listing.images] == ["dog", "cat", None]
    assert listing.class_names == ("cat", "dog")


def test_bad_parquet_files_are_rejected_in_a_sentence(tmp_path, contents):
    pq.write_table(pa.table({"image": contents[:1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"other": [1]}), tmp_path / "b.parquet")
    with pytest.raises(UsageError, match=r"b.parquet must have a column of image bytes"):
        find_listing(tmp_path)
    (tmp_path / "b.parquet").write_bytes(b"no table")
    with pytest.raises(UsageError, match=r"Cannot read .*b.parquet: Parquet"):
        find_listing(tmp_path)
    pq.write_table(pa.table({"image": [contents[0], None]}), tmp_path / "c.parquet")
    listed = find_listing(tmp_path / "c.parquet").images
    with pytest.raises(UsageError, match=r"Row 1 of .*c.parquet has no image bytes"):
        listed[1].read()


def test_an_index_replaces_decoding(tmp_path, monkeypatch):
    folder = save_images(tmp_path / "photos", each=3)
    (folder / "a.png").write_bytes(b"damaged")
    many = {place: encoded(place, 40) for place in range(120)}
    for place, content in many.items():
        (folder / f"{place:03}.png").write_bytes(content)
    listing = find_listing(folder)
    first = load_indexed(listing, "native", tmp_path / "images.parquet", no_advance)
    decoded = []
    plain = image_list.decode_image
    monkeypatch.setattr(
        image_list,
        "decode_image",
        lambda file, name, window=None: decoded.append(name) or plain(file, name, window),
    )
    again = load_indexed(listing, "native", tmp_path / "images.parquet", no_advance)
    assert not decoded
    for name in ("digests", "sizes", "damaged", "notes", "labels", "fingerprint", "stimulus"):
        assert getattr(again, name) == getattr(first, name)
    assert len(again.damaged) == 1
    # a shard decodes its images and no others
    shard = shards_of(4)[1]
    own = [place for place, digest in enumerate(again.digests) if shard.has(digest)]
    batch = again.batch(own)
    assert torch.equal(batch, first.batch(own)) and len(decoded) == len(own) < len(again) / 2


def test_room_for_pixels_is_never_exceeded():
    room, most = PixelRoom(100), []

    def work(n_pixels):
        with room.hold(n_pixels):
            most.append(room.n_held)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, [30, 60, 99, 500, 1, 0, 70] * 20))
    assert max(most) <= 100 and room.n_held == 0 and len(most) == 140


MEASURE = """
import resource, sys
from pathlib import Path
import torch
import eyechart.images.imageset as imageset
from eyechart.core.devices import free_memory
from eyechart.images.imageset import load_images

# as on a machine with little memory
imageset.free_memory = lambda device: 20e6
load_images(sys.argv[2], "native").batch([0])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
images = load_images(sys.argv[1], "native")
for start in range(0, len(images), 8):
    images.batch(range(start, min(start + 8, len(images))))
print(len(images), (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
"""

SIDE, COUNT = 500, 150
"""Images of 0.75 MB each, encoded or decoded: 110 MB in all."""


@pytest.mark.parametrize("kind", ["tar", "parquet"])
def test_data_several_times_larger_than_memory_is_read(tmp_path, kind):
    pixels = np.random.default_rng(0).integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)
    contents = []
    for place in range(COUNT):
        file = io.BytesIO()
        Image.fromarray(np.roll(pixels, place, 0)).save(file, "PPM")
        contents.append(file.getvalue())
    source, small = tmp_path / f"all.{kind}", tmp_path / f"one.{kind}"
    for path, some in ((source, contents), (small, contents[:1])):
        if kind == "tar":
            with tarfile.open(path, "w") as tar:
                for place, content in enumerate(some):
                    info = tarfile.TarInfo(f"{place}.ppm")
                    info.size = len(content)
                    tar.addfile(info, io.BytesIO(content))
        else:
            # in one row group, which must not be read as a whole
            pq.write_table(pa.table({"image": some}), path, row_group_size=COUNT)
    command = [sys.executable, "-c", MEASURE, str(source), str(small)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    count, used = map(float, done.stdout.split())
    assert count == COUNT
    assert used < source.stat().st_size / 2
