"""The plan of a run: number of samples, expected run time and precision, written before the run.

A run that resumes reads its plan, so that a faster or slower machine does not change its samples.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil, sqrt
from pathlib import Path
from time import perf_counter
from typing import Literal

import numpy as np
from pydantic import Field
from scipy.special import ndtri

from eyechart.core.errors import UsageError
from eyechart.core.phrases import count_of
from eyechart.core.progress import Progress, no_advance
from eyechart.core.records import Record
from eyechart.core.storage.files import create_file
from eyechart.core.storage.run_folder import RECORD, read_settings, settings_text, write_settings
from eyechart.pipeline.evaluation_run import EvaluationRun
from eyechart.pipeline.prepare import EvaluationInputs
from eyechart.pipeline.settings import EvaluateSettings
from eyechart.predictions.loop import PredictionTask, predict_items
from eyechart.stats.curve import fit_curve
from eyechart.stats.intervals import CONFIDENCE
from eyechart.testsets.pilot import PilotMap, count_pilots, measure_maps, with_strengths
from eyechart.testsets.plan import Plan
from eyechart.testsets.samples import Samples, plan_samples, usable_images
from eyechart.testsets.testset_settings import N_SAMPLES

PLAN_FILE = "plan.json"

BETWEEN, WITHIN = 0.1, 0.1
"""Variance of accuracy between images, and within an image, for the mean over corruptions.

Measured on runs of EfficientNet-Lite on 57 and 937 images (docs/concepts/statistics.md).
"""

AIM = 0.03
"""Target half-width of the 95 % interval of the mean R_a if the number of samples is automatic."""

MIN_N = 150
"""Minimum number of samples per corruption if time allows; fewer samples leave bins empty."""

FEWEST = 30
"""Minimum automatic number of samples per corruption, even if they exceed the time limit."""

PER_IMAGE = 5
"""Samples per corruption and image beyond which more samples of the same images add little."""

PROBED = {"cpu": 6, "cuda": 512}
"""Number of samples per corruption that the run time is estimated from, by device type."""

RUN_PER_PROBED = 10
"""Minimum number of samples in a run per sample that is probed on a CPU: the estimate of a short
run should not take as long as the run."""

WARM_UP = {"cpu": 1, "cuda": 512}
"""Number of samples per corruption that are predicted before, because the first ones are slow."""

PILOT_COST = 0.3
"""Time for a pilot sample, which is measured but not predicted, as a fraction of a sample's."""

CURVES = 3.3
"""Time to score a property of a model, as a multiple of the time to fit a curve."""

ONCE = {"cpu": 2.0, "cuda": 4.0}
"""Seconds that every run takes in addition, by device type: opening files, loading kernels, example
images."""

Limit = Literal["given", "precision", "time", "images"]
"""What determined the number of samples."""


class RunPlan(Record):
    """The number of samples of a run, with its expected run time and precision."""

    n: int
    """Number of samples per corruption."""
    limit: Limit
    """What determined `n`: a given number, the target precision, time, or the number of images."""
    n_images: int
    """Number of images."""
    n_corruptions: int
    """Number of corruptions."""
    seconds: float
    """Expected run time on this machine."""
    half_width: float
    """Expected half-width of the 95 % interval of the mean R_a."""
    n_at_levels: int | None = None
    """Number of samples of all corruptions at published severities; None if `n` applies."""
    maps: Mapping[str, PilotMap] = Field(default_factory=dict)
    """Expected visual change along the strength path of each corruption, from the pilot."""

    def sentences(self, more: str = "") -> list[str]:
        """Return the plan in words, and what would make the result more precise.

        `more`: a clause for the end of the plan.
        """
        # Without the factor, no precision would be left for the variance within images.
        images_needed = _round_up(BETWEEN / (AIM / _z()) ** 2 * 1.1)
        samples = f"{count_of(self.n, 'sample')} each"
        if self.n_at_levels is not None:
            samples = f"{count_of(self.n_at_levels, 'sample')} at published severities"
        lines = [
            f"Plan: {count_of(self.n_images, 'image')},"
            f" {count_of(self.n_corruptions, 'corruption')}, {samples};"
            f" about {_duration(self.seconds)}; mean R_a to about ±{self.half_width:.2f}"
            f"{more and f'; {more}'}."
        ]
        reasons = {
            "given": "",
            "precision": f"This number of samples suffices for a precision of ±{AIM:g}.",
            "time": f"Time limits the number of samples (--minutes); ±{AIM:g} would need about"
            f" {_needed_n(self.n_images, self.n_corruptions):,} samples per corruption.",
            "images": "The number of images limits the precision: more samples of the same images"
            f" would add little; about {images_needed:,} images give ±{AIM:g}.",
        }
        return [*lines, *filter(None, [reasons[self.limit]])]


