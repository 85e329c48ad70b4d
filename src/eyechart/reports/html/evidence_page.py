"""The evidence page of a gate: the claims, the data, the decisions, and the limits.

Its outline follows the questions of safety and conformity assessors. The page shows
only the content of `GateResults`.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path, PurePath

from markupsafe import Markup

from eyechart.core.errors import UsageError
from eyechart.core.phrases import count_of, verb
from eyechart.core.registry import one_of
from eyechart.core.storage.files import write_text
from eyechart.gates.gate_results import ConditionResults, GateResults, RuleResults, RunFacts
from eyechart.reports.gate_texts import (
    condition_text,
    gate_json,
    gate_junit,
    gate_markdown,
    outcome_sentence,
    required_text,
    value_text,
)
from eyechart.reports.html.html_table import SPACE, Column, Table, TableRow, text_columns
from eyechart.reports.html.page import render_page
from eyechart.reports.number_text import p_value_text, percent_text
from eyechart.reports.titles import corruption_title, space_title, suite_title
from eyechart.results.schema import RESULTS_FILE

TONES = {"pass": "ahead", "fail": "behind", "inconclusive": "mixed"}
"""CSS class for the color of each outcome."""

JOINER = "\u2060"
"""Prevents a line break after a dash."""

BAR = 260
"""Width of the drawn interval in px."""


def evidence_html(results: GateResults, path: Path) -> str:
    """Return the page; `path` is where it will be, for links to the runs."""
    models = dict.fromkeys(result.model for result in results.rules)
    runs = [("new", results.new)] + ([("old", results.old)] if results.old is not None else [])
    return render_page(
        "evidence.html",
        title=f"Release evidence: {', '.join(models)}",
        results=results,
        tone=TONES[results.outcome],
        sentence=outcome_sentence(results),
        summary=_summary_table(results),
        rules=[_rule(result, number) for number, result in enumerate(results.rules, start=1)],
        runs=[_run(name, facts, path) for name, facts in runs],
        level=percent_text(1 - results.alpha),
        alpha=percent_text(results.alpha),
        limits=list(_limits(results)),
        suites=suite_title(results.new.suite),
    )


def _claim(result: RuleResults) -> str:
    """Return the rule's claim as a sentence."""
    rule = result.rule
    where = condition_text(rule).removesuffix(f"; {rule.metric}").replace("; ", ", with ")
    subject = f"{rule.metric.capitalize()} of {result.model} under {where}"
    if rule.at_least is not None:
        return f"{subject} is at least {rule.at_least:g}."
    return f"{subject} is at most {rule.margin:g} lower than for {result.old_model}."


def _verdict(result: RuleResults) -> str:
    """Return in one sentence whether the data show or refute the claim."""
    if result.outcome == "pass":
        lower = value_text(result, result.lower)
        return f"Shown: the lower bound, {lower}, is above {_limit(result)}."
    if result.outcome == "fail":
        upper = value_text(result, result.upper)
        return f"Refuted: the upper bound, {upper}, is below {_limit(result)}."
    ends = " and ".join(value_text(result, end) for end in (result.lower, result.upper))
    sentence = "" if result.decider is None else f" {result.decider.sentence}"
    if result.insufficient:
        return f"Neither shown nor refuted.{sentence}"
    return f"Neither shown nor refuted: {_limit(result)} is between the bounds {ends}.{sentence}"


def _limit(result: RuleResults) -> str:
    return f"{result.limit:g}".replace("-", "−")


def _summary_table(results: GateResults) -> Table:
    rows = tuple(
        TableRow(
            (
                Markup('<a href="#rule-{}">{}</a>').format(number, result.rule.name),
                condition_text(result.rule),
                f"{result.n_images:,}",
                f"{result.n_samples:,}",
                value_text(result, result.estimate),
                value_text(result, result.lower),
                value_text(result, result.upper),
                required_text(result.rule).replace(" ", SPACE),
                Markup('<span class="badge">{}</span>').format(result.outcome),
            )
        )
        for number, result in enumerate(results.rules, start=1)
    )
    columns = (
        *text_columns("Rule", "Condition"),
        Column("Images"),
        Column("Samples"),
        Column("Estimate", hint="the rate, or new minus old"),
        Column("Lower bound"),
        Column("Upper bound"),
        *text_columns("Required", "Outcome"),
    )
    note = "Estimates with a sign are differences, new minus old."
    has_sign = any(result.old_model is not None for result in results.rules)
    level = percent_text(1 - results.alpha)
    caption = f"Every rule with its one-sided {level} confidence bounds"
    return Table("rules", caption, columns, rows, note=note if has_sign else "")


