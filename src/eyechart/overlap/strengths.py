"""A corruption's strength as one number, and a model's robustness at it.

0 is clean, and 1 to 5 is the published range. Beyond 5, parameters are extrapolated up to their
limits. Parameters are rounded to values that make a difference at the image's size, so that
strengths that yield the same images count as one.
"""

from dataclasses import dataclass, replace
from math import exp, inf, log, sqrt

import numpy as np
import torch
from torch import Tensor

from eyechart.core.errors import UsageError
from eyechart.corruptions.declaration import Parameter
from eyechart.corruptions.suites.apply import corrupt_batch, draw_random
from eyechart.corruptions.suites.assets import assets_of
from eyechart.corruptions.suites.strength import Strengths
from eyechart.corruptions.suites.suite import DRAWN, STRONGEST, Entry
from eyechart.images.imageset import ImageSet
from eyechart.images.labels.matching import native_labels
from eyechart.models.model import Model
from eyechart.pipeline.prepare import check_labels, check_models
from eyechart.predictions.batches import BatchSize, StimulusSource, predict_classes
from eyechart.testsets.plan import Plan

SettledValues = tuple[float, ...]
"""Rounded values of the varied parameters, or the severity; equal values yield identical images."""

MILD, STRONG = 1.0, STRONGEST
"""Strengths at the ends of the published range."""

DIGITS = 4
"""Number of significant digits to which real parameters are rounded, in the search and in files."""

NARROWEST = 0.01
"""Minimum width of a range of severities."""

FARTHEST = {"thickness": 0.5}
"""Fraction of the image side at which a length has its full effect; 1 for lengths not listed."""


