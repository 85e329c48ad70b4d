"""Registration recovers how an image was moved, and leaves alone what was not moved."""

import numpy as np
import pytest
import torch
from PIL import Image
from scipy import ndimage
from skimage.registration import phase_cross_correlation

import eyechart as ec
from eyechart.visual_change.gray import to_gray
from eyechart.visual_change.registration import refinement
from eyechart.visual_change.registration.estimate import (
    centered,
    compare_details,
    describe_copies,
    levels_of,
    motion_of,
    register,
    rounded,
    view_of_clean,
)
from eyechart.visual_change.registration.human_ruler import MotionPenalty
from eyechart.visual_change.registration.refinement import centers_of, refine
from eyechart.visual_change.registration.search import (
    _neighbors,
    contrasts,
    contrasts_of_part,
    linear_maps,
    without_fill,
)
from eyechart.visual_change.registration.view import (
    sample_cubic,
    sharp,
    spline,
    spline_coefficients,
    view,
    visible_vif,
)
from eyechart.visual_change.registration.warping import identity_maps, inside, moved, sample
from eyechart.visual_change.vif.statistics import VCR
from moved_images import CUBIC, LINEAR, NEAREST, eight_bits, errors, map_of, move
from real_images import real_images

SIZE = (224, 224)
UNMOVED = torch.eye(2, 3, dtype=torch.float64)[None]


@pytest.fixture(scope="module")
def rgb():
    return real_images()


@pytest.fixture(scope="module")
def gray(rgb):
    return to_gray(torch.from_numpy(rgb).permute(0, 3, 1, 2))


@pytest.fixture(scope="module")
def copies(gray):
    return [describe_copies(image[None]) for image in gray]


def as_maps(*backs):
    return torch.from_numpy(np.stack(backs))


# ---- recovered maps

MOTIONS = {
    "turned": (map_of(33), LINEAR, "constant"),
    "enlarged": (map_of(scale=1.9), CUBIC, "constant"),
    "reduced": (map_of(scale=0.55), LINEAR, "reflect"),
    "shifted": (map_of(across=44, down=-30), NEAREST, "constant"),
    "everything": (map_of(-40, 0.8, 25, 18), CUBIC, "constant"),
    "upside down": (map_of(171), NEAREST, "constant"),
    "quarter turn": (map_of(270), LINEAR, "constant"),
    "mirrored": (map_of(20, is_mirrored=True), LINEAR, "reflect"),
    "sheared": (map_of(shear=0.4), LINEAR, "constant"),
    "slightly moved": (map_of(1.5, 1.01, 2.3, -1.6), LINEAR, "constant"),
}


@pytest.mark.parametrize("name", MOTIONS)
def test_a_moved_image_is_recovered_within_half_a_pixel_and_a_fifth_of_a_degree(gray, copies, name):
    back, order, fill = MOTIONS[name]
    place = list(MOTIONS).index(name) % len(gray)
    corrupted = move(gray[place].numpy(), back, order, fill)
    found = register(copies[place], torch.from_numpy(corrupted)[None])[0].numpy()
    pixels, degrees = errors(found, back, SIZE)
    assert pixels < 0.5 and degrees < 0.2


@pytest.mark.parametrize("scale", [0.55, 0.6])
def test_the_border_of_a_fill_does_not_mislead_the_search(gray, copies, scale):
    # with its border, the last image was not recovered
    back = map_of(20, scale, 30, -25)
    for image, clean in zip(gray, copies, strict=True):
        corrupted = torch.from_numpy(move(image.numpy(), back))[None]
        pixels, degrees = errors(register(clean, corrupted)[0].numpy(), back, SIZE)
        assert pixels < 0.5 and degrees < 0.2


def test_flat_cells_and_those_beside_them_show_nothing():
    spread = torch.full((1, 6, 7), 5.0)
    spread[0, 2, 0] = 0.0
    weight = without_fill(torch.zeros_like(spread), spread)
    assert (weight[0, 1:4, :2] == 0).all() and weight.sum() == 6 * 7 - 6


def test_a_fill_with_noise_shows_nothing_but_other_noise_does():
    small, spread = torch.full((2, 8, 9), 60.0), torch.full((2, 8, 9), 90.0)
    # black with noise, of which a half is cut off
    small[:, :, :3] = torch.tensor([-120.0, -118.0, -121.0])
    spread[:, :, :3] = torch.tensor([40.0, 55.0, 48.0])
    # as noisy as the fill, but of another color
    spread[1, 4, 7] = 45.0
    weight = without_fill(small, spread)
    assert (weight[:, :, :4] == 0).all() and (weight[:, :, 4:] == 1).all()


