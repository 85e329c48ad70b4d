"""The corruptions of ImageNet-NOC against closed forms, plain loops, Pillow and colorsys."""

import colorsys

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from eyechart.core.randomness import ImageRandom, hash64
from eyechart.corruptions.library import CORRUPTIONS
from eyechart.corruptions.occlusion import MOST
from eyechart.corruptions.suites.apply import corrupt
from eyechart.corruptions.suites.strength import draw_from_domain, resolve
from eyechart.corruptions.suites.suite import Entry, load_suite

CANDIDATES = {entry.name: entry for entry in load_suite("noc-candidates")}
CPU = torch.device("cpu")


def photo(height: int = 64, width: int = 64, batch: int = 2, channels: int = 3) -> Tensor:
    """Smooth shapes with edges and some texture, on whole gray levels."""
    y, x = np.mgrid[:height, :width] / 32
    planes = []
    for number in range(batch * channels):
        wave = np.sin(3 * x + number) * np.cos(2 * y - number) + 0.3 * np.sin(17 * x * y)
        planes.append(0.5 + 0.35 * wave * ((x + y * number) % 1.5 > 0.4))
    values = np.round(np.clip(np.stack(planes), 0, 1) * 255) / 255
    return torch.from_numpy(values.astype(np.float32)).reshape(batch, channels, height, width)


def randomness(batch: int, seed: int = 0) -> ImageRandom:
    return ImageRandom(torch.arange(7, 7 + batch), [hash64(seed)] * batch, CPU)


def apply(name: str, images: Tensor, *, seed: int = 0, **values: float | list[float]) -> Tensor:
    """Call a function with given values; drawn parameters must be given too."""
    batch = len(images)
    given = {
        key: np.broadcast_to(np.asarray(value, dtype=np.float64), (batch,)).copy()
        for key, value in values.items()
    }
    return CORRUPTIONS[name](images, randomness(batch, seed), given, {})


def at_severity(entry: Entry, images: Tensor, severity: float, seed: int = 0) -> Tensor:
    random = randomness(len(images), seed)
    strength = np.full(len(images), severity, dtype=np.float64)
    values = resolve(entry, strength, {}, min(images.shape[-2:]), random)
    return entry.corruption(images, random, values, {}).clamp(0, 1)


def levels(images: Tensor) -> NDArray[np.int64]:
    return torch.floor(images.clamp(0, 1) * 255 + 0.5).to(torch.int64).numpy()


def pil(image: Tensor) -> Image.Image:
    return Image.fromarray(levels(image).astype(np.uint8).transpose(1, 2, 0))


def from_pil(image: Image.Image) -> NDArray[np.int64]:
    return np.asarray(image).transpose(2, 0, 1).astype(np.int64)


def changed(images: Tensor, result: Tensor) -> NDArray[np.bool_]:
    """(B, H, W): where any channel differs."""
    return (images != result).any(dim=1).numpy()


# ---- the suites


def test_there_are_23_candidates_and_the_published_eight() -> None:
    assert len(CANDIDATES) == 23
    names = [entry.name.removeprefix("noc/") for entry in load_suite("imagenet-noc")]
    assert names == [
        "quantization", "blur", "vertical_artifacts", "rain", "border", "shear", "brightness", "hue"
    ]  # fmt: skip


PAPER_DIFFERS = {
    "gaussian",
    "salt_pepper",
    "artifacts",
    "vertical_artifacts",
    "rhombus",
    "rain",
    "circles",
    "shear",
}


def test_the_paper_variant_exists_exactly_where_paper_and_code_differ() -> None:
    assert {name.removeprefix("noc/") for name, one in CANDIDATES.items() if one.variants} == (
        PAPER_DIFFERS
    )


def every(entries: dict[str, Entry]) -> list[Entry]:
    papers = [entry.in_variant("paper") for entry in entries.values() if entry.variants]
    return [*entries.values(), *papers]


def label(entry: Entry) -> str:
    return f"{entry.name}{'-paper' if entry.variant else ''}"


