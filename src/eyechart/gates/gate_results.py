"""Records of a gate's outcome: Python objects, and the content of `eyechart gate --json`."""

import os
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Literal

from eyechart.core.records import NullableFloat, Record
from eyechart.gates.rules import Rule

Outcome = Literal["pass", "fail", "inconclusive"]

SCHEMA_VERSION: Literal[1] = 1
"""Version of the file format; increases when the meaning of a field changes."""


class ConditionResults(Record):
    """Results of the new model under one corruption, on the samples that a rule applies to."""

    corruption: str
    """The corruption."""
    n_images: int
    """Number of images."""
    n_samples: int
    """Number of samples."""
    delta_v: tuple[float, float] | None
    """Smallest and largest visual change of the samples; null if it was not measured."""
    severity: tuple[float, float] | None
    """Smallest and largest severity of the samples; null if they have no severity."""
    failure_rate: float
    """Fraction of samples that are not hits."""
    failure_bound: float
    """Upper one-sided 95 % confidence bound of the failure rate."""
    overall_rate: NullableFloat
    """Accuracy or consistency over all samples of this corruption, of any strength and class; null
    if the run has no such rate."""


class Decider(Record):
    """The amount of data that would decide an inconclusive rule."""

    sentence: str
    """The advice in words."""
    samples_help: bool | None
    """Whether more samples of the same images can decide the rule; null if unknown."""
    n_samples: int | None
    """Number of samples of the same images that would decide the rule; null if no number would."""
    n_images: int | None
    """Number of images that would decide the rule with the current number of samples per image;
    null if too many."""


class RuleResults(Record):
    """The results for one rule."""

    rule: Rule
    """The rule."""
    outcome: Outcome
    """pass if the rule is shown to hold, fail if it is shown to be violated, else inconclusive."""
    insufficient: str
    """A note on insufficient data, which make a rule inconclusive; "" if the data suffice."""
    model: str
    """The new model."""
    old_model: str | None
    """The old model; null if the rule does not compare models."""
    space: str
    """The label space."""
    n_images: int
    """Number of images."""
    n_samples: int
    """Number of samples."""
    n_left_out: int
    """Number of samples that meet the conditions but have no label or no clean prediction."""
    rate: float
    """Accuracy or consistency of the new model."""
    old_rate: float | None
    """Accuracy or consistency of the old model; null if the rule does not compare models."""
    estimate: float
    """The value compared with the limit: the new rate, or the new rate minus the old rate."""
    lower: float
    """Lower one-sided 95 % confidence bound of the estimate."""
    upper: float
    """Upper one-sided 95 % confidence bound of the estimate."""
    limit: float
    """The limit that the estimate is compared with: the rule's floor or its negated margin."""
    p_pass: float
    """One-sided p-value for the claim that the rule holds."""
    p_fail: float
    """One-sided p-value for the claim that the rule is violated, Holm-corrected over all rules."""
    between: NullableFloat
    """Variance between images; null if no image has two samples."""
    within: NullableFloat
    """Variance between samples of one image; null if no image has two samples."""
    decider: Decider | None
    """The amount of data that would decide the rule; null unless the rule is inconclusive."""
    conditions: tuple[ConditionResults, ...]
    """Results of the new model under each corruption."""
    notes: tuple[str, ...]
    """Notes on the samples, one sentence each."""


class RunFacts(Record):
    """A run that the gate read."""

    folder: str
    """The run folder."""
    results_digest: str
    """SHA-256 of the run's results.json."""
    made: str
    """Date of the run, in ISO format."""
    command: str
    """The command as typed; "" for a call from Python."""
    device: str
    """Device on which the models ran."""
    git: str | None
    """Git commit of eyechart; null outside a repository."""
    versions: Mapping[str, str]
    """Versions of eyechart and of the packages that its results depend on."""
    suite: str
    """The suite."""
    n: int
    """Requested number of samples per corruption."""
    seed: int
    """Random seed."""
    sampling: str
    """How strengths were sampled."""
    ruler: str
    """How visual change was measured."""
    stimulus: str
    """How images were resized and cropped."""
    source: str
    """Data source."""
    images_digest: str
    """Digest of the images."""
    n_images: int
    """Number of images in the test set."""
    n_classes: int
    """Number of classes that these images belong to."""
    models: Mapping[str, str]
    """Digest of the weights of each model; "" if unknown."""
    warnings: tuple[str, ...]
    """The run's notes on interpreting its scores."""


class GateResults(Record):
    """The outcome of a gate: the content of `eyechart gate --json`."""

    schema_version: Literal[1] = SCHEMA_VERSION
    """Version of this format."""
    eyechart: str
    """Version of eyechart that made the decision."""
    made: str
    """Date of the decision, in ISO format."""
    outcome: Outcome
    """pass if every rule passes, fail if one fails, inconclusive otherwise."""
    inconclusive: str
    """What an inconclusive outcome counts as: fail or pass."""
    alpha: float
    """One-sided significance level."""
    intended_conditions: str
    """The conditions that the model is intended for, as stated with the rules; "" if not stated."""
    rules_file: str
    """File that contains the rules; "" if they were given in Python."""
    new: RunFacts
    """The run of the new model."""
    old: RunFacts | None
    """The run of the old model; null if there is none."""
    rules: tuple[RuleResults, ...]
    """The rules, in order."""

    @property
    def passed(self) -> bool:
        """Whether the model passes; `inconclusive` says how an inconclusive outcome counts.

        A rule with insufficient data never counts as a pass.
        """
        return all(self.counts_as_pass(result) for result in self.rules)

    def counts_as_pass(self, result: RuleResults) -> bool:
        """Return whether a rule passes, or is inconclusive, has enough data and counts as pass."""
        if result.outcome == "inconclusive":
            return self.inconclusive == "pass" and not result.insufficient
        return result.outcome == "pass"

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the outcome as .json, .xml (JUnit), .md or .html (evidence), and return the path.

        Raises:
            UsageError: The suffix is not one of these, or the file cannot be written.
        """
        # Imported here, because reports are a layer above the gate (see docs/decisions.md).
        from eyechart.reports.html.evidence_page import save_gate

        return save_gate(self, Path(path))

    def __repr__(self) -> str:
        counts = f"{len(self.rules)} rule{'s' if len(self.rules) != 1 else ''}"
        return f"<GateResults of {counts}: {self.outcome}>"

    # pydantic's `__str__` would print every field.
    __str__ = __repr__

    def _repr_html_(self) -> str:
        """Return a table for notebooks: one row per rule."""
        rows = "".join(
            f"<tr><td>{escape(result.rule.name)}</td><td>{result.estimate:.3f}</td>"
            f"<td>{result.lower:.3f}</td><td>{result.limit:g}</td><td>{result.outcome}</td></tr>"
            for result in self.rules
        )
        heads = "".join(
            f"<th>{head}</th>" for head in ("rule", "estimate", "bound", "limit", "outcome")
        )
        return f"<table><tr>{heads}</tr>{rows}</table>"
