"""`vif` and `delta_v` at the border; pictures that say nothing; the gradient; the pyramid."""

import warnings

import numpy as np
import pyrtools as pt
import pytest
import torch
from PIL import Image
from scipy.ndimage import gaussian_filter

import eyechart as ec
from calling import photo_levels
from eyechart.visual_change.vif import pyramid
from hard_images import ACROSS, DOWN, eight_bits
from real_images import NAMES, real_images
from vif_reference import BANDS, FILTERS

PYRAMID_DEFINITIONS = ("vif", "sheikh2006")
DEFINITIONS = (*PYRAMID_DEFINITIONS, "vif-pixel")


def noisy(levels, sigma=10.0, seed=0):
    return eight_bits(levels + np.random.default_rng(seed).normal(0, sigma, levels.shape))


CLEAN = photo_levels(60, 48, batch=3).permute(0, 2, 3, 1).numpy()
CORRUPTED = noisy(CLEAN)
VALUES = [ec.vif(*pair) for pair in zip(CLEAN, CORRUPTED, strict=True)]
VALUE = VALUES[0]


def tensors(*arrays):
    return [torch.from_numpy(array.copy()).movedim(-1, -3) for array in arrays]


# ---- kinds


@pytest.mark.parametrize("measure", [ec.vif, ec.delta_v])
def test_batch_tensors_give_a_tensor_with_one_number_per_image(measure):
    result = measure(*tensors(CLEAN, CORRUPTED))
    assert isinstance(result, torch.Tensor)
    assert result.shape == (3,)
    assert result.dtype == torch.float64
    expected = VALUES if measure is ec.vif else 1 - np.array(VALUES)
    np.testing.assert_allclose(result, expected, rtol=1e-12)


def test_a_single_tensor_gives_a_tensor_without_dimensions():
    result = ec.vif(*tensors(CLEAN[0], CORRUPTED[0]))
    assert isinstance(result, torch.Tensor)
    assert result.shape == ()
    assert result.item() == pytest.approx(VALUE, rel=1e-12)


def test_a_batch_array_gives_an_array():
    result = ec.vif(CLEAN, CORRUPTED)
    assert isinstance(result, np.ndarray)
    assert result.shape == (3,)
    np.testing.assert_allclose(result, VALUES, rtol=1e-12)


@pytest.mark.parametrize("kind", [np.array, Image.fromarray])
@pytest.mark.parametrize("measure", [ec.vif, ec.delta_v])
def test_a_single_array_or_image_gives_a_float(measure, kind):
    result = measure(kind(CLEAN[0]), kind(CORRUPTED[0]))
    assert type(result) is float
    expected = VALUE if measure is ec.vif else 1 - VALUE
    assert result == pytest.approx(expected, rel=1e-12)


def test_gray_images_come_with_or_without_a_channel():
    clean, corrupted = CLEAN[0, ..., 1], CORRUPTED[0, ..., 1]
    result = ec.vif(clean, corrupted)
    assert type(result) is float
    assert ec.vif(clean[..., None], corrupted[..., None]) == result
    assert ec.vif(Image.fromarray(clean), Image.fromarray(corrupted)) == result
    assert ec.vif(*tensors(clean[..., None], corrupted[..., None])).item() == result


@pytest.mark.parametrize("sequence", [list, tuple])
def test_lists_may_mix_sizes_and_kinds_and_give_an_array(sequence):
    cleans = [CLEAN[0], CLEAN[1, :40], Image.fromarray(CLEAN[2]), *tensors(CLEAN[1])]
    corrupted = [*tensors(CORRUPTED[0]), CORRUPTED[1, :40], CORRUPTED[2], CORRUPTED[1] / 255]
    result = ec.vif(sequence(cleans), sequence(corrupted))
    assert isinstance(result, np.ndarray)
    expected = [VALUES[0], ec.vif(CLEAN[1, :40], CORRUPTED[1, :40]), VALUES[2], VALUES[1]]
    np.testing.assert_allclose(result, expected, rtol=1e-12)


def test_a_list_takes_one_clean_image_or_statistics_for_all():
    expected = [ec.vif(CLEAN[0], corrupted) for corrupted in CORRUPTED]
    for clean in (CLEAN[0], [CLEAN[0]], ec.clean_statistics(CLEAN[0])):
        np.testing.assert_allclose(ec.vif(clean, list(CORRUPTED)), expected, rtol=1e-12)


