"""The study of rulers: measure every ruler in the human experiments, and compare it with humans."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from torch import Tensor

from eyechart.core.arrays import FloatArray
from eyechart.core.csv_table import csv_text
from eyechart.core.devices import find_device
from eyechart.core.errors import UsageError
from eyechart.core.progress import NO_PROGRESS, Progress
from eyechart.core.provenance import versions
from eyechart.core.storage.files import atomic_file
from eyechart.core.storage.run_folder import open_run_folder
from eyechart.images.identity import file_digest
from eyechart.images.image_sources import find_listing
from eyechart.images.imageset import ImageSet, load_listing
from eyechart.rulers.agreement import (
    FEW_EXPERIMENTS,
    STATISTICS,
    AgreementEstimates,
    estimate_agreement,
    explained_variance,
    fit_monotone,
    paired_differences,
    replicates,
    transfer_errors,
    weighted_means,
)
from eyechart.rulers.human_experiments import (
    CITATION,
    EXPERIMENTS,
    MAIN,
    HumanConditions,
    read_counts,
)
from eyechart.rulers.measure_conditions import (
    Meter,
    RulerMeter,
    TermsMeter,
    measure_conditions,
    read_measured,
)
from eyechart.rulers.study_record import (
    AgreementRecord,
    ConditionRecord,
    DifferenceRecord,
    FitRecord,
    ParameterRecord,
    SelectionRecord,
    StatisticRecord,
    StudyRecord,
)
from eyechart.rulers.study_settings import StudySettings
from eyechart.rulers.vif_fit import Terms, VifFit, candidates, fit_human_map, fit_vif, nested_fit
from eyechart.stats.estimate import make_estimate
from eyechart.stats.intervals import CONFIDENCE, percentile_interval
from eyechart.testsets.plan import Plan
from eyechart.testsets.samples import choose_images
from eyechart.visual_change.gray import to_gray
from eyechart.visual_change.registration.human_ruler import EXPECTED_LOSS_RULER, HumanCalibration
from eyechart.visual_change.registry import RULERS, find_ruler
from eyechart.visual_change.ruler import Ruler, check_ready

MEASURED, RESULTS, TABLE = "measured", "study.json", "study.csv"
CALIBRATION = "human_calibration.json"
"""The map of the ruler `human`; the package stores that of the published study."""

FITTED = "registered VIF, fitted"
"""The name of the fitted ruler in tables; it is not a ruler that others can use."""

FITTED_BEFORE = (EXPECTED_LOSS_RULER.calibration.ruler, EXPECTED_LOSS_RULER.name)
"""Rulers whose parameters in the package were fitted to the main experiments."""

FIT_REPLICATES = 100
"""Maximum number of replicates in which parameters are fitted again, since each takes long."""

STIMULUS = "224"
"""Participants saw gray images of 224 px."""


@dataclass(frozen=True, eq=False)
class StudyData:
    """What the statistics are computed from: values (images, conditions) by ruler."""

    humans: HumanConditions
    values: Mapping[str, FloatArray]
    terms: Terms | None


@dataclass(frozen=True, eq=False)
class FinishedStudy:
    """A study's record, its rulers, and an example image, uint8 (H, W), for figures."""

    record: StudyRecord
    rulers: list[Ruler]
    example: Tensor


def run_study(settings: StudySettings, progress: Progress = NO_PROGRESS) -> FinishedStudy:
    """Measure the rulers, compare them with humans, and write study.json and study.csv.

    Measured values are kept in the output folder, so that a stopped study resumes and further
    rulers can be added.

    Raises:
        UsageError: If a setting, the human data or an image is not valid.
    """
    settings.check()
    experiments = settings.experiments or MAIN
    humans = read_counts(settings.human, experiments)
    rulers = _ready_rulers(settings.rulers)
    images = _load(settings, progress)
    open_run_folder(
        settings.out,
        {"images": images.fingerprint, "stimulus": STIMULUS},
        work="study of rulers",
        folders=[MEASURED],
        files=[RESULTS, TABLE, CALIBRATION],
    )
    meters: list[Meter] = [RulerMeter(ruler) for ruler in rulers]
    meters += [TermsMeter()] if settings.fit else []
    advance = progress.begin("measure", len(meters) * len(humans) * len(images))
    folder = settings.out / MEASURED
    measure_conditions(images, experiments, meters, folder, find_device(settings.device), advance)
    conditions = list(zip(humans.experiments, humans.names, strict=True))

    def measured(meter: Meter) -> dict[str, FloatArray]:
        return read_measured(folder, meter.table, len(images), conditions)

    values = {ruler.name: measured(RulerMeter(ruler))["value"] for ruler in rulers}
    terms = Terms.of(measured(TermsMeter())) if settings.fit else None
    record = analyze(StudyData(humans, values, terms), settings, progress)
    record = record.model_copy(
        update={
            "images": images.source.rstrip("/").rpartition("/")[2],
            "images_digest": images.digest,
            "human_digest": file_digest(settings.human),
        }
    )
    write_study(record, settings.out)
    return FinishedStudy(record, rulers, to_gray(images.batch([0]))[0])


