"""How a network is trained: the hyperparameters of the training loop."""

import math
from dataclasses import asdict, dataclass
from typing import Annotated

from eyechart.core.arguments import short_repr
from eyechart.core.errors import UsageError
from eyechart.core.options import Option, Seed
from eyechart.core.registry import unknown_name

SCHEDULES = ("step", "cosine", "constant")
PRECISIONS = ("auto", "float32", "bfloat16")
TUNED = ("all", "last")
GROUP = "Training"
DECAY = 0.1
"""Factor by which the learning rate is multiplied at each milestone."""

MAX_EPOCHS, MAX_STEPS, MAX_BATCH, MAX_CROP = 100_000, 10_000_000, 1_000_000, 8192
"""Maximum values; with larger ones, training would not finish or not fit into memory."""


@dataclass(frozen=True)
class TrainingLength:
    """The length of a training run.

    Attributes:
        epochs: Number of passes over the images.
        steps_per_epoch: Number of optimizer steps per epoch.
        batch_size: Number of images per step, over all processes.
    """

    epochs: int
    steps_per_epoch: int
    batch_size: int

    @property
    def steps(self) -> int:
        """The total number of steps."""
        return self.epochs * self.steps_per_epoch

    @property
    def images(self) -> int:
        """The number of images in all steps, counting repetitions."""
        return self.steps * self.batch_size


