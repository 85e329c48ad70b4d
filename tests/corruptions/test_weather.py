"""Weather against published statistics, closed forms and OpenCV."""

import cv2
import numpy as np
import pytest
import torch
from PIL import Image
from skimage.color import rgb2gray

import eyechart as ec
from calling import CPU, apply, photo, photo_levels, randomness, values
from eyechart.core.randomness import ImageRandom
from eyechart.corruptions.kernels.arithmetic import luma
from eyechart.corruptions.kernels.filters import smooth
from eyechart.corruptions.kernels.water import (
    FARTHEST,
    FIXED,
    canny,
    edge_distance,
    relief_in_torch,
    water_relief,
)
from eyechart.corruptions.library import CORRUPTIONS
from eyechart.corruptions.suites.assets import frost_textures
from eyechart.corruptions.weather import _resize, plasma

# ---- fog

PUBLISHED_FOG = [(2, 0.50, 0.15), (1.7, 0.49, 0.17), (1.5, 0.49, 0.18), (1.4, 0.49, 0.18)]


@pytest.mark.parametrize(("decay", "mean", "spread"), PUBLISHED_FOG)
def test_the_fog_has_the_published_mean_and_spread(decay, mean, spread):
    batch = 60
    random = ImageRandom(torch.arange(batch), [9] * batch, CPU)
    clouds = plasma(random, np.full(batch, float(decay)), 256, 256).double()
    assert clouds.mean().item() == pytest.approx(mean, abs=0.03)
    assert clouds.flatten(1).std(dim=1).mean().item() == pytest.approx(spread, abs=0.03)


def test_the_fog_fills_0_to_1_and_is_cut_to_the_image():
    whole = plasma(randomness(2), np.array([2.0, 1.4]), 64, 64)
    assert whole.flatten(1).amin(dim=1).tolist() == [0, 0]
    assert whole.flatten(1).amax(dim=1).tolist() == [1, 1]
    cut = plasma(randomness(2), np.array([2.0, 1.4]), 50, 37)
    assert torch.equal(cut, whole[..., :50, :37])


def test_the_fog_meets_itself_at_its_edges():
    cloud = plasma(randomness(1), np.array([2.0]), 128, 128)[0, 0]
    # diamond-square on a torus: across the edge neighbors differ as much as anywhere else
    inside = (cloud[:, 1:] - cloud[:, :-1]).abs().mean()
    assert (cloud[:, 0] - cloud[:, -1]).abs().mean() < 2 * inside
    assert (cloud[0] - cloud[-1]).abs().mean() < 2 * inside


def test_fog_with_a_quicker_decay_is_smoother():
    def roughness(decay):
        cloud = plasma(randomness(4), np.full(4, decay), 128, 128)
        return (cloud[..., 1:] - cloud[..., :-1]).abs().mean()

    assert roughness(3.0) < roughness(2.0) < roughness(1.4)


@pytest.mark.parametrize("thickness", [0.5, 1.5, 3])
def test_fog_is_added_and_scaled_back_to_the_brightest_value(thickness):
    images = photo(40, 56) * torch.tensor([1.0, 0.6]).reshape(2, 1, 1, 1)
    result = apply("fog", images, thickness=thickness, decay=2)
    cloud = plasma(randomness(2), np.array([2.0, 2.0]), 40, 56)
    top = images.amax(dim=(1, 2, 3), keepdim=True)
    expected = (images + thickness * cloud) * top / (top + thickness)
    torch.testing.assert_close(result, expected, atol=2e-6, rtol=0)


def test_fog_leaves_white_white_only_where_it_is_thickest_and_black_black():
    white = apply("fog", torch.ones(1, 3, 64, 64), thickness=2, decay=2)
    assert white.max().item() == pytest.approx(1)
    assert white.min().item() == pytest.approx(1 / 3)
    assert not apply("fog", torch.zeros(1, 3, 64, 64), thickness=2, decay=2).any()


