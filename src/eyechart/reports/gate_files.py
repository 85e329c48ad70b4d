"""The files that a gate writes: JSON, JUnit XML, Markdown, and the evidence page."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from xml.etree import ElementTree

from eyechart.core.errors import UsageError
from eyechart.core.phrases import count_of
from eyechart.core.registry import one_of
from eyechart.core.storage.files import write_text
from eyechart.gates.gate_results import GateResults, RuleResults
from eyechart.reports.html.evidence_page import evidence_html
from eyechart.reports.terminal.gate_tables import (
    bound_text,
    condition_text,
    gate_markdown,
    required_text,
    value_text,
)

NOT_IN_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML cannot contain, not even escaped."""


def save_gate(results: GateResults, path: Path) -> Path:
    """Write the gate's outcome in the format given by the file's suffix, and return the path."""
    write = WRITERS.get(path.suffix.lower())
    if write is None:
        raise UsageError(f"path must end in {one_of(WRITERS)}, got {path}.")
    return write_text(path, write(results, path))


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


WRITERS: Mapping[str, Callable[[GateResults, Path], str]] = {
    ".json": lambda results, path: gate_json(results),
    ".xml": lambda results, path: gate_junit(results),
    ".md": lambda results, path: gate_markdown(results),
    ".html": evidence_html,
}
"""Functions that return the content of a file, by its suffix."""
