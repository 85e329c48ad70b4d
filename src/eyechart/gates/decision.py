"""The decision on each rule, from the samples it applies to, and what would decide the others."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from math import ceil

import numpy as np

from eyechart.core.arrays import FloatArray
from eyechart.core.phrases import count_of
from eyechart.core.version import __version__
from eyechart.gates.bounds import (
    FAIL_POWER,
    PASS_POWER,
    WORSE,
    ClusteredMean,
    clustered_mean,
    difference_targets,
    floor_targets,
    plan_size,
)
from eyechart.gates.gate import GateSettings
from eyechart.gates.gate_results import (
    ConditionResults,
    Decider,
    GateResults,
    Outcome,
    RuleResults,
    RunFacts,
)
from eyechart.gates.rule_samples import RuleSamples, select_samples
from eyechart.gates.rules import Rule, load_rules
from eyechart.results.recorded_run import RecordedRun, read_recorded_run
from eyechart.results.run_config import check_same_ruler
from eyechart.results.schema import RESULTS_FILE
from eyechart.scores.scoring import too_few_images
from eyechart.stats.estimate import ENOUGH
from eyechart.stats.p_values import SIGNIFICANT, holm


def decide_gate(settings: GateSettings) -> GateResults:
    """Return the outcome of a gate."""
    settings.check()
    rules, intended_conditions = load_rules(settings.rules)
    new = read_recorded_run(settings.new_folder)
    old = None if settings.old_folder is None else read_recorded_run(settings.old_folder)
    if old is not None:
        check_same_ruler((new.folder, new.results.config), (old.folder, old.results.config))
    checked: set[str] = set()
    samples = [select_samples(rule, new, old, checked) for rule in rules]
    results = decide_rules(rules, samples, new)
    # the gate passes only if all rules pass
    outcomes = {result.outcome for result in results}
    outcome: Outcome = "inconclusive" if "inconclusive" in outcomes else "pass"
    if "fail" in outcomes:
        outcome = "fail"
    return GateResults(
        eyechart=__version__,
        made=datetime.now(UTC).isoformat(timespec="seconds"),
        outcome=outcome,
        inconclusive=settings.inconclusive,
        alpha=SIGNIFICANT,
        intended_conditions=intended_conditions,
        rules_file=rules[0].file,
        new=_facts(new),
        old=None if old is None else _facts(old),
        rules=tuple(results),
    )


def _facts(run: RecordedRun) -> RunFacts:
    results = run.results
    config, info, images = results.config, results.run, results.images
    content = (run.folder / RESULTS_FILE).read_bytes()
    first = next(iter(results.models[0].spaces.values()))
    return RunFacts(
        folder=str(run.folder),
        results_digest=sha256(content).hexdigest(),
        made=info.made,
        command=info.command,
        device=info.device,
        git=info.git,
        versions=info.versions,
        suite=config.suite,
        n=config.n,
        seed=config.seed,
        sampling=config.sampling,
        ruler=config.ruler,
        stimulus=images.stimulus,
        source=images.source,
        images_digest=images.digest,
        n_images=images.used,
        n_classes=first.classes,
        models={model.name: model.identity or "" for model in results.models},
        warnings=results.warnings,
    )


def decide_rules(
    rules: Sequence[Rule], samples: Sequence[RuleSamples], run: RecordedRun
) -> list[RuleResults]:
    """Return the results of each rule.

    Each rule is tested for passing at the full significance level, because all rules must pass. The
    p-values for failing are corrected for the number of rules, because one failing rule is enough.
    A rule with less data than a claim needs is inconclusive.
    """
    means = [chosen.mean for chosen in samples]
    below = [mean.p_value(rule.limit, "below") for mean, rule in zip(means, rules, strict=True)]
    results = []
    for rule, chosen, mean, p_fail in zip(rules, samples, means, holm(below), strict=True):
        p_pass = mean.p_value(rule.limit, "above")
        insufficient = ""
        if mean.n_images < ENOUGH:
            insufficient = too_few_images(mean.n_images)
        elif not (rule.classes or rule.where):
            # the minimum of images per category applies to claims about all classes
            insufficient = run.model(chosen.model).spaces[chosen.space].verdict
        outcome: Outcome = "inconclusive"
        decider = None
        if insufficient:
            decider = advise_more_images(mean, chosen.n_available, insufficient, run)
        # the order does not matter: on one side of the limit, the p-value is always at least 0.5
        elif p_pass < SIGNIFICANT:
            outcome = "pass"
        elif p_fail < SIGNIFICANT:
            outcome = "fail"
        else:
            decider = make_decider(rule, mean, chosen.n_available, len(rules), run)
        lower, upper = mean.bounds(SIGNIFICANT)
        results.append(
            RuleResults(
                rule=rule,
                outcome=outcome,
                insufficient=insufficient,
                model=chosen.model,
                old_model=chosen.old_model,
                space=chosen.space,
                n_images=mean.n_images,
                n_samples=mean.n_samples,
                n_left_out=chosen.left_out,
                rate=chosen.weighted_mean(chosen.new, 0).value,
                old_rate=None
                if chosen.old_model is None
                else chosen.weighted_mean(chosen.old, 0).value,
                estimate=mean.value,
                lower=lower,
                upper=upper,
                limit=rule.limit,
                p_pass=p_pass,
                p_fail=float(p_fail),
                between=mean.between,
                within=mean.within,
                decider=decider,
                conditions=tuple(_conditions(rule, chosen, run)),
                notes=chosen.notes,
            )
        )
    return results


def _conditions(rule: Rule, samples: RuleSamples, run: RecordedRun) -> Iterator[ConditionResults]:
    """Yield the new model's results under each corruption of a rule."""
    for index, corruption in enumerate(samples.corruptions):
        chosen = samples.corruption == index
        if not chosen.any():
            continue
        # The evidence page states how often a model fails, with an upper bound.
        failures = 1 - samples.new[chosen]
        mean = clustered_mean(failures, samples.image[chosen], samples.weights[chosen], lowest=0)
        results = run.model(samples.model).spaces[samples.space].corruptions[corruption]
        scored = results.accuracy if rule.metric == "accuracy" else results.consistency
        yield ConditionResults(
            corruption=corruption,
            n_images=mean.n_images,
            n_samples=mean.n_samples,
            delta_v=_ends(samples.delta_v[chosen]),
            severity=_ends(samples.severity[chosen]),
            failure_rate=mean.value,
            failure_bound=mean.bounds(SIGNIFICANT)[1],
            overall_rate=None if scored is None else scored.rate.value,
        )


