"""`eyechart experiment preregister` and `export`: a study's plan, and its responses as files."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from eyechart.cli.shared.derived_options import folder as folder_path
from eyechart.cli.shared.help import examples
from eyechart.core.phrases import count_of, verb
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


@examples(
    "eyechart experiment export study",
    "eyechart experiment export study --out exported --include-excluded",
)
def export(
    study: StudyPath,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", parser=folder_path, help="Output folder; STUDY/export if omitted."
        ),
    ] = None,
    include_excluded: Annotated[
        bool, typer.Option("--include-excluded", help="Keep responses of excluded sessions.")
    ] = False,
) -> None:
    """Export a study's responses as a human reference and as tables."""
    from eyechart_experiment.export.study_export import export as write
    from eyechart_experiment.storage.experiment_folder import open_study

    folder = open_study(study)
    done = write(folder, out, include_excluded)
    print(
        f"{done.out}: {len(done.kept):,} of {done.n_responses:,} main responses are included, from"
        f" {count_of(done.n_participants, 'participant')}."
    )
    if done.simulated:
        print("  All participants are simulated (robots): these responses are not human data.")
    if done.preregistration:
        print(f"  Pre-registration: SHA-256 {done.preregistration}")
    if done.reused:
        print(
            f"  {count_of(len(done.reused), 'response')} to clean images"
            f" {verb(len(done.reused), 'comes')} from other studies."
        )
    if done.n_excluded:
        how = "included as requested" if include_excluded else "excluded"
        print(
            f"  {count_of(done.n_excluded, 'session')} {verb(done.n_excluded, 'violates')} a rule"
            f" and {verb(done.n_excluded, 'is')} {how}: see exclusions.csv."
        )
    if done.n_left_out:
        print(
            f"  {count_of(done.n_left_out, 'trial')} {verb(done.n_left_out, 'is')} excluded: see"
            " the column trial_left_out in trials.csv."
        )
    for step in done.flow:
        name = f"{step.step}: {step.rule}" if step.rule else step.step
        print(f"  {name}: {step.count:,}")
    if not done.kept:
        print("  No responses are included yet, so there is no human reference.")
    elif folder.config.kind == "same-different":
        print(f"  eyechart humans similar {done.out}")
    else:
        print(f"  eyechart evaluate --humans {shlex.quote(str(done.out))} …")
