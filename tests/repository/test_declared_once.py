"""Everything is declared once: only the module that declares a registry's names lists them.

A module lists names if it has two of them in its strings, each by itself or both in one; docstrings
and comments do not count. Every exception is below, with its reason.
"""

import ast
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache

import pytest

from eyechart.cli.holdout import ORDERS, SubclassSettings
from eyechart.cli.superclass import SuperclassSettings
from eyechart.core.options import fields_of
from eyechart.corruptions.suites.catalogue import list_corruptions
from eyechart.corruptions.suites.published import PUBLISHED
from eyechart.humans.human_settings import CLEAN_RESPONSES, FORMATS, HumanSettings, ImportSettings
from eyechart.humans.placement import EXPERIMENTS
from eyechart.images.labels.spaces import RULES, SPACES
from eyechart.integrations.loggers.registry import LOGGERS
from eyechart.models.registries import DEFENSES, NETWORKS
from eyechart.pipeline.settings import EvaluateSettings
from eyechart.predictions.compute_settings import ENGINES
from eyechart.scores.baseline_names import BASELINES
from eyechart.scores.baseline_tables import built_in
from eyechart.scores.registry import SCORES
from eyechart.stats.curve_settings import BINNINGS, ESTIMATORS, RIGHT_ANCHORS, CurveSettings
from eyechart.stats.intervals import CONFIDENCE, PUBLISHED_LEVEL
from eyechart.testsets.testset_settings import SAMPLINGS, SampleSettings
from eyechart.training.recipe import PRECISIONS, SCHEDULES, TUNED, Recipe
from eyechart.visual_change.registry import RULERS
from eyechart_experiment.recruiters import RECRUITERS
from eyechart_experiment.study_config import KINDS, StudyConfig
from places import python_files


@dataclass(frozen=True)
class Declared:
    """A registry: its names, the modules that declare them, and who else may name two, and why."""

    names: Collection[str]
    places: Collection[str]
    reasons: Mapping[str, str] = field(default_factory=dict)


REGISTRIES = {
    "scores": Declared(
        list(SCORES),
        {"scores/registry.py"},
        {
            "cli/compare.py": "examples in a help text",
            "overlap/benchmarks.py": "columns of two published tables",
            "reports/html/verdict.py": "the sentence that a report on one model begins with",
            "reports/html/leaderboard_tables.py": "columns of the first screen",
            "reports/series/model_scores.py": "the area that is compared with humans by its index",
            "reports/series/model_errors.py": "the two means of corruption errors",
            "reports/terminal/leaderboard.py": "columns of published corruption errors",
            "reports/terminal/result_tables.py": "two columns that a baseline brings",
            "reports/terminal/study_tables.py": "the decimals of errors, and a statistic of rulers",
            "results/model_results.py": "fields of the record of corruption errors",
            "results/published_results.py": "columns of published tables",
        },
    ),
    "rulers": Declared(
        list(RULERS),
        {"visual_change/registry.py"},
        {
            "visual_change/registration/human_ruler.py": "the ruler that it maps",
            "visual_change/vif/statistics.py": "each definition of VIF has its name",
            "visual_change/networks/network_rulers.py": "each network ruler has its name",
        },
    ),
    "loggers": Declared(list(LOGGERS), {"integrations/loggers/registry.py"}),
    "engines": Declared(list(ENGINES), {"predictions/compute_settings.py"}),
    "defenses": Declared(list(DEFENSES), {"models/registries.py"}),
    "networks": Declared(
        list(NETWORKS),
        {"models/registries.py"},
        {
            "cli/holdout.py": "those of two published studies",
        },
    ),
    "recruiters": Declared(list(RECRUITERS), {"eyechart_experiment/recruiters/"}),
    "importers": Declared(
        list(FORMATS),
        {"humans/human_settings.py", "humans/importing.py"},
        {
            "eyechart_experiment/server/routes.py": "counts of trials",
            "rulers/study_settings.py": "columns of a table of human counts",
        },
    ),
    "curve methods": Declared(
        list(ESTIMATORS),
        {"stats/curve_settings.py"},
        {"humans/human_fit.py": "how two methods smooth rates of human responses"},
    ),
    "baselines": Declared(BASELINES, {"scores/baseline_names.py"}),
    "label rules": Declared(
        list(RULES),
        {"images/labels/spaces.py"},
        {"models/card.py": "the mean of a model's channels, its published accuracy"},
    ),
    "suites": Declared(
        PUBLISHED,
        {"corruptions/suites/published.py"},
        {
            "cli/compare.py": "examples in a help text",
            "overlap/benchmarks.py": "the published tables of two suites",
            "reports/figures/score_figures.py": "which two suites the figure needs",
            "results/study_models.py": "the models of each paper",
            "corruptions/suites/published.py": "the suite of each preset",
            "reports/terminal/leaderboard.py": "columns of a table of two suites",
            "results/ranking_comparison.py": "pairs of suites that papers compare",
            "scores/baseline_tables.py": "which suites a published baseline is for",
            "scores/registry.py": "which scores papers print for a suite",
        },
    ),
    "corruptions": Declared(
        list_corruptions(),
        {"corruptions/"},
        {
            "cli/corrupt.py": "examples in a help text",
            "eyechart_experiment/server/sessions.py": "everyday words by parts of names",
            "humans/transfer.py": "which corruption a published experiment is",
            "integrations/imagecorruptions.py": "that package's own list",
        },
    ),
}


