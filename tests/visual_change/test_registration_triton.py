"""Registration in Triton against the torch code, in Triton's interpreter on the CPU."""

import os

import numpy as np
import pytest
import torch

from eyechart.visual_change.registration import (
    estimate,
    refinement,
    search,
    warping,
)
from eyechart.visual_change.registration.estimate import compare_details, describe_copies, register
from eyechart.visual_change.registration.warping import inside, moved, sample, smoothed
from eyechart.visual_change.vif import fidelity
from moved_images import map_of

if torch.cuda.is_available():
    pytest.skip("cuda_check_registration.py runs the compiled kernels", allow_module_level=True)
# Triton reads this when it is imported, since decorators decide how kernels run.
os.environ["TRITON_INTERPRET"] = "1"
pytest.importorskip("triton", reason="Triton is part of CUDA builds of torch")

pytestmark = pytest.mark.slow

MAPS = {
    "identity": map_of(),
    "upside down": map_of(180, across=3.3),
    "turned": map_of(33, 1.1, 5, -8),
    "mirrored": map_of(150, is_mirrored=True),
    "magnified": map_of(-10, 2.9),
    "reduced": map_of(70, 0.33, -20, 11),
    "sheared": map_of(shear=0.4, across=-2.5),
    "far away": map_of(across=900),
}
LEVELS = ((28, 28), (56, 56), (45, 29))


@pytest.fixture(autouse=True, scope="module")
def interpreted():
    """Let the interpreter run with newer versions of NumPy."""
    from triton.runtime import interpreter

    patch = interpreter._patch_lang_tensor

    def patched(tensor, scope):
        patch(tensor, scope)
        # Triton 3.6 converts arrays of one element, which NumPy 2.5 rejects.
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))

    interpreter._patch_lang_tensor = patched
    yield
    interpreter._patch_lang_tensor = patch


def images_of(rows, columns, count=1, seed=0):
    """Return smooth random images, gray levels around 0, float32 (B, h, w)."""
    noise = np.random.default_rng(seed).normal(size=(count, rows, columns))
    return smoothed(torch.from_numpy(noise).to(torch.float32) * 200, 1.5) + 10


def all_maps():
    return torch.from_numpy(np.stack(list(MAPS.values())))


def pairs_of(rows, columns):
    """Return clean images, copies moved by nearly all maps, and the size in px."""
    clean, size = images_of(rows, columns, len(MAPS)), (rows * 4 - 1, columns * 4)
    nearly = all_maps() + torch.tensor([[0.01, -0.02, 2.0], [0.015, 0.01, -1.0]])
    places = moved(refinement.centers_of(rows, columns, size, clean.device), nearly)
    noise = images_of(rows, columns, len(MAPS), seed=1)
    return clean, 0.7 * sample(clean, places, size) + 0.1 * noise - 5, size


def as_hypotheses(clean, corrupted):
    """Return images that are shared by two maps each, and the same images for each map."""
    return (clean[::2], corrupted[::2]), [
        one[::2].repeat_interleave(2, dim=0) for one in (clean, corrupted)
    ]


@pytest.mark.parametrize("sigma", [0.7, 1.0, 1.5, 3.0])
@pytest.mark.parametrize("sides", [(32, 32), (19, 41), (57, 30), (4, 28), (1, 5)])
def test_images_are_smoothed_alike(sides, sigma):
    from eyechart.visual_change.registration.warping_triton import smoothed_in_triton

    images = images_of(*sides, count=3) if min(sides) > 4 else torch.rand((3, *sides)) * 255
    computed, expected = smoothed_in_triton(images, sigma), smoothed(images, sigma)
    torch.testing.assert_close(computed, expected, rtol=1e-6, atol=1e-4)


@pytest.mark.parametrize("sides", [*LEVELS, (67, 75)])
@pytest.mark.parametrize("stride", [1, 2])
def test_one_step_leads_to_the_same_maps(sides, stride):
    from eyechart.visual_change.registration.refinement_triton import refine_in_triton

    clean, corrupted, size = pairs_of(*sides)
    expected = refinement._step(clean, corrupted, all_maps(), size, stride, False)
    computed = refine_in_triton(clean, corrupted, all_maps(), size, 1, stride)
    assert (expected - all_maps()).abs().amax(dim=(1, 2))[:-1].min() > 1e-3
    torch.testing.assert_close(computed, expected, rtol=1e-4, atol=1e-4)


def filled_pairs(rows, columns):
    """Return clean images, and copies moved by nearly all maps with a noisy black fill."""
    clean, corrupted, size = pairs_of(rows, columns)
    nearly = all_maps() + torch.tensor([[0.01, -0.02, 2.0], [0.015, 0.01, -1.0]])
    places = moved(refinement.centers_of(rows, columns, size, clean.device), nearly)
    noise = images_of(rows, columns, len(MAPS), seed=2)
    return clean, torch.where(inside(places, size), corrupted, 0.05 * noise - 120), size


@pytest.mark.parametrize("sides", LEVELS)
def test_one_step_with_a_fill_leads_to_the_same_maps(sides):
    from eyechart.visual_change.registration.refinement_triton import refine_in_triton

    clean, corrupted, size = filled_pairs(*sides)
    expected = refinement._step(clean, corrupted, all_maps(), size, 1, True)
    computed = refine_in_triton(clean, corrupted, all_maps(), size, 1, has_fill=True)
    without = refinement._step(clean, corrupted, all_maps(), size, 1, False)
    # the fill of a reduced image is used
    assert (expected - without)[list(MAPS).index("reduced")].abs().max() > 1e-3
    torch.testing.assert_close(computed, expected, rtol=1e-4, atol=1e-4)


