"""From a severity to parameter values: published tables, what lies between, and suites of YAML."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import yaml

import eyechart as ec
from calling import CPU, photo_levels
from eyechart.core.errors import UsageError
from eyechart.core.randomness import ImageRandom
from eyechart.corruptions.suites.strength import draw_from_domain, resolve
from eyechart.corruptions.suites.suite import all_entries, find_entry, load_suite, parse_suite

SIDES = (224, 299, 64, 32)

# by name and side: one tuple per parameter, levels 1 to 5
PUBLISHED = {
    "gaussian_noise": {
        224: {"sigma": (0.08, 0.12, 0.18, 0.26, 0.38)},
        299: {"sigma": (0.09, 0.13, 0.19, 0.27, 0.40)},
        64: {"sigma": (0.04, 0.08, 0.12, 0.15, 0.18)},
        32: {"sigma": (0.04, 0.06, 0.08, 0.09, 0.10)},
    },
    "shot_noise": {
        224: {"photons": (60, 25, 12, 5, 3)},
        299: {"photons": (50, 20, 10, 5, 3)},
        64: {"photons": (250, 100, 50, 30, 15)},
        32: {"photons": (500, 250, 100, 75, 50)},
    },
    "impulse_noise": {
        224: {"amount": (0.03, 0.06, 0.09, 0.17, 0.27)},
        299: {"amount": (0.04, 0.07, 0.10, 0.18, 0.28)},
        64: {"amount": (0.01, 0.02, 0.05, 0.08, 0.14)},
        32: {"amount": (0.01, 0.02, 0.03, 0.05, 0.07)},
    },
    "defocus_blur": {
        224: {"radius": (3, 4, 6, 8, 10), "softness": (0.1, 0.5, 0.5, 0.5, 0.5)},
        299: {"radius": (4, 5, 7, 10, 12), "softness": (0.1, 0.5, 0.5, 0.5, 0.5)},
        64: {"radius": (0.5, 1, 1.5, 2.5, 3), "softness": (0.6, 0.1, 0.1, 0.01, 0.1)},
        32: {"radius": (0.3, 0.4, 0.5, 1, 1.5), "softness": (0.4, 0.5, 0.6, 0.2, 0.1)},
    },
    "glass_blur": {
        224: {
            "sigma": (0.7, 0.9, 1, 1.1, 1.5),
            "reach": (1, 2, 2, 3, 4),
            "passes": (2, 1, 3, 2, 2),
        },
        299: {
            "sigma": (0.8, 1, 1.1, 1.2, 1.6),
            "reach": (1, 3, 2, 4, 5),
            "passes": (3, 1, 4, 2, 2),
        },
        64: {
            "sigma": (0.1, 0.5, 0.6, 0.7, 0.9),
            "reach": (1, 1, 1, 2, 2),
            "passes": (1, 1, 2, 1, 2),
        },
        32: {
            "sigma": (0.05, 0.25, 0.4, 0.25, 0.4),
            "reach": (1, 1, 1, 1, 1),
            "passes": (1, 1, 1, 2, 2),
        },
    },
    "motion_blur": {
        224: {"radius": (10, 15, 15, 15, 20), "sigma": (3, 5, 8, 12, 15)},
        299: {"radius": (12, 17, 17, 17, 22), "sigma": (4, 6, 9, 13, 16)},
        64: {"radius": (10, 10, 10, 10, 12), "sigma": (1, 1.5, 2, 2.5, 3)},
        32: {"radius": (6, 6, 6, 8, 9), "sigma": (1, 1.5, 2, 2, 2.5)},
    },
    "zoom_blur": {
        224: {"zoom": (1.11, 1.16, 1.21, 1.26, 1.31), "step": (0.01, 0.01, 0.02, 0.02, 0.03)},
        299: {"zoom": (1.11, 1.16, 1.21, 1.26, 1.31), "step": (0.01, 0.01, 0.02, 0.02, 0.03)},
        64: {"zoom": (1.06, 1.11, 1.16, 1.21, 1.26), "step": (0.01,) * 5},
        32: {"zoom": (1.06, 1.11, 1.16, 1.21, 1.26), "step": (0.01,) * 5},
    },
    "snow": {
        224: {
            "mean": (0.1, 0.2, 0.55, 0.55, 0.55),
            "spread": (0.3,) * 5,
            "zoom": (3, 2, 4, 4.5, 2.5),
            "threshold": (0.5, 0.5, 0.9, 0.85, 0.85),
            "radius": (10, 12, 12, 12, 12),
            "sigma": (4, 4, 8, 8, 12),
            "mix": (0.8, 0.7, 0.7, 0.65, 0.55),
        },
        64: {
            "mean": (0.1, 0.1, 0.15, 0.25, 0.3),
            "spread": (0.2, 0.2, 0.3, 0.3, 0.3),
            "zoom": (1, 1, 1.75, 2.25, 1.25),
            "threshold": (0.6, 0.5, 0.55, 0.6, 0.65),
            "radius": (8, 10, 10, 12, 14),
            "sigma": (3, 4, 4, 6, 12),
            "mix": (0.8, 0.8, 0.7, 0.65, 0.6),
        },
        32: {"mix": (0.95, 0.9, 0.9, 0.85, 0.8), "sigma": (3, 4, 4, 6, 12)},
    },
    "frost": {
        224: {
            "image_weight": (1, 0.8, 0.7, 0.65, 0.6),
            "frost_weight": (0.4, 0.6, 0.7, 0.7, 0.75),
            "scale": (1,) * 5,
        },
        64: {
            "image_weight": (1, 0.9, 0.8, 0.75, 0.7),
            "frost_weight": (0.3, 0.4, 0.45, 0.5, 0.55),
            "scale": (0.3,) * 5,
        },
        32: {
            "image_weight": (1, 1, 0.9, 0.85, 0.75),
            "frost_weight": (0.2, 0.3, 0.4, 0.4, 0.45),
            "scale": (0.2,) * 5,
        },
    },
    "fog": {
        224: {"thickness": (1.5, 2, 2.5, 2.5, 3), "decay": (2, 2, 1.7, 1.5, 1.4)},
        299: {"thickness": (1.5, 2, 2.5, 2.5, 3), "decay": (2, 2, 1.8, 1.6, 1.5)},
        64: {"thickness": (0.4, 0.7, 1, 1.5, 2), "decay": (3, 3, 2.5, 2, 1.75)},
        32: {"thickness": (0.2, 0.5, 0.75, 1, 1.5), "decay": (3, 3, 2.5, 2, 1.75)},
    },
    "brightness": {
        **{side: {"amount": (0.1, 0.2, 0.3, 0.4, 0.5)} for side in (224, 299, 64)},
        32: {"amount": (0.05, 0.1, 0.15, 0.2, 0.3)},
    },
    "contrast": {
        **{side: {"factor": (0.4, 0.3, 0.2, 0.1, 0.05)} for side in (224, 299, 64)},
        32: {"factor": (0.75, 0.5, 0.4, 0.3, 0.15)},
    },
    "pixelate": {
        224: {"size": (0.6, 0.5, 0.4, 0.3, 0.25)},
        299: {"size": (0.5, 0.4, 0.3, 0.25, 0.2)},
        64: {"size": (0.9, 0.8, 0.7, 0.6, 0.5)},
        32: {"size": (0.95, 0.9, 0.85, 0.75, 0.65)},
    },
    "jpeg_compression": {
        224: {"quality": (25, 18, 15, 10, 7)},
        299: {"quality": (23, 16, 13, 8, 5)},
        64: {"quality": (65, 58, 50, 40, 25)},
        32: {"quality": (80, 65, 58, 50, 40)},
    },
    "speckle_noise": {
        224: {"sigma": (0.15, 0.2, 0.35, 0.45, 0.6)},
        299: {"sigma": (0.16, 0.21, 0.36, 0.46, 0.61)},
        64: {"sigma": (0.15, 0.2, 0.25, 0.3, 0.35)},
        32: {"sigma": (0.06, 0.1, 0.12, 0.16, 0.2)},
    },
    "gaussian_blur": {
        224: {"sigma": (1, 2, 3, 4, 6)},
        299: {"sigma": (1.5, 2.5, 3.5, 4.5, 6.5)},
        64: {"sigma": (0.5, 0.75, 1, 1.25, 1.5)},
        32: {"sigma": (0.4, 0.6, 0.7, 0.8, 1)},
    },
    "spatter": {
        224: {
            "mean": (0.65, 0.65, 0.65, 0.65, 0.67),
            "spread": (0.3, 0.3, 0.3, 0.3, 0.4),
            "sigma": (4, 3, 2, 1, 1),
            "threshold": (0.69, 0.68, 0.68, 0.65, 0.65),
            "strength": (0.6, 0.6, 0.5, 1.5, 1.5),
            "mud": (0, 0, 0, 1, 1),
        },
        299: {
            "sigma": (4, 3.5, 3, 1.2, 1.2),
            "threshold": (0.69, 0.68, 0.68, 0.65, 0.65),
            "strength": (0.9, 0.9, 0.8, 1.8, 1.8),
        },
        64: {
            "mean": (0.62, 0.65, 0.65, 0.65, 0.65),
            "spread": (0.1, 0.1, 0.3, 0.1, 0.1),
            "sigma": (0.7, 0.8, 1, 0.7, 0.5),
            "threshold": (0.7, 0.7, 0.69, 0.68, 0.67),
            "strength": (0.6,) * 5,
            "mud": (0, 0, 0, 1, 1),
        },
        32: {
            "threshold": (0.7, 0.7, 0.69, 0.69, 0.68),
            "strength": (0.5, 0.5, 0.5, 0.6, 0.6),
        },
    },
    "saturate": {
        224: {"gain": (0.3, 0.1, 2, 5, 20), "shift": (0, 0, 0, 0.1, 0.2)},
        299: {"gain": (0.3, 0.1, 2, 5, 20), "shift": (0, 0, 0, 0.1, 0.2)},
        64: {"gain": (0.3, 0.1, 2, 5, 30), "shift": (0, 0, 0, 0.1, 0.2)},
        32: {"gain": (0.3, 0.1, 1.5, 2, 2.5), "shift": (0, 0, 0, 0.1, 0.2)},
    },
}

# multiples of a unit that is not quite the side
ELASTIC_LARGE = {
    "amplitude": (2, 2, 0.05, 0.07, 0.12),
    "sigma": (0.7, 0.08, 0.01, 0.01, 0.01),
    "shift": (0.1, 0.2, 0.02, 0.02, 0.02),
}
ELASTIC = {
    224: (244, ELASTIC_LARGE),
    299: (360, ELASTIC_LARGE),
    64: (
        64,
        {
            "amplitude": (0, 0.05, 0.1, 0.1, 0.16),
            "sigma": (0, 0.3, 0.08, 0.03, 0.03),
            "shift": (0.08, 0.06, 0.06, 0.03, 0.02),
        },
    ),
    32: (
        32,
        {
            "amplitude": (0, 0.05, 0.08, 0.1, 0.1),
            "sigma": (0, 0.2, 0.06, 0.04, 0.03),
            "shift": (0.08, 0.07, 0.06, 0.05, 0.03),
        },
    ),
}


def randomness(count, key=0):
    return ImageRandom(torch.arange(key, key + count), [1] * count, CPU)


def at(name, severity, side=224, variant=None, key=0, **given):
    """Return every parameter's value at one severity or at several."""
    severities = np.atleast_1d(np.asarray(severity, dtype=np.float64))
    given = {
        parameter: np.full(len(severities), float(value)) for parameter, value in given.items()
    }
    # one picture, asked for at several severities
    random = ImageRandom(torch.full((len(severities),), key), [1] * len(severities), CPU)
    values = resolve(find_entry(name, variant), severities, given, side, random)
    return {
        parameter: value.tolist() if np.ndim(severity) else value.item()
        for parameter, value in values.items()
    }


