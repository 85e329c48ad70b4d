"""The definitions of VIF that people use: they differ far more than their common name suggests."""

from dataclasses import dataclass

from torch import Tensor

from eyechart.core.registry import Registry


@dataclass(frozen=True)
class Definition:
    """What sets one definition apart from another.

    `noise_variance`: σ_n² of the eye's own noise, in squared grey levels. `pixel`: Gaussian windows
    on pixels instead of the subbands of a pyramid. `equal_bands`: every subband weighs the same
    (means over its blocks), or as much as it has blocks (sums). `stabiliser`: added to the
    information of each subband. `sample_covariance`: divided by N − 1, or by N.
    `summed_noise`: where the channel has no gain, its noise is the sum over the window, not the
    mean, as in the first published code.
    """

    name: str
    noise_variance: float
    pixel: bool = False
    equal_bands: bool = False
    stabiliser: float = 0.0
    sample_covariance: bool = False
    summed_noise: bool = False

    def pooled(self, sums: Tensor, blocks: int) -> Tensor:
        """Return what the subbands (B, 2) of one scale add to numerator or denominator, (B,)."""
        own = sums / blocks if self.equal_bands else sums
        return (own + self.stabiliser).sum(dim=-1)

    def gainless(self, window: int) -> float:
        """Return how many variances of the corrupted picture its noise is where gain is nil."""
        return float(window**2) if self.summed_noise else 1.0


DEFINITIONS: Registry[Definition] = Registry("definition")

VCR = DEFINITIONS.add(
    "vcr",
    Definition("vcr", 0.1, equal_bands=True, stabiliser=1e-4, sample_covariance=True),
)
"""As VCR-Bench uses it."""

SHEIKH2006 = DEFINITIONS.add("sheikh2006", Definition("sheikh2006", 0.4, summed_noise=True))
"""As in the authors' first code, vifvec: the finest scale dominates."""

PIXEL = DEFINITIONS.add("pixel", Definition("pixel", 2.0, pixel=True))
"""VIFp: no pyramid; what piq, torchmetrics and sewar compute on each grey picture."""
