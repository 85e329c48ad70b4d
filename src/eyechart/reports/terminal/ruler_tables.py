"""The study of rulers as tables and sentences for the terminal."""

from eyechart.reports.number_text import MISSING, interval_text
from eyechart.reports.terminal.overlap_tables import Rows, Table
from eyechart.rulers.study_record import FitRecord, StatisticRecord, StudyRecord
from eyechart.stats.p_values import SIGNIFICANT

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
