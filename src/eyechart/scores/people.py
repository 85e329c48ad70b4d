"""A model next to people: how much of their robustness it reaches, and where it is ahead."""

from dataclasses import dataclass

import numpy as np
from scipy.interpolate import PPoly

from eyechart.core.errors import UsageError
from eyechart.curves.curve import Curve, area_of, percentile_interval

Interval = tuple[float, float]


@dataclass(frozen=True)
class Areas:
    """Areas over visual change 0…1: below each curve, and between them where one is ahead."""

    human: float
    model: float
    human_ahead: float
    model_ahead: float

    @property
    def hmri(self) -> float:
        """Human-relative model robustness index, 1 − human_ahead / human; NaN if people have none.

        1 where the model is nowhere behind.
        """
        return max(0.0, 1 - self.human_ahead / self.human) if self.human > 0 else float("nan")

    @property
    def mrsi(self) -> float:
        """Model robustness superiority index, model_ahead / model; 0 for a model without any."""
        return self.model_ahead / self.model if self.model > 0 else 0.0


def hmri(human_curve: Curve, model_curve: Curve) -> float:
    """Return HMRI in 0…1: the share of people's area that the model reaches."""
    return compared_areas(human_curve, model_curve).hmri


def mrsi(human_curve: Curve, model_curve: Curve) -> float:
    """Return MRSI in 0…1: the share of the model's area in which it is ahead of people."""
    return compared_areas(human_curve, model_curve).mrsi


def compared_areas(human_curve: Curve, model_curve: Curve) -> Areas:
    """Return the four areas of two curves, exactly: pieces are split where the curves cross."""
    for role, curve in (("human_curve", human_curve), ("model_curve", model_curve)):
        if not isinstance(curve, Curve):
            raise UsageError(f"{role} must be a Curve of fit_curve, got {type(curve).__name__}.")
    return areas_of(human_curve.pieces, model_curve.pieces)


def compared_intervals(
    human_curve: Curve, model_curve: Curve, level: float = 0.95
) -> tuple[Interval, Interval]:
    """Return the percentile intervals of HMRI and MRSI; people and model are resampled apart."""
    pairs = zip(human_curve.replicates, model_curve.replicates, strict=False)
    areas = [areas_of(*pair) for pair in pairs]
    own = (np.array([each.hmri for each in areas]), np.array([each.mrsi for each in areas]))
    return percentile_interval(own[0], level), percentile_interval(own[1], level)


def areas_of(human: PPoly, model: PPoly) -> Areas:
    """Return the four areas of two piecewise quadratic curves over 0…1."""
    places = np.union1d(human.x, model.x)
    middles, widths = (places[1:] + places[:-1]) / 2, np.diff(places) / 2
    # the difference on each piece as a + b t + c t², t in −1…1
    difference = [human(middles) - model(middles)]
    for order in (1, 2):
        slope = human(middles, nu=order) - model(middles, nu=order)
        difference.append(slope * widths**order / order)
    gain = sum(_positive_part(*each) * w for *each, w in zip(*difference, widths, strict=True))
    total = area_of(human) - area_of(model)
    # what one is ahead by, less what the other is, is the difference of the areas
    return Areas(area_of(human), area_of(model), float(gain), max(0.0, float(gain - total)))


def _positive_part(a: float, b: float, c: float) -> float:
    """Return ∫ max(0, a + b t + c t²) dt over −1…1."""
    roots = np.roots([c, b, a]) if c else np.array([-a / b] if b else [])
    inside = np.sort(roots[np.isreal(roots)].real)
    ends = np.concatenate([[-1.0], inside[(inside > -1) & (inside < 1)], [1.0]])
    whole = a * ends + b * ends**2 / 2 + c * ends**3 / 3
    return float(np.maximum(np.diff(whole), 0).sum())
