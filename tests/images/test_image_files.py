"""Picture files: found, decoded and written as promised."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from eyechart.core.errors import UsageError
from eyechart.images.image_files import (
    find_image_files,
    is_damaged,
    read_image,
    read_note,
    write_image,
)

LEVELS = np.random.default_rng(0).integers(0, 256, (12, 9, 3), dtype=np.uint8)


def saved(path: Path, image: Image.Image, **options: object) -> Path:
    image.save(path, **options)
    return path


def test_folders_are_searched_sorted_and_without_hidden_files(tmp_path):
    for name in ("b.PNG", "a.jpg", "deep/c.webp", ".hidden.png", "notes.txt", "out/x.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    found = find_image_files([tmp_path], leave_out=tmp_path / "out")
    assert [str(one.relative) for one in found] == ["a.jpg", "b.PNG", "deep/c.webp"]


def test_a_file_named_by_itself_may_have_any_suffix(tmp_path):
    (tmp_path / "photo").touch()
    assert find_image_files([tmp_path / "photo"])[0].relative == Path("photo")


def test_nothing_found_is_an_error(tmp_path):
    with pytest.raises(UsageError, match="No images in"):
        find_image_files([tmp_path])
    with pytest.raises(UsageError, match="No such file or folder"):
        find_image_files([tmp_path / "nowhere"])


def test_color_stays_rgb_and_gray_stays_l(tmp_path):
    color = saved(tmp_path / "c.png", Image.fromarray(LEVELS))
    gray = saved(tmp_path / "g.png", Image.fromarray(LEVELS[..., 0]))
    assert read_image(color).mode == "RGB"
    assert np.array_equal(read_image(color), LEVELS)
    assert read_image(gray).mode == "L"
    assert np.array_equal(read_image(gray), LEVELS[..., 0])


@pytest.mark.parametrize(
    ("mode", "becomes"),
    [("RGBA", "RGB"), ("P", "RGB"), ("CMYK", "RGB"), ("LA", "L"), ("1", "L")],
)
def test_other_modes_become_rgb_or_gray(tmp_path, mode, becomes):
    suffix = ".tif" if mode == "CMYK" else ".png"
    path = saved(tmp_path / f"x{suffix}", Image.fromarray(LEVELS).convert(mode))
    assert read_image(path).mode == becomes


def test_transparency_is_dropped_not_blended(tmp_path):
    image = Image.fromarray(LEVELS).convert("RGBA")
    image.putalpha(7)
    assert np.array_equal(read_image(saved(tmp_path / "x.png", image)), LEVELS)


def test_the_exif_orientation_is_applied(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # turned a quarter clockwise to stand upright
    path = saved(tmp_path / "x.png", Image.fromarray(LEVELS), exif=exif)
    assert np.array_equal(read_image(path), np.rot90(LEVELS, -1))


@pytest.mark.parametrize("suffix", [".png", ".jpg", ".bmp", ".tif", ".webp", ".gif"])
@pytest.mark.parametrize("share", [0.0, 0.2, 0.6, 0.9])
def test_files_that_are_cut_off_are_one_sentence(tmp_path, suffix, share):
    levels = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    path = saved(tmp_path / f"x{suffix}", Image.fromarray(levels))
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(UsageError) as error:
        read_image(path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def test_other_unreadable_files_are_one_sentence(tmp_path):
    (tmp_path / "x.png").write_text("hello")
    with pytest.raises(UsageError, match="not an image"):
        read_image(tmp_path / "x.png")
    with pytest.raises(UsageError, match="No such file"):
        read_image(tmp_path / "none.png")
    with pytest.raises(UsageError, match="directory"):
        read_image(tmp_path)


def test_png_comes_back_exactly_with_its_note(tmp_path):
    write_image(Image.fromarray(LEVELS), tmp_path / "x.png", note="made thus")
    assert np.array_equal(read_image(tmp_path / "x.png"), LEVELS)
    assert read_note(tmp_path / "x.png") == "made thus"


def test_jpeg_carries_its_note_too(tmp_path):
    write_image(Image.fromarray(LEVELS), tmp_path / "x.jpg", quality=85, note="made thus")
    assert read_note(tmp_path / "x.jpg") == "made thus"


def test_an_image_of_somebody_else_has_no_note(tmp_path):
    assert read_note(saved(tmp_path / "x.png", Image.fromarray(LEVELS))) is None
    (tmp_path / "y.png").write_text("hello")
    assert read_note(tmp_path / "y.png") is None


@pytest.mark.parametrize(("suffix", "quality"), [(".png", None), (".jpg", 85)])
def test_damage_is_seen_wherever_a_result_is_cut_off(tmp_path, suffix, quality):
    path = tmp_path / f"x{suffix}"
    write_image(Image.fromarray(LEVELS), path, quality=quality, note="made thus")
    assert not is_damaged(path)
    data = path.read_bytes()
    for length in range(len(data)):
        path.write_bytes(data[:length])
        assert is_damaged(path), length


def test_images_of_somebody_else_are_not_called_damaged(tmp_path):
    path = saved(tmp_path / "x.jpg", Image.fromarray(LEVELS))
    path.write_bytes(path.read_bytes() + b"what a camera appends")
    assert not is_damaged(path)
    assert not is_damaged(saved(tmp_path / "x.bmp", Image.fromarray(LEVELS)))
    assert not is_damaged(tmp_path)


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    path = saved(tmp_path / "x.png", Image.fromarray(LEVELS))
    before = path.read_bytes()

    def half(self, target, **_):
        Path(target).write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Image.Image, "save", half)
    with pytest.raises(OSError, match="No space"):
        write_image(Image.new("RGB", (9, 9)), path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