# ---- published levels


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("name", PUBLISHED)
def test_the_levels_are_the_published_ones(name, side):
    # where a table is missing the published code has that of 224
    table = PUBLISHED[name].get(side, PUBLISHED[name][224])
    values = at(name, [1, 2, 3, 4, 5], side)
    for parameter, levels in table.items():
        assert values[parameter] == pytest.approx(levels, rel=1e-12)


@pytest.mark.parametrize("side", SIDES)
def test_elastic_levels_are_the_published_multiples_of_their_unit(side):
    unit, levels = ELASTIC[side]
    values = at("elastic_transform", [1, 2, 3, 4, 5], side)
    for parameter, multiples in levels.items():
        expected = [multiple * unit for multiple in multiples]
        assert values[parameter] == pytest.approx(expected, rel=1e-12)


def test_every_corruption_of_imagenet_c_has_its_table_checked_here():
    names = {entry.name for entry in (*load_suite("imagenet-c"), *load_suite("imagenet-c-extra"))}
    # the levels of style transfer are ours
    assert names == {*PUBLISHED, "elastic_transform", "style_transfer"}


# ---- between


def test_between_two_levels_parameters_are_interpolated():
    assert at("gaussian_noise", 2.5)["sigma"] == pytest.approx((0.12 + 0.18) / 2)
    assert at("gaussian_noise", 4.25)["sigma"] == pytest.approx(0.26 + 0.25 * 0.12)
    assert at("defocus_blur", 1.5)["radius"] == pytest.approx(3.5)


