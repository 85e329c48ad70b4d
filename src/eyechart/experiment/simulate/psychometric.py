"""The curve by which attentive robots answer, which what is found in their answers must be."""

from dataclasses import dataclass
from math import exp
from typing import Annotated

from eyechart.core.options import Option

GROUP = "Robots"


@dataclass(frozen=True)
class Psychometric:
    """How often an attentive robot is right: falls from 1 − lapse to chance around `middle`.

    `tell`: how often it is right about two pictures of the main part of same/different, whatever
    their Δv.
    """

    middle: Annotated[
        float, Option(help="Δv at which half of what is seen is lost.", group=GROUP)
    ] = 0.65
    width: Annotated[
        float, Option(help="How slowly it is lost, in Δv.", group=GROUP, minimum=0.001)
    ] = 0.08
    lapse: Annotated[
        float,
        Option(help="Share of clean pictures that are missed.", group=GROUP, minimum=0, maximum=1),
    ] = 0.02
    tell: float = 0.9

    def __call__(self, delta_v: float, choices: int) -> float:
        """Return the probability of the right answer."""
        chance = 1 / choices
        lost = 1 / (1 + exp(-(delta_v - self.middle) / self.width))
        # a clean picture loses nothing, however flat the curve is
        lost_clean = 1 / (1 + exp(self.middle / self.width))
        share = (lost - lost_clean) / (1 - lost_clean)
        return chance + (1 - self.lapse - chance) * (1 - max(0.0, share))
