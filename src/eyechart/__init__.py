"""An eye chart for vision models: how well does a model see as an image degrades?

The public names below are loaded when they are first used, so that importing the package is quick
and has no side effects.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from eyechart.core.errors import UsageError
from eyechart.core.version import __version__

if TYPE_CHECKING:
    from eyechart.curves.curve import Curve, fit_curve
    from eyechart.evaluation.evaluate import evaluate
    from eyechart.images.imageset import ImageSet, load_images
    from eyechart.models.find import load_model
    from eyechart.reports.curve_plot import draw_curves
    from eyechart.reports.results import write_results
    from eyechart.scores.evaluation import Evaluation
    from eyechart.scores.people import hmri, mrsi
    from eyechart.suites.apply import corrupt
    from eyechart.suites.catalogue import describe_corruption, list_corruptions
    from eyechart.testsets.testset import TestSet, draw, read_testset
    from eyechart.visual_change.measure import (
        Change,
        LowInformationWarning,
        clean_statistics,
        delta_v,
        measure_change,
        vif,
    )
    from eyechart.visual_change.statistics import CleanStatistics

__all__ = [
    "Change",
    "CleanStatistics",
    "Curve",
    "Evaluation",
    "ImageSet",
    "LowInformationWarning",
    "TestSet",
    "UsageError",
    "__version__",
    "clean_statistics",
    "corrupt",
    "delta_v",
    "describe_corruption",
    "draw",
    "draw_curves",
    "evaluate",
    "fit_curve",
    "hmri",
    "list_corruptions",
    "load_images",
    "load_model",
    "measure_change",
    "mrsi",
    "read_testset",
    "vif",
    "write_results",
]

_HOMES = {
    "Change": "eyechart.visual_change.measure",
    "CleanStatistics": "eyechart.visual_change.statistics",
    "Curve": "eyechart.curves.curve",
    "Evaluation": "eyechart.scores.evaluation",
    "ImageSet": "eyechart.images.imageset",
    "LowInformationWarning": "eyechart.visual_change.measure",
    "TestSet": "eyechart.testsets.testset",
    "clean_statistics": "eyechart.visual_change.measure",
    "corrupt": "eyechart.suites.apply",
    "delta_v": "eyechart.visual_change.measure",
    "describe_corruption": "eyechart.suites.catalogue",
    "draw": "eyechart.testsets.testset",
    "draw_curves": "eyechart.reports.curve_plot",
    "evaluate": "eyechart.evaluation.evaluate",
    "fit_curve": "eyechart.curves.curve",
    "hmri": "eyechart.scores.people",
    "list_corruptions": "eyechart.suites.catalogue",
    "load_images": "eyechart.images.imageset",
    "load_model": "eyechart.models.find",
    "measure_change": "eyechart.visual_change.measure",
    "mrsi": "eyechart.scores.people",
    "read_testset": "eyechart.testsets.testset",
    "vif": "eyechart.visual_change.measure",
    "write_results": "eyechart.reports.results",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'eyechart' has no attribute '{name}'")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