def test_photons_are_interpolated_by_the_noise_that_they_make():
    assert 1 / at("shot_noise", 2.5)["photons"] == pytest.approx((1 / 25 + 1 / 12) / 2)


def test_whole_numbers_stay_whole():
    values = at("glass_blur", np.linspace(0, 5, 51))
    for parameter in ("reach", "passes"):
        assert all(value == int(value) for value in values[parameter])
    qualities = at("jpeg_compression", np.linspace(0, 5, 51))["quality"]
    assert qualities == sorted(qualities, reverse=True)
    assert all(quality == int(quality) for quality in qualities)


def test_from_0_to_1_the_way_leads_from_the_clean_image_to_level_1():
    assert at("gaussian_noise", [0, 0.25, 1])["sigma"] == pytest.approx([0, 0.02, 0.08])
    assert at("contrast", [0, 0.5, 1])["factor"] == pytest.approx([1, 0.7, 0.4])
    assert at("shot_noise", [0, 0.5, 1])["photons"] == pytest.approx([np.inf, 120, 60])
    assert at("saturate", [0, 0.5, 1])["gain"] == pytest.approx([1, 0.65, 0.3])
    # what has no clean value keeps that of level 1
    assert at("fog", [0, 0.5, 1])["decay"] == pytest.approx([2, 2, 2])


