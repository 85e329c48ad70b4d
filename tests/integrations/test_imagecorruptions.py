"""`eyechart.integrations.imagecorruptions`: that package's calls, shapes and strengths."""

import csv
import runpy

import numpy as np
import pytest
from PIL import Image
from skimage import data

import eyechart as ec
from eyechart.integrations import imagecorruptions as compat
from eyechart.integrations.imagecorruptions import corrupt, get_corruption_names
from places import DATA

MEASURED = DATA / "imagecorruptions_delta_v.csv"
"""Δv of imagecorruptions 1.1.2 itself on `PHOTO`: mean, standard deviation and number of seeds."""

PHOTO = np.ascontiguousarray(data.coffee()[::2, ::2])[:200, :300]
SMALL = np.ascontiguousarray(PHOTO[60:108, 100:164])
COMMON = [
    "gaussian_noise", "shot_noise", "impulse_noise", "defocus_blur", "glass_blur", "motion_blur",
    "zoom_blur", "snow", "frost", "fog", "brightness", "contrast", "elastic_transform", "pixelate",
    "jpeg_compression",
]  # fmt: skip
VALIDATION = ["speckle_noise", "gaussian_blur", "spatter", "saturate"]
RANDOM = ["gaussian_noise", "glass_blur", "motion_blur", "frost", "elastic_transform", "spatter"]


def seeded(*arguments, seed=1, **more):
    np.random.seed(seed)
    return corrupt(*arguments, **more)


def test_names_come_in_that_packages_order():
    assert get_corruption_names() == get_corruption_names("common") == COMMON
    assert get_corruption_names(subset="validation") == VALIDATION
    assert get_corruption_names("all") == COMMON + VALIDATION
    assert get_corruption_names("noise") == COMMON[:3]
    assert get_corruption_names("blur") == COMMON[3:7]
    assert get_corruption_names("weather") == COMMON[7:11]
    assert get_corruption_names("digital") == COMMON[11:]
    assert [each.__name__ for each in compat.corruption_tuple] == COMMON + VALIDATION
    assert list(compat.corruption_dict) == COMMON + VALIDATION


@pytest.mark.parametrize("number", range(19))
def test_every_call_form_means_the_same(number):
    name = (COMMON + VALIDATION)[number]
    expected = seeded(SMALL, severity=2, corruption_name=name)
    assert expected.dtype == np.uint8 and expected.shape == SMALL.shape
    assert not np.array_equal(expected, SMALL)
    forms = [
        lambda: corrupt(SMALL, 2, name),
        lambda: corrupt(SMALL, 2, None, number),
        lambda: corrupt(SMALL, severity=2, corruption_number=number),
        lambda: corrupt(SMALL, np.int64(2), corruption_number=np.int32(number)),
        # the name counts where both are given
        lambda: corrupt(SMALL, 2, name, 18 - number),
        lambda: getattr(compat, name)(Image.fromarray(SMALL), 2),
        lambda: compat.corruption_dict[name](SMALL, severity=2),
        lambda: compat.corruption_tuple[number](SMALL, 2),
    ]
    for form in forms:
        np.random.seed(1)
        np.testing.assert_array_equal(form(), expected)
    np.testing.assert_array_equal(
        seeded(SMALL, corruption_name=name), seeded(SMALL, 1, corruption_name=name)
    )


@pytest.mark.parametrize("name", COMMON + VALIDATION)
def test_gray_images_come_back_with_three_channels(name):
    gray = SMALL[..., 1]
    expected = seeded(np.stack((gray,) * 3, axis=-1), 3, name)
    for image in (gray, gray[..., None]):
        np.testing.assert_array_equal(seeded(image, 3, name), expected)


@pytest.mark.parametrize("name", RANDOM)
def test_numpys_seed_repeats_a_call_and_the_next_call_is_another(name):
    np.random.seed(5)
    first, second = corrupt(SMALL, 3, name), corrupt(SMALL, 3, name)
    np.random.seed(5)
    np.testing.assert_array_equal(corrupt(SMALL, 3, name), first)
    assert not np.array_equal(first, second)


