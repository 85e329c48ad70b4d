"""`Corrupt`: the same sample and epoch give the same pixels anywhere; masks and boxes follow."""

import copy
import pickle
import sys

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.stats import binom

import eyechart as ec
from eyechart.integrations.targets import Moves
from loaded_images import LoadedImages, load_epochs

# a motion blur runs in OpenCV, frost reads textures, VCR's corruptions sample in torch
MIXED = ["gaussian_noise", "motion_blur", "vcr/frost", "noc/rotation"]


def mixed_transform():
    return ec.Corrupt(MIXED, severity=(1, 4), p=0.8, seed=5)


def random_images(count, height=32, width=40, seed=0):
    pixels = np.random.default_rng(seed).integers(0, 256, (count, height, width, 3), dtype=np.uint8)
    return pixels


def tensor(images):
    return torch.from_numpy(images).movedim(-1, -3).contiguous()


@pytest.fixture(scope="module")
def expected_epochs():
    """What three epochs must show: `corrupt` on each image with the drawn arguments."""
    transform = mixed_transform()
    images = LoadedImages(transform).images
    epochs = []
    for epoch in range(3):
        transform.set_epoch(epoch)
        arguments = transform.arguments(images)
        assert {None if one is None else one["draw"] for one in arguments} <= {None, epoch}
        epochs.append(
            torch.stack(
                [
                    image if one is None else ec.corrupt(image, **one)
                    for image, one in zip(images, arguments, strict=True)
                ]
            )
        )
    return epochs


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
# this machine may have fewer cores
@pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")
@pytest.mark.parametrize(
    ("workers", "start"),
    [
        (0, None),
        (2, "fork"),
        (4, "fork"),
        (2, "spawn"),
        pytest.param(4, "spawn", marks=pytest.mark.slow),
    ],
)
def test_an_epoch_is_the_same_with_any_number_of_workers(workers, start, expected_epochs):
    loaded = load_epochs(mixed_transform(), workers, start)
    for images, expected in zip(loaded, expected_epochs, strict=True):
        assert torch.equal(images, expected)


def test_two_epochs_differ(expected_epochs):
    first, second, third = expected_epochs
    for one, other in ((first, second), (second, third), (first, third)):
        # two in 25 pairs are both clean
        differs = (one != other).flatten(1).any(dim=1)
        assert differs.float().mean() > 0.7


def test_one_image_looks_different_in_each_epoch():
    transform = ec.Corrupt("gaussian_noise", severity=2)
    image = random_images(1)[0]
    looks = []
    for epoch in range(20):
        transform.set_epoch(epoch)
        looks.append(transform(image).tobytes())
    assert len(set(looks)) == 20


@pytest.mark.parametrize("names", ["vcr", "noc-candidates", "imagenet-c", ["fog", "vcr@paper"]])
@pytest.mark.parametrize("severity", [None, 2.5, (0, 5), "suite"])
def test_pixels_are_those_of_corrupt(names, severity):
    transform = ec.Corrupt(names, severity=severity, seed=3)
    transform.set_epoch(2)
    images = tensor(random_images(6))
    keys = ["a", "b", "c", "d", "e", 6]
    for given in (None, keys):
        arguments = transform.arguments(images, keys=given)
        corrupted = transform(images, keys=given)
        for index, one in enumerate(arguments):
            assert torch.equal(corrupted[index], ec.corrupt(images[index], **one))
        assert not torch.equal(corrupted, images)


def test_parameters_and_their_ranges_are_those_of_corrupt():
    images = tensor(random_images(40))
    transform = ec.Corrupt("noc/rotation", degrees=(10, 20), clockwise=1)
    arguments = transform.arguments(images)
    assert {one["degrees"] for one in arguments} <= set(range(10, 21))
    assert len({one["degrees"] for one in arguments}) > 5
    assert {one["clockwise"] for one in arguments} == {1}
    corrupted = transform(images)
    for image, result, one in zip(images, corrupted, arguments, strict=True):
        assert torch.equal(result, ec.corrupt(image, **one))
    fixed = ec.Corrupt("brightness", amount=0.25)
    assert torch.equal(fixed(images), ec.corrupt(images, "brightness", amount=0.25))


