"""The contract that every corruption of every suite keeps, whatever it does to the picture."""

import random
import threading
from importlib import import_module
from itertools import pairwise
from pkgutil import walk_packages
from types import ModuleType

import numpy as np
import pytest
import torch
from torch import Tensor

import eyechart as ec
from calling import photo_levels
from eyechart import corruptions
from eyechart.corruptions.suites.suite import DRAWN, Entry, all_entries, find_entry
from real_images import real_images
from vif_reference import delta_v

pytestmark = pytest.mark.usefixtures("with_styles")

CASES = [
    (name, variant) for name, entry in all_entries().items() for variant in (None, *entry.variants)
]
SIZES = [(64, 64), (8, 8), (75, 49)]
LARGE = [(224, 224), (32, 32), (301, 199)]
KEYS = ["first", "second", "third"]
MIXED = [0.5, 2.5, 5.0]

Case = tuple[str, str | None]


def label(value: object) -> str:
    if isinstance(value, tuple) and isinstance(value[0], str):
        return value[0] + (f"-{value[1]}" if value[1] else "")
    return "x".join(map(str, value))


every_corruption = pytest.mark.parametrize("case", CASES, ids=label)
every_size = pytest.mark.parametrize(
    "size", [*SIZES, *(pytest.param(size, marks=pytest.mark.slow) for size in LARGE)], ids=label
)


def corrupt(images: Tensor, case: Case, **options: object) -> Tensor:
    return ec.corrupt(images, case[0], variant=case[1], **options)


def entry_of(case: Case) -> Entry:
    return find_entry(*case)


def is_random(case: Case) -> bool:
    entry = entry_of(case)
    return entry.corruption.random or DRAWN in entry.path.values()


def as_float(levels: Tensor) -> Tensor:
    return levels.to(torch.float32) / 255


def forms(size: tuple[int, int]) -> list[Tensor]:
    """Three photographs in color and gray, uint8 and float."""
    color, gray = photo_levels(*size, batch=3), photo_levels(*size, batch=3, channels=1)
    return [color, gray, as_float(color), as_float(gray)]


def difference(one: Tensor, other: Tensor) -> float:
    """The mean absolute difference in gray levels."""
    return float((one.to(torch.float32) - other.to(torch.float32)).abs().mean())


def test_the_contract_is_checked_on_every_corruption_and_every_paper_variant() -> None:
    assert {name for name, _ in CASES} == set(ec.list_corruptions())
    assert len(ec.list_corruptions()) == 63
    assert sum(variant == "paper" for _, variant in CASES) == 13


# ---- what goes in and what comes back


@every_size
@every_corruption
def test_type_shape_and_range_are_kept_and_the_input_is_untouched(
    case: Case, size: tuple[int, int]
) -> None:
    for images in forms(size):
        before = images.clone()
        result = corrupt(images, case, severity=MIXED, keys=KEYS)
        assert torch.equal(images, before)
        assert result.data_ptr() != images.data_ptr()
        assert (result.dtype, result.shape) == (images.dtype, images.shape)
        assert result.is_contiguous()
        if images.dtype != torch.uint8:
            assert result.min() >= 0
            assert result.max() <= 1


@every_corruption
def test_other_kinds_hold_the_same_pixels(case: Case) -> None:
    levels = photo_levels(24, 33, batch=1)
    expected = corrupt(levels, case, severity=3, keys=["one"])[0].permute(1, 2, 0).numpy()
    pixels = levels[0].permute(1, 2, 0).numpy()
    array = ec.corrupt(pixels, case[0], variant=case[1], severity=3, keys=["one"])
    np.testing.assert_array_equal(array, expected)
    listed = ec.corrupt([pixels], case[0], variant=case[1], severity=3, keys=["one"])
    np.testing.assert_array_equal(listed[0], expected)


@every_corruption
def test_how_the_pixels_lie_in_memory_does_not_matter(case: Case) -> None:
    for images in forms((40, 56)):
        expected = corrupt(images, case, severity=3, keys=KEYS)
        last = images.contiguous(memory_format=torch.channels_last)
        pixels = images.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)
        framed = torch.zeros(3, images.shape[1], 50, 70, dtype=images.dtype)
        framed[..., 5:45, 7:63] = images
        for same in (last, pixels, framed[..., 5:45, 7:63]):
            assert torch.equal(corrupt(same, case, severity=3, keys=KEYS), expected)


