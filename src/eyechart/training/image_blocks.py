"""Training images in blocks, each with several batches that are computed together on the device.

All random numbers depend only on the seed and the epoch, so that a resumed training computes
identical blocks. Trained networks are tested in blocks too.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from eyechart.core.errors import UsageError
from eyechart.core.randomness import hash64
from eyechart.models.find import load_model
from eyechart.models.model import Model
from eyechart.predictions.batches import BatchSize, StimulusSource, predict_classes
from eyechart.stats.intervals import CONFIDENCE, Interval, wilson_interval
from eyechart.training.corruption_mixture import Mixture
from eyechart.training.data import DeviceDataset, LabeledImages
from eyechart.training.distributed import ProcessGroup
from eyechart.training.recipe import Recipe


def generator(*parts: str | int) -> torch.Generator:
    """Return a random number generator on the CPU, seeded from `parts` alone."""
    return torch.Generator().manual_seed(hash64("training", *parts) >> 1)


def mirror(images: Tensor, is_mirrored: Tensor) -> Tensor:
    """Return the images, flipped left to right where `is_mirrored` (bool, one per image) is set."""
    return torch.where(is_mirrored.reshape(-1, 1, 1, 1), images.flip(3), images)


def shift(images: Tensor, offsets: Tensor, frame: int) -> Tensor:
    """Return crops of images that are padded with a black frame.

    `offsets`: (B, 2), vertical and horizontal, in 0 … 2 · frame; an offset of `frame` keeps the
    position.
    """
    if frame == 0:
        return images
    count, channels, height, width = images.shape
    wide = pad(images, (frame, frame, frame, frame))
    device = images.device
    rows = offsets[:, 0, None] + torch.arange(height, device=device)
    columns = offsets[:, 1, None] + torch.arange(width, device=device)
    # Indices that broadcast to (B, C, H, W), so that every image has its own offset.
    return wide[
        torch.arange(count, device=device)[:, None, None, None],
        torch.arange(channels, device=device)[None, :, None, None],
        rows[:, None, :, None],
        columns[:, None, None, :],
    ]


def mixing_weights(strength: float, count: int, *parts: str | int) -> Tensor:
    """Return mixup weights of the first images of `count` pairs, from Beta(strength, strength)."""
    # torch has no Beta distribution that takes a generator.
    # Seeded by the step as well, so that a resumed training mixes with the same weights.
    drawn = np.random.default_rng(hash64("mixup", *parts)).beta(strength, strength, count)
    return torch.from_numpy(drawn.astype(np.float32))


BLOCK_PIXELS = {"cpu": 4096 * 32 * 32, "cuda": 16_384 * 32 * 32}
"""Number of pixels that are corrupted together; a few large calls keep a GPU busy."""

LOOKED_AT = 64
"""Number of images that a mixture uses to determine its strengths."""


def predict_held(
    models: Sequence[Model], held: DeviceDataset, mixture: Mixture | None = None
) -> list[Tensor]:
    """Return the class that each model predicts for each image, (N,) on the device.

    If a mixture is given, it corrupts the images in the same way in every call. Visual change is
    not measured.
    """
    height, width = held.data.size
    n_block = BLOCK_PIXELS.get(held.device.type, BLOCK_PIXELS["cpu"]) // (height * width)

    def make(start: int, stop: int) -> tuple[Tensor, None]:
        images = held.batch(torch.arange(start, stop))
        if mixture is not None:
            images = mixture.corrupt(images, held.keys[start:stop], 0, 0)
        return images, None

    stimuli = StimulusSource(len(held.data), (height, width), make)
    return predict_classes(stimuli, models, BatchSize(max(1, n_block)))


class Blocks:
    """Yields this process's part of each batch of mirrored, shifted and partly corrupted images.

    `length`: length of the training run. `batch`: number of images per step, over all processes.
    `steps`: number of steps per epoch.
    """

    def __init__(
        self, held: DeviceDataset, mixture: Mixture, recipe: Recipe, world: ProcessGroup
    ) -> None:
        self.held, self.recipe, self.world = held, recipe, world
        count = len(held.data)
        self.length = recipe.length(count, world.count)
        self.batch_size, self.steps = self.length.batch_size, self.length.steps_per_epoch
        self._drawn: tuple[int, tuple[Tensor, Tensor, Tensor]] | None = None
        self.corrupted = round(recipe.share * self.batch_size)
        if mixture.entries and not self.corrupted:
            raise UsageError(
                f"With share {recipe.share:g}, no image in a batch of {self.batch_size} is"
                " corrupted: give a larger share."
            )
        first = torch.arange(min(count, LOOKED_AT))
        self.mixture = mixture.measured(held.batch(first), held.keys[: len(first)])

    def after(self, done: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the batches after this number of steps, up to the end of their block.

        A batch consists of images, uint8 (B, 3, H, W), and classes (B,), both on the device.
        """
        height, width = self.held.data.size
        pixels = BLOCK_PIXELS.get(self.held.device.type, BLOCK_PIXELS["cpu"])
        # Number of batches that are computed together.
        together = max(1, pixels // (height * width * self.batch_size))
        epoch, begun = divmod(done, self.steps)
        # Blocks start at fixed steps, so that a resumed training computes the same blocks.
        first = begun - begun % together
        last = min(first + together, self.steps)
        # Random numbers are drawn for the whole epoch, so they do not depend on blocks or
        # processes.
        order, flips, offsets = self._draws(epoch)
        batches = order[: self.steps * self.batch_size].reshape(self.steps, self.batch_size)[
            first:last
        ]
        # Every process takes every count-th image of a batch, so that all get corrupted ones.
        column = torch.arange(self.batch_size)[self.world.rank :: self.world.count]
        indices = batches[:, column].flatten()
        on_device = indices.to(self.held.device)
        images = mirror(self.held.batch(indices), flips[indices].to(self.held.device))
        images = shift(images, offsets[indices].to(self.held.device), self.recipe.crop)
        # `column` has positions in the batch of all processes, whose first images are corrupted.
        corrupted = torch.nonzero((column < self.corrupted).repeat(last - first))[:, 0]
        if self.mixture.entries and len(corrupted):
            corrupted = corrupted.to(self.held.device)
            keys = self.held.keys[on_device[corrupted]]
            images[corrupted] = self.mixture.corrupt(
                images[corrupted], keys, self.recipe.seed, epoch
            )
        labels = self.held.labels[on_device]
        for number in range(begun - first, last - first):
            stretch = slice(number * len(column), (number + 1) * len(column))
            yield images[stretch], labels[stretch]

    def _draws(self, epoch: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return the order of images in an epoch, which of them are mirrored, and their shifts.

        The result is cached for the epoch, since a block may be a single batch.
        """
        if self._drawn is None or self._drawn[0] != epoch:
            recipe, count = self.recipe, len(self.held.data)
            order = torch.randperm(count, generator=generator(recipe.seed, "order", epoch))
            # A separate random stream, so that shifts and order do not depend on each other.
            chance = generator(recipe.seed, "augmentation", epoch)
            flips = torch.rand(count, generator=chance) < recipe.flip
            offsets = torch.randint(2 * recipe.crop + 1, (count, 2), generator=chance)
            self._drawn = epoch, (order, flips, offsets)
        return self._drawn[1]


def clean_accuracy(
    checkpoint: Path, test: LabeledImages, device: torch.device
) -> tuple[float, Interval]:
    """Return the accuracy of a checkpoint's network on test images, with Wilson's interval."""
    # The checkpoint comes from this training, so it is trusted.
    model = load_model(str(checkpoint), device, trust=True)
    held = DeviceDataset(test, device)
    (classes,) = predict_held([model], held)
    share = float((classes == held.labels).double().mean())
    return share, wilson_interval(share, len(test), CONFIDENCE)