def test_contrasts_without_fill_are_those_of_the_shown_part():
    images = torch.rand((2, 32, 32)) * 100
    torch.testing.assert_close(
        contrasts_of_part(images, torch.ones_like(images)), contrasts(images), rtol=1e-4, atol=1e-4
    )
    weight = torch.ones_like(images)
    weight[:, :, 20:] = 0
    filled = torch.where(weight > 0, images, -500.0)
    computed = contrasts_of_part(filled, weight)
    assert torch.equal(computed, contrasts_of_part(images, weight))
    assert (computed[:, :, 20:] == 0).all()


@pytest.mark.parametrize("kind", ["noise", "blur"])
def test_a_moved_image_is_recovered_under_noise_and_blur(gray, copies, kind):
    back = map_of(25, 1.2, 20, -14)
    image = move(gray[1].numpy(), back).astype(np.float64)
    noise = np.random.default_rng(0).normal(0, 20, image.shape)
    spoiled = image + noise if kind == "noise" else ndimage.gaussian_filter(image, 2)
    found = register(copies[1], torch.from_numpy(eight_bits(spoiled))[None])[0].numpy()
    pixels, degrees = errors(found, back, SIZE)
    assert pixels < 0.5 and degrees < 0.2


@pytest.mark.parametrize("fill", ["constant", "reflect"])
@pytest.mark.parametrize("kind", ["plain", "noise", "blur"])
def test_images_of_half_the_size_are_recovered(gray, copies, fill, kind):
    # with the part that both images show alone, maps left the image or found a reflection of it
    back = map_of(17, 0.52, 21, -13)
    # a rocket at night has too little structure to be found precisely under noise or blur
    count = len(gray) if kind == "plain" else 3
    for image, clean in zip(gray[:count], copies, strict=False):
        corrupted = move(image.numpy(), back, LINEAR, fill).astype(np.float64)
        if kind == "noise":
            corrupted += np.random.default_rng(1).normal(0, 20, SIZE)
        if kind == "blur":
            corrupted = ndimage.gaussian_filter(corrupted, 2)
        found = register(clean, torch.from_numpy(eight_bits(corrupted))[None])[0].numpy()
        pixels, degrees = errors(found, back, SIZE)
        assert pixels < 0.5 and degrees < 0.2


def test_blur_does_not_draw_a_map_away(gray, copies, monkeypatch):
    back = map_of(-30, 0.7, 12, 9)

    def apart():
        for image, clean in zip(gray, copies, strict=True):
            blurred = ndimage.gaussian_filter(move(image.numpy(), back, CUBIC), 2.0)
            level = levels_of(centered(torch.from_numpy(blurred)[None]))[1]
            found = refine(clean.levels[1], level, as_maps(back), SIZE, 6)
            yield errors(found[0].numpy(), back, SIZE)[0]

    with_blur = np.array([*apart()])
    # without the term for blur
    monkeypatch.setattr(refinement, "RIDGES", (*refinement.RIDGES[:8], 1e12))
    assert (with_blur < 0.5 * np.array([*apart()])).all()
    assert with_blur.max() < 0.5


def test_the_color_of_a_fill_is_found_in_gray_levels_of_the_clean_image():
    random = np.random.default_rng(2)
    shown = torch.from_numpy(random.normal(20, 30, (1, 28, 28))).to(torch.float32)
    # the clean image's edge is between columns 17 and 18
    distance = (17.5 - torch.arange(28.0)).expand(1, 28, 28)
    is_inner = torch.zeros((1, 28, 28), dtype=torch.bool)
    is_inner[:, 1:-1, 1:-1] = True
    weight = (is_inner & (distance > 2)).to(torch.float32)
    corrupted = torch.where(distance > 0, 0.8 * shown + 10, -100.0)
    filled, weights = refinement._filled(shown, corrupted, weight, distance, is_inner)
    # −100 = 0.8 · color + 10
    torch.testing.assert_close(filled[:, :, 21:], torch.full((1, 28, 7), -137.5))
    torch.testing.assert_close(filled[:, :, :15], shown[:, :, :15])
    assert torch.equal(weights.bool(), is_inner)
    # a fill that is not one color is no fill
    corrupted = torch.where(distance > 0, corrupted, shown)
    unfilled, weights = refinement._filled(shown, corrupted, weight, distance, is_inner)
    assert torch.equal(unfilled, shown) and torch.equal(weights, weight)


@pytest.mark.parametrize("is_mirrored", [False, True])
def test_the_neighbors_of_a_map_are_one_step_of_rotation_or_magnification_away(is_mirrored):
    linear = linear_maps(torch.device("cpu"))

    def place(degrees, octaves):
        wanted = torch.from_numpy(map_of(degrees, 2**octaves, is_mirrored=is_mirrored)[:, :2])
        return (linear - wanted).abs().amax(dim=(1, 2)).argmin().item()

    expected = {place(30, 0), place(60, 0), place(45, 1 / 3), place(45, -1 / 3)}
    assert set(_neighbors(linear.device)[place(45, 0)].tolist()) == expected