@pytest.mark.parametrize("side", SIDES)
def test_water_turns_to_mud_halfway_between_levels_3_and_4(side):
    values = at("spatter", [1, 3, 3.49, 3.5, 4, 5], side)
    assert values["mud"] == [0, 0, 0, 1, 1, 1]


# ---- picture sizes


def test_between_two_sizes_tables_are_interpolated_in_the_logarithm_of_the_side():
    # 46 : 32 is not quite half way to 64
    share = np.log(46 / 32) / np.log(2)
    expected = (1 - share) * np.array((0.04, 0.06, 0.08, 0.09, 0.10))
    expected += share * np.array((0.04, 0.08, 0.12, 0.15, 0.18))
    assert at("gaussian_noise", [1, 2, 3, 4, 5], 46)["sigma"] == pytest.approx(expected)
    share = np.log(112 / 64) / np.log(224 / 64)
    assert at("gaussian_blur", 5, 112)["sigma"] == pytest.approx(1.5 + share * 4.5)


def test_severity_and_size_are_interpolated_together():
    share = np.log(250 / 224) / np.log(299 / 224)
    assert at("gaussian_blur", 1.5, 250)["sigma"] == pytest.approx(1.5 + share * 0.5)


@pytest.mark.parametrize(
    ("side", "factor", "known"),
    [(598, 2, 299), (1024, 1024 / 299, 299), (16, 0.5, 32), (8, 0.25, 32)],
)
def test_beyond_the_tables_lengths_grow_with_the_side_and_nothing_else_does(side, factor, known):
    for name, length, other in (
        ("gaussian_blur", "sigma", None),
        ("defocus_blur", "radius", None),
        ("frost", "scale", "frost_weight"),
        ("elastic_transform", "shift", None),
        ("snow", "sigma", "threshold"),
    ):
        values, table = at(name, [1, 3, 5], side), at(name, [1, 3, 5], known)
        expected = np.array(table[length]) * factor
        np.testing.assert_allclose(values[length], np.maximum(expected, 0), rtol=1e-9)
        if other:
            assert values[other] == table[other]
    assert at("gaussian_noise", 3, side) == at("gaussian_noise", 3, known)


