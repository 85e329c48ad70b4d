"""Tables that grow on disk: nothing is lost or doubled by a kill, and a full disk is a sentence."""

import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pyarrow as pa
import pytest

import eyechart as ec
from eyechart.core import version
from eyechart.core.storage.files import MACHINE, atomic_file, remove_leftovers, write_text
from eyechart.core.storage.parts import (
    PER_WRITER,
    PartFiles,
    file_name,
    read_header,
    read_parquet,
    write_parquet,
)


def rows(*numbers):
    """Rows whose value is a function of their number, so that a mix-up shows."""
    return pa.table({"row": list(numbers), "value": [number**2 + 1 for number in numbers]})


def found(folder, name):
    table = PartFiles(folder).read(name).to_pydict()
    return list(zip(table["row"], table["value"], strict=True))


def expected(*numbers):
    return [(number, number**2 + 1) for number in numbers]


def in_python(code, *arguments, **options):
    """Run Python code in a process of its own."""
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


def test_rows_come_back_sorted_whatever_the_order_of_writing(tmp_path):
    parts = PartFiles(tmp_path)
    parts.write("vcr/fog", rows(7, 5))
    parts.write("vcr/snow", rows(1))
    parts.write("vcr/fog", rows(2, 9))
    assert found(tmp_path, "vcr/fog") == expected(2, 5, 7, 9)
    assert PartFiles(tmp_path).done().tolist() == [1, 2, 5, 7, 9]
    assert PartFiles(tmp_path).names() == [file_name("vcr/fog"), file_name("vcr/snow")]


def test_merging_keeps_all_rows_in_one_file_for_each_name(tmp_path):
    parts = PartFiles(tmp_path)
    for start in range(0, 12, 3):
        parts.write("fog", rows(*range(start, start + 3)))
        parts.write("snow", rows(100 + start))
    parts.merge()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fog.parquet", "snow.parquet"]
    assert found(tmp_path, "fog") == expected(*range(12))
    assert found(tmp_path, "snow") == expected(100, 103, 106, 109)
    parts.merge()
    assert found(tmp_path, "fog") == expected(*range(12))


def test_rows_written_after_a_merge_are_added_by_the_next(tmp_path):
    PartFiles(tmp_path).write("fog", rows(0, 1))
    PartFiles(tmp_path).merge()
    later = PartFiles(tmp_path)
    assert later.done().tolist() == [0, 1]
    later.write("fog", rows(2))
    later.merge()
    assert found(tmp_path, "fog") == expected(0, 1, 2)


def test_a_new_process_never_overwrites_the_parts_of_the_one_before(tmp_path):
    for numbers in ((0, 1), (2,), (3, 4)):
        parts = PartFiles(tmp_path)
        parts.done()
        parts.write("fog", rows(*numbers))
    assert found(tmp_path, "fog") == expected(0, 1, 2, 3, 4)


def test_rows_that_a_half_finished_merge_left_twice_are_not_repeated(tmp_path):
    parts = PartFiles(tmp_path)
    parts.write("fog", rows(0, 1))
    parts.write("fog", rows(2, 3))
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    parts.merge()
    # killed after the whole was written and one of its parts was removed
    path, content = before.popitem()
    path.write_bytes(content)
    assert found(tmp_path, "fog") == expected(0, 1, 2, 3)
    assert PartFiles(tmp_path).done().tolist() == [0, 1, 2, 3]
    PartFiles(tmp_path).merge()
    assert [path.name for path in tmp_path.iterdir()] == ["fog.parquet"]
    assert found(tmp_path, "fog") == expected(0, 1, 2, 3)


def test_some_columns_can_be_read_alone(tmp_path):
    PartFiles(tmp_path).write("fog", rows(3, 1))
    assert PartFiles(tmp_path).read("fog", ["row"]).to_pydict() == {"row": [1, 3]}


def test_a_name_without_rows_is_rejected(tmp_path):
    with pytest.raises(ec.UsageError, match="no rows of fog"):
        PartFiles(tmp_path).read("fog")


def test_names_that_begin_alike_are_not_mixed_up(tmp_path):
    parts = PartFiles(tmp_path)
    parts.write("vcr/blur", rows(1))
    parts.write("vcr/blur-more", rows(2))
    parts.merge()
    assert found(tmp_path, "vcr/blur") == expected(1)
    assert found(tmp_path, "vcr/blur-more") == expected(2)


@pytest.mark.parametrize(
    "name",
    [
        "fog (conflicted copy).parquet",
        "fog--0000001 (conflicted copy).parquet",
        "fog--copy.parquet",
        "fog-old.parquet",
        "notes.parquet",
    ],
)
@pytest.mark.parametrize("content", [rows(2, 3), pa.table({"else": [1]})], ids=["rows", "else"])
def test_files_of_other_names_are_told_and_their_rows_count_nowhere(tmp_path, name, content):
    write_parquet(content, tmp_path / name)
    parts = PartFiles(tmp_path, ["fog", "snow"])
    parts.write("fog", rows(0, 1))
    assert parts.done().tolist() == [0, 1]
    assert name in " ".join(parts.notes())
    parts.write("fog", rows(2, 3))
    parts.merge()
    assert found(tmp_path, "fog") == expected(0, 1, 2, 3)
    assert parts.names() == ["fog"]
    parts.drop("fog")
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert read_parquet(tmp_path / name).equals(content)