CHOICES = [
    (EvaluateSettings, "labels", SPACES),
    (EvaluateSettings, "baseline", BASELINES),
    (SampleSettings, "labels", SPACES),
    (SampleSettings, "sampling", SAMPLINGS),
    (CurveSettings, "binning", BINNINGS),
    (CurveSettings, "estimator", ESTIMATORS),
    (CurveSettings, "right_anchor", RIGHT_ANCHORS),
    (HumanSettings, "clean_responses", CLEAN_RESPONSES),
    (ImportSettings, "placement", EXPERIMENTS),
    (Recipe, "schedule", SCHEDULES),
    (Recipe, "precision", PRECISIONS),
    (SuperclassSettings, "tune", TUNED),
    (SubclassSettings, "order", ORDERS),
    (StudyConfig, "kind", KINDS),
]
"""Settings that take one of a few names, with these."""


@cache
def strings() -> dict[str, frozenset[str]]:
    """Return the strings of every module of the package by its path."""
    return {
        name: frozenset(strings_of(path.read_text(encoding="utf-8")))
        for name, path in python_files().items()
    }


def strings_of(source: str) -> Iterator[str]:
    """Yield every string of a module that is no docstring."""
    nodes = list(ast.walk(ast.parse(source)))
    documentation = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if is_text and id(node) not in documentation:
            yield node.value


def listed_names(texts: Collection[str], names: Collection[str]) -> set[str]:
    """Return the names that strings list: by themselves, or several in one string."""
    listed = set(texts) & set(names)
    # the longest first, so that `noc/rain` is not found as `rain`
    choice = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    word = re.compile(rf"(?<![\w/@-])(?:{choice})(?![\w/@-])")
    for text in texts:
        named = set(word.findall(text))
        if len(named) > 1:
            listed |= named
    return listed


def listing_modules(names: Collection[str]) -> dict[str, set[str]]:
    """Return the modules that list two of the names, or the only one that there is."""
    enough = min(2, len(names))
    listed = {module: listed_names(texts, names) for module, texts in strings().items()}
    return {module: names for module, names in listed.items() if len(names) >= enough}


@pytest.mark.parametrize("kind", REGISTRIES)
def test_names_are_listed_where_they_are_declared_and_nowhere_else(kind):
    registry = REGISTRIES[kind]
    strays = {
        module: sorted(names)
        for module, names in listing_modules(registry.names).items()
        if not module.startswith(tuple(registry.places)) and module not in registry.reasons
    }
    assert strays == {}


@pytest.mark.parametrize("kind", REGISTRIES)
def test_exceptions_are_needed(kind):
    registry = REGISTRIES[kind]
    assert set(registry.reasons) <= set(listing_modules(registry.names))


OTHER_NUMBERS = {
    "eyechart_experiment/design/planning.py": "a share of simulated studies",
    "overlap/overlap_settings.py": "the accuracy that is kept at the mild end of a range",
    "pipeline/scoring/caveats.py": "a visual change",
    "reports/series/gallery.py": "how far a search steps",
    "visual_change/registration/estimate.py": "a correlation",
}
"""Where a number is that of a level of intervals, and means something else."""


def test_levels_of_intervals_are_written_once():
    written = {
        name
        for name, path in python_files().items()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and node.value in (CONFIDENCE, PUBLISHED_LEVEL)
    }
    assert written == {"stats/intervals.py", *OTHER_NUMBERS}


@pytest.mark.parametrize("record, name, choices", CHOICES)
def test_help_lists_all_names_that_a_setting_takes(record, name, choices):
    text = fields_of(record)[name].option.help
    assert [one for one in choices if not re.search(rf"(?<![\w-]){one}(?![\w-])", text)] == []


def test_each_name_of_a_baseline_has_its_table():
    assert tuple(built_in()) == BASELINES


@pytest.mark.parametrize(
    "source, listed",
    [
        ('X = {"fog": 1, "snow": 2}', {"fog", "snow"}),
        ('if name == "fog":\n    a()\nelif name == "snow":\n    b()', {"fog", "snow"}),
        ('help = "fog, noc/rain or snow."', {"fog", "noc/rain", "snow"}),
        ('help = f"fog, noc/rain or {x}."', {"fog", "noc/rain"}),
        ('f("fog and foggy noc/rainy days")', set()),
        ('"""fog, snow."""\nX = "fog"  # or snow', {"fog"}),
    ],
)
def test_what_lists_names_is_found(source, listed):
    assert listed_names(set(strings_of(source)), ("fog", "noc/rain", "snow")) == listed
