"""Folders at URLs: what is written locally is there, at once and without renames."""

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from eyechart.core.errors import UsageError
from eyechart.core.storage.files import atomic_file, write_text
from eyechart.core.storage.parts import ROW, PartFiles
from eyechart.core.storage.remote import RemoteFile, as_shown, is_url, output_folder, remote_files
from object_store import ObjectStore, use_store


@pytest.fixture
def store(tmp_path):
    with use_store(tmp_path / "bucket") as store:
        yield store


def table(*rows):
    return pa.table({ROW: rows})


def test_the_store_of_these_tests_has_no_renames(store, tmp_path):
    (tmp_path / "a").write_text("one")
    store.put_file(str(tmp_path / "a"), "bucket/a")
    with pytest.raises(NotImplementedError):
        store.mv("bucket/a", "bucket/b")
    with pytest.raises(NotImplementedError):
        store.open("bucket/a", "ab")


def test_a_local_folder_is_used_as_it_is(tmp_path):
    with output_folder(tmp_path / "run") as out:
        assert (out.path, out.temporary) == (tmp_path / "run", None)
        assert out.show(out.path / "a") == str(tmp_path / "run" / "a")
    assert not (tmp_path / "run").exists()


def test_files_are_uploaded_when_they_are_complete(store):
    with output_folder("objects://bucket/run") as out:
        with atomic_file(out.path / "a.json") as temporary:
            temporary.write_text("{}")
            assert store.names() == []
        assert store.names() == ["run/a.json"]
        (out.path / "predictions").mkdir()
        PartFiles(out.path / "predictions").write("fog", table(1, 2))
        assert store.names() == ["run/a.json", "run/predictions/fog--0000001.parquet"]
        (out.path / "plain.txt").write_text("at the end")
        assert out.show(out.path / "a.json") == "objects://bucket/run/a.json"
    assert "run/plain.txt" in store.names()
    # every file was put once, and nothing hidden was put
    assert sorted(store.puts) == store.names()


def test_a_killed_run_resumes_from_what_was_written(store):
    # a folder that is never closed, as after a kill
    killed = output_folder("objects://bucket/run")
    out = killed.__enter__()
    parts = PartFiles(out.path)
    parts.write("fog", table(1, 2))
    parts.write("fog", table(3))
    store.puts.clear()
    with output_folder("objects://bucket/run") as again:
        parts = PartFiles(again.path)
        assert parts.read("fog")[ROW].to_pylist() == [1, 2, 3]
        parts.write("fog", table(4))
        parts.merge()
    assert store.names() == ["run/fog.parquet"]
    # nothing that was there is uploaded again
    assert store.puts == ["run/fog--0000003.parquet", "run/fog.parquet"]


def test_files_of_other_writers_stay(store):
    with output_folder("objects://bucket/run") as first:
        write_text(first.path / "1-of-2" / "a.csv", "1")
        with output_folder("objects://bucket/run") as second:
            write_text(second.path / "2-of-2" / "a.csv", "2")
            (second.path / "1-of-2" / "a.csv").read_text()
        write_text(first.path / "1-of-2" / "a.csv", "changed")
    assert store.names() == ["run/1-of-2/a.csv", "run/2-of-2/a.csv"]
    assert RemoteFile("objects://bucket/run/1-of-2/a.csv").read() == b"changed"
    assert RemoteFile("objects://bucket/run/2-of-2/a.csv").read() == b"2"


def test_what_is_complete_is_kept_after_an_error(store):
    with pytest.raises(ValueError, match="stopped"), output_folder("objects://bucket/run") as out:
        (out.path / "a.txt").write_text("written")
        raise ValueError("stopped")
    assert store.names() == ["run/a.txt"] and not out.path.joinpath("missing").exists()


def test_other_processes_upload_too(store, tmp_path):
    program = (
        "import sys; from pathlib import Path; from object_store import use_store\n"
        "from eyechart.core.storage.files import write_text\n"
        "with use_store(Path(sys.argv[2])): write_text(Path(sys.argv[1]), 'from a child')"
    )
    with output_folder("objects://bucket/run") as out:
        command = [sys.executable, "-c", program, str(out.path / "a.csv"), str(store.root)]
        path = os.pathsep.join([str(Path(__file__).parents[1] / "support"), *sys.path])
        subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": path})
        assert store.names() == ["run/a.csv"]
    assert store.puts == []


def test_a_store_that_rejects_writing_gives_a_sentence(store):
    store.is_read_only = True
    with (
        pytest.raises(UsageError, match=r"Cannot write objects://bucket/run/a.csv: no permission"),
        output_folder("objects://bucket/run") as out,
    ):
        write_text(out.path / "a.csv", "1")


def test_unknown_urls_are_rejected_in_a_sentence():
    with pytest.raises(UsageError, match=r"Cannot read nowhere://x: Protocol not known"):
        RemoteFile("nowhere://x").read()
    with pytest.raises(UsageError, match=r"No such file or folder: memory://missing/a"):
        RemoteFile("memory://missing/a").read()


def test_urls_survive_as_paths():
    assert as_shown(Path("s3://bucket/a b.jpg")) == "s3://bucket/a b.jpg"
    assert as_shown("C:/photos") == "C:/photos" and as_shown("a/b:/c") == "a/b:/c"
    assert is_url("gs://a") and not is_url("C:/a") and not is_url(Path("s3://a"))


def test_files_below_a_url_are_found_by_suffix():
    system = MemoryFileSystem()
    for name in ("/found/b/x.png", "/found/a.JPG", "/found/.hidden.png", "/found/c.txt"):
        system.pipe_file(name, b"content")
    found = remote_files("memory://found/", (".png", ".jpg"))
    assert [(file.url, str(path)) for file, path in found] == [
        ("memory://found/a.JPG", "a.JPG"),
        ("memory://found/b/x.png", "b/x.png"),
    ]
    assert found[0][0].read(2, 5) == b"nte"


def test_the_store_is_an_fsspec_file_system():
    assert ObjectStore.protocol == "objects"
