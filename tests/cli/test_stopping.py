"""What ends a command from outside: SIGTERM, a kill, a full disk, files that cannot be used."""

import errno
import os
import resource
import signal
import subprocess
import sys
import textwrap
import time
import warnings
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from PIL import Image

import eyechart as ec
from commands import assert_rejected, image_file, without_plan
from eyechart.core.storage.files import atomic_file, write_torch
from places import SUPPORT
from small_models import save_images


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_images(tmp_path_factory.mktemp("images") / "photos", each=2)


def started(*words, **variables):
    """Start the command in a process of its own."""
    path = os.pathsep.join([str(SUPPORT), *sys.path])
    return subprocess.Popen(
        [sys.executable, "-m", "eyechart", *map(str, words)],
        env={**os.environ, "PYTHONPATH": path, **variables},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def wait_for(process, is_there):
    while not is_there():
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)


# SIGTERM


def test_termination_ends_an_evaluation_with_a_sentence_and_loses_nothing(folder, run, tmp_path):
    out = tmp_path / "out"
    words = ("evaluate", "small_models:slow_colors", "--images", folder, "--out", out)
    words += (
        "--n",
        60,
        "--bins",
        6,
        "--min-per-bin",
        3,
        "--n-bootstrap",
        20,
        "--stimulus",
        "native",
    )
    words += ("--corruption", "brightness", "--batch-size", 8)
    process = started(*words, SLOW="0.1")
    wait_for(process, lambda: list(out.glob("predictions/vcr-*")))
    process.send_signal(signal.SIGTERM)
    said = process.communicate()[1]
    assert process.returncode == 143
    assert len(without_plan(said)) == 1
    assert "Stopped: finished work is in" in said and "to resume" in said
    assert run(*words).status == 0


TRAINING = """
    import sys, time
    from pathlib import Path
    from eyechart.cli.app import main
    from eyechart.training import training_loop

    learn, mark = training_loop._Run._learn, Path(sys.argv.pop(1))

    def slowly(self, *given):
        mark.touch()
        time.sleep(0.05)
        return learn(self, *given)

    training_loop._Run._learn = slowly
    main()
"""


@pytest.mark.slow
def test_termination_waits_for_the_step_of_a_training(run, tmp_path):
    from textures import save_textures

    save_textures(tmp_path / "train", 16, seed=1)
    words = ("train", "network", "textures:network", "--train-images", tmp_path / "train")
    words += (
        "--epochs",
        60,
        "--batch-size",
        16,
        "--stimulus",
        "native",
        "--out",
        tmp_path / "net.pt",
    )
    path = os.pathsep.join([str(SUPPORT), *sys.path])
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(TRAINING), tmp_path / "at-work", *map(str, words)],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    wait_for(process, (tmp_path / "at-work").exists)
    process.send_signal(signal.SIGTERM)
    said = process.communicate()[1]
    assert process.returncode == 143 and "the training state is next to" in said
    assert (tmp_path / "net.state").is_file()


# A kill


def test_what_a_killed_rendering_left_is_removed_by_the_next(run, folder, tmp_path):
    given = ("--n", 12, "--stimulus", "native", "--corruption", "blur")
    assert (
        run("testset", "make", "--images", folder, *given, "--out", tmp_path / "t.parquet").status
        == 0
    )
    out = tmp_path / "out"
    code = """
        import os, signal, sys
        from PIL import Image
        from eyechart.cli.app import main

        save, calls = Image.Image.save, []

        def killed(self, target, **options):
            save(self, target, **options)
            calls.append(target)
            if len(calls) == 3:
                os.kill(os.getpid(), signal.SIGKILL)

        Image.Image.save = killed
        main()
    """
    words = ("testset", "render", tmp_path / "t.parquet", "--images", folder, "--out", out)
    subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, words)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert len(list(out.rglob(".*.tmp"))) == 1
    assert run(*words).status == 0
    assert list(out.rglob(".*")) == []
    assert len(list(out.rglob("*.png"))) == len(ec.read_testset(tmp_path / "t.parquet"))


# A full disk


TOO_LARGE = os.strerror(errno.EFBIG)
"""The system's word for a file beyond the limit, as it has one for a disk that is full."""


@contextmanager
def files_of_at_most(n_bytes):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_checkpoint_for_which_there_is_no_room_says_so_and_leaves_nothing(tmp_path):
    with files_of_at_most(20_000), pytest.raises(ec.UsageError, match=TOO_LARGE):
        write_torch({"weights": torch.zeros(100_000)}, tmp_path / "net.pt")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "command", ["humans plot", "humans place", "humans similar", "overlap plot"]
)
def test_a_file_for_which_there_is_no_room_is_named(run, folder, tmp_path, command):
    matrix = tmp_path / "overlap.csv"
    matrix.write_text(",fog,frost\nfog,1,0.5\nfrost,0.5,1\n")
    words, name = {
        "humans plot": ((), "curves.png"),
        "humans place": ((folder / "red" / "0.png",), "placement.csv"),
        "humans similar": (("geirhos",), "similar.yaml"),
        "overlap plot": ((matrix,), "overlap.png"),
    }[command]
    with files_of_at_most(100):
        result = run(*command.split(), *words, "--out", tmp_path / name)
    assert_rejected(result, f"Cannot write {tmp_path / name}: {TOO_LARGE}.")
    assert list(tmp_path.iterdir()) == [matrix]


def test_an_error_of_another_file_keeps_its_name(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"missing\.csv"), atomic_file(tmp_path / "out.csv"):
        (tmp_path / "missing.csv").read_bytes()


