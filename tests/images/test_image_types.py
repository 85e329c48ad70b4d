"""The public border: what goes in comes back in kind, and what cannot is refused in a sentence."""

import numpy as np
import pytest
import torch
from PIL import Image

import eyechart as ec
from eyechart.images.image_types import to_batch

NUMBERS = np.random.default_rng(0)
COLOR = NUMBERS.integers(0, 256, (16, 12, 3), dtype=np.uint8)
GRAY = COLOR[..., 0].copy()
BATCH = NUMBERS.integers(0, 256, (2, 16, 12, 3), dtype=np.uint8)


def noisy(images, **options):
    return ec.corrupt(images, "gaussian_noise", severity=3, **options)


def with_value(value):
    """Return an image of 0.5 with one other value."""
    image = np.full((16, 16, 3), 0.5, np.float32)
    image[0, 0, 0] = value
    return image


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(2, 3, 16, 12), (2, 1, 16, 12), (3, 16, 12), (1, 16, 12)])
def test_tensors_come_back_in_kind_and_are_left_alone(dtype, shape):
    images = torch.rand(shape)
    images = (images * 255).to(dtype) if dtype == torch.uint8 else images.to(dtype)
    before = images.clone()
    result = noisy(images)
    assert isinstance(result, torch.Tensor)
    assert result.dtype == dtype
    assert result.shape == images.shape
    assert torch.equal(images, before)
    assert not torch.equal(result, images)
    if dtype != torch.uint8:
        assert result.min() >= 0
        assert result.max() <= 1