def test_what_is_not_random_leaves_numpys_state_alone():
    np.random.seed(5)
    expected = np.random.get_state()[1]
    corrupt(SMALL, 3, "contrast")
    np.testing.assert_array_equal(np.random.get_state()[1], expected)


def measured():
    with MEASURED.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("name", COMMON + VALIDATION)
def test_the_visual_change_is_that_of_the_package_itself(name):
    rows = [row for row in measured() if row["corruption"] == name]
    assert [row["severity"] for row in rows] == ["1", "2", "3", "4", "5"]
    for row in (rows[0], rows[4]):
        seeds = 1 if row["n"] == "1" else 3
        found = [
            float(ec.delta_v(PHOTO, seeded(PHOTO, int(row["severity"]), name, seed=seed)))
            for seed in range(seeds)
        ]
        # both are means of few draws
        chance = float(row["sd"]) * (1 / seeds + 1 / int(row["n"])) ** 0.5
        allowed = 0.002 if seeds == 1 else 0.012 + 4 * chance
        assert np.mean(found) == pytest.approx(float(row["delta_v"]), abs=allowed), row


def test_strengths_do_not_depend_on_the_size_of_the_image():
    # that package blurs by 6 px at severity 5, whatever the size; at 32 px CIFAR-10-C blurs by 1
    image = np.zeros((40, 40, 3), np.uint8)
    image[20, 20] = 255
    spread = corrupt(image, 5, "gaussian_blur")
    assert spread.max() <= 2
    assert ec.corrupt(image, "gaussian_blur", severity=5).max() > 20


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((SMALL.tolist(), 1, "fog"), "NumPy array"),
        ((SMALL / 255, 1, "fog"), "uint8, got float64"),
        ((SMALL[0, 0], 1, "fog"), "shape"),
        ((SMALL[:31], 1, "fog"), "at least 32 px"),
        ((np.zeros((40, 40, 4), np.uint8), 1, "fog"), "1 or 3 channels, got 4"),
        ((SMALL, 0, "fog"), "severity must be 1, 2, 3, 4 or 5, got 0"),
        ((SMALL, 6, "fog"), "severity"),
        ((SMALL, 1.5, "fog"), "severity"),
        ((SMALL, True, "fog"), "severity"),
        ((SMALL, "fog"), "corruption_name or corruption_number"),
        ((SMALL, 1), "corruption_name or corruption_number"),
        ((SMALL, 1, "foggy"), "Did you mean 'fog'"),
        ((SMALL, 1, ["fog"]), "corruption"),
        ((SMALL, 1, None, 19), r"in \[0, 18\], got 19"),
        ((SMALL, 1, None, "4"), "corruption_number"),
    ],
)
def test_what_that_package_rejects_is_rejected_in_one_sentence(arguments, words):
    with pytest.raises(ec.UsageError, match=words) as error:
        corrupt(*arguments)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("subset", ["extra", None, 1, []])
def test_an_unknown_subset_is_rejected(subset):
    with pytest.raises(ec.UsageError, match="subset must be one of common"):
        get_corruption_names(subset)


def test_a_loop_as_in_its_demo_runs_after_one_changed_import(tmp_path):
    script = tmp_path / "demo.py"
    script.write_text(
        "from eyechart.integrations.imagecorruptions import corrupt, get_corruption_names\n"
        "import numpy as np\n"
        "image = np.full((427, 640, 3), 90, np.uint8)\n"
        "shapes = [corrupt(image, corruption_name=name, severity=i + 1).shape\n"
        "          for name in get_corruption_names('blur') for i in range(2)]\n"
    )
    assert runpy.run_path(str(script))["shapes"] == [(427, 640, 3)] * 8
