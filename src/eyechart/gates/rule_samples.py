"""The samples that a rule applies to, with the hits of the new and the old model on them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eyechart.core.arrays import FloatArray, IntArray
from eyechart.core.errors import UsageError
from eyechart.core.phrases import count_of, verb
from eyechart.core.registry import unknown_name
from eyechart.gates.bounds import ClusteredMean, clustered_mean
from eyechart.gates.rules import Rule
from eyechart.images.labels.imagenet import NONE
from eyechart.images.labels.spaces import ENTRY16
from eyechart.predictions.reading import Predictions
from eyechart.results.recorded_run import RecordedRun
from eyechart.testsets.plan import MOVED

TOLERANCE = 1e-5
"""Maximum difference in Δv between device types (docs/concepts/reproducibility.md)."""

SAME = ("digest", "image", "label", "category", "version", "draw", "severity", "parameters", "seed")
"""Columns in which the samples of two runs must agree, besides Δv."""


@dataclass(frozen=True, eq=False)
class RuleSamples:
    """The samples that a rule applies to; arrays have one element per sample.

    `old` is empty unless two models are compared. `left_out` is the number of samples that cannot
    be scored, because they have no label or no clean prediction.
    """

    space: str
    model: str
    old_model: str | None
    corruptions: tuple[str, ...]
    corruption: IntArray
    """Index into `corruptions`."""
    image: IntArray
    weights: FloatArray
    delta_v: FloatArray
    severity: FloatArray
    new: FloatArray
    old: FloatArray
    left_out: int
    n_available: int
    """Number of images in the run from which more samples could be drawn."""
    notes: tuple[str, ...]

    @property
    def mean(self) -> ClusteredMean:
        """The mean that is compared with the rule's limit: the hit rate, or new minus old."""
        if self.old_model is None:
            return self.weighted_mean(self.new, 0)
        # Differences on the same samples: what is hard for both models cancels.
        return self.weighted_mean(self.new - self.old, -1)

    def weighted_mean(self, values: FloatArray, lowest: float) -> ClusteredMean:
        """Return the mean of one value per sample, which is at least `lowest`."""
        return clustered_mean(values, self.image, self.weights, lowest=lowest)


