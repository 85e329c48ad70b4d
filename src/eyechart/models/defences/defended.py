"""Defences: what is done to pictures before a model sees them, and to its answers, as wrappers.

A defended model is a model like any other: it has a name and an identity of its own, and the rest
of the model it wraps.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from eyechart.core.arguments import as_list, as_text
from eyechart.core.errors import UsageError
from eyechart.core.parallel import on_all_cores
from eyechart.core.registry import Registry, unknown_name
from eyechart.images.image_types import to_rgb_levels
from eyechart.models.defences.clahe import equalise
from eyechart.models.defences.non_local_means import denoise
from eyechart.models.model import Model
from eyechart.models.probabilities import log_probabilities

Ask = Callable[[Tensor], Tensor]
"""From 8-bit pictures (B, 3, H, W) to scores (B, K)."""


@dataclass(frozen=True)
class Setting:
    """A number that a defence takes: above 0 and at most `most`, or whole, or whole and odd."""

    name: str
    usual: float
    most: float
    step: int = 0
    """0: any number; 1: whole numbers; 2: odd ones."""

    def read(self, value: float, defence: str) -> float:
        """Return the value, whole ones as such; what the defence cannot work with is refused."""
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if is_number and 0 < value <= self.most and self._fits(value):
            return int(value) if self.step else float(value)
        kind = ("a number above 0 and", "a whole number from 1 to", "an odd whole number from 1 to")
        at_most = " at most" if self.step == 0 else ""
        raise UsageError(
            f"{self.name} of the defence {defence} must be {kind[self.step]}{at_most}"
            f" {self.most:g}, got {value!r}."
        )

    def _fits(self, value: float) -> bool:
        return self.step == 0 or (value == int(value) and (self.step == 1 or value % 2 == 1))


@dataclass(frozen=True)
class Kind:
    """A defence as it can be asked for: what it takes, and what it does with (ask, pictures, …)."""

    settings: tuple[Setting, ...]
    answer: Callable[..., Tensor]


@dataclass(frozen=True)
class Defence:
    """A defence with all its settings, in the order in which they are declared."""

    name: str
    settings: Mapping[str, float]

    def __str__(self) -> str:
        """The name as users type it, with the settings that are not the usual ones."""
        usual = {setting.name: setting.usual for setting in DEFENCES[self.name].settings}
        unusual = [f"{k}={v:.12g}" for k, v in self.settings.items() if v != usual[k]]
        return f"{self.name}:{','.join(unusual)}" if unusual else self.name

    def __call__(self, ask: Ask, pictures: Tensor) -> Tensor:
        """Return the scores that whoever is asked gives behind this defence."""
        return DEFENCES[self.name].answer(ask, pictures, **self.settings)


class Defended(Model):
    """A model behind a defence; what its first call shows of it, it keeps to itself."""

    def __init__(self, model: Model, defence: Defence) -> None:
        vars(self).update(vars(model))
        self.defences: tuple[Defence, ...] = (defence, *vars(model).get("defences", ()))
        self.name = f"{defence}+{model.name}"
        self.mark(defence.name, sorted(defence.settings.items()))

    def __call__(self, images: Any, wait: bool = True) -> Tensor:
        """Return the scores of images, as `Model` does."""
        pictures = to_rgb_levels(images)
        ask: Ask = partial(super().__call__, wait=wait)
        for defence in reversed(self.defences):
            ask = partial(defence, ask)
        with torch.inference_mode():
            return ask(pictures.to(self.device))


def clahe(model: Model, clip: float = 2.0, tiles: int = 8) -> Model:
    """Return a model whose pictures get their lightness equalised first: see `equalise`."""
    return Defended(model, _checked("clahe", {"clip": clip, "tiles": tiles}))


def non_local_means(model: Model, strength: float = 0.8, patch: int = 5, window: int = 13) -> Model:
    """Return a model whose pictures get their noise taken away first: see `denoise`."""
    settings = {"strength": strength, "patch": patch, "window": window}
    return Defended(model, _checked("nlm", settings))


def ten_crop(model: Model, share: float = 0.875, side: int = 224) -> Model:
    """Return a model that looks at the four corners, the middle, and their mirror images.

    Of images larger than `side` px crops are `side` × `side` px and stay as they are, as in the
    ImageNet-C paper. Crops of smaller images have that `share` of the height and of the width and
    are resized to the whole image's size. Scores are the logarithm of the mean of the ten
    probabilities.
    """
    return Defended(model, _checked("ten-crop", {"share": share, "side": side}))


def centre_crop(model: Model, side: int = 224) -> Model:
    """Return a model that looks at the middle `side` × `side` px of images larger than that.

    It is what ten crops of the same images are compared with.
    """
    return Defended(model, _checked("centre-crop", {"side": side}))


def apply_defences(model: Model, names: Sequence[str | Defence]) -> Model:
    """Return the model behind defences, the first of which gets the pictures first.

    `names`: as users type them, `clahe`, `nlm`, `ten-crop` or `centre-crop`, with settings as in
    `clahe:clip=3,tiles=4`.
    """
    for defence in reversed(read_defences(names)):
        model = Defended(model, defence)
    return model


def read_defences(names: Sequence[str | Defence]) -> tuple[Defence, ...]:
    """Return the defences of these names; one that makes no sense is an error."""
    return tuple(
        name if isinstance(name, Defence) else _read(as_text(name, "Each of defences"))
        for name in as_list(names, "defences")
    )


def split_name(name: str) -> tuple[str, str]:
    """Return a defended model's name as "clahe+" and the name of the model itself."""
    front, rest = "", name
    while rest.partition("+")[1] and rest.partition("+")[0].partition(":")[0] in DEFENCES:
        defence, plus, rest = rest.partition("+")
        front += defence + plus
    return front, rest