def test_a_batch_equals_single_images():
    transform = ec.Corrupt(["vcr", "noc-candidates"], p=0.7, seed=1)
    images = tensor(random_images(12))
    together = transform(images)
    for image, one in zip(images, together, strict=True):
        assert torch.equal(transform(image), one)
    unit = images / 255
    assert torch.equal(transform(unit), torch.stack([transform(image) for image in unit]))


def test_all_types_of_images_get_the_same_pixels():
    transform = ec.Corrupt(MIXED, seed=2)
    image = random_images(1)[0]
    expected = transform(tensor(image))
    assert expected.dtype == torch.uint8
    array = transform(image)
    assert array.dtype == np.uint8 and np.array_equal(array, expected.movedim(0, -1).numpy())
    result = transform(Image.fromarray(image))
    assert result.mode == "RGB" and np.array_equal(np.asarray(result), array)
    assert np.array_equal(transform(image=image)["image"], array)


def test_p_is_the_share_of_corrupted_images():
    images = torch.randint(0, 256, (3000, 1, 8, 8), generator=torch.Generator().manual_seed(0))
    images = images.to(torch.uint8)
    for p in (0.0, 0.2, 0.75, 1.0):
        transform = ec.Corrupt("brightness", severity=3, p=p, seed=9)
        count = sum(one is not None for one in transform.arguments(images))
        low, high = binom.ppf((1e-4, 1 - 1e-4), len(images), p)
        assert low <= count <= high
        changed = (transform(images) != images).flatten(1).any(dim=1)
        assert int(changed.sum()) == count


def test_all_corruptions_are_equally_likely():
    images = torch.randint(0, 256, (2000, 1, 8, 8), generator=torch.Generator().manual_seed(1))
    transform = ec.Corrupt(["fog", "contrast", "vcr/blur", "noc/rain"])
    drawn = [one["name"] for one in transform.arguments(images.to(torch.uint8))]
    low, high = binom.ppf((1e-4, 1 - 1e-4), len(images), 0.25)
    for name in ("fog", "contrast", "vcr/blur", "noc/rain"):
        assert low <= drawn.count(name) <= high


def test_a_pickled_transform_gives_the_same_pixels():
    transform = mixed_transform()
    transform.set_epoch(7)
    images = tensor(random_images(8))
    for same in (pickle.loads(pickle.dumps(transform)), copy.deepcopy(transform)):
        assert same.epoch == 7 and repr(same) == repr(transform)
        assert torch.equal(same(images), transform(images))
        # a copy has its own epoch
        same.set_epoch(8)
        assert transform.epoch == 7


def test_it_is_a_module_without_weights():
    transform = mixed_transform()
    assert isinstance(transform, torch.nn.Module)
    assert list(transform.parameters()) == [] and transform.state_dict() == {}
    both = torch.nn.Sequential(transform, torch.nn.Identity())
    images = tensor(random_images(3))
    assert torch.equal(both(images), transform(images))
    assert "gaussian_noise" in repr(transform) and "p=0.8" in repr(transform)


def test_samples_keep_their_structure():
    transform = ec.Corrupt("gaussian_noise", severity=3)
    image = tensor(random_images(1)[0])
    result, label = transform(image, torch.tensor(3))
    assert torch.equal(result, transform(image)) and label == 3
    sample = {"label": 4, "image": Image.fromarray(random_images(1)[0]), "ids": torch.arange(3)}
    moved = transform(sample)
    assert list(moved) == list(sample) and moved["label"] == 4
    assert moved["ids"] is sample["ids"] and isinstance(moved["image"], Image.Image)


# --- geometry -----------------------------------------------------------------------------------

HEIGHT, WIDTH = 48, 64
BOX = (20.0, 14.0, 40.0, 30.0)