def select_samples(
    rule: Rule, new: RecordedRun, old: RecordedRun | None, checked: set[str]
) -> RuleSamples:
    """Return the samples that a rule applies to.

    Args:
        rule: The rule.
        new: The run of the new model.
        old: The run of the old model; None if there is none.
        checked: The corruptions whose samples are known to be the same in both runs. Corruptions
            that are compared with each other for this rule are added.

    Raises:
        UsageError: The rule does not fit the runs or matches no sample, or the runs to be compared
            have different samples.
    """
    if rule.margin is not None and old is None:
        raise rule.problem("no_worse_than_old", "it needs an old run: give --against OLD.")
    compared = old if rule.margin is not None else None
    model, old_model = _model(rule, "model", rule.model, new), None
    spaces = tuple(new.model(model).spaces)
    space = rule.labels or spaces[0]
    if space not in spaces:
        raise rule.problem(
            "labels",
            f"{model} was not scored in the label space {space}, only in {', '.join(spaces)}.",
        )
    if compared is not None:
        old_name = rule.old_model
        if old_name is None and len(compared.models) > 1 and model in compared.models:
            old_name = model
        old_model = _model(rule, "old_model", old_name, compared)
        _check_space(rule, space, new, compared, old_model)
    corruptions, notes = _corruptions(rule, new)
    n_available, parts = 0, []
    for name in corruptions:
        predictions = new.predictions(name, model, space)
        kept = _is_in_slice(rule, predictions, new, model, space)
        # All corruptions of a run use the same images, so that the first stands for all.
        n_available = n_available or len(np.unique(predictions.image[kept]))
        for ends, values in (
            (rule.delta_v, predictions.delta_v),
            (rule.severity, predictions.severity),
        ):
            if ends is not None:
                # a NaN is in no range
                kept &= (values >= ends[0]) & (values <= ends[1])
        old_hits = np.full(len(predictions), np.nan)
        if compared is not None and old_model is not None:
            if name not in checked:
                _check_same_samples(name, new, compared)
                checked.add(name)
            old_hits = _hits(rule, compared.predictions(name, old_model, space))
        weights = predictions.weights
        parts.append(
            {
                "image": predictions.image[kept],
                "weights": np.ones(int(kept.sum())) if weights is None else weights[kept],
                "delta_v": predictions.delta_v[kept],
                "severity": predictions.severity[kept],
                "new": _hits(rule, predictions)[kept],
                "old": old_hits[kept],
            }
        )
    rows = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    number = np.repeat(np.arange(len(parts)), [len(part["new"]) for part in parts])
    n_matching = len(number)
    has_hits = ~np.isnan(rows["new"])
    if compared is not None:
        # A difference needs both models, so that a sample without one of them is left out.
        has_hits &= ~np.isnan(rows["old"])
    if not has_hits.any():
        severities = [new.predictions(name, model, space).severity for name in corruptions]
        raise rule.problem("", _why_none(rule, n_matching, np.concatenate(severities)))
    left_out = int(n_matching - has_hits.sum())
    if left_out:
        without = f"{count_of(left_out, 'sample')} without a label or clean prediction"
        notes = (*notes, f"{without} {verb(left_out, 'is')} left out.")
    return RuleSamples(
        space=space,
        model=model,
        old_model=old_model,
        corruptions=corruptions,
        corruption=number[has_hits],
        image=rows["image"][has_hits].astype(np.int64),
        weights=rows["weights"][has_hits],
        delta_v=rows["delta_v"][has_hits],
        severity=rows["severity"][has_hits],
        new=rows["new"][has_hits],
        old=rows["old"][has_hits] if compared is not None else np.empty(0),
        left_out=left_out,
        n_available=n_available,
        notes=notes,
    )


def _why_none(rule: Rule, n_matching: int, severity: FloatArray) -> str:
    if rule.severity is not None and np.isnan(severity).all():
        return "severity does not apply, as the samples were drawn without a severity: use delta_v."
    if not n_matching:
        return f"no sample of the run meets the conditions of the rule {rule.name!r}."
    need = "labels" if rule.metric == "accuracy" else "predictions on clean images"
    return f"{rule.metric} needs {need}, which the {n_matching:,} samples of the rule lack."


def _model(rule: Rule, key: str, name: str | None, run: RecordedRun) -> str:
    if name is not None:
        if name not in run.models:
            raise rule.problem(key, str(unknown_name("model", name, run.models)))
        return name
    if len(run.models) > 1:
        raise rule.problem(
            "", f"{key} is missing: {run.folder} has {len(run.models)} models"
            f" ({', '.join(run.models)}); name one of them."
        )  # fmt: skip
    return run.models[0]


def _check_space(
    rule: Rule, space: str, new: RecordedRun, old: RecordedRun, old_model: str
) -> None:
    if space not in old.model(old_model).spaces:
        raise rule.problem(
            "labels", f"{old_model} in {old.folder} was not scored in the label space {space}."
        )
    rules = [run.results.config.rule for run in (new, old)]
    if space == ENTRY16 and rules[0] != rules[1]:
        raise UsageError(
            f"{new.folder} and {old.folder} map classes to categories by different rules"
            f" ({rules[0]} and {rules[1]}): evaluate both with the same --rule."
        )