def _rule(result: RuleResults, number: int) -> dict[str, object]:
    """Return the content of the page for one rule, as the template names it."""
    return {
        "id": f"rule-{number}",
        "name": result.rule.name,
        "outcome": result.outcome,
        "tone": TONES[result.outcome],
        "claim": _claim(result),
        "verdict": _verdict(result),
        "bar": _bar(result),
        "facts": list(_rule_facts(result)),
        "table": _condition_table(result, number),
        "notes": result.notes,
    }


def _rule_facts(result: RuleResults) -> Iterator[tuple[str, str | Markup]]:
    samples, images = count_of(result.n_samples, "sample"), count_of(result.n_images, "image")
    yield "Data", f"{samples} of {images}, in {space_title(result.space)}"
    rates = f"{result.model} {result.rate:.3f}"
    if result.old_rate is not None:
        rates = f"new ({result.model}) {result.rate:.3f}, old ({result.old_model}) "
        rates += f"{result.old_rate:.3f}"
    yield result.rule.metric.capitalize(), rates
    ends = " to ".join(value_text(result, end) for end in (result.lower, result.upper))
    yield "Estimate", f"{value_text(result, result.estimate)}, bounds {ends}"
    limit = "" if result.old_model is None else f", a difference of at least {_limit(result)}"
    yield "Required", f"{required_text(result.rule)}{limit}"
    tests = f"passing {p_value_text(result.p_pass)}, failing {p_value_text(result.p_fail)} (Holm)"
    yield "One-sided p-values", tests
    if result.between is not None and result.within is not None:
        parts = f"{result.between:.3g} between images, {result.within:.3g} within an image"
        yield "Variance of a sample", parts


def _condition_table(result: RuleResults, number: int) -> Table:
    columns = (
        *text_columns("Corruption"),
        Column("Images"),
        Column("Samples"),
        Column("Strength", numeric=False, hint="range of the samples"),
        Column("Failure rate"),
        Column("Upper bound", hint="of the failure rate"),
        Column(f"{result.rule.metric.capitalize()}, all samples", hint="of this corruption"),
    )
    rows = tuple(
        TableRow(
            (
                corruption_title(condition.corruption),
                f"{condition.n_images:,}",
                f"{condition.n_samples:,}",
                _strength(condition),
                f"{condition.failure_rate:.3f}",
                f"{condition.failure_bound:.3f}",
                "–" if condition.overall_rate is None else f"{condition.overall_rate:.3f}",
            )
        )
        for condition in result.conditions
    )
    word = "incorrect" if result.rule.metric == "accuracy" else "inconsistent"
    caption = (
        f"Triggering conditions of {result.rule.name}: {word} predictions of {result.model} within"
        " the conditions of the rule"
    )
    return Table(f"conditions-{number}", caption, columns, rows)


def _strength(condition: ConditionResults) -> str:
    if condition.severity is not None:
        return _range("severity", condition.severity)
    return "–" if condition.delta_v is None else _range("Δv", condition.delta_v)


def _range(name: str, ends: tuple[float, float]) -> str:
    low, high = (f"{end:.2f}" if name == "Δv" else f"{end:g}" for end in ends)
    # kept on one line
    return f"{name}{SPACE}{low}" if low == high else f"{name}{SPACE}{low}–{JOINER}{high}"


def _link(run: RunFacts, path: Path) -> str:
    """Return the address of a run's results.json relative to the page."""
    target = Path(run.folder).absolute() / RESULTS_FILE
    try:
        relative = os.path.relpath(target, path.absolute().parent)
    except ValueError:
        # another drive of Windows
        return target.as_uri()
    return PurePath(relative).as_posix()


def _bar(result: RuleResults) -> Markup:
    """Return the bounds, the estimate and the limit as a drawing."""
    lowest, highest = 0.0, 1.0
    if result.old_model is not None:
        # differences are small: zoom in on the bounds, 0 and the limit
        reach = 1.15 * max(abs(result.lower), abs(result.upper), abs(result.limit))
        lowest, highest = -reach, reach

    def place(value: float) -> float:
        return round(10 + (BAR - 20) * (value - lowest) / (highest - lowest), 1)

    low, high, limit, estimate = map(
        place, (result.lower, result.upper, result.limit, result.estimate)
    )
    ends = " to ".join(value_text(result, end) for end in (result.lower, result.upper))
    text = f"Estimate {value_text(result, result.estimate)}, bounds {ends}, limit {_limit(result)}."
    zero = ""
    if result.old_model is not None:
        zero = Markup('<line x1="{0}" y1="10" x2="{0}" y2="26" class="zero"/>').format(place(0))
    return Markup(
        '<svg class="bound-bar" role="img" aria-label="{text}" width="{bar}" height="46"'
        ' viewBox="0 0 {bar} 46">'
        '<line x1="10" y1="18" x2="{right}" y2="18" class="axis"/>{zero}'
        '<line x1="{low}" y1="18" x2="{high}" y2="18" class="span"/>'
        '<circle cx="{estimate}" cy="18" r="5"/>'
        '<line x1="{limit}" y1="6" x2="{limit}" y2="30" class="limit"/>'
        '<text x="10" y="43">{first}</text>'
        '<text x="{right}" y="43" text-anchor="end">{last}</text></svg>'
    ).format(
        text=text,
        bar=BAR,
        right=BAR - 10,
        zero=zero,
        low=low,
        high=high,
        estimate=estimate,
        limit=limit,
        first=_end(lowest),
        last=_end(highest),
    )


