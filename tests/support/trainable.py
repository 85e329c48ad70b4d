"""Small networks that tests train, named as `trainable:…`, and how a test trains one.

As a script (folder, checkpoint) it trains slowly, so that it can be killed or shared by torchrun.
"""

import sys
import time
from pathlib import Path

import torch
from torch import nn

import eyechart as ec
from eyechart.core.progress import NO_PROGRESS
from eyechart.corruptions.suites.suite import find_entry
from eyechart.models.checkpoint import read_checkpoint
from eyechart.models.model import Preprocessing
from eyechart.training import image_blocks, state, training_loop
from eyechart.training.corruption_mixture import Mixture
from eyechart.training.data import training_data
from eyechart.training.recipe import Recipe

CPU = torch.device("cpu")
SIDE = 20
STEPS = Preprocessing(mean=(0.5, 0.4, 0.3), std=(0.2, 0.25, 0.3))
NOISE = Mixture((find_entry("gaussian_noise", None),))
USUAL = {"epochs": 3, "batch_size": 8, "lr": 0.05, "crop": 2}


def linear(classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * SIDE * SIDE, classes))


def small(classes):
    """All that makes resuming hard: running means, and random numbers of its own."""
    return nn.Sequential(
        *(nn.Conv2d(3, 6, 3, 2), nn.BatchNorm2d(6), nn.ReLU(), nn.Dropout(0.2)),
        *(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(24, classes)),
    )


def plain(classes):
    """Without either of them."""
    return nn.Sequential(
        *(nn.Conv2d(3, 6, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten()),
        nn.Linear(24, classes),
    )


def data_of(folder):
    return training_data(ec.load_images(folder, "native"))


def train(data, path, network="small", mixture=NOISE, progress=None, steps=STEPS, **recipe):
    """Return the weights at the end of a training; what is not said is as usual here."""
    own = Recipe(**{**USUAL, **recipe})
    start = training_loop.new_network(f"trainable:{network}", data, 0, steps)
    training = training_loop.Training(start, data, own, mixture)
    training_loop.train(training, CPU, Path(path), progress or NO_PROGRESS)
    return read_checkpoint(Path(path)).weights


class Slow:
    """Tells of every step, and takes its time."""

    def begin(self, title, total):
        def step(count, message):
            print(count, flush=True)
            time.sleep(0.05)

        return step


if __name__ == "__main__":
    torch.set_num_threads(1)
    state.SAVE_EVERY = 0.0
    image_blocks.BLOCK_PIXELS = {"cpu": 2 * 8 * SIDE * SIDE}
    torch.save(train(data_of(sys.argv[1]), sys.argv[2], sys.argv[3], progress=Slow()), sys.argv[4])