def _ends(values: FloatArray) -> tuple[float, float] | None:
    measured = values[~np.isnan(values)]
    return (float(measured.min()), float(measured.max())) if len(measured) else None


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
    size = None
    if rule.margin is not None:
        targets = difference_targets(rule.margin, n_rules, SIGNIFICANT)
        size = plan_size(mean, targets, n_available)
    is_for_estimate = size is None or not _is_larger(size, mean)
    if size is None or is_for_estimate:
        # The present size suffices for equal and for much worse models; this one is in between.
        targets = floor_targets(mean.value, rule.limit, n_rules, SIGNIFICANT)
        size = plan_size(mean, targets, n_available)
    n_samples, n_images = size
    is_at_levels = run.results.config.plan.is_at_levels
    if is_at_levels:
        # All samples at the levels of these images have been evaluated.
        n_samples = None
    if not _is_larger((n_samples, n_images), mean):
        n_samples = n_images = None
    # With one sample per image, it is unknown whether more samples help: None, not False.
    knows = is_at_levels or mean.is_separable or n_samples is not None
    decider = Decider(
        sentence="",
        samples_help=n_samples is not None if knows else None,
        n_samples=n_samples,
        n_images=n_images,
    )
    sentences = _sentences(rule, mean, n_available, decider, is_for_estimate, run)
    return decider.model_copy(update={"sentence": " ".join(sentences)})


def advise_more_images(
    mean: ClusteredMean, n_available: int, insufficient: str, run: RecordedRun
) -> Decider:
    """Return what a rule with insufficient data lacks.

    Args:
        mean: The mean that is compared with the rule's limit.
        n_available: The number of images that the rule applies to, with or without samples.
        insufficient: The note on insufficient data.
        run: The run.
    """
    sentence = f"{insufficient.capitalize()}."
    samples_help = mean.n_images < ENOUGH <= n_available
    n_samples = ceil(ENOUGH * mean.n_per_image) if samples_help else None
    if n_samples is not None:
        more = _option(n_samples / mean.n_samples, run)
        sentence += f" More samples of the same {n_available:,} images would suffice{more}."
    return Decider(
        sentence=sentence,
        samples_help=samples_help,
        n_samples=n_samples,
        n_images=max(ENOUGH, mean.n_images),
    )


def _is_larger(size: tuple[int | None, int | None], mean: ClusteredMean) -> bool:
    """Return whether a plan asks for more than there is; a plan that finds no size does not."""
    n_samples, n_images = size
    if n_samples is not None:
        return n_samples > mean.n_samples
    return n_images is not None and n_images > mean.n_images


def _sentences(
    rule: Rule,
    mean: ClusteredMean,
    n_available: int,
    decider: Decider,
    is_for_estimate: bool,
    run: RecordedRun,
) -> Iterator[str]:
    if decider.n_samples is None and decider.n_images is None:
        yield (
            f"Not decidable with this test set: the estimate, {mean.value:.3g}, is too close to"
            f" {rule.limit:g}."
        )
        return
    images = count_of(n_available, "image").removeprefix("1 ")
    if decider.n_samples is not None:
        option = _option(decider.n_samples / mean.n_samples, run)
        yield f"{decider.n_samples:,} samples of the same {images} would decide the rule{option}."
    elif decider.samples_help is not None:
        yield f"More samples of the same {images} cannot decide the rule."
    else:
        yield (
            "With one sample per image, it is unknown whether more samples of the same"
            f" {images} would help."
        )
    if decider.n_images is not None:
        each = f"{mean.n_per_image:.3g}"
        samples = "1 sample" if each == "1" else f"{each} samples"
        word = "So would" if decider.n_samples is not None else "It takes"
        yield f"{word} {decider.n_images:,} images with {samples} each."
    if is_for_estimate or rule.margin is None:
        return
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
