"""`eyechart gate`: pass or fail a model by applying rules to finished runs."""

from pathlib import Path
from typing import Annotated

from eyechart.cli.shared.derived_options import derived_options, examples
from eyechart.cli.shared.output_files import check_file_to_write
from eyechart.cli.shared.printing import print_written, wide_console
from eyechart.cli.shared.stop import FAILED, Stop
from eyechart.core.errors import UsageError
from eyechart.core.options import Option
from eyechart.core.storage.files import write_text
from eyechart.gates.gate import GateSettings

WIDTH = 80
"""Width of the table if the output is not a terminal."""


@examples(
    "eyechart gate runs/new --against runs/old --rules gate.yaml",
    "eyechart gate runs/new --rules gate.yaml --evidence evidence.html",
)
@derived_options
def gate(
    settings: GateSettings,
    json: Annotated[
        Path | None,
        Option(
            help="Write the outcome as JSON.",
            group="Output",
            metavar="FILE.json",
            path="folder or file",
        ),
    ] = None,
    junit: Annotated[
        Path | None,
        Option(
            help="Write the outcome as JUnit XML, one test case per rule.",
            group="Output",
            metavar="FILE.xml",
            path="folder or file",
        ),
    ] = None,
    markdown: Annotated[
        Path | None,
        Option(
            help="Write the outcome as Markdown, for the summary of a CI job.",
            group="Output",
            metavar="FILE.md",
            path="folder or file",
        ),
    ] = None,
    evidence: Annotated[
        Path | None,
        Option(
            help="Write an HTML page with the evidence: claims, conditions, data, method, results"
            " and limits.",
            group="Output",
            metavar="FILE.html",
            path="folder or file",
        ),
    ] = None,
) -> None:
    """Pass or fail a model by rules: minimum scores, and non-inferiority to an old model.

    A rule passes if the lower confidence bound of its score is above its limit, and fails if the
    upper bound is below that limit. With fewer than 40 images, a rule is inconclusive. The gate
    passes if every rule passes. The exit status is 0 if the gate passes, and 1 if it fails or is
    inconclusive.
    """
    chosen = [path for path in (json, junit, markdown, evidence) if path is not None]
    for path in chosen:
        check_file_to_write(path)
        if chosen.count(path) > 1:
            raise UsageError(f"{path} is given twice: give each file a different name.")
    from eyechart.gates.decision import decide_gate
    from eyechart.reports.gate_texts import (
        LEGEND,
        gate_advice,
        gate_json,
        gate_junit,
        gate_markdown,
        gate_table,
        outcome_sentence,
    )
    from eyechart.reports.html.evidence_page import evidence_html

    results = decide_gate(settings)
    console = wide_console(WIDTH)
    console.print(gate_table(results))
    for line in (*gate_advice(results), LEGEND):
        console.print(line, markup=False, highlight=False)
    texts = ((json, gate_json), (junit, gate_junit), (markdown, gate_markdown))
    written = [write_text(path, text(results)) for path, text in texts if path is not None]
    if evidence is not None:
        written.append(write_text(evidence, evidence_html(results, evidence)))
    print_written(written)
    if not results.passed:
        raise Stop(outcome_sentence(results), FAILED)
    print(outcome_sentence(results))
