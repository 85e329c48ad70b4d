"""The command: what it prints, what it writes, and how it refuses."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import eyechart as ec
from commands import assert_rejected, hear_interrupts, image_file
from eyechart.corruptions.suites import file_corruption
from eyechart.images.identity import file_digest


@pytest.fixture
def photos(tmp_path):
    """Four pictures of two sizes, in two folders."""
    folder = tmp_path / "photos"
    for index, name in enumerate(("a.png", "b.png", "deep/c.png")):
        image_file(folder / name, index)
    image_file(folder / "deep" / "d.png", 3, (16, 30))
    return folder


def pixels(path: Path) -> np.ndarray:
    with Image.open(path) as opened:
        return np.array(opened)


# listing


def test_list_into_a_pipe_is_one_name_per_line(run):
    result = run("list", "corruptions", "--suite", "imagenet-c", "--family", "weather")
    assert result.out.splitlines() == ["snow", "frost", "fog", "brightness"]


def test_list_on_a_terminal_is_a_table_with_summaries(run, monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    result = run("list", "corruptions", "--suite", "imagenet-c")
    assert "what it does" in result.out
    assert "jpeg_compression" in result.out


def test_list_suites_names_the_six(run):
    names = run("list", "suites").out.splitlines()
    assert names == [
        "imagenet-c", "imagenet-c-extra", "vcr", "noc-candidates", "imagenet-noc", "geometry",
    ]  # fmt: skip


def test_commands_that_are_not_installed_are_rejected_with_what_to_install(run, monkeypatch):
    monkeypatch.setattr("eyechart.cli.app.entry_points", lambda group: [])
    monkeypatch.setattr("eyechart.cli.app.app.registered_groups", [])
    result = run("experiment", "new")
    assert result.status == 2 and not result.out
    assert result.err == (
        "eyechart experiment is not installed: run  pip install eyechart-experiment  first.\n"
    )


def test_version(run):
    assert run("--version").out == f"eyechart {ec.__version__}\n"


def test_the_module_runs_as_a_command():
    result = subprocess.run(
        [sys.executable, "-m", "eyechart", "--version"], capture_output=True, text=True, check=True
    )
    assert result.stdout.startswith("eyechart ")


# corrupting


def test_corrupt_keeps_folders_and_gives_the_pixels_of_the_library(run, photos, tmp_path):
    out = tmp_path / "out"
    result = run("corrupt", photos, "-c", "gaussian_noise", "-s", 2.5, "--seed", 7, "--out", out)
    assert result.status == 0
    assert result.err == ""  # no progress bar in a pipe
    assert "4 images written" in result.out
    for name in ("a.png", "b.png", "deep/c.png", "deep/d.png"):
        source = photos / name
        expected = ec.corrupt(
            pixels(source), "gaussian_noise", severity=2.5, seed=7, keys=[file_digest(source)]
        )
        assert np.array_equal(pixels(out / name), expected), name


def test_parameters_can_be_set(run, photos, tmp_path):
    out = tmp_path / "out"
    run("corrupt", photos / "a.png", "-c", "brightness", "--set", "amount=0.2", "--out", out)
    expected = ec.corrupt(pixels(photos / "a.png"), "brightness", amount=0.2)
    assert np.array_equal(pixels(out / "a.png"), expected)


def test_a_broken_image_is_named_and_the_rest_is_done(run, photos, tmp_path):
    whole = (photos / "b.png").read_bytes()
    (photos / "b.png").write_bytes(whole[: len(whole) // 2])
    (photos / "e.png").write_text("not a picture")
    image_file(photos / "tiny.png", 5, (4, 4))
    out = tmp_path / "out"
    result = run("corrupt", photos, "-c", "fog", "-s", 2, "--out", out)
    assert result.status == 2
    lines = result.err.strip().splitlines()
    assert len(lines) == 4
    assert "b.png" in lines[0]
    assert "e.png" in lines[1]
    assert "tiny.png" in lines[2]
    assert "3 images of 6 skipped" in lines[3]
    assert sorted(path.name for path in out.rglob("*.png")) == ["a.png", "c.png", "d.png"]


def test_a_second_run_keeps_what_is_there(run, photos, tmp_path):
    out = tmp_path / "out"
    command = ("corrupt", photos, "-c", "fog", "-s", 2, "--out", out)
    run(*command)
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*.png")}
    (out / "b.png").unlink()
    result = run(*command)
    assert result.status == 0
    assert "1 image written" in result.out
    assert "3 already exist" in result.out
    del before[out / "b.png"]
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_other_settings_are_rejected_unless_overwriting(run, photos, tmp_path):
    out = tmp_path / "out"
    run("corrupt", photos, "-c", "fog", "-s", 2, "--out", out)
    before = pixels(out / "a.png")
    assert_rejected(
        run("corrupt", photos, "-c", "fog", "-s", 3, "--out", out), "severity 2.0", "--overwrite"
    )
    assert np.array_equal(pixels(out / "a.png"), before)
    result = run("corrupt", photos, "-c", "fog", "-s", 3, "--out", out, "--overwrite")
    assert result.status == 0
    assert not np.array_equal(pixels(out / "a.png"), before)


def test_a_result_of_another_image_is_not_taken_for_this_one(run, photos, tmp_path):
    out = tmp_path / "out"
    run("corrupt", photos / "a.png", "-c", "fog", "-s", 2, "--out", out)
    other = image_file(tmp_path / "other" / "a.png", 9)
    result = run("corrupt", other, "-c", "fog", "-s", 2, "--out", out)
    assert result.status == 2
    assert "made from a different image" in result.err


def test_images_of_the_users_own_are_not_replaced(run, photos, tmp_path):
    mine = image_file(tmp_path / "out" / "a.png", 8)
    before = mine.read_bytes()
    assert_rejected(run("corrupt", photos, "-c", "fog", "-s", 2, "--out", mine.parent), "a.png")
    assert mine.read_bytes() == before
    assert_rejected(run("corrupt", photos, "-c", "fog", "-s", 2, "--out", photos), "another folder")
    rejected = run("corrupt", mine, "-c", "fog", "-s", 2, "--out", mine.parent, "--overwrite")
    assert_rejected(rejected, "would be overwritten")
    assert mine.read_bytes() == before


def test_an_output_folder_inside_the_input_is_not_corrupted_again(run, photos):
    command = ("corrupt", photos, "-c", "fog", "-s", 2, "--out", photos / "foggy")
    run(*command)
    assert "0 images written" in run(*command).out


def test_two_inputs_for_one_output_are_rejected(run, photos, tmp_path):
    image_file(photos / "a.bmp", 4)
    result = run("corrupt", photos, "-c", "fog", "-s", 2, "--out", tmp_path / "out")
    assert_rejected(result, "a.bmp", "a.png")
    assert not (tmp_path / "out").exists()


def test_jpeg_output_of_the_asked_quality(run, photos, tmp_path):
    out = tmp_path / "out"
    command = ("corrupt", photos / "a.png", "-c", "fog", "-s", 2, "--format", "jpeg", "--out", out)
    run(*command)
    with Image.open(out / "a.jpg") as opened:
        assert opened.format == "JPEG"
        quantization = opened.quantization
    Image.new("RGB", (8, 8)).save(tmp_path / "85.jpg", quality=85)
    with Image.open(tmp_path / "85.jpg") as reference:
        assert quantization == reference.quantization
    assert "already exist" in run(*command).out


def test_the_folder_records_settings_and_versions(run, photos, tmp_path):
    run("corrupt", photos, "-c", "frost", "-s", 2, "--out", tmp_path / "out")
    record = json.loads((tmp_path / "out" / "eyechart.json").read_text())
    assert record["settings"]["corruption"] == "frost"
    assert record["settings"]["severity"] == 2
    assert record["versions"]["torch"]


def test_a_run_that_is_interrupted_keeps_what_is_written_and_goes_on(
    run, photos, tmp_path, monkeypatch
):
    out = tmp_path / "out"
    command = ("corrupt", photos, "-c", "fog", "-s", 2, "--out", out)
    monkeypatch.setattr(file_corruption, "READ_AT_ONCE", 1)
    monkeypatch.setattr(file_corruption, "HELD_IMAGES", 1)
    corrupt, calls = file_corruption.corrupt, []

    def interrupted(*arguments, **options):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return corrupt(*arguments, **options)

    monkeypatch.setattr(file_corruption, "corrupt", interrupted)
    result = run(*command)
    assert result.status == 130
    assert "2 of 4 images" in result.err
    assert "Traceback" not in result.err
    assert "2 images written" in run(*command).out
    assert len(list(out.rglob("*.png"))) == 4
    assert not list(out.rglob("*.tmp"))


def test_ctrl_c_on_the_real_process(photos, tmp_path):
    for index in range(100):
        image_file(photos / f"more{index}.png", index, (224, 224))
    out = tmp_path / "out"
    # slow enough to be caught in the middle
    command = ["corrupt", photos, "-c", "zoom_blur", "-s", "2", "--out", out]
    process = subprocess.Popen(
        [sys.executable, "-m", "eyechart", *map(str, command)],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=hear_interrupts,
    )
    deadline = time.monotonic() + 60
    while not list(out.glob("*.png")) and time.monotonic() < deadline:
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    kept = len(list(out.rglob("*.png")))
    assert f"Stopped: {kept} of 104 images" in err
    assert "Traceback" not in err
    for path in out.rglob("*.png"):
        pixels(path)


def test_no_room_on_the_disk_ends_in_a_sentence_and_keeps_the_rest(
    run, photos, tmp_path, monkeypatch
):
    monkeypatch.setattr(file_corruption, "READ_AT_ONCE", 1)
    monkeypatch.setattr(file_corruption, "HELD_IMAGES", 1)
    write, calls = file_corruption.write_image, []

    def full(*arguments, **options):
        calls.append(1)
        if len(calls) == 3:
            raise OSError(28, "No space left on device")
        write(*arguments, **options)

    monkeypatch.setattr(file_corruption, "write_image", full)
    result = run("corrupt", photos, "-c", "fog", "-s", 2, "--out", tmp_path / "out")
    assert_rejected(result, "No space left on device", "2 images")
    assert len(list((tmp_path / "out").rglob("*.png"))) == 2


def test_no_write_permission_is_one_sentence(run, photos, tmp_path, monkeypatch):
    def forbidden(self, *_, **__):
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "mkdir", forbidden)
    result = run("corrupt", photos, "-c", "fog", "-s", 2, "--out", tmp_path / "out")
    assert_rejected(result, "Cannot write into", "Permission denied")


def test_results_of_other_settings_that_would_stay_are_rejected(run, photos, tmp_path):
    out = tmp_path / "out"
    options = ("-c", "fog", "--out", out)
    run("corrupt", photos, *options, "-s", 2)
    record = (out / "eyechart.json").read_text()
    words = ("from other settings", "use an empty folder or delete them")
    fewer = run("corrupt", photos / "a.png", *options, "-s", 3, "--overwrite")
    assert_rejected(fewer, "3 results", str(out / "b.png"), *words)
    other = run("corrupt", photos, *options, "-s", 2, "--format", "jpeg", "--overwrite")
    assert_rejected(other, "4 results", *words)
    assert (out / "eyechart.json").read_text() == record
    assert len(list(out.rglob("*.*g"))) == 4
    # results that have a record of their own may stay, and so may those of the same settings
    run("corrupt", photos, "-c", "frost", "-s", 1, "--out", out / "frosty")
    assert run("corrupt", photos / "a.png", *options, "-s", 2, "--overwrite").status == 0
    for name in ("b.png", "deep/c.png", "deep/d.png"):
        (out / name).unlink()
    image_file(out / "mine.png")
    assert run("corrupt", photos / "a.png", *options, "-s", 3, "--overwrite").status == 0


def test_other_results_inside_the_input_are_not_corrupted_again(run, photos):
    run("corrupt", photos, "-c", "fog", "-s", 2, "--out", photos / "foggy")
    result = run("corrupt", photos, "-c", "frost", "-s", 2, "--out", photos / "frosty")
    assert result.status == 0
    assert "4 images written" in result.out
    said = f"Skipped 4 images that eyechart wrote into {photos / 'foggy'}."
    assert result.err.splitlines() == [said]
    assert not (photos / "frosty" / "foggy").exists()
    # asked for by name, they are
    twice = ("corrupt", photos / "foggy", "-c", "frost", "-s", 2, "--out", photos / "both")
    assert "4 images written" in run(*twice).out
    only = image_file(photos / "only" / "foggy" / "x.png")
    run("corrupt", only, "-c", "fog", "-s", 2, "--out", photos / "only" / "foggy" / "out")
    only.unlink()
    options = ("-c", "frost", "-s", 2, "--out", photos / "none")
    assert_rejected(run("corrupt", only.parent, *options), "written by eyechart")


def test_an_overwriting_run_that_is_interrupted_tells_the_truth_and_goes_on(
    run, photos, tmp_path, monkeypatch
):
    out = tmp_path / "out"
    run("corrupt", photos, "-c", "fog", "-s", 2, "--out", out)
    command = ("corrupt", photos, "-c", "fog", "-s", 3, "--out", out)
    monkeypatch.setattr(file_corruption, "READ_AT_ONCE", 1)
    monkeypatch.setattr(file_corruption, "HELD_IMAGES", 1)
    corrupt, calls = file_corruption.corrupt, []

    def interrupted(*arguments, **options):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return corrupt(*arguments, **options)

    monkeypatch.setattr(file_corruption, "corrupt", interrupted)
    result = run(*command, "--overwrite")
    assert result.status == 130
    assert "Stopped: 1 of 4 images are done" in result.err
    assert json.loads((out / "eyechart.json").read_text())["replacing"] is True
    assert_rejected(run("corrupt", photos, "-c", "fog", "-s", 2, "--out", out), "severity 3.0")
    fewer = run("corrupt", photos / "a.png", "-c", "fog", "-s", 3, "--out", out)
    assert_rejected(fewer, "3 results from other settings")
    mine = image_file(out / "b.png", 8).read_bytes()
    result = run(*command)
    assert result.status == 2
    assert "b.png already exists" in result.err  # never a result: only --overwrite replaces it
    assert "2 images written" in result.out
    assert (out / "b.png").read_bytes() == mine
    assert run(*command, "--overwrite").status == 0
    assert "replacing" not in json.loads((out / "eyechart.json").read_text())
    for name in ("a.png", "b.png", "deep/c.png", "deep/d.png"):
        keys = [file_digest(photos / name)]
        expected = ec.corrupt(pixels(photos / name), "fog", severity=3, keys=keys)
        assert np.array_equal(pixels(out / name), expected), name


@pytest.mark.parametrize("format", ["png", "jpeg"])
def test_damaged_results_are_made_again(run, photos, tmp_path, format):
    out = tmp_path / "out"
    command = ("corrupt", photos, "-c", "fog", "-s", 2, "--format", format, "--out", out)
    run(*command)
    results = sorted(out.rglob("*.*g"))
    whole = [path.read_bytes() for path in results]
    results[0].write_bytes(b"")
    results[1].write_bytes(whole[1][:-5])
    results[2].write_bytes(whole[2][: len(whole[2]) // 2])
    result = run(*command)
    assert result.status == 0, result.err
    assert "3 images written" in result.out
    assert [path.read_bytes() for path in results] == whole


def test_what_a_killed_run_left_is_removed(run, photos, tmp_path):
    out = tmp_path / "out"
    command = ("corrupt", photos, "-c", "fog", "-s", 2, "--out", out)
    run(*command)
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    left = [out / f".a.png.{ended.pid}.tmp", out / "deep" / f".c.png.{ended.pid}.tmp"]
    others = [out / f".a.png.{os.getppid()}.tmp", out / f".notes.{ended.pid}.tmp"]
    for path in (*left, *others):
        path.touch()
    run(*command)
    assert not any(path.exists() for path in left)
    assert all(path.exists() for path in others)


def test_empty_paths_are_rejected(run, photos, tmp_path, monkeypatch):
    monkeypatch.chdir(photos / "deep")
    options = ("-c", "fog", "-s", 2, "--out")
    assert_rejected(run("corrupt", photos, *options, ""), "--out", "give a folder")
    assert_rejected(run("corrupt", "", *options, tmp_path / "out"), "give a folder")
    assert not (tmp_path / "out").exists()
    assert len(list(Path().iterdir())) == 2


def test_jpg_is_jpeg(run, photos, tmp_path):
    command = ("corrupt", photos / "a.png", "-c", "fog", "-s", 2, "--out", tmp_path / "out")
    assert run(*command, "--format", "jpg").status == 0
    assert "1 already exist" in run(*command, "--format", "jpeg").out


def test_a_file_in_the_place_of_the_folder_is_one_sentence(run, photos):
    result = run("corrupt", photos, "-c", "fog", "-s", 2, "--out", photos / "a.png")
    assert_rejected(result, "Cannot write into", "it is a file, not a folder")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_write_permission_is_one_sentence(run, photos, tmp_path):
    (tmp_path / "out").mkdir(mode=0o500)
    result = run("corrupt", photos, "-c", "fog", "-s", 2, "--out", tmp_path / "out")
    assert_rejected(result, "Cannot write into", "Permission denied")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("-c", "fogg", "-s", 2), ("Unknown corruption 'fogg'", "Did you mean 'fog'")),
        (("-c", "fog", "-s", 6), ("severity must be in [0, 5], got 6",)),
        (("-c", "fog", "-s", -1), ("severity must be in [0, 5], got -1",)),
        (("-c", "fog", "-s", "nan"), ("severity",)),
        (("-c", "fog", "-s", "strong"), ("--severity",)),
        (("-c", "fog"), ("Give a strength", "thickness")),
        (("-c", "gaussian_noise", "--set", "sigma=3"), ("sigma must be in [0, 1], got 3",)),
        (("-c", "gaussian_noise", "--set", "sgma=0.1"), ("no parameter 'sgma'", "sigma")),
        (("-c", "gaussian_noise", "--set", "sigma"), ("NAME=NUMBER",)),
        (("-c", "fog", "-s", 2, "--variant", "x"), ("no variant 'x'",)),
        (("-c", "fog", "-s", 2, "--format", "gif"), ("png or jpeg",)),
        (("-c", "fog", "-s", 2, "--format", "jpeg", "--jpeg-quality", 0), ("[1, 100]",)),
        (("-c", "fog", "-s", 2, "--device", "abacus"), ("abacus",)),
        (("-c", "frost", "-s", 2, "--frost-textures", "nowhere"), ("No such file", "nowhere")),
        (("-c", "fog", "-s", 2, "--nonsense"), ("--nonsense", "See eyechart corrupt --help-all.")),
        (("-c", "fog", "--sev", 2), ("Unknown option '--sev'. Did you mean '--severity'?",)),
        (("-c", "fog", "--severty=2"), ("'--severty'. Did you mean '--severity'",)),
        (("-s", 2), ("--corruption",)),
    ],
)
def test_bad_settings_are_one_sentence_and_nothing_is_written(
    run, photos, tmp_path, options, words
):
    out = tmp_path / "out"
    assert_rejected(run("corrupt", photos, "--out", out, *options), *words)
    assert not out.exists()


def test_missing_and_empty_inputs_are_one_sentence(run, tmp_path):
    options = ("-c", "fog", "-s", 2, "--out", tmp_path / "out")
    assert_rejected(run("corrupt", tmp_path / "nowhere", *options), "No such file or folder")
    (tmp_path / "empty").mkdir()
    assert_rejected(run("corrupt", tmp_path / "empty", *options), "No images in")
    assert not (tmp_path / "out").exists()


def test_an_unknown_subcommand_is_one_sentence(run):
    assert_rejected(run("corupt"), "corupt")


def test_a_fault_of_our_own_is_still_no_traceback(run, photos, tmp_path, monkeypatch):
    def broken(*_, **__):
        raise KeyError("oops")

    monkeypatch.delenv("EYECHART_DEBUG", raising=False)
    monkeypatch.setattr(file_corruption, "corrupt", broken)
    result = run("corrupt", photos, "-c", "fog", "-s", 2, "--out", tmp_path / "out")
    assert result.status == 70
    assert "report it" in result.err
    assert len(result.err.splitlines()) == 1


# gallery


def test_gallery_as_image_and_page(run, photos, tmp_path):
    sheet, page = tmp_path / "sheet.png", tmp_path / "page.html"
    options = ("--suite", "vcr", "--size", 32, "--columns", 2, "--out", sheet, "--out", page)
    result = run("gallery", photos / "a.png", *options)
    assert result.out.split() == [str(sheet), str(page)]
    assert pixels(sheet).shape[1] > 3 * 32
    text = page.read_text()
    assert "<title>VCR-Bench" in text
    assert text.count("<img ") == 14 * 3
    assert all(re.findall(r'<img [^>]*alt="[^"]+"', text))
    assert not re.search(r'(src|href)="(?!data:|#)', text)  # needs nothing beside itself
    assert re.search(r'alt="vcr/gaussian_noise at severity 5, Δv 0\.\d\d, σ = 1"', text)
    assert "Δv by the ruler vif at 2 scales, as images are small." in text


def gallery_rows(photos, suite, size=20, **settings):
    """The clean image and the rows of a gallery by name."""
    from eyechart.corruptions.suites.suite import load_suite
    from eyechart.reports.series.gallery import make_gallery

    photo = Image.fromarray(pixels(photos / "a.png")).crop((0, 0, size, size))
    settings = {"columns": 5, "size": size, "seed": 0, "name": "a", "key": "k", **settings}
    made = make_gallery(photo, load_suite(suite), **settings)
    return photo, {row.name: row for rows in made.groups.values() for row in rows}


def test_gallery_shows_what_the_library_gives(photos):
    photo, rows = gallery_rows(photos, "imagenet-c")
    assert list(rows)[:4] == ["gaussian_noise", "shot_noise", "impulse_noise", "defocus_blur"]
    assert [cell.severity for cell in rows["fog"].cells] == [1, 2, 3, 4, 5]
    expected = ec.corrupt(np.array(photo), "fog", severity=4, keys=["k"])
    assert np.array_equal(np.array(rows["fog"].cells[3].image), expected)


@pytest.mark.parametrize("ruler", ["vif", "sheikh2006"])
def test_gallery_states_the_delta_v_of_every_image(photos, ruler):
    photo, rows = gallery_rows(photos, "imagenet-c", ruler=ruler)
    # its content moves, which these rulers cannot measure
    elastic = rows.pop("elastic_transform")
    assert "moves image content" in elastic.note
    assert np.isnan([cell.delta_v for cell in elastic.cells]).all() and len(elastic.cells) == 5
    cells = [cell for row in rows.values() for cell in row.cells]
    expected = [float(ec.delta_v(photo, cell.image, ruler=ruler)) for cell in cells]
    assert len(cells) == 14 * 5 and [cell.delta_v for cell in cells] == pytest.approx(expected)


def test_gallery_at_delta_v_shows_the_strength_that_gives_it(photos):
    targets = (0.3, 0.6)
    photo, rows = gallery_rows(photos, "vcr", size=32, delta_v=targets)
    exact = [name for name, row in rows.items() if not any(cell.note for cell in row.cells)]
    assert {"vcr/gaussian_noise", "vcr/shot_noise", "vcr/brightness"} <= set(exact)
    for name in exact:
        for target, cell in zip(targets, rows[name].cells, strict=True):
            again = ec.corrupt(photo, name, severity=cell.severity, keys=["k"])
            assert np.array_equal(np.array(cell.image), np.array(again))
            assert ec.delta_v(photo, again) == pytest.approx(target, abs=0.004)


def test_gallery_at_delta_v_shows_the_nearest_level(photos):
    targets = (0.01, 0.33, 0.99)
    photo, rows = gallery_rows(photos, "imagenet-noc", size=32, delta_v=targets)
    cells = rows["noc/quantization"].cells
    levels = range(4, 10)
    change = {n: ec.delta_v(photo, ec.corrupt(photo, "noc/quantization", levels=n)) for n in levels}
    nearest = [min(levels, key=lambda n: abs(change[n] - target)) for target in targets]
    assert [cell.parameter for cell in cells] == [f"levels = {n}" for n in nearest]
    assert [cell.delta_v for cell in cells] == pytest.approx([change[n] for n in nearest])
    notes = ["0.01 not reached", "nearest to 0.33", "0.99 not reached"]
    assert [cell.note for cell in cells] == notes
    assert rows["noc/shear"].cells == () and "moves image content" in rows["noc/shear"].note


def test_gallery_of_a_gray_image(run, photos, tmp_path):
    Image.open(photos / "a.png").convert("L").save(tmp_path / "gray.png")
    out = tmp_path / "sheet.png"
    options = ("--suite", "imagenet-noc", "--size", 16, "--columns", 1, "--out", out)
    assert run("gallery", tmp_path / "gray.png", *options).status == 0
    assert out.exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--suite", "vrc"), ("Unknown suite 'vrc'", "'vcr'")),
        (("--suite", "none.yaml"), ("Cannot read the suite none.yaml",)),
        (("--out", "gallery.gif"), (".png or .html",)),
        (("--delta-v", 1.5), ("--delta-v must be above 0 and at most 1, got 1.5",)),
        (("--delta-v", 0.5, "--delta-v", 0), ("--delta-v must be above 0", "got 0")),
        (("--delta-v", "nan"), ("--delta-v must be above 0", "got nan")),
        (("--delta-v", 0.5, "--suite", "geometry"), ("moves image content", "--ruler vif-human")),
        (("--delta-v", 0.5, "--size", 16), ("vif needs images of at least 18 px",)),
        (("--ruler", "viff"), ("viff", "vif")),
        (("--out", "nowhere/gallery.png"), ("No such folder",)),
        (("--columns", 0), ("columns",)),
        (("--size", 4), ("size must be at least 8",)),
    ],
)
def test_bad_gallery_settings_are_one_sentence(run, photos, tmp_path, monkeypatch, options, words):
    monkeypatch.chdir(tmp_path)
    assert_rejected(run("gallery", photos / "a.png", *options), *words)
    assert not list(tmp_path.glob("gallery*"))


def test_gallery_of_a_missing_or_broken_image_is_one_sentence(run, tmp_path):
    assert_rejected(run("gallery", tmp_path / "none.png"), "none.png")
    (tmp_path / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    assert_rejected(run("gallery", tmp_path / "broken.png"), "broken.png")


def test_gallery_does_not_overwrite_its_image(run, photos, tmp_path, monkeypatch):
    monkeypatch.chdir(photos)
    before = (photos / "a.png").read_bytes()
    (tmp_path / "link.png").symlink_to(photos / "a.png")
    for same in ("a.png", photos / "deep" / ".." / "a.png", tmp_path / "link.png"):
        options = ("--size", 16, "--out", tmp_path / "x.png", "--out", same)
        assert_rejected(run("gallery", photos / "a.png", *options), "is the image itself")
    assert (photos / "a.png").read_bytes() == before
    assert not (tmp_path / "x.png").exists()


def test_gallery_of_a_folder_or_into_one_is_one_sentence(run, photos, tmp_path):
    assert_rejected(run("gallery", photos), f"Give one image file, got the folder {photos}")
    (tmp_path / "x.png").mkdir()
    rejected = run("gallery", photos / "a.png", "--out", tmp_path / "x.png")
    assert_rejected(rejected, "it is a folder, not a file")


OWN_SUITE = """
name: own
title: Own
source: me
corruptions:
  - {name: NAME, function: fog, group: weather, path: {thickness: [0.5, 3]}}
"""


@pytest.mark.parametrize("name", ["two\\nlines", "\\ud800", "[/red]", "", "x" * 300, "日本 \\t"])
def test_gallery_of_a_suite_with_strange_names(run, photos, tmp_path, name):
    suite = tmp_path / "own.yaml"
    text = OWN_SUITE.replace("NAME", f'"{name}"').replace("title: Own", f'title: "{name}"')
    suite.write_text(text, encoding="utf-8")
    outs = ("--out", tmp_path / "x.png", "--out", tmp_path / "x.html")
    options = ("--suite", suite, "--size", 16, "--columns", 1, *outs)
    result = run("gallery", photos / "a.png", *options)
    assert result.status == 0, result.err