def test_a_folder_without_strays_needs_no_note(tmp_path):
    parts = PartFiles(tmp_path, ["vcr/fog"])
    parts.write("vcr/fog", rows(0))
    parts.merge()
    parts.write("vcr/fog", rows(1))
    assert parts.notes() == []


WRITER = """
    import sys
    from pathlib import Path
    import pyarrow as pa
    from eyechart.core.storage.parts import PartFiles
    parts, number = PartFiles(Path(sys.argv[1])), 0
    while True:
        parts.write("fog", pa.table({"row": [number], "value": [number**2 + 1]}))
        print(number, flush=True)
        number += 1
"""


def test_rows_that_were_written_survive_a_kill(tmp_path):
    writer = in_python(WRITER, tmp_path)
    said = [int(writer.stdout.readline()) for _ in range(20)]
    writer.send_signal(signal.SIGKILL)
    said += [int(line) for line in writer.communicate()[0].split()]
    assert said == list(range(len(said)))
    # what it was just writing may be there besides, whole
    done = PartFiles(tmp_path).done().tolist()
    assert done in (said, [*said, len(said)])
    assert found(tmp_path, "fog") == expected(*done)
    assert not list(tmp_path.glob(".*"))


def test_files_left_by_a_killed_process_are_removed_and_those_of_a_living_one_kept(tmp_path):
    gone = in_python("")
    gone.communicate()
    alive = os.getppid()
    names = [f".fog.parquet.{gone.pid}.tmp", f".fog.parquet.{alive}.tmp", ".mine.tmp", "a.tmp"]
    for name in names:
        (tmp_path / name).write_text("half")
    remove_leftovers([tmp_path])
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names[1:])


@pytest.mark.parametrize("ending", ["svg", "pdf", "html", "md", "tex", "xml", "png", "csv"])
def test_a_file_that_a_killed_process_left_is_removed_when_it_is_written_again(tmp_path, ending):
    path = tmp_path / f"curves.{ending}"
    killed = in_python(
        """
        import os, signal, sys
        from pathlib import Path
        from eyechart.core.storage.files import atomic_file
        with atomic_file(Path(sys.argv[1])) as temporary:
            temporary.write_text("half")
            os.kill(os.getpid(), signal.SIGKILL)
        """,
        path,
    )
    killed.communicate()
    assert [name.name.startswith(f".{path.name}.") for name in tmp_path.iterdir()] == [True]
    write_text(path, "whole")
    assert [name.name for name in tmp_path.iterdir()] == [path.name]


def test_a_file_that_another_machine_is_writing_is_kept_until_it_is_a_day_old(tmp_path):
    with atomic_file(tmp_path / "a.json") as temporary:
        # the process id is not in use here, but says nothing about another machine
        other = temporary.name.replace(MACHINE, "0123abcd").replace(str(os.getpid()), "999999999")
        temporary.write_text("")
    young, old = tmp_path / other, tmp_path / other.replace("a.json", "b.json")
    for path in (young, old):
        path.write_text("half")
    long_ago = time.time() - 25 * 3600
    os.utime(old, (long_ago, long_ago))
    remove_leftovers([tmp_path])
    assert young.exists() and not old.exists()


def test_a_file_that_could_not_be_finished_leaves_the_old_one(tmp_path):
    (tmp_path / "a.json").write_text("old")
    with pytest.raises(ZeroDivisionError), atomic_file(tmp_path / "a.json") as temporary:
        temporary.write_text("new")
        raise ZeroDivisionError
    assert (tmp_path / "a.json").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_a_full_disk_is_one_sentence_and_keeps_what_was_written(tmp_path):
    """Files may not grow beyond 20,000 bytes, which is what a quota or a full disk looks like."""
    full = in_python(
        """
        import resource, signal, sys
        from pathlib import Path
        import numpy as np, pyarrow as pa
        import eyechart as ec
        from eyechart.core.storage.parts import PartFiles
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
        parts = PartFiles(Path(sys.argv[1]))
        parts.write("fog", pa.table({"row": [0], "value": [1]}))
        try:
            noise = np.random.default_rng(0).integers(0, 2**62, 100_000)
            parts.write("fog", pa.table({"row": np.arange(1, 100_001), "value": noise}))
        except ec.UsageError as error:
            print(error)
        """,
        tmp_path,
    )
    said, error = (text.decode() for text in full.communicate())
    assert full.returncode == 0, error
    assert said.startswith("Cannot write") and len(said.splitlines()) == 1
    assert "File too large" in said and said.strip().endswith(".")
    assert found(tmp_path, "fog") == expected(0)
    assert len(list(tmp_path.iterdir())) == 1