def rotated(x, y, degrees, clockwise):
    """In image coordinates y points down, so a clockwise angle is positive."""
    angle = np.radians(degrees) * clockwise
    x, y = x - WIDTH / 2, y - HEIGHT / 2
    return (
        np.cos(angle) * x - np.sin(angle) * y + WIDTH / 2,
        np.sin(angle) * x + np.cos(angle) * y + HEIGHT / 2,
    )


def sheared(x, y, degrees, direction):
    return x - np.tan(np.radians(degrees)) * direction * (y - HEIGHT / 2), y


def stretched(x, y, crop, axis):
    if axis == 0:
        return x, (y - crop) * HEIGHT / (HEIGHT - crop)
    return (x - crop) * WIDTH / (WIDTH - crop), y


def translated(x, y, across, down, to_right, to_bottom):
    return x + across * to_right, y + down * to_bottom


def scaled_by(x, y, factor, enlarges):
    zoom = factor**enlarges
    return (x - WIDTH / 2) * zoom + WIDTH / 2, (y - HEIGHT / 2) * zoom + HEIGHT / 2


def flipped(x, y, mirrored):
    return WIDTH - x, y


GEOMETRY = [
    ("noc/rotation", rotated, {"degrees": 20, "clockwise": 1}),
    ("noc/rotation", rotated, {"degrees": 50, "clockwise": -1}),
    ("noc/translation", translated, {"across": 9, "down": 4, "to_right": 1, "to_bottom": -1}),
    ("noc/shear", sheared, {"degrees": 25, "direction": 1}),
    ("noc/shear", sheared, {"degrees": 25, "direction": -1}),
    ("noc/elastic", stretched, {"crop": 10, "axis": 0}),
    ("noc/elastic", stretched, {"crop": 12, "axis": 1}),
    ("geometry/rotate", rotated, {"degrees": 20, "clockwise": 1}),
    ("geometry/shear", sheared, {"degrees": 25, "direction": -1}),
    ("geometry/scale", scaled_by, {"factor": 1.5, "enlarges": -1}),
    ("geometry/mirror", flipped, {"mirrored": 1}),
]


def in_pixels(name, given):
    """Lengths are given for an image of 224 px (docs/reference/suites.md), here of this image."""
    side = min(HEIGHT, WIDTH)
    return {
        key: value * 224 / side if key in ("across", "down", "crop") else value
        for key, value in given.items()
    }


def whole_lengths(name, given):
    """The closest whole lengths at 224 px, and what they are in this image."""
    scaled = {key: round(value) for key, value in in_pixels(name, given).items()}
    actual = dict(scaled)
    for key in ("across", "down", "crop"):
        if key in actual:
            actual[key] = np.floor(scaled[key] * min(HEIGHT, WIDTH) / 224 + 0.5)
    return scaled, actual


def box_mask(box):
    x_min, y_min, x_max, y_max = map(int, box)
    mask = np.zeros((HEIGHT, WIDTH), dtype=np.uint8)
    mask[y_min:y_max, x_min:x_max] = 1
    return mask


@pytest.mark.parametrize(("name", "forward", "given"), GEOMETRY)
def test_boxes_follow_the_closed_form(name, forward, given):
    scaled, actual = whole_lengths(name, given)
    transform = ec.Corrupt(name, **scaled)
    image = random_images(1, HEIGHT, WIDTH)[0]
    result = transform(image=image, bboxes=[(*BOX, "cat"), (0, 0, WIDTH, HEIGHT, "all")])
    for box, (*corners, _) in zip((BOX, (0, 0, WIDTH, HEIGHT)), result["bboxes"], strict=True):
        x = np.array([box[0], box[2], box[2], box[0]])
        y = np.array([box[1], box[1], box[3], box[3]])
        x, y = forward(x, y, **actual)
        x, y = np.clip(x, 0, WIDTH), np.clip(y, 0, HEIGHT)
        assert corners == pytest.approx([x.min(), y.min(), x.max(), y.max()], abs=1e-9)
    assert [box[4] for box in result["bboxes"]] == ["cat", "all"]


