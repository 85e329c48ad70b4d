"""MS-SSIM, LPIPS, ST-LPIPS and DISTS against their published implementations, and by themselves.

Tests of published weights need `eyechart rulers install`; the others have random weights.
"""

import json
import sys
from dataclasses import replace
from functools import cache
from importlib.util import find_spec

import numpy as np
import pytest
import torch

import eyechart as ec
from eyechart.core.errors import UsageError
from eyechart.visual_change.networks import backbones, network_rulers
from eyechart.visual_change.networks.network_rulers import (
    DISTS_RULER,
    LPIPS_RULER,
    DistsRuler,
    LoadedNetwork,
    LpipsRuler,
    NetworkRuler,
)
from eyechart.visual_change.registry import RULERS, find_ruler
from moved_images import CUBIC, LINEAR, NEAREST, map_of, move
from published_rulers import NEEDED, PACKAGES, VALUES, measured, pairs, stubs
from real_images import real_images

PUBLISHED = json.loads(VALUES.read_text("utf-8"))
LARGEST_DIFFERENCE = 1e-4
NETWORKS = [ruler for ruler in RULERS.values() if isinstance(ruler, NetworkRuler)]


def installed(name):
    ruler = find_ruler(name)
    if isinstance(ruler, NetworkRuler) and not ruler.is_installed:
        pytest.skip(f"the weights of {name} are not installed")
    return ruler


@cache
def raw_values(name):
    """The published quantity for the 40 pairs by a ruler; each clean image is described once."""
    ruler = installed(name)
    _, before, after = pairs()
    # ten changes of each of four photographs
    description = ruler.describe(before[::10])
    change = ruler.compare(description.select(torch.arange(4).repeat_interleave(10)), after)
    assert change.min() >= 0 and change.max() <= 1
    return 1 - change if name == "ms-ssim" else ruler.raw(change)


def costly(names):
    """The names as parameters; a comparison of VGG's features takes long."""
    slow = pytest.mark.slow
    return [
        pytest.param(name, marks=slow) if "vgg" in name or name == "dists" else name
        for name in names
    ]


@pytest.mark.parametrize("name", costly(PUBLISHED))
def test_a_ruler_has_the_published_values_of_40_pairs(name):
    names, _, _ = pairs()
    assert list(PUBLISHED[name]) == names
    difference = np.abs(raw_values(name).numpy() - list(PUBLISHED[name].values()))
    assert difference.max() < LARGEST_DIFFERENCE


def test_all_rulers_but_vif_have_published_values():
    assert set(PUBLISHED) == {"ms-ssim", *(ruler.name for ruler in NETWORKS)}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("package", PACKAGES)
def test_a_ruler_equals_the_published_package(package, monkeypatch):
    missing = [module for module in NEEDED if find_spec(module) is None]
    if missing:
        pytest.skip(f"{missing[0]} is not installed")
    for module, stub in stubs().items():
        monkeypatch.setitem(sys.modules, module, stub)
    name, load = PACKAGES[package]
    _, before, after = pairs()
    difference = measured(load(), before, after) - raw_values(name)
    assert difference.abs().max() < LARGEST_DIFFERENCE


# ---- what a scale of 0 … 1 must do


@pytest.mark.parametrize("ruler", NETWORKS, ids=lambda ruler: ruler.name)
def test_raw_inverts_the_map_to_the_scale(ruler):
    change = torch.linspace(0, 0.98, 50, dtype=torch.float64)
    expected = 1 - torch.exp(-((ruler.raw(change) / ruler.unit) ** 2))
    torch.testing.assert_close(expected, change, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["st-lpips"])
def test_a_small_movement_is_a_small_change(name):
    ruler = installed(name)
    clean = torch.from_numpy(real_images()).permute(0, 3, 1, 2).contiguous()
    moved = clean.roll(1, dims=3)
    assert ruler.compare(ruler.describe(clean), moved).mean() < 0.02
    for order in (NEAREST, LINEAR, CUBIC):
        planes = [move(plane, map_of(1), order) for image in clean.numpy() for plane in image]
        turned = torch.from_numpy(np.stack(planes)).reshape(clean.shape)
        assert ruler.compare(ruler.describe(clean), turned).mean() < 0.03


# ---- networks with random weights


def random_weights(ruler):
    """The ruler with random weights, which need no installation."""
    generator = torch.Generator().manual_seed(3)
    network = ruler.network()
    for values in network.parameters():
        fan = values[0].numel() if values.ndim > 1 else 100
        values.copy_(torch.randn(values.shape, generator=generator) * (2 / fan) ** 0.5)
    layers = [layer for layer in network.modules() if isinstance(layer, torch.nn.Conv2d)]
    heads = {f"head{k}": torch.rand(layer.out_channels) for k, layer in enumerate(layers)}
    sums = {name: torch.rand(1475, generator=generator) for name in ("alpha", "beta")}
    loaded = LoadedNetwork(network, {**heads, **sums})
    kind = LpipsRuler if isinstance(ruler, LpipsRuler) else DistsRuler

    class RandomRuler(kind):
        def loaded(self, device):
            return loaded

    return RandomRuler(**vars(ruler))


