"""Note on the packaged human reference, to be read before calling a model ahead of humans.

It has few observers and greyscale images, and is lower than the humans of the VCR paper.
"""

from collections.abc import Mapping
from functools import cache

from eyechart.humans.reference import PACKAGED, find_reference
from eyechart.humans.transfer import bare_name
from eyechart.results.published_results import find_published
from eyechart.scores.registry import SCORES

TABLE = "vcr-table3"
WHO = (
    "The packaged human reference (geirhos: 5 or 6 observers in a laboratory, greyscale images,"
    " other images)"
)
MEANING = "HMRI and MRSI against that crowd would usually be lower"


def is_packaged(reference: str) -> bool:
    """Whether this is the reference that comes with the package."""
    return reference in PACKAGED


@cache
def implied_areas(letter: str = "a") -> dict[str, float]:
    """Return the areas under the human curves that the VCR paper's Table 3 implies, by bare name.

    Each model's scores imply the area up to rounding; this is the mean over models. `letter` is "a"
    for accuracy, "p" for consistency.
    """
    # A name of a table (not of a suite) finds exactly one.
    (table,) = find_published(TABLE)
    areas: dict[str, list[float]] = {}
    for row in table.models:
        # Every row of the table implies the area once for each model; they differ by rounding only.
        areas.setdefault(bare_name(row.corruption), []).append(row.scores[f"human_area_{letter}"])
    return {name: sum(of_models) / len(of_models) for name, of_models in areas.items()}


@cache
def packaged_areas() -> dict[str, float]:
    """Return the packaged reference's areas with default settings, where the paper implies one."""
    reference = find_reference(PACKAGED[0])
    # Only the areas are needed, no intervals.
    curves = {name: reference.curve(name, n_bootstrap=1) for name in implied_areas()}
    return {name: curve.area for name, curve in curves.items() if curve is not None}


def packaged_caution(areas: Mapping[str, float]) -> str:
    """Return a sentence that compares the packaged reference's areas with the paper's.

    `areas` has the areas of accuracy by corruption in a run; if the paper implies none of them,
    those of the default settings are used.
    """
    implied, text = implied_areas(), SCORES["r_a"].text
    measured = {bare: area for name, area in areas.items() if (bare := bare_name(name)) in implied}
    compared = "; ".join(
        f"{name.replace('_', ' ')} {text(area)} against {text(implied[name])}"
        for name, area in (measured or packaged_areas()).items()
    )
    return (
        f"{WHO} is lower than the crowd that the VCR paper's Table 3 implies (area below the human"
        f" accuracy curve: {compared}): {MEANING}, and a model that is ahead of the reference need "
        "not be ahead of the crowd."
    )
