"""Measure `Corrupt` in a DataLoader, and the transforms of rival packages in the same run."""

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from statistics import geometric_mean, median
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray
from torch.utils.data import DataLoader, Dataset, Sampler

from benchmarks.albumentations_rival import nearest_transform
from benchmarks.imagecorruptions_rival import PACKAGE, Rival
from benchmarks.timing import ROUNDS, sample_images
from eyechart.integrations.transform import Corrupt

EYECHART, ALBUMENTATIONS = "eyechart", "albumentations"
N_IMAGES = 16
"""Number of different images, which are loaded again and again."""

Transform = Callable[[NDArray[np.uint8]], Any]


@dataclass(frozen=True)
class TransformsPlan:
    """What is timed: rounds of about `seconds`, at a published level, by `workers` processes."""

    size: int = 224
    severity: int = 3
    workers: int = 2
    seconds: float = 0.5


@dataclass(frozen=True)
class TransformSpeed:
    """Speed of one corruption in images/s by package, medians over rounds.

    `ratios`: our speed relative to each rival's; `failures`: why a rival was not timed; `nearest`:
    the name of albumentations' transform.
    """

    corruption: str
    rates: dict[str, float]
    ratios: dict[str, float]
    failures: dict[str, str] = field(default_factory=dict)
    nearest: str = ""


class _Repeated(Sampler[int]):
    """The images in turn, `count` of them."""

    def __init__(self) -> None:
        self.count = N_IMAGES

    def __iter__(self) -> Iterator[int]:
        return (index % N_IMAGES for index in range(self.count))


class _Images(Dataset[Any]):
    """Images as arrays (H, W, 3), transformed one at a time, as in training."""

    def __init__(self, images: NDArray[np.uint8], transform: Transform) -> None:
        self.images = images
        self.transform = transform

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> Any:
        return np.ascontiguousarray(self.transform(self.images[index]), dtype=np.uint8)


def measure(
    corruption: str, plan: TransformsPlan, rival: Rival | None, albumentations: Any
) -> TransformSpeed:
    """Return the speed of one corruption; rivals that have it take turns with us."""
    images = sample_images(N_IMAGES, plan.size).permute(0, 2, 3, 1).contiguous().numpy()
    nearest = nearest_transform(albumentations, corruption)
    contenders: dict[str, Transform] = {EYECHART: Corrupt(corruption, severity=plan.severity)}
    failures = {}
    if rival is not None and corruption in rival.names:
        contenders[PACKAGE] = _rival_transform(rival, corruption, plan.severity)
        failures[PACKAGE] = rival.failure(lambda: contenders[PACKAGE](images[0]))
    if nearest is not None:
        contenders[ALBUMENTATIONS] = nearest[1]
        failures[ALBUMENTATIONS] = Rival.failure(lambda: contenders[ALBUMENTATIONS](images[0]))
    failures = {name: text for name, text in failures.items() if text}
    rates = _in_turns(
        {name: one for name, one in contenders.items() if name not in failures}, images, plan
    )
    ours = rates[EYECHART]
    ratios = {
        name: median(one / other for one, other in zip(ours, theirs, strict=True))
        for name, theirs in rates.items()
        if name != EYECHART
    }
    return TransformSpeed(
        corruption,
        {name: median(values) for name, values in rates.items()},
        ratios,
        failures,
        nearest[0] if nearest is not None else "",
    )


def mean_ratio(speeds: list[TransformSpeed], package: str) -> tuple[float, int] | None:
    """Return the geometric mean of the ratios to a rival and their number; None without any."""
    ratios = [speed.ratios[package] for speed in speeds if package in speed.ratios]
    return (geometric_mean(ratios), len(ratios)) if ratios else None


def _rival_transform(rival: Rival, corruption: str, severity: int) -> Transform:
    def transform(image: NDArray[np.uint8]) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return rival.function(image, corruption_name=corruption, severity=severity)

    return transform


def _in_turns(
    contenders: dict[str, Transform], images: NDArray[np.uint8], plan: TransformsPlan
) -> dict[str, list[float]]:
    """Return the rates of each contender in every round; a slow moment of the machine hits all."""
    rates: dict[str, list[float]] = {name: [] for name in contenders}
    with ExitStack() as stack:
        loaders = {
            name: stack.enter_context(_running_loader(_Images(images, transform), plan))
            for name, transform in contenders.items()
        }
        for _ in range(ROUNDS):
            for name, loader in loaders.items():
                rates[name].append(_rate(loader))
    return rates


def _rate(loader: DataLoader[Any]) -> float:
    """Return the images/s of one epoch."""
    start = time.perf_counter()
    count = sum(len(batch) for batch in loader)
    return count / (time.perf_counter() - start)


@contextmanager
def _running_loader(dataset: _Images, plan: TransformsPlan) -> Iterator[DataLoader[Any]]:
    """Yield a loader whose workers have started, and whose epochs take about `plan.seconds`."""
    sampler = _Repeated()
    loader: DataLoader[Any] = DataLoader(
        dataset,
        batch_size=4,
        sampler=sampler,
        num_workers=plan.workers,
        persistent_workers=True,
        # without pickling, which a rival's function need not survive
        multiprocessing_context="fork",
        worker_init_fn=_use_one_thread,
    )
    # the first epoch starts the workers
    _rate(loader)
    sampler.count = max(N_IMAGES, int(_rate(loader) * plan.seconds))
    yield loader
    # ends the workers now, not when memory is collected
    loader._iterator = None


def _use_one_thread(worker: int) -> None:
    """Let OpenCV use one thread, as torch does in a worker."""
    cv2.setNumThreads(1)
