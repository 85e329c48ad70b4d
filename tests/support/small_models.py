"""Tiny real models that tests name as `small_models:…`, and the tinted photographs they can tell.

What they do can be said in a line, so that a test can compute it a second time.
"""

import hashlib
import multiprocessing
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from skimage import data
from torch import Tensor, nn

TINTS = {
    "blue": (0.45, 0.55, 1.0),
    "green": (0.5, 1.0, 0.5),
    "grey": (0.8, 0.8, 0.8),
    "red": (1.0, 0.5, 0.45),
}
"""In alphabetical order, as the outputs of `Colors` are."""

SMALL = {
    "n": 40,
    "bins": 6,
    "min_per_bin": 3,
    "n_bootstrap": 10,
    "stimulus": "native",
    "humans": None,
    "corruptions": ["gaussian_noise"],
}
"""Options of an evaluation that takes a moment."""

IMAGES = ("astronaut", "chelsea", "coffee", "rocket")


class Colors(nn.Module):
    """Answers with the color that is strongest in the mean, or gray where none is."""

    def __init__(self, threshold: float = 0.08) -> None:
        super().__init__()
        self.register_buffer("threshold", torch.tensor(threshold))

    def forward(self, images: Tensor) -> Tensor:
        red, green, blue = images.mean(dim=(2, 3)).unbind(1)
        level = (red + green + blue) / 3
        scores = (blue - level, green - level, self.threshold * level + 0.01, red - level)
        return 20 * torch.stack(scores, dim=1)


colors = Colors()
pale_colors = Colors(0.3)


class Blocks(nn.Module):
    """A fixed random linear map of the mean colors of 4 × 4 blocks to so many classes."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        weights = np.random.default_rng(0).normal(size=(classes, 48)) * 3
        self.register_buffer("weights", torch.from_numpy(weights).float())

    def forward(self, images: Tensor) -> Tensor:
        blocks = nn.functional.adaptive_avg_pool2d(images, 4).flatten(1)
        return (blocks - 0.5) @ self.weights.T


class Trainable(Blocks):
    """As `Blocks`, with a map that training changes."""

    def __init__(self) -> None:
        super().__init__()
        weights = self.weights
        del self.weights
        self.weights = nn.Parameter(weights)


thousand = Blocks()
four_classes = Blocks(4)


def ten_levels(images: Tensor) -> Tensor:
    """Ten classes by brightness, which noise does not change."""
    level = images.mean(dim=(1, 2, 3))[:, None]
    return -50 * (level - torch.linspace(0.05, 0.95, 10, device=images.device)).abs()


told: list[object] | None = None
"""Where `slow_colors` writes how many pictures it was asked about, if anywhere."""


def slow_colors(images: Tensor) -> Tensor:
    """As `colors`, and every batch takes as long as SLOW says, in seconds."""
    if told is not None:
        told.append(len(images))
    time.sleep(float(os.environ.get("SLOW", "0")))
    return colors(images)


def only_nan(images: Tensor) -> Tensor:
    return colors(images) * torch.nan


def nan_on_colors(images: Tensor) -> Tensor:
    """NaN where a picture has any colour, which grey and noisy pictures of nothing hardly have."""
    means = images.mean(dim=(2, 3))
    colored = means.amax(dim=1) - means.amin(dim=1) > 0.1
    return torch.where(colored[:, None], torch.nan, colors(images))


def one_score(images: Tensor) -> Tensor:
    return images.mean(dim=(1, 2, 3))


def save_images(folder: Path, each: int = 3, side: int = 40, tints=tuple(TINTS)) -> Path:
    """Write parts of photographs in so many tints, a folder for each, and return the folder."""
    number = np.random.default_rng(5)
    for tint in tints:
        (folder / tint).mkdir(parents=True, exist_ok=True)
        for index in range(each):
            whole = Image.fromarray(getattr(data, IMAGES[index % 4])()).convert("L")
            part = 2 * side
            left, top = (int(number.integers(0, room - part)) for room in whole.size)
            gray = whole.crop((left, top, left + part, top + part)).resize((side, side))
            levels = np.asarray(gray, dtype=np.float64)[..., None] * np.array(TINTS[tint])
            Image.fromarray((levels + 20).clip(0, 255).astype(np.uint8)).save(
                folder / tint / f"{index}.png"
            )
    return folder


def dice(images: Tensor) -> Tensor:
    """Another answer every time, by a hair."""
    return torch.rand(len(images), 4) * 0.01


def imaginary(images: Tensor) -> Tensor:
    return colors(images) * 1j


def quitter(images: Tensor) -> Tensor:
    raise SystemExit(3)


def digest(images: Tensor) -> str:
    return hashlib.sha256(images.contiguous().numpy().tobytes()).hexdigest()


BESIDES = {
    "check_matching", "check_models", "plan_run", "predict_blank_images", "reject_changed",
    "self_test",
}  # fmt: skip
"""Functions of eyechart that call models for other purposes than to predict samples."""


def is_prediction() -> bool:
    """Whether the model that asks is called to predict samples."""
    names, frame = set(), sys._getframe()
    while frame is not None:
        names.add(frame.f_code.co_name)
        frame = frame.f_back
    return not names & BESIDES


def logged_colors(images: Tensor) -> Tensor:
    """As `slow_colors`; the file that LOGGED names gets the process and each batch of samples."""
    path = os.environ.get("LOGGED")
    if path and is_prediction():
        with open(path, "a", encoding="utf-8") as file:
            file.write(f"{os.getpid()} {digest(images)}\n")
    return slow_colors(images)


def at_most_two(images: Tensor) -> Tensor:
    """A model whose memory suffices for two images."""
    if len(images) > 2:
        raise torch.OutOfMemoryError("out of memory, as far as a test is concerned")
    return colors(images)


def threaded_colors(images: Tensor) -> Tensor:
    """As `colors`, but the scores depend on the number of threads, as those of networks do."""
    return colors(images) * torch.get_num_threads()


def mortal_colors(images: Tensor) -> Tensor:
    """As `logged_colors`, but kills the first process to see each number of DEATHS logged.

    No batch is deadly twice, since a run ends if two workers die on the same samples.
    """
    scores = logged_colors(images)
    if multiprocessing.parent_process() is not None and is_prediction():
        log = Path(os.environ["LOGGED"])
        batches = [line.split()[1] for line in log.read_text(encoding="utf-8").splitlines()]
        if batches.count(digest(images)) > 1:
            return scores
        for moment in map(int, os.environ["DEATHS"].split()):
            mark = log.with_suffix(f".{moment}")
            # only one process can create the mark
            if len(batches) >= moment and not mark.exists():
                with suppress(FileExistsError):
                    mark.touch(exist_ok=False)
                    os.kill(os.getpid(), signal.SIGKILL)
    return scores


def deadly_colors(images: Tensor) -> Tensor:
    """As `colors`, but kills every process that another process started to run it."""
    if multiprocessing.parent_process() is not None:
        os.kill(os.getpid(), signal.SIGKILL)
    return colors(images)
