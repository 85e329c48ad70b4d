"""`Corrupt` beside torchvision v2: types of samples, and torchvision's own geometry to a pixel.

Runs where torchvision is installed: `python -m pytest tests/torchvision_check`, or without pytest
`PYTHONPATH=src python tests/torchvision_check/check.py`.
"""

import sys
from collections.abc import Callable

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.nn.functional import max_pool2d
from torchvision import tv_tensors
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional

import eyechart as ec

SIDE = 224  # lengths in px are given for this side
HEIGHT, WIDTH = SIDE, 300
BOXES = torch.tensor([[60.0, 50.0, 170.0, 140.0], [10.0, 20.0, 60.0, 200.0], [0, 0, WIDTH, HEIGHT]])


def smooth_image() -> Tensor:
    """Waves: a shift of a pixel changes them a little, and another geometry a lot."""
    x, y = torch.arange(WIDTH), torch.arange(HEIGHT)[:, None]
    waves = [torch.sin(x / 9 + y / 17), torch.cos(y / 8 - x / 23), torch.sin((x + y) / 13)]
    return torch.stack([(wave * 100 + 128) for wave in waves]).to(torch.uint8)


def sample_of(box_format: str = "XYXY") -> dict[str, object]:
    boxes = tv_tensors.BoundingBoxes(BOXES, format="XYXY", canvas_size=(HEIGHT, WIDTH))
    mask = torch.zeros(2, HEIGHT, WIDTH, dtype=torch.uint8)
    mask[0, 50:140, 60:170] = 1
    mask[1, 20:200, 10:60] = 1
    return {
        "image": tv_tensors.Image(smooth_image()),
        "boxes": functional.convert_bounding_box_format(
            boxes, new_format=tv_tensors.BoundingBoxFormat[box_format]
        ),
        "mask": tv_tensors.Mask(mask),
        "label": 3,
        "scores": torch.arange(4.0),
    }


def affine(**given: object) -> Callable[[object], object]:
    settings = {"angle": 0.0, "translate": [0, 0], "scale": 1.0, "shear": [0.0, 0.0], **given}
    return lambda value: functional.affine(value, **settings)


def crop_left(value: object) -> object:
    return functional.resized_crop(value, 0, 60, HEIGHT, WIDTH - 60, [HEIGHT, WIDTH])


def crop_top(value: object) -> object:
    return functional.resized_crop(value, 44, 0, HEIGHT - 44, WIDTH, [HEIGHT, WIDTH])


CASES = {
    "rotation clockwise": (
        ec.Corrupt("noc/rotation", degrees=20, clockwise=1),
        lambda value: functional.rotate(value, -20.0),
    ),
    "rotation counterclockwise": (
        ec.Corrupt("noc/rotation", degrees=35, clockwise=-1),
        lambda value: functional.rotate(value, 35.0),
    ),
    "translation": (
        ec.Corrupt("noc/translation", across=31, down=12, to_right=-1, to_bottom=1),
        affine(translate=[-31, 12]),
    ),
    "shear": (ec.Corrupt("noc/shear", degrees=25, direction=1), affine(shear=[25.0, 0.0])),
    "shear back": (ec.Corrupt("noc/shear", degrees=12, direction=-1), affine(shear=[-12.0, 0.0])),
    "scale across": (ec.Corrupt("noc/elastic", crop=60, axis=1), crop_left),
    "scale down": (ec.Corrupt("noc/elastic", crop=44, axis=0), crop_top),
}


def widen(planes: Tensor) -> Tensor:
    """Return the maximum over each pixel and its eight neighbors."""
    return max_pool2d(planes.as_subclass(Tensor)[None].float(), 3, 1, 1)[0]


def check_geometry_is_that_of_torchvision() -> None:
    sample = sample_of()
    for title, (transform, other) in CASES.items():
        result = transform(sample)
        boxes = functional.clamp_bounding_boxes(other(sample["boxes"]))
        distance = float((result["boxes"] - boxes).abs().max())
        assert distance <= 1, f"{title}: boxes differ by {distance} px"
        mask = other(sample["mask"])
        # each differing pixel has a neighbor that agrees
        assert bool((result["mask"] <= widen(mask)).all()), title
        assert bool((mask <= widen(result["mask"])).all()), title
        assert not torch.equal(result["mask"], sample["mask"]), title
        image = other(sample["image"])
        # away from black borders, a pixel lies between the smallest and the largest neighbor
        low, high = 255 - widen(255 - image.int()), widen(image)
        inside = (low > 0).all(dim=0)
        values = result["image"].float()
        # bilinear interpolation with and without antialiasing may round differently
        misses = ((values < low - 1) | (values > high + 1)).any(dim=0) & inside
        assert int(inside.sum()) > HEIGHT * WIDTH / 4, title
        assert int(misses.sum()) == 0, f"{title}: {int(misses.sum())} pixels lie elsewhere"