# ---- snow

NO_FLAKES = {"mean": 0, "spread": 0, "zoom": 2, "threshold": 0.5, "radius": 5, "sigma": 2}


def test_snow_without_flakes_whitens_as_published():
    images = photo(40, 40)
    result = apply("snow", images, mix=[0.8, 0.55], angle=-90, **NO_FLAKES)
    for image, own, mix in zip(images, result, (0.8, 0.55), strict=True):
        pixels = image.permute(1, 2, 0).numpy().astype(np.float64)
        # OpenCV's RGB2GRAY, not scikit-image's weights
        gray = cv2.cvtColor(image.permute(1, 2, 0).numpy(), cv2.COLOR_RGB2GRAY)[..., None]
        expected = mix * pixels + (1 - mix) * np.maximum(pixels, gray * 1.5 + 0.5)
        np.testing.assert_allclose(own.permute(1, 2, 0), expected, atol=1e-5)
    assert abs(rgb2gray(pixels) - gray[..., 0]).max() > 1e-3


def test_flakes_fall_on_both_sides_alike():
    black = torch.zeros(2, 1, 64, 64)
    result = apply(
        "snow", black, mean=0.55, spread=0.3, zoom=2, threshold=0.8, radius=8, sigma=4, mix=1,
        angle=[-60, -120],
    )  # fmt: skip
    assert 0.02 < result.mean() < 1
    torch.testing.assert_close(result, result.flip((2, 3)))


def test_flakes_leave_trails_along_their_angle():
    black = torch.zeros(1, 1, 96, 96)
    result = apply(
        "snow", black, mean=0.2, spread=0.3, zoom=1, threshold=0.8, radius=10, sigma=8, mix=1,
        angle=-90,
    )[0, 0]  # fmt: skip
    centered = result - result.mean()
    along = (centered[4:] * centered[:-4]).mean()
    across = (centered[:, 4:] * centered[:, :-4]).mean()
    assert along > 5 * abs(across)


def test_above_the_threshold_nothing_falls():
    black = torch.zeros(1, 3, 32, 32)
    result = apply(
        "snow",
        black,
        mean=0.1,
        spread=0.1,
        zoom=1,
        threshold=1,
        radius=8,
        sigma=4,
        mix=1,
        angle=-90,
    )
    assert not result.any()


# ---- frost

# number: size, mean RGB, standard deviation RGB, gray percentiles 1, 25, 50, 75, 99
PHOTOGRAPHED = [
    ((600, 900), (78, 149, 166), (27, 17, 15), (95, 116, 128, 141, 177)),
    ((315, 560), (201, 205, 215), (21, 22, 23), (140, 193, 208, 220, 244)),
    ((315, 560), (201, 205, 215), (21, 22, 23), (140, 193, 208, 220, 244)),
    ((350, 527), (138, 153, 165), (29, 29, 30), (81, 132, 150, 167, 231)),
    ((495, 660), (112, 123, 135), (44, 43, 42), (43, 89, 117, 149, 237)),
]
TEXTURES = frost_textures()


@pytest.mark.parametrize("number", range(5))
def test_a_frost_texture_has_the_statistics_of_its_image(number):
    size, mean, deviation, percentiles = PHOTOGRAPHED[number]
    texture = TEXTURES[number].double()
    assert texture.shape == (3, *size)
    np.testing.assert_allclose(texture.mean(dim=(1, 2)), mean, atol=1)
    np.testing.assert_allclose(texture.flatten(1).std(dim=1), deviation, atol=1)
    gray = luma(texture[None])[0, 0].numpy()
    found = np.percentile(gray, [1, 25, 50, 75, 99])
    np.testing.assert_allclose(found[1:4], percentiles[1:4], atol=7)
    # mean and deviation are met exactly, which leaves the darkest and the brightest one off
    np.testing.assert_allclose(found[[0, 4]], (percentiles[0], percentiles[4]), atol=20)


