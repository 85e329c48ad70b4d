"""Caution about the packaged human reference, shown where a model may seem ahead of humans.

The reference has few observers, who saw grayscale images and were less accurate than the
participants of the VCR paper.
"""

from collections.abc import Mapping
from functools import cache

from eyechart.humans.reference import PACKAGED, find_reference
from eyechart.humans.transfer import bare_name
from eyechart.results.published_results import find_published
from eyechart.scores.registry import SCORES
from eyechart.stats.curve_settings import SPLINE

TABLE = "vcr-table3"
WHO = (
    "The packaged human reference (geirhos: 5 or 6 observers in a laboratory, who saw other images,"
    " in grayscale)"
)
MEANING = "HMRI and MRSI relative to those participants would usually be lower"


def is_packaged(reference: str) -> bool:
    """Whether this is the reference that comes with the package."""
    return reference in PACKAGED


@cache
def implied_areas(letter: str = "a") -> dict[str, float]:
    """Return the areas under the human curves that the VCR paper's Table 3 implies, by corruption.

    Each model's scores imply the area up to rounding; this is the mean over models. `letter` is "a"
    for accuracy, "p" for consistency.
    """
    # The name of a table, unlike the name of a suite, matches exactly one table.
    (table,) = find_published(TABLE)
    areas: dict[str, list[float]] = {}
    for row in table.models:
        # Every row implies the area; values for the same corruption differ by rounding only.
        areas.setdefault(bare_name(row.corruption), []).append(row.scores[f"human_area_{letter}"])
    return {name: sum(of_models) / len(of_models) for name, of_models in areas.items()}


@cache
def packaged_areas() -> dict[str, float]:
    """Return the area under each packaged human curve, fitted with the VCR paper's estimator."""
    reference = find_reference(PACKAGED[0])
    # Only the areas are needed, no intervals.
    curves = {
        name: reference.curve(name, estimator=SPLINE, n_bootstrap=1) for name in implied_areas()
    }
    return {name: curve.area for name, curve in curves.items() if curve is not None}


def packaged_caution(areas: Mapping[str, float]) -> str:
    """Return a sentence that compares the packaged reference's areas with the paper's.

    `areas`: area under the human accuracy curve of each corruption in a run. If none of these
    corruptions is in the paper, `packaged_areas` is used instead.
    """
    implied, text = implied_areas(), SCORES["r_a"].text
    measured = {bare: area for name, area in areas.items() if (bare := bare_name(name)) in implied}
    compared = "; ".join(
        f"{name.replace('_', ' ')} {text(area)} against {text(implied[name])}"
        for name, area in (measured or packaged_areas()).items()
    )
    return (
        f"{WHO} is less accurate than the participants of the VCR paper, as implied by its Table 3"
        f" (area under the human accuracy curve: {compared}). {MEANING}, and a model that is ahead"
        " of the reference may not be ahead of those participants."
    )
