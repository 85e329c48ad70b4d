"""Measure how fast eyechart and pyrtools compute visual information fidelity (VIF)."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from benchmarks.pyrtools_rival import load_vif_rival
from benchmarks.timing import in_turns, machine_name, sample_images
from eyechart.core.provenance import versions
from eyechart.suites.apply import corrupt
from eyechart.visual_change.gray import to_gray
from eyechart.visual_change.measure import clean_statistics, measure_change

SMALLEST_FOR_RIVAL = 72
COPIED_BYTES = 1 << 30


@dataclass(frozen=True)
class VifPlan:
    """What is timed, and how."""

    batch: int
    size: int
    threads: int
    device: torch.device
    dtype: torch.dtype
    seconds: float


@dataclass(frozen=True)
class VifSpeed:
    """Speed in images/s of eyechart and of the rival, and their ratios.

    `reused` is the speed with reused clean statistics; `whole` includes their computation.
    `statistics_bytes` is the size of the clean statistics of one image. On a GPU, `bandwidth` is
    the speed of a large copy in bytes/s, and `share_of_bandwidth` the fraction of it that reading
    each image and its statistics once would use at the rate `reused`.
    """

    reused: float
    whole: float
    statistics_bytes: float
    rival_version: str = ""
    rival: float | None = None
    reused_ratio: float | None = None
    whole_ratio: float | None = None
    bandwidth: float | None = None
    share_of_bandwidth: float | None = None


def measure(plan: VifPlan) -> VifSpeed:
    """Return the speeds of eyechart and of the rival, timed alternately."""
    clean = sample_images(plan.batch, plan.size).to(plan.device)
    corrupted = corrupt(clean, "gaussian_noise", severity=3)
    statistics = clean_statistics(clean, dtype=plan.dtype)

    def reused() -> None:
        measure_change(statistics, corrupted)
        _wait(plan.device)

    def whole() -> None:
        measure_change(clean, corrupted, dtype=plan.dtype)
        _wait(plan.device)

    rival = load_vif_rival() if plan.size >= SMALLEST_FOR_RIVAL else None
    theirs = None
    if rival is not None:
        before, after = (
            to_gray(each).cpu().numpy().astype(np.float64) for each in (clean, corrupted)
        )

        def theirs(index: int) -> None:
            place = index % plan.batch
            rival.vif(before[place], after[place])

    reused()
    whole()
    rate, rival_rate, ratio = in_turns(reused, plan.batch, theirs, plan.seconds)
    whole_rate, _, whole_ratio = in_turns(whole, plan.batch, theirs, plan.seconds)
    own_bytes = statistics.bytes / plan.batch
    bandwidth = _bandwidth(plan.device) if plan.device.type == "cuda" else None
    moved = own_bytes + corrupted[0].nbytes
    return VifSpeed(
        rate,
        whole_rate,
        own_bytes,
        rival.version if rival else "",
        rival_rate,
        ratio,
        whole_ratio,
        bandwidth,
        moved * rate / bandwidth if bandwidth else None,
    )


def figures(speed: VifSpeed, plan: VifPlan) -> dict[str, Any]:
    """Return the measurements, the machine and the versions, as values for a JSON file."""
    return {
        "schema": 1,
        "machine": machine_name(plan.device),
        "threads": plan.threads,
        "size": plan.size,
        "batch": plan.batch,
        "dtype": str(plan.dtype).removeprefix("torch."),
        "versions": versions(),
        **asdict(speed),
    }


def _bandwidth(device: torch.device) -> float:
    """Return the bytes read and written per second by a large copy within the device."""
    source = torch.randint(0, 256, (COPIED_BYTES,), dtype=torch.uint8, device=device)
    target = torch.empty_like(source)

    def copy() -> None:
        target.copy_(source)
        _wait(device)

    copy()
    rate, _, _ = in_turns(copy, 1, None, 0.5)
    return 2 * COPIED_BYTES * rate


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