def check_types_are_kept() -> None:
    sample = sample_of()
    for names in ("noc/rotation", "gaussian_noise"):
        result = ec.Corrupt(names)(sample)
        assert list(result) == list(sample)
        for name in ("image", "boxes", "mask"):
            assert type(result[name]) is type(sample[name]), name
            assert result[name].dtype == sample[name].dtype, name
            assert result[name].shape == sample[name].shape, name
        assert result["boxes"].format == sample["boxes"].format
        assert result["boxes"].canvas_size == (HEIGHT, WIDTH)
        assert result["label"] == 3 and result["scores"] is sample["scores"]
        assert not torch.equal(result["image"], sample["image"])
    for name in ("boxes", "mask"):
        # noise does not move anything
        assert torch.equal(result[name], sample[name])


def check_formats_of_boxes_agree() -> None:
    transform = ec.Corrupt("noc/rotation", degrees=30, clockwise=1)
    expected = transform(sample_of())["boxes"]
    for name in ("XYWH", "CXCYWH"):
        moved = transform(sample_of(name))["boxes"]
        assert moved.format.name == name
        back = functional.convert_bounding_box_format(
            moved, new_format=tv_tensors.BoundingBoxFormat.XYXY
        )
        assert float((back - expected).abs().max()) < 1e-3


def check_compose() -> None:
    transform = ec.Corrupt(["fog", "noc/rotation"], seed=1)
    compose = v2.Compose(
        [v2.RandomHorizontalFlip(p=1), transform, v2.ToDtype(torch.float32, scale=True)]
    )
    image, boxes, label = compose(sample_of()["image"], sample_of()["boxes"], 3)
    flipped = functional.horizontal_flip(sample_of()["image"])
    expected = transform(flipped).to(torch.float32) / 255
    assert isinstance(image, tv_tensors.Image) and image.dtype == torch.float32
    assert torch.allclose(image, expected, atol=1e-6)
    assert isinstance(boxes, tv_tensors.BoundingBoxes) and label == 3
    pil = Image.fromarray(smooth_image().movedim(0, -1).numpy())
    tensor = v2.Compose([transform, v2.PILToTensor()])(pil)
    assert torch.equal(tensor, transform(smooth_image()))


def check_what_cannot_follow_is_rejected() -> None:
    cases = [
        (ec.Corrupt("elastic_transform"), sample_of()),
        (ec.Corrupt("fog"), tv_tensors.Video(smooth_image()[None])),
    ]
    if hasattr(tv_tensors, "KeyPoints"):
        points = tv_tensors.KeyPoints(torch.ones(2, 2), canvas_size=(HEIGHT, WIDTH))
        cases.append((ec.Corrupt("noc/shear"), (smooth_image(), points)))
    for transform, sample in cases:
        try:
            transform(sample)
        except ec.UsageError:
            continue
        raise AssertionError(f"{transform} accepted what cannot follow")


def check_cuda_gives_the_same() -> None:
    if not torch.cuda.is_available():
        print("  CUDA is not available: skipped")
        return
    transform = ec.Corrupt(["noc/rotation", "noc/translation", "fog", "gaussian_noise"], p=0.9)
    images = torch.from_numpy(
        np.random.default_rng(0).integers(0, 256, (24, 3, 64, 64), dtype=np.uint8)
    )
    masks = (images[:, 0] > 127).to(torch.uint8)
    here = transform(image=images, mask=masks)
    there = transform(image=images.cuda(), mask=masks.cuda())
    assert there["image"].is_cuda and there["mask"].is_cuda
    assert torch.equal(there["image"].cpu(), here["image"])
    assert torch.equal(there["mask"].cpu(), here["mask"])
    sample = sample_of()
    # `to` keeps the type of a tv_tensor, `cuda` does not
    on_gpu = {
        name: value.to("cuda") if isinstance(value, Tensor) else value
        for name, value in sample.items()
    }
    turn = ec.Corrupt("noc/rotation")
    moved, expected = turn(on_gpu), turn(sample)
    assert moved["boxes"].is_cuda and type(moved["boxes"]) is tv_tensors.BoundingBoxes
    assert torch.equal(moved["boxes"].cpu(), expected["boxes"])


CHECKS = [value for name, value in list(globals().items()) if name.startswith("check_")]


if __name__ == "__main__":
    for check in CHECKS:
        check()
        print(f"passed: {check.__name__}")
    sys.exit(0 if len(CHECKS) == 6 else 1)
