"""How long images are seen, in a real browser, by a recording that the page has no part in.

To be run with nothing beside it (make test does): a machine whose cores are all taken shows
images late, which is what is measured here.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from browser import skip_without_browser
from experiment_timing import FRAME_MS, STIMULUS_MS, Busy, Recorded, record, undisturbed
from eyechart_experiment.server.routes import is_built

skip_without_browser()
if not is_built():
    pytest.skip("the experiment's pages are not built: make frontend", allow_module_level=True)

FEW, MANY = 50, 500
IDLE, THROTTLED = 0.99, 0.97
"""Shares of images that must be within one frame of their time."""

TRIES = 3
"""How often a few images may be shown again for that share: of 50, two that are late by chance
are too many, which does not happen three times in a row."""


@pytest.fixture(scope="module")
def browser() -> Any:
    with undisturbed() as found:
        yield found


def skip_unless_calm(recorded: Recorded, trials: int) -> None:
    calm = int(recorded.calm.sum())
    if calm < trials / 2:
        pytest.skip(f"the machine stood still during {trials - calm} of {trials} images")


def tell(recorded: Recorded) -> None:
    spread = np.unique(np.round(recorded.seen), return_counts=True)
    print(f"{recorded.within_one_frame():.3f} of {recorded.calm.sum()} within one frame;", *spread)


@pytest.mark.parametrize(
    ("throttle", "share"), [(1, IDLE), pytest.param(6, THROTTLED, marks=pytest.mark.slow)]
)
def test_images_are_seen_for_their_time_also_by_a_sixth_of_a_processor(
    throttle: float, share: float, tmp_path: Path, browser: Any
) -> None:
    found: list[float] = []
    while not found or (found[-1] < share and len(found) < TRIES):
        recorded = record(tmp_path / str(len(found)), browser, FEW, throttle)
        tell(recorded)
        assert len(recorded.seen) == FEW
        skip_unless_calm(recorded, FEW)
        found.append(recorded.within_one_frame())
    assert max(found) >= share


def test_an_image_that_is_painted_late_is_seen_no_shorter(tmp_path: Path, browser: Any) -> None:
    recorded = record(tmp_path / "study", browser, 6, busy=Busy("stimulus", 42))
    assert len(recorded.seen) == 6
    skip_unless_calm(recorded, 6)
    assert recorded.within_one_frame() == 1, recorded.seen


def test_images_that_stay_too_long_are_recorded_and_flagged_and_kept(
    tmp_path: Path, browser: Any
) -> None:
    recorded = record(tmp_path / "study", browser, 6, busy=Busy("blank", 80))
    skip_unless_calm(recorded, 6)
    seen = recorded.seen[recorded.calm]
    assert np.all(seen > 265) and np.all(seen < 400), recorded.seen
    assert recorded.within_one_frame() == 0
    assert [flags for flags in recorded.flags if "timing" not in flags] == []
    assert min(recorded.frames) >= 15 and len(recorded.frames) == 6


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("throttle", "share"), [(1, IDLE), (6, THROTTLED)])
def test_of_many_images_almost_all_are_seen_for_their_time(
    throttle: float, share: float, tmp_path: Path, browser: Any
) -> None:
    recorded = record(tmp_path / "study", browser, MANY, throttle)
    tell(recorded)
    assert len(recorded.seen) == MANY
    assert recorded.within_one_frame() >= share, recorded.seen
    # of so many all count, whatever the machine did
    within = np.abs(recorded.seen - STIMULUS_MS) <= FRAME_MS
    assert np.mean(within) >= share, recorded.seen
