"""Advice for an inconclusive rule: how many samples or images would decide it, in words."""

from collections.abc import Iterator
from math import ceil

from eyechart.gates.bounds import ClusteredMean
from eyechart.gates.gate_results import Decider
from eyechart.gates.planning import (
    FAIL_POWER,
    MAX_IMAGES,
    PASS_POWER,
    WORSE,
    PlannedSize,
    difference_targets,
    floor_targets,
    plan_size,
)
from eyechart.gates.rules import Rule
from eyechart.results.recorded_run import RecordedRun
from eyechart.stats.p_values import SIGNIFICANT


def make_decider(
    rule: Rule, mean: ClusteredMean, n_available: int, n_rules: int, run: RecordedRun
) -> Decider:
    """Return how much data would decide an inconclusive rule.

    Args:
        rule: The rule.
        mean: The mean that is compared with the rule's limit.
        n_available: The number of images that the rule applies to, with or without samples.
        n_rules: The number of rules in the gate.
        run: The run, whose settings determine how more samples are obtained.
    """
    if rule.margin is not None:
        targets = difference_targets(rule.margin, n_rules, SIGNIFICANT)
    else:
        targets = floor_targets(mean.value, rule.limit, n_rules, SIGNIFICANT)
    size = plan_size(mean, targets, n_available)
    # With one sample per image, it is unknown whether more samples help: None, not False.
    knows = size.is_separable or size.n_samples is not None
    return Decider(
        sentence=" ".join(_sentences(rule, mean, n_available, size, run)),
        samples_help=size.n_samples is not None if knows else None,
        n_samples=size.n_samples,
        n_images=size.n_images,
    )


def _sentences(
    rule: Rule, mean: ClusteredMean, n_available: int, size: PlannedSize, run: RecordedRun
) -> Iterator[str]:
    images = "image" if n_available == 1 else f"{n_available:,} images"
    if size.n_samples is not None:
        option = _option(size.n_samples / mean.n_samples, run)
        yield f"{size.n_samples:,} samples of the same {images} would decide the rule{option}."
    elif size.is_separable:
        yield f"More samples of the same {images} cannot decide the rule."
    else:
        yield (
            "With one sample per image, it is unknown whether more samples of the same"
            f" {images} would help."
        )
    each = f"{mean.n_per_image:.3g}"
    samples = "1 sample" if each == "1" else f"{each} samples"
    if size.n_images is None:
        yield (
            f"More than {MAX_IMAGES:,} images would be needed to distinguish the estimate from"
            f" {rule.limit:g}."
        )
        return
    word = "So would" if size.n_samples is not None else "It takes"
    yield f"{word} {size.n_images:,} images with {samples} each."
    if rule.margin is not None:
        # typographic: a space between number and percent sign
        equal, worse = f"{PASS_POWER:.0%}", f"{FAIL_POWER:.0%}"
        yield (
            f"At that size, a model equal to the old one passes in {equal} of cases, and a model"
            f" that is {WORSE * rule.margin:g} worse fails in {worse} of cases."
        ).replace("%", " %")


def _option(factor: float, run: RecordedRun) -> str:
    """Return a hint to multiply --n by `factor`; "" if --n does not set the number of samples."""
    config = run.results.config
    # The number of samples of a given test set or of published levels does not depend on --n.
    if config.testset or not run.entries or config.plan.is_at_levels:
        return ""
    return f" (evaluate with --n {ceil(config.n * factor)}, now {config.n})"