@dataclass(frozen=True)
class Costs:
    """Seconds that parts of a run take on this machine."""

    per_image: float
    per_sample: float
    scoring: float
    once: float = 0.0

    def seconds(self, n_images: int, n_samples: int) -> float:
        """Return the expected run time."""
        return self.per_image * n_images + self.per_sample * n_samples + self.scoring + self.once


def plan_run(
    settings: EvaluateSettings, inputs: EvaluationInputs, out: Path
) -> tuple[EvaluateSettings, RunPlan | None]:
    """Return the settings with their number of samples, and the plan.

    The plan is None for a given test set, and for corrupted images that are read from files,
    because their samples are fixed.
    """
    if settings.testset is not None or inputs.images.files is not None:
        return settings, None
    kept = read_plan(out)
    if kept is not None and settings.n in (None, kept.n):
        return replace(settings, n=kept.n), kept
    if settings.shard is not None and not settings.is_n_fixed:
        raise UsageError(
            "The automatic number of samples depends on the machine: in a run with --shard, give"
            " --n NUMBER, or an --out folder that has a plan."
        )
    if settings.n is None and (out / RECORD).is_file():
        # Stopped before its plan was written: the record has the number of samples as well.
        recorded = read_settings(out / RECORD).get("n")
        settings = replace(settings, n=recorded if isinstance(recorded, int) else None)
    plan = settings.plan
    n_images = len(usable_images(inputs.images, plan))
    n_corruptions = len(plan.entries())
    costs = _probe(settings, plan, inputs)
    n: int | None = settings.n
    limit: Limit = "given"
    if n is None and settings.is_n_fixed:
        n = plan.n
    elif n is None:
        n, limit = _choose_n(n_images, n_corruptions, costs, 60 * settings.minutes)
    settings = replace(settings, n=n)
    groups = plan_samples(inputs.images, settings.plan)
    n_corrupted = sum(len(samples) for samples in groups if samples.entry is not None)
    n_samples = sum(map(len, groups)) + round(
        PILOT_COST * count_pilots(inputs.images, settings.plan)
    )
    run_plan = RunPlan(
        n=settings.plan.n,
        limit=limit,
        n_images=n_images,
        n_corruptions=n_corruptions,
        seconds=costs.seconds(n_images, n_samples),
        half_width=half_width(n_images, n_corrupted),
        n_at_levels=n_corrupted if settings.plan.is_at_levels else None,
    )
    return settings, run_plan


def with_pilot(run: EvaluationRun, plan: RunPlan, out: Path, progress: Progress) -> EvaluationRun:
    """Return the run with strengths from its pilot, whose maps are stored with the plan."""
    task = run.task
    if not plan.maps and (count := count_pilots(task.images, task.plan)):
        step = progress.begin("pilot", count)
        maps = measure_maps(task.images, task.plan, task.device, step)
        plan = plan.model_copy(update={"maps": maps})
    plan = _write_plan(plan, out)
    groups = with_strengths(task.images, task.groups, task.plan, plan.maps)
    return replace(run, task=replace(task, groups=groups))


def _write_plan(plan: RunPlan, out: Path) -> RunPlan:
    """Write the plan unless the folder has one; return the plan of the folder."""
    path, plain = out / PLAN_FILE, plan.model_dump(mode="json")
    try:
        out.mkdir(parents=True, exist_ok=True)
        if create_file(path, settings_text(plain)):
            return plan
        kept = read_plan(out)
        # Another shard may have measured its maps on another type of device: the first plan counts.
        if kept is not None and kept.n == plan.n and kept.maps.keys() == plan.maps.keys():
            return kept
        write_settings(path, plain)
    except OSError as error:
        raise UsageError(f"Cannot write into {out}: {error.strerror or error}.") from None
    return plan


def half_width(n_images: int, n_samples: int) -> float:
    """Return the expected half-width of the 95 % interval of a mean over all corruptions.

    Example:
        >>> round(half_width(60, 14 * 300), 2), round(half_width(1000, 14 * 300), 2)
        (0.08, 0.02)
    """
    return _z() * sqrt(BETWEEN / n_images + WITHIN / n_samples)


def _choose_n(n_images: int, n_corruptions: int, costs: Costs, seconds: float) -> tuple[int, Limit]:
    """Return the number of samples per corruption, and what limits it."""
    # If the largest automatic number of samples misses the target, only more images can help.
    is_precise = half_width(n_images, N_SAMPLES * n_corruptions) <= AIM
    enough = _needed_n(n_images, n_corruptions) if is_precise else PER_IMAGE * n_images
    enough = min(N_SAMPLES, max(MIN_N, enough))
    left = seconds - costs.seconds(n_images, 0)
    in_time = max(FEWEST, int(left / (costs.per_sample * n_corruptions)))
    if in_time < enough:
        # Rounded down, so that rounding does not exceed the time.
        return _round_down(in_time), "time"
    return enough, "precision" if is_precise else "images"


