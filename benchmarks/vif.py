"""Measure how fast eyechart and pyrtools compute visual information fidelity (VIF)."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.pyrtools_rival import load_vif_rival
from benchmarks.timing import in_turns, machine_name, sample_images
from eyechart.core.version import versions
from eyechart.corruptions.suites.apply import corrupt
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


def print_speed(speed: VifSpeed, plan: VifPlan) -> None:
    """Print a table of the measured rates."""
    console = Console(soft_wrap=True)
    kind = str(plan.dtype).removeprefix("torch.")
    console.print(
        f"{machine_name(plan.device)}, threads {plan.threads}, {plan.size} px,"
        f" batch {plan.batch}, {kind}",
        highlight=False,
    )
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("VIF")
    for title in ("images/s", "µs per image", "ratio to pyrtools"):
        table.add_column(title, justify="right")
    rows = [
        ("clean statistics reused", speed.reused, speed.reused_ratio),
        ("clean statistics computed too", speed.whole, speed.whole_ratio),
    ]
    if speed.rival:
        rows.append((f"pyrtools {speed.rival_version}, on the CPU", speed.rival, 1.0))
    for title, rate, ratio in rows:
        ratio_text = f"{ratio:,.1f}×" if ratio else ""
        table.add_row(title, f"{rate:,.0f}", f"{1e6 / rate:,.1f}", ratio_text)
    console.print(table)
    if not speed.rival:
        why = "its pyramid needs 72 px" if plan.size < 72 else "pip install pyrtools"
        console.print(f"pyrtools was not timed: {why}.", highlight=False)
    console.print(
        f"clean statistics: {speed.statistics_bytes / 1e3:,.0f} kB per image", highlight=False
    )
    if speed.bandwidth:
        console.print(
            f"memory bandwidth: {speed.bandwidth / 1e12:.2f} TB/s; reading images and statistics"
            f" once takes {speed.share_of_bandwidth:.1%} of the time",
            highlight=False,
        )


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
