"""Declare corruptions: the function, a description of its parameters, and the registry.

Sampling, validation, help texts, docs and the gallery all read these declarations.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eyechart.core.arguments import digits
from eyechart.core.devices import to_device
from eyechart.core.errors import UsageError
from eyechart.core.randomness import ImageRandom
from eyechart.core.registry import Registry
from eyechart.corruptions.kernels.affine import PixelMap

FAMILIES = ("noise", "blur", "weather", "color", "digital", "occlusion", "geometry")

Values = NDArray[np.float64]
"""One value per image, as a NumPy array on the CPU."""


@dataclass(frozen=True)
class Parameter:
    """A numeric parameter of a corruption, with one value per image.

    Attributes:
        name: the keyword of the corruption function.
        low: the smallest allowed value.
        high: the largest allowed value.
        unit: the unit; "px" values scale with the image size.
        meaning: what the parameter does, for help and docs.
        clean: the value at which the corruption changes nothing, or the value that the parameter
            takes while the other parameters approach their clean values.
        integer: whether only integers are allowed.
        odd: whether only odd integers are allowed.
        choices: the allowed values, if there are only a few.
        drawn: whether the parameter is random (an angle, a sign) rather than part of the strength;
            a value is then drawn for each image, uniform on low … high, unless the user gives one.
        between: how values are interpolated: "linear", "log" or "reciprocal".
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
        """Whether the value is a length in image pixels."""
        return self.unit == "px"

    @property
    def kind(self) -> str:
        """The type of values: "choice", "odd integer", "integer" or "real"."""
        if self.choices is not None:
            return "choice"
        return "odd integer" if self.odd else "integer" if self.integer else "real"

    def check(self, values: Values) -> None:
        """Raise a UsageError unless all values are allowed."""
        if self.choices is not None:
            bad = values[~np.isin(values, self.choices)]
            allowed = " or ".join(f"{choice:g}" for choice in self.choices)
        else:
            # written so that NaN, for which every comparison is false, is rejected
            bad = values[~((values >= self.low) & (values <= self.high))]
            allowed = f"in [{self.low:g}, {self.high:g}]"
        if bad.size:
            raise UsageError(f"{self.name} must be {allowed}, got {digits(bad[0])}.")
        if self.integer and np.any(values != np.round(values)):
            fraction = values[values != np.round(values)][0]
            raise UsageError(f"{self.name} must be a whole number, got {digits(fraction)}.")
        if self.odd and np.any(values % 2 == 0):
            raise UsageError(f"{self.name} must be odd, got {values[values % 2 == 0][0]:g}.")

    def settle(self, values: Values, stretch: float = 1.0) -> Values:
        """Return `values` rounded and clipped to the nearest allowed values.

        On images that are larger by the factor `stretch`, lengths may exceed `high` by that factor.
        """
        if self.choices is not None:
            choices = np.array(self.choices)
            return np.asarray(choices[np.abs(values[:, None] - choices).argmin(axis=1)])
        if self.odd:
            # an even length rounds up to the next odd one
            values = np.floor(values / 2) * 2 + 1
        elif self.integer:
            # not np.round, which rounds halves to even numbers
            values = np.floor(values + 0.5)
        return np.clip(values, self.low, self.high * max(1.0, stretch))

    def interpolate(self, start: Values, end: Values, share: Values) -> Values:
        """Return values between `start` (at `share` 0) and `end` (at `share` 1); see `between`."""
        if self.choices is not None:
            return np.where(share < 0.5, start, end)
        if self.between == "reciprocal":
            # 1 / inf is 0, so an infinite number of photons is a valid `start` or `end`
            with np.errstate(divide="ignore"):
                mixed = 1 / ((1 - share) / start + share / end)
        elif self.between == "log":
            mixed = np.exp((1 - share) * np.log(start) + share * np.log(end))
        else:
            mixed = (1 - share) * start + share * end
        # equal ends must give exactly that value, without rounding error
        return np.where(start == end, start, mixed)

    def sample(self, uniform: Values, low: float, high: float) -> Values:
        """Return values uniform on low … high (both ends included for integers)."""
        if self.choices is not None:
            # uniform numbers are below 1, so that the index is valid
            return np.asarray(np.array(self.choices)[(uniform * len(self.choices)).astype(int)])
        if self.odd:
            return low + 2 * np.floor(uniform * ((high - low) // 2 + 1))
        if self.integer:
            return low + np.floor(uniform * (high - low + 1))
        return low + uniform * (high - low)


Assets = Mapping[str, object]
"""Data that some corruptions need in addition to the image, by keyword; the suites load it.

`textures`: frost textures. `styles`: a trained style transfer network.
"""


def drawn_sign(name: str, meaning: str) -> Parameter:
    """Return a parameter that is 1 or −1, drawn for each image."""
    return Parameter(name, -1, 1, "sign", meaning, choices=(-1, 1), drawn=True)


Apply = Callable[..., Tensor]
"""A corruption function, f(images, random, *, parameter=values, …) → corrupted images.

`images` has the shape (B, C, H, W) with C = 1 or 3. It is float32 in [0, 1] for functions that take
"unit", uint8 for functions that take "levels", and either for functions that take "either". Every
parameter is a keyword with one float64 value per image; lengths are in pixels of this image. The
result has the same shape; it is float32, which may exceed [0, 1] (the caller clips), or uint8.
`images` itself is never modified.
"""


SourceMap = Callable[..., PixelMap]
"""A function f(height, width, *, parameter=values, …) that returns where pixels come from."""


@dataclass(frozen=True)
class Corruption:
    """A corruption function with its declared properties.

    `source_map`: the closed form of the map that moves pixels; None if pixels do not move or their
    map has no closed form.
    """

    name: str
    family: str
    summary: str
    parameters: tuple[Parameter, ...]
    apply: Apply
    random: bool = False
    needs: str = ""
    takes: str = "unit"
    rounds: bool = False
    source_map: SourceMap | None = None

    def parameter(self, name: str) -> Parameter:
        """Return the parameter called `name`; raise a UsageError if there is none."""
        for parameter in self.parameters:
            if parameter.name == name:
                return parameter
        names = ", ".join(parameter.name for parameter in self.parameters)
        raise UsageError(f"{self.name} has no parameter '{name}'; it has: {names}.")

    def __call__(
        self,
        images: Tensor,
        random: ImageRandom,
        values: Mapping[str, Values],
        assets: Assets,
        rounding: Callable[[Tensor], Tensor] | None = None,
    ) -> Tensor:
        """Return the corrupted images: float32, not yet clipped, or uint8.

        `rounding`: how the caller rounds to uint8, if it does; the function may do that itself.
        """
        how = {"rounding": rounding} if self.rounds else {}
        return self.apply(images, random, **assets, **how, **values)


CORRUPTIONS: Registry[Corruption] = Registry("corruption function")


def corruption(
    name: str,
    family: str,
    *parameters: Parameter,
    random: bool = False,
    needs: str = "",
    takes: str = "unit",
    rounds: bool = False,
    source_map: SourceMap | None = None,
) -> Callable[[Apply], Apply]:
    """Register the decorated function; the first line of its docstring becomes the summary.

    Args:
        name: the registered name, with the suite's prefix ("vcr/", "noc/") if it has one.
        family: one of `FAMILIES`.
        *parameters: the keyword arguments of the function.
        random: whether the function uses random numbers; implied by drawn parameters.
        needs: the keyword of `Assets` that the function takes.
        takes: the image format: "unit" (float32), "levels" (uint8) or "either".
        rounds: whether the function takes the keyword `rounding`, a rounding of its result or None.
        source_map: the closed form of the map by which the function moves pixels.
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
                # a drawn angle makes an otherwise deterministic function random
                random=random or any(parameter.drawn for parameter in parameters),
                needs=needs,
                takes=takes,
                rounds=rounds,
                source_map=source_map,
            ),
        )
        return function

    return register


def per_image(values: Values, like: Tensor) -> Tensor:
    """Return `values` as float32 (B, 1, 1, 1) on the device of `like`."""
    numbers = torch.from_numpy(values.astype(np.float32))
    return to_device(numbers, like.device).reshape(-1, 1, 1, 1)