def test_what_frost_adds_has_the_published_mean_color():
    means = torch.stack([texture.double().mean(dim=(1, 2)) for texture in TEXTURES])
    np.testing.assert_allclose(means.mean(dim=0), (146, 167, 179), atol=2)


@pytest.mark.parametrize(
    ("number", "low", "high"), [(0, -2.7, -1.2), (1, -1.4, -2.2), (3, -1.05, -1.6)]
)
def test_a_frost_texture_is_as_rough_as_its_image(number, low, high):
    gray = luma(TEXTURES[number].double()[None])[0, 0].numpy()
    power = np.abs(np.fft.fft2(gray - gray.mean())) ** 2
    frequency = np.hypot(*np.meshgrid(*map(np.fft.fftfreq, gray.shape), indexing="ij"))
    for slope, start, stop in ((low, 0.015, 0.06), (high, 0.06, 0.4)):
        edges = np.geomspace(start, stop, 9)
        ring = np.digitize(frequency, edges)
        mean = [power[ring == number].mean() for number in range(1, 9)]
        middle = np.sqrt(edges[1:] * edges[:-1])
        found = np.polyfit(np.log(middle), np.log(mean), 1)[0]
        assert found == pytest.approx(slope, abs=0.7)


def test_textures_2_and_3_are_alike_but_not_the_same():
    assert not torch.equal(TEXTURES[1], TEXTURES[2])


def frosted(images, textures, name="frost", seed=0, **given):
    """The function itself, with textures of one's own."""
    batch = len(images)
    function = CORRUPTIONS[name].apply
    return function(images, randomness(batch, seed), textures=textures, **values(batch, **given))


def even_textures(count, side=64):
    return tuple(
        torch.tensor([10 * number, 50, 250 - 10 * number], dtype=torch.uint8)
        .reshape(3, 1, 1)
        .repeat(1, side, side)
        for number in range(count)
    )


@pytest.mark.parametrize("name", ["frost", "vcr/frost"])
def test_frost_is_a_weighted_sum_of_image_and_texture(name):
    images = photo(48, 40, batch=3)
    textures = even_textures(5)
    scale = {"scale": 1} if name == "frost" else {}
    result = frosted(
        images, textures, name, image_weight=[1, 0.8, 0.6], frost_weight=[0.4, 0.6, 0.75],
        texture=[0, 0.7, 1], **scale,
    )  # fmt: skip
    for image, own, a, b, texture in zip(
        images, result, (1, 0.8, 0.6), (0.4, 0.6, 0.75), (0, 3, 4), strict=True
    ):
        expected = a * image + b * textures[texture][:, :1, :1].float() / 255
        torch.testing.assert_close(own, expected, atol=1e-6, rtol=0)


def test_frost_is_a_piece_of_the_texture_and_another_one_for_another_key():
    black = torch.zeros(20, 3, 32, 40)
    result = frosted(black, TEXTURES, image_weight=1, frost_weight=1, scale=1, texture=0.7)
    levels = (result * 255).round().to(torch.uint8)
    corners = set()
    for own in levels:
        hits = (TEXTURES[3][:, :-31, :-39] == own[:, :1, :1]).all(dim=0).nonzero()
        places = [
            (row, column)
            for row, column in hits.tolist()
            if torch.equal(TEXTURES[3][:, row : row + 32, column : column + 40], own)
        ]
        assert len(places) == 1
        corners.add(places[0])
    assert len(corners) == 20


def test_vcrs_frost_shows_the_whole_texture():
    gradient = torch.linspace(0, 255, 300).round().to(torch.uint8).expand(3, 200, 300)
    result = frosted(
        torch.zeros(1, 3, 50, 60),
        (gradient,),
        "vcr/frost",
        image_weight=1,
        frost_weight=1,
        texture=0,
    )
    assert result[..., 0].max() < 0.02
    assert result[..., -1].min() > 0.98