def test_a_folder_that_is_not_there_is_one_sentence(tmp_path):
    with pytest.raises(ec.UsageError, match=r"Cannot write .*No such file or directory"):
        write_parquet(rows(1), tmp_path / "none" / "a.parquet")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written_is_one_sentence(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(ec.UsageError, match=r"Cannot write .*Permission denied"):
        PartFiles(tmp_path).write("fog", rows(1))
    tmp_path.chmod(0o700)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"no Parquet at all, but long enough"])
def test_a_file_that_is_no_parquet_is_one_sentence(tmp_path, content):
    (tmp_path / "a.parquet").write_bytes(content)
    with pytest.raises(ec.UsageError, match=r"a\.parquet"):
        read_parquet(tmp_path / "a.parquet")
    with pytest.raises(ec.UsageError, match=r"a\.parquet"):
        read_header(tmp_path / "a.parquet")


def test_a_part_that_was_cut_off_is_one_sentence(tmp_path):
    PartFiles(tmp_path).write("fog", rows(*range(50)))
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ec.UsageError, match="Cannot read"):
        PartFiles(tmp_path).done()


def test_a_table_without_the_column_is_one_sentence(tmp_path):
    write_parquet(pa.table({"other": [1]}), tmp_path / "fog.parquet")
    with pytest.raises(ec.UsageError, match=r"fog\.parquet"):
        PartFiles(tmp_path).done()


def test_what_a_file_says_of_itself_is_read_without_its_rows(tmp_path):
    table = rows(1).replace_schema_metadata({"who": "ä", "what": "{}"})
    write_parquet(table, tmp_path / "a.parquet")
    assert dict(read_header(tmp_path / "a.parquet")) == {"who": "ä", "what": "{}"}
    with pytest.raises(ec.UsageError, match="No such file"):
        read_header(tmp_path / "none.parquet")


def test_two_writers_at_once_lose_no_rows(tmp_path):
    """Two runs into one folder: each writes its own rows, and none replaces those of the other."""
    first, second = PartFiles(tmp_path), PartFiles(tmp_path)
    first.done(), second.done()
    first.write("fog", rows(0, 1))
    second.write("fog", rows(2, 3))
    assert found(tmp_path, "fog") == expected(0, 1, 2, 3)


def test_a_writer_stays_in_its_range_of_part_numbers(tmp_path):
    """Otherwise a resumed writer and the one whose range it entered choose the same name."""
    PartFiles(tmp_path, writer=0).write("fog", rows(0))
    PartFiles(tmp_path, writer=1).write("fog", rows(1))
    resumed = [PartFiles(tmp_path, writer=writer) for writer in (0, 1, 2)]
    for row, parts in enumerate(resumed, 2):
        assert parts.done().tolist() == list(range(row))
        parts.write("fog", rows(row))
    numbers = sorted(int(path.stem.split("--")[1]) for path in tmp_path.iterdir())
    assert numbers == [1, 2, PER_WRITER + 1, PER_WRITER + 2, 2 * PER_WRITER + 1]
    assert found(tmp_path, "fog") == expected(0, 1, 2, 3, 4)


# What made a result


def test_the_commit_is_that_of_the_source_tree():
    if shutil.which("git") is None:
        pytest.skip("no git")
    here = os.path.dirname(version.__file__)
    asked = subprocess.run(["git", "rev-parse", "HEAD"], cwd=here, capture_output=True, text=True)
    expected = asked.stdout.strip() if asked.returncode == 0 else None
    found = version.git_hash()
    assert (found or "").rstrip("+") == (expected or "")


@pytest.mark.parametrize("file", ["core/version.py", "corruptions/blur.py", "data/vcr.yaml"])
def test_a_change_anywhere_in_the_package_is_marked(tmp_path, monkeypatch, file):
    if shutil.which("git") is None:
        pytest.skip("no git")

    def git(*arguments):
        identity = ("-c", "user.name=a", "-c", "user.email=a@b.c")
        subprocess.run(["git", *identity, *arguments], cwd=tmp_path, check=True)

    package = tmp_path / "src" / "eyechart"
    for name in ("core/version.py", "corruptions/blur.py", "data/vcr.yaml", "../../README.md"):
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text("as committed")
    git("init", "-q")
    git("add", "-A")
    git("commit", "-q", "-m", "first")
    monkeypatch.setattr(version, "__file__", str(package / "core" / "version.py"))
    # uncached, because the cache holds the commit of the real package
    read_hash = version.git_hash.__wrapped__
    (tmp_path / "README.md").write_text("changed")
    assert len(read_hash()) == 40
    (package / file).write_text("changed")
    assert read_hash().endswith("+")


def test_the_versions_are_those_that_are_imported():
    import scipy
    import torch

    found = version.versions()
    assert found["eyechart"] == ec.__version__
    assert found["numpy"] == np.__version__ and found["scipy"] == scipy.__version__
    assert found["torch"].split("+")[0] == torch.__version__.split("+")[0]
    assert found["pyarrow"] == pa.__version__
