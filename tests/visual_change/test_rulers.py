"""Every registered ruler keeps the protocol, and a new one needs nothing but its registration."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.ndimage import gaussian_filter

import eyechart as ec
from commands import assert_rejected
from eyechart.core.errors import UsageError
from eyechart.images.imageset import load_images
from eyechart.visual_change.networks.network_rulers import NetworkRuler
from eyechart.visual_change.registry import RULERS, find_ruler, geometry_rulers, measures_geometry
from eyechart.visual_change.ruler import DELTA_V
from real_images import real_images
from study_inputs import save_real_images

NAMES = sorted(RULERS)


def clean_images(side=64):
    """The middles of four photographs, uint8 (4, 3, side, side)."""
    corners = [tuple((size - side) // 2 for size in photo.shape[:2]) for photo in real_images()]
    crops = [
        photo[top : top + side, left : left + side]
        for photo, (top, left) in zip(real_images(), corners, strict=True)
    ]
    return torch.from_numpy(np.stack(crops)).permute(0, 3, 1, 2).contiguous()


def noisy(images, sigma=20.0):
    noise = torch.randn(images.shape, generator=torch.Generator().manual_seed(5)) * sigma
    return (images + noise).clamp(0, 255).round().to(torch.uint8)


@pytest.fixture(params=NAMES)
def ruler(request):
    found = find_ruler(request.param)
    if isinstance(found, NetworkRuler) and not found.is_installed:
        pytest.skip(f"the weights of {found.name} are not installed")
    return found


def images_for(ruler):
    """Clean images as small as most rulers accept, so that comparing them takes little time."""
    return clean_images(max(64, ruler.smallest_side))


def test_an_image_is_not_changed_against_itself(ruler):
    clean = images_for(ruler)
    change = ruler.compare(ruler.describe(clean), clean)
    assert change.dtype == torch.float64
    torch.testing.assert_close(
        change, torch.zeros(len(clean), dtype=torch.float64), rtol=0, atol=1e-9
    )


def test_more_noise_is_more_change_within_0_and_1(ruler):
    clean = images_for(ruler)
    description = ruler.describe(clean)
    changes = torch.stack(
        [ruler.compare(description, noisy(clean, sigma)) for sigma in (5, 20, 60)]
    )
    assert (changes.diff(dim=0) > 0).all()
    assert changes.min() > 0 and changes.max() < 1


def test_more_blur_is_more_change(ruler):
    clean = images_for(ruler)
    description = ruler.describe(clean)
    blurred = [
        torch.from_numpy(gaussian_filter(clean.numpy(), (0, 0, sigma, sigma)))
        for sigma in (0.7, 2, 5)
    ]
    changes = torch.stack([ruler.compare(description, images) for images in blurred])
    assert (changes.diff(dim=0) > 0).all()


def test_one_at_a_time_or_selected_gives_the_values_of_the_batch(ruler):
    clean = images_for(ruler)
    corrupted = noisy(clean)
    description = ruler.describe(clean)
    together = ruler.compare(description, corrupted)
    for index in range(len(clean)):
        one = slice(index, index + 1)
        alone = ruler.compare(ruler.describe(clean[one]), corrupted[one])
        torch.testing.assert_close(alone, together[one], rtol=0, atol=1e-12)
    order = torch.tensor([2, 0, 2])
    selected = ruler.compare(description.select(order), corrupted[order])
    torch.testing.assert_close(selected, together[order], rtol=0, atol=1e-12)
    assert len(description.select(order)) == 3


def test_one_clean_image_serves_many(ruler):
    clean = images_for(ruler)[:1]
    corrupted = torch.cat([noisy(clean, sigma) for sigma in (5.0, 50.0)])
    change = ruler.compare(ruler.describe(clean), corrupted)
    expected = ruler.compare(ruler.describe(clean.expand(2, -1, -1, -1)), corrupted)
    torch.testing.assert_close(change, expected, rtol=0, atol=1e-12)


def test_a_constant_image_is_not_measurable(ruler):
    flat = torch.full_like(images_for(ruler)[:1], 90)
    description = ruler.describe(flat)
    assert not description.measurable.any()
    assert ruler.compare(description, noisy(flat)).isnan().all()


def test_images_below_the_smallest_side_are_rejected(ruler):
    side = ruler.smallest_side
    assert ruler.describe(clean_images(side)).n_scales >= 1
    with pytest.raises(UsageError, match=f"at least {side} px"):
        ruler.describe(clean_images(side - 1))


def test_a_ruler_gives_what_delta_v_gives(ruler):
    clean = images_for(ruler)
    corrupted = noisy(clean)
    change = ruler.compare(ruler.describe(clean), corrupted)
    torch.testing.assert_close(
        change, ec.delta_v(clean, corrupted, ruler=ruler.name), rtol=0, atol=0
    )


def test_from_its_full_side_on_a_ruler_uses_as_many_scales_as_on_any_image(ruler):
    def n_scales(side):
        # one image shows it, and networks are slow
        return ruler.describe(clean_images(side)[:1]).n_scales

    side, most = ruler.full_side, n_scales(200)
    assert n_scales(side) == most
    # below it there are fewer, or none can be measured
    assert side == ruler.smallest_side or n_scales(side - 1) < most


def test_the_name_is_known_with_its_limits_and_version(ruler):
    assert RULERS[ruler.name] is ruler
    assert ruler.limits.endswith(".") and ruler.summary.endswith(".") and ruler.version >= 1


def test_raw_values_are_in_the_order_of_the_change(ruler):
    change = torch.linspace(0, 0.98, 50, dtype=torch.float64)
    raw = ruler.raw(change)
    assert raw.dtype == torch.float64 and raw.isfinite().all()
    # a similarity such as MS-SSIM falls with the change
    assert (raw.diff() > 0).all() or (raw.diff() < 0).all()
    assert ruler.raw_name != DELTA_V or torch.equal(raw, change)


# ---- versions


def test_a_test_set_by_another_version_of_its_ruler_is_not_used(monkeypatch, tmp_path):
    folder = save_real_images(tmp_path / "images", each=1)
    testset = ec.sample_testset(folder, n=2, corruptions=["brightness"], stimulus="native")
    monkeypatch.setattr(type(find_ruler("vif")), "version", 2)
    with pytest.raises(UsageError, match=r"version 1 of the ruler vif.* has version 2"):
        testset.samples(load_images(folder, "native"))


# ---- another ruler


@dataclass(frozen=True)
class Levels:
    """Clean images as they are."""

    images: torch.Tensor

    def __len__(self):
        return len(self.images)

    @property
    def measurable(self):
        return torch.ones(len(self), dtype=torch.bool)

    @property
    def n_scales(self):
        return 1

    def select(self, indices):
        return Levels(self.images[indices])


class MeanDifference:
    """The mean absolute difference; its raw value is in gray levels."""

    name, version, limits = "mean-difference", 1, "Sees gray levels alone."
    smallest_side = full_side = 1
    raw_name = "levels"

    def describe(self, clean):
        return Levels(clean)

    def compare(self, description, corrupted):
        difference = (description.images.double() - corrupted.double()).abs()
        return difference.mean(dim=(1, 2, 3)) / 255

    def raw(self, delta_v):
        return delta_v * 255


class Unmeasurable(Levels):
    """Clean images of which no change can be measured."""

    @property
    def measurable(self):
        return torch.zeros(len(self), dtype=torch.bool)


class Blind(MeanDifference):
    """A ruler that measures nothing."""

    name = "blind"

    def describe(self, clean):
        return Unmeasurable(clean)


class Uninstalled(MeanDifference):
    """A ruler whose weights are missing."""

    name = "uninstalled"

    def describe(self, clean):
        raise UsageError("The ruler uninstalled needs weights: install them.")


@pytest.fixture
def other_rulers(monkeypatch):
    monkeypatch.setattr(RULERS, "_items", {**RULERS._items})
    for ruler in (MeanDifference(), Blind(), Uninstalled()):
        RULERS.add(ruler.name, ruler)


def test_a_warning_names_the_line_of_the_call_whatever_the_ruler(other_rulers):
    images = clean_images()
    constant = torch.zeros_like(images)
    for clean, ruler in ((images, "blind"), (constant, "vif")):
        with pytest.warns(ec.LowInformationWarning) as caught:
            ec.delta_v(clean, noisy(images), ruler=ruler)
        assert [warning.filename for warning in caught] == [__file__]


def test_another_ruler_needs_only_its_registration(other_rulers, tmp_path):
    folder = save_real_images(tmp_path / "images", each=1)
    testset = ec.sample_testset(
        folder,
        n=16,
        corruptions=["gaussian_noise"],
        stimulus="native",
        ruler="mean-difference",
    )
    path = tmp_path / "testset.parquet"
    testset.save(path)
    assert ec.read_testset(path).plan.ruler == "mean-difference"
    images = clean_images()
    change = ec.delta_v(images, noisy(images), ruler="mean-difference")
    expected = (noisy(images).double() - images.double()).abs().mean(dim=(1, 2, 3)) / 255
    torch.testing.assert_close(change, expected)
    pair = [image.permute(1, 2, 0).numpy() for image in (images[0], noisy(images)[0])]
    assert ec.delta_v(*pair, ruler="mean-difference") == float(change[0])
    with pytest.raises(UsageError, match="same size"):
        ec.delta_v(images, noisy(images)[:, :, 1:], ruler="mean-difference")
    raw = np.array(testset.table["raw"])
    np.testing.assert_allclose(raw, 255 * np.array(testset.table["delta_v"]), rtol=1e-15)
    # the clean images come first
    clean, corrupted = np.split(np.array(testset.table["delta_v"]), 2)
    assert len(clean) == len(corrupted) == 16
    assert (clean == 0).all() and (corrupted > 0).all() and (corrupted < 1).all()


def test_another_ruler_measures_lists_of_several_sizes_with_diagnostics(other_rulers):
    small, large = clean_images(32)[0], clean_images(48)[1]
    pairs = [small, large], [noisy(small), noisy(large)]
    change = ec.measure_change(*pairs, ruler="mean-difference")
    expected = [float((one - two.double()).abs().mean()) for one, two in zip(*pairs, strict=True)]
    np.testing.assert_allclose(change.raw, expected, rtol=1e-12)
    np.testing.assert_allclose(change.delta_v, np.array(expected) / 255, rtol=1e-12)
    assert np.isnan(change.vif).all() and np.isnan(change.information).all()
    assert change.measurable.all() and not change.ill_conditioned.any()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"differentiable": True}, "mean-difference has no gradient: use vif, sheikh2006 or vif-p"),
        ({"dtype": "float32"}, "mean-difference has one precision: omit dtype"),
    ],
)
def test_options_of_vif_are_rejected_for_another_ruler(other_rulers, options, sentence):
    images = clean_images().double() / 255
    with pytest.raises(UsageError, match=sentence):
        ec.delta_v(images, images, ruler="mean-difference", **options)
    with pytest.raises(UsageError, match="does not measure VIF: use vif"):
        ec.vif(images, images, ruler="mean-difference")
    with pytest.raises(UsageError, match="for the ruler 'vif', not 'mean-difference'"):
        ec.delta_v(ec.clean_statistics(images), images, ruler="mean-difference")


def test_the_command_prints_and_stores_raw_values(other_rulers, run, tmp_path):
    images = clean_images()[:2].permute(0, 2, 3, 1).numpy()
    corrupted = ec.corrupt(images, "gaussian_noise", severity=2)
    for folder, batch in (("clean", images), ("noisy", corrupted)):
        (tmp_path / folder).mkdir()
        for number, image in enumerate(batch):
            Image.fromarray(image).save(tmp_path / folder / f"{number}.png")
    words = ("visual-change", tmp_path / "clean", tmp_path / "noisy", "--csv", tmp_path / "t.csv")
    result = run(*words, "--ruler", "mean-difference")
    assert result.status == 0, result.err
    change = ec.measure_change(images, corrupted, ruler="mean-difference")
    line = f"0  Δv {change.delta_v[0]:.4f}  levels {change.raw[0]:.4f}  (mean-difference)"
    assert line in result.out.splitlines()
    # a stopped run would resume from the table, although VIF is empty in it
    again = run(*words, "--ruler", "mean-difference")
    assert again.out == result.out
    assert_rejected(run(*words, "--ruler", "vif"), "different file, ruler")
    assert_rejected(run(*words[:3], "--ruler", "uninstalled"), "uninstalled needs weights")
    assert_rejected(run(*words[:3], "--ruler", "blind", "--map", tmp_path / "m"), "subbands")


def test_missing_weights_are_reported_before_a_run_folder_is_made(other_rulers, run, tmp_path):
    folder = save_real_images(tmp_path / "images", each=1)
    words = ("--images", folder, "--ruler", "uninstalled", "--out", tmp_path / "out")
    result = run("evaluate", "small_models:thousand", *words)
    assert_rejected(result, "uninstalled needs weights")
    assert not (tmp_path / "out" / "run.json").exists()


def test_vif_does_not_measure_geometry():
    assert not any(measures_geometry(name) for name in ("vif", "sheikh2006", "vif-pixel"))
    assert set(geometry_rulers()) <= set(RULERS)
