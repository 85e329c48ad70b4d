"""Every number that a user sees in the results of a run, each with a name that says what it is.

Runs are read as users read them: `ec.load`, and the files of commands. A name is a path such as
`fine/native/gaussian_noise/r_a/value`; where a field of the results gets another name or place,
its line here changes, and the recorded values keep theirs.
"""

import csv
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow.compute as pc

import eyechart as ec

Named = Iterator[tuple[str, float | None]]

CURVE_AT = (25, 50, 75)
"""Points of a stored curve that are looked at; it has one for each hundredth of Δv."""


def values_in(folder: Path) -> Named:
    """Yield the numbers of all finished runs in a folder, and of the tables of other commands."""
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).with_suffix("").as_posix()
        if path.name == "results.json":
            yield from _within(path.relative_to(folder).parent.as_posix(), _run(path.parent))
        elif path.parent == folder and path.suffix == ".csv":
            with path.open(encoding="utf-8", newline="") as file:
                rows = list(csv.reader(file))
            yield from numbers_in(rows, name, "/")
        elif path.parent == folder and path.suffix == ".json":
            yield from numbers_in(json.loads(path.read_text("utf-8")), name, "/")


def numbers_in(value: object, name: str, separator: str = " ") -> Iterator[tuple[str, float]]:
    """Yield all numbers within plain values, named by where they are."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from numbers_in(inner, f"{name}{separator}{key}", separator)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from numbers_in(inner, f"{name}{separator}{index}", separator)
    elif not isinstance(value, bool):
        try:
            yield name, float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            return


def estimates_of(results: ec.Results) -> Iterator[tuple[tuple[str, str, str, str], ec.Estimate]]:
    """Yield every score by model, label space, corruption ("" for the whole test) and name."""
    for model in results.models:
        for space_name, space in model.spaces.items():
            for name, estimate in space.scores.items():
                yield (model.name, space_name, "", name), estimate
            for corruption, record in space.items():
                if record.clean_error is not None:
                    yield (model.name, space_name, corruption, "clean_error"), record.clean_error
                for name, estimate in record.scores.items():
                    yield (model.name, space_name, corruption, name), estimate


def ends_of(estimate: ec.Estimate) -> Iterator[tuple[str, float]]:
    """Yield the value of an estimate, which has the name of the whole, and its intervals."""
    yield "", estimate.value
    for level, numbers in ((95, estimate.interval95), (83, estimate.interval83)):
        yield from zip((f"low{level}", f"high{level}"), numbers, strict=True)


def formulas() -> Named:
    """Yield what the public functions say about fixed numbers."""
    numbers = np.random.default_rng(7)
    delta_v, images, chance = numbers.random(600), np.arange(600) // 10, numbers.random(600)
    hits = {
        "model": chance < 0.9 - 0.8 * delta_v**2,
        "human": chance < np.where(delta_v < 0.6, 0.95, 0.3),
    }
    for estimator in ("isotonic", "spline", "cobs"):
        curves = {
            name: ec.fit_curve(
                delta_v, hits[name], clusters=images, anchor=0.95, right_anchor=1 / 16, bins=12,
                min_per_bin=5, estimator=estimator, n_bootstrap=20,
            )
            for name in hits
        }  # fmt: skip
        for name, curve in curves.items():
            home = f"{estimator}/{name}"
            for place in (0, 0.3, 0.6, 1):
                yield f"{home}/{place}", float(curve(place))
            yield f"{home}/area", curve.area
            yield f"{home}/area/low95", curve.interval(0.95)[0]
            yield f"{home}/area/high95", curve.interval(0.95)[1]
            yield f"{home}/smoothing", curve.smoothing
        yield f"{estimator}/hmri", ec.hmri(curves["human"], curves["model"])
        yield f"{estimator}/mrsi", ec.mrsi(curves["human"], curves["model"])
    kappa = ec.error_consistency(hits["model"], hits["human"], images, n_bootstrap=20).kappa
    yield from _within("kappa", ends_of(kappa))
    names = ("fog", "frost", "snow", "brightness")
    errors = dict(zip(names, numbers.random((4, 5)), strict=True))
    own = ec.measured_baseline("own", dict(zip(names, (0.7, 0.8, 0.9, 0.6), strict=True)), 0.2)
    for relative in (False, True):
        for baseline in ("alexnet", own):
            ratios = ec.corruption_error(errors, baseline, clean=0.1, relative=relative)
            for name, value in ratios.values.items():
                kind = "relative_ce" if relative else "ce"
                yield f"{kind}/{getattr(baseline, 'name', baseline)}/{name}", value
    gains = 0.5 + 0.4 * np.eye(4) + 0.3 * np.eye(4)[[1, 0, 3, 2]] * numbers.random((4, 4))
    matrix = ec.overlap_matrix(np.vstack([np.full(4, 0.5), gains]), names)
    for first in names:
        for second in names:
            yield f"overlap/{first}-{second}", float(matrix[first, second])
    for threshold in (0.05, 0.2):
        for place, name in enumerate(ec.select_non_overlapping(matrix, threshold).members):
            yield f"selected/{threshold}/{name}", place


def _run(folder: Path) -> Named:
    results = ec.load(folder)
    for (model, space, corruption, score), estimate in estimates_of(results):
        name = f"{_short(model)}/{space}/{_short(corruption) or 'all'}/{score}"
        yield from _within(name, ends_of(estimate))
    for model in results.models:
        for space_name, space in model.spaces.items():
            home = f"{_short(model.name)}/{space_name}"
            yield from _within(home, _space(space))
            for corruption, record in space.items():
                yield from _within(f"{home}/{_short(corruption)}", _corruption(record))
    yield from _samples(results)
    for corruption, coverage in results.coverage.items():
        name = f"coverage/{_short(corruption)}"
        yield f"{name}/n_samples", coverage.rows
        yield f"{name}/39_bins", coverage.paper
        yield f"{name}/40_bins", coverage.equal
        yield f"{name}/reached", coverage.reached
        yield f"{name}/largest", coverage.largest
    for pair in results.paired:
        both = f"{_short(pair.first)}-{_short(pair.second)}"
        name = f"paired/{pair.space}/{_short(pair.corruption)}/{pair.property}/{both}"
        yield from _within(name, _difference(pair.difference))
        yield f"{name}/intervals_overlap", pair.intervals_overlap
    for agreement in results.agreements:
        both = f"{_short(agreement.first)}-{_short(agreement.second)}"
        name = f"kappa/{agreement.space}/{both}"
        yield from _within(name, ends_of(agreement.kappa))
        yield f"{name}/n_samples", agreement.trials
    for experiment in results.humans:
        for kind in ("accuracy", "consistency"):
            curve = getattr(experiment, kind)
            if curve is not None:
                name = f"humans/{experiment.name}/{kind}"
                yield from _within(name, _line(curve.line))
                for index, point in enumerate(curve.points):
                    yield f"{name}/{index}", point.rate
                    yield f"{name}/{index}/low95", point.interval95[0]
                    yield f"{name}/{index}/high95", point.interval95[1]
                    yield f"{name}/{index}/delta_v", point.delta_v[1]
                    yield f"{name}/{index}/n_responses", point.n_responses
    standings = results.compare()
    for place, model in enumerate(standings.order):
        yield f"standings/{_short(model)}", place
    for pair in standings.pairs:
        name = f"standings/{_short(pair.first)}-{_short(pair.second)}"
        yield name, pair.difference
        yield f"{name}/low95", pair.interval[0]
        yield f"{name}/high95", pair.interval[1]
        yield f"{name}/p_corrected", pair.corrected


def _space(space) -> Named:
    yield "n_images", space.n_images
    yield "n_classes", space.classes
    yield "left_out", space.left_out
    for own in space.by_class:
        name = f"class/{own.label}"
        yield f"{name}/clean", own.clean
        yield from _within(f"{name}/corrupted", ends_of(own.corrupted))
        yield f"{name}/n_samples", own.n_samples
        yield f"{name}/worst/{_short(own.worst)}", own.worst_rate
        yield f"{name}/instead", own.instead_share
    for pair in space.similar:
        name = f"similar/{_short(pair.first)}-{_short(pair.second)}/{pair.property}"
        yield f"{name}/hmri", pair.delta_hmri
        yield f"{name}/hmri/low95", pair.hmri_interval[0]
        yield f"{name}/hmri/high95", pair.hmri_interval[1]
        yield f"{name}/mrsi", pair.delta_mrsi
        yield f"{name}/mrsi/low95", pair.mrsi_interval[0]
        yield f"{name}/mrsi/high95", pair.mrsi_interval[1]


def _corruption(record) -> Named:
    yield "unmeasurable", record.unmeasurable
    for severity, error in record.error_by_severity.items():
        yield f"error/severity {severity}", error
    for condition in record.conditions:
        for kind in ("accuracy", "consistency"):
            rate = getattr(condition, kind)
            if rate is not None:
                yield from _within(f"{condition.condition}/{kind}", ends_of(rate))
        yield f"{condition.condition}/human_accuracy", condition.human_accuracy
    for kind in ("accuracy", "consistency"):
        results = getattr(record, kind)
        if results is not None:
            yield from _within(kind, _property(results))


def _property(results) -> Named:
    yield from _within("rate", ends_of(results.rate))
    yield "n_samples", results.n_samples
    if results.bounds is not None:
        yield "lowest", results.bounds[0]
        yield "highest", results.bounds[1]
    if results.break_point is not None:
        yield "break_point/limit", results.break_point.limit
    for index, (start, end) in enumerate(results.observed):
        yield f"observed/{index}/start", start
        yield f"observed/{index}/end", end
    if results.curve is not None:
        yield from _within("curve", _line(results.curve))
        yield "curve/smoothing", results.curve.smoothing
        yield "curve/left_anchor", results.curve.left_anchor
        yield "curve/right_anchor", results.curve.right_anchor
    if results.humans is not None:
        yield from _within("humans", _humans(results.humans))


def _humans(comparison) -> Named:
    yield f"scenario/{comparison.scenario}", 1
    yield "hmri_lowest", comparison.hmri_bounds[0]
    yield "hmri_highest", comparison.hmri_bounds[1]
    areas = comparison.areas
    yield "area/human", areas.human
    yield "area/model", areas.model
    yield "area/human_ahead", areas.human_ahead
    yield "area/model_ahead", areas.model_ahead
    yield "lead_limit/human", comparison.lead_limits[0]
    yield "lead_limit/model", comparison.lead_limits[1]
    yield "p/human", comparison.p_humans
    yield "p/model", comparison.p_model
    for kind in ("leads", "significant", "tested"):
        for index, lead in enumerate(getattr(comparison, kind)):
            yield f"{kind}/{index}/{lead.who} from", lead.start
            yield f"{kind}/{index}/{lead.who} to", lead.end
    yield "n_bins", comparison.human_bins
    yield "n_humans", comparison.observers
    if comparison.human_break_point is not None:
        yield from _within("break_point", ends_of(comparison.human_break_point))


def _line(line) -> Named:
    for index in CURVE_AT:
        yield f"{index / 100:g}", line.values[index]
        yield f"{index / 100:g}/low95", line.low95[index]
        yield f"{index / 100:g}/high95", line.high95[index]


def _difference(difference) -> Named:
    yield "", difference.area_difference
    yield "low95", difference.interval[0]
    yield "high95", difference.interval[1]
    yield "low83", difference.narrow_interval[0]
    yield "high83", difference.narrow_interval[1]
    yield "p", difference.p_value
    yield "largest", difference.largest
    yield "largest at", difference.place
    yield "p_largest", difference.p_value_largest


def _samples(results: ec.Results) -> Named:
    """Yield what the samples of each corruption add up to: strengths, Δv, predictions."""
    table = results.predictions()
    for corruption in pc.unique(table["corruption"]).to_pylist():
        rows = table.filter(pc.equal(table["corruption"], corruption))
        for model in pc.unique(rows["model"]).to_pylist():
            own = rows.filter(pc.equal(rows["model"], model))
            name = f"samples/{_short(corruption)}/{_short(model)}"
            yield f"{name}/n", own.num_rows
            yield f"{name}/n_correct", pc.sum(own["correct"]).as_py()
            yield f"{name}/n_consistent", pc.sum(own["consistent"]).as_py()
            yield f"{name}/confidence", pc.mean(own["confidence"]).as_py()
        name = f"samples/{_short(corruption)}"
        yield f"{name}/delta_v/mean", pc.mean(own["delta_v"]).as_py()
        yield f"{name}/delta_v/lowest", pc.min(own["delta_v"]).as_py()
        yield f"{name}/delta_v/highest", pc.max(own["delta_v"]).as_py()
        yield f"{name}/severity", pc.mean(own["severity"]).as_py()
        strengths: dict[str, list[float]] = {}
        for parameters in own["parameters"].to_pylist():
            for parameter, strength in parameters:
                strengths.setdefault(parameter, []).append(strength)
        for parameter, drawn in strengths.items():
            yield f"{name}/{parameter}", float(np.mean(drawn))


def _within(name: str, values: Named) -> Named:
    for inner, value in values:
        yield f"{name}/{inner}" if inner else name, value


def _short(name: str) -> str:
    """Return a name without its suite or module, by which nothing else of a run is called."""
    return name.rpartition("/")[2].rpartition(":")[2]
