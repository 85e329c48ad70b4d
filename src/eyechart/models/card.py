"""YAML files about models: a card names a model, and a sidecar describes the file next to it."""

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeGuard

from eyechart.core.arguments import regular_file
from eyechart.core.errors import UsageError
from eyechart.core.registry import unknown_name
from eyechart.core.yaml_text import parse_yaml
from eyechart.models.adapter import Request
from eyechart.models.label_map import LabelMap, find_map, map_of, read_names
from eyechart.models.model import INTERPOLATIONS, ORDERS, Channels, Model

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
        keys = [key for key in ("half", "prompt", "class_names") if getattr(asked, key) is None]
        return replace(asked, **{key: getattr(self, key) for key in keys})

    def apply(self, model: Model, names_outputs: bool = True) -> None:
        """Apply the card's entries to the model; `names_outputs`: also the class names."""
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
        if self.class_names is not None and names_outputs:
            if self.outputs is not None:
                raise UsageError(
                    f"{self.path} has both outputs and class_names: remove one of them."
                )
            model.use_map(map_of(list(self.class_names), f"of class_names in {self.path}"))


KEYS = tuple(field.name for field in fields(Card) if field.name != "path")


def read_card(path: Path) -> Card:
    """Return the contents of a YAML file; unknown or invalid entries raise a UsageError."""
    try:
        data = parse_yaml(regular_file(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"Cannot read {path}: {error.strerror}.") from None
    except ValueError as error:
        message = " ".join(str(error).split()).rstrip(".")
        raise UsageError(f"{path} is not well-formed YAML: {message}.") from None
    if not isinstance(data, dict):
        raise UsageError(f"{path} must contain entries such as side, mean and std, got {data!r}.")
    values: dict[str, Any] = {}
    for key, value in data.items():
        name = str(key)
        if name not in KEYS:
            raise unknown_name(f"entry in {path}", name, KEYS)
        values[name] = _read_entry(name, value, path)
    return Card(path, **values)


def _read_entry(name: str, value: object, path: Path) -> object:
    """Return an entry's value as `Card` has it; an invalid value raises a UsageError."""
    match name:
        case "side":
            expected = "a whole number of pixels"
            # A bool is an int in Python.
            if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 8192:
                return value
        case "mean" | "std":
            allowed = "numbers above 0 and at most 1" if name == "std" else "numbers from 0 to 1"
            expected = f"three {allowed} (red, green, blue, as fractions of full scale)"
            numbers = value if isinstance(value, list) else []
            is_valid = len(numbers) == 3 and all(map(_is_fraction, numbers))
            if is_valid and (name == "mean" or 0 not in numbers):
                return tuple(map(float, numbers))
        case "interpolation" | "channels":
            known = INTERPOLATIONS if name == "interpolation" else ORDERS
            if value in known:
                return value
            raise unknown_name(f"{name} in {path}", str(value), known)
        case "class_names":
            expected = "a list of names or a file with one name per line"
            if isinstance(value, str):
                return tuple(read_names(path.parent / value))
            if isinstance(value, list) and all(isinstance(item, str) for item in value):
                return tuple(value)
        case "top1":
            expected = "a number from 0 to 1"
            if _is_fraction(value):
                return float(value)
        case "half":
            expected = "true or false"
            if isinstance(value, bool):
                return value
        case _:
            expected = "a string"
            if isinstance(value, str) and value.strip():
                text = value.strip()
                return find_map(text, path.parent) if name == "outputs" else text
    raise UsageError(f"{name} in {path} must be {expected}, got {value!r}.")


def _is_fraction(value: object) -> TypeGuard[float]:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and 0 <= value <= 1  # type: ignore[operator]