@pytest.mark.parametrize("size", [(64, 80), (600, 700)])
def test_frost_covers_images_smaller_and_larger_than_its_textures(size):
    images = torch.zeros(1, 3, *size)
    for texture in range(5):
        result = frosted(
            images, TEXTURES, image_weight=1, frost_weight=1, scale=0.3, texture=(texture + 0.5) / 5
        )
        expected = np.mean(PHOTOGRAPHED[texture][1]) / 255
        assert result.mean().item() == pytest.approx(expected, abs=0.15)
        assert (result > 0).double().mean() > 0.99


@pytest.mark.parametrize("scale", [0.3, 0.5, 1.3])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_a_resized_texture_does_not_depend_on_the_number_of_threads(scale, mode):
    before = torch.get_num_threads()
    size = [round(side * scale) for side in TEXTURES[4].shape[1:]]
    results = []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            results.append(_resize(TEXTURES[4], *size, mode))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(*results)


def test_a_folder_of_images_can_be_used_instead(tmp_path):
    Image.new("RGB", (300, 300), (200, 100, 50)).save(tmp_path / "pane.png")
    images = photo_levels(64, 64)
    for name in ("frost", "vcr/frost"):
        result = ec.corrupt(
            images, name, image_weight=0.5, frost_weight=0.5, frost_textures=str(tmp_path)
        )
        pane = torch.tensor([200, 100, 50]).reshape(1, 3, 1, 1)
        expected = images * 0.5 + pane * 0.5
        assert (result - expected).abs().max() <= 1


@pytest.mark.parametrize("name", ["frost", "vcr/frost"])
def test_every_image_of_the_folder_is_used(tmp_path, name):
    grays = [20, 50, 80, 110, 140, 170, 200]
    for gray in grays:
        Image.new("RGB", (300, 300), (gray,) * 3).save(tmp_path / f"{gray}.png")
    black = torch.zeros(100, 3, 16, 16, dtype=torch.uint8)
    result = ec.corrupt(
        black,
        name,
        image_weight=1,
        frost_weight=1,
        frost_textures=str(tmp_path),
        keys=list(range(100)),
    )
    found = torch.round(result[:, 0, 0, 0] / 5).to(int) * 5
    assert sorted(set(found.tolist())) == grays


def test_all_five_textures_are_drawn_about_equally_often():
    black = torch.zeros(200, 3, 8, 8, dtype=torch.uint8)
    alone = [
        ec.corrupt(
            black[:1],
            "vcr/frost",
            image_weight=1,
            frost_weight=1,
            texture=(texture + 0.5) / 5,
            keys=["x"],
        )[0]
        for texture in range(5)
    ]
    drawn = ec.corrupt(black, "vcr/frost", image_weight=1, frost_weight=1, keys=list(range(200)))
    counts = [sum(torch.equal(one, own) for own in drawn) for one in alone]
    assert sum(counts) == 200
    assert min(counts) > 20


# ---- spatter


def layers(batch=6, size=(90, 70)):
    """Liquid layers as spatter makes them, from nearly dry to nearly all wet."""
    random = ImageRandom(torch.arange(batch), [3] * batch, CPU)
    field = random.normal("drops", (1, *size)).mul_(0.3).add_(0.65)
    liquid = smooth(field, np.linspace(0.5, 4, batch))
    limit = torch.linspace(0.72, 0.6, batch).reshape(-1, 1, 1, 1)
    return ((liquid * (liquid >= limit)).clamp(0, 1) * 255).to(torch.uint8)


def test_the_relief_of_water_in_torch_is_opencvs_to_the_last_bit():
    wet = layers()
    assert wet.any()
    assert torch.equal(relief_in_torch(wet), water_relief(wet))


