"""The public names and the modules that define them; `__init__.py` reads this file."""

from eyechart.core.errors import CheckFailed as CheckFailed
from eyechart.core.errors import UsageError as UsageError
from eyechart.core.version import __version__ as __version__
from eyechart.corruptions.suites.apply import corrupt as corrupt
from eyechart.corruptions.suites.catalogue import describe_corruption as describe_corruption
from eyechart.corruptions.suites.catalogue import list_corruptions as list_corruptions
from eyechart.gates.gate import gate as gate
from eyechart.gates.gate_results import GateResults as GateResults
from eyechart.images.imageset import ImageSet as ImageSet
from eyechart.images.imageset import load_images as load_images
from eyechart.integrations.transform import Corrupt as Corrupt
from eyechart.models.find import load_model as load_model
from eyechart.overlap.matrix import OverlapMatrix as OverlapMatrix
from eyechart.overlap.matrix import overlap_matrix as overlap_matrix
from eyechart.overlap.selection import Selection as Selection
from eyechart.overlap.selection import select_non_overlapping as select_non_overlapping
from eyechart.pipeline.evaluate import evaluate as evaluate
from eyechart.pipeline.merge import merge as merge
from eyechart.reports.figures.curve_plot import draw_curves as draw_curves
from eyechart.results.published_results import PublishedTable as PublishedTable
from eyechart.results.published_results import published_tables as published_tables
from eyechart.results.results_file import load as load
from eyechart.results.results_file import write_results as write_results
from eyechart.results.schema import Results as Results
from eyechart.results.severity_table import read_severity_errors as read_severity_errors
from eyechart.results.standings import Standings as Standings
from eyechart.results.standings import compare as compare
from eyechart.scores.baseline_tables import Baseline as Baseline
from eyechart.scores.baseline_tables import measured_baseline as measured_baseline
from eyechart.scores.corruption_error import CorruptionErrors as CorruptionErrors
from eyechart.scores.corruption_error import MeanCorruptionError as MeanCorruptionError
from eyechart.scores.corruption_error import check_same_baseline as check_same_baseline
from eyechart.scores.corruption_error import corruption_error as corruption_error
from eyechart.scores.corruption_error import mean_corruption_error as mean_corruption_error
from eyechart.scores.corruption_error import (
    mean_corruption_error_replicates as mean_corruption_error_replicates,
)
from eyechart.scores.error_consistency import ErrorConsistency as ErrorConsistency
from eyechart.scores.error_consistency import error_consistency as error_consistency
from eyechart.scores.error_consistency import (
    error_consistency_of_humans as error_consistency_of_humans,
)
from eyechart.scores.error_consistency import (
    error_consistency_with_humans as error_consistency_with_humans,
)
from eyechart.scores.human_relative import hmri as hmri
from eyechart.scores.human_relative import mrsi as mrsi
from eyechart.stats.curve import Curve as Curve
from eyechart.stats.curve import fit_curve as fit_curve
from eyechart.stats.estimate import Estimate as Estimate
from eyechart.testsets.testset import TestSet as TestSet
from eyechart.testsets.testset import read_testset as read_testset
from eyechart.testsets.testset import sample_testset as sample_testset
from eyechart.visual_change.measure import Change as Change
from eyechart.visual_change.measure import LowInformationWarning as LowInformationWarning
from eyechart.visual_change.measure import clean_statistics as clean_statistics
from eyechart.visual_change.measure import delta_v as delta_v
from eyechart.visual_change.measure import measure_change as measure_change
from eyechart.visual_change.measure import vif as vif
from eyechart.visual_change.vif.statistics import CleanStatistics as CleanStatistics
