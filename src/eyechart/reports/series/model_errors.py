"""Errors of models: relative to a baseline (CE, mCE), against clean errors, and by severity.

This module selects models, corruptions and label spaces; other modules draw the charts and tables.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from eyechart.core.phrases import listed
from eyechart.reports.number_text import percent_text, with_unit
from eyechart.reports.series.report import ModelEntry, TestSection, lacks_data
from eyechart.reports.titles import corruption_words, groups_of, space_title, title_below
from eyechart.results.model_results import NormalizedErrors, SpaceResults
from eyechart.scores.registry import SCORES
from eyechart.stats.estimate import Estimate

Mean = Literal["mce", "relative_mce"]
MEANS: Mapping[Mean, str] = {"mce": "mCE", "relative_mce": "relative mCE"}


@dataclass(frozen=True, eq=False)
class ErrorScores:
    """A model's errors divided by a baseline's errors, in one label space."""

    model: ModelEntry
    space: str
    scores: SpaceResults
    errors: NormalizedErrors

    @property
    def clean_error(self) -> float | None:
        """The error rate on clean images."""
        clean = self.scores.clean_accuracy
        return None if clean is None or not clean.is_known else 1 - clean.value

    @property
    def clean_interval(self) -> tuple[float, float] | None:
        """The 95 % interval of the clean error."""
        clean = self.scores.clean_accuracy
        if clean is None or not clean.has_interval:
            return None
        low, high = clean.interval95
        return 1 - high, 1 - low

    def by_corruption(self, relative: bool) -> Mapping[str, Estimate]:
        """Return CE, or relative CE, by corruption."""
        return self.errors.relative_ce if relative else self.errors.ce

    def mean(self, relative: bool) -> Estimate | None:
        """Return mCE, or relative mCE."""
        return self.errors.relative_mce if relative else self.errors.mce


def errors_in(section: TestSection, space: str) -> list[ErrorScores]:
    """Return the models of a test that have corruption errors in a label space."""
    return [
        ErrorScores(model, space, scores, scores.corruption_error)
        for model in section.models
        if (scores := model.space(space)) is not None and scores.corruption_error is not None
    ]


def errors_of(section: TestSection) -> list[ErrorScores]:
    """Return the models that have corruption errors, in the label space used for ranking.

    A model without corruption errors in that label space is returned in the first label space in
    which it has them.
    """
    spaces = dict.fromkeys((section.standings.space, *section.spaces))
    collected: dict[str, ErrorScores] = {}
    for space in spaces:
        for row in errors_in(section, space):
            if row.errors.ce:
                collected.setdefault(row.model.name, row)
    return [collected[model.name] for model in section.models if model.name in collected]


def why_no_mce(section: TestSection) -> str:
    """Return the reason why there is no mCE."""
    notes = [row.errors.note for space in section.spaces for row in errors_in(section, space)]
    return next(filter(None, notes), "No mCE: there is no baseline.")


# mCE against clean errors


@dataclass(frozen=True, eq=False)
class MeanErrorPoint:
    """One model in the plot of mCE, or relative mCE, against clean error."""

    row: ErrorScores
    mean: Mean
    clean_error: float
    score: Estimate

    @property
    def text(self) -> str:
        """The mean error as text."""
        return with_unit(self.score.value, SCORES[self.mean])

    @property
    def clean_text(self) -> str:
        """The clean error as text, formatted like the mean next to it."""
        return with_unit(self.clean_error, SCORES[self.mean])


def mean_error_points(rows: Sequence[ErrorScores], mean: Mean) -> list[MeanErrorPoint]:
    """Return the models whose clean error and mean corruption error are both known."""
    points = []
    for row in rows:
        score, clean = row.mean(mean == "relative_mce"), row.clean_error
        if score is not None and score.is_known and clean is not None:
            points.append(MeanErrorPoint(row, mean, clean, score))
    return points


def mean_errors_in_words(
    section: TestSection, panels: Mapping[Mean, Sequence[MeanErrorPoint]]
) -> str:
    """Return a sentence that names the models with the lowest mean errors and clean error.

    With insufficient data, the errors of all models are listed.
    """
    points = next(iter(panels.values()))
    space = points[0].row.space
    if len(points) == 1 or lacks_data((point.row.model for point in points), space):
        errors = [
            f"{name} has {', '.join(texts)}" for name, texts in _errors_by_model(panels).items()
        ]
        return (
            f"Errors relative to {section.standings.board.baseline} against errors on clean"
            f" images, among {space_title(space)}: {'; '.join(errors)}."
        )
    lowest = []
    for name, points in panels.items():
        best = min(points, key=lambda point: point.score.value)
        lowest.append(f"{best.row.model.short} has the lowest {MEANS[name]}, {best.text}")
    points = next(iter(panels.values()))
    clean = min(points, key=lambda point: point.clean_error)
    return (
        f"Errors relative to {section.standings.board.baseline} against errors on clean"
        f" images, among {space_title(space)}; lower is better:"
        f" {', '.join(lowest)}; {clean.row.model.short} has the lowest error on clean images,"
        f" {clean.clean_text}."
    )


def _errors_by_model(panels: Mapping[Mean, Sequence[MeanErrorPoint]]) -> dict[str, list[str]]:
    """Return the mean errors and the clean error of each model as text."""
    by_model: dict[str, list[str]] = {}
    for name, points in panels.items():
        for point in points:
            by_model.setdefault(point.row.model.short, []).append(f"{MEANS[name]} {point.text}")
    clean = {
        point.row.model.short: point.clean_text for points in panels.values() for point in points
    }
    return {name: [*means, f"clean error {clean[name]}"] for name, means in by_model.items()}


# CE of each corruption


@dataclass(frozen=True)
class ErrorColumn:
    """A corruption, its group in the suite ("" for none), and its title within the group."""

    corruption: str
    group: str
    title: str


def error_columns(suite: str, rows: Sequence[ErrorScores], relative: bool) -> list[ErrorColumn]:
    """Return the corruptions that have a CE (or relative CE), in the order of their groups."""
    names = list(dict.fromkeys(name for row in rows for name in row.by_corruption(relative)))
    return [
        ErrorColumn(name, group, title_below(group, name))
        for group, members in groups_of(suite, names)
        for name in members
    ]


# Errors by severity


@dataclass(frozen=True, eq=False)
class SeverityLine:
    """A model's error at each severity."""

    model: ModelEntry
    severities: tuple[float, ...]
    errors: tuple[float, ...]

    @property
    def texts(self) -> tuple[str, ...]:
        """The errors as text, in percent as on the chart's axis."""
        return tuple(percent_text(error, 1) for error in self.errors)