@pytest.mark.parametrize("name", ["gaussian_noise", "gaussian_blur", "pixelate"])
def test_an_image_may_begin_anywhere_in_memory(name: str) -> None:
    # one byte of label and then the pixels, as in the files of CIFAR-10
    images = photo_levels(32, 32, batch=1)
    record = torch.cat((torch.zeros(1, dtype=torch.uint8), images.flatten()))
    inside = record[1:].reshape(images.shape)
    assert torch.equal(ec.corrupt(inside, name, severity=3), ec.corrupt(images, name, severity=3))


# ---- reproducibility


@every_size
@every_corruption
def test_a_batch_of_mixed_strengths_equals_single_calls(case: Case, size: tuple[int, int]) -> None:
    for images in forms(size):
        together = corrupt(images, case, severity=MIXED, keys=KEYS)
        for place, (key, severity) in enumerate(zip(KEYS, MIXED, strict=True)):
            alone = corrupt(images[place : place + 1], case, severity=severity, keys=[key])
            assert torch.equal(alone[0], together[place])


@pytest.mark.parametrize("keys", [KEYS, None], ids=["with keys", "without keys"])
@every_corruption
def test_batch_size_order_and_place_do_not_matter(case: Case, keys: list[str] | None) -> None:
    for images in (photo_levels(64, 64, batch=3), as_float(photo_levels(64, 64, batch=3))):
        expected = corrupt(images, case, severity=2.5, keys=keys)
        order = [2, 0, 1, 0, 2, 2, 1]
        shuffled = corrupt(
            images[order], case, severity=2.5, keys=keys and [keys[place] for place in order]
        )
        assert torch.equal(shuffled, expected[order])


@every_corruption
def test_one_thread_and_two_give_the_same_pixels(case: Case) -> None:
    before = torch.get_num_threads()
    try:
        for images in (photo_levels(128, 128, batch=3), as_float(photo_levels(151, 99, batch=1))):
            results = []
            for threads in (1, 2):
                torch.set_num_threads(threads)
                results.append(corrupt(images, case, severity=2.5))
            assert torch.equal(*results)
    finally:
        torch.set_num_threads(before)


