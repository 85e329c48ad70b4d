"""Links that end in themselves, among images and as folders."""

import pytest

import small_models
from commands import assert_rejected

LOOP = "Too many levels of symbolic links."


def link_to_itself(path):
    path.symlink_to(path.name)
    return path


def test_a_link_to_itself_among_images_is_named_and_the_others_are_corrupted(run, tmp_path):
    images = small_models.save_images(tmp_path / "photos", each=1)
    link = link_to_itself(images / "blue" / "loop.png")
    told = run("corrupt", images, "--corruption", "fog", "--severity", 2, "--out", tmp_path / "o")
    assert (told.status, told.out) == (2, f"4 images written into {tmp_path / 'o'}.\n")
    assert told.err.splitlines()[0] == f"Cannot read {link}: {LOOP}"


@pytest.mark.parametrize("place", ["blue/loop.png", "loop", "loop.png"])
def test_a_link_to_itself_is_one_sentence_of_an_evaluation(run, tmp_path, place):
    images = small_models.save_images(tmp_path / "photos", each=1)
    link_to_itself(images / place)
    asked = ("evaluate", "small_models:colors", "--images", images, "--out", tmp_path / "out")
    told = run(*asked, "--n", 12, "--bins", 3, "--min-per-bin", 1, "--humans", "none")
    if place == "loop":  # no image by its name
        assert told.status == 0, told.err
    else:
        assert_rejected(told, LOOP, "loop.png")


@pytest.mark.parametrize(
    "command",
    [
        ("evaluate", "small_models:colors", "--images", "photos"),
        ("corrupt", "photos", "--corruption", "fog", "--severity", 2),
        ("overlap", "run", "--images", "photos"),
        ("visual-change", "photos", "photos2", "--map"),
    ],
)
def test_a_link_to_itself_as_output_is_one_sentence(run, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    small_models.save_images(tmp_path / "photos", each=4)
    small_models.save_images(tmp_path / "photos2", each=4)
    link_to_itself(tmp_path / "loop")
    out = ("loop",) if "--map" in command else ("--out", "loop")
    assert_rejected(run(*command, *out), "loop")