def test_the_shorter_side_counts():
    tall, wide = photo_levels(96, 64, batch=1), photo_levels(64, 96, batch=1)
    for images in (tall, wide):
        by_severity = ec.corrupt(images, "gaussian_blur", severity=3)
        assert torch.equal(by_severity, ec.corrupt(images, "gaussian_blur", sigma=1.0))


# ---- strength paths

VCR_ENDS = {
    "vcr/gaussian_noise": {"sigma": (0.0001, 1)},
    "vcr/shot_noise": {"photons": (500, 1)},
    "vcr/impulse_noise": {"amount": (0, 0.5)},
    "vcr/uniform_noise": {"width": (0, 1)},
    "vcr/gaussian_blur": {"sigma": (0.00001, 5)},
    "vcr/glass_blur": {"sigma": (0, 5), "reach": (1, 9)},
    "vcr/defocus_blur": {"radius": (0, 10)},
    "vcr/motion_blur": {"kernel": (3, 49)},
    "vcr/brightness": {"amount": (0, 1)},
    "vcr/frost": {"image_weight": (1, 0.01), "frost_weight": (0.01, 1)},
    "vcr/blur": {"kernel": (3, 15)},
    "vcr/median_blur": {"kernel": (3, 21)},
}
NOC_ENDS = {
    "noc/quantization": {"levels": (9, 4)},
    "noc/gaussian": {"sigma": (0.05, 0.18)},
    "noc/blur": {"weight": (0.4, 0.95), "side": (3, 3)},
    "noc/pixelate": {"block": (2, 4)},
    "noc/artifacts": {"count": (14, 170), "dash": (5, 5)},
    "noc/rain": {"count": (12, 120), "radius": (6, 6)},
    "noc/border": {"thickness": (9, 46)},
    "noc/translation": {"across": (15, 62), "down": (15, 62)},
    "noc/rotation": {"degrees": (7, 50)},
    "noc/hue": {"turns": (0.05, 0.5)},
}


@pytest.mark.parametrize(("name", "ends"), {**VCR_ENDS, **NOC_ENDS}.items())
def test_severity_1_and_5_are_the_ends_of_the_strength_path(name, ends):
    values = at(name, [1, 5])
    for parameter, both in ends.items():
        assert values[parameter] == pytest.approx(both)


@pytest.mark.parametrize("name", [*VCR_ENDS, *NOC_ENDS])
def test_strength_goes_one_way_along_its_path(name):
    for parameter in all_entries()[name].path:
        steps = np.diff(at(name, np.linspace(1, 5, 21))[parameter])
        assert (steps >= -1e-9).all() or (steps <= 1e-9).all()


def test_a_length_with_equal_ends_never_moves_by_the_smallest_fraction():
    # a diamond of radius 7 has 98 pixels, one of 7 ± 10⁻¹⁵ has 113 or 85
    for entry in load_suite("noc-candidates"):
        for name, ends in entry.path.items():
            if ends[0] == ends[1]:
                values = at(entry.name, np.linspace(0, 5, 51))[name]
                assert set(values) == {ends[0]}, entry.name


