"""`eyechart experiment preregister`: write the plan of a study before there are data."""

from pathlib import Path
from typing import Annotated

import typer

from eyechart.cli.shared.help import examples
from eyechart.core.phrases import count_of
from eyechart_experiment.cli.serve import StudyPath


@examples(
    "eyechart experiment preregister study",
    "eyechart experiment preregister study --hypotheses hypotheses.md",
)
def preregister(
    study: StudyPath,
    hypotheses: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Text with the hypotheses; exploratory if it is omitted."
        ),
    ] = None,
) -> None:
    """Write a study's plan for pre-registration, with a hash that exports repeat."""
    from eyechart_experiment.design.study_settings import read_prose
    from eyechart_experiment.export.preregistration import preregister as write
    from eyechart_experiment.storage.experiment_folder import open_study

    text = None if hypotheses is None else read_prose(hypotheses, "state what the study tests")
    path, digest, n_responses = write(open_study(study), text)
    print(f"{path}: SHA-256 {digest}")
    if n_responses:
        print(
            f"  {count_of(n_responses, 'response')} had been collected when it was written: readers"
            " will want to know why."
        )
    print("  Publish it, such as on osf.io, before the first participant; do not edit it.")