def test_statistics_of_a_list_are_those_of_the_batch():
    for statistics in (ec.clean_statistics(list(CLEAN)), ec.clean_statistics(CLEAN)):
        assert len(statistics) == 3
        np.testing.assert_allclose(ec.vif(statistics, CORRUPTED), VALUES, rtol=1e-12)


@pytest.mark.parametrize("ruler", DEFINITIONS)
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.float64])
def test_images_are_left_as_they_were(dtype, ruler):
    images = tensors(CLEAN, CORRUPTED)
    if dtype != torch.uint8:
        images = [image.to(dtype) / 255 for image in images]
    before = [image.clone() for image in images]
    ec.vif(*images, ruler=ruler, differentiable=dtype != torch.uint8)
    ec.delta_v(*images, ruler=ruler)
    assert all(torch.equal(*pair) for pair in zip(images, before, strict=True))


@pytest.mark.parametrize("ruler", DEFINITIONS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_floats_give_exactly_what_8_bits_give(dtype, ruler):
    floats = [(levels / 255).astype(dtype) for levels in (CLEAN, CORRUPTED)]
    result = ec.vif(*floats, ruler=ruler)
    np.testing.assert_array_equal(result, ec.vif(CLEAN, CORRUPTED, ruler=ruler))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_type_may_be_given_as_torchs(dtype):
    name = str(dtype).removeprefix("torch.")
    assert ec.vif(CLEAN[0], CORRUPTED[0], dtype=dtype) == ec.vif(CLEAN[0], CORRUPTED[0], dtype=name)


@pytest.mark.parametrize("ruler", DEFINITIONS)
def test_the_change_says_all_about_each_image_in_kind(ruler):
    for images, kind in (
        ((CLEAN, CORRUPTED), np.ndarray),
        (tensors(CLEAN, CORRUPTED), torch.Tensor),
    ):
        change = ec.measure_change(*images, ruler=ruler)
        assert all(isinstance(value, kind) for value in vars(change).values())
        assert {tuple(value.shape) for value in vars(change).values()} == {(3,)}
        np.testing.assert_array_equal(change.vif, ec.vif(*images, ruler=ruler))
        np.testing.assert_array_equal(change.delta_v, 1 - change.vif)
        assert change.measurable.all()
        assert not change.ill_conditioned.any()
        assert (change.information > 1).all()


# ---- refusals


def broken(value):
    image = CLEAN[0] / 255
    image[5, 6, 1] = value
    return image


STATISTICS = ec.clean_statistics(CLEAN)
FLOATS = torch.rand(2, 3, 32, 32)


@pytest.mark.parametrize(
    ("clean", "corrupted", "options", "sentence"),
    [
        (broken(np.nan), CORRUPTED[0], {}, "NaN"),
        (CLEAN[0], broken(np.nan), {}, "NaN"),
        (CLEAN[0], broken(1.5), {}, "[0, 1]"),
        (CLEAN[0], CORRUPTED[0, :50], {}, "corrupted is 48 × 50; crop or resize"),
        ([CLEAN[0], CLEAN[1]], [CORRUPTED[0], CORRUPTED[1, :, :40]], {}, "the same size"),
        ([CLEAN[0], CLEAN[1, :40]], CORRUPTED[:2], {}, "the same size"),
        (CLEAN[:2], CORRUPTED, {}, "clean has 2 images and corrupted has 3"),
        (CLEAN, CORRUPTED[0], {}, "clean has 3 images and corrupted has 1"),
        (list(CLEAN), list(CORRUPTED[:2]), {}, "clean has 3 images and corrupted has 2"),
        (STATISTICS, CORRUPTED[:2], {}, "clean has 3 images and corrupted has 2"),
        (STATISTICS, CORRUPTED[:, :50], {}, "corrupted is 48 × 50; crop or resize"),
        (STATISTICS, list(CORRUPTED[:, :50]), {}, "corrupted is 48 × 50; crop or resize"),
        (STATISTICS, CORRUPTED, {"ruler": "sheikh2006"}, "ruler='vif'"),
        (STATISTICS, CORRUPTED, {"ruler": "vif-pixel"}, "for the ruler 'vif', not 'vif-pixel'"),
        (CLEAN, CORRUPTED, {"ruler": "shiekh2006"}, "Did you mean 'sheikh2006'"),
        (CLEAN, CORRUPTED, {"ruler": None}, "ruler must be a name"),
        (CLEAN, CORRUPTED, {"dtype": "float16"}, "dtype must be float32 or float64, got float16"),
        (CLEAN, CORRUPTED, {"dtype": torch.int32}, "dtype must be float32 or float64"),
        (CLEAN, CORRUPTED, {"differentiable": True}, "needs float tensors"),
        (CLEAN / 255, CORRUPTED / 255, {"differentiable": True}, "needs float tensors"),
        (tensors(CLEAN)[0], FLOATS, {"differentiable": True}, "convert clean first"),
        (FLOATS, tensors(CLEAN)[0], {"differentiable": True}, "convert corrupted first"),
        (list(FLOATS), list(FLOATS), {"differentiable": True}, "A list has no gradient"),
        ([], [], {}, "empty"),
        (CLEAN[0], [], {}, "corrupted is empty"),
        ([], CORRUPTED[0], {}, "clean is empty"),
        ("clean.png", CORRUPTED[0], {}, "PIL.Image.open"),
        (CLEAN[0], "corrupted.png", {}, "PIL.Image.open"),
        (["clean.png"], ["corrupted.png"], {}, "PIL.Image.open"),
        (CLEAN[0], None, {}, "got NoneType"),
        (CLEAN[0], STATISTICS, {}, "must be the first argument"),
        ([CLEAN[:2]], [CORRUPTED[:2]], {}, "single images, not batches"),
    ],
)
@pytest.mark.parametrize("measure", [ec.vif, ec.delta_v])
def test_what_cannot_be_compared_is_rejected_in_one_sentence(
    measure, clean, corrupted, options, sentence
):
    with pytest.raises(ec.UsageError) as error:
        measure(clean, corrupted, **options)
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("clean", "options", "sentence"),
    [
        ([CLEAN[0], CLEAN[1, :40]], {}, "the same size"),
        (CLEAN, {"ruler": "vfi"}, "Did you mean 'vif'"),
        (CLEAN, {"dtype": "double"}, "dtype must be float32 or float64"),
        (CLEAN[0, :17], {}, "at least 18 px"),
        ([], {}, "clean is empty"),
        (broken(np.nan), {}, "NaN"),
    ],
)
def test_images_without_statistics_are_rejected_in_one_sentence(clean, options, sentence):
    with pytest.raises(ec.UsageError) as error:
        ec.clean_statistics(clean, **options)
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