def test_the_middle_of_a_path_follows_its_declared_rule():
    assert at("vcr/shot_noise", 3)["photons"] == pytest.approx(np.sqrt(500))
    assert at("vcr/gaussian_noise", 3)["sigma"] == pytest.approx((1 + 0.0001) / 2)
    assert at("noc/contrast", 3)["loss"] == pytest.approx((0.33 + 0.74) / 2)


def test_the_papers_variant_has_the_papers_range():
    assert at("noc/rain", [1, 5], variant="paper")["radius"] == [7, 7]
    assert at("noc/artifacts", 1, variant="paper")["count"] == 15
    assert at("noc/shear", [1, 5], variant="paper")["shift"] == pytest.approx([0.106, 0.39])


def test_what_is_drawn_grows_from_nothing_to_its_draw():
    values = at("vcr/hue_saturation_value", [0, 1, 2, 3, 5], key=4)
    for parameter in ("hue", "saturation", "value"):
        none, start, quarter, half, full = values[parameter]
        assert (none, start) == (0, 0)
        assert (quarter, half) == pytest.approx((full / 4, full / 2))
        assert 0 < abs(full) <= 100
    values = at("vcr/color_jitter", [1, 5], key=4)
    for parameter in ("brightness", "contrast", "saturation"):
        assert values[parameter][0] == 1
        assert 0 <= values[parameter][1] <= 2
        assert values[parameter][1] != 1


@pytest.mark.parametrize("side", [32, 112, 448, 1024])
def test_lengths_of_vcr_and_noc_scale_with_the_side(side):
    factor = side / 224
    assert at("vcr/gaussian_blur", 5, side)["sigma"] == pytest.approx(5 * factor)
    assert at("vcr/defocus_blur", 5, side)["radius"] == pytest.approx(10 * factor)
    assert at("vcr/glass_blur", 5, side)["reach"] == pytest.approx(9 * factor)
    assert at("noc/border", 5, side)["thickness"] == pytest.approx(46 * factor, abs=0.5)
    assert at("noc/rain", 5, side)["radius"] == pytest.approx(max(6 * factor, 1))
    kernel = at("vcr/motion_blur", 5, side)["kernel"]
    assert kernel % 2 == 1
    assert kernel == pytest.approx(49 * factor, abs=1)
    # what is no length stays
    assert at("vcr/gaussian_noise", 5, side)["sigma"] == 1
    assert at("noc/rain", 5, side)["count"] == 120
    assert at("noc/rotation", 5, side)["degrees"] == 50


# ---- what the user gives


def test_given_parameters_stand_and_the_others_follow_the_severity():
    values = at("fog", 4, thickness=0.7)
    assert values == {"thickness": 0.7, "decay": 1.5}
    assert at("fog", 1, thickness=0.7)["decay"] == 2
    # without a severity the others are those of severity 3
    images = photo_levels(224, 224, batch=1)
    assert torch.equal(
        ec.corrupt(images, "fog", thickness=0.7),
        ec.corrupt(images, "fog", thickness=0.7, severity=3),
    )


def test_given_lengths_are_pixels_in_imagenet_c_and_224ths_of_the_side_in_vcr():
    assert at("gaussian_blur", 3, 448, sigma=2)["sigma"] == 2
    assert at("vcr/gaussian_blur", 3, 448, sigma=2)["sigma"] == 4


def test_a_given_value_outside_its_range_is_rejected_and_never_bent():
    for name, bad in (
        ("gaussian_noise", {"sigma": 1.5}),
        ("jpeg_compression", {"quality": 12.5}),
        ("vcr/blur", {"kernel": 4}),
        ("spatter", {"mud": 0.5}),
    ):
        with pytest.raises(ec.UsageError, match="must be"):
            at(name, 3, **bad)


@pytest.mark.parametrize(
    ("name", "parameter"),
    [
        ("motion_blur", "angle"),
        ("snow", "angle"),
        ("frost", "texture"),
        ("vcr/defocus_blur", "softness"),
        ("vcr/motion_blur", "angle"),
        ("vcr/color_jitter", "order"),
        ("noc/border", "grey"),
        ("noc/brightness", "direction"),
    ],
)
def test_what_is_drawn_for_an_image_does_not_depend_on_the_strength(name, parameter):
    values = at(name, [0, 0.5, 1, 3, 5], key=11)[parameter]
    assert len(set(values)) == 1
    others = {at(name, 3, key=key)[parameter] for key in range(40)}
    assert len(others) > 1