def _read(text: str) -> Defence:
    name, colon, pairs = text.partition(":")
    settings: dict[str, float] = {}
    for pair in pairs.split(",") if colon else ():
        key, _, number = pair.partition("=")
        value = _number(number)
        if key in settings or value is None:
            raise UsageError(
                "A defence must be a name, or a name and its settings with a number each, such as"
                f" clahe:clip=3,tiles=4, got '{text}'."
            )
        settings[key] = value
    return _checked(name, settings)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _checked(name: str, settings: Mapping[str, float]) -> Defence:
    known = {setting.name: setting for setting in DEFENCES[name].settings}
    for key in settings:
        if key not in known:
            raise unknown_name(f"setting of the defence {name}", key, known)
    filled = {key: settings.get(key, setting.usual) for key, setting in known.items()}
    return Defence(name, {key: known[key].read(value, name) for key, value in filled.items()})


def _before(change: Callable[..., Tensor], ask: Ask, pictures: Tensor, **settings: float) -> Tensor:
    """Return the scores of changed pictures; a CPU's cores take one picture each."""
    if pictures.device.type != "cpu":
        return ask(change(pictures, **settings))
    changed: dict[int, Tensor] = {}

    def work(position: int) -> None:
        changed[position] = change(pictures[position : position + 1], **settings)

    on_all_cores(work, range(len(pictures)))
    return ask(torch.cat([changed[position] for position in range(len(pictures))]))


def crop_of_crop_note(defences: Sequence[Defence], sizes: Sequence[tuple[int, int]]) -> str:
    """Return a sentence if ten crops are taken of images that are no larger than a crop, or "".

    `sizes`: height and width of the images, in px.
    """
    for defence in defences:
        small = [size for size in sizes if not _is_larger(size, defence.settings.get("side", 0))]
        if defence.name == "ten-crop" and small:
            return (
                f"{defence} takes crops of images of {min(small[0])} px, and resizes them; the"
                " ImageNet-C paper takes its crops from uncropped images. So clean accuracy may"
                " fall where the paper's rises: --stimulus uncropped gives it images of 256 px,"
                " where the files have more."
            )
    return ""


def _is_larger(size: Sequence[int], side: float) -> bool:
    return min(size) > side


def _ten_crops(ask: Ask, pictures: Tensor, share: float, side: int) -> Tensor:
    views = ten_views(pictures, share, side)
    answers = torch.stack([log_probabilities(ask(view)) for view in views])
    return answers.logsumexp(dim=0) - math.log(len(answers))


def _centre_crop(ask: Ask, pictures: Tensor, side: int) -> Tensor:
    height, width = pictures.shape[2:]
    if not _is_larger((height, width), side):
        return ask(pictures)
    top, left = (height - side) // 2, (width - side) // 2
    return ask(pictures[..., top : top + side, left : left + side].contiguous())


def ten_views(pictures: Tensor, share: float, side: int = 224) -> Iterator[Tensor]:
    """Yield the four corners, the middle, and the same mirrored.

    Crops of `side` px where images are larger, otherwise of a `share` of each side, resized to the
    size that the images had.
    """
    size = pictures.shape[2:]
    is_larger = _is_larger(size, side)
    height, width = (side if is_larger else max(round(share * length), 1) for length in size)
    down, along = size[0] - height, size[1] - width
    corners = [(0, 0), (0, along), (down, 0), (down, along), (down // 2, along // 2)]
    for mirrored in (False, True):
        for top, left in corners:
            view = pictures[..., top : top + height, left : left + width]
            if not is_larger:
                grown = interpolate(view.float(), size, mode="bicubic", antialias=True)
                view = grown.round_().clamp_(0, 255).to(torch.uint8)
            yield view.flip(3) if mirrored else view.contiguous()


DEFENCES: Registry[Kind] = Registry("defence")
"""The defences by the names that users type."""

DEFENCES.add(
    "clahe",
    Kind((Setting("clip", 2.0, 256), Setting("tiles", 8, 64, 1)), partial(_before, equalise)),
)
DEFENCES.add(
    "nlm",
    Kind(
        (Setting("strength", 0.8, 100), Setting("patch", 5, 31, 2), Setting("window", 13, 101, 2)),
        partial(_before, denoise),
    ),
)
SIDE = Setting("side", 224, 1024, 1)
DEFENCES.add("ten-crop", Kind((Setting("share", 0.875, 1), SIDE), _ten_crops))
DEFENCES.add("centre-crop", Kind((SIDE,), _centre_crop))