@every_corruption
def test_callers_on_several_threads_get_the_same_pixels(case: Case) -> None:
    images = photo_levels(32, 32, batch=3)
    expected = corrupt(images, case, severity=4, keys=KEYS)
    results: list[Tensor] = []

    def call() -> None:
        results.append(corrupt(images, case, severity=4, keys=KEYS))

    callers = [threading.Thread(target=call) for _ in range(2)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert len(results) == 2
    assert all(torch.equal(result, expected) for result in results)


def modules_that_use_opencv() -> list[ModuleType]:
    names = (module.name for module in walk_packages(corruptions.__path__, "eyechart.corruptions."))
    # Triton is for GPUs and need not be there
    modules = [import_module(name) for name in names if "triton" not in name]
    return [module for module in modules if hasattr(module, "uses_opencv")]


@every_corruption
def test_torch_gives_the_8_bit_pixels_of_opencv(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    forms = [photo_levels(64, 64, batch=2), photo_levels(43, 30, batch=2, channels=1)]
    expected = [corrupt(images, case, severity=[2.5, 5]) for images in forms]
    modules = modules_that_use_opencv()
    assert len(modules) >= 5
    for module in modules:
        monkeypatch.setattr(module, "uses_opencv", lambda images: False)
    for images, known in zip(forms, expected, strict=True):
        assert torch.equal(corrupt(images, case, severity=[2.5, 5]), known)


@every_corruption
def test_another_seed_key_or_draw_changes_only_what_is_random(case: Case) -> None:
    images = photo_levels(48, 48, batch=4).repeat(3, 1, 1, 1)
    keys = [f"picture {number}" for number in range(12)]

    def result(seed: int = 1, ending: str = "", draw: int = 1) -> Tensor:
        own = [key + ending for key in keys]
        return corrupt(images, case, severity=4, seed=seed, keys=own, draw=draw)

    base = result()
    assert torch.equal(result(), base)
    others = [result(seed=2), result(ending="!"), result(draw=2)]
    # a sign is drawn alike every other time, a soft rim is hard to see: not every image changes
    changed = [int((other != base).flatten(1).any(dim=1).sum()) for other in others]
    if is_random(case):
        assert min(changed) >= 1
    else:
        assert changed == [0, 0, 0]


@every_corruption
def test_no_global_random_state_is_read_or_written(case: Case) -> None:
    images = photo_levels(32, 32, batch=1)
    states = (torch.get_rng_state(), np.random.get_state(), random.getstate())
    results = []
    try:
        for seed in (1, 2):
            torch.manual_seed(seed)
            np.random.seed(seed)
            random.seed(seed)
            before = (torch.get_rng_state(), np.random.get_state()[1], random.getstate())
            results.append(corrupt(images, case, severity=3))
            assert torch.equal(torch.get_rng_state(), before[0])
            np.testing.assert_array_equal(np.random.get_state()[1], before[1])
            assert random.getstate() == before[2]
    finally:
        torch.set_rng_state(states[0])
        np.random.set_state(states[1])
        random.setstate(states[2])
    assert torch.equal(*results)


# ---- strength


@every_corruption
def test_severity_0_is_the_image_itself(case: Case) -> None:
    for images in forms((33, 40)):
        assert torch.equal(corrupt(images, case, severity=0), images)
    # values between the gray levels too, and next to a corrupted one
    fine = torch.linspace(0, 1, 3 * 33 * 40).reshape(1, 3, 33, 40).repeat(2, 1, 1, 1)
    assert torch.equal(corrupt(fine, case, severity=[0, 5])[0], fine[0])


STARTS_WITH_A_JUMP = {"noc/pixelate", "noc/thumbnail_resize"}
"""Blocks of two pixels and a picture one pixel smaller are the least there is."""


@every_corruption
def test_below_level_1_the_effect_fades_towards_the_clean_image(case: Case) -> None:
    images = as_float(photo_levels(224, 224, batch=2))
    nearly, half, full = (
        255 * difference(corrupt(images, case, severity=severity), images)
        for severity in (0.02, 0.5, 1)
    )
    assert half <= 1.05 * full
    if case[0] not in STARTS_WITH_A_JUMP:
        assert nearly <= max(0.25 * full, 0.1)


@every_size
@every_corruption
def test_float_and_8_bit_images_come_out_alike(case: Case, size: tuple[int, int]) -> None:
    for levels in forms(size)[:2]:
        stored = corrupt(levels, case, severity=MIXED).to(torch.float32)
        unit = corrupt(as_float(levels), case, severity=MIXED) * 255
        # truncation takes off up to a level, rounding half of one
        most = 1.0 if entry_of(case).eight_bit == "truncate" else 0.5
        assert (unit - stored).abs().max() <= most + 0.01


@every_corruption
def test_the_strongest_level_changes_the_image(case: Case) -> None:
    images = photo_levels(64, 64, batch=3)
    result = corrupt(images, case, severity=5, keys=KEYS)
    assert (result != images).flatten(1).any(dim=1).all()


NOT_MONOTONE = {
    "elastic_transform": (2, 3),
    "geometry/rotate": (4, 5),
    "glass_blur": (3, 4),
    "saturate": (2, 3),
    "snow": (4, 5),
    "spatter": (3, 4),
}
"""Two levels of which the higher one changes the picture less, in published files too."""


def test_the_docs_name_the_corruptions_that_are_not_monotone() -> None:
    declared = {name for name, entry in all_entries().items() if not entry.monotone}
    # a mirror image is the same at all severities
    assert declared == {*NOT_MONOTONE, "geometry/mirror"}
    for name in declared:
        assert "does not grow monotonically" in str(ec.describe_corruption(name))


@pytest.mark.parametrize("name", NOT_MONOTONE)
def test_what_is_not_monotone_loses_visual_change_on_the_way_up(name: str) -> None:
    photos = real_images()
    change = {
        severity: np.mean(
            [
                delta_v(clean, after)
                for clean, after in zip(
                    photos, ec.corrupt(photos, name, severity=severity), strict=True
                )
            ]
        )
        for severity in NOT_MONOTONE[name]
    }
    lower, higher = NOT_MONOTONE[name]
    assert change[higher] < change[lower]


# a network that has learnt nothing need not be further off the more it is asked for
MONOTONE = [
    case for case in CASES if all_entries()[case[0]].monotone and case[0] != "style_transfer"
]


@pytest.mark.parametrize("case", MONOTONE, ids=label)
def test_the_effect_grows_with_severity(case: Case) -> None:
    images = photo_levels(224, 224, batch=4)
    effect = [
        difference(corrupt(images, case, severity=severity), images) for severity in range(1, 6)
    ]
    # level 4 of frost and of fog is as published: it hides more, but is no whiter than level 3
    for lower, higher in pairwise(effect):
        assert higher >= 0.95 * lower
    assert effect[4] > effect[0]
