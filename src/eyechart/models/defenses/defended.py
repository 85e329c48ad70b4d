"""Models with defenses, which change a model's input images or combine its scores.

A defended model is used like any other model: it has its own name and identity, and shares
everything else with the model that it wraps.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from eyechart.core.devices import image_device
from eyechart.images.image_types import to_rgb_levels
from eyechart.models.defenses.defense import Ask, Defense, checked_defense, read_defenses
from eyechart.models.defenses.registry import CENTER_CROP, CLAHE, NON_LOCAL_MEANS, TEN_CROP
from eyechart.models.model import Model


class Defended(Model):
    """A model with a defense; attributes set by its first call do not affect the original model."""

    def __init__(self, model: Model, defense: Defense) -> None:
        # Shares the network but not the attributes, which the first call may set.
        vars(self).update(vars(model))
        self.defenses: tuple[Defense, ...] = (defense, *vars(model).get("defenses", ()))
        self.name = f"{defense}+{model.name}"
        self.mark(defense.name, sorted(defense.settings.items()))

    def __call__(self, images: Any, wait: bool = True, padded_to: int = 0) -> Tensor:
        """Return the scores of images; see `Model`."""
        levels = to_rgb_levels(images)
        ask: Ask = partial(super().__call__, wait=wait, padded_to=padded_to)
        # From the innermost defense to the outermost, so that the first one listed sees images
        # first.
        for defense in reversed(self.defenses):
            ask = partial(defense, ask)
        with torch.inference_mode():
            return ask(levels.to(image_device(self.device)))


def clahe(model: Model, clip: float = 2.0, tiles: int = 8) -> Model:
    """Return a model whose images have their lightness equalized first: see `equalize`."""
    return Defended(model, checked_defense(CLAHE, {"clip": clip, "tiles": tiles}))


def non_local_means(model: Model, strength: float = 0.8, patch: int = 5, window: int = 13) -> Model:
    """Return a model whose images are denoised first: see `denoise`."""
    settings = {"strength": strength, "patch": patch, "window": window}
    return Defended(model, checked_defense(NON_LOCAL_MEANS, settings))


def ten_crop(model: Model, share: float = 0.875, side: int = 224) -> Model:
    """Return a model that averages over four corner crops, the center crop and their mirror images.

    If images are larger than `side` px, crops are `side` × `side` px and not resized, as in the
    ImageNet-C paper. Otherwise the height and width of a crop are `share` times those of the
    image, and the crop is resized to the image size. Scores are the logarithm of the mean
    of the ten probabilities.
    """
    return Defended(model, checked_defense(TEN_CROP, {"share": share, "side": side}))


def center_crop(model: Model, side: int = 224) -> Model:
    """Return a model that sees the center `side` × `side` px of larger images.

    This is the baseline for ten crops of the same images.
    """
    return Defended(model, checked_defense(CENTER_CROP, {"side": side}))


def apply_defenses(model: Model, names: Sequence[str | Defense]) -> Model:
    """Return the model with defenses; the first defense in the list is applied to the images first.

    `names`: names in `DEFENSES`, with settings as in `clahe:clip=3,tiles=4`.
    """
    for defense in reversed(read_defenses(names)):
        model = Defended(model, defense)
    return model