def test_of_several_copies_in_an_image_the_complete_one_is_preferred(gray, copies):
    # reflected at the right edge: a mirrored copy, of which 30 % are in the frame
    back = map_of(scale=0.5)
    corrupted = move(gray[0].numpy(), back, LINEAR, "reflect")
    levels = levels_of(centered(torch.from_numpy(corrupted)[None]))
    mirrored = map_of(scale=0.5, across=112, is_mirrored=True)
    both = as_maps(back, mirrored)
    agreements, _, scores = compare_details(copies[0].levels[1], levels[1], both, SIZE)
    assert agreements.min() > 0.9 and scores[0] > scores[1] + 0.03


def test_a_shift_is_that_of_phase_correlation(gray, copies):
    image = gray[0].numpy()
    corrupted = np.roll(image, (13, -21), axis=(0, 1))
    found = register(copies[0], torch.from_numpy(corrupted)[None])[0]
    down, across = phase_cross_correlation(image, corrupted)[0]
    np.testing.assert_allclose(found[:, 2], (across, down), atol=0.05)
    np.testing.assert_allclose(found[:, :2], np.eye(2), atol=1e-3)


def test_images_that_are_not_square_and_images_of_other_sizes_are_registered(rgb):
    for height, width in ((150, 224), (97, 60)):
        image = rgb[0, :height, :width, 0]
        back = map_of(12, 1.1, 6, -4)
        clean, corrupted = (torch.from_numpy(one)[None] for one in (image, move(image, back)))
        found = register(describe_copies(clean), corrupted)[0].numpy()
        pixels, degrees = errors(found, back, (height, width))
        assert pixels < 0.5 and degrees < 0.3


def test_a_very_narrow_image_has_a_visual_change(rgb):
    # too low for a map to be found, but reduced copies of it must not become lines
    image = np.hstack(rgb[[0, 1, 2, 3, 0], 100:121])
    corrupted = np.roll(image, 9, axis=1)
    assert min(levels_of(centered(torch.from_numpy(image[None, ..., 0])))[-1].shape[1:]) >= 3
    assert 0 < ec.delta_v(image, corrupted, ruler="vif-human") <= 1


# ---- what must stay as it is


@pytest.mark.parametrize(
    "name",
    ["gaussian_noise", "defocus_blur", "motion_blur", "zoom_blur", "glass_blur", "snow", "fog",
     "brightness", "contrast", "jpeg_compression"],
)  # fmt: skip
def test_what_moves_nothing_is_not_aligned(rgb, copies, name):
    severity = 1 + 2 * (len(name) % 3)
    corrupted = torch.from_numpy(ec.corrupt(rgb[1:3], name, severity=severity))
    levels = to_gray(corrupted.permute(0, 3, 1, 2))
    for place, image in enumerate(levels):
        assert torch.equal(register(copies[1 + place], image[None]), UNMOVED)


def test_scrambled_phases_and_another_image_are_not_aligned(gray, copies):
    random = np.random.default_rng(3)
    for degrees in (60, 120, 180):
        phases = np.angle(np.fft.fft2(random.normal(size=SIZE))) * degrees / 180
        spectrum = np.fft.fft2(gray[0].numpy()) * np.exp(1j * phases)
        scrambled = torch.from_numpy(eight_bits(np.fft.ifft2(spectrum).real))
        assert torch.equal(register(copies[0], scrambled[None]), UNMOVED)
    assert torch.equal(register(copies[0], gray[1:2]), UNMOVED)
    assert torch.equal(register(copies[0], torch.full_like(gray[:1], 77)), UNMOVED)


# ---- warping, views and motion


def test_sampling_by_a_map_equals_scipy(gray):
    back = map_of(17, 1.2, 9, -5)
    points = moved(centers_of(*SIZE, SIZE, gray.device), as_maps(back))
    sampled = sample(gray[:1].float(), points, SIZE)[0].numpy()
    expected = move(gray[0].numpy(), back).astype(np.float64)
    is_inside = inside(points, SIZE, margin=1.0)[0].numpy()
    assert is_inside.mean() > 0.8
    # SciPy's values are rounded to 8 bits
    np.testing.assert_allclose(sampled[is_inside], expected[is_inside], atol=0.51)


def affine_of(back):
    """The linear part and the offset (x, y) of a map in coordinates of pixels."""
    center = (np.array(SIZE[::-1]) - 1) / 2
    return back[:, :2], center + back[:, 2] - back[:, :2] @ center


