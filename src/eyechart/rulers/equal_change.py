"""Images at equal Δv: the strength at which a ruler's value reaches a target, for one image."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor

from eyechart.core.progress import Advance, no_advance
from eyechart.rulers import conditions
from eyechart.rulers.conditions import Condition, make_clean, to_shown
from eyechart.visual_change.ruler import Ruler

EXAMPLE_CHANGE = 0.8
"""Δv of the example images; in the human experiments, rulers differ most around it."""

STEPS = 10
"""Number of halvings of the range of strengths."""

TOLERANCE = 0.02
"""Difference from the target up to which it counts as reached."""


@dataclass(frozen=True)
class Series:
    """A condition whose strength rises with a share from 0 to 1."""

    title: str
    condition: Condition
    parameter: Callable[[float], float]
    text: str


SERIES = (
    Series("contrast", conditions.contrast, lambda share: 0.01**share, "{:.0%}"),
    Series("low-pass", conditions.low_pass, lambda share: 0.3 * 150**share, "σ {:.1f}"),
    Series("high-pass", conditions.high_pass, lambda share: 8 * 0.05**share, "σ {:.2f}"),
    Series("uniform noise", conditions.uniform_noise, lambda share: 0.9 * share, "± {:.2f}"),
    Series("phase", conditions.phase_scrambling, lambda share: 180 * share, "± {:.0f}°"),
)
"""The experiments with a continuous strength, from weak to strong."""


@dataclass(frozen=True, eq=False)
class EqualRow:
    """One ruler's images at the same Δv.

    Attributes:
        ruler: The ruler's name.
        images: A gray image, uint8 (H, W), for each series; None if no strength reaches the Δv.
        captions: The strength of each image.
    """

    ruler: str
    images: tuple[Tensor | None, ...]
    captions: tuple[str, ...]


def equal_rows(
    gray: Tensor, rulers: Sequence[Ruler], delta_v: float, advance: Advance = no_advance
) -> list[EqualRow]:
    """Return an image, uint8 (H, W), at the same Δv by each ruler in every series.

    Rulers run on the device of `gray`; `advance` is called for each image.
    """
    rows = []
    for ruler in rulers:
        cells = []
        for series in SERIES:
            cells.append(at_equal_change(gray, ruler, series, delta_v))
            advance(1, "")
        rows.append(
            EqualRow(
                ruler.name,
                tuple(None if cell is None else cell[0] for cell in cells),
                tuple("" if cell is None else cell[1] for cell in cells),
            )
        )
    return rows


def at_equal_change(
    gray: Tensor, ruler: Ruler, series: Series, delta_v: float
) -> tuple[Tensor, str] | None:
    """Return an image, uint8 (H, W), at a Δv by a ruler, and its strength as text.

    Return None if no strength reaches the Δv. The ruler's value must rise with the strength; it is
    found by bisection.
    """
    clean = make_clean(gray[None])
    description = ruler.describe(gray[None, None].expand(-1, 3, -1, -1))

    def image(share: float) -> Tensor:
        return to_shown(series.condition(clean, (series.parameter(share),)))

    def change(share: float) -> float:
        return float(ruler.compare(description, image(share)[:, None].expand(-1, 3, -1, -1))[0])

    low, high = 0.0, 1.0
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if change(middle) < delta_v else (low, middle)
    found = min((low, high), key=lambda share: abs(change(share) - delta_v))
    if abs(change(found) - delta_v) > TOLERANCE:
        return None
    return image(found)[0].cpu(), series.text.format(series.parameter(found))