@pytest.mark.parametrize("entry", every(CANDIDATES), ids=label)
class TestEveryCandidate:
    def test_the_clean_values_change_nothing(self, entry: Entry) -> None:
        images = photo()
        random = randomness(2)
        values = resolve(entry, np.zeros(2), {}, 64, random)
        for name in entry.path:
            clean = entry.corruption.parameter(name).clean
            if clean is not None:
                values[name] = np.full(2, clean)
        result = entry.corruption(images, random, values, {})
        assert (levels(result) == levels(images)).all()

    def test_the_strong_end_changes_something_at_any_size(self, entry: Entry) -> None:
        # of 64 pixels, 3 % may be none
        smallest = (16, 16) if entry.function == "noc/salt_pepper_pixels" else (8, 8)
        for size in (smallest, (32, 48), (224, 224)):
            images = photo(*size)
            differs = levels(at_severity(entry, images, 5)) != levels(images)
            assert differs.any(axis=(1, 2, 3)).all()

    def test_an_image_does_not_depend_on_the_others_in_its_batch(self, entry: Entry) -> None:
        images = photo(40, 56, batch=3)
        before = images.clone()
        random = randomness(3)
        values = draw_from_domain(entry, random)
        together = entry.corruption(images, random, values, {})
        assert torch.equal(images, before)
        for index in range(3):
            alone = entry.corruption(
                images[index : index + 1],
                random.part(index, index + 1),
                {name: value[index : index + 1] for name, value in values.items()},
                {},
            )
            assert torch.equal(alone[0], together[index])

    def test_domain_and_path_have_the_same_ends(self, entry: Entry) -> None:
        assert set(entry.path) == set(entry.domain)
        for name, ends in entry.path.items():
            assert tuple(sorted(ends)) == entry.domain[name]

    def test_gray_images_are_accepted(self, entry: Entry) -> None:
        images = photo(24, 33, channels=1)
        result = at_severity(entry, images, 4)
        assert result.shape == images.shape
        assert result.dtype == torch.float32
        unchanged = entry.name in ("noc/hue", "noc/gray_scale")
        assert torch.equal(result, images) == unchanged


@pytest.mark.parametrize("name", ["rain", "circles", "rhombus", "artifacts", "vertical_artifacts"])
def test_more_objects_leave_the_first_ones_where_they_were(name: str) -> None:
    entry = CANDIDATES[f"noc/{name}"]
    images = torch.zeros(2, 1, 100, 140)
    few, many = (changed(images, at_severity(entry, images, s, seed=3)) for s in (1, 5))
    assert few.sum() < many.sum()
    assert (many | ~few).all()


def test_the_papers_rain_has_larger_drops_at_the_same_count() -> None:
    images = torch.zeros(1, 3, 224, 224, dtype=torch.uint8)
    hit = {
        variant: int((corrupt(images, "noc/rain", count=1, variant=variant)[0, 0] == 128).sum())
        for variant in (None, "paper")
    }
    assert hit[None] == 121
    assert hit["paper"] == pytest.approx(121 * (7 / 6) ** 2, rel=0.05)


# ---- occlusion against plain loops with the same drawn centers


def objects(
    rows: tuple[int, int], columns: tuple[int, int], numbers: int, batch: int = 2
) -> tuple[NDArray[np.int64], ...]:
    """The rows, columns and numbers that are drawn, for the first and last row and column."""
    counts = torch.tensor([rows[1] - rows[0] + 1, columns[1] - columns[0] + 1, numbers])
    drawn = randomness(batch).integers("objects", (3, MOST), counts[:, None]).numpy()
    return rows[0] + drawn[:, 0], columns[0] + drawn[:, 1], drawn[:, 2]


PUBLISHED_HALF_WIDTHS = {0: 6, 1: 6, 2: 5, 3: 5, 4: 4, 5: 3, 6: 1}


