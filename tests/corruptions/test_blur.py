"""Blurs against closed forms, plain loops, OpenCV, SciPy and scikit-image."""

from functools import partial

import cv2
import numpy as np
import pytest
import torch
from scipy import ndimage
from skimage.filters import gaussian

import eyechart as ec
from calling import apply, photo, photo_levels, randomness
from eyechart.corruptions.blur import (
    _published_disk,
    defocus_blur,
    gaussian_blur,
    motion_blur,
    trail,
)
from eyechart.corruptions.kernels import resampling
from eyechart.corruptions.kernels.arithmetic import to_unit
from eyechart.corruptions.kernels.correlation import correlate, correlate_fft
from eyechart.corruptions.kernels.filters import (
    _separable_cv2,
    _separable_matrix,
    band_matrix,
    box_weights,
    gaussian_weights,
    median_by_counting,
    resolve_rounding,
)
from eyechart.corruptions.kernels.resampling import enlarge, fine_levels
from eyechart.corruptions.kernels.shuffle import (
    _sweep_in_numpy,
    _sweep_in_torch,
    copy_from_neighbors,
    swap_neighbors,
)
from eyechart.corruptions.suites.apply import _eight_bit

SCIPY_MODES = {"replicate": "nearest", "mirror": "mirror", "reflect": "reflect"}


def numbers(*values):
    return np.array(values, dtype=np.float64)


def center_of(kernel):
    """Center of mass relative to the middle, (down, across) in px."""
    mass = ndimage.center_of_mass(np.asarray(kernel))
    return [place - (side - 1) / 2 for place, side in zip(mass, kernel.shape, strict=True)]


def impulse(height, width):
    image = torch.zeros(1, 1, height, width)
    image[..., height // 2, width // 2] = 1
    return image


# ---- a constant image

BLURS = [name for name in ec.list_corruptions(family="blur") if not name.startswith("noc/")]


@pytest.mark.parametrize("severity", [1, 3])
@pytest.mark.parametrize("name", BLURS)
def test_blur_of_a_constant_image_changes_nothing(name, severity):
    images = torch.tensor([0, 77, 255], dtype=torch.uint8).reshape(3, 1, 1, 1).repeat(1, 3, 64, 48)
    assert torch.equal(ec.corrupt(images, name, severity=severity), images)


@pytest.mark.parametrize("severity", [4, 5])
def test_strong_defocus_brightens_a_constant_image_as_published(severity):
    images = torch.full((1, 3, 224, 224), 0.5)
    total = {4: 1.013, 5: 1.011}[severity]
    result = ec.corrupt(images, "defocus_blur", severity=severity)
    assert result.mean().item() / 0.5 == pytest.approx(total, abs=0.0006)


# ---- Gaussian and box


@pytest.mark.parametrize("sigma", [0.4, 1, 3, 6, 20])
def test_gaussian_blur_is_that_of_scikit_image(sigma):
    images = photo(90, 70)
    result = apply("gaussian_blur", images, sigma=[sigma, 0.7])
    expected = gaussian(
        images[0].numpy().astype(np.float64), sigma, truncate=4, mode="nearest", channel_axis=0
    )
    np.testing.assert_allclose(result[0], expected, atol=1e-6)


def hard_to_round() -> torch.Tensor:
    """Images that are smooth, noisy, flat in large areas, black and white, and a ramp."""
    levels = photo_levels(70, 90, batch=2)[[0, 0, 0, 1, 1]]
    levels[1] = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (3, 70, 90)))
    levels[2, :, :40], levels[2, :, 40:] = 255, 100
    levels[3] = (levels[3] > 128) * 255
    levels[4] = torch.arange(90) * 2
    return levels


@pytest.mark.parametrize("mode", ["truncate", "round"])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("blur", "parameters"),
    [
        (gaussian_blur, lambda a, b: {"sigma": a / 2}),
        (defocus_blur, lambda a, b: {"radius": a, "softness": b}),
        (motion_blur, lambda a, b: {"radius": np.ceil(a) + 1, "sigma": a, "angle": 90 * b - 45}),
    ],
)
def test_rounding_after_float32_gives_the_pixels_of_float64(blur, parameters, seed, mode):
    levels = hard_to_round()
    drawn = np.random.default_rng(seed)
    values = parameters(drawn.uniform(0, 9, 5), drawn.uniform(0, 1, 5))
    rounding = partial(_eight_bit, mode=mode)
    is_given_levels = blur is defocus_blur
    rounded = blur(
        levels if is_given_levels else to_unit(levels), None, **values, rounding=rounding
    )
    assert rounded.dtype == torch.uint8
    assert torch.equal(rounded, rounding(blur(to_unit(levels), None, **values)))


