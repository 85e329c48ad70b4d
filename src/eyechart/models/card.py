"""YAML files about models: a card names a model, and a sidecar describes the file next to it."""

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from eyechart.core.arguments import regular_file
from eyechart.core.errors import UsageError
from eyechart.core.registry import unknown_name
from eyechart.core.yaml_text import parse_yaml
from eyechart.models.adapter import Request
from eyechart.models.label_map import LabelMap, find_map, read_names
from eyechart.models.model import Model
from eyechart.models.preprocessing import INTERPOLATIONS, ORDERS, Channels

CARD_SUFFIXES = (".yaml", ".yml")
STEPS = ("side", "mean", "std", "interpolation", "channels")
"""The entries that describe preprocessing."""


@dataclass(frozen=True)
class Card:
    """The entries of a YAML file about a model; missing entries are None.

    `path`: the YAML file. `model`: the model as a string that `load_model` accepts; only in cards.
    `outputs`: the label map. `top1`: the published top-1 accuracy on ImageNet's validation set,
    0…1.
    """

    path: Path
    model: str | None = None
    name: str | None = None
    side: int | None = None
    mean: Channels | None = None
    std: Channels | None = None
    interpolation: str | None = None
    channels: str | None = None
    outputs: LabelMap | None = None
    prompt: str | None = None
    class_names: tuple[str, ...] | None = None
    top1: float | None = None
    half: bool | None = None

    def request(self, asked: Request) -> Request:
        """Return the request, with missing settings taken from this card."""
        settings = {
            key: getattr(self, key)
            for key in ("half", "prompt", "class_names")
            if getattr(asked, key) is None
        }
        return replace(asked, **settings)

    def apply(self, model: Model) -> Model:
        """Apply the card's entries to the model in place, and return it."""
        steps = {key: value for key in STEPS if (value := getattr(self, key)) is not None}
        # A fixed input size is part of the file, and no preprocessing can change it.
        if model.fixed_side and self.side not in (None, model.side):
            raise UsageError(
                f"{model.name} takes images of {model.side} × {model.side} px, but its sidecar has "
                f"side {self.side}: remove the entry side from {self.path}."
            )
        if steps:
            model.preprocessing = replace(model.preprocessing, **steps)
            # A different preprocessing changes the predictions, so it becomes part of the model's
            # identity.
            model.mark(model.preprocessing)
        if self.outputs is not None:
            model.use_map(self.outputs)
        if self.top1 is not None:
            model.published_accuracy = self.top1
        if self.name is not None:
            model.name = self.name
        return model


KEYS = tuple(field.name for field in fields(Card) if field.name != "path")


def read_card(path: Path) -> Card:
    """Return the contents of a YAML file; unknown or invalid entries raise a UsageError."""
    data = _read(path)
    values: dict[str, Any] = {}
    for key, value in data.items():
        name = str(key)
        if name not in KEYS:
            raise unknown_name(f"entry in {path}", name, KEYS)
        values[name] = READERS[name](value, name, path)
    return Card(path, **values)


def _read(path: Path) -> dict[object, object]:
    try:
        data = parse_yaml(regular_file(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"Cannot read {path}: {error.strerror}.") from None
    except ValueError as error:
        message = " ".join(str(error).split()).rstrip(".")
        raise UsageError(f"{path} is not well-formed YAML: {message}.") from None
    if not isinstance(data, dict):
        raise UsageError(f"{path} must contain entries such as side, mean and std, got {data!r}.")
    return data


def _text(value: object, key: str, path: Path) -> str:
    if not isinstance(value, str) or not value.strip():
        raise UsageError(f"{key} in {path} must be a string, got {value!r}.")
    return value.strip()


# A bool is an int in Python, so it is excluded explicitly here and below.
def _side(value: object, key: str, path: Path) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 8192:
        raise UsageError(f"{key} in {path} must be a whole number of pixels, got {value!r}.")
    return value


def _is_share(value: object) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and 0 <= value <= 1  # type: ignore[operator]


def _channels(value: object, key: str, path: Path) -> Channels:
    allowed = "numbers above 0 and at most 1" if key == "std" else "numbers from 0 to 1"
    numbers = value if isinstance(value, list) else []
    if len(numbers) != 3 or not all(map(_is_share, numbers)) or (key == "std" and 0 in numbers):
        raise UsageError(
            f"{key} in {path} must be three {allowed} (red, green, blue, as fractions of full"
            " scale),"
            f" got {value!r}."
        )
    return (float(numbers[0]), float(numbers[1]), float(numbers[2]))


def _choice(value: object, key: str, path: Path) -> str:
    known = INTERPOLATIONS if key == "interpolation" else ORDERS
    if value not in known:
        raise unknown_name(f"{key} in {path}", str(value), known)
    return str(value)


def _outputs(value: object, key: str, path: Path) -> LabelMap:
    return find_map(_text(value, key, path), path.parent)


def _names(value: object, key: str, path: Path) -> tuple[str, ...]:
    if isinstance(value, str):
        return read_names(path.parent / value)
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise UsageError(
            f"{key} in {path} must be a list of names or a file with one name per line, got"
            f" {value!r}."
        )
    return tuple(value)


def _share(value: object, key: str, path: Path) -> float:
    if not _is_share(value):
        raise UsageError(f"{key} in {path} must be a number from 0 to 1, got {value!r}.")
    return float(value)  # type: ignore[arg-type]


def _yes_or_no(value: object, key: str, path: Path) -> bool:
    if not isinstance(value, bool):
        raise UsageError(f"{key} in {path} must be true or false, got {value!r}.")
    return value


READERS = {
    "model": _text,
    "name": _text,
    "side": _side,
    "mean": _channels,
    "std": _channels,
    "interpolation": _choice,
    "channels": _choice,
    "outputs": _outputs,
    "prompt": _text,
    "class_names": _names,
    "top1": _share,
    "half": _yes_or_no,
}
"""The function that reads each entry; it is called with (value, key, path)."""