@pytest.mark.parametrize("size", [(8, 8), (17, 40)])
def test_small_and_dry_and_even_layers_have_a_relief_too(size):
    dry, full = torch.zeros(1, 1, *size, dtype=torch.uint8), torch.full((1, 1, *size), 200)
    both = torch.cat((dry, full.to(torch.uint8), layers(2, size)))
    assert torch.equal(relief_in_torch(both), water_relief(both))


def test_edges_in_torch_are_opencvs():
    levels = photo_levels(80, 60, batch=4, channels=1)
    edges = canny(levels.to(torch.int32))
    for plane, own in zip(levels[:, 0].numpy(), edges[:, 0].numpy(), strict=True):
        np.testing.assert_array_equal(own, cv2.Canny(plane, 50, 150) > 0)
    assert edges.any()


def test_distances_to_edges_in_torch_are_opencvs():
    edges = torch.zeros(1, 1, 60, 70, dtype=torch.bool)
    edges[0, 0, [5, 20, 21, 50], [7, 60, 3, 40]] = True
    own = edge_distance(edges)[0, 0].numpy() / FIXED
    exact = cv2.distanceTransform(255 - edges[0, 0].numpy().astype(np.uint8) * 255, cv2.DIST_L2, 5)
    np.testing.assert_allclose(own, np.minimum(exact, FARTHEST), atol=2e-3)


SPATTER = {"mean": 0.65, "spread": 0.3, "sigma": 2, "threshold": 0.66}


def test_water_only_adds_its_tint():
    images = photo(64, 64) * 0.5
    added = apply("spatter", images, **SPATTER, strength=0.5, mud=0) - images
    assert added.min() >= 0
    # the wettest spot gets the whole strength
    tint = torch.tensor([175.0, 238.0, 238.0]) / 255
    peak = added.amax(dim=(2, 3))
    torch.testing.assert_close(peak, (0.5 * tint).expand(2, 3), atol=1e-5, rtol=0)
    torch.testing.assert_close(added[:, 0] * tint[1], added[:, 1] * tint[0], atol=1e-5, rtol=0)


def test_mud_covers_with_its_color():
    white = torch.ones(2, 3, 64, 64)
    result = apply("spatter", white, **SPATTER, strength=0.8, mud=1)
    color = torch.tensor([63.0, 42.0, 20.0]).reshape(1, 3, 1, 1) / 255
    cover = (1 - result) / (1 - color)
    torch.testing.assert_close(cover, cover[:, :1].expand_as(cover), atol=1e-5, rtol=0)
    touched = cover[:, 0] > 0
    assert 0.05 < touched.double().mean() < 0.95
    # what is less than four fifths covered stays clean
    assert cover[:, 0][touched].min() > 0.8 - 1e-5
    assert cover.max() < 1 + 1e-5


@pytest.mark.parametrize("mud", [0, 1])
def test_a_dry_pane_changes_nothing(mud):
    images = photo(32, 32)
    result = apply(
        "spatter", images, mean=0.2, spread=0.01, sigma=1, threshold=0.7, strength=1, mud=mud
    )
    torch.testing.assert_close(result, images)


def test_a_pane_all_covered_in_mud_has_one_color():
    result = apply(
        "spatter", photo(32, 32), mean=0.9, spread=0.01, sigma=1, threshold=0.5, strength=1, mud=1
    )
    expected = torch.tensor([63.0, 42.0, 20.0]).reshape(1, 3, 1, 1).expand_as(result) / 255
    torch.testing.assert_close(result, expected, atol=1e-5, rtol=0)


def test_water_and_mud_share_a_batch():
    images = photo(48, 48)
    together = apply("spatter", images, **SPATTER, strength=[0.5, 1.5], mud=[0, 1])
    assert torch.equal(together[0], apply("spatter", images, **SPATTER, strength=0.5, mud=0)[0])
    assert torch.equal(together[1], apply("spatter", images, **SPATTER, strength=1.5, mud=1)[1])
