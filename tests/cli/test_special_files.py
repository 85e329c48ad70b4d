"""Named pipes, sockets and devices in the place of files: nothing waits for them."""

import pytest

import small_models
from commands import assert_rejected, image_file, pipe

PIPE = "it must be a regular file, but it is a named pipe"
MODEL = "small_models:colors"
EVALUATE = ("evaluate", MODEL, "--n", 12, "--bins", 3, "--min-per-bin", 1, "--humans", "none")


@pytest.mark.parametrize(
    "command",
    [
        (*EVALUATE, "--images", "photos", "--out", "out"),
        ("testset", "make", "--images", "photos", "--n", 4, "--out", "testset.parquet"),
        ("models", "check", MODEL, "--images", "photos"),
        ("corrupt", "photos", "--corruption", "fog", "--severity", 2, "--out", "out"),
        ("humans", "place", "photos", "--out", "placed.csv"),
        ("visual-change", "photos", "photos2"),
        ("gallery", "photos/blue/f.png"),
    ],
)
def test_a_named_pipe_among_images_is_named_and_never_opened(run, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    small_models.save_images(tmp_path / "photos", each=1)
    image_file(tmp_path / "photos2" / "blue" / "f.png")
    with pipe(tmp_path / "photos" / "blue" / "f.png"):
        told = run(*command)
    assert told.status in (1, 2) and "Traceback" not in told.err
    assert f"f.png: {PIPE}" in told.err + told.out


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ((*EVALUATE, "--images", "{}"), "images.csv"),
        ((*EVALUATE, "--images", "{}"), "images.parquet"),
        ((*EVALUATE, "--images", "{}"), "images.npy"),
        ((*EVALUATE, "--images", "{}"), "images.npz"),
        ((*EVALUATE, "--images", "{}"), "images.tar"),
        ((*EVALUATE, "--images", "{}"), "images"),
        ((*EVALUATE, "--images", "photos", "--suite", "{}"), "suite.yaml"),
        ((*EVALUATE, "--images", "photos", "--testset", "{}"), "testset.parquet"),
        ((*EVALUATE[:-1], "{}", "--images", "photos"), "humans.parquet"),
        ((*EVALUATE, "--images", "photos", "--label-map", "{}"), "map.csv"),
        ((*EVALUATE, "--images", "photos", "--baseline", "{}"), "baseline.csv"),
        (("evaluate", "{}", "--images", "photos"), "model.yaml"),
        (("evaluate", "{}", "--images", "photos"), "model.pt"),
        (("evaluate", "{}", "--images", "photos"), "model.onnx"),
        (
            ("corrupt", "photos", "--corruption", "fog", "--severity", 2, "--out", "out"),
            "out/eyechart.json",
        ),
        (("models", "check", "{}"), "model.yaml"),
        (("gate", "run", "--rules", "{}"), "rules.yaml"),
        (("report", "run"), "run/results.json"),
        (("report", "run", "--out", "{}"), "report.html"),
        (("compare", "{}"), "table.csv"),
        (("gallery", "{}"), "photo.png"),
        (("visual-change", "{}", "photos/blue/0.png"), "photo.png"),
        (("visual-change", "photos", "photos2", "--csv", "{}"), "table.csv"),
        (("humans", "import", "{}", "--format", "vcr", "--out", "h.parquet"), "table.csv"),
        (("humans", "areas", "{}"), "humans.parquet"),
        (("overlap", "select", "{}", "--threshold", 0.1), "matrix.csv"),
    ],
)
def test_a_named_pipe_as_an_option_is_one_sentence(run, tmp_path, monkeypatch, command, name):
    monkeypatch.chdir(tmp_path)
    small_models.save_images(tmp_path / "photos", each=1)
    small_models.save_images(tmp_path / "photos2", each=1)
    with pipe(tmp_path / name):
        told = run(*(part if part != "{}" else name for part in command))
    assert_rejected(told)
