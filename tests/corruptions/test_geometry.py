"""The suite `geometry` beside SciPy, OpenCV and exact turns; boxes under perspective."""

import cv2
import numpy as np
import pytest
import torch
from scipy.ndimage import affine_transform

import eyechart as ec
from calling import photo_levels
from eyechart.corruptions.kernels import affine
from eyechart.corruptions.suites.suite import load_suite
from real_images import real_images

SIDE = 96


def photo(height=SIDE, width=SIDE):
    return np.ascontiguousarray(real_images()[0][100 : 100 + height, 80 : 80 + width])


def by_scipy(image, matrix):
    """Bilinear interpolation about the center, black outside; `matrix`: from output to source."""
    middle = (np.array(image.shape[:2]) - 1) / 2
    planes = [
        affine_transform(
            plane.astype(np.float64), matrix, middle - matrix @ middle, order=1, mode="constant"
        )
        for plane in np.moveaxis(image, -1, 0)
    ]
    return np.stack(planes, axis=-1)


def inner_difference(result, expected, margin=2):
    """The largest difference where the source is well inside the image, and how many pixels."""
    known = expected.min(axis=-1) > 0
    inside = cv2.erode(known.astype(np.uint8), np.ones((2 * margin + 1,) * 2)) == 1
    return np.abs(result.astype(np.float64) - expected)[inside].max(), inside.sum()


def rotation(degrees):
    angle = np.radians(degrees)
    # rows first: y points down
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


CASES = [
    ("rotate", {"degrees": 33.3, "clockwise": 1}, rotation(33.3)),
    ("rotate", {"degrees": 160, "clockwise": -1}, rotation(-160)),
    ("scale", {"factor": 2.3, "enlarges": 1}, np.eye(2) / 2.3),
    ("shear", {"degrees": 20, "direction": 1}, np.array([[1, 0], [np.tan(np.radians(20)), 1]])),
]


@pytest.mark.parametrize(("name", "given", "matrix"), CASES)
@pytest.mark.parametrize("size", [(96, 96), (75, 110)])
def test_pixels_are_those_of_scipy(name, given, matrix, size):
    image = photo(*size)
    result = ec.corrupt(image, f"geometry/{name}", **given)
    difference, count = inner_difference(result, by_scipy(image, matrix))
    # weights are rounded to 1/256, and the result to whole levels
    assert difference <= 2 and count > 1000


@pytest.mark.parametrize("side", [0, 1, 2, 3])
def test_perspective_is_that_of_opencv_and_boxes_follow_it(side):
    tilt, (height, width) = 0.4, (SIDE, 120)
    image = photo(height, width)
    axis = np.array([0.0, 0, 0])
    axis[1 if side < 2 else 0] = tilt * (1, -1)[side % 2] / ((height if side < 2 else width) / 2)
    # from output to source, about the center, in OpenCV's coordinates of pixel centers
    to_center = np.array([[1, 0, 0.5 - width / 2], [0, 1, 0.5 - height / 2], [0, 0, 1]])
    tilted = np.array([[1, 0, 0], [0, 1, 0], [axis[0], axis[1], 1]])
    matrix = np.linalg.inv(to_center) @ tilted @ to_center
    expected = cv2.warpPerspective(
        image.astype(np.float32),
        matrix,
        (width, height),
        flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP,
    )
    transform = ec.Corrupt("geometry/perspective", tilt=tilt, side=side)
    box = (50.0, 30.0, 80.0, 60.0)
    mask = np.zeros((height, width), dtype=np.uint8)
    mask[30:60, 50:80] = 1
    result = transform(image=image, mask=mask, bboxes=[box])
    difference, count = inner_difference(result["image"], expected)
    # OpenCV rounds coordinates to 1/32 px
    assert difference <= 8 and count > 3000
    corners = np.array([[50, 30], [80, 30], [80, 60], [50, 60]], dtype=np.float64) - 0.5
    moved = cv2.perspectiveTransform(corners[None], np.linalg.inv(matrix))[0] + 0.5
    around = [*moved.min(axis=0), *moved.max(axis=0)]
    around = np.clip(around, 0, (width, height, width, height))
    assert result["bboxes"][0] == pytest.approx(around, abs=1e-6)
    rows, columns = np.nonzero(result["mask"])
    tight = columns.min(), rows.min(), columns.max() + 1, rows.max() + 1
    assert np.abs(np.array(tight) - around).max() <= 1.5


def test_quarter_turns_and_the_mirror_are_exact():
    image = photo()
    for degrees, clockwise, turns in ((90, 1, -1), (90, -1, 1), (180, 1, 2), (180, -1, 2)):
        turned = ec.corrupt(image, "geometry/rotate", degrees=degrees, clockwise=clockwise)
        np.testing.assert_array_equal(turned, np.rot90(image, turns))
    wide = photo(60, 90)
    np.testing.assert_array_equal(ec.corrupt(wide, "geometry/mirror", severity=1), wide[:, ::-1])


def test_a_reduced_image_has_no_aliases():
    """A fine grating becomes gray; taking the nearest pixels would leave stripes."""
    stripes = np.tile(np.array([0, 255], dtype=np.uint8), (SIDE, SIDE // 2))
    reduced = ec.corrupt(stripes, "geometry/scale", factor=3, enlarges=-1)
    center = reduced[SIDE // 2 - 12 : SIDE // 2 + 12, SIDE // 2 - 12 : SIDE // 2 + 12]
    assert np.abs(center.astype(int) - 128).max() < 45
    # what is reduced and enlarged again is the blurred image
    image = photo()
    half = ec.corrupt(image, "geometry/scale", factor=2, enlarges=-1)
    part = half[24:72, 24:72].astype(np.float64)
    means = image.reshape(48, 2, 48, 2, 3).mean(axis=(1, 3))
    assert np.abs(part - means).mean() < 3


@pytest.mark.parametrize("name", [entry.name for entry in load_suite("geometry")])
def test_sums_of_pixels_are_those_recorded(name):
    """Sums of 8-bit values are exact, so that other machines and devices must give the same."""
    levels = photo_levels(48, 64, batch=3)
    result = ec.corrupt(levels, name, severity=[0.5, 2.5, 5.0], keys=["one", "two", "three"])
    assert [int(image.to(torch.int64).sum()) for image in result] == SUMS[name]


SUMS = {
    "geometry/rotate": [1018957, 841157, 908838],
    "geometry/scale": [1073084, 356619, 978851],
    "geometry/translate": [1056228, 856052, 334447],
    "geometry/shear": [1051055, 984121, 793339],
    "geometry/perspective": [1018074, 897520, 767681],
    "geometry/mirror": [1056228, 1062630, 908838],
}


def test_the_strongest_scale_is_three_tenths():
    strongest = load_suite("geometry").entries[1].levels[224]["factor"][-1]
    assert 1 / strongest == pytest.approx(0.3)


@pytest.mark.parametrize("name", ["rotate", "scale", "shear", "perspective"])
def test_pixels_do_not_depend_on_the_number_of_lines_that_are_interpolated_at_once(
    name, monkeypatch
):
    images = real_images()[:2, :97]
    expected = ec.corrupt(images, f"geometry/{name}", severity=3)
    # 10 lines of two images, and the last 7
    monkeypatch.setattr(affine, "PIXELS_AT_ONCE", 20 * images.shape[2])
    assert np.array_equal(ec.corrupt(images, f"geometry/{name}", severity=3), expected)