@dataclass(frozen=True)
class StrengthScale:
    """Strengths of one corruption for images whose shorter side has `side` pixels."""

    entry: Entry
    side: int

    @property
    def by_severity(self) -> bool:
        """Whether strength sets the severity instead of varying parameters along the path."""
        return bool(self.entry.levels) or DRAWN in self.entry.path.values()

    @property
    def moved(self) -> tuple[Parameter, ...]:
        """Parameters that vary with strength; not used if strength is the severity."""
        # Parameters with equal ends are constant along the path.
        names = [name for name, ends in self.entry.path.items() if ends[0] != ends[1]]
        return tuple(self.entry.corruption.parameter(name) for name in names)

    def check(self) -> None:
        """Raise a UsageError if the corruption has no strength that can be varied."""
        if self.by_severity:
            return
        if not self.moved or any(parameter.choices for parameter in self.moved):
            raise UsageError(
                f"{self.entry.name} has neither levels nor a path of increasing strength: omit it."
            )

    @property
    def farthest(self) -> float:
        """Maximum strength: severity 5, or the strength at which all parameters are at a limit."""
        if self.by_severity:
            return STRONGEST
        return max(self._strength_at(parameter, self._limit(parameter)) for parameter in self.moved)

    def values(self, strength: float) -> dict[str, float]:
        """Return the varied parameters at a strength, in the entry's units; {} for severities.

        Integer parameters have integer values in these units.
        """
        if self.by_severity:
            return {}
        return {parameter.name: self._value(parameter, strength) for parameter in self.moved}

    def step(self, strength: float) -> SettledValues:
        """Return the parameters that determine the images at this strength."""
        if self.by_severity:
            return (_rounded(strength),)
        values = self.values(strength)
        return tuple(self._settled(parameter, values[parameter.name]) for parameter in self.moved)

    def is_clean(self, strength: float) -> bool:
        """Return whether images are unchanged at this strength."""
        if strength == 0:
            return True
        if self.by_severity:
            return False
        return all(
            parameter.clean == settled
            for parameter, settled in zip(self.moved, self.step(strength), strict=True)
        )

    def strengths(self, strength: float, count: int) -> Strengths:
        """Return this strength for `count` images, as input for `corrupt_batch`."""
        if self.by_severity:
            return Strengths(np.full(count, _rounded(strength)))
        values = {name: np.full(count, value) for name, value in self.values(strength).items()}
        return Strengths(np.full(count, STRONG), values)

    def between(self, low: float, high: float) -> Entry:
        """Return the entry with strengths drawn between these two strengths."""
        if self.by_severity:
            low, high = _rounded(low), _rounded(high)
            # A range needs two different ends, even if both searches found the same strength.
            high = max(high, min(low + NARROWEST, STRONGEST))
            low = min(low, high - NARROWEST)
            return replace(self.entry, severity=(low, high))
        ends = {parameter.name: self._ends(parameter, low, high) for parameter in self.moved}
        path = {**self.entry.path, **ends}
        pairs = {name: (float(pair[0]), float(pair[1])) for name, pair in path.items()}
        return replace(
            self.entry,
            path=path,
            domain={
                **self.entry.domain,
                **{name: (min(pair), max(pair)) for name, pair in pairs.items()},
            },
            # Parameters on a logarithmic path are drawn along it, not uniformly over the domain.
            severity=(MILD, STRONG) if self.entry.logarithmic else None,
            variants={},
        )

    def _ends(self, parameter: Parameter, low: float, high: float) -> tuple[float, float]:
        """Return the values between which a parameter is drawn, mild end first.

        If several integers correspond to the same length on images of this size, the outermost
        integer is used, so that all lengths in the range are drawn equally often.
        """
        mild, strong = self._value(parameter, low), self._value(parameter, high)
        if not parameter.integer:
            return mild, strong
        rises = self._rises(parameter)
        return self._outermost(parameter, mild, not rises), self._outermost(
            parameter, strong, rises
        )

    def _outermost(self, parameter: Parameter, value: float, largest: bool) -> float:
        # Integers within this distance may correspond to the same length after scaling.
        wide = np.ceil(2 / self._stretch(parameter)) + 2
        near = np.arange(value - 2 * wide, value + 2 * wide + 1, 2 if parameter.odd else 1)
        near = near[(near >= parameter.low) & (near <= parameter.high)]
        settled = self._settled(parameter, value)
        same = [float(number) for number in near if self._settled(parameter, number) == settled]
        return max(same) if largest else min(same)

    def _value(self, parameter: Parameter, strength: float) -> float:
        """Return a valid value of a parameter at a strength, in the entry's units."""
        mild, strong = map(float, self.entry.path[parameter.name])
        clean = mild if parameter.clean is None else parameter.clean
        # Strengths 0 to 1 lead from the clean value to the mild end, and 1 to 5 cover the published
        # range.
        start, end, share = clean, mild, min(strength, MILD)
        rule = parameter
        if strength > MILD:
            start, end, share = mild, strong, (strength - MILD) / (STRONG - MILD)
            rule = self._rule(parameter)
        reached = rule.interpolate(*(np.array([number]) for number in (start, end, share)))
        limit = self._limit(parameter)
        within = min(reached[0], limit) if self._rises(parameter) else max(reached[0], limit)
        # A reciprocal extrapolated beyond the strong end may pass through infinity and turn
        # negative.
        if rule.between == "reciprocal" and reached[0] < 0:
            within = limit
        settled = float(parameter.settle(np.array([within]))[0])
        return settled if parameter.integer else _rounded(settled)

    def _rule(self, parameter: Parameter) -> Parameter:
        is_log = parameter.name in self.entry.logarithmic
        return replace(parameter, between="log") if is_log else parameter

    def _rises(self, parameter: Parameter) -> bool:
        mild, strong = map(float, self.entry.path[parameter.name])
        return strong > mild

    def _limit(self, parameter: Parameter) -> float:
        """Return the limit of a parameter, in the entry's units."""
        strong = float(self.entry.path[parameter.name][1])
        if not self._rises(parameter):
            return min(parameter.low, strong)
        if not parameter.scales_with_size:
            return parameter.high
        side = self.entry.reference_side or self.side
        share = FARTHEST.get(parameter.name, 1.0)
        # A length beyond the image has no further effect.
        return max(strong, min(parameter.high, share * side))

    def _strength_at(self, parameter: Parameter, value: float) -> float:
        """Return the strength, beyond the strong end, at which a parameter has this value."""
        mild, strong = map(float, self.entry.path[parameter.name])
        rule = self._rule(parameter).between
        if rule == "log":
            mild, strong, value = log(mild), log(strong), log(value)
        elif rule == "reciprocal":
            mild, strong, value = 1 / mild, 1 / strong, 1 / value if value else inf
        return MILD + (STRONG - MILD) * (value - mild) / (strong - mild)

    def _stretch(self, parameter: Parameter) -> float:
        if parameter.scales_with_size and self.entry.reference_side is not None:
            return self.side / self.entry.reference_side
        return 1.0

    def _settled(self, parameter: Parameter, value: float) -> float:
        stretch = self._stretch(parameter)
        return float(parameter.settle(np.array([value * stretch]), stretch)[0])


def _rounded(number: float) -> float:
    return float(f"{number:.{DIGITS}g}")


PIXELS = {"cpu": 32 * 224 * 224, "cuda": 256 * 224 * 224}
MOST = {"cpu": 256, "cuda": 4096}
"""Maximum numbers of pixels and of images that are corrupted and predicted in one batch."""