def _end(value: float) -> str:
    return f"{value:.2g}".replace("-", "−")


def _run(name: str, run: RunFacts, path: Path) -> dict[str, object]:
    """Return the content of the page for one run, as the template names it."""
    rows = tuple(
        TableRow((model, Markup("<code>{}</code>").format(digest or "no digest")))
        for model, digest in run.models.items()
    )
    caption = f"Models of the {name} run, each with the digest of its weights"
    return {
        "title": f"The {name} run",
        "facts": list(_run_facts(run, path)),
        "models": Table(f"models-{name}", caption, text_columns("Model", "Weights"), rows),
    }


def _run_facts(run: RunFacts, path: Path) -> Iterator[tuple[str, str | Markup]]:
    code = Markup("<code>{}</code>")
    link = Markup('<a href="{}">{}</a>').format(_link(run, path), Path(run.folder) / RESULTS_FILE)
    yield "Results", link
    yield "SHA-256 of the results", code.format(run.results_digest)
    images, classes = count_of(run.n_images, "image"), count_of(run.n_classes, "class")
    yield "Images", f"{images} of {classes} from {run.source}"
    yield "Digest of the images", code.format(run.images_digest)
    yield "Stimulus", run.stimulus
    sampled = f"{run.n:,} samples per corruption ({run.sampling} sampling), seed {run.seed}"
    yield "Test set", f"{suite_title(run.suite)}, {sampled}, Δv measured by {run.ruler}"
    if run.command:
        yield "Command", code.format(run.command)
    versions = ", ".join(f"{package} {version}" for package, version in run.versions.items())
    yield "Made", f"{run.made} on {run.device}, with {versions}"
    yield "Source code", f"git {run.git}" if run.git else "installed without git history"


def _limits(results: GateResults) -> Iterator[str]:
    """Yield sentences on what the gate's outcome does not show."""
    yield (
        "The outcome applies to images like the tested images, not to other scenes,"
        " cameras or classes."
    )
    yield (
        "Each claim applies to the mean over the samples within its conditions. Individual"
        " strengths, corruptions or classes can be worse than this mean; the tables of triggering"
        " conditions show corruptions one by one."
    )
    fewest = min(results.rules, key=lambda result: result.n_images)
    hidden = percent_text(1 - results.alpha ** (1 / fewest.n_images), 1)
    yield (
        f"Failures on rare images can be missed: {count_of(fewest.n_images, 'image')} (rule"
        f" “{fewest.rule.name}”) may contain no example of a failure that occurs on up to {hidden}"
        " of all images. The bounds take this into account."
    )
    yield (
        "The corruptions are simulated. Their relation to operating conditions must be justified"
        " elsewhere."
    )
    yield (
        "The stated error probability applies to one decision, made on images that were not used"
        " to develop the model. If models are selected or tuned on these images, the"
        " bounds are too optimistic."
    )
    for result in results.rules:
        if result.n_left_out:
            samples = count_of(result.n_left_out, "sample")
            yield f"{result.rule.name}: {samples} {verb(result.n_left_out, 'was')} left out."
    runs: Sequence[RunFacts] = [run for run in (results.new, results.old) if run is not None]
    yield from dict.fromkeys(warning for run in runs for warning in run.warnings)


def save_gate(results: GateResults, path: Path) -> Path:
    """Write the gate's outcome in the format given by the file's suffix, and return the path."""
    write = WRITERS.get(path.suffix.lower())
    if write is None:
        raise UsageError(f"path must end in {one_of(WRITERS)}, got {path}.")
    return write_text(path, write(results, path))


WRITERS: Mapping[str, Callable[[GateResults, Path], str]] = {
    ".json": lambda results, path: gate_json(results),
    ".xml": lambda results, path: gate_junit(results),
    ".md": lambda results, path: gate_markdown(results),
    ".html": evidence_html,
}
"""Functions that return the content of a file, by its suffix."""