# ---- clean pictures that say nothing


def constant_but_for(levels):
    image = np.full((224, 224), 128, np.uint8)
    image[100, 90] += levels
    return image


def dither():
    return eight_bits(128 + (np.random.default_rng(1).random((224, 224)) < 0.5))


def grating(place, period):
    return eight_bits(128 + 100 * np.cos(2 * np.pi * place / period))


def barcode(pixels_off=0):
    numbers = np.random.default_rng(3)
    bars = np.repeat(np.random.default_rng(2).random(56) < 0.5, 4)
    levels = eight_bits(np.broadcast_to(255 * bars, (224, 224)))
    levels[numbers.integers(0, 224, pixels_off), numbers.integers(0, 224, pixels_off)] ^= 1
    return levels


NEARLY_CONSTANT = {
    "constant": constant_but_for(0),
    "one pixel off by 1": constant_but_for(1),
    "one pixel off by 127": constant_but_for(127),
    "dither": dither(),
}
GRATINGS = {
    f"grating {axis}, {period} px": grating(place, period)
    for axis, place in (("across", ACROSS), ("down", DOWN))
    for period in (4, 8, 16)
}
BARCODES = {f"barcode, {count} pixels off by 1": barcode(count) for count in (0, 1, 4)}
SAYS_NOTHING = NEARLY_CONSTANT | GRATINGS | BARCODES


