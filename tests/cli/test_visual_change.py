"""`eyechart visual-change`: what it prints, writes, keeps and refuses."""

import csv
import os
import subprocess
import sys

import pytest
from PIL import Image

import eyechart as ec
from commands import assert_rejected, image_file
from eyechart.visual_change import pairs


@pytest.fixture
def folders(tmp_path):
    """Three clean pictures of two sizes, and the same with noise, as JPEG and as PNG."""
    clean, noisy = tmp_path / "clean", tmp_path / "noisy"
    for index, name in enumerate(("a", "b", "deep/c")):
        path = image_file(clean / f"{name}.jpg", index, (40 + 40 * index, 60))
        (noisy / name).parent.mkdir(parents=True, exist_ok=True)
        with Image.open(path) as opened:
            changed = ec.corrupt(opened.convert("RGB"), "gaussian_noise", severity=2)
        changed.save(noisy / f"{name}.png")
    return clean, noisy


def table(path):
    with path.open(newline="", encoding="utf-8") as file:
        return {row["name"]: row for row in csv.DictReader(file)}


def expected(clean, noisy, name):
    with Image.open(clean / f"{name}.jpg") as one, Image.open(noisy / f"{name}.png") as two:
        return ec.delta_v(one.convert("RGB"), two)


def test_two_images_give_one_line_that_says_how_many_scales(run, folders):
    clean, noisy = folders
    result = run("visual-change", clean / "a.jpg", noisy / "a.png")
    assert result.status == 0
    assert result.out.startswith(f"a  Δv {expected(clean, noisy, 'a'):.4f}")
    assert "3 scales" in result.out


def test_two_folders_are_matched_by_name_whatever_the_suffix(run, folders, tmp_path):
    clean, noisy = folders
    result = run("visual-change", clean, noisy, "--csv", tmp_path / "t.csv")
    assert result.status == 0
    rows = table(tmp_path / "t.csv")
    assert list(rows) == ["a", "b", "deep/c"]
    for name, row in rows.items():
        assert float(row["delta_v"]) == pytest.approx(expected(clean, noisy, name), abs=1e-12)
        assert name in result.out
    assert "3 images: Δv mean" in result.out


def test_images_without_a_partner_are_counted_and_named(run, folders):
    clean, noisy = folders
    (noisy / "b.png").unlink()
    result = run("visual-change", clean, noisy)
    assert result.status == 0
    assert "1 image without a counterpart" in result.err and "b.jpg" in result.err


def test_a_damaged_image_is_left_out_and_the_others_are_done(run, folders, tmp_path):
    clean, noisy = folders
    (noisy / "b.png").write_bytes(b"no picture")
    result = run("visual-change", clean, noisy, "--csv", tmp_path / "t.csv")
    assert result.status == 2
    assert "b.png" in result.err and "1 image of 3 skipped" in result.err
    assert list(table(tmp_path / "t.csv")) == ["a", "deep/c"]


@pytest.mark.parametrize("cut", ["", "b,0.3", "b,0.1,0.9,3.0,3,True,False,vcr,float64,ab,cd,0.1"])
def test_a_stopped_run_goes_on_where_it_was(run, folders, tmp_path, monkeypatch, cut):
    clean, noisy = folders
    target = tmp_path / "t.csv"
    measure = pairs.measure_change
    calls = []

    def stop_at_the_second(*arguments, **options):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return measure(*arguments, **options)

    monkeypatch.setattr(pairs, "READ_AT_ONCE", 1)
    monkeypatch.setattr(pairs, "MEASURED_PIXELS", 1)
    monkeypatch.setattr(pairs, "measure_change", stop_at_the_second)
    result = run("visual-change", clean, noisy, "--csv", target)
    assert result.status == 130
    assert "1 of 3 images measured" in result.err
    assert list(table(target)) == ["a"]

    # cut off anywhere, the last line is measured again
    target.write_text(target.read_text("utf-8") + cut, encoding="utf-8")
    assert run("visual-change", clean, noisy, "--csv", target).status == 0
    assert len(calls) == 4
    assert list(table(target)) == ["a", "b", "deep/c"]

    assert run("visual-change", clean, noisy, "--csv", target).status == 0
    assert len(calls) == 4


def test_a_table_of_other_images_is_never_overwritten(run, folders, tmp_path):
    clean, noisy = folders
    target = tmp_path / "t.csv"
    run("visual-change", clean, noisy, "--csv", target)
    before = target.read_bytes()
    for name in ("a", "b", "deep/c"):
        with Image.open(noisy / f"{name}.png") as opened:
            opened.rotate(180).save(tmp_path / "turned.png")
        (noisy / f"{name}.png").write_bytes((tmp_path / "turned.png").read_bytes())
    assert_rejected(run("visual-change", clean, noisy, "--csv", target), "a different file")
    assert target.read_bytes() == before
    assert_rejected(
        run("visual-change", clean / "b.jpg", noisy / "b.png", "--csv", target), "other"
    )
    assert target.read_bytes() == before
    target.write_text("my,notes\n1,2\n", encoding="utf-8")
    assert_rejected(run("visual-change", clean, noisy, "--csv", target), "not from this command")
    assert target.read_text("utf-8") == "my,notes\n1,2\n"