def _needed_n(n_images: int, n_corruptions: int) -> int:
    """Return the number of samples per corruption for the target precision."""
    room = (AIM / _z()) ** 2 - BETWEEN / n_images
    if room <= 0:
        return PER_IMAGE * n_images
    return max(MIN_N, _round_up(WITHIN / room / n_corruptions))


def _z() -> float:
    return float(ndtri((1 + CONFIDENCE) / 2))


def _probe(settings: EvaluateSettings, plan: Plan, inputs: EvaluationInputs) -> Costs:
    """Return the costs of a run, measured on a few samples of every corruption."""
    images, device = inputs.images, inputs.device
    # Few samples on a CPU, where each takes tens of milliseconds.
    n_timed, n_first = PROBED.get(device.type, 6), WARM_UP.get(device.type, 1)
    if settings.n is not None and device.type == "cpu":
        n_timed = min(n_timed, max(1, settings.n // RUN_PER_PROBED))
    # Strengths from the published domains: a probe needs no pilot.
    few = replace(plan, n=n_first + n_timed, sampling=None)
    clean, *corrupted = plan_samples(images, few)
    # The first samples load the device's kernels; the others are not in any cache yet.
    for chosen in (slice(0, n_first), slice(-n_timed, None)):
        per_image = _timed([_part(clean, chosen)], few, settings, inputs)
    per_image /= min(len(clean), n_timed)
    for chosen in (slice(0, n_first), slice(-n_timed, None)):
        timed = [_part(samples, chosen) for samples in corrupted]
        seconds = _timed(timed, few, settings, inputs)
    # The difference of two measured times can be negative.
    seconds = max(seconds - per_image * len(np.unique(timed[0].image)), 1e-6)
    per_sample = seconds / sum(map(len, timed))
    # Models of ImageNet's classes are also scored in the 16 categories if humans are compared.
    n_spaces = sum(
        2 if model.has_imagenet and settings.human_names else 1 for model in inputs.models
    )
    n_fits = CURVES * 2 * len(plan.entries()) * n_spaces
    scoring = n_fits * _fit_seconds(settings.n_bootstrap, len(images))
    return Costs(per_image, per_sample, scoring, ONCE.get(device.type, ONCE["cpu"]))


def _part(samples: Samples, chosen: slice) -> Samples:
    return samples.select(np.arange(len(samples))[chosen])


def _timed(
    groups: list[Samples], plan: Plan, settings: EvaluateSettings, inputs: EvaluationInputs
) -> float:
    """Return the seconds that predictions for these samples take."""
    task = PredictionTask(
        inputs.images, plan, groups, inputs.models, inputs.device, settings.batch_size, ""
    )
    items = [item for item in task.items(np.empty(0, dtype=np.int64)) if (item >= 0).all()]
    start = perf_counter()
    predict_items(task, items, lambda _name, _table: None, no_advance)
    return perf_counter() - start


def _fit_seconds(n_bootstrap: int, n_images: int) -> float:
    """Return the seconds that fitting one curve takes."""
    delta_v = np.random.default_rng(0).random(300)
    times = []
    # The shortest of three times, because other processes make one time unreliable.
    for _ in range(3):
        start = perf_counter()
        fit_curve(
            delta_v,
            (delta_v < 0.5).astype(float),
            clusters=np.arange(300) % n_images,
            all_clusters=np.arange(max(n_images, 1)),
            n_bootstrap=n_bootstrap,
        )
        times.append(perf_counter() - start)
    return min(times)


def read_plan(out: Path) -> RunPlan | None:
    """Return the plan of the run in this folder; None if the folder contains no plan."""
    if not (out / PLAN_FILE).is_file():
        return None
    values = read_settings(out / PLAN_FILE)
    try:
        return RunPlan.from_plain(dict(values), str(out / PLAN_FILE))
    except (TypeError, ValueError):
        raise UsageError(
            f"{out / PLAN_FILE} is damaged: choose another --out, or delete {out}."
        ) from None


def _round_up(value: float) -> int:
    """Return a number rounded up to two significant digits."""
    number = max(1, ceil(value))
    step = int(10 ** max(0, len(str(number)) - 2))
    return ceil(number / step) * step


def _round_down(number: int) -> int:
    """Return a number rounded down to two significant digits."""
    step = int(10 ** max(0, len(str(number)) - 2))
    return number // step * step


def _duration(seconds: float) -> str:
    """Return a duration in words, such as "40 s", "3 min" or "2.5 h"."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