def analyze(
    data: StudyData, settings: StudySettings, progress: Progress = NO_PROGRESS
) -> StudyRecord:
    """Return the study's statistics, without the identity of its files."""
    humans, values = data.humans, dict(data.values)
    n_images = len(next(iter(values.values())))
    drawn = replicates(humans, n_images, settings.n_bootstrap, settings.seed)
    fit = None
    if data.terms is not None:
        few = drawn[:FIT_REPLICATES]
        fit = fit_vif(data.terms, humans, few, progress.begin("fit", len(few)))
        values[FITTED] = data.terms.values(fit.parameters)
    advance = progress.begin("resample", len(values) * len(drawn))
    estimates = {
        name: estimate_agreement(one, humans, drawn, advance) for name, one in values.items()
    }
    ordered = sorted(estimates, key=lambda name: estimates[name].agreement.error)
    # the fit was chosen on these data, so that a test against it would be too favorable
    tested = {name: estimates[name] for name in ordered if name != FITTED}
    return StudyRecord(
        made=datetime.now(UTC).date().isoformat(),
        versions=versions(),
        images="",
        images_digest="",
        n_images=n_images,
        human=settings.human.name,
        human_digest="",
        n_observers=humans.n_observers,
        n_bootstrap=settings.n_bootstrap,
        seed=settings.seed,
        conditions=_conditions(humans),
        rulers=tuple(_ruler(name, values[name], humans, estimates[name]) for name in ordered),
        differences=tuple(
            DifferenceRecord(
                first=one.first,
                second=one.second,
                statistic=one.statistic,
                difference=one.paired.difference,
                interval95=one.paired.interval,
                p_value=one.corrected_p,
            )
            for one in paired_differences(tested)
        ),
        selection=_selection(data.values, humans),
        fit=None if fit is None or data.terms is None else _fit(fit, data.terms, humans),
        notes=_notes(humans, list(data.values)),
    )


def write_study(record: StudyRecord, out: Path) -> None:
    """Write a study's record as JSON, and its table as CSV."""
    with atomic_file(out / RESULTS) as temporary:
        temporary.write_text(record.model_dump_json(indent=1) + "\n", encoding="utf-8")
    with atomic_file(out / TABLE) as temporary:
        temporary.write_text(csv_text(_csv_rows(record)), encoding="utf-8")
    if record.fit is not None:
        calibration = _calibration(record, record.fit)
        with atomic_file(out / CALIBRATION) as temporary:
            temporary.write_text(calibration.model_dump_json(indent=1) + "\n", encoding="utf-8")


def _ready_rulers(names: Sequence[str]) -> list[Ruler]:
    """Return the rulers with these names, or all that can measure; some need weights."""
    if names:
        rulers = [find_ruler(name) for name in dict.fromkeys(names)]
        for ruler in rulers:
            check_ready(ruler)
        return rulers
    ready = []
    for ruler in RULERS.values():
        with suppress(UsageError):
            check_ready(ruler)
            ready.append(ruler)
    return ready


def _load(settings: StudySettings, progress: Progress) -> ImageSet:
    listing = find_listing(settings.images, settings.out)
    n_images = min(settings.max_images, len(listing.images))
    if n_images < 2:
        raise UsageError(f"A study of rulers needs at least 2 images, got {n_images}.")
    plan = Plan(seed=settings.seed, max_images=n_images)
    chosen = [listing.images[place] for place in choose_images(listing.images, plan)]
    step = progress.begin("images", len(chosen))
    return load_listing(replace(listing, images=chosen), STIMULUS, step)


def _calibration(record: StudyRecord, fit: FitRecord) -> HumanCalibration:
    """Return the map of the ruler `human`, as the package stores it."""
    return HumanCalibration(
        ruler=EXPECTED_LOSS_RULER.calibration.ruler,
        ruler_version=EXPECTED_LOSS_RULER.calibration.ruler_version,
        knots=fit.knots,
        half_width95=round(fit.half_width95, 4),
        experiments=tuple(dict.fromkeys(one.experiment for one in record.conditions)),
        n_images=record.n_images,
        images=f"{record.images} (digest {record.images_digest})",
        humans=f"{CITATION} Counts in {record.human} (SHA-256 {record.human_digest[:16]}).",
        date=record.made,
    )