def test_images_that_are_one_or_two_cells_high_are_not_moved():
    from eyechart.visual_change.registration.refinement_triton import refine_in_triton

    for rows in (1, 2):
        clean, corrupted = torch.rand((2, len(MAPS), rows, 28)) * 100
        for has_fill in (False, True):
            computed = refine_in_triton(
                clean, corrupted, all_maps(), (rows * 8, 224), 1, has_fill=has_fill
            )
            torch.testing.assert_close(computed, all_maps(), rtol=0, atol=1e-9)


def test_hypotheses_share_their_images():
    from eyechart.visual_change.registration.refinement_triton import refine_in_triton

    clean, corrupted, size = pairs_of(28, 28)
    shared, repeated = as_hypotheses(clean, corrupted)
    computed = refine_in_triton(*shared, all_maps(), size, steps=1)
    assert torch.equal(computed, refine_in_triton(*repeated, all_maps(), size, steps=1))
    expected = refinement.refine(*shared, all_maps(), size, 1)
    torch.testing.assert_close(computed, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("level", [0.0, 100.0])
def test_constant_images_are_not_moved(level):
    from eyechart.visual_change.registration.refinement_triton import refine_in_triton

    flat = torch.full((len(MAPS), 28, 28), level)
    computed = refine_in_triton(flat, flat, all_maps(), (112, 112), steps=2)
    torch.testing.assert_close(computed, all_maps(), rtol=0, atol=1e-9)


@pytest.mark.parametrize("sides", LEVELS)
@pytest.mark.parametrize("sigma", [1.5, 3.0])
def test_details_agree_alike(sides, sigma):
    from eyechart.visual_change.registration.agreement_triton import compared_in_triton

    clean, corrupted, size = pairs_of(*sides)
    expected = compare_details(clean, corrupted, all_maps(), size, sigma)
    computed = compared_in_triton(clean, corrupted, all_maps(), size, sigma)
    for one, two in zip(computed, expected, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-5)


def test_hypotheses_share_their_images_when_details_are_compared():
    from eyechart.visual_change.registration.agreement_triton import compared_in_triton

    clean, corrupted, size = pairs_of(28, 28)
    shared, repeated = as_hypotheses(clean, corrupted)
    computed = compared_in_triton(*shared, all_maps(), size, 3.0)
    same = compared_in_triton(*repeated, all_maps(), size, 3.0)
    for one, two in zip(computed, same, strict=True):
        assert torch.equal(one, two)
    expected = compare_details(*shared, all_maps(), size, 3.0)
    torch.testing.assert_close(computed[0], expected[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("sides", [(64, 64), (57, 41), (130, 117), (21, 300)])
def test_copies_are_reduced_and_smoothed_alike(sides, monkeypatch):
    images = torch.rand((3, *sides)) * 255
    expected = estimate.levels_of(images)
    for module in (warping, estimate):
        monkeypatch.setattr(module, "has_triton", lambda _: True)
    for one, two in zip(estimate.levels_of(images), expected, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-6, atol=1e-4)


@pytest.fixture
def few_maps(monkeypatch):
    """Search few linear maps: the interpreter takes long for each."""
    # every sixth rotation, and one shear or stretch for each magnification
    groups = {key: linear[::12] for key, linear in search.candidates().items()}
    caches = (search.linear_maps, search.overlaps, search._neighbors)
    monkeypatch.setattr(search, "candidates", lambda: groups)
    from eyechart.visual_change.registration import search_triton

    monkeypatch.setattr(search_triton, "candidates", lambda: groups)
    for cache in (*caches, search_triton._cells):
        cache.cache_clear()
    yield
    for cache in (*caches, search_triton._cells):
        cache.cache_clear()


@pytest.mark.parametrize(
    ("sides", "noise"), [((96, 96), 0.0), ((70, 99), 0.0), ((130, 110), 0.0), ((130, 110), 0.2)]
)
def test_the_search_gives_every_linear_map_the_same_score_and_shift(few_maps, sides, noise):
    from eyechart.visual_change.registration.search_triton import (
        describe_in_triton,
        scores_in_triton,
    )

    clean = smoothed(images_of(*sides, count=2), 2.0)
    corrupted = torch.roll(clean, (7, -12), dims=(1, 2)) + images_of(*sides, 2, seed=3) / 10
    corrupted[:, :, -20:] = -128 + noise * images_of(sides[0], 20, 2, seed=4)
    expected, index = search._best_shifts(search.describe_search(clean), corrupted)
    computed, place = scores_in_triton(describe_in_triton(clean), corrupted)
    # copies are float16, whose rounding errors mostly cancel in the sum over a copy
    torch.testing.assert_close(computed, expected, rtol=1e-3, atol=2e-3)
    # of two shifts with nearly the same score, another one may be the best
    assert (place == index).double().mean() > 0.98


def test_moved_and_unmoved_images_are_registered_alike(few_maps, monkeypatch):
    sides = (60, 72)
    clean = smoothed(images_of(*sides, count=2), 1.0) * 2 + 118
    back = torch.from_numpy(map_of(180, across=4))[None]
    places = moved(refinement.centers_of(*sides, sides, clean.device), back)
    corrupted = torch.cat((sample(clean[:1], places, sides), clean[1:] * 0.8))
    expected = register(describe_copies(clean), corrupted)
    torch.testing.assert_close(expected[:1], back, rtol=0, atol=0.05)
    for module in (warping, refinement, search, estimate):
        monkeypatch.setattr(module, "has_triton", lambda _: True)
    # two threads must not interpret kernels at once
    monkeypatch.setattr(fidelity, "on_all_cores", lambda work, items, **_: [*map(work, items)])
    computed = register(describe_copies(clean), corrupted)
    torch.testing.assert_close(computed, expected, rtol=0, atol=0.01)
