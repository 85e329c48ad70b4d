"""Records of results that say only what a test is about."""

from collections.abc import Mapping

from eyechart.results.model_results import (
    CorruptionResults,
    ModelResults,
    PropertyResults,
    SpaceResults,
)
from eyechart.stats.estimate import Estimate, complement


def corruption_results(rate: Estimate, clean_error: Estimate | None = None) -> CorruptionResults:
    """One corruption of which only the accuracy is known."""
    return CorruptionResults(
        unmeasurable=0,
        error=complement(rate),
        clean_error=clean_error,
        error_by_severity={},
        accuracy=PropertyResults(rate=rate, n_samples=5),
        consistency=None,
    )


def space_results(
    corruptions: Mapping[str, CorruptionResults],
    n_images: int = 5,
    classes: int = 4,
    clean_accuracy: Estimate | None = None,
    verdict: str = "",
) -> SpaceResults:
    """One label space with these corruptions."""
    return SpaceResults(
        n_images=n_images, classes=classes, left_out=0, verdict=verdict, means={}, similar=(),
        clean_accuracy=clean_accuracy, corruptions=corruptions, corruption_error=None, by_class=(),
    )  # fmt: skip


def model_results(name: str, spaces: Mapping[str, SpaceResults], classes: int = 4) -> ModelResults:
    """One model with these label spaces."""
    return ModelResults(
        name=name, identity="", classes=classes, category="", outputs=(), spaces=spaces
    )
