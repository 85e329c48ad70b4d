"""Studies of overlap, rulers and structure as tables for the terminal, and as CSV files."""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from rich.markup import escape

from eyechart.core.arrays import FloatArray
from eyechart.core.phrases import listed, plural
from eyechart.overlap.accuracy_table import STANDARD
from eyechart.overlap.matrix import OverlapMatrix
from eyechart.overlap.matrix_intervals import OverlapIntervals
from eyechart.overlap.selection import ThresholdRange
from eyechart.reports.number_text import MISSING, interval_text, share_text
from eyechart.reports.terminal.columns import number_table
from eyechart.reports.titles import short_names
from eyechart.rulers.study_record import FitRecord, StatisticRecord, StudyRecord
from eyechart.stats.p_values import SIGNIFICANT
from eyechart.structure.holdout_scores import notes_on
from eyechart.structure.structure_settings import describe_protocol

if TYPE_CHECKING:
    from rich.table import Table as RichTable

    from eyechart.overlap.benchmarks import Balance, BenchmarkCoverage, DirectTest
    from eyechart.scores.registry import Score
    from eyechart.structure.holdout_images import HoldoutImages, Trait
    from eyechart.structure.holdout_study import HoldoutStudy
    from eyechart.structure.study_results import HoldoutResults, SuperclassResults

MOST_SHOWN = 4
"""Maximum number of models for which results by superclass fit on the screen."""

Rows = list[tuple[str, ...]]
Table = tuple[tuple[str, ...], Rows]
"""The header of a table and its rows."""


def matrix_table(matrix: OverlapMatrix) -> Table:
    """Return a table of all overlap scores."""
    rows: Rows = [
        (name, *(score_text(score) for score in row))
        for name, row in zip(matrix.names, matrix.scores, strict=True)
    ]
    return ("overlap", *matrix.names), rows


def nearest_table(
    matrix: OverlapMatrix,
    intervals: OverlapIntervals | None = None,
    seed_deviation: FloatArray | None = None,
) -> Table:
    """Return a table: the gain from training on each corruption, and what it overlaps most with.

    `intervals` and `seed_deviation`, if given, are printed with the overlap.
    """
    sure = [] if intervals is None else [f"{100 * intervals.level:g} %"]
    sure += [] if seed_deviation is None else ["SD over seeds"]
    rows: Rows = []
    for index, name in enumerate(matrix.names):
        # Without the overlap of a corruption with itself, which would be the highest.
        row = np.where(np.arange(len(matrix)) == index, np.nan, matrix.scores[index])
        cells = [MISSING] * (3 + len(sure))
        if not np.isnan(row).all():
            near = int(np.nanargmax(row))
            cells = [matrix.names[near], score_text(row[near])]
            if intervals is not None:
                low, high = intervals.low[index, near], intervals.high[index, near]
                cells.append(f"{low:.2f}–{'?' if math.isinf(high) else f'{high:.2f}'}")
            if seed_deviation is not None:
                cells.append(score_text(seed_deviation[index, near]))
            cells.append(score_text(float(np.nanmean(row))))
        gain = MISSING if matrix.gains is None else f"{matrix.gains[index]:.3f}"
        rows.append((name, gain, *cells))
    return ("corruption", "gain", "overlaps most with", "by", *sure, "mean overlap"), rows


def interval_cells(intervals: OverlapIntervals) -> list[list[str]]:
    """Return rows for a CSV file, one per pair: score, interval, standard deviation over seeds."""
    rows = [["one", "two", "overlap", "low", "high", "seed_deviation", "undetermined_share"]]
    names = intervals.matrix.names
    for one, two in combinations(range(len(names)), 2):
        values = (
            intervals.matrix.scores, intervals.low, intervals.high, intervals.seed_deviation,
            intervals.undetermined,
        )  # fmt: skip
        cells = [float(value[one, two]) for value in values]
        rows.append([names[one], names[two], *map(_cell, cells)])
    return rows