@pytest.mark.parametrize(("name", "forward", "given"), GEOMETRY)
def test_a_mask_follows_the_closed_form_and_the_pixels(name, forward, given):
    scaled, actual = whole_lengths(name, given)
    transform = ec.Corrupt(name, **scaled)
    mask = box_mask(BOX)
    # an image that is white where the mask is: the mask must go where its white goes
    image = np.repeat(mask[..., None] * np.uint8(255), 3, axis=2)
    result = transform(image=image, mask=mask, masks=[mask, 1 - mask])
    moved = result["mask"]
    assert moved.dtype == mask.dtype and set(np.unique(moved)) == {0, 1}
    white = result["image"][..., 0] > 127
    if name.startswith("noc/") and name != "noc/elastic":
        # pixels are the nearest ones as well
        assert np.array_equal(moved == 1, white)
    else:
        # bilinear interpolation is gray at the border of the box
        assert np.abs(white.astype(int) - moved).sum() <= BOX[2] - BOX[0]
    assert np.array_equal(result["masks"][0], moved)
    # closed form: a pixel of the box lies where the forward map takes its center
    rows, columns = np.nonzero(mask)
    x, y = forward(columns + 0.5, rows + 0.5, **actual)
    inside = (x > 1) & (x < WIDTH - 1) & (y > 1) & (y < HEIGHT - 1)
    near = np.zeros(inside.sum(), dtype=bool)
    for step_x in (-1, 0, 1):
        for step_y in (-1, 0, 1):
            near |= moved[
                np.floor(y[inside] + step_y).astype(int).clip(0, HEIGHT - 1),
                np.floor(x[inside] + step_x).astype(int).clip(0, WIDTH - 1),
            ].astype(bool)
    assert near.all() and near.size > 100
    # area: the determinant of the map, up to the border of the box
    x, y = forward(np.array([0.0, 1, 0]), np.array([0.0, 0, 1]), **actual)
    area = abs((x[1] - x[0]) * (y[2] - y[0]) - (x[2] - x[0]) * (y[1] - y[0]))
    border = 2 * (BOX[2] - BOX[0] + BOX[3] - BOX[1])
    assert abs(int(moved.sum()) - area * int(mask.sum())) <= border / 2


@pytest.mark.parametrize(("name", "forward", "given"), GEOMETRY)
def test_the_box_of_a_moved_mask_is_within_the_moved_box(name, forward, given):
    scaled, _ = whole_lengths(name, given)
    transform = ec.Corrupt(name, **scaled)
    image = random_images(1, HEIGHT, WIDTH)[0]
    result = transform(image=image, mask=box_mask(BOX), bboxes=np.array([BOX]))
    rows, columns = np.nonzero(result["mask"])
    tight = np.array([columns.min(), rows.min(), columns.max() + 1, rows.max() + 1])
    assert np.abs(tight - result["bboxes"][0]).max() <= 1.5


def test_the_four_maps_are_drawn_per_image_in_a_batch():
    transform = ec.Corrupt(["noc/rotation", "noc/translation", "noc/shear", "fog"], seed=4)
    images = tensor(random_images(10, HEIGHT, WIDTH))
    masks = torch.stack([torch.from_numpy(box_mask(BOX))] * 10)
    together = transform(image=images, mask=masks)
    for image, mask, one in zip(images, masks, together["mask"], strict=True):
        assert torch.equal(transform(image=image, mask=mask)["mask"], one)
    drawn = [one["name"] for one in transform.arguments(images)]
    unchanged = [torch.equal(mask, masks[0]) for mask in together["mask"]]
    assert unchanged == [name == "fog" for name in drawn] and any(unchanged)


def test_other_corruptions_and_clean_images_leave_targets_unchanged():
    image, mask = random_images(1, HEIGHT, WIDTH)[0], box_mask(BOX)
    boxes = [BOX]
    for transform in (ec.Corrupt("zoom_blur"), ec.Corrupt("noc/rotation", p=0)):
        result = transform(image=image, mask=mask, bboxes=boxes, labels=["a"])
        assert result["mask"] is mask and result["bboxes"] is boxes and result["labels"] == ["a"]
    still = ec.Corrupt("noc/rotation", severity=0)(image=image, mask=mask, bboxes=[BOX])
    assert np.array_equal(still["mask"], mask) and still["bboxes"][0] == pytest.approx(BOX)