def assert_says_nothing(clean, **options):
    corrupted = noisy(clean)
    with pytest.warns(ec.LowInformationWarning, match="too little information"):
        assert np.isnan(ec.delta_v(clean, corrupted, **options))
    change = ec.measure_change(clean, corrupted, **options)
    assert not change.measurable[0]
    assert np.isfinite(change.vif[0])


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("ruler", PYRAMID_DEFINITIONS)
@pytest.mark.parametrize("name", SAYS_NOTHING)
def test_visual_change_of_an_image_that_says_nothing_is_not_a_number(name, ruler, dtype):
    assert_says_nothing(SAYS_NOTHING[name], ruler=ruler, dtype=dtype)


@pytest.mark.parametrize("name", NEARLY_CONSTANT)
def test_a_nearly_constant_image_says_nothing_in_pixels_either(name):
    assert_says_nothing(NEARLY_CONSTANT[name], ruler="vif-pixel")


@pytest.mark.parametrize("level", [0, 77, 255])
@pytest.mark.parametrize("ruler", DEFINITIONS)
def test_vif_of_a_constant_image_is_1_whatever_became_of_it(ruler, level):
    clean = np.full((60, 75), level, np.uint8)
    for corrupted in (clean, noisy(clean, 60), np.full_like(clean, 128)):
        assert ec.vif(clean, corrupted, ruler=ruler) == 1.0


def test_a_warning_says_how_many_of_a_batch_say_nothing():
    cleans = np.stack([real_images()[0].mean(axis=2).astype(np.uint8), dither(), barcode()])
    with pytest.warns(ec.LowInformationWarning, match="NaN for 2 of 3") as caught:
        result = ec.delta_v(cleans[..., None], noisy(cleans)[..., None])
    assert len(caught) == 1
    assert caught[0].filename == __file__
    np.testing.assert_array_equal(np.isnan(result), [False, True, True])


def test_only_visual_change_warns():
    clean = dither()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ec.vif(clean, noisy(clean))
        ec.measure_change(clean, noisy(clean))
        ec.clean_statistics(clean)


def dimmed(photo):
    return eight_bits(0.05 * photo)


def strongly_blurred(photo):
    return eight_bits(gaussian_filter(photo.astype(np.float64), (6, 6, 0)))


@pytest.mark.parametrize("change", [np.array, dimmed, strongly_blurred])
@pytest.mark.parametrize("ruler", PYRAMID_DEFINITIONS)
@pytest.mark.parametrize("place", range(4), ids=NAMES)
def test_images_can_be_measured_even_dim_or_blurred_ones(place, ruler, change):
    clean = change(real_images()[place])
    lost = ec.delta_v(clean, noisy(clean), ruler=ruler)
    assert 0 < lost < 1


# ---- gradient


def small_pair(channels=1):
    clean = photo_levels(48, 48, batch=1, channels=channels).to(torch.float64) / 255
    noise = torch.from_numpy(np.random.default_rng(4).normal(0, 0.08, clean.shape))
    return clean, (clean + noise).clamp(0.01, 0.99)


@pytest.mark.parametrize("ruler", DEFINITIONS)
@pytest.mark.parametrize("channels", [1, 3])
def test_the_gradient_is_that_of_finite_differences(channels, ruler):
    clean, corrupted = small_pair(channels)

    def value(images):
        return ec.vif(clean, images, ruler=ruler, differentiable=True)

    wanted = corrupted.clone().requires_grad_()
    value(wanted).sum().backward()
    numbers = np.random.default_rng(6)
    for _ in range(6):
        place = (0, numbers.integers(channels), *numbers.integers(0, 48, 2))
        step = torch.zeros_like(corrupted)
        step[place] = 1e-5
        slope = (value(corrupted + step) - value(corrupted - step)).item() / 2e-5
        assert wanted.grad[place].item() == pytest.approx(slope, rel=1e-4, abs=1e-7)
    assert wanted.grad.abs().max() > 1e-3


def test_visual_change_falls_as_vif_rises():
    clean, corrupted = small_pair()
    slopes = []
    for measure in (ec.vif, ec.delta_v):
        wanted = corrupted.clone().requires_grad_()
        measure(clean, wanted, differentiable=True).sum().backward()
        slopes.append(wanted.grad)
    assert torch.equal(slopes[0], -slopes[1])