def disk_loop(row: int, column: int) -> list[tuple[int, int]]:
    return [
        (row + down, column + across)
        for down in range(-6, 7)
        for across in range(-PUBLISHED_HALF_WIDTHS[abs(down)], PUBLISHED_HALF_WIDTHS[abs(down)] + 1)
    ]


def test_rain_halves_the_distance_to_white_once_per_hit() -> None:
    images = photo(50, 70)
    result = apply("noc/rain", images, count=[30, 11], radius=6)
    expected = images.numpy().astype(np.float64)
    rows, columns, _ = objects((7, 43), (7, 63), 2**24)
    for image, count in ((0, 30), (1, 11)):
        for number in range(count):
            for row, column in disk_loop(rows[image, number], columns[image, number]):
                expected[image, :, row, column] = 0.5 + 0.5 * expected[image, :, row, column]
    np.testing.assert_allclose(result.numpy(), expected, atol=1e-6)


def test_later_circles_cover_earlier_ones() -> None:
    images = photo(50, 70)
    result = apply("noc/circles", images, count=[50, 20], radius=6)
    expected = images.numpy().copy()
    rows, columns, grays = objects((7, 43), (7, 63), 2**24)
    for image, count in ((0, 50), (1, 20)):
        for number in range(count):
            for row, column in disk_loop(rows[image, number], columns[image, number]):
                expected[image, :, row, column] = grays[image, number] / 2**24
    np.testing.assert_array_equal(result.numpy(), expected)


def test_a_rhombus_has_98_pixels_and_its_own_gray() -> None:
    images = torch.full((1, 3, 60, 60), 2.0)
    result = apply("noc/rhombus", images, count=1, radius=7)
    assert changed(images, result).sum() == 98
    images = photo(60, 60, batch=1)
    result = apply("noc/rhombus", images, count=40, radius=7)
    expected = images.numpy().copy()
    rows, columns, grays = (drawn[0] for drawn in objects((7, 53), (7, 53), 2**24, batch=1))
    for number in range(40):
        for down in range(-6, 7):
            wide = 7 - abs(down)
            for across in range(-wide, wide):
                row, column = rows[number] + down, columns[number] + across
                expected[0, :, row, column] = grays[number] / 2**24
    np.testing.assert_array_equal(result.numpy(), expected)


def test_the_papers_rhombus_is_7_by_7_and_its_disk_reaches_7_pixels() -> None:
    images = torch.full((1, 1, 40, 40), 2.0)
    hit = changed(images, apply("noc/rhombus", images, count=1, radius=3.5))[0]
    assert (hit.any(axis=0).sum(), hit.any(axis=1).sum(), hit.sum()) == (7, 7, 25)
    hit = changed(images, apply("noc/circles", images, count=1, radius=7))[0]
    assert (hit.any(axis=0).sum(), hit.any(axis=1).sum()) == (15, 15)


@pytest.mark.parametrize("vertical", [False, True])
def test_artifacts_are_dashes_with_dots_that_fit(vertical: bool) -> None:
    height, width = 60, 44
    images = photo(height, width)
    name = "noc/vertical_artifacts" if vertical else "noc/artifacts"
    result = apply(name, images, count=[25, 8], dash=5, grey=[0.25, 1.0])
    lines, length = (width, height) if vertical else (height, width)
    covered = np.zeros((2, lines, length), dtype=bool)
    rows, columns, repeats = objects((1, lines - 2), (2, length - 3), 7)
    for image, count in ((0, 25), (1, 8)):
        for number in range(count):
            row, column = rows[image, number], columns[image, number]
            dots = [column + step for step in (-2, -1, 0, 1, 2)]
            if repeats[image, number] and column + 2 < length - 12:
                dots += [column + step for step in (6, 8, 10, 12, 14)]
            if repeats[image, number] and column - 2 > 7:
                dots += [column + step for step in (-10, -8, -6, -4, -2)]
            for dot in dots:
                covered[image, row - 1 : row + 2, dot] = True
    covered = covered.transpose(0, 2, 1) if vertical else covered
    gray = np.array([0.25, 1.0], dtype=np.float32)[:, None, None, None]
    np.testing.assert_array_equal(result.numpy(), np.where(covered[:, None], gray, images.numpy()))