@cache
def random_rulers():
    return [random_weights(LPIPS_RULER), random_weights(DISTS_RULER)]


@pytest.fixture(params=[0, 1], ids=["lpips", "dists"])
def random_ruler(request):
    return random_rulers()[request.param]


def small_images(channels=3):
    photos = torch.from_numpy(real_images()).permute(0, 3, 1, 2)[:, :channels, 80:120, 90:128]
    noise = torch.randn(photos.shape, generator=torch.Generator().manual_seed(1)) * 30
    return photos.contiguous(), (photos + noise).clamp(0, 255).to(torch.uint8)


@pytest.mark.parametrize(("side", "stride", "padding"), [(3, 1, 1), (11, 1, 2), (11, 4, 2)])
def test_a_convolution_with_stacked_rows_is_the_same_convolution(side, stride, padding):
    torch.manual_seed(0)
    plain = torch.nn.Conv2d(3, 8, side, stride, padding)
    stacked = backbones.StackedConvolution(plain)
    images = torch.randn(2, 3, 33, 26)
    assert stacked.weight.shape[1] % 8 == 0
    torch.testing.assert_close(stacked(images), plain(images), rtol=1e-5, atol=1e-5)


def test_identical_images_are_at_distance_0(random_ruler):
    clean, _ = small_images()
    change = random_ruler.compare(random_ruler.describe(clean), clean)
    torch.testing.assert_close(change, torch.zeros(4).double(), rtol=0, atol=1e-9)


def test_a_value_does_not_depend_on_the_batch_or_on_kept_features(random_ruler, monkeypatch):
    clean, corrupted = small_images()
    description = random_ruler.describe(clean)
    together = random_ruler.compare(description, corrupted)
    order = torch.tensor([3, 1, 3, 0, 2])
    chosen = description.select(order).select(torch.tensor([0, 3, 4]))
    monkeypatch.setitem(network_rulers.KEPT_BYTES, "cpu", 0)
    again = random_ruler.describe(clean)
    assert description.features is not None and again.features is None
    alone = torch.cat(
        [
            random_ruler.compare(random_ruler.describe(clean[k : k + 1]), corrupted[k : k + 1])
            for k in range(4)
        ]
    )
    for other, expected in (
        (alone, together),
        (random_ruler.compare(again, corrupted), together),
        (random_ruler.compare(chosen, corrupted[[3, 0, 2]]), together[[3, 0, 2]]),
    ):
        torch.testing.assert_close(other, expected, rtol=0, atol=1e-12)
    assert together.min() > 0 and together.max() < 1


def test_gray_images_count_as_color_images_with_equal_channels(random_ruler):
    clean, corrupted = small_images(channels=1)
    gray = random_ruler.compare(random_ruler.describe(clean), corrupted)
    color = random_ruler.compare(
        random_ruler.describe(clean.expand(-1, 3, -1, -1)), corrupted.expand(-1, 3, -1, -1)
    )
    torch.testing.assert_close(gray, color, rtol=0, atol=1e-12)


def test_constant_clean_images_have_no_change(random_ruler):
    clean, corrupted = small_images()
    clean[1] = 90
    change = random_ruler.compare(random_ruler.describe(clean), corrupted)
    assert change.isnan().tolist() == [False, True, False, False]


@pytest.mark.parametrize("ruler", NETWORKS, ids=lambda ruler: ruler.name)
def test_a_network_accepts_images_from_its_smallest_side_on(ruler):
    network, side = ruler.network(), ruler.smallest_side
    assert len(network(torch.zeros(1, 3, side, side))) == 5
    if ruler.network is not backbones.smooth_vgg16:
        with pytest.raises(RuntimeError):
            network(torch.zeros(1, 3, side - 1, side - 1))
    with pytest.raises(UsageError, match=f"at least {side} px on each side, got {side - 1} × 99"):
        ruler.describe(torch.zeros(1, 3, 99, side - 1, dtype=torch.uint8))


def test_a_ruler_without_its_weights_says_how_to_install_them(monkeypatch, tmp_path):
    monkeypatch.setenv("EYECHART_CACHE", str(tmp_path))
    clean, corrupted = small_images()
    # another name, so that weights that were loaded before are not found
    monkeypatch.setattr(RULERS, "_items", {**RULERS._items})
    RULERS.add("other", replace(LPIPS_RULER, name="other"))
    with pytest.raises(UsageError) as caught:
        ec.delta_v(clean, corrupted, ruler="other")
    sentence = "Ruler other needs its weights: run eyechart rulers install other."
    assert str(caught.value) == sentence