def test_a_constant_image_has_no_change_and_an_empty_cell(run, tmp_path):
    for name, level in (("clean", 128), ("noisy", 128)):
        (tmp_path / name).mkdir()
        Image.new("L", (80, 80), level).save(tmp_path / name / "flat.png")
    image_file(tmp_path / "clean" / "b.png", 1, (80, 80))
    image_file(tmp_path / "noisy" / "b.png", 2, (80, 80))
    result = run(
        "visual-change", tmp_path / "clean", tmp_path / "noisy", "--csv", tmp_path / "t.csv"
    )
    assert result.status == 0
    assert "nearly constant" in result.out and "1 image: Δv mean" in result.out
    rows = table(tmp_path / "t.csv")
    assert rows["flat"]["delta_v"] == "" and float(rows["flat"]["vif"]) == 1


def test_rows_of_another_version_are_not_mixed_in(run, folders, tmp_path):
    clean, noisy = folders
    target = tmp_path / "t.csv"
    run("visual-change", clean, noisy, "--csv", target)
    old = target.read_text("utf-8").replace(f",{ec.__version__}\n", ",0.0.1\n")
    target.write_text(old, encoding="utf-8")
    assert_rejected(run("visual-change", clean, noisy, "--csv", target), "version")
    assert target.read_text("utf-8") == old


def test_names_that_are_no_text_are_written_and_read_again(run, folders, tmp_path):
    clean, noisy = folders
    for folder, suffix in ((clean, ".jpg"), (noisy, ".png")):
        odd = os.fsdecode(os.fsencode(folder) + b"/caf\xe9" + suffix.encode())
        (folder / f"a{suffix}").rename(odd)
    for _ in range(2):
        result = run("visual-change", clean, noisy, "--csv", tmp_path / "t.csv")
        assert result.status == 0
    assert (tmp_path / "t.csv").read_bytes().count(b"\n") == 4


def test_a_terminal_without_greek_gets_question_marks(folders):
    clean, noisy = folders
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    command = [sys.executable, "-m", "eyechart", "visual-change", clean, noisy]
    done = subprocess.run(command, capture_output=True, env=environment)
    assert done.returncode == 0
    assert b"?v mean" in done.stdout


def test_images_of_other_scales_are_not_averaged_together(run, folders):
    clean, noisy = folders
    assert "scales:" not in run("visual-change", clean, noisy).out
    image_file(clean / "d.png", 5, (30, 30))
    image_file(noisy / "d.png", 6, (30, 30))
    result = run("visual-change", clean, noisy)
    assert "3 images measured at 3 scales: Δv mean" in result.out
    assert "1 image measured at 2 scales: Δv mean" in result.out


def test_a_map_may_be_drawn_again(run, folders, tmp_path):
    clean, noisy = folders
    for _ in range(2):
        assert run("visual-change", clean, noisy, "--map", tmp_path / "maps").status == 0


def test_maps_are_drawn_for_images_and_for_folders(run, folders, tmp_path):
    clean, noisy = folders
    single = run("visual-change", clean / "b.jpg", noisy / "b.png", "--map", tmp_path / "m.png")
    assert single.status == 0
    with Image.open(tmp_path / "m.png") as drawn:
        assert drawn.width > 3 * 60 and drawn.mode == "RGB"
    assert run("visual-change", clean, noisy, "--map", tmp_path / "maps").status == 0
    found = {
        path.relative_to(tmp_path / "maps").as_posix() for path in tmp_path.rglob("maps/**/*.png")
    }
    assert found == {"a.png", "b.png", "deep/c.png"}


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["clean", "clean"], "twice"),
        (["clean", "clean/a.jpg"], "two folders"),
        (["clean/a.jpg", "noisy/b.png"], "same size"),
        (["clean", "none"], "No such"),
        (["clean", "empty"], "No images"),
        (["clean", "strangers"], "name"),
        (["tiny.png", "tiny.png"], "18 px"),
        (["clean", "noisy", "--ruler", "vfi"], "Did you mean"),
        (["clean", "noisy", "--dtype", "float16"], "float32 or float64"),
        (["clean", "noisy", "--device", "tpu"], "cpu or cuda"),
        (["clean", "noisy", "--ruler", "vif-pixel", "--map", "x"], "--map"),
        (["clean", "noisy", "--map", "noisy"], "outside noisy"),
        (["clean", "noisy", "--map", "clean/maps"], "outside clean"),
        (["clean", "noisy", "--map", "others"], "not a map"),
        (["clean/a.jpg", "noisy/a.png", "--map", "others/a.png"], "not a map"),
        (["clean", "noisy", "--csv", "pipe"], "not a regular file"),
        (["clean", "noisy", "--csv", ""], "empty"),
        (["clean/a.jpg", "noisy/a.png", "--map", "noisy/a.png"], "not a map"),
        (["clean/a.jpg", "noisy/a.png", "--map", "m.jpg"], ".png"),
        (["clean", "noisy", "--csv", "none/t.csv"], "No such folder"),
        (["clean"], "CORRUPTED"),
    ],
)
def test_what_cannot_be_done_is_rejected_in_a_sentence(
    run, folders, tmp_path, monkeypatch, arguments, word
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    image_file(tmp_path / "strangers" / "z.png")
    image_file(tmp_path / "tiny.png", 0, (12, 12))
    precious = image_file(tmp_path / "others" / "a.png").read_bytes()
    os.mkfifo(tmp_path / "pipe")
    assert_rejected(run("visual-change", *arguments), word)
    assert (tmp_path / "others" / "a.png").read_bytes() == precious


def test_two_files_of_one_name_are_asked_about(run, folders):
    clean, noisy = folders
    image_file(clean / "a.bmp")
    assert_rejected(run("visual-change", clean, noisy), "a.bmp", "suffix")