def _conditions(humans: HumanConditions) -> tuple[ConditionRecord, ...]:
    columns = zip(
        humans.experiments,
        humans.names,
        humans.trials.sum(axis=1).tolist(),
        humans.accuracy().tolist(),
        humans.rescaled().tolist(),
        strict=True,
    )
    return tuple(
        ConditionRecord(
            experiment=experiment,
            condition=name,
            trials=int(trials),
            accuracy=accuracy,
            rescaled=rescaled,
        )
        for experiment, name, trials, accuracy, rescaled in columns
    )


def _ruler(
    name: str, values: FloatArray, humans: HumanConditions, estimates: AgreementEstimates
) -> AgreementRecord:
    means, accuracy = weighted_means(values), humans.rescaled()
    curve = fit_monotone(means, accuracy)
    statistics = {
        statistic: StatisticRecord(
            estimate=estimates.estimates[statistic], jackknife=estimates.jackknife[statistic]
        )
        for statistic in STATISTICS
    }
    return AgreementRecord(
        ruler=name,
        version=find_ruler(name).version if name in RULERS else 1,
        n_images=int((~np.isnan(values).any(axis=1)).sum()),
        explained=statistics["explained"],
        explained_left_out=statistics["explained_left_out"],
        error=statistics["error"],
        errors=estimates.agreement.errors,
        transfer_errors=transfer_errors(means, accuracy, np.array(humans.experiments), MAIN),
        values=tuple(means.tolist()),
        curve=tuple(zip(curve.values.tolist(), curve.accuracy.tolist(), strict=True)),
    )


def _selection(values: Mapping[str, FloatArray], humans: HumanConditions) -> SelectionRecord:
    # what was fitted to these experiments has seen each of them
    names = [name for name in values if name not in FITTED_BEFORE] or list(values)
    means = np.stack([weighted_means(values[name]) for name in names])
    nested = nested_fit(means, humans.rescaled(), np.array(humans.experiments))
    return SelectionRecord(
        errors=nested.errors,
        chosen={experiment: names[place] for experiment, place in nested.chosen.items()},
        error=nested.error,
    )


def _fit(fit: VifFit, terms: Terms, humans: HumanConditions) -> FitRecord:
    tried = candidates()
    parameters = tuple(
        ParameterRecord(
            name=name,
            value=getattr(fit.parameters, name),
            interval95=percentile_interval(fit.parameter_replicates[:, column], CONFIDENCE),
            chosen={
                experiment: getattr(tried[place], name)
                for experiment, place in fit.nested.chosen.items()
            },
        )
        for column, name in enumerate(("noise_variance", "exponent", "penalty"))
    )
    values, accuracy = terms.values(fit.parameters), humans.rescaled()
    human = fit_human_map(values, accuracy)
    deviation = np.nanmean(human(values), axis=0) - (1 - accuracy)
    return FitRecord(
        parameters=parameters,
        nested_explained=explained_variance(fit.predicted, accuracy),
        nested_error=make_estimate(fit.nested.error, fit.nested_replicates),
        nested_errors=fit.nested.errors,
        knots=human.knots,
        half_width95=float(np.quantile(np.abs(fit.nested.residuals), CONFIDENCE)),
        mean_deviation=float(deviation.mean()),
    )


def _notes(humans: HumanConditions, rulers: Sequence[str]) -> tuple[str, ...]:
    notes = [FEW_EXPERIMENTS]
    fitted = [name for name in rulers if name in FITTED_BEFORE]
    if fitted:
        notes.append(
            f"{' and '.join(fitted)} {'was' if len(fitted) == 1 else 'were'} fitted to the main"
            " experiments of Geirhos et al. 2021: on these, agreement and tests are too favorable"
            " (--fit gives nested errors)."
        )
    borrowed = [
        name for name in dict.fromkeys(humans.experiments) if EXPERIMENTS[name].clean[0] != name
    ]
    if borrowed:
        notes.append(
            f"No clean images were shown in {', '.join(borrowed)}: clean accuracy is that of the"
            f" experiment {EXPERIMENTS[borrowed[0]].clean[0]}."
        )
    inexact = [name for name in dict.fromkeys(humans.experiments) if not EXPERIMENTS[name].is_exact]
    if inexact:
        notes.append(
            f"The images of {', '.join(inexact)} are reconstructed: the exact version of the"
            " published code is not public."
        )
    return tuple(notes)


def _csv_rows(record: StudyRecord) -> list[dict[str, object]]:
    rows = []
    for ruler in record.rulers:
        row: dict[str, object] = {"ruler": ruler.ruler, "images": record.n_images}
        for name in STATISTICS:
            statistic: StatisticRecord = getattr(ruler, name)
            low, high = statistic.estimate.interval95
            row |= {
                name: statistic.estimate.value,
                f"{name}_low95": low,
                f"{name}_high95": high,
                f"{name}_jackknife": statistic.jackknife,
            }
        rows.append(row | {f"error_{name}": error for name, error in ruler.errors.items()})
    return rows