def step_table(steps: Sequence[ThresholdRange]) -> Table:
    """Return a table of all selections with their threshold ranges, and the changes between them.

    Thresholds are rounded up, so that entering a printed threshold gives the same selection.
    """
    rows: Rows = []
    before: tuple[str, ...] = ()
    for step in steps:
        selection = step.selection
        ties = (
            f"{len(selection.ties)}{'+' if selection.more_ties else ''}" if selection.ties else ""
        )
        changes = [f"+{name}" for name in selection.members if name not in before]
        changes += [f"−{name}" for name in before if name not in selection.members]
        before = selection.members
        until = "" if math.isinf(step.high) else up(step.high)
        mean = f"{selection.mean_overlap:.4f}"
        rows.append((up(step.low), until, str(len(selection)), mean, ties, " ".join(changes)))
    return ("threshold from", "below", "size", "mean overlap", "ties", "changes"), rows


def up(threshold: float) -> str:
    """Return a threshold with four decimals, rounded up."""
    return f"{math.ceil(threshold * 1e4) / 1e4:.4f}"


def balance_table(balance: "Balance") -> Table:
    """Return a table of corruption errors in percent: a row per model, a column per corruption."""
    mce = _mce()
    rows: Rows = []
    for model, errors in balance.errors.items():
        short = (mce.text(value, is_short=True) for value in errors.values())
        rows.append((model, mce.text(balance.means[model]), *short))
    name = "relative mCE" if balance.relative else "mCE"
    return (f"{'relative CE' if balance.relative else 'CE'}, %", name, *balance.benchmark), rows


def balance_cells(name: str, balance: "Balance") -> list[list[str]]:
    """Return rows for a CSV file: each corruption error and mean, as a ratio, not in percent."""
    start = [name, "relative" if balance.relative else "plain", balance.baseline.name]
    rows = []
    for model, errors in balance.errors.items():
        for corruption, value in errors.items():
            rows.append([*start, model, corruption, _cell(value)])
        rows.append([*start, model, "mean", _cell(balance.means[model])])
    return rows


BALANCE_HEAD = ["benchmark", "form", "baseline", "trained_on", "tested_on", "corruption_error"]


def coverage_table(coverage: "BenchmarkCoverage") -> Table:
    """Return a table that shows which of a benchmark's corruptions another benchmark covers."""
    rows: Rows = []
    for test in coverage.covers:
        verdict = "yes" if test.corruption in coverage.covered else "no"
        verdict = "undetermined" if test.corruption in coverage.undetermined else verdict
        rows.append((test.corruption, test.nearest or MISSING, score_text(test.score), verdict))
    return ("corruption", "overlaps most with", "by", "covered"), rows


def direct_table(
    test: "DirectTest", intervals: Mapping[str, tuple[float, float]] | None = None
) -> Table:
    """Return corruption errors of the model trained on all corruptions, and of the standard model.

    If given, `intervals` contains the interval of each error and of the "mean".
    """
    mce = _mce()
    rows: Rows = []
    sure = {name: (percent_range(ends),) for name, ends in (intervals or {}).items()}
    for name, errors in test.errors.items():
        helped = "yes" if name in test.helped else "no"
        cells = (mce.text(value, is_short=True) for value in (test.standard[name], errors))
        rows.append((name, *cells, *sure.get(name, ()), helped))
    mean, standard = test.means
    rows.append(("mean", mce.text(standard), mce.text(mean), *sure.get("mean", ()), ""))
    form = "relative CE" if test.relative else "CE"
    behind = ("95 %",) if sure else ()
    return (f"{form}, %", STANDARD, test.trained_on, *behind, "more robust"), rows


def percent_range(ends: tuple[float, float]) -> str:
    """Return an interval of corruption errors, or of their spread, in percent."""
    return interval_text(ends, _mce().text)


def _mce() -> "Score":
    """Return the score whose number format is used for all plain and relative corruption errors."""
    from eyechart.scores.registry import SCORES

    return SCORES["mce"]


def score_text(score: float) -> str:
    """Return a score with two decimals, or a dash if it is undetermined."""
    return MISSING if math.isnan(score) else f"{score:.2f}"


def _cell(value: float) -> str:
    return "" if math.isnan(value) else repr(value)