def test_doubtful_values_are_settled_one_by_one_or_all_at_once():
    exact = torch.linspace(0, 1, 1000)[None]
    rough = exact * (1 + 2.0**-22)
    asked = []

    def exact_at(places):
        asked.append(len(places))
        return exact.flatten()[torch.from_numpy(places)]

    rounding = partial(_eight_bit, mode="truncate")
    for cost in (1, 10**6):
        settled = resolve_rounding(rough, 1000, rounding, exact_at, lambda: exact, cost)
        assert torch.equal(settled, rounding(exact))
    assert len(asked) == 1
    assert 0 < asked[0] < 100


def test_gaussian_kernels_sum_to_one_and_have_their_variance():
    weights = gaussian_weights(numbers(0, 0.3, 2, 8))
    offset = np.arange(weights.shape[1]) - weights.shape[1] // 2
    np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_array_equal(weights, weights[:, ::-1])
    assert (weights[0] == (offset == 0)).all()
    # cut off at four standard deviations a Gaussian loses about 0.1 % of its variance
    np.testing.assert_allclose((weights * offset**2).sum(axis=1)[2:], [4, 64], rtol=0.003)


@pytest.mark.parametrize("border", SCIPY_MODES)
@pytest.mark.parametrize("shape", [(40, 61), (8, 9)])
def test_the_matrix_and_the_opencv_path_of_a_separable_filter_agree(border, shape):
    images = photo(*shape, batch=3)
    # radii beyond the size of the picture would fold twice
    weights = gaussian_weights(numbers(0.6, 1.5, 0), truncate=4.0)
    by_opencv = _separable_cv2(images, weights, border).to(torch.float32)
    by_matrix = _separable_matrix(images, weights, border).to(torch.float32)
    assert torch.equal(by_opencv, by_matrix)
    for place, sigma in ((0, 0.6), (1, 1.5)):
        expected = ndimage.gaussian_filter(
            images[place].numpy().astype(np.float64),
            (0, sigma, sigma),
            mode=SCIPY_MODES[border],
            truncate=4.0,
        )
        np.testing.assert_allclose(by_matrix[place], expected, atol=1e-6)


@pytest.mark.parametrize("border", SCIPY_MODES)
def test_kernels_wider_than_the_image_fold_as_in_scipy(border):
    images = photo(9, 12)
    weights = gaussian_weights(numbers(11.0, 4.0))
    result = _separable_matrix(images, weights, border)
    for place, sigma in ((0, 11.0), (1, 4.0)):
        expected = ndimage.gaussian_filter(
            images[place].numpy().astype(np.float64), (0, sigma, sigma), mode=SCIPY_MODES[border]
        )
        np.testing.assert_allclose(result[place], expected, atol=1e-9)


@pytest.mark.parametrize("border", SCIPY_MODES)
def test_rows_of_a_band_matrix_sum_to_one(border):
    matrix = band_matrix(torch.from_numpy(gaussian_weights(numbers(3.0))), 10, border)
    np.testing.assert_allclose(matrix.sum(dim=2), 1, rtol=1e-12)


def test_a_strong_blur_in_the_batch_does_not_change_a_mild_one():
    images = photo(64, 64)
    together = apply("gaussian_blur", images, sigma=[1, 30])
    assert torch.equal(together[:1], apply("gaussian_blur", images[:1], sigma=1))


@pytest.mark.parametrize("kernel", [1, 3, 7, 15])
def test_box_blur_is_that_of_opencv(kernel):
    images = photo(50, 41)
    result = apply("vcr/blur", images, kernel=[kernel, 5])
    for plane, own in zip(images[0].numpy(), result[0], strict=True):
        expected = cv2.blur(plane.astype(np.float64), (kernel, kernel))
        np.testing.assert_allclose(own, expected, atol=1e-6)


