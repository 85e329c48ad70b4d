"""Psychometric curve of attentive robots, which an analysis of their responses must recover."""

from dataclasses import dataclass
from math import exp
from typing import Annotated

from eyechart.core.options import Option

GROUP = "Robots"


@dataclass(frozen=True)
class Psychometric:
    """Accuracy of an attentive robot, which falls from 1 − lapse to chance around Δv `middle`.

    `tell` is the accuracy in the main trials of a same/different study, which is the same at any
    Δv.
    """

    middle: Annotated[
        float, Option(help="Δv at which half of the accuracy above chance is lost.", group=GROUP)
    ] = 0.65
    width: Annotated[
        float, Option(help="Width of the decline, in Δv.", group=GROUP, minimum=0.001)
    ] = 0.08
    lapse: Annotated[
        float,
        Option(
            help="Error rate of attentive robots on clean images.",
            group=GROUP,
            minimum=0,
            maximum=1,
        ),
    ] = 0.02
    tell: float = 0.9

    def __call__(self, delta_v: float, choices: int) -> float:
        """Return the probability of a correct response."""
        chance = 1 / choices
        # A logistic function between chance and 1 - lapse, the form of Wichmann and Hill (2001),
        # Perception & Psychophysics 63.
        lost = 1 / (1 + exp(-(delta_v - self.middle) / self.width))
        # Rescaled so that the loss is exactly 0 at Δv 0, even if the curve is flat.
        lost_clean = 1 / (1 + exp(self.middle / self.width))
        share = (lost - lost_clean) / (1 - lost_clean)
        return chance + (1 - self.lapse - chance) * (1 - max(0.0, share))
