"""Large and long images: the cost grows with the number of pixels, and the pixels stay the same."""

import time

import numpy as np
import pytest
import torch
from scipy.ndimage import correlate1d, gaussian_filter

import eyechart as ec
from calling import photo, photo_levels, randomness
from eyechart.corruptions import weather
from eyechart.corruptions.kernels import filters, shuffle
from eyechart.corruptions.kernels.filters import box_weights, gaussian_weights
from eyechart.corruptions.suites.assets import frost_textures
from eyechart.corruptions.suites.suite import find_entry, load_suite
from eyechart.corruptions.weather import cloud_grid, plasma

SQUARE, LONG = (448, 448), (20, 10_000)
MOST = 2
"""Times the time per pixel of a square image."""


@pytest.fixture
def one_thread():
    """Let torch compute on one thread: others wait busily, which counts as processor time."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def seconds_per_pixel(name, sizes, repeats=20, before=lambda: None):
    """The least processor time per pixel for each size, measured in turn."""
    batches = [photo_levels(*size, batch=1) for size in sizes]
    best = [float("inf")] * len(sizes)
    for repeat in range(repeats):
        for place, batch in enumerate(batches):
            before()
            start = time.process_time()
            ec.corrupt(batch, name, severity=3, keys=[repeat])
            spent = (time.process_time() - start) / batch[0, 0].numel()
            best[place] = min(best[place], spent)
    return best


@pytest.mark.parametrize(
    "name", ["fog", "glass_blur", "frost", "elastic_transform", "spatter", "vcr/frost"]
)
def test_a_long_image_costs_as_much_per_pixel_as_a_square_one(name, one_thread):
    square, long = seconds_per_pixel(name, (SQUARE, LONG))
    assert long < MOST * square


@pytest.mark.parametrize("name", ["frost", "vcr/frost"])
def test_so_does_the_first_frost_of_a_size(name, one_thread):
    def forget_panes():
        weather._pane.cache_clear()
        weather._fitted_panes.cache_clear()

    square, long = seconds_per_pixel(name, (SQUARE, LONG), before=forget_panes)
    assert long < MOST * square


@pytest.mark.parametrize("size", [(20, 1000), (8, 17), (1, 50)])
def test_a_pane_for_a_wide_image_is_the_same_by_rows_and_by_columns(size, monkeypatch):
    by_columns = weather._resize(frost_textures()[3], *size, "bicubic")
    monkeypatch.setattr(weather, "LONGEST_SHAPE", float("inf"))
    assert torch.equal(weather._resize(frost_textures()[3], *size, "bicubic"), by_columns)


# ---- fog


@pytest.mark.parametrize(
    ("size", "rounds", "tiles"),
    [
        ((224, 224), 8, (1, 1)),
        ((301, 199), 9, (1, 1)),
        ((160, 320), 9, (1, 1)),
        ((4000, 6000), 13, (1, 1)),
        ((20, 10_000), 5, (1, 313)),
        ((10_000, 20), 5, (313, 1)),
        ((1, 1), 1, (1, 1)),
    ],
)
def test_clouds_are_squares_of_the_longer_side_or_rows_of_squares(size, rounds, tiles):
    assert cloud_grid(*size) == (rounds, tiles)


def test_fog_of_other_clouds_has_another_version_also_where_a_suite_refers_to_it(tmp_path):
    text = "name: mine\ntitle: t\nsource: s\ncorruptions: [{same_as: 'imagenet-c:fog'}]\n"
    (tmp_path / "mine.yaml").write_text(text)
    (own,) = load_suite(str(tmp_path / "mine.yaml"))
    assert own.version == find_entry("fog").version == 2


@pytest.mark.parametrize("size", [(20, 300), (300, 20), (1, 50), (33, 129)])
def test_the_cloud_over_a_long_image_is_nowhere_empty_or_repeated(size):
    cloud = plasma(randomness(1), np.array([2.0]), *size)[0, 0]
    assert cloud.shape == size
    assert cloud.min() >= 0
    assert cloud.max() <= 1
    lines = cloud if size[0] > size[1] else cloud.T
    assert len({line.numpy().tobytes() for line in lines}) == len(lines)
    # the torus is as rough where two squares meet as elsewhere
    steps = (lines[1:] - lines[:-1]).abs().mean(dim=1)
    assert steps.max() < 6 * steps.mean()


# ---- filters along long lines


@pytest.mark.parametrize("border", ["replicate", "mirror", "reflect"])
@pytest.mark.parametrize("sigma", [0.6, 5.0, 40.0])
def test_filters_along_long_lines_equal_those_by_matrices_and_scipys(border, sigma):
    images = photo(50, 70, batch=2)
    weights = gaussian_weights(np.array([sigma, sigma / 2]), truncate=4.0)
    own = filters._separable_fft(images, weights, border)
    by_matrix = filters._separable_matrix(images, weights, border).to(torch.float32)
    torch.testing.assert_close(own, by_matrix, atol=2e-7, rtol=0)
    mode = {"replicate": "nearest", "mirror": "mirror", "reflect": "reflect"}[border]
    expected = gaussian_filter(images[0, 0].double().numpy(), sigma, mode=mode, truncate=4.0)
    np.testing.assert_allclose(own[0, 0], expected, atol=1e-6)


def test_an_image_longer_than_matrices_go_is_filtered_the_same():
    images = photo(12, 1500, batch=1, channels=1)
    weights = box_weights(np.array([151.0]))
    own = filters.filter_separable(images, weights, "mirror")[0, 0]
    plane = images[0, 0].double().numpy()
    for axis in (0, 1):
        plane = correlate1d(plane, weights[0], axis=axis, mode="mirror")
    np.testing.assert_allclose(own, plane, atol=1e-6)


# ---- glass, frost, zoom, medians


@pytest.mark.parametrize("reach", [1, 3])
def test_sweeps_in_bands_equal_the_published_loop(reach, monkeypatch):
    monkeypatch.setattr(shuffle, "BAND_PIXELS", 100)
    height, width = 31, 37
    halves = randomness(1).halves("sweep", 2 * height * width).reshape(2, height, width)
    offsets = ((halves.numpy() * (2 * reach)) >> 16) - reach
    loop = np.arange(height * width).reshape(height, width)
    for row in range(height - reach, reach, -1):
        for column in range(width - reach, reach, -1):
            if row < height and column < width:
                down, across = offsets[:, row, column]
                loop[row, column] = loop[row + down, column + across]
    own = shuffle._sweep_in_numpy(halves.to(torch.int32).numpy(), reach)
    np.testing.assert_array_equal(own, loop.ravel())


@pytest.mark.parametrize("number", [0, 3])
def test_a_piece_of_a_large_pane_is_that_part_of_the_whole(number):
    texture = frost_textures()[number]
    size = tuple(round(side * 2.37) for side in texture.shape[1:])
    whole = weather._resize(texture, *size, "bilinear")
    for box in ((0, 0, 90, 300), (size[0] - 200, size[1] - 40, *size), (17, 333, 18, 900)):
        top, left, bottom, right = box
        piece = weather._resize_piece(texture, size, box)
        assert torch.equal(piece, whole[:, top:bottom, left:right])


def test_a_whole_pane_for_a_large_image_is_the_same_as_a_kept_one(monkeypatch):
    images = photo_levels(64, 80, batch=3)
    options = {"severity": 4, "keys": ["a", "b", "c"]}
    for name in ("frost", "vcr/frost"):
        kept = ec.corrupt(images, name, **options)
        with monkeypatch.context() as patch:
            patch.setattr(weather, "LARGEST_PANE", 10)
            assert torch.equal(ec.corrupt(images, name, **options), kept)


def test_medians_of_windows_wider_than_opencvs_are_medians():
    levels = photo_levels(40, 30, batch=1, channels=1)
    side = filters.WIDEST_OF_OPENCV + 46
    own = filters.median_filter(levels, np.array([float(side)]))[0, 0]
    padded = np.pad(levels[0, 0].numpy(), side // 2, mode="edge")
    for row, column in ((0, 0), (0, 29), (20, 15), (39, 3)):
        window = padded[row : row + side, column : column + side]
        assert own[row, column] == np.median(window)


@pytest.mark.parametrize("name", ["noc/blur", "noc/thumbnail_resize", "noc/pixelate", "zoom_blur"])
def test_images_too_large_to_keep_things_for_come_out_the_same(name, monkeypatch):
    images = photo_levels(64, 80, batch=2)
    expected = ec.corrupt(images, name, severity=[2, 5], keys=["a", "b"])
    for module, limit in (
        ("resampling", "LARGEST_AT_ONCE"),
        ("resampling", "LONGEST_KEPT"),
        ("resampling", "LARGEST_KEPT"),
    ):
        monkeypatch.setattr(f"eyechart.corruptions.kernels.{module}.{limit}", 10)
    assert torch.equal(ec.corrupt(images, name, severity=[2, 5], keys=["a", "b"]), expected)


def test_large_images_are_worked_on_one_after_the_other(monkeypatch):
    images = photo_levels(64, 80, batch=4)
    expected = ec.corrupt(images, "fog", severity=3)
    monkeypatch.setattr("eyechart.corruptions.suites.apply.LARGEST_SHARED", 10)
    monkeypatch.setattr("eyechart.corruptions.suites.apply.on_all_cores", None)
    assert torch.equal(ec.corrupt(images, "fog", severity=3), expected)