def test_boxes_keep_their_type_and_the_columns_behind():
    transform = ec.Corrupt("noc/translation", across=28, down=0, to_right=1)
    image = random_images(1, HEIGHT, WIDTH)[0]
    for boxes in (np.array([[*BOX, 7]], dtype=np.int64), torch.tensor([[*BOX, 7]])):
        moved = transform(image=image, bboxes=boxes)["bboxes"]
        assert type(moved) is type(boxes) and moved.dtype == boxes.dtype
        assert moved.tolist() == [[26, 14, 46, 30, 7]]
    outside = ec.Corrupt("noc/translation", across=10_000, down=0, to_right=1)
    assert outside(image=image, bboxes=[BOX])["bboxes"] == [(WIDTH, 14, WIDTH, 30)]


# --- errors -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(names="fogg"), "Did you mean 'fog'"),
        (dict(names=[]), "names is empty"),
        (dict(names=3), "names must be a list, got 3"),
        (dict(names="fog", severity=6), r"severity must be in \[0, 5\], got 6"),
        (dict(names="fog", severity=(4, 2)), "severity must be a range"),
        (dict(names="fog", severity=(1, 2, 3)), "severity must be a number or a range"),
        (dict(names="fog", severity="strong"), 'or "suite" without parameters'),
        (dict(names="fog", severity="suite", thickness=2), 'or "suite" without parameters'),
        (dict(names="fog", p=1.5), r"p must be in \[0, 1\], got 1.5"),
        (dict(names="fog", seed=1.0), "seed must be a whole number"),
        (dict(names="fog", thicc=2), "fog has no parameter 'thicc'"),
        (dict(names="noc/rotation", degrees=(0, 400)), r"degrees must be in \[0, 180\]"),
    ],
)
def test_invalid_arguments_are_rejected(arguments, message):
    with pytest.raises(ec.UsageError, match=message):
        ec.Corrupt(**arguments)


def test_invalid_images_and_targets_are_rejected():
    transform = ec.Corrupt("noc/rotation")
    image = random_images(1, HEIGHT, WIDTH)[0]
    pair = (Image.fromarray(image), Image.fromarray(image))
    for call, message in (
        (lambda: transform(), "Give an image"),
        (lambda: transform("cat.jpg"), "decoded images, not file names"),
        (lambda: transform(mask=box_mask(BOX)), "Give one image"),
        (lambda: transform(*pair), "one image, got 2"),
        (lambda: transform(1, 2), "must hold an image"),
        (lambda: transform(image=image, mask=[1]), "must be a tensor or a NumPy array"),
        (lambda: transform(image=image, mask=box_mask(BOX)[1:]), "as large as its image"),
        (lambda: transform(image=image, bboxes=[(1, 2, 3)]), "four numbers"),
        (lambda: transform(image=image, keypoints=[(1, 2)]), "Key points cannot follow"),
        (lambda: transform(image=image[None][[0, 0]], bboxes=[BOX]), "single image"),
        (lambda: transform.set_epoch(-1), "epoch must be at least 0"),
    ):
        with pytest.raises(ec.UsageError, match=message):
            call()


def test_targets_that_cannot_follow_are_rejected_at_the_first_image():
    transform = ec.Corrupt("imagenet-c", seed=0)
    image = random_images(1)[0]
    assert transform(image=image)["image"].shape == image.shape
    with pytest.raises(ec.UsageError, match="cannot follow elastic_transform"):
        transform(image=image, mask=image[..., 0])


def test_a_missing_albumentations_is_said_with_its_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "albumentations", None)
    with pytest.raises(ec.UsageError, match=r"pip install -e \"\.\[albumentations\]\""):
        ec.Corrupt("fog").as_albumentations()


def test_moves_of_a_batch_without_maps_change_nothing():
    mask = torch.ones(2, 5, 5)
    assert Moves(5, 5, (None, None)).move_mask(mask) is mask
