"""How a corruption is declared: its function, its parameters as data, its place in the registry.

Sampling, validation, help texts, docs and the gallery all read these declarations.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eyechart.core.errors import UsageError
from eyechart.core.randomness import ImageRandom
from eyechart.core.registry import Registry

FAMILIES = ("noise", "blur", "weather", "colour", "digital", "occlusion", "geometry")

Values = NDArray[np.float64]
"""One value per image, on the host."""


@dataclass(frozen=True)
class Parameter:
    """One number that a corruption takes, per image.

    `clean` is the value at which the corruption changes nothing, or which the parameter keeps while
    the others approach theirs. `drawn` parameters (an angle, a sign) are no part of the strength
    path: each image draws its own, uniformly over low … high, unless the user gives one.
    """

    name: str
    low: float
    high: float
    unit: str
    meaning: str
    clean: float | None = None
    integer: bool = False
    odd: bool = False
    choices: tuple[float, ...] | None = None
    drawn: bool = False
    between: str = "linear"

    @property
    def scales_with_size(self) -> bool:
        """Whether the value is a length in the picture."""
        return self.unit == "px"

    @property
    def kind(self) -> str:
        """Return "choice", "odd integer", "integer" or "real"."""
        if self.choices is not None:
            return "choice"
        return "odd integer" if self.odd else "integer" if self.integer else "real"

    def check(self, values: Values) -> None:
        """Raise a UsageError unless every value is allowed."""
        if self.choices is not None:
            bad = values[~np.isin(values, self.choices)]
            allowed = " or ".join(f"{choice:g}" for choice in self.choices)
        else:
            bad = values[~((values >= self.low) & (values <= self.high))]
            allowed = f"in [{self.low:g}, {self.high:g}]"
        if bad.size:
            raise UsageError(f"{self.name} must be {allowed}, got {bad[0]:g}.")
        if self.integer and np.any(values != np.round(values)):
            fraction = values[values != np.round(values)][0]
            raise UsageError(f"{self.name} must be a whole number, got {fraction:g}.")
        if self.odd and np.any(values % 2 == 0):
            raise UsageError(f"{self.name} must be odd, got {values[values % 2 == 0][0]:g}.")

    def settle(self, values: Values, stretch: float = 1.0) -> Values:
        """Return `values` brought to the nearest ones that the parameter can take.

        Lengths may be `stretch` times as long as declared, on pictures that are as much larger.
        """
        if self.choices is not None:
            choices = np.array(self.choices)
            return np.asarray(choices[np.abs(values[:, None] - choices).argmin(axis=1)])
        if self.odd:
            values = np.floor(values / 2) * 2 + 1
        elif self.integer:
            values = np.floor(values + 0.5)
        return np.clip(values, self.low, self.high * max(1.0, stretch))

    def interpolate(self, start: Values, end: Values, share: Values) -> Values:
        """Return the values `share` (0…1) of the way from `start` to `end`, as declared."""
        if self.choices is not None:
            return np.where(share < 0.5, start, end)
        if self.between == "reciprocal":
            with np.errstate(divide="ignore"):
                mixed = 1 / ((1 - share) / start + share / end)
        elif self.between == "log":
            mixed = np.exp((1 - share) * np.log(start) + share * np.log(end))
        else:
            mixed = (1 - share) * start + share * end
        # what does not move must not move by a rounding error either
        return np.where(start == end, start, mixed)

    def sample(self, uniform: Values, low: float, high: float) -> Values:
        """Return values spread evenly over low … high (both ends included for integers)."""
        if self.choices is not None:
            return np.asarray(np.array(self.choices)[(uniform * len(self.choices)).astype(int)])
        if self.odd:
            return low + 2 * np.floor(uniform * ((high - low) // 2 + 1))
        if self.integer:
            return low + np.floor(uniform * (high - low + 1))
        return low + uniform * (high - low)


@dataclass(frozen=True)
class Assets:
    """What some corruptions need besides the image; loaded by the suites.

    `textures`: of frost. `styles`: a trained style transfer.
    """

    textures: tuple[Tensor, ...] = field(default=())
    styles: Any = None


Apply = Callable[..., Tensor]
"""A corruption function, f(images, random, *, parameter=values, …) → corrupted images.

`images` is float32 (B, C, H, W) in 0…1 with C = 1 or 3 ("unit"); uint8 for functions that take
"levels", one or the other for those that take "either". Every parameter comes as a keyword with one
float64 value per image, lengths in pixels of this image. What comes back is float32, which may
leave 0…1 (the caller clips), or uint8, of the same shape. `images` itself is never changed.
"""


@dataclass(frozen=True)
class Corruption:
    """A corruption function with everything that is known about it."""

    name: str
    family: str
    summary: str
    parameters: tuple[Parameter, ...]
    apply: Apply
    random: bool = False
    needs: str = ""
    takes: str = "unit"

    def parameter(self, name: str) -> Parameter:
        """Return the parameter called `name`."""
        for parameter in self.parameters:
            if parameter.name == name:
                return parameter
        names = ", ".join(parameter.name for parameter in self.parameters)
        raise UsageError(f"{self.name} has no parameter '{name}'; it has: {names}.")

    def __call__(
        self, images: Tensor, random: ImageRandom, values: Mapping[str, Values], assets: Assets
    ) -> Tensor:
        """Return the corrupted images: float32 not yet clipped, or uint8."""
        needed = {self.needs: getattr(assets, self.needs)} if self.needs else {}
        return self.apply(images, random, **needed, **values)


CORRUPTIONS: Registry[Corruption] = Registry("corruption function")


def corruption(
    name: str,
    family: str,
    *parameters: Parameter,
    random: bool = False,
    needs: str = "",
    takes: str = "unit",
) -> Callable[[Apply], Apply]:
    """Register the decorated function; its docstring's first line becomes the summary.

    `needs`: what of `Assets` the function gets as a keyword besides its parameters.
    """
    if family not in FAMILIES:
        raise ValueError(f"{name}: unknown family {family}.")

    def register(function: Apply) -> Apply:
        summary = (function.__doc__ or "").strip().splitlines()[0]
        CORRUPTIONS.add(
            name,
            Corruption(
                name=name,
                family=family,
                summary=summary,
                parameters=parameters,
                apply=function,
                random=random or any(parameter.drawn for parameter in parameters),
                needs=needs,
                takes=takes,
            ),
        )
        return function

    return register


def per_image(values: Values, like: Tensor) -> Tensor:
    """Return `values` as float32 (B, 1, 1, 1) on the device of `like`."""
    return torch.from_numpy(values.astype(np.float32)).to(like.device).reshape(-1, 1, 1, 1)
