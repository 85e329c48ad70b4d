"""Measure the speed of corruptions, and of a rival package at the same time on the same machine."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from statistics import geometric_mean
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from benchmarks.imagecorruptions_rival import Rival
from benchmarks.timing import in_turns, machine_name, sample_images
from eyechart.core.randomness import ImageRandom, hash64
from eyechart.core.version import versions
from eyechart.corruptions.suites.apply import corrupt, corrupt_batch, draw_random
from eyechart.corruptions.suites.assets import assets_of, ready_entries
from eyechart.corruptions.suites.strength import DEFAULT_SEVERITY, Strengths, draw_from_domain
from eyechart.corruptions.suites.suite import Entry, all_entries, load_suite
from eyechart.images.identity import content_keys


@dataclass(frozen=True)
class CorruptionSpeed:
    """Speed of one corruption in images/s by batch size, and the rival's speed or its failure.

    `ratio` is the speed at the largest batch size relative to the rival's; both are timed
    alternately.
    """

    corruption: str
    rates: dict[int, float]
    rival_rate: float | None = None
    rival_failure: str = ""
    ratio: float | None = None


@dataclass(frozen=True)
class CorruptionsPlan:
    """What is timed, and how."""

    batches: tuple[int, ...] = (1, 32)
    size: int = 224
    severity: float = 3.0
    seconds: float = 1.0
    threads: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    paper_draw: bool = False

    @property
    def allows_rival(self) -> bool:
        """Whether the rival supports this plan: it has five severities and runs on the CPU only."""
        whole = self.severity in (1, 2, 3, 4, 5)
        return whole and self.device.type == "cpu" and not self.paper_draw


def entries_of(suites: Sequence[str]) -> list[Entry]:
    """Return the corruptions of suites, given by name or as YAML files."""
    return [entry for name in suites for entry in ready_entries(load_suite(name))]


def measure(entry: Entry, plan: CorruptionsPlan, rival: Rival | None = None) -> CorruptionSpeed:
    """Return the speed of one corruption; a rival that has it is timed alternately."""
    rates = {}
    rival_rate, ratio, failure = None, None, ""
    for batch in sorted(plan.batches):
        images = sample_images(batch, plan.size).to(plan.device)
        ours = _our_call(entry, images, plan)
        theirs = None
        compared = rival is not None and entry.name in rival.names and _is_published(entry)
        if rival is not None and compared and batch == max(plan.batches):
            theirs, failure = _their_call(rival, entry, images, plan)
        rates[batch], rival_rate, ratio = in_turns(ours, batch, theirs, plan.seconds)
    return CorruptionSpeed(entry.name, rates, rival_rate, failure, ratio)


def mean_ratio(speeds: Sequence[CorruptionSpeed]) -> float | None:
    """Return the geometric mean of the ratios to the rival; None if no corruption has a ratio."""
    ratios = [speed.ratio for speed in speeds if speed.ratio is not None]
    return geometric_mean(ratios) if ratios else None


def mean_microseconds(speeds: Sequence[CorruptionSpeed]) -> float:
    """Return the mean time per image in µs over all corruptions, at the largest batch size."""
    return sum(1e6 / speed.rates[max(speed.rates)] for speed in speeds) / len(speeds)


def figures(
    speeds: Sequence[CorruptionSpeed], plan: CorruptionsPlan, rival: Rival | None
) -> dict[str, Any]:
    """Return the measurements, the machine and the versions, as values for a JSON file."""
    return {
        "schema": 1,
        "machine": machine_name(plan.device),
        "threads": plan.threads,
        "size": plan.size,
        "severity": None if plan.paper_draw else plan.severity,
        "draw": "parameters" if plan.paper_draw else None,
        "rival": None if rival is None else rival.version,
        "versions": versions(),
        "corruptions": [asdict(speed) for speed in speeds],
        "geometric_mean_ratio": mean_ratio(speeds),
        "mean_microseconds": mean_microseconds(speeds),
    }


def _is_published(entry: Entry) -> bool:
    """Whether `corrupt` finds this entry by its name."""
    public = all_entries().get(entry.name)
    return public is not None and replace(public, suite=entry.suite) == entry


def _our_call(entry: Entry, images: Tensor, plan: CorruptionsPlan) -> Callable[[], None]:
    """Return a function, already run once to warm up, that corrupts the batch as users would."""
    drawn: dict[str, Any] = {}
    if plan.paper_draw:
        salts = [hash64("bench", entry.name, index) for index in range(len(images))]
        drawn = draw_from_domain(entry, ImageRandom(content_keys(images), salts, plan.device))

    severity = DEFAULT_SEVERITY if plan.paper_draw else plan.severity
    published = _is_published(entry)
    assets = assets_of(entry)

    def call() -> None:
        if published:
            corrupt(images, entry.name, severity=severity, **drawn)
        else:
            # `corrupt` does not know entries of custom suites.
            strengths = Strengths(np.full(len(images), severity), drawn)
            random = draw_random(entry, content_keys(images), 0, 0, images.device)
            corrupt_batch(images, entry, strengths, random, assets)
        if plan.device.type == "cuda":
            torch.cuda.synchronize(plan.device)

    call()
    return call


def _their_call(
    rival: Rival, entry: Entry, images: Tensor, plan: CorruptionsPlan
) -> tuple[Callable[[int], None] | None, str]:
    """Return a function that runs the rival on one image, or a message if its first run fails."""
    pixels: NDArray[np.uint8] = images.permute(0, 2, 3, 1).contiguous().cpu().numpy()

    def call(index: int) -> None:
        rival.corrupt(pixels[index % len(pixels)], entry.name, int(plan.severity))

    failure = rival.failure(lambda: call(0))
    return (None, failure) if failure else (call, "")