def test_objects_cover_about_the_same_share_at_every_size() -> None:
    for name in ("rain", "circles", "rhombus", "artifacts", "obstruction", "border"):
        entry = CANDIDATES[f"noc/{name}"]
        share = {}
        for side in (64, 224, 448):
            images = torch.full((6, 1, side, side), 0.5003)
            share[side] = changed(images, at_severity(entry, images, 2)).mean()
        assert share[64] == pytest.approx(share[224], rel=0.45), name
        assert share[448] == pytest.approx(share[224], rel=0.15), name


def test_an_obstruction_is_one_square_anywhere_inside() -> None:
    images = torch.full((3, 3, 30, 50), 2.0)
    result = apply(
        "noc/obstruction", images, side=12, top=[0, 1, 0.5], left=[0, 1, 0], grey=[0.1, 0.2, 0.3]
    )
    for image, (top, left) in enumerate(((0, 0), (18, 38), (9, 0))):
        expected = np.full((30, 50), 2.0)
        expected[top : top + 12, left : left + 12] = (image + 1) / 10
        np.testing.assert_allclose(result[image, 1].numpy(), expected, atol=1e-6)


def test_a_border_leaves_the_inside_alone() -> None:
    images = photo(40, 60)
    result = apply("noc/border", images, thickness=[9, 3], grey=[0.5, 0.25])
    for image, thick in ((0, 9), (1, 3)):
        inner = (slice(None), slice(thick, 40 - thick), slice(thick, 60 - thick))
        assert torch.equal(result[image][inner], images[image][inner])
        outside = 3 * (40 * 60 - (40 - 2 * thick) * (60 - 2 * thick))
        assert (result[image] == (0.5, 0.25)[image]).sum() >= outside


# ---- geometry against Pillow


def nearest_affine(image: Tensor, matrix: tuple[float, ...]) -> NDArray[np.int64]:
    shown = pil(image)
    return from_pil(
        shown.transform(shown.size, Image.Transform.AFFINE, matrix, Image.Resampling.NEAREST)
    )


def test_translation_moves_whole_pixels_and_leaves_black() -> None:
    images = photo(40, 60)
    result = apply(
        "noc/translation", images, across=[5, 12], down=[3, 7], to_right=[1, -1], to_bottom=[-1, 1]
    )
    assert (levels(result[0]) == nearest_affine(images[0], (1, 0, -5, 0, 1, 3))).all()
    assert (levels(result[1]) == nearest_affine(images[1], (1, 0, 12, 0, 1, -7))).all()


def test_shear_agrees_with_pillow() -> None:
    images = photo(90, 120)
    result = apply("noc/shear", images, degrees=[12, 39], direction=[1, -1])
    for image, slope in ((0, np.tan(np.radians(12))), (1, -np.tan(np.radians(39)))):
        expected = nearest_affine(images[image], (1, slope, -slope * 45, 0, 1, 0))
        assert (levels(result[image]) != expected).mean() < 0.002


def test_the_papers_shear_moves_the_edge_by_its_share_of_the_height() -> None:
    images = torch.zeros(1, 1, 200, 400)
    images[..., 200] = 1
    result = apply("noc/shear_by_shift", images, shift=0.39, direction=1)
    assert abs(int(result[0, 0, 0].argmax()) - 200 - 78) <= 1
    assert abs(int(result[0, 0, -1].argmax()) - 200 + 78) <= 1


def test_rotation_agrees_with_pillow_in_both_directions() -> None:
    images = photo(90, 120)
    result = apply("noc/rotation", images, degrees=[50, 7], clockwise=[1, -1])
    for image, anticlockwise in ((0, -50), (1, 7)):
        expected = from_pil(pil(images[image]).rotate(anticlockwise, Image.Resampling.NEAREST))
        assert (levels(result[image]) != expected).mean() < 0.002