def test_angles_are_drawn_evenly_over_their_range():
    random = randomness(2000)
    values = resolve(find_entry("motion_blur"), np.full(2000, 3.0), {}, 224, random)["angle"]
    assert -45 <= values.min() < -44
    assert 44 < values.max() <= 45
    assert abs(values.mean()) < 2


def test_drawing_from_the_domain_spans_all_of_it():
    for entry in (*load_suite("vcr"), *load_suite("noc-candidates")):
        values = draw_from_domain(entry, randomness(200))
        assert set(values) == {parameter.name for parameter in entry.corruption.parameters}
        for name, (low, high) in entry.domain.items():
            drawn, parameter = values[name], entry.corruption.parameter(name)
            parameter.check(drawn)
            assert low <= drawn.min() <= low + 0.1 * (high - low)
            assert high - 0.1 * (high - low) <= drawn.max() <= high
            assert drawn.mean() == pytest.approx((low + high) / 2, abs=0.1 * (high - low))


def test_drawing_a_whole_number_includes_both_ends():
    blur, border = find_entry("vcr/blur"), find_entry("noc/border")
    assert set(draw_from_domain(blur, randomness(200))["kernel"]) == {3, 5, 7, 9, 11, 13, 15}
    assert set(draw_from_domain(border, randomness(600))["thickness"]) == set(range(9, 47))


# ---- suites of one's own

MINE = """
name: mine
title: My own
source: myself
eight_bit: round
reference_side: 100
corruptions:
  - {name: grain, function: gaussian_noise, group: film, path: {sigma: [0.01, 0.1]}}
  - name: haze
    function: fog
    group: weather
    levels:
      100: {thickness: [0.1, 0.2, 0.3, 0.4, 0.5], decay: [2, 2, 2, 2, 2]}
  - {same_as: "vcr:vcr/blur"}
"""


def suite_file(tmp_path, text):
    path = tmp_path / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_a_suite_of_ones_own_is_read_from_yaml(tmp_path):
    suite = load_suite(suite_file(tmp_path, MINE))
    grain, haze, blur = suite
    assert (suite.name, suite.title, suite.source) == ("mine", "My own", "myself")
    assert (grain.name, grain.corruption.name, grain.group) == ("grain", "gaussian_noise", "film")
    assert grain.path == {"sigma": (0.01, 0.1)}
    assert haze.levels[100]["thickness"] == (0.1, 0.2, 0.3, 0.4, 0.5)
    assert (haze.eight_bit, haze.reference_side, haze.suite) == ("round", 100, "mine")
    assert (blur.name, blur.suite, blur.reference_side) == ("vcr/blur", "mine", 224)
    values = resolve(grain, np.array([3.0]), {}, 64, randomness(1))
    assert values["sigma"] == pytest.approx([0.055])


def broken(**changes):
    """The suite's first corruption with something wrong in it."""
    data = yaml.safe_load(MINE)
    data["corruptions"] = [{**data["corruptions"][0], **changes}]
    return yaml.safe_dump(data)