def _corruptions(rule: Rule, run: RecordedRun) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the corruptions of a rule in the order of the run, and notes on them."""
    chosen = run.corruptions
    if rule.corruptions:
        chosen = tuple(_full_name(rule, name, run) for name in rule.corruptions)
    elif rule.families:
        families = {name: run.families_of(name) for name in run.corruptions}
        known = {family for names in families.values() for family in names}
        for family in rule.families:
            if family not in known:
                raise rule.problem(
                    "families", str(unknown_name("family of the run", family, known))
                )
        chosen = tuple(name for name in run.corruptions if set(families[name]) & set(rule.families))
    if rule.delta_v is None:
        return tuple(dict.fromkeys(chosen)), ()
    plan = run.results.config.plan
    moved = [
        name
        for name in chosen
        if name in run.entries and plan.why_no_curve(run.entries[name]) == MOVED
    ]
    kept = tuple(name for name in dict.fromkeys(chosen) if name not in moved)
    if not kept:
        raise rule.problem(
            "delta_v", f"Δv does not measure the strength of {', '.join(moved)}: use severity."
        )
    note = f"Left out, because Δv is undefined for them: {', '.join(moved)}." if moved else ""
    return kept, (note,) if note else ()


def _full_name(rule: Rule, name: str, run: RecordedRun) -> str:
    # a short name is enough if the suite's names have a prefix
    for known in run.corruptions:
        if name in (known, known.rpartition("/")[2]):
            return known
    raise rule.problem(
        "corruptions", str(unknown_name("corruption of the run", name, run.corruptions))
    )


def _hits(rule: Rule, predictions: Predictions) -> FloatArray:
    return predictions.correct if rule.metric == "accuracy" else predictions.consistent


def _is_in_slice(
    rule: Rule, predictions: Predictions, run: RecordedRun, model: str, space: str
) -> NDArray[np.bool_]:
    """Return which samples are made from images that the rule applies to."""
    kept = np.ones(len(predictions), dtype=bool)
    names = run.image_names(model, space)
    for column, allowed in rule.where.items():
        try:
            values_of = run.column(column)
        except UsageError as error:
            raise rule.problem("where", str(error)) from None
        wanted = {value.casefold() for value in allowed}
        is_wanted = np.array([values_of.get(name, "").casefold() in wanted for name in names])
        kept &= is_wanted[predictions.image]
    if rule.classes:
        kept &= _is_in_classes(rule, predictions, run, model, space)
    return kept


def _is_in_classes(
    rule: Rule, predictions: Predictions, run: RecordedRun, model: str, space: str
) -> NDArray[np.bool_]:
    """Return which samples belong to the rule's classes, as named by the model or by the data."""
    class_names = run.class_names(model, space)
    labels = run.column("label")
    known = {*class_names, *labels.values()} - {""}
    for name in rule.classes:
        if name not in known:
            raise rule.problem("classes", str(unknown_name("class", name, known)))
    spelled = [labels.get(name, "") for name in run.image_names(model, space)]
    return np.array(
        [
            label != NONE and (class_names[label] in rule.classes or spelled[image] in rule.classes)
            for label, image in zip(predictions.label, predictions.image, strict=True)
        ],
        dtype=bool,
    )


def _check_same_samples(corruption: str, new: RecordedRun, old: RecordedRun) -> None:
    """Raise a UsageError unless two runs have the same samples of a corruption."""
    if corruption not in old.corruptions:
        raise _not_same(new, old, f"{old.folder} has no {corruption}")
    first, second = new.samples(corruption), old.samples(corruption)
    if len(first) != len(second):
        counts = f"{len(first):,} and {len(second):,} samples"
        raise _not_same(new, old, f"they have {counts} of {corruption}")
    for column in SAME:
        if not first[column].combine_chunks().equals(second[column].combine_chunks()):
            raise _not_same(new, old, f"the column {column} of {corruption} differs")
    one, two = (table["delta_v"].to_numpy().astype(np.float64) for table in (first, second))
    # Only Δv has a tolerance, because device types round it differently.
    if not np.allclose(one, two, rtol=0, atol=TOLERANCE, equal_nan=True):
        raise _not_same(new, old, f"Δv of {corruption} differs")


def _not_same(new: RecordedRun, old: RecordedRun, difference: str) -> UsageError:
    return UsageError(
        f"{new.folder} and {old.folder} are not runs on the same samples ({difference}): evaluate"
        " both models on the same images, with the same suite, n, seed and version of eyechart."
    )
