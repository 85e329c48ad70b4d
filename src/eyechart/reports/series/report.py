"""The subject of a report: finished runs, their models in order, and each model's color."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from eyechart.core.errors import UsageError
from eyechart.reports.hidden_paths import hidden_kinds, hide_in_runs
from eyechart.reports.series.palette import COLORS
from eyechart.reports.titles import short_names
from eyechart.results.model_results import ModelResults, SpaceResults
from eyechart.results.ranking_comparison import (
    Rankings,
    SeverityComparison,
    fixed_against_continuous,
    two_benchmarks,
)
from eyechart.results.runs import Leaderboard, Run, make_leaderboards, read_run
from eyechart.results.schema import Results
from eyechart.results.standings import Standings, rank_models
from eyechart.results.study_models import CATEGORIES


@dataclass(frozen=True, eq=False)
class ModelEntry:
    """One model's row in a leaderboard.

    `run`: index of its run in the report. `index`: index of the model in that run. `category`: one
    of `results.study_models.CATEGORIES`, or "".
    """

    name: str
    short: str
    color: str
    category: str
    run: int
    index: int
    results: ModelResults

    def space(self, name: str) -> SpaceResults | None:
        """Return the model's scores in a label space; None if it was not scored there."""
        return self.results.spaces.get(name)


@dataclass(frozen=True, eq=False)
class TestSection:
    """The models of one test with their standings, best first."""

    standings: Standings
    models: tuple[ModelEntry, ...]
    runs: tuple[Run, ...]

    @property
    def short_names(self) -> dict[str, str]:
        """The models' short names by name."""
        return {model.name: model.short for model in self.models}

    @property
    def suite(self) -> str:
        """The suite of the test."""
        return self.standings.board.suite

    @property
    def spaces(self) -> tuple[str, ...]:
        """The label spaces in which all models were scored; the 16 human categories are last."""
        return self.standings.board.spaces

    @property
    def corruptions(self) -> tuple[str, ...]:
        """The corruptions of the test, in the suite's order."""
        return self.standings.board.corruptions


@dataclass(frozen=True, eq=False)
class Report:
    """Everything that a report shows.

    `runs`: the finished runs, in the order given. `sections`: the tests, one per suite. `discrete`:
    comparison of rankings by ImageNet-C and VCR; None unless there are runs of both. `benchmarks`:
    comparisons of rankings by ImageNet-C and ImageNet-NOC. `notes`: reasons why comparisons are
    missing. `hidden`: what is hidden, as names from `reports.hiding.HIDEABLE`.
    """

    runs: tuple[Run, ...]
    sections: tuple[TestSection, ...]
    discrete: SeverityComparison | None
    benchmarks: tuple[Rankings, ...]
    notes: tuple[str, ...]
    hidden: tuple[str, ...] = ()

    @property
    def is_single(self) -> bool:
        """Whether the report has only one model, which is not ranked."""
        return len(self.models) == 1

    @property
    def models(self) -> tuple[ModelEntry, ...]:
        """All models, without duplicates."""
        collected: dict[str, ModelEntry] = {}
        for section in self.sections:
            for model in section.models:
                collected.setdefault(model.name, model)
        return tuple(collected.values())


def lacks_data(models: Iterable[ModelEntry], space: str) -> bool:
    """Return whether the data of any model are insufficient for a claim in a label space."""
    spaces = (model.space(space) for model in models)
    return any(scores is not None and bool(scores.verdict) for scores in spaces)


def models_of(results: Results) -> tuple[ModelEntry, ...]:
    """Return the models of one run in their order, each with its color."""
    names = [model.name for model in results.models]
    return tuple(
        ModelEntry(model.name, short, COLORS[index % len(COLORS)], model.category, 0, index, model)
        for index, (short, model) in enumerate(zip(short_names(names), results.models, strict=True))
    )


def load_report(
    folders: Sequence[Path],
    categories: Mapping[str, str] | None = None,
    hide: Sequence[str] = (),
) -> Report:
    """Return the report on finished runs; see `make_report`."""
    if not folders:
        raise UsageError("Give at least one folder of a finished run.")
    return make_report([read_run(folder) for folder in dict.fromkeys(folders)], categories, hide)


def make_report(
    runs: Sequence[Run],
    categories: Mapping[str, str] | None = None,
    hide: Sequence[str] = (),
) -> Report:
    """Return the report on runs.

    Args:
        runs: Finished runs.
        categories: Categories of models, which override those recorded by the runs.
        hide: What to hide, as names from `HIDEABLE`.
    """
    hidden = hidden_kinds(hide)
    if hidden:
        categories, runs = hide_in_runs(runs, hidden, categories or {})
    boards = make_leaderboards(runs)
    names = list(dict.fromkeys(name for board in boards for name in board.models))
    for name in categories or {}:
        if name not in names:
            raise UsageError(f"There is no model named {name}; the models are {', '.join(names)}.")
    # By position among all models of the report, so that a model has one color in every section.
    looks = {
        name: (short, COLORS[index % len(COLORS)])
        for index, (name, short) in enumerate(zip(names, short_names(names), strict=True))
    }
    notes: list[str] = []
    sections = tuple(_test_section(board, runs, looks, categories or {}) for board in boards)
    discrete: SeverityComparison | None = None
    benchmarks: list[Rankings] = []
    try:
        # Boards that cannot be compared are still shown, each alone, with a note.
        discrete = fixed_against_continuous(boards)
        benchmarks = two_benchmarks(boards)
    except UsageError as error:
        notes.append(str(error))
    return Report(tuple(runs), sections, discrete, tuple(benchmarks), tuple(notes), hidden)


def _test_section(
    board: Leaderboard,
    runs: Sequence[Run],
    looks: Mapping[str, tuple[str, str]],
    categories: Mapping[str, str],
) -> TestSection:
    standings = rank_models(board)
    entries = []
    for name in standings.order:
        run = next(run for run in board.runs if name in run.models)
        index = run.models.index(name)
        model = run.results.models[index]
        short, color = looks[name]
        category = categories.get(name, model.category)
        category = category if category in CATEGORIES else ""
        entries.append(ModelEntry(name, short, color, category, runs.index(run), index, model))
    return TestSection(standings, tuple(entries), board.runs)