BROKEN = {
    "no yaml": "{a: [",
    "empty": "",
    "a list": "- a\n- b\n",
    "a sentence": "hello",
    "nothing in it": "name: a\ntitle: b\nsource: c\ncorruptions:\n",
    "no source": "name: a\ntitle: b\ncorruptions: []\n",
    "unknown field": broken(grup="film"),
    "unknown function": broken(function="gausian_noise"),
    "unknown parameter": broken(path={"sgma": [0, 1]}),
    "words for numbers": broken(path={"sigma": ["low", "high"]}),
    "one end only": broken(path={"sigma": [0.1]}),
    "a number for a path": broken(path={"sigma": 0.1}),
    "a word for a side": broken(levels={"big": {"sigma": [0.1, 0.2, 0.3, 0.4, 0.5]}}),
    "four levels": broken(levels={224: {"sigma": [0.1, 0.2, 0.3, 0.4]}}),
    "unknown rounding": broken(eight_bit="upwards"),
    "unknown suite": "name: a\ntitle: b\nsource: c\ncorruptions:\n  - {same_as: 'vxr:vcr/blur'}\n",
    "unknown same": "name: a\ntitle: b\nsource: c\ncorruptions:\n  - {same_as: 'vcr:blur'}\n",
    "a corruption of nothing": "name: a\ntitle: b\nsource: c\ncorruptions:\n  -\n",
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_suite_is_rejected_in_one_sentence(tmp_path, what):
    with pytest.raises(ec.UsageError) as error:
        load_suite(suite_file(tmp_path, BROKEN[what]))
    assert "\n" not in str(error.value)
    assert len(str(error.value)) > 20


def test_a_suite_that_is_no_text_or_is_not_there_is_rejected_in_one_sentence(tmp_path):
    path = tmp_path / "picture.yaml"
    path.write_bytes(b"\xff\xfe\x00\x89PNG")
    for missing in (str(path), str(tmp_path / "none.yaml"), str(tmp_path)):
        with pytest.raises(ec.UsageError) as error:
            load_suite(missing)
        assert "\n" not in str(error.value)


def test_every_published_entry_leads_to_values_in_range_at_any_severity_and_size():
    for entry in all_entries().values():
        for variant in (None, *entry.variants):
            for side in (8, 32, 64, 150, 224, 299, 2000):
                severity = np.linspace(0, 5, 11)
                own = entry.in_variant(variant)
                values = resolve(own, severity, {}, side, randomness(11))
                for parameter in own.corruption.parameters:
                    # lengths may be longer than declared on a larger picture
                    stretch = max(1, side / 224) if parameter.scales_with_size else 1
                    replace(parameter, high=parameter.high * stretch).check(values[parameter.name])


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "it must have name"),
        ("[1, 2]", "it must have name"),
        ("name: 3\ntitle: t\nsource: s\ncorruptions: []", "name is required"),
        ("name: a\ntitle: t\nsource: s\ncorruptions:", "at least one entry"),
        ("name: a\ntitle: t\nsource: s\ncorruptions: [fog]", "got 'fog'"),
        ("name: a\ntitle: t\nsource: s\ncorruptions: [{name: fog}]", "group is missing"),
        (
            "name: a\ntitle: t\nsource: s\ncorruptions: [{name: fog, group: x, color: 1}]",
            "Unknown key 'color'",
        ),
        (
            "name: a\ntitle: t\nsource: s\ncorruptions:"
            " [{name: gaussian_noise, group: noise, path: {sigma: [0.0, 50]}}]",
            "sigma must be in [0, 1], got 50",
        ),
        (
            "name: a\ntitle: t\nsource: s\ncorruptions:"
            " [{name: gaussian_noise, group: noise, path: {sigma: abc}}]",
            "sigma must be a list of numbers",
        ),
        ("name: a\ntitle: t\nsource: s\ncorruptions: [{same_as: fog}]", "must be suite:name"),
        (
            'name: a\ntitle: t\nsource: s\ncorruptions: [{same_as: "imagenet-c:foog"}]',
            "Did you mean 'fog'",
        ),
        *(
            (
                "name: a\ntitle: t\nsource: s\ncorruptions:"
                f" [{{name: fog, group: x, variants: {{p: {changes}}}}}]",
                reason,
            )
            for changes, reason in (
                ("3", "a variant must be a mapping, got 3"),
                ("{levels: [1]}", "levels must be a mapping, got [1]"),
                ("{severity: [1, 2]}", "severity requires levels or a path"),
            )
        ),
    ],
)
def test_a_suite_that_is_wrong_says_what_is_wrong_with_it(text, sentence):
    with pytest.raises(UsageError) as error:
        parse_suite(text, "mine.yaml")
    assert str(error.value).startswith("The suite mine.yaml is not well formed: ")
    assert sentence in str(error.value)
    assert "Entry" not in str(error.value)
    assert "NoneType" not in str(error.value)
