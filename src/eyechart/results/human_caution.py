"""What must be known before a model is called ahead of the packaged human reference.

Its observers are few, saw grey images, and are below the crowd behind the VCR paper's tables.
"""

from collections.abc import Mapping
from functools import cache

from eyechart.humans.reference import PACKAGED, find_reference
from eyechart.humans.transfer import bare_name
from eyechart.results.published_results import find_published
from eyechart.scores.registry import SCORES

TABLE = "vcr-table3"
WHO = (
    "The packaged human reference (geirhos: 5 or 6 observers in a laboratory, grey images, other"
    " photographs)"
)
MEANING = "HMRI and MRSI against that crowd would as a rule be lower"


def is_packaged(reference: str) -> bool:
    """Whether it is the reference that comes with the package."""
    return reference in PACKAGED


@cache
def implied_areas(letter: str = "a") -> dict[str, float]:
    """Return the area below the human curve that the VCR paper's Table 3 implies, by bare name.

    The mean over the table's models, whose scores each imply it up to rounding. `letter`: "a" for
    accuracy, "p" for consistency.
    """
    (table,) = find_published(TABLE)
    areas: dict[str, list[float]] = {}
    for row in table.models:
        areas.setdefault(bare_name(row.corruption), []).append(row.scores[f"human_area_{letter}"])
    return {name: sum(of_models) / len(of_models) for name, of_models in areas.items()}


@cache
def packaged_areas() -> dict[str, float]:
    """Return the packaged reference's areas, by default settings, where the paper implies one."""
    reference = find_reference(PACKAGED[0])
    curves = {name: reference.curve(name, replicates=1) for name in implied_areas()}
    return {name: curve.area for name, curve in curves.items() if curve is not None}


def packaged_caution(areas: Mapping[str, float]) -> str:
    """Return a sentence that sets the packaged reference's areas beside the paper's.

    `areas`: of accuracy, by corruption, in a run; where it has none that the paper implies, those
    of the default settings are told.
    """
    implied, text = implied_areas(), SCORES["r_a"].text
    measured = {bare: area for name, area in areas.items() if (bare := bare_name(name)) in implied}
    compared = "; ".join(
        f"{name.replace('_', ' ')} {text(area)} against {text(implied[name])}"
        for name, area in (measured or packaged_areas()).items()
    )
    return (
        f"{WHO} is lower than the crowd that the VCR paper's Table 3 implies (area below the human"
        f" accuracy curve: {compared}): {MEANING}, and ahead of the one is not ahead of the other."
    )
