"""The study of rulers: measure every ruler in the human experiments, and compare it with humans."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import numpy as np
from torch import Tensor

from eyechart.core.arrays import FloatArray
from eyechart.core.csv_table import csv_text
from eyechart.core.devices import find_device
from eyechart.core.errors import UsageError
from eyechart.core.progress import NO_PROGRESS, Progress
from eyechart.core.storage.files import write_text
from eyechart.core.storage.run_folder import open_run_folder
from eyechart.core.version import versions
from eyechart.images.identity import file_digest
from eyechart.images.image_sources import find_listing
from eyechart.images.imageset import ImageSet, load_listing
from eyechart.rulers.agreement import (
    FEW_EXPERIMENTS,
    STATISTICS,
    draw_replicates,
    estimate_agreement,
    experiment_errors,
    fit_monotone,
    paired_differences,
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
    TERMS_TABLE,
    Measure,
    measure_conditions,
    measure_ruler,
    read_measured,
    ruler_table,
)
from eyechart.rulers.study_record import (
    AgreementRecord,
    ConditionRecord,
    SelectionRecord,
    StatisticName,
    StatisticRecord,
    StudyRecord,
)
from eyechart.rulers.study_settings import StudySettings
from eyechart.rulers.vif_fit import Terms, fit_vif, measure_terms, nested_fit
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


def run_study(
    settings: StudySettings, progress: Progress = NO_PROGRESS
) -> tuple[StudyRecord, list[Ruler], Tensor]:
    """Measure the rulers, compare them with humans, and write study.json and study.csv.

    Measured values are kept in the output folder, so that a stopped study resumes and further
    rulers can be added. `settings` are checked before, see `StudySettings.check`.

    Returns:
        The record, and for figures the rulers and an example image, uint8 (H, W).

    Raises:
        UsageError: If a setting, the human data or an image is not valid.
    """
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
    measures: dict[str, Measure] = {
        ruler_table(ruler): partial(measure_ruler, ruler) for ruler in rulers
    }
    if settings.fit:
        measures[TERMS_TABLE] = measure_terms
    advance = progress.begin("measure", len(measures) * len(humans) * len(images))
    folder = settings.out / MEASURED
    measure_conditions(images, experiments, measures, folder, find_device(settings.device), advance)
    conditions = list(zip(humans.experiments, humans.names, strict=True))
    columns = {name: read_measured(folder, name, len(images), conditions) for name in measures}
    values = {ruler.name: columns[ruler_table(ruler)]["value"] for ruler in rulers}
    terms = Terms.of(columns[TERMS_TABLE]) if settings.fit else None
    record = _analyze(humans, images, values, terms, settings, progress)
    _write_study(record, settings.out)
    return record, rulers, to_gray(images.batch([0]))[0]


def _analyze(
    humans: HumanConditions,
    images: ImageSet,
    measured: Mapping[str, FloatArray],
    terms: Terms | None,
    settings: StudySettings,
    progress: Progress,
) -> StudyRecord:
    """Return the study's statistics.

    Args:
        humans: The human accuracy in each condition.
        images: The images.
        measured: The values (images, conditions) of each ruler.
        terms: The terms of VIF, to which parameters are fitted; None without a fit.
        settings: The settings of the study.
        progress: Shows how far the fit and the bootstrap are.
    """
    values = dict(measured)
    drawn = draw_replicates(humans, len(images), settings.n_bootstrap, settings.seed)
    fit = None
    if terms is not None:
        few = drawn[:FIT_REPLICATES]
        parameters, fit = fit_vif(terms, humans, few, progress.begin("fit", len(few)))
        values[FITTED] = terms.values(parameters)
    advance = progress.begin("resample", len(values) * len(drawn))
    statistics = {
        name: estimate_agreement(one, humans, drawn, advance) for name, one in values.items()
    }
    ordered = sorted(statistics, key=lambda name: statistics[name]["error"].estimate.value)
    # the fit was chosen on these data, so that a test against it would be too favorable
    tested = {name: statistics[name] for name in ordered if name != FITTED}
    return StudyRecord(
        made=datetime.now(UTC).date().isoformat(),
        versions=versions(),
        images=images.source.rstrip("/").rpartition("/")[2],
        images_digest=images.digest,
        n_images=len(images),
        human=settings.human.name,
        human_digest=file_digest(settings.human),
        n_observers=humans.n_observers,
        n_bootstrap=settings.n_bootstrap,
        seed=settings.seed,
        conditions=tuple(
            ConditionRecord(
                experiment=experiment,
                condition=name,
                trials=int(trials),
                accuracy=accuracy,
                rescaled=rescaled,
            )
            for experiment, name, trials, accuracy, rescaled in zip(
                humans.experiments,
                humans.names,
                humans.trials.sum(axis=1).tolist(),
                humans.accuracy().tolist(),
                humans.rescaled().tolist(),
                strict=True,
            )
        ),
        rulers=tuple(_ruler(name, values[name], humans, statistics[name]) for name in ordered),
        differences=tuple(paired_differences(tested)),
        selection=_selection(measured, humans),
        fit=fit,
        notes=_notes(humans, list(measured)),
    )


def _write_study(record: StudyRecord, out: Path) -> None:
    """Write a study's record and, with a fit, its calibration as JSON, and its table as CSV."""
    write_text(out / RESULTS, record.model_dump_json(indent=1) + "\n")
    write_text(out / TABLE, csv_text(_csv_rows(record)))
    if record.fit is not None:
        calibration = HumanCalibration(
            ruler=EXPECTED_LOSS_RULER.calibration.ruler,
            ruler_version=EXPECTED_LOSS_RULER.calibration.ruler_version,
            knots=record.fit.knots,
            half_width95=round(record.fit.half_width95, 4),
            experiments=tuple(dict.fromkeys(one.experiment for one in record.conditions)),
            n_images=record.n_images,
            images=f"{record.images} (digest {record.images_digest})",
            humans=f"{CITATION} Counts in {record.human} (SHA-256 {record.human_digest[:16]}).",
            date=record.made,
        )
        write_text(out / CALIBRATION, calibration.model_dump_json(indent=1) + "\n")


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


def _ruler(
    name: str,
    values: FloatArray,
    humans: HumanConditions,
    statistics: Mapping[StatisticName, StatisticRecord],
) -> AgreementRecord:
    means, accuracy = weighted_means(values), humans.rescaled()
    experiments = np.array(humans.experiments)
    curve = fit_monotone(means, accuracy)
    return AgreementRecord(
        ruler=name,
        version=find_ruler(name).version if name in RULERS else 1,
        n_images=int((~np.isnan(values).any(axis=1)).sum()),
        explained=statistics["explained"],
        explained_left_out=statistics["explained_left_out"],
        error=statistics["error"],
        errors=experiment_errors(means, accuracy, experiments),
        transfer_errors=transfer_errors(means, accuracy, experiments, MAIN),
        values=tuple(means.tolist()),
        curve=tuple(zip(curve.values.tolist(), curve.heights.tolist(), strict=True)),
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