PARAMETER_TITLES = {
    "noise_variance": "internal noise σ_n²",
    "exponent": "exponent of the scale weights",
    "penalty": "penalty of a rotation by 180°",
}


def agreement_table(record: StudyRecord) -> Table:
    """Return each ruler's agreement with humans, best first."""
    head = ("ruler", "explained variance", "leaving one condition out",
            "error on a left-out experiment", "largest errors")  # fmt: skip
    rows: Rows = [
        (
            ruler.ruler,
            statistic_text(ruler.explained, 2),
            statistic_text(ruler.explained_left_out, 2),
            statistic_text(ruler.error, 3),
            _largest(ruler.errors),
        )
        for ruler in record.rulers
    ]
    return head, rows


def statistic_text(statistic: StatisticRecord, decimals: int) -> str:
    """Return a statistic with its interval and its jackknife error: "0.95 (0.93–0.96; ± 0.02)"."""

    def text(number: float) -> str:
        return f"{number:z.{decimals}f}"

    estimate = statistic.estimate
    spread = MISSING if statistic.jackknife is None else f"± {text(statistic.jackknife)}"
    return f"{text(estimate.value)} ({interval_text(estimate.interval95, text)}; {spread})"


def fit_table(fit: FitRecord) -> Table:
    """Return the fitted parameters of VIF after registration."""
    head = ("parameter", "best", "95 %", "without each experiment")
    rows: Rows = [
        (
            PARAMETER_TITLES[parameter.name],
            f"{parameter.value:g}",
            interval_text(parameter.interval95, lambda number: f"{number:z.2g}"),
            ", ".join(f"{name} {value:g}" for name, value in parameter.chosen.items()),
        )
        for parameter in fit.parameters
    ]
    return head, rows


def study_sentences(record: StudyRecord) -> list[str]:
    """Return what the study shows, one sentence each, and what the numbers in brackets mean."""
    best, *others = [ruler for ruler in record.rulers if ruler.version]
    sentences = [
        f"{record.n_images} images, {len(record.conditions)} conditions of"
        f" {len(best.errors)} experiments, {record.n_observers} observers. In brackets: 95 %"
        " interval over images and observers; jackknife standard error over experiments.",
    ]
    tested = [
        one
        for one in record.differences
        if one.statistic == "error" and best.ruler in (one.first, one.second)
    ]
    ahead = [
        one.second if one.first == best.ruler else one.first
        for one in tested
        if one.p_value < SIGNIFICANT
    ]
    if tested and others:
        names = ", ".join(ahead) if ahead else "no other ruler"
        sentences.append(
            f"{best.ruler} has the smallest error on left-out experiments; it is significantly"
            f" smaller (paired, Holm-corrected) than that of {names}."
        )
    selection = record.selection
    chosen = ", ".join(dict.fromkeys(selection.chosen.values()))
    sentences.append(
        "If the ruler is chosen without the experiment that it is tested on, the error is"
        f" {selection.error:.3f} (chosen: {chosen})."
    )
    transferred = {one.ruler: one.transfer_errors for one in record.rulers if one.transfer_errors}
    if transferred:
        means = ", ".join(
            f"{ruler} {sum(errors.values()) / len(errors):.3f}"
            for ruler, errors in transferred.items()
        )
        sentences.append(
            f"Error on {', '.join(next(iter(transferred.values())))}, predicted by a curve that was"
            f" fitted to the main experiments only: {means}."
        )
    if record.fit is not None:
        low, high = record.fit.nested_error.interval95
        sentences.append(
            "VIF after registration: if curve and parameters have not seen a condition, the"
            f" explained variance is {record.fit.nested_explained:.2f}; if they have not seen an"
            " experiment, the error is"
            f" {record.fit.nested_error.value:.3f} ({low:.3f}–{high:.3f}):"
            f" {_largest(record.fit.nested_errors, len(record.fit.nested_errors))}."
        )
    return sentences


def _largest(errors: dict[str, float], count: int = 2) -> str:
    worst = sorted(errors.items(), key=lambda item: -item[1])[:count]
    return ", ".join(f"{name} {error:.2f}" for name, error in worst)