def test_a_quarter_turn_loses_nothing_of_a_square() -> None:
    images = photo(32, 32)
    result = apply("noc/rotation", images, degrees=90, clockwise=1)
    assert torch.equal(result, torch.rot90(images, -1, (2, 3)))


def test_elastic_crops_one_side_and_stretches_as_pillow_does() -> None:
    images = photo(64, 80)
    result = apply("noc/elastic", images, crop=[30, 20], axis=[0, 1])
    for image, box in ((0, (0, 30, 80, 64)), (1, (20, 0, 80, 64))):
        cropped = pil(images[image]).crop(box)
        expected = cropped.resize((80, 64), Image.Resampling.BILINEAR)
        assert np.abs(levels(result[image]) - from_pil(expected)).max() <= 1


# ---- noise, blur, digital


def test_gaussian_is_one_sided_in_the_code_and_centered_in_the_paper() -> None:
    images = torch.full((1, 3, 200, 200), 0.5)
    code = (apply("noc/gaussian", images, sigma=0.1) - images).numpy()
    assert code.min() >= 0
    assert code.mean() == pytest.approx(0.1 * np.sqrt(2 / np.pi), rel=0.02)
    assert code.var() == pytest.approx(0.01 * (1 - 2 / np.pi), rel=0.02)
    entry = CANDIDATES["noc/gaussian"].in_variant("paper")
    paper = (at_severity(entry, images, 5) - images).numpy()
    assert paper.mean() == pytest.approx(0, abs=0.002)
    assert paper.std() == pytest.approx(0.18, rel=0.02)


def test_salt_and_pepper_hit_the_stated_share_half_and_half() -> None:
    images = torch.full((1, 3, 224, 224), 0.5)
    result = at_severity(CANDIDATES["noc/salt_pepper"], images, 5)
    assert (result == 1).float().mean().item() == pytest.approx(0.016, rel=0.1)
    assert (result == 0).float().mean().item() == pytest.approx(0.016, rel=0.1)


def test_blur_is_five_zero_padded_means_mixed_in() -> None:
    images = photo(20, 26)
    blurred = images.to(torch.float64)
    kernel = torch.full((3, 1, 3, 3), 1 / 9, dtype=torch.float64)
    for _ in range(5):
        blurred = torch.nn.functional.conv2d(blurred, kernel, padding=1, groups=3)
    weight = torch.tensor([0.4, 0.95], dtype=torch.float64).reshape(2, 1, 1, 1)
    expected = (1 - weight) * images + weight * blurred
    result = apply("noc/blur", images, weight=[0.4, 0.95], side=3)
    np.testing.assert_allclose(result.numpy(), expected.numpy(), atol=2e-6)


@pytest.mark.parametrize("factor", [1.1, 2.0, 3.25])
def test_thumbnail_resize_is_pillows_to_a_gray_level(factor: float) -> None:
    images = photo(64, 90)
    result = apply("noc/thumbnail_resize", images, factor=[factor, 1.5])
    small = (int(90 / factor), int(64 / factor))
    for channel in range(3):
        # Pillow's float mode: its 8-bit mode rounds four times on the way
        image = Image.fromarray(images[0, channel].numpy() * 255)
        image = image.resize(small, Image.Resampling.BILINEAR)
        expected = np.asarray(image.resize((90, 64), Image.Resampling.BILINEAR))
        np.testing.assert_allclose(result[0, channel].numpy() * 255, expected, atol=0.01)
    eight_bit = pil(images[0]).resize(small, Image.Resampling.BILINEAR)
    eight_bit = eight_bit.resize((90, 64), Image.Resampling.BILINEAR)
    difference = np.abs(levels(result[0]) - from_pil(eight_bit))
    assert (difference <= 1).mean() > 0.999


