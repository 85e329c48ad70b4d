"""Functions that benchmarks share: sample images, the machine's name, and alternating timing."""

import platform
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import cv2
import numpy as np
import torch
from torch import Tensor

ROUNDS = 3
"""Minimum number of rounds per measurement, regardless of how long they take."""


def sample_images(count: int, size: int) -> Tensor:
    """Return fixed uint8 images (count, 3, size, size) with the spectrum of natural images."""
    numbers = np.random.default_rng(0)
    fx, fy = np.fft.rfftfreq(size), np.fft.fftfreq(size)
    amplitude = 1 / np.maximum(np.hypot(fy[:, None], fx[None, :]), 1 / size)
    shape = (count, 3, size, len(fx))
    spectrum = numbers.standard_normal(shape) + 1j * numbers.standard_normal(shape)
    # Mostly gray, like natural images: each channel is a common signal plus a little of its own.
    spectrum[:, 1:] = 0.9 * spectrum[:, :1] + 0.3 * spectrum[:, 1:]
    waves = np.fft.irfft2(spectrum * amplitude, s=(size, size))
    waves /= 4 * waves.std(axis=(1, 2, 3), keepdims=True)
    return torch.from_numpy(np.clip(waves * 255 + 127, 0, 255).astype(np.uint8))


def machine_name(device: torch.device) -> str:
    """Return the name of the GPU or the CPU."""
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
def limited_threads(count: int) -> Iterator[None]:
    """Let torch and OpenCV use `count` threads, and restore the previous setting afterwards."""
    before = torch.get_num_threads(), cv2.getNumThreads()
    torch.set_num_threads(count)
    cv2.setNumThreads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before[0])
        cv2.setNumThreads(before[1])


def in_turns(
    ours: Callable[[], None], batch: int, theirs: Callable[[int], None] | None, seconds: float
) -> tuple[float, float | None, float | None]:
    """Return the rates of eyechart and the rival, and their ratio, each a median over rounds.

    The two alternate, so that a temporary slowdown of the machine affects both in the same round.
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