def holdout_table(results: "HoldoutResults") -> "RichTable":
    """Return the accuracies of a hold-out study: a line for each fold, and one for their mean."""
    table = number_table(
        "held-out style" if results.kind == "style" else "held-out subclasses",
        *("accuracy held out (%)", "accuracy familiar (%)", "gap (points)"),
        *("images held out", "images familiar", "images trained on"),
    )
    for fold in results.folds:
        name = escape(fold.name)
        if results.kind != "style":
            name = f"{name}: {len(fold.held)} held out"
        shares = (share_text(share) for share in (fold.held_out, fold.familiar, fold.gap))
        table.add_row(name, *shares, *(f"{count:,}" for count in fold.n_images))
    if len(results.folds) > 1:
        table.add_section()
        shares = (share_text(share) for share in (results.held_out, results.familiar, results.gap))
        counts = (sum(fold.n_images[part] for fold in results.folds) for part in (0, 1))
        table.add_row("mean", *shares, *(f"{count:,}" for count in counts), "")
    return table


def superclass_tables(results: "SuperclassResults") -> "list[RichTable]":
    """Return a line for each model and, if there are few models, a line for each superclass."""
    names = [escape(name) for name in short_names([model.name for model in results.models])]
    by_model = number_table(
        "model",
        *("ImageNet-1K (%)", "seen (%)", "unseen (%)", "gap (points)"),
        "gap, mean over superclasses",
    )
    for name, model in zip(names, results.models, strict=True):
        known = model.imagenet_accuracy
        by_model.add_row(
            name,
            MISSING if known is None else f"{100 * known:.1f}",
            *(share_text(share) for share in (model.seen, model.unseen, model.gap, model.mean_gap)),
        )
    if len(results.models) > MOST_SHOWN:
        return [by_model]
    titles = (title for name in names for title in (f"{name}: seen (%)", "unseen (%)"))
    by_superclass = number_table("superclass", "seen synsets", "unseen synsets", *titles)
    for number, first in enumerate(results.models[0].superclasses):
        scores = [model.superclasses[number] for model in results.models]
        cells = [share_text(share) for score in scores for share in (score.seen, score.unseen)]
        by_superclass.add_row(first.name, *(f"{count:,}" for count in first.synsets), *cells)
    return [by_model, by_superclass]


def planned_sentence(study: "HoldoutStudy") -> str:
    """Return what a hold-out study trains on: its protocol and the number of images."""
    has_familiar = all(len(fold.familiar) for fold in study.folds)
    counts = [len(fold.train) for fold in study.folds]
    low, high = f"{min(counts):,}", f"{max(counts):,}"
    images = low if low == high else f"{low} to {high}"
    return f"{describe_protocol(study.protocol, has_familiar)} Training images: {images}."


def counted_sentence(kinds: "HoldoutImages", kind: "Trait") -> str:
    """Return a sentence with the number and size of images, and their classes and subclasses."""
    n_kinds = len(set(kinds.names(kind)))
    noun = "styles" if kind == "style" else "subclasses"
    classes = len(kinds.data.class_names)
    height, width = kinds.data.size
    return (
        f"{len(kinds.data):,} images ({width} × {height} px) of {classes:,} classes and"
        f" {n_kinds:,} {noun}."
    )


def holdout_sentences(results: "HoldoutResults") -> Iterator[str]:
    """Yield what limits the accuracies, and how many images were removed from training."""
    for fold in results.folds:
        if fold.missing:
            names = _listed(fold.missing)
            yield f"Note: {fold.name} has no images of {names}, so these are not tested."
    for note in notes_on(results):
        yield f"Note: {note}"
    copies = sum(fold.copies for fold in results.folds)
    if copies:
        yield (
            f"Removed from training as duplicates of test images: {copies:,}"
            f" {plural(copies, 'image')} in {len(results.folds)}"
            f" {plural(len(results.folds), 'training run')}."
        )


def _listed(names: tuple[str, ...]) -> str:
    if len(names) > 5:
        return f"{', '.join(names[:4])} and {len(names) - 4} other classes"
    return listed(names)