MIN_CORRECT = 20
"""Minimum number of correct predictions on clean images for a ratio to be meaningful."""

NORMAL_95 = 1.959964


@dataclass(frozen=True)
class Robustness:
    """R, the accuracy under a corruption divided by clean accuracy, with its 95 % interval."""

    value: float
    low: float
    high: float


def robustness_of(both: int, only_clean: int, only_corrupted: int) -> Robustness:
    """Return R from the numbers of images classified correctly in both versions or only in one.

    The interval over images is computed for the logarithm of a ratio of paired proportions.

    Example:
        >>> robustness_of(both=40, only_clean=40, only_corrupted=0).value
        0.5
    """
    clean, corrupted = both + only_clean, both + only_corrupted
    if not corrupted:
        # A ratio of 0 has no logarithm: use the exact binomial (Clopper–Pearson) limit for 0 of n.
        return Robustness(0.0, 0.0, 1 - 0.025 ** (1 / clean))
    value = corrupted / clean
    # Delta method for log R; images that are correct both times cancel.
    width = exp(NORMAL_95 * sqrt((only_clean + only_corrupted) / (clean * corrupted)))
    return Robustness(value, value / width, value * width)


class RobustnessProbe:
    """A model, and labeled images of one size for which its clean predictions are known."""

    def __init__(self, model: Model, images: ImageSet, seed: int = 0) -> None:
        self.model, self.images, self.seed = model, images, seed
        check_models([model], images, model.device)
        check_labels(Plan(), [model], images)
        sizes = sorted(set(images.sizes))
        if len(sizes) > 1:
            first, second = (f"{width} × {height}" for height, width in sizes[:2])
            raise UsageError(
                f"All images must have the same size, got {len(sizes)} sizes, such as {first} and "
                f"{second} px: pass a stimulus such as 224 instead of native."
            )
        self.pixels = images.batch(range(len(images))).to(model.device)
        self.keys = images.keys()
        labels = native_labels(
            images.labels, model.classes or 0, model.class_names, images.class_names
        )
        self.labels = torch.from_numpy(labels).to(model.device)
        area = self.pixels[0, 0].numel()
        kind = model.device.type if model.device.type in PIXELS else "cpu"
        self.batch = BatchSize(max(1, min(MOST[kind], PIXELS[kind] // area)))
        self.clean = self._right(None)
        self.clean_right = int(self.clean.sum())
        self._check_clean()

    @property
    def side(self) -> int:
        """Shorter side of the images in pixels."""
        return min(self.images.sizes[0])

    @property
    def clean_accuracy(self) -> float:
        """Accuracy on clean images."""
        return self.clean_right / len(self.images)

    def robustness(self, scale: StrengthScale, strength: float) -> Robustness:
        """Return R at this strength, with separate random numbers for each image."""
        right = self._right(scale, strength)
        # One transfer from the device for both counts.
        counts = torch.stack([(self.clean & right).sum(), right.sum()]).tolist()
        both, corrupted = int(counts[0]), int(counts[1])
        return robustness_of(both, self.clean_right - both, corrupted - both)

    def _right(self, scale: StrengthScale | None, strength: float = 0.0) -> Tensor:
        """Return, as a tensor on the device, which images are classified correctly."""

        def make(start: int, stop: int) -> tuple[Tensor, None]:
            images = self.pixels[start:stop]
            if scale is None:
                return images, None
            entry, keys = scale.entry, self.keys[start:stop]
            strengths = scale.strengths(strength, stop - start)
            # Keyed by image, not by strength: the random numbers stay fixed during the search.
            random = draw_random(entry, keys, self.seed, 0, images.device)
            return corrupt_batch(images, entry, strengths, random, assets_of(entry)), None

        stimuli = StimulusSource(len(self.images), self.images.sizes[0], make)
        (classes,) = predict_classes(stimuli, [self.model], self.batch)
        return classes == self.labels

    def _check_clean(self) -> None:
        """Raise a UsageError if the model's clean accuracy could be due to chance."""
        # If the number of classes is unknown, assume two, for which guessing is most accurate.
        count, chance = len(self.images), 1 / (self.model.classes or 2)
        # Three standard deviations above the expected number of lucky guesses.
        luck = chance * count + 3 * sqrt(count * chance * (1 - chance))
        if self.clean_right < max(MIN_CORRECT, luck):
            raise UsageError(
                f"{self.model.name} is correct on {self.clean_right:,} of {count:,} clean images, "
                "too few to measure the effect of a corruption: use more images, or a model for "
                "these classes."
            )