class Labeled(torch.Tensor):
    """A tensor of its own class, which operations turn into plain ones, as torchvision's are."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(2, 3, 16, 12), (3, 16, 12)])
def test_tensors_of_a_class_of_their_own_keep_it(dtype, shape):
    plain = (torch.rand(shape) * (255 if dtype == torch.uint8 else 1)).to(dtype)
    images = plain.as_subclass(Labeled)
    assert type(images + 0) is torch.Tensor
    result = noisy(images)
    assert type(result) is Labeled and result.dtype == dtype and result.shape == shape
    assert torch.equal(result.as_subclass(torch.Tensor), noisy(plain))
    assert type(images) is Labeled and torch.equal(images.as_subclass(torch.Tensor), plain)


def test_a_list_may_mix_classes_of_tensors():
    plain = torch.from_numpy(COLOR).permute(2, 0, 1).contiguous()
    one, two, three = noisy([plain.as_subclass(Labeled), plain, COLOR])
    assert (type(one), type(two), type(three)) == (Labeled, torch.Tensor, np.ndarray)
    assert torch.equal(one.as_subclass(torch.Tensor), two)


def test_a_parameter_comes_back_as_a_plain_tensor():
    assert type(noisy(torch.nn.Parameter(torch.rand(3, 16, 12)))) is torch.Tensor


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
@pytest.mark.parametrize("images", [GRAY, GRAY[..., None], COLOR, BATCH, BATCH[..., :1]])
def test_arrays_come_back_in_kind_and_are_left_alone(dtype, images):
    images = images.copy() if dtype == np.uint8 else (images / 255).astype(dtype)
    before = images.copy()
    result = noisy(images)
    assert isinstance(result, np.ndarray)
    assert result.dtype == dtype
    assert result.shape == images.shape
    assert np.array_equal(images, before)
    assert not np.array_equal(result, images)


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
@pytest.mark.parametrize(
    "images", [GRAY, GRAY[..., None], BATCH[..., :1], COLOR.transpose(2, 0, 1).copy()]
)
def test_a_batch_never_shares_memory_with_an_array(dtype, images):
    images = images.copy() if dtype == np.uint8 else (images / 255).astype(dtype)
    if images.shape[0] == 3:
        # seen as (H, W, C), but stored plane by plane
        images = images.transpose(1, 2, 0)
    before = images.copy()
    batch, _ = to_batch(images)
    batch.zero_()
    assert np.array_equal(images, before)


@pytest.mark.parametrize(("levels", "mode"), [(COLOR, "RGB"), (GRAY, "L")])
def test_images_come_back_in_kind(levels, mode):
    result = noisy(Image.fromarray(levels))
    assert isinstance(result, Image.Image)
    assert result.mode == mode
    assert result.size == (12, 16)
    assert np.array_equal(np.array(result), noisy(levels))


def test_all_kinds_get_the_same_pixels():
    array = noisy(COLOR)
    tensor = noisy(torch.from_numpy(COLOR).permute(2, 0, 1))
    assert np.array_equal(tensor.permute(1, 2, 0).numpy(), array)


def test_arrays_in_unusual_memory_order_are_taken():
    turned = COLOR[::-1, :, ::-1]
    assert np.array_equal(noisy(turned), noisy(turned.copy()))
    frozen = COLOR.copy()
    frozen.flags.writeable = False
    assert np.array_equal(noisy(frozen), noisy(COLOR))


def test_lists_may_mix_sizes_and_kinds():
    small = torch.rand(3, 8, 8)
    images = [COLOR, small, Image.fromarray(GRAY), COLOR[:10]]
    results = noisy(images, keys=["a", "b", "c", "d"])
    assert isinstance(results, list)
    assert [type(result) for result in results] == [
        np.ndarray,
        torch.Tensor,
        Image.Image,
        np.ndarray,
    ]
    alone = [noisy(image, keys=[key]) for image, key in zip(images, "abcd", strict=True)]
    assert np.array_equal(results[0], alone[0])
    assert torch.equal(results[1], alone[1])
    assert np.array_equal(np.array(results[2]), np.array(alone[2]))
    assert np.array_equal(results[3], alone[3])


def test_lists_take_one_strength_per_image():
    results = ec.corrupt([COLOR, COLOR[:10], COLOR], "fog", severity=[0, 2, 5])
    assert np.array_equal(results[0], COLOR)
    assert np.array_equal(results[2], ec.corrupt(COLOR, "fog", severity=5))


def nan_image():
    image = torch.rand(1, 3, 16, 16)
    image[0, 1, 2, 3] = torch.nan
    return image


@pytest.mark.parametrize(
    ("images", "sentence"),
    [
        (nan_image(), "NaN"),
        (torch.empty(0, 3, 16, 16), "empty"),
        (torch.empty(0, 3, 16, 16, dtype=torch.uint8), "empty"),
        (np.empty((0, 16, 16, 3), np.uint8), "empty"),
        ([], "empty"),
        (torch.rand(1, 2, 16, 16), "1 (gray) or 3 (RGB) channels, got 2"),
        (np.zeros((16, 16, 2), np.uint8), "channels, got 2"),
        (np.zeros((16, 16, 4), np.uint8), "channels, got 4"),
        (torch.zeros(1, 3, 16, 16, dtype=torch.int64), "uint8 or float, got torch.int64"),
        (np.zeros((16, 16, 3), np.int64), "uint8 or float, got int64"),
        (np.zeros((16, 16, 3), bool), "uint8 or float, got bool"),
        (torch.full((1, 3, 16, 16), 255.0), "[0, 1]"),
        (np.full((16, 16, 3), -0.5), "[0, 1]"),
        (with_value(1.0000001), "must be in [0, 1], got values from 0.5 to 1.0000001; clip them."),
        (with_value(-1e-9), "must be in [0, 1], got values from -1e-09 to 0.5; undo their"),
        (with_value(255), "must be in [0, 1], got values from 0.5 to 255; divide by 255"),
        (with_value(float("inf")), "must be in [0, 1], got values from 0.5 to inf; clip them."),
        (with_value(float("nan")), "images contain NaN"),
        (torch.rand(1, 3, 7, 16), "at least 8 px"),
        (np.zeros((16, 7, 3), np.uint8), "at least 8 px"),
        (torch.rand(16, 16), "(C, H, W)"),
        (torch.rand(1, 1, 3, 16, 16), "5 dimensions"),
        (Image.new("RGBA", (16, 16)), "RGB or L, got RGBA"),
        (Image.new("P", (16, 16)), "RGB or L, got P"),
        ("photo.png", "PIL.Image.open"),
        (None, "got NoneType"),
        ([torch.rand(2, 3, 16, 16)], "single images"),
    ],
)
def test_what_cannot_be_used_is_rejected_in_one_sentence(images, sentence):
    with pytest.raises(ec.UsageError) as error:
        noisy(images)
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"name": "gausian_noise", "severity": 3}, "Did you mean 'gaussian_noise'"),
        ({"name": "gaussian_noise", "severity": 5.1}, "severity must be in [0, 5], got 5.1"),
        ({"name": "gaussian_noise", "severity": float("nan")}, "severity must be in [0, 5]"),
        ({"name": "gaussian_noise", "severity": [1, 2]}, "one per image (1)"),
        ({"name": "gaussian_noise", "severity": "high"}, "severity must be a number"),
        ({"name": "gaussian_noise", "sigma": 3.0}, "sigma must be in [0, 1], got 3."),
        ({"name": "gaussian_noise", "sigma": 1.0000001}, "in [0, 1], got 1.0000001."),
        ({"name": "gaussian_noise", "severity": 5.0000001}, "in [0, 5], got 5.0000001."),
        ({"name": "gaussian_noise", "sgma": 0.1}, "no parameter 'sgma'"),
        ({"name": "gaussian_noise"}, "Give a strength"),
        ({"severity": 3}, "Give the name"),
        ({"name": "fog", "corruption_name": "fog", "severity": 3}, "not both"),
        ({"name": "fog", "severity": 3, "keys": ["a", "b"]}, "2 keys for 1 image."),
        ({"name": "fog", "severity": 3, "variant": "paper"}, "no variant 'paper'"),
    ],
)
def test_bad_settings_are_rejected_in_one_sentence(options, sentence):
    with pytest.raises(ec.UsageError) as error:
        ec.corrupt(COLOR, **options)
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


def test_callers_of_imagecorruptions_change_one_import():
    assert np.array_equal(
        ec.corrupt(COLOR, corruption_name="fog", severity=3), ec.corrupt(COLOR, "fog", severity=3)
    )


@pytest.mark.parametrize("given", [1.5, 1.0, "1", None, True, float("nan"), [1]])
@pytest.mark.parametrize("name", ["seed", "draw"])
def test_seed_and_draw_are_whole_numbers(name, given):
    # 1.0 would silently give other random numbers than 1
    image = np.zeros((16, 16, 3), np.uint8)
    with pytest.raises(ec.UsageError, match=f"{name} must be a whole number"):
        ec.corrupt(image, "fog", severity=1, **{name: given})


def test_seeds_of_64_bits_and_numpys_are_taken_and_larger_ones_rejected():
    image = np.full((16, 16, 3), 90, np.uint8)
    results = [
        ec.corrupt(image, "fog", severity=1, seed=seed) for seed in (-3, 0, 2**63 - 1, np.int64(7))
    ]
    with pytest.raises(ec.UsageError, match="below 2⁶³"):
        ec.corrupt(image, "fog", severity=1, seed=2**63)
    assert len({result.tobytes() for result in results}) == 4
    assert np.array_equal(results[3], ec.corrupt(image, "fog", severity=1, seed=7))


def test_a_strength_without_its_name_is_asked_for():
    image = np.zeros((16, 16, 3), np.uint8)
    with pytest.raises(ec.UsageError, match="severity=3"):
        ec.corrupt(image, "fog", 3)


@pytest.mark.parametrize("given", ["3", None, True, [None], {}])
def test_what_is_no_number_is_no_severity(given):
    image = np.zeros((16, 16, 3), np.uint8)
    with pytest.raises(ec.UsageError):
        ec.corrupt(image, "fog", severity=given)


def test_an_image_that_pil_cannot_decode_is_one_sentence(tmp_path):
    path = tmp_path / "cut.png"
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)).save(path)
    path.write_bytes(path.read_bytes()[:500])
    with Image.open(path) as image, pytest.raises(ec.UsageError, match="cannot be read"):
        ec.corrupt(image, "fog", severity=1)


@pytest.mark.parametrize("keys", ["x", 5, ["a", "b"], []])
def test_keys_are_a_list_with_one_for_each_image(keys):
    with pytest.raises(ec.UsageError, match="keys must"):
        ec.corrupt(np.zeros((16, 16, 3), np.uint8), "fog", severity=1, keys=keys)


def test_a_file_name_that_is_no_text_can_be_a_key():
    image = np.full((16, 16, 3), 90, np.uint8)
    first, again, other = (
        ec.corrupt(image, "fog", severity=1, keys=[name])
        for name in ("photo\udcff.png", "photo\udcff.png", "photo\udcfe.png")
    )
    assert np.array_equal(first, again) and not np.array_equal(first, other)


@pytest.mark.parametrize(
    "tensor", [torch.zeros(3, 16, 16).to_sparse(), torch.zeros(3, 16, 16, device="meta")]
)
def test_tensors_without_plain_values_are_rejected(tensor):
    with pytest.raises(ec.UsageError, match="dense"):
        ec.corrupt(tensor, "fog", severity=1)


def test_a_call_of_imagecorruptions_means_the_same_here():
    image = np.random.default_rng(0).integers(0, 256, (32, 32, 3), np.uint8)
    expected = ec.corrupt(image, "fog", severity=1)
    assert np.array_equal(ec.corrupt(image, corruption_name="fog"), expected)
    assert np.array_equal(ec.corrupt(image, severity=1, corruption_name="fog"), expected)
    with pytest.raises(ec.UsageError, match="not both"):
        ec.corrupt(image, "fog", corruption_name="fog")