def test_a_batch_has_the_gradient_of_each_image():
    clean = photo_levels(72, 80, batch=4).to(torch.float64) / 255
    corrupted = torch.from_numpy(noisy(clean.numpy() * 255, 25)) / 255
    together = corrupted.clone().requires_grad_()
    ec.vif(clean, together, differentiable=True).sum().backward()
    for place in range(4):
        alone = corrupted[place].clone().requires_grad_()
        ec.vif(clean[place], alone, differentiable=True).backward()
        assert alone.grad.abs().max() > 1e-4
        torch.testing.assert_close(together.grad[place], alone.grad, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("ruler", DEFINITIONS)
def test_without_rounding_the_value_is_the_same_for_whole_gray_levels(ruler):
    clean, corrupted = tensors(CLEAN[..., :1], CORRUPTED[..., :1])
    floats = [levels.to(torch.float64) / 255 for levels in (clean, corrupted)]
    result = ec.vif(*floats, ruler=ruler, differentiable=True)
    expected = ec.vif(clean, corrupted, ruler=ruler)
    torch.testing.assert_close(result, expected, rtol=0, atol=1e-9)


def half_flat(image):
    image = image.clone()
    image[..., :24, :] = 0.5
    return image


@pytest.mark.parametrize("ruler", DEFINITIONS)
@pytest.mark.parametrize(
    ("change_clean", "change_corrupted"),
    [
        (torch.clone, half_flat),
        (half_flat, torch.clone),
        (half_flat, half_flat),
        (torch.clone, torch.zeros_like),
        (torch.zeros_like, torch.clone),
        (torch.zeros_like, torch.zeros_like),
    ],
)
@pytest.mark.parametrize("same", [False, True])
def test_the_gradient_is_finite_where_images_are_flat_or_equal(
    change_clean, change_corrupted, ruler, same
):
    clean, corrupted = small_pair()
    wanted = change_corrupted(clean if same else corrupted).requires_grad_()
    result = ec.vif(change_clean(clean), wanted, ruler=ruler, differentiable=True)
    result.sum().backward()
    assert result.isfinite().all()
    assert wanted.grad.isfinite().all()


# ---- the pyramid


def test_the_filters_are_those_of_pyrtools():
    np.testing.assert_array_equal(pyramid.FIRST_LOW, FILTERS["lo0filt"])
    np.testing.assert_array_equal(pyramid.LOW, FILTERS["lofilt"])
    np.testing.assert_array_equal(pyramid.ACROSS, BANDS[0])
    np.testing.assert_array_equal(pyramid.DOWN, -BANDS[1])


@pytest.mark.parametrize("size", [(224, 224), (151, 200), (73, 99)])
def test_the_bands_are_those_of_pyrtools(size):
    gray = photo_levels(*size, batch=1, channels=1)[:, 0]
    expected = pt.pyramids.SteerablePyramidSpace(
        gray[0].numpy().astype(np.float64), height=4, order=5
    )
    for level, bands in enumerate(pyramid.subbands(gray, 4, torch.float64)):
        height, width = bands.shape[2:]
        for own, orientation, sign in zip(bands[0], (0, 3), (1, -1), strict=True):
            full = sign * expected.pyr_coeffs[level, orientation]
            assert (height, width) == tuple(side // 3 * 3 for side in full.shape)
            np.testing.assert_allclose(own, full[:height, :width], rtol=0, atol=1e-10)


@pytest.mark.parametrize(("size", "scales"), [((224, 224), 4), ((151, 200), 4), ((18, 35), 2)])
def test_torch_gives_the_bands_of_opencv(monkeypatch, size, scales):
    gray = photo_levels(*size, channels=1)[:, 0]
    by_opencv = pyramid.subbands(gray, scales, torch.float64)
    monkeypatch.setattr(pyramid, "uses_opencv", lambda images: False)
    by_torch = pyramid.subbands(gray, scales, torch.float64)
    for one, two in zip(by_opencv, by_torch, strict=True):
        torch.testing.assert_close(one, two, rtol=0, atol=1e-10)


@pytest.mark.parametrize("ruler", PYRAMID_DEFINITIONS)
def test_torch_gives_the_vif_of_opencv(monkeypatch, ruler):
    by_opencv = ec.vif(CLEAN, CORRUPTED, ruler=ruler)
    monkeypatch.setattr(pyramid, "uses_opencv", lambda images: False)
    by_torch = ec.vif(CLEAN, CORRUPTED, ruler=ruler)
    np.testing.assert_allclose(by_torch, by_opencv, rtol=0, atol=1e-10)
