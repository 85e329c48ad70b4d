"""The outcome of a gate as text: a table for the terminal, Markdown, JSON and JUnit XML."""

import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from eyechart.core.phrases import count_of, listed
from eyechart.gates.gate_results import GateResults, RuleResults
from eyechart.gates.rules import Rule
from eyechart.reports.terminal.markdown import bullets, escape, table

if TYPE_CHECKING:
    from rich.table import Table

HEADS = ("rule", "condition", "images/samples", "estimate", "bound", "required", "outcome")

MAX_COUNT = 11
"""Maximum length of image and sample counts that share a line; longer counts take two lines."""

SIGNS = {"pass": "✅", "fail": "❌", "inconclusive": "❔"}
COLORS = {"pass": "green", "fail": "red", "inconclusive": "yellow"}


def condition_text(rule: Rule) -> str:
    """Return the conditions of a rule in a few words.

    Example:
        >>> condition_text(Rule(name="a", families=("weather",), delta_v=(0, 0.5), at_least=0.6))
        'weather; Δv 0–0.5'
    """
    parts = [", ".join(rule.families or rule.corruptions) or "all corruptions"]
    for name, ends in (("Δv", rule.delta_v), ("severity", rule.severity)):
        if ends is not None:
            parts.append(f"{name} {ends[0]:g}" + (f"–{ends[1]:g}" if ends[1] != ends[0] else ""))
    if rule.classes:
        parts.append(f"classes {', '.join(rule.classes)}")
    parts += [f"{column} = {' or '.join(values)}" for column, values in rule.where.items()]
    if rule.metric != "accuracy":
        parts.append(rule.metric)
    return "; ".join(parts)


def required_text(rule: Rule) -> str:
    """Return the requirement of a rule in a few words: "≥ 0.6", or "old − 0.01"."""
    return f"≥ {rule.at_least:g}" if rule.at_least is not None else f"old − {rule.margin:g}"


def value_text(result: RuleResults, value: float) -> str:
    """Return an estimate or a bound; differences from the old model have a sign."""
    text = f"{value:z.3f}" if result.old_model is None else f"{value:+z.3f}"
    return text.replace("-", "−")


def bound_text(result: RuleResults) -> str:
    """Return the bound that decides: the upper one if the rule fails, otherwise the lower one."""
    if result.outcome == "fail":
        return f"≤ {value_text(result, result.upper)}"
    return f"≥ {value_text(result, result.lower)}"


def outcome_sentence(results: GateResults) -> str:
    """Return the outcome of the gate in one sentence."""
    if results.outcome == "pass":
        rules = "its rule" if len(results.rules) == 1 else f"all {len(results.rules)} rules"
        return f"The gate passes: {rules} passed."
    names = {
        outcome: [f'"{result.rule.name}"' for result in results.rules if result.outcome == outcome]
        for outcome in ("fail", "inconclusive")
    }
    if results.outcome == "fail":
        return f"The gate fails: {listed(names['fail'])}."
    policy = f"which counts as {'pass' if results.passed else 'fail'}"
    return f"The gate is inconclusive, {policy}: {listed(names['inconclusive'])}."


def rule_cells(result: RuleResults) -> tuple[str, ...]:
    """Return the cells of a rule's row, in the order of `HEADS`."""
    return (
        result.rule.name,
        condition_text(result.rule),
        f"{result.n_images:,}/{result.n_samples:,}",
        value_text(result, result.estimate),
        bound_text(result),
        required_text(result.rule),
        result.outcome,
    )