def test_what_fits_is_what_torch_reads_back(tmp_path):
    held = {"weights": torch.arange(100_000.0), "name": "net", "steps": 3}
    write_torch(held, tmp_path / "net.pt")
    found = torch.load(tmp_path / "net.pt", weights_only=True)
    assert torch.equal(found.pop("weights"), held.pop("weights")) and found == held


def test_a_folder_that_is_missing_is_named(tmp_path):
    with pytest.raises(ec.UsageError, match="No such file"):
        write_torch({}, tmp_path / "none" / "net.pt")


# Words of Pillow's


def test_pillow_says_nothing_before_our_sentence(tmp_path):
    # 100 megapixels, which Pillow warns of, in a few bytes; and it is cut off
    whole = tmp_path / "large.png"
    Image.fromarray(np.zeros((10_000, 10_000), dtype=bool)).save(whole)
    content = whole.read_bytes()
    whole.write_bytes(content[: len(content) // 2])
    with warnings.catch_warnings(record=True) as seen, pytest.raises(OSError):
        warnings.simplefilter("always")
        Image.open(whole).load()
    assert any(issubclass(each.category, Image.DecompressionBombWarning) for each in seen)
    words = ("visual-change", whole, whole)
    process = started(*words)
    said = process.communicate()[1]
    assert process.returncode == 2
    assert len(said.strip().splitlines()) == 1 and "large.png is damaged or truncated" in said


# Seeds


@pytest.mark.parametrize("command", ["corrupt", "gallery", "evaluate", "testset make"])
@pytest.mark.parametrize("seed", [10**20 - 1, -(2**63)])
def test_a_seed_that_is_no_64_bit_number_is_rejected_by_every_command(run, tmp_path, command, seed):
    image_file(tmp_path / "one.png")
    given = {
        "corrupt": (tmp_path / "one.png", "--corruption", "fog", "--severity", 2),
        "gallery": (tmp_path / "one.png",),
        "evaluate": ("small_models:colors", "--images", tmp_path),
        "testset make": ("--images", tmp_path),
    }
    out = {"gallery": "g.png", "testset make": "t.parquet"}.get(command, "out")
    told = run(*command.split(), *given[command], "--seed", seed, "--out", tmp_path / out)
    assert_rejected(told, "seed must be a whole number below 2⁶³")
    assert [path.name for path in tmp_path.iterdir()] == ["one.png"]


# Formats that are not read


@pytest.fixture
def mixed(tmp_path):
    """Four images that are read, and four files that are not."""
    folder = save_images(tmp_path / "photos", each=1)
    for place, name in enumerate(("a.avif", "b.HEIC", "c.svg", "d.heic")):
        (folder / ("blue", "red")[place % 2] / name).write_bytes(b"not empty")
    (folder / "blue" / "notes.txt").write_text("no image")
    (folder / "blue" / ".hidden.svg").write_text("no image")
    return folder


def test_images_in_formats_that_are_not_read_are_counted_and_named(mixed):
    (note,) = ec.load_images(mixed, "native").notes
    assert "4 files" in note and ".avif, .heic, .svg" in note and "a.avif" in note


@pytest.mark.parametrize(
    "command",
    [
        "corrupt MIXED --corruption fog --severity 2 --out OUT",
        "corrupt MIXED --layout cifar-c --corruption fog --stimulus 32x32 --out OUT",
        "testset make --images MIXED --n 4 --stimulus native --corruption blur --out OUT.parquet",
        "humans place MIXED --out OUT.csv",
        "visual-change MIXED SAME",
        "models check small_models:colors --images MIXED",
        "overlap calibrate small_models:colors --images MIXED --stimulus native --suite imagenet-c"
        " --corruption contrast --out OUT.yaml",
        "structure subclass --images MIXED --stimulus native --out OUT",
        "structure superclass small_models:colors --images MIXED --hypernyms ISA --out OUT",
        "train network textures:network --train-images MIXED --stimulus native --epochs 1"
        " --batch-size 2 --out OUT.pt",
        "train style-transfer --train-images MIXED --styles MIXED --model style_judges:pyramid"
        " --trust --stimulus native --out OUT.pt",
    ],
)  # fmt: skip
def test_every_command_says_so(mixed, run, tmp_path, command):
    (tmp_path / "is_a.txt").write_text("n02084071 n02085374\n")
    paths = {"MIXED": mixed, "SAME": save_images(tmp_path / "same", each=1)}
    paths |= {"ISA": tmp_path / "is_a.txt", "OUT": tmp_path / "out"}
    for name, path in paths.items():
        command = command.replace(name, str(path))
    result = run(*command.split())
    # some find out only then that images are too few or have no subclasses
    assert result.status in (0, 2), result.err
    assert result.err.count("4 files are skipped") == 1


def test_an_evaluation_says_so_and_records_it(mixed, run, tmp_path):
    small = ("--n", 12, "--bins", 4, "--min-per-bin", 2, "--n-bootstrap", 5, "--stimulus", "native")
    given = ("--images", mixed, "--corruption", "blur", "--out", tmp_path / "out")
    result = run("evaluate", "small_models:colors", *small, *given)
    assert result.status == 0 and "4 files are skipped" in result.out
    assert "4 files are skipped" in (tmp_path / "out" / "results.json").read_text("utf-8")


def test_a_folder_of_nothing_else_is_rejected_with_their_number(run, tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.heic").write_bytes(b"")
    words = ("testset", "make", "--images", tmp_path / "photos", "--out", tmp_path / "t.parquet")
    assert_rejected(run(*words), "No images in", "1 file is skipped", "a.heic")


def test_results_among_the_images_are_not_counted(mixed, tmp_path):
    results = mixed / "results"
    results.mkdir()
    (results / "curves.svg").write_text("<svg/>")
    (note,) = ec.load_images(mixed, "native", leave_out=results).notes
    assert "4 files" in note
