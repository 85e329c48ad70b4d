"""How fast the corruptions are, and how fast a rival is on the same machine in the same minute."""

import platform
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eyechart.core.provenance import versions
from eyechart.core.randomness import ImageRandom, hash64
from eyechart.images.identity import content_keys
from eyechart.reports.rival import Rival
from eyechart.suites.apply import corrupt, corrupt_batch
from eyechart.suites.assets import assets_of, ready_entries
from eyechart.suites.strength import DEFAULT_SEVERITY, draw_from_domain
from eyechart.suites.suite import Entry, all_entries, load_suite

ROUNDS = 3
"""At least so many rounds per corruption, however long they take."""


@dataclass(frozen=True)
class Speed:
    """One corruption: images/s by batch size; the rival's rate, or how it failed; the ratio.

    `ratio` compares the largest batch with the rival, both timed in turns.
    """

    corruption: str
    rates: dict[int, float]
    rival_rate: float | None = None
    rival_failure: str = ""
    ratio: float | None = None


@dataclass(frozen=True)
class Plan:
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
        """Whether the rival can do the same: it knows five levels and one device."""
        whole = self.severity in (1, 2, 3, 4, 5)
        return whole and self.device.type == "cpu" and not self.paper_draw


def entries_of(suites: Sequence[str]) -> list[Entry]:
    """Return the corruptions of suites: published ones, or YAML files of users' own."""
    return [entry for name in suites for entry in ready_entries(load_suite(name))]


def measure(entry: Entry, plan: Plan, rival: Rival | None = None) -> Speed:
    """Return the speed of one corruption; the rival, where it has it, takes turns with ours."""
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
    return Speed(entry.name, rates, rival_rate, failure, ratio)


def mean_ratio(speeds: Sequence[Speed]) -> float | None:
    """Return the geometric mean of the ratios that there are."""
    ratios = [speed.ratio for speed in speeds if speed.ratio is not None]
    return geometric_mean(ratios) if ratios else None


def mean_microseconds(speeds: Sequence[Speed]) -> float:
    """Return the mean time of an image in µs over the corruptions, at the largest batch."""
    return sum(1e6 / speed.rates[max(speed.rates)] for speed in speeds) / len(speeds)


def figures(speeds: Sequence[Speed], plan: Plan, rival: Rival | None) -> dict[str, Any]:
    """Return what was measured, on what and with what, ready for a JSON file."""
    return {
        "schema": 1,
        "machine": machine_name(plan.device),
        "threads": plan.threads,
        "size": plan.size,
        "severity": None if plan.paper_draw else plan.severity,
        "draw": "paper" if plan.paper_draw else None,
        "rival": None if rival is None else rival.version,
        "versions": versions(),
        "corruptions": [asdict(speed) for speed in speeds],
        "geometric_mean_ratio": mean_ratio(speeds),
        "mean_microseconds": mean_microseconds(speeds),
    }


def sample_images(count: int, size: int) -> Tensor:
    """Return uint8 (count, 3, size, size) with the spectrum of photographs, the same every time."""
    numbers = np.random.default_rng(0)
    fx, fy = np.fft.rfftfreq(size), np.fft.fftfreq(size)
    amplitude = 1 / np.maximum(np.hypot(fy[:, None], fx[None, :]), 1 / size)
    shape = (count, 3, size, len(fx))
    spectrum = numbers.standard_normal(shape) + 1j * numbers.standard_normal(shape)
    # Mostly grey, as photographs are: each channel is a common part and a little of its own.
    spectrum[:, 1:] = 0.9 * spectrum[:, :1] + 0.3 * spectrum[:, 1:]
    waves = np.fft.irfft2(spectrum * amplitude, s=(size, size))
    waves /= 4 * waves.std(axis=(1, 2, 3), keepdims=True)
    return torch.from_numpy(np.clip(waves * 255 + 127, 0, 255).astype(np.uint8))


def machine_name(device: torch.device) -> str:
    """Return the name of the GPU, or of the CPU."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Let torch and OpenCV use so many threads, and set them back afterwards."""
    before = torch.get_num_threads(), cv2.getNumThreads()
    torch.set_num_threads(count)
    cv2.setNumThreads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before[0])
        cv2.setNumThreads(before[1])


def _is_published(entry: Entry) -> bool:
    """Whether the entry is the one that `corrupt` takes its name for."""
    public = all_entries().get(entry.name)
    return public is not None and replace(public, suite=entry.suite) == entry


def _our_call(entry: Entry, images: Tensor, plan: Plan) -> Callable[[], None]:
    """Return our work on the whole batch, as users call it; it has run once when it comes back."""
    given: dict[str, Any] = {}
    if plan.paper_draw:
        salts = [hash64("bench", entry.name, index) for index in range(len(images))]
        given = draw_from_domain(entry, ImageRandom(content_keys(images), salts, plan.device))

    severity = DEFAULT_SEVERITY if plan.paper_draw else plan.severity
    published = _is_published(entry)
    assets = assets_of(entry)

    def call() -> None:
        if published:
            corrupt(images, entry.name, severity=severity, **given)
        else:
            # `corrupt` does not know users' own entries.
            severities = np.full(len(images), severity)
            corrupt_batch(images, entry, severities, given, content_keys(images), 0, 0, assets)
        if plan.device.type == "cuda":
            torch.cuda.synchronize(plan.device)

    call()
    return call


def _their_call(
    rival: Rival, entry: Entry, images: Tensor, plan: Plan
) -> tuple[Callable[[int], None] | None, str]:
    """Return the rival's work on one of the images, or how it failed on the first."""
    pictures: NDArray[np.uint8] = images.permute(0, 2, 3, 1).contiguous().cpu().numpy()

    def call(index: int) -> None:
        rival.corrupt(pictures[index % len(pictures)], entry.name, int(plan.severity))

    failure = rival.failure(lambda: call(0))
    return (None, failure) if failure else (call, "")


def in_turns(
    ours: Callable[[], None], batch: int, theirs: Callable[[int], None] | None, seconds: float
) -> tuple[float, float | None, float | None]:
    """Return our rate, the rival's, and their ratio: medians over rounds of about equal time.

    Whatever else slows the machine for a while slows both in that round.
    """
    our_rates: list[float] = []
    their_rates: list[float] = []
    end = time.perf_counter() + seconds * (1 if theirs is None else 2)
    shortest = seconds / 20
    while len(our_rates) < ROUNDS or time.perf_counter() < end:
        calls, spent = _repeat(lambda _: ours(), shortest)
        our_rates.append(calls * batch / spent)
        if theirs is not None:
            calls, spent = _repeat(theirs, max(spent, shortest))
            their_rates.append(calls / spent)
    if not their_rates:
        return median(our_rates), None, None
    ratio = median(our / their for our, their in zip(our_rates, their_rates, strict=True))
    return median(our_rates), median(their_rates), ratio


def _repeat(call: Callable[[int], None], seconds: float) -> tuple[int, float]:
    """Return how often `call` ran within about `seconds` (at least once), and how long it took."""
    start = time.perf_counter()
    calls = 0
    while True:
        call(calls)
        calls += 1
        spent = time.perf_counter() - start
        if spent >= seconds:
            return calls, spent