def gate_table(results: GateResults) -> "Table":
    """Return the table for the terminal, which fits into 80 columns."""
    from rich import box
    from rich.markup import escape as escape_markup
    from rich.table import Table

    shown = Table(box=box.SIMPLE, pad_edge=False, padding=(0, 1, 0, 0))
    # the condition is below the name, because seven columns would not fit
    for head in (f"{HEADS[0]}\n{HEADS[1]}", *HEADS[2:]):
        is_text = head.startswith(HEADS[0])
        shown.add_column(
            head.replace("/", "/\n"),
            justify="left" if is_text or head == HEADS[-1] else "right",
            no_wrap=not is_text,
        )
    for result in results.rules:
        name, condition, count, *cells, outcome = map(escape_markup, rule_cells(result))
        shown.add_row(
            f"[bold]{name}[/]\n{condition}",
            count.replace("/", "/\n") if len(count) > MAX_COUNT else count,
            *cells,
            f"[{COLORS[outcome]}]{outcome}[/]",
        )
    return shown


def gate_advice(results: GateResults) -> list[str]:
    """Return a line for each inconclusive rule and for each note on samples."""
    lines = []
    for result in results.rules:
        if result.decider is not None:
            lines.append(f"{result.rule.name}: {result.decider.sentence}")
        lines += [f"{result.rule.name}: {note}" for note in result.notes]
    return lines


def gate_markdown(results: GateResults) -> str:
    """Return the outcome as Markdown, for the summary of a CI job."""
    rows = []
    for result in results.rules:
        name, condition, *numbers, outcome = rule_cells(result)
        rows.append((escape(name), escape(condition), *numbers, f"{SIGNS[outcome]} {outcome}"))
    parts = [
        f"### {SIGNS[results.outcome]} {escape(outcome_sentence(results))}",
        table(HEADS, rows, left=2),
    ]
    advice = gate_advice(results)
    if advice:
        parts.append(bullets(map(escape, advice)))
    old = "" if results.old is None else f", old: {results.old.folder}"
    runs = f"New: {results.new.folder}{old}; rules: {results.rules_file or 'given in Python'}."
    parts.append(f"{LEGEND} {escape(runs)}")
    return "\n\n".join(parts) + "\n"


LEGEND = (
    "Bounds are one-sided, with a confidence of 95 % and images as sampling units. With an old"
    " model, the estimate and the bound are for the difference new − old."
)


NOT_IN_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML cannot contain, not even escaped."""


def gate_json(results: GateResults) -> str:
    """Return the outcome as JSON."""
    return results.model_dump_json(indent=1) + "\n"


def gate_junit(results: GateResults) -> str:
    """Return the outcome as JUnit XML: one test case per rule.

    An inconclusive rule is written as a failure, or as a skipped test if it counts as a pass.
    """
    cases = [_test_case(result, not results.counts_as_pass(result)) for result in results.rules]
    counts = {
        "tests": len(cases),
        "failures": sum(case.find("failure") is not None for case in cases),
        "errors": 0,
        "skipped": sum(case.find("skipped") is not None for case in cases),
    }
    attributes = {name: str(count) for name, count in counts.items()}
    suite = ElementTree.Element(
        "testsuite",
        {"name": "eyechart gate", "timestamp": results.made.partition("+")[0], **attributes},
    )
    suite.extend(cases)
    suites = ElementTree.Element("testsuites", attributes)
    suites.append(suite)
    ElementTree.indent(suites)
    return ElementTree.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def _test_case(result: RuleResults, is_failure: bool) -> ElementTree.Element:
    case = ElementTree.Element(
        "testcase", {"name": _in_xml(result.rule.name), "classname": "eyechart.gate"}
    )
    details = (
        f"{condition_text(result.rule)}: {value_text(result, result.estimate)}, bound"
        f" {bound_text(result)}, required {required_text(result.rule)},"
        f" {count_of(result.n_images, 'image')}, {count_of(result.n_samples, 'sample')}."
    )
    if result.decider is not None:
        details += f" {result.decider.sentence}"
    if result.outcome != "pass":
        tag = "failure" if is_failure else "skipped"
        attributes = {"message": _in_xml(f"{result.outcome}: {details}")}
        if tag == "failure":
            attributes["type"] = result.outcome
        ElementTree.SubElement(case, tag, attributes)
    ElementTree.SubElement(case, "system-out").text = _in_xml(details)
    return case


def _in_xml(text: str) -> str:
    return NOT_IN_XML.sub("�", text)
