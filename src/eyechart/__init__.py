"""An eye chart for vision models: how well does a model see as an image degrades?

The public names below are loaded when they are first used, so that importing the package is quick
and has no side effects.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from eyechart.core.errors import CheckFailed, UsageError
from eyechart.core.version import __version__

if TYPE_CHECKING:
    from eyechart.curves.curve import Curve, fit_curve
    from eyechart.images.imageset import ImageSet, load_images
    from eyechart.models.find import load_model
    from eyechart.overlap.matrix import OverlapMatrix, overlap_matrix
    from eyechart.overlap.selection import Selection, select_non_overlapping
    from eyechart.pipeline.evaluate import evaluate
    from eyechart.reports.figures.curve_plot import draw_curves
    from eyechart.results.published_results import PublishedTable, published_tables
    from eyechart.results.schema import Results
    from eyechart.results.scores_file import load
    from eyechart.results.severity_table import read_severity_errors
    from eyechart.results.writing import write_results
    from eyechart.scores.baseline_tables import Baseline, measured_baseline
    from eyechart.scores.corruption_error import (
        CorruptionErrors,
        MeanCorruptionError,
        check_same_baseline,
        corruption_error,
        mean_corruption_error,
        mean_corruption_error_replicates,
    )
    from eyechart.scores.error_consistency import (
        ErrorConsistency,
        error_consistency,
        error_consistency_of_people,
        error_consistency_with_people,
    )
    from eyechart.scores.human_relative import hmri, mrsi
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
    from eyechart.visual_change.vif.statistics import CleanStatistics

__all__ = [
    "Baseline",
    "Change",
    "CheckFailed",
    "CleanStatistics",
    "CorruptionErrors",
    "Curve",
    "ErrorConsistency",
    "ImageSet",
    "LowInformationWarning",
    "MeanCorruptionError",
    "OverlapMatrix",
    "PublishedTable",
    "Results",
    "Selection",
    "TestSet",
    "UsageError",
    "__version__",
    "check_same_baseline",
    "clean_statistics",
    "corrupt",
    "corruption_error",
    "delta_v",
    "describe_corruption",
    "draw",
    "draw_curves",
    "error_consistency",
    "error_consistency_of_people",
    "error_consistency_with_people",
    "evaluate",
    "fit_curve",
    "hmri",
    "list_corruptions",
    "load",
    "load_images",
    "load_model",
    "mean_corruption_error",
    "mean_corruption_error_replicates",
    "measure_change",
    "measured_baseline",
    "mrsi",
    "overlap_matrix",
    "published_tables",
    "read_severity_errors",
    "read_testset",
    "select_non_overlapping",
    "vif",
    "write_results",
]

_HOMES = {
    "Baseline": "eyechart.scores.baseline_tables",
    "Change": "eyechart.visual_change.measure",
    "CleanStatistics": "eyechart.visual_change.vif.statistics",
    "CorruptionErrors": "eyechart.scores.corruption_error",
    "Curve": "eyechart.curves.curve",
    "ErrorConsistency": "eyechart.scores.error_consistency",
    "Results": "eyechart.results.schema",
    "ImageSet": "eyechart.images.imageset",
    "LowInformationWarning": "eyechart.visual_change.measure",
    "MeanCorruptionError": "eyechart.scores.corruption_error",
    "OverlapMatrix": "eyechart.overlap.matrix",
    "PublishedTable": "eyechart.results.published_results",
    "Selection": "eyechart.overlap.selection",
    "TestSet": "eyechart.testsets.testset",
    "check_same_baseline": "eyechart.scores.corruption_error",
    "clean_statistics": "eyechart.visual_change.measure",
    "corrupt": "eyechart.suites.apply",
    "corruption_error": "eyechart.scores.corruption_error",
    "delta_v": "eyechart.visual_change.measure",
    "describe_corruption": "eyechart.suites.catalogue",
    "draw": "eyechart.testsets.testset",
    "draw_curves": "eyechart.reports.figures.curve_plot",
    "error_consistency": "eyechart.scores.error_consistency",
    "error_consistency_of_people": "eyechart.scores.error_consistency",
    "error_consistency_with_people": "eyechart.scores.error_consistency",
    "evaluate": "eyechart.pipeline.evaluate",
    "fit_curve": "eyechart.curves.curve",
    "hmri": "eyechart.scores.human_relative",
    "list_corruptions": "eyechart.suites.catalogue",
    "load": "eyechart.results.scores_file",
    "load_images": "eyechart.images.imageset",
    "load_model": "eyechart.models.find",
    "mean_corruption_error": "eyechart.scores.corruption_error",
    "mean_corruption_error_replicates": "eyechart.scores.corruption_error",
    "measure_change": "eyechart.visual_change.measure",
    "measured_baseline": "eyechart.scores.baseline_tables",
    "mrsi": "eyechart.scores.human_relative",
    "overlap_matrix": "eyechart.overlap.matrix",
    "published_tables": "eyechart.results.published_results",
    "read_severity_errors": "eyechart.results.severity_table",
    "read_testset": "eyechart.testsets.testset",
    "select_non_overlapping": "eyechart.overlap.selection",
    "vif": "eyechart.visual_change.measure",
    "write_results": "eyechart.results.writing",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'eyechart' has no attribute '{name}'")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
