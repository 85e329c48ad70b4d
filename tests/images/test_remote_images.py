"""Images at URLs are the same images as in local files, and a whole run works there."""

import io
import tarfile

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.memory import MemoryFileSystem

import eyechart as ec
from eyechart.core.errors import UsageError
from eyechart.core.storage.parts import PartFiles
from eyechart.images.image_sources import find_listing
from eyechart.images.imageset import load_images
from object_store import use_store
from small_models import SMALL, Colors


@pytest.fixture(scope="module")
def system(folder):
    """A file system in memory with the images as a folder, a list, tar and Parquet files."""
    system = MemoryFileSystem()
    files = sorted(folder.rglob("*.png"))
    rows = ["path,label"]
    for path in files:
        name = path.relative_to(folder).as_posix()
        system.pipe_file(f"/remote/photos/{name}", path.read_bytes())
        rows.append(f"photos/{name},{path.parent.name}")
    system.pipe_file("/remote/list.csv", "\n".join(rows).encode())
    shards = io.BytesIO(), io.BytesIO()
    for number, shard in enumerate(shards):
        with tarfile.open(fileobj=shard, mode="w") as tar:
            for path in files[number::2]:
                tar.add(path, path.relative_to(folder).as_posix())
        system.pipe_file(f"/remote/shards/{number}.tar", shard.getvalue())
    table = io.BytesIO()
    labels = [path.parent.name for path in files]
    columns = {"image": [path.read_bytes() for path in files], "label": labels}
    pq.write_table(pa.table(columns), table, row_group_size=5)
    system.pipe_file("/remote/tables/0.parquet", table.getvalue())
    return system


@pytest.mark.parametrize(
    "name",
    ["photos", "list.csv", "shards", "shards/{0..1}.tar", "tables", "tables/0.parquet"],
)
def test_images_at_a_url_are_the_images_of_the_folder(folder, system, name):
    local, remote = load_images(folder, "32"), load_images(f"memory://remote/{name}", "32")
    assert dict(zip(remote.digests, remote.labels, strict=True)) == dict(
        zip(local.digests, local.labels, strict=True)
    )
    assert remote.source == f"memory://remote/{name}"
    assert remote.listed[0].where.startswith("memory://remote/")


def test_wrong_urls_are_rejected_in_a_sentence(system):
    with pytest.raises(UsageError, match="No images in memory://remote/nothing"):
        find_listing("memory://remote/nothing")
    with pytest.raises(UsageError, match=r"No such file or folder: memory://remote/9\.tar"):
        find_listing("memory://remote/9.tar")
    system.pipe_file("/remote/a.txt", b"text")
    with pytest.raises(UsageError, match=r"memory://remote/a\.txt is not a list of images"):
        find_listing("memory://remote/a.txt")
    system.pipe_file("/damaged/cat/a.png", b"text")
    with pytest.raises(UsageError, match=r"memory://damaged/cat/a.png is not an image"):
        load_images("memory://damaged")


def test_a_run_from_urls_to_an_object_store_equals_a_local_run(folder, system, tmp_path):
    expected = ec.evaluate(Colors(), folder, out=tmp_path / "local", **SMALL)
    with use_store(tmp_path / "bucket") as store:
        url = "objects://bucket/run"
        results = ec.evaluate(Colors(), "memory://remote/photos", out=url, **SMALL)
        assert results.models == expected.models
        names = store.names()
        assert "run/run.json" in names and not any("--" in name for name in names)
        # the second time, nothing is left to predict
        store.puts.clear()
        again = ec.evaluate(Colors(), "memory://remote/photos", out=url, **SMALL)
        assert again.models == results.models
        assert not any("predictions" in name for name in store.puts)
        rows = PartFiles(store.root / "run" / "predictions").read("vcr/gaussian_noise")
    assert rows.equals(PartFiles(tmp_path / "local" / "predictions").read("vcr/gaussian_noise"))