@pytest.mark.parametrize(("block", "size"), [(2, (16, 24)), (3, (16, 25)), (4, (30, 17))])
def test_pixelate_averages_blocks_and_cuts_the_last_ones(block: int, size: tuple[int, int]) -> None:
    images = photo(*size)
    result = apply("noc/pixelate", images, block=block)
    expected = np.empty(images.shape)
    for row in range(0, size[0], block):
        for column in range(0, size[1], block):
            here = (..., slice(row, row + block), slice(column, column + block))
            expected[here] = images.numpy()[here].mean(axis=(2, 3), keepdims=True)
    np.testing.assert_allclose(result.numpy(), expected, atol=1e-6)


def test_quantization_leaves_evenly_spaced_levels() -> None:
    ramp = torch.arange(256).div(255).reshape(1, 1, 16, 16).expand(2, -1, -1, -1)
    result = apply("noc/quantization", ramp, levels=[4, 9])
    assert np.unique(result[0]) == pytest.approx([0, 1 / 3, 2 / 3, 1])
    assert np.unique(result[1]) == pytest.approx([step / 8 for step in range(9)])
    assert (result[0] - ramp[0]).abs().max() <= 1 / 6 + 1e-6


# ---- color


def test_brightness_goes_both_ways() -> None:
    images = photo()
    result = apply("noc/brightness", images, amount=[0.16, 0.51], direction=[1, -1])
    torch.testing.assert_close(result[0], images[0] + 0.16)
    torch.testing.assert_close(result[1], images[1] - 0.51)


def test_backlight_lightens_one_part_and_darkens_the_other() -> None:
    images = photo(40, 60)
    result = apply(
        "noc/backlight", images, amount=0.2, split=[0.5, 0.4], axis=[0, 1], direction=[1, -1]
    )
    difference = (result - images).numpy()
    np.testing.assert_allclose(difference[0, :, :20], -0.2, atol=1e-6)
    np.testing.assert_allclose(difference[0, :, 20:], 0.2, atol=1e-6)
    np.testing.assert_allclose(difference[1, :, :, :24], 0.2, atol=1e-6)
    np.testing.assert_allclose(difference[1, :, :, 24:], -0.2, atol=1e-6)


def test_contrast_goes_to_one_mean_for_all_channels() -> None:
    images = photo()
    result = apply("noc/contrast", images, loss=[0.74, 1.0])
    mean = images.to(torch.float64).mean(dim=(1, 2, 3), keepdim=True)
    loss = torch.tensor([0.74, 1.0], dtype=torch.float64).reshape(2, 1, 1, 1)
    expected = (1 - loss) * images + loss * mean
    np.testing.assert_allclose(result.numpy(), expected.numpy(), atol=2e-6)


def test_color_distortion_adds_to_one_channel_only() -> None:
    images = photo()
    result = apply("noc/color_distortion", images, amount=[0.1, 0.4], channel=[2, 0])
    torch.testing.assert_close(result[0, 2], images[0, 2] + 0.1)
    torch.testing.assert_close(result[1, 0], images[1, 0] + 0.4)
    assert torch.equal(result[0, :2], images[0, :2])
    assert torch.equal(result[1, 1:], images[1, 1:])


def test_gray_scale_mixes_with_pillows_gray() -> None:
    images = photo()
    result = apply("noc/gray_scale", images, weight=[1.0, 0.49])
    for image, weight in ((0, 1.0), (1, 0.49)):
        gray = np.asarray(pil(images[image]).convert("L")) / 255
        expected = weight * gray + (1 - weight) * images[image].numpy()
        np.testing.assert_allclose(result[image].numpy(), expected, atol=1 / 255)


def test_hue_is_colorsys_hue_turned() -> None:
    images = photo(12, 12)
    result = apply("noc/hue", images, turns=[0.3, 0.5], direction=[-1, 1])
    for image, turn in ((0, -0.3), (1, 0.5)):
        for row, column in ((0, 0), (3, 8), (11, 2), (7, 7)):
            hue, saturation, value = colorsys.rgb_to_hsv(*images[image, :, row, column].tolist())
            expected = colorsys.hsv_to_rgb((hue + turn) % 1, saturation, value)
            assert result[image, :, row, column].tolist() == pytest.approx(expected, abs=1e-5)