def test_cubic_splines_are_those_of_scipy(gray):
    back = map_of(17, 1.2, 9, -5)
    linear, offset = affine_of(back)
    levels = gray[0].numpy().astype(np.float64)
    expected = ndimage.affine_transform(levels, linear[::-1, ::-1], offset[::-1], order=CUBIC)
    points = moved(centers_of(*SIZE, SIZE, gray.device), as_maps(back))
    coefficients = spline_coefficients(gray[:1].float())
    sampled = sample_cubic(coefficients, points, SIZE, spline)[0].numpy()
    is_inside = inside(points, SIZE, margin=3.0)[0].numpy()
    assert is_inside.mean() > 0.8
    np.testing.assert_allclose(sampled[is_inside], expected[is_inside], atol=0.01)


def test_the_sharp_cubic_kernel_is_that_of_pillow(gray):
    back = map_of(-8, 0.9, -3, 6)
    linear, offset = affine_of(back)
    # Pillow counts from the corner of the first pixel, not from its center
    offset = offset + 0.5 - linear @ (0.5, 0.5)
    terms = np.column_stack([linear, offset]).ravel()
    image = Image.fromarray(gray[0].numpy().astype(np.float32))
    expected = image.transform(
        SIZE[::-1], Image.Transform.AFFINE, terms.tolist(), Image.Resampling.BICUBIC
    )
    points = moved(centers_of(*SIZE, SIZE, gray.device), as_maps(back))
    sampled = sample_cubic(gray[:1].float(), points, SIZE, sharp)[0].numpy()
    is_inside = inside(points, SIZE, margin=3.0)[0].numpy()
    assert is_inside.mean() > 0.7
    np.testing.assert_allclose(sampled[is_inside], np.asarray(expected)[is_inside], atol=0.05)


def test_the_visible_share_is_the_area_that_stays_in_the_frame(gray):
    backs = as_maps(map_of(across=56), map_of(scale=2), map_of(scale=0.5), map_of(90))
    corrupted = np.stack([move(gray[0].numpy(), back.numpy()) for back in backs])
    shown, _ = view_of_clean(gray[:1].expand(4, -1, -1), torch.from_numpy(corrupted), backs)
    torch.testing.assert_close(shown.share, shown.share.new_tensor([0.75, 0.25, 1, 1]))


def test_motion_names_what_a_map_was_made_of():
    backs = as_maps(
        map_of(30, 2.0), map_of(across=22.4), map_of(-100, 0.5, is_mirrored=True), np.eye(2, 3)
    )
    motion = motion_of(backs, torch.ones(4), SIZE)
    torch.testing.assert_close(motion.rotation, motion.rotation.new_tensor([30, 0, -100, 0]))
    torch.testing.assert_close(motion.log_scale, motion.shift.new_tensor([1, 0, -1, 0]))
    torch.testing.assert_close(motion.shift, motion.shift.new_tensor([0, 0.1, 0, 0]))
    torch.testing.assert_close(motion.mirror, motion.shift.new_tensor([0, 0, 1, 0]))
    torch.testing.assert_close(motion.shear, torch.zeros(4, dtype=torch.float64))
    stretched = motion_of(as_maps(np.diag([0.25, 1.0]) @ np.eye(2, 3)), torch.ones(1), SIZE)
    assert stretched.shear.item() == pytest.approx(2)


def test_whole_degrees_and_pixels_are_kept_with_and_without_a_mirror():
    for is_mirrored in (False, True):
        whole = map_of(-37, is_mirrored=is_mirrored)
        whole[:, 2] = 5, -8
        near = whole + np.random.default_rng(0).normal(0, 1e-3, (2, 3))
        np.testing.assert_allclose(rounded(as_maps(near))[0], whole, atol=1e-12)


def test_a_larger_motion_never_leaves_more():
    for options in (
        [{"degrees": angle} for angle in (0, 10, 90, 180)],
        [{"scale": scale} for scale in (1, 1.5, 3)],
        [{"across": shift} for shift in (0, 5, 50)],
        [{"shear": shear} for shear in (0, 0.1, 0.5)],
        [{"is_mirrored": flag} for flag in (False, True)],
    ):
        maps = as_maps(*(map_of(**option) for option in options))
        left = MotionPenalty().retained_fraction(motion_of(maps, torch.ones(len(maps)), SIZE))
        assert left[0] == 1 and (left.diff() < 0).all() and (left > 0).all()


# ---- VIF over the visible part


def test_vif_of_what_an_unmoved_image_shows_is_vif(gray):
    noisy = gray + 25 * torch.randn(gray.shape, generator=torch.Generator().manual_seed(1))
    corrupted = noisy.clamp(0, 255).round().to(torch.uint8)
    shown = view(gray[:2], corrupted[:2], identity_maps(2, gray))
    expected = ec.vif(gray[:2, None], corrupted[:2, None])
    torch.testing.assert_close(visible_vif(shown, VCR), expected, rtol=0, atol=1e-12)