@dataclass(frozen=True, eq=False)
class SeverityPanel:
    """The models' errors at the severities of one corruption, in one label space."""

    corruption: str
    space: str
    lines: tuple[SeverityLine, ...]

    def in_words(self) -> str:
        """Return a sentence with the lowest and highest error at the highest severity."""
        level = max(severity for line in self.lines for severity in line.severities)
        known = [
            (line.errors[place], line.model.short, line.texts[place])
            for line in self.lines
            if level in line.severities
            for place in [line.severities.index(level)]
        ]
        (lowest, best, few), (highest, worst, many) = min(known), max(known)
        text = f"{best} has the lowest error ({few}) and {worst} the highest ({many})"
        if lacks_data((line.model for line in self.lines), self.space):
            text = f"the error is {listed([f'{error} for {name}' for _, name, error in known])}"
        elif lowest == highest:
            text = f"{'all have' if len(known) > 1 else f'{best} has'} {few}"
        return (
            f"Error rate at each severity of {corruption_words(self.corruption)}, among"
            f" {space_title(self.space)}: at level {level:g}, {text}."
        )


def severity_panels(section: TestSection, space: str) -> list[SeverityPanel]:
    """Return a panel for each corruption that has published severities."""
    panels = []
    for corruption in section.corruptions:
        lines = [_severity_line(model, space, corruption) for model in section.models]
        drawn = tuple(line for line in lines if line.severities)
        if drawn:
            panels.append(SeverityPanel(corruption, space, drawn))
    return panels


def _severity_line(model: ModelEntry, space: str, corruption: str) -> SeverityLine:
    scores = model.space(space)
    score = None if scores is None else scores.corruptions.get(corruption)
    errors = {} if score is None else score.error_by_severity
    # Keys of JSON objects are text; as text, "10" precedes "2".
    levels = sorted(errors, key=float)
    return SeverityLine(model, tuple(map(float, levels)), tuple(errors[level] for level in levels))