def test_box_weights_are_equal_and_sum_to_one():
    weights = box_weights(numbers(3, 7))
    np.testing.assert_allclose(weights.sum(axis=1), 1)
    np.testing.assert_allclose(weights[0], [0, 0, 1 / 3, 1 / 3, 1 / 3, 0, 0])


# ---- general kernels


@pytest.mark.parametrize("border", SCIPY_MODES)
@pytest.mark.parametrize("size", [(3, 5), (11, 11), (13, 15), (1, 9)])
def test_correlation_is_the_same_by_opencv_by_fourier_and_by_scipy(border, size):
    images = photo(37, 52)
    kernels = np.random.default_rng(0).random((2, *size))
    kernels[1, :, : size[1] // 2] = 0
    kernels /= kernels.sum(axis=(1, 2), keepdims=True)
    direct = correlate(images, torch.from_numpy(kernels), border)
    fourier = correlate_fft(images, torch.from_numpy(kernels).to(torch.float32), border)
    np.testing.assert_allclose(direct, fourier, atol=1.2e-7, rtol=1e-7)
    for image, kernel, result in zip(images.numpy(), kernels, direct, strict=True):
        for plane, own in zip(image, result, strict=True):
            expected = ndimage.correlate(plane.astype(np.float64), kernel, mode=SCIPY_MODES[border])
            np.testing.assert_allclose(own, expected, atol=1e-6)


@pytest.mark.parametrize(("radius", "total"), [(8, 1.013), (10, 1.011)])
def test_the_published_disk_sums_to_slightly_more_than_one(radius, total):
    assert _published_disk(radius, 0.5).sum() == pytest.approx(total, abs=0.0006)


@pytest.mark.parametrize(
    ("radius", "softness"),
    [(0.3, 0.4), (1, 0.2), (1.5, 0.1), (3, 0.1), (4, 0.5), (8, 0.5), (10, 0.5), (12, 0.5)],
)
def test_the_published_disk_is_made_as_published(radius, softness):
    # hendrycks/robustness, disk()
    if radius <= 8:
        axis, blur = np.arange(-8, 8 + 1), (3, 3)
    else:
        axis, blur = np.arange(-radius, radius + 1), (5, 5)
    across, down = np.meshgrid(axis, axis)
    disk = np.array((across**2 + down**2) <= radius**2, dtype=np.float64)
    disk /= np.sum(disk)
    expected = cv2.GaussianBlur(disk, ksize=blur, sigmaX=softness)
    np.testing.assert_allclose(_published_disk(float(radius), softness), expected, atol=1e-9)


def test_the_published_disk_is_a_point_below_radius_1():
    kernel = _published_disk(0.9, 0.1)
    assert kernel[8, 8] == pytest.approx(1)
    assert kernel.sum() == pytest.approx(1)


def response(name, **parameters):
    """What a blur makes of a single white pixel: its kernel, turned about its center."""
    # another strength in the same batch must not matter
    images = impulse(101, 101).repeat(2, 1, 1, 1)
    both = {key: [value, other] for key, (value, other) in parameters.items()}
    return apply(name, images, **both)[0, 0].numpy().astype(np.float64)


@pytest.mark.parametrize("softness", [0, 0.5, 2.0])
@pytest.mark.parametrize("radius", [0.0, 0.4, 0.7, 1.3, 4.0, 8.5, 10.0])
def test_the_repaired_disk_is_centered_and_sums_to_one(radius, softness):
    kernel = response("vcr/defocus_blur", radius=(radius, 11), softness=(softness, 1))
    assert kernel.sum() == pytest.approx(1, abs=1e-5)
    assert center_of(kernel) == pytest.approx([0, 0], abs=1e-4)
    for same in (kernel[::-1], kernel[:, ::-1], kernel.T):
        np.testing.assert_allclose(kernel, same, atol=1e-7)


@pytest.mark.parametrize("radius", [3.0, 5.5, 10.0])
def test_the_repaired_disk_has_the_spread_and_energy_of_a_disk(radius):
    kernel = response("vcr/defocus_blur", radius=(radius, 2), softness=(0, 1))
    axis = np.arange(101) - 50
    # a disk has variance r²/4 along each axis, and a pixel adds 1/12
    assert (kernel * axis**2).sum() == pytest.approx(radius**2 / 4 + 1 / 12, rel=0.02)
    # partly covered pixels at the rim take off a little
    disk = 1 / (np.pi * radius**2)
    assert disk * (1 - 0.5 / radius) < (kernel**2).sum() < disk


@pytest.mark.parametrize("radius", [2.0, 5.0])
def test_a_soft_rim_adds_its_variance_to_the_disk(radius):
    axis = np.arange(101) - 50
    hard, soft = (
        (response("vcr/defocus_blur", radius=(radius, 2), softness=(width, 1)) * axis**2).sum()
        for width in (0, 1.5)
    )
    # a Gaussian cut off at three standard deviations has 97.3 % of its variance
    assert soft - hard == pytest.approx(1.5**2, rel=0.05)


@pytest.mark.parametrize("length", [1, 3, 9, 49])
@pytest.mark.parametrize("angle", [0, 30, 45, 90, 133.7, 180])
def test_the_streak_is_centered_and_sums_to_one(length, angle):
    kernel = response("vcr/motion_blur", kernel=(length, 51), angle=(angle, 10))
    assert kernel.sum() == pytest.approx(1, abs=1e-5)
    assert center_of(kernel) == pytest.approx([0, 0], abs=1e-4)
    np.testing.assert_allclose(kernel, kernel[::-1, ::-1], atol=1e-7)
    axis = np.arange(101) - 50
    direction = np.deg2rad(angle)
    along = axis * np.cos(direction) + axis[:, None] * np.sin(direction)
    beside = axis[:, None] * np.cos(direction) - axis * np.sin(direction)
    # even over its length, which gives (length − 1)² / 12, and less than a pixel wide
    assert (kernel * along**2).sum() == pytest.approx((length - 1) ** 2 / 12, rel=0.05, abs=0.35)
    assert (kernel * beside**2).sum() < 0.35


def imagemagick_trail(radius, sigma, angle):
    """ImageMagick's motion kernel: (offset down, offset across) → weight."""
    step = np.arange(2 * radius + 1)
    weights = np.exp(-(step**2) / (2 * sigma**2))
    weights /= weights.sum()
    places = {}
    for number, weight in zip(step, weights, strict=True):
        across = int(np.ceil(number * np.cos(np.deg2rad(angle)) - 0.5))
        down = int(np.ceil(number * np.sin(np.deg2rad(angle)) - 0.5))
        places[down, across] = places.get((down, across), 0) + weight
    return places


@pytest.mark.parametrize(
    ("radius", "sigma", "angle"), [(10, 3, -45), (15, 8, 17.3), (20, 15, 44.0), (6, 1, -8)]
)
def test_motion_blur_is_imagemagicks_one_sided_trail(radius, sigma, angle):
    image = impulse(101, 101)
    result = apply("motion_blur", image, radius=radius, sigma=sigma, angle=angle)[0, 0].numpy()
    expected = np.zeros((101, 101))
    # a pixel gathers what lies along its trail: an impulse is smeared the other way
    for (down, across), weight in imagemagick_trail(radius, sigma, angle).items():
        expected[50 - down, 50 - across] += weight
    np.testing.assert_allclose(result, expected, atol=1e-7)


def test_trails_of_different_lengths_share_a_batch():
    images = photo(40, 40, batch=3)
    radius, sigma, angle = numbers(3, 12, 7), numbers(2, 9, 4), numbers(10, -40, 0)
    together = trail(images, radius, sigma, angle)
    for place in range(3):
        own = slice(place, place + 1)
        alone = trail(images[own], radius[own], sigma[own], angle[own])
        assert torch.equal(together[own], alone)


# ---- zoom


def published_zoom(plane, factor):
    """hendrycks/robustness, clipped_zoom(), for one plane of any shape."""
    height, width = plane.shape
    rows, columns = int(np.ceil(height / factor)), int(np.ceil(width / factor))
    top, left = (height - rows) // 2, (width - columns) // 2
    crop = plane[top : top + rows, left : left + columns]
    large = ndimage.zoom(crop, (factor, factor), order=1)
    top, left = (large.shape[0] - height) // 2, (large.shape[1] - width) // 2
    return large[top : top + height, left : left + width]


@pytest.mark.parametrize("factor", [1.01, 1.1, 1.26, 2.0, 4.5])
@pytest.mark.parametrize("size", [(224, 224), (61, 40)])
def test_enlarging_is_scipys_zoom_to_a_64th_of_a_pixel(factor, size):
    # ramps show where every pixel comes from, down and across
    down, across = np.mgrid[: size[0], : size[1]].astype(np.float64)
    for ramp in (down, across):
        own = enlarge(torch.from_numpy(ramp).float()[None, None], factor)[0, 0].numpy()
        expected = published_zoom(ramp, factor)
        assert own.shape == size
        # scipy may come out a pixel short; what it has must agree
        rows, columns = expected.shape
        assert rows >= size[0] - 1
        assert columns >= size[1] - 1
        assert np.abs(own[:rows, :columns] - expected).max() <= 1 / 64 + 1e-4


@pytest.mark.parametrize("factor", [1.02, 1.31, 3.0])
def test_an_enlarged_image_is_scipys_within_a_fraction_of_a_gray_level(factor):
    levels = fine_levels(photo(224, 224, batch=1))
    for plane, own in zip(levels[0].numpy(), enlarge(levels, factor)[0].numpy(), strict=True):
        gap = np.abs(own - published_zoom(plane.astype(np.float64), factor))
        assert gap.mean() < 0.15
        assert gap.max() < 255 / 32


@pytest.mark.parametrize("factor", [1.02, 1.31, 3.0])
@pytest.mark.parametrize("size", [(224, 224), (61, 40), (8, 8)])
def test_enlarging_in_torch_gives_the_bits_of_opencv(monkeypatch, factor, size):
    levels = fine_levels(photo(*size))
    by_opencv = enlarge(levels, factor)
    monkeypatch.setattr(resampling, "uses_opencv", lambda images: False)
    assert torch.equal(enlarge(levels, factor), by_opencv)


def test_zoom_blur_is_the_mean_of_the_image_and_its_enlargements():
    images = photo(64, 64, batch=2)
    result = apply("zoom_blur", images, zoom=[1.11, 1.31], step=[0.01, 0.03])
    for image, own, (zoom, step) in zip(images, result, ((1.11, 0.01), (1.31, 0.03)), strict=True):
        factors = np.arange(1, zoom, step)
        planes = image.numpy().astype(np.float64)
        # the picture itself counts twice, as published
        total = planes + sum(
            np.stack([published_zoom(plane, factor) for plane in planes]) for factor in factors
        )
        np.testing.assert_allclose(own, total / (len(factors) + 1), atol=1 / 255)


@pytest.mark.parametrize("channels", [1, 3])
def test_enlarging_gives_the_same_bits_on_any_number_of_threads(channels):
    levels = fine_levels(photo(224, 224, batch=1, channels=channels))
    before = torch.get_num_threads()
    results = []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            results.append(enlarge(levels, 1.13))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(results[0], results[1])
    assert torch.equal(results[0], results[2])


# ---- median


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("size", [(24, 31), (8, 8)])
def test_the_median_is_that_of_opencv_and_of_scipy(size, channels):
    levels = photo_levels(*size, batch=4, channels=channels)
    kernel = [1, 3, 5, 21]
    result = apply("vcr/median_blur", levels, kernel=kernel)
    by_counting = median_by_counting(levels, numbers(*kernel))
    assert torch.equal(result, by_counting)
    for image, own, side in zip(levels.numpy(), result.numpy(), kernel, strict=True):
        for plane, median in zip(image, own, strict=True):
            np.testing.assert_array_equal(
                median, ndimage.median_filter(plane, side, mode="nearest")
            )
            if side > 1:
                np.testing.assert_array_equal(median, cv2.medianBlur(plane, side))


def test_a_median_removes_single_outliers():
    levels = torch.full((1, 1, 20, 20), 90, dtype=torch.uint8)
    levels[..., ::4, ::4] = 255
    assert (apply("vcr/median_blur", levels, kernel=3) == 90).all()


# ---- glass


def published_sweeps(image, offsets, reach, passes):
    """hendrycks/robustness, glass_blur(): the loop whose swap of two views only copies."""
    image = image.copy()
    height, width = image.shape[:2]
    for sweep in range(passes):
        for row in range(height - reach, reach, -1):
            for column in range(width - reach, reach, -1):
                down, across = offsets[sweep][:, row, column]
                image[row, column] = image[row + down, column + across]
    return image


def drawn_offsets(random, sweep, reach, height, width):
    halves = random.halves(f"sweep {sweep}", 2 * height * width).reshape(-1, 2, height, width)
    return ((halves * (2 * reach)) >> 16).numpy() - reach


@pytest.mark.parametrize("size", [(40, 33), (16, 16), (9, 30)])
@pytest.mark.parametrize(("reach", "passes"), [(1, 1), (1, 2), (2, 3), (4, 2), (0, 2), (3, 0)])
def test_copying_from_neighbors_equals_the_published_loop(size, reach, passes):
    images = torch.arange(3 * size[0] * size[1], dtype=torch.float32).reshape(1, 3, *size)
    random = randomness(1)
    result = copy_from_neighbors(images, random, numbers(reach), numbers(passes))
    offsets = [drawn_offsets(random, sweep, reach, *size)[0] for sweep in range(passes)]
    image = images[0].permute(1, 2, 0).numpy()
    expected = published_sweeps(image, offsets, reach, passes if reach else 0)
    np.testing.assert_array_equal(result[0].permute(1, 2, 0), expected)


def test_offsets_reach_back_by_the_reach_and_forward_by_one_less():
    offsets = drawn_offsets(randomness(1), 0, 3, 60, 60)
    assert np.unique(offsets).tolist() == [-3, -2, -1, 0, 1, 2]


@pytest.mark.parametrize("size", [(40, 33), (9, 30), (8, 8)])
def test_the_sweep_in_torch_equals_the_sweep_in_numpy(size):
    reach = [0, 1, 2, 4, 6]
    random = randomness(len(reach))
    halves = random.halves("sweep 0", 2 * size[0] * size[1]).reshape(-1, 2, *size)
    in_torch = _sweep_in_torch(halves, torch.tensor(reach))
    for own, drawn, each in zip(in_torch, halves.to(torch.int32).numpy(), reach, strict=True):
        np.testing.assert_array_equal(own, _sweep_in_numpy(drawn, each))


@pytest.mark.parametrize("reach", [0, 0.3, 1, 4, 9])
def test_swapping_neighbors_loses_and_doubles_no_pixel(reach):
    images = torch.arange(40 * 50, dtype=torch.float32).reshape(1, 1, 40, 50).repeat(1, 3, 1, 1)
    result = swap_neighbors(images, randomness(1), numbers(reach))
    assert torch.equal(result.flatten(2).sort(dim=2).values, images.flatten(2))
    # whole pixels move: the channels go together
    assert torch.equal(result[:, 0], result[:, 1])
    assert torch.equal(result, images) == (reach == 0)


@pytest.mark.parametrize(("reach", "move"), [(1, 0.87), (2, 1.35), (4, 2.55), (9, 5.65)])
def test_swapped_pixels_move_as_far_as_documented(reach, move):
    size = 200
    images = torch.arange(size * size, dtype=torch.float64).reshape(1, 1, size, size)
    source = swap_neighbors(images, randomness(1), numbers(reach))[0, 0].long().numpy()
    row, column = np.mgrid[:size, :size]
    inside = (slice(20, -20), slice(20, -20))
    assert np.abs(source // size - row)[inside].mean() == pytest.approx(move, rel=0.1)
    assert np.abs(source % size - column)[inside].mean() == pytest.approx(move, rel=0.1)


@pytest.mark.parametrize(("reach", "move"), [(1, 0.87), (4, 2.55)])
def test_the_documented_moves_are_those_of_a_loop_of_swaps(reach, move):
    size = 120
    generator = np.random.default_rng(0)
    where = np.arange(size * size).reshape(size, size)
    offsets = generator.integers(-reach, reach, (2, size, size))
    for row in range(size - reach, reach, -1):
        for column in range(size - reach, reach, -1):
            other = (row + offsets[0, row, column], column + offsets[1, row, column])
            where[row, column], where[other] = where[other], where[row, column]
    row = np.mgrid[:size, :size][0]
    inside = (slice(12, -12), slice(12, -12))
    assert np.abs(where // size - row)[inside].mean() == pytest.approx(move, rel=0.1)


def test_glass_blur_truncates_between_its_two_blurs():
    images = torch.full((1, 1, 32, 32), 0.5)
    # no pixel moves: only the truncation to 127 / 255 is left
    result = apply("glass_blur", images, sigma=0.5, reach=0, passes=0)
    np.testing.assert_allclose(result, 127 / 255, atol=1e-6)