@dataclass(frozen=True)
class Recipe:
    """SGD with momentum; the defaults are from the ImageNet-NOC study.

    `lr`: the highest learning rate. `milestones`: fractions of all epochs after which the schedule
    "step" divides the learning rate by ten. `warmup`: number of epochs in which the learning rate
    rises from 0. `share`: fraction of each batch that is corrupted. `flip`: probability that an
    image is mirrored. `crop`: width in px of the black frame that is added to images before they
    are cropped at random. `mixup`: the parameter a of Beta(a, a), 0 for no mixup;
    `mixup_per_image`: one weight per image instead of one per batch. `stability`: weight of the
    distance between the predictions for an image and for the same image with uniform noise of
    ± `stability_width` (as a fraction of full scale), 0 for none. `precision`: "auto" is bfloat16
    on a GPU. `deterministic`: use only deterministic kernels. `tune`: train "all" parameters, or
    only the "last" layer; all other layers are then frozen in eval mode, including running
    statistics and dropout.
    """

    epochs: Annotated[int, Option(help="Number of epochs.", group=GROUP)] = 40
    batch_size: Annotated[int, Option(help="Batch size.", group=GROUP)] = 256
    lr: Annotated[float, Option(help="Highest learning rate.", group=GROUP)] = 0.1
    momentum: Annotated[float, Option(help="Momentum of SGD.", group=GROUP, is_advanced=True)] = 0.9
    nesterov: Annotated[
        bool, Option(help="Use Nesterov momentum.", group=GROUP, is_advanced=True)
    ] = False
    weight_decay: Annotated[
        float, Option(help="Weight decay of SGD.", group=GROUP, is_advanced=True)
    ] = 1e-4
    schedule: Annotated[
        str,
        Option(
            help="step (×0.1 after 1/2 and 3/4 of the epochs), cosine or constant.",
            group=GROUP,
            is_advanced=True,
        ),
    ] = "step"
    milestones: tuple[float, ...] = (0.5, 0.75)
    warmup: Annotated[
        float, Option(help="Number of warm-up epochs.", group=GROUP, is_advanced=True)
    ] = 0.0
    share: Annotated[
        float, Option(help="Fraction of each batch that is corrupted.", group=GROUP)
    ] = 0.5
    flip: Annotated[
        float, Option(help="Probability of a horizontal flip.", group=GROUP, is_advanced=True)
    ] = 0.5
    crop: Annotated[
        int,
        Option(help="Random crop with this padding in px.", group=GROUP, is_advanced=True),
    ] = 0
    mixup: Annotated[
        float,
        Option(help="Mixup's alpha; 0 for none.", group=GROUP, is_advanced=True),
    ] = 0.0
    stability: Annotated[
        float,
        Option(
            help="Loss weight of stability training; 0 for none.", group=GROUP, is_advanced=True
        ),
    ] = 0.0
    stability_width: Annotated[
        float,
        Option(
            help="Noise width of stability training, as a fraction of full scale.",
            group=GROUP,
            is_advanced=True,
        ),
    ] = 0.05
    precision: Annotated[
        str,
        Option(
            help="float32, bfloat16, or auto (bfloat16 on a GPU).",
            group="Compute",
            is_advanced=True,
        ),
    ] = "auto"
    deterministic: Annotated[
        bool,
        Option(help="Use only deterministic kernels.", group="Compute", is_advanced=True),
    ] = False
    seed: Seed = 0
    tune: str = "all"
    mixup_per_image: bool = False

    def check_crop(self, size: tuple[int, int]) -> None:
        """Raise a UsageError if a crop of an image of this size could contain only padding."""
        if 2 * self.crop >= min(size):
            raise UsageError(
                f"crop must be less than half of the images' shorter side, {min(size)} px, got"
                f" {self.crop}."
            )

    def check(self) -> None:
        """Raise a UsageError unless the recipe is valid."""
        # Slow to import, and the command line is built from this record.
        from eyechart.core.randomness import check_seed

        _check_whole(self, epochs=(1, MAX_EPOCHS), batch_size=(2, MAX_BATCH), crop=(0, MAX_CROP))
        for name, low, high in LIMITS:
            value = getattr(self, name)
            if not isinstance(value, int | float) or not low <= value <= high:
                raise UsageError(f"{name} must be in [{low:g}, {high:g}], got {value!r}.")
        if not self.lr > 0:
            raise UsageError(f"lr must be above 0, got {self.lr:g}.")
        if self.warmup >= self.epochs:
            raise UsageError(
                f"warmup must be below the number of epochs ({self.epochs}), got {self.warmup:g}."
            )
        if self.nesterov and self.momentum == 0:
            raise UsageError("nesterov needs a momentum above 0, got 0.")
        if self.schedule not in SCHEDULES:
            raise unknown_name("schedule", str(self.schedule), SCHEDULES)
        if self.precision not in PRECISIONS:
            raise unknown_name("precision", str(self.precision), PRECISIONS)
        if self.tune not in TUNED:
            raise unknown_name("value of tune", str(self.tune), TUNED)
        if any(not 0 <= share <= 1 for share in self.milestones):
            raise UsageError(f"milestones must be fractions from 0 to 1, got {self.milestones}.")
        check_seed(self.seed)

    def length(self, n_images: int, n_processes: int = 1) -> TrainingLength:
        """Return the length of a training run with this number of images and processes.

        If there are fewer images than the batch size, they form one batch, reduced to a multiple of
        the number of processes. Images left over at the end of an epoch are not used.

        Example:
            >>> length = Recipe(epochs=2, batch_size=32).length(100)
            >>> length.steps_per_epoch, length.steps, length.images
            (3, 6, 192)
        """
        # Every process needs the same number of images.
        batch = min(self.batch_size, n_images // n_processes * n_processes)
        return TrainingLength(self.epochs, max(1, n_images // batch), batch)

    def lr_at(self, step: int, length: TrainingLength) -> float:
        """Return the learning rate at a step (counted from 0) in a run of this length."""
        total, warm = length.steps, self.warmup * length.steps_per_epoch
        # Step + 1, because with a learning rate of 0 the first step would have no effect.
        rise = min(1.0, (step + 1) / warm) if warm else 1.0
        if self.schedule == "step":
            passed = sum(step >= share * total for share in self.milestones)
            return self.lr * rise * DECAY**passed
        if self.schedule == "cosine":
            done = max(0.0, step - warm) / max(1.0, total - warm)
            return self.lr * rise * 0.5 * (1 + math.cos(math.pi * done))
        return self.lr * rise

    def settings(self) -> dict[str, object]:
        """Return the recipe as plain values."""
        return {**asdict(self), "milestones": list(self.milestones)}


LIMITS = (
    ("lr", 0.0, 100.0), ("momentum", 0.0, 0.9999), ("weight_decay", 0.0, 1.0),
    ("warmup", 0.0, 1e4), ("share", 0.0, 1.0), ("flip", 0.0, 1.0), ("mixup", 0.0, 100.0),
    ("stability", 0.0, 100.0), ("stability_width", 0.0, 1.0),
)  # fmt: skip
"""Numeric settings of a recipe with their minimum and maximum."""

RETRAINING = Recipe(
    epochs=5, batch_size=32, lr=1e-3, weight_decay=0.0, schedule="constant", milestones=(), flip=0.0
)
"""The VCR study's recipe: plain SGD with its learning rate, momentum and number of epochs. Only the
batch size is eyechart's choice.
"""


@dataclass(frozen=True)
class StyleRecipe:
    """How a style transfer network is trained with Adam.

    `side`: height and width of the crops in px. `style_weight`, `same_weight`: weights of the style
    loss and the reconstruction loss, relative to the content loss. `same_share`: fraction of a
    batch that should be reconstructed unchanged.
    """

    steps: Annotated[int, Option(help="Number of steps.", group=GROUP)] = 4000
    batch_size: Annotated[int, Option(help="Batch size.", group=GROUP)] = 16
    lr: Annotated[float, Option(help="Highest learning rate of Adam.", group=GROUP)] = 1e-3
    side: Annotated[int, Option(help="Side of the training crops in px.", group=GROUP)] = 160
    style_weight: Annotated[
        float, Option(help="Weight of style relative to content.", group=GROUP)
    ] = 10.0
    same_weight: float = 10.0
    same_share: float = 0.25
    seed: Seed = 0

    def check(self) -> None:
        """Raise a UsageError unless the recipe is valid."""
        _check_whole(self, steps=(1, MAX_STEPS), batch_size=(2, MAX_BATCH), side=(64, MAX_CROP))
        if self.side % 4:
            raise UsageError(f"side must be a multiple of 4, got {self.side}.")
        if not self.lr > 0:
            raise UsageError(f"lr must be above 0, got {self.lr:g}.")
        if self.style_weight < 0 or self.same_weight < 0 or not 0 <= self.same_share < 1:
            raise UsageError("Weights must be at least 0, and same_share must be in [0, 1).")


def _check_whole(recipe: Recipe | StyleRecipe, **ranges: tuple[int, int]) -> None:
    """Raise a UsageError unless these settings are integers in their ranges."""
    for name, (low, high) in ranges.items():
        value = getattr(recipe, name)
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise UsageError(
                f"{name} must be a whole number from {low} to {high:,}, got {short_repr(value)}."
            )
