"""`eyechart experiment export`: write a study's database as files that other commands read."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from eyechart.cli.shared.derived_options import folder as folder_path
from eyechart.cli.shared.help import examples
from eyechart.core.phrases import count_of, verb
from eyechart_experiment.cli.serve import StudyPath


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
        f"{done.out}: {done.counted:,} of {done.n_responses:,} main responses are included, from"
        f" {count_of(done.n_participants, 'participant')}."
    )
    if done.simulated:
        print("  All participants are simulated (robots): these responses are not human data.")
    if done.preregistration:
        print(f"  Pre-registration: SHA-256 {done.preregistration}")
    if done.reused:
        print(
            f"  {count_of(done.reused, 'response')} to clean images"
            f" {verb(done.reused, 'comes')} from other studies."
        )
    if done.excluded:
        how = "included as requested" if include_excluded else "excluded"
        print(
            f"  {count_of(done.excluded, 'session')} {verb(done.excluded, 'violates')} a rule and"
            f" {verb(done.excluded, 'is')} {how}: see exclusions.csv."
        )
    if done.left_out:
        print(
            f"  {count_of(done.left_out, 'trial')} {verb(done.left_out, 'is')} excluded: see the"
            " column trial_left_out in trials.csv."
        )
    for step in done.flow:
        name = f"{step.step}: {step.rule}" if step.rule else step.step
        print(f"  {name}: {'not recorded' if step.count is None else f'{step.count:,}'}")
    if not done.counted:
        print("  No responses are included yet, so there is no human reference.")
    elif folder.config.kind == "same-different":
        print(f"  eyechart humans similar {done.out}")
    else:
        print(f"  eyechart evaluate --humans {shlex.quote(str(done.out))} …")
