"""Map a severity in [0, 5] to parameter values, for one corruption at one image size.

Severity 0 is the clean image. Published levels are at 1…5. For corruptions
without published levels, severities 1…5 cover their range from mild to strong, and 0…1 interpolates
from the clean image to the mild end of the range.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from eyechart.core.errors import UsageError
from eyechart.core.randomness import ImageRandom
from eyechart.corruptions.declaration import Parameter, Values
from eyechart.corruptions.suites.suite import DRAWN, STRONGEST, Entry

DEFAULT_SEVERITY = 3.0
DRAWN_LEVELS = 10
"""Number of distinct severities from which a severity is drawn if a range is given."""
LARGEST_TABLE = 299
"""Maximum image side in px for which lengths come from the published tables."""


class Strengths(NamedTuple):
    """The strength of the corruption for each image of a batch.

    Attributes:
        severity: one per image; NaN if the strength is given by `parameters` alone.
        parameters: given parameter values, one per image; all other parameters follow from the
            severity or are drawn for each image.
    """

    severity: Values
    parameters: Mapping[str, Values] = MappingProxyType({})

    def select(self, indices: Sequence[int]) -> "Strengths":
        """Return the strengths of the images at these indices."""
        some = {name: values[indices] for name, values in self.parameters.items()}
        return Strengths(self.severity[indices], some)


def check_severity(severity: Values) -> None:
    """Raise a UsageError unless every severity is in [0, 5]."""
    bad = severity[~((severity >= 0) & (severity <= STRONGEST))]
    if bad.size:
        raise UsageError(f"severity must be in [0, 5], got {bad[0]:.10g}.")


def resolve(
    entry: Entry, severity: Values, fixed: Mapping[str, Values], side: int, random: ImageRandom
) -> dict[str, Values]:
    """Return every parameter's value per image, with lengths in px for images of this `side`.

    Values in `fixed` are used unchanged; all others follow from the severity or are drawn.
    """
    values = {}
    for parameter in entry.corruption.parameters:
        name = parameter.name
        if name in fixed:
            parameter.check(fixed[name])
            value = fixed[name]
        elif name in entry.path:
            value = _along_path(entry, parameter, severity, random)
        elif any(name in table for table in entry.levels.values()):
            value = _along_levels(entry, parameter, severity, side)
        else:
            value = _draw(entry, parameter, random)
        # published tables end at 299 px; for larger images, lengths scale with the side
        stretch = side / (entry.reference_side or LARGEST_TABLE)
        if parameter.scales_with_size and entry.reference_side is not None:
            value = parameter.settle(value * stretch, stretch)
        elif name not in fixed:
            value = parameter.settle(value, stretch if parameter.scales_with_size else 1.0)
        values[name] = value
    return values


def draw_from_domain(entry: Entry, random: ImageRandom) -> dict[str, Values]:
    """Return parameters drawn uniformly from the paper's domain, in the entry's units."""
    return {
        parameter.name: _draw(entry, parameter, random) for parameter in entry.corruption.parameters
    }


def draw_strengths(entry: Entry, random: ImageRandom) -> Strengths:
    """Return random strengths for `corrupt_batch`.

    These are severities, drawn uniformly from the entry's range or from the five published levels.
    If the entry has neither, the severity is NaN, and parameters are drawn from the domain.
    """
    if entry.severity is not None:
        return Strengths(draw_severities(random, *entry.severity))
    if entry.levels:
        # `scalar` is below 1, so this is 1 to 5
        return Strengths(np.floor(1 + STRONGEST * random.scalar("drawn severity")))
    return Strengths(np.full(len(random), np.nan), draw_from_domain(entry, random))


def draw_severities(random: ImageRandom, low: float, high: float) -> Values:
    """Return a severity per image, drawn from evenly spaced values between `low` and `high`.

    Many corruptions process all images with the same strength at once; a different strength for
    every image would leave a GPU idle.
    """
    level = np.floor(random.scalar("drawn severity") * DRAWN_LEVELS)
    return low + (level + 0.5) / DRAWN_LEVELS * (high - low)


def _draw(entry: Entry, parameter: Parameter, random: ImageRandom) -> Values:
    low, high = entry.domain.get(parameter.name, (parameter.low, parameter.high))
    # the stream is named after the parameter: renaming a parameter changes pixels
    return parameter.sample(random.scalar(f"parameter {parameter.name}"), low, high)


def _along_path(
    entry: Entry, parameter: Parameter, severity: Values, random: ImageRandom
) -> Values:
    ends = entry.path[parameter.name]
    # severities 1…5 as 0…1 along the path
    over_range = np.clip((severity - 1) / 4, 0, 1)
    if ends == DRAWN:
        clean = np.full_like(severity, parameter.clean)
        return parameter.interpolate(clean, _draw(entry, parameter, random), over_range)
    mild, strong = (np.full_like(severity, float(end)) for end in ends)
    # a parameter without a clean value stays at its mild end below severity 1
    clean = mild if parameter.clean is None else np.full_like(severity, parameter.clean)
    below = parameter.interpolate(clean, mild, np.clip(severity, 0, 1))
    between = "log" if parameter.name in entry.logarithmic else parameter.between
    above = replace(parameter, between=between).interpolate(mild, strong, over_range)
    return np.where(severity < 1, below, above)


def _along_levels(entry: Entry, parameter: Parameter, severity: Values, side: int) -> Values:
    """Interpolate the published tables in severity, then in log(side).

    If an image is smaller or larger than the sizes in all tables, lengths scale with its side.
    """
    sides = sorted(entry.levels)
    # tables are interpolated between published sides, never extrapolated
    inner = min(max(side, sides[0]), sides[-1])
    upper = next(index for index, known in enumerate(sides) if known >= inner)
    lower = upper if sides[upper] == inner else upper - 1
    start, end = (
        _in_table(parameter, entry.levels[sides[index]][parameter.name], severity)
        for index in (lower, upper)
    )
    share = 0.0
    if lower != upper:
        share = math.log(inner / sides[lower]) / math.log(sides[upper] / sides[lower])
    value = parameter.interpolate(start, end, np.full_like(severity, share))
    if parameter.scales_with_size:
        value = value * (side / inner)
    return value


def _in_table(parameter: Parameter, levels: tuple[float, ...], severity: Values) -> Values:
    clean = levels[0] if parameter.clean is None else parameter.clean
    # severity 0 is the clean value, before the five levels
    knots = np.array([clean, *levels])
    # severity 5 belongs to the last interval
    below = np.minimum(np.floor(severity), STRONGEST - 1).astype(int)
    return parameter.interpolate(knots[below], knots[below + 1], severity - below)
