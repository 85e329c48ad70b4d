"""`eyechart experiment export`: from a study's database to files that other commands read."""

from pathlib import Path
from typing import Annotated

import typer

from eyechart.cli.experiment.serve import StudyPath, need_experiment
from eyechart.cli.shared.help import examples
from eyechart.cli.shared.paths import folder as folder_path


@examples(
    "eyechart experiment export study",
    "eyechart experiment export study --out exported --include-excluded",
)
def export(
    study: StudyPath,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", parser=folder_path, help="Where to write; STUDY/export."),
    ] = None,
    rules: Annotated[
        int | None, typer.Option(help="Version of the quality rules; the study's own.")
    ] = None,
    include_excluded: Annotated[
        bool, typer.Option("--include-excluded", help="Keep answers of sessions that break rules.")
    ] = False,
) -> None:
    """Export a study's responses as a human reference and as tables."""
    need_experiment()
    from eyechart.experiment.export.study_export import export as write
    from eyechart.experiment.storage.experiment_folder import open_study

    folder = open_study(study)
    done = write(folder, out, rules, include_excluded)
    people = "person" if done.people == 1 else "people"
    print(
        f"{done.out}: {done.counted:,} answers of {done.people:,} {people} count, of"
        f" {done.answers:,} in the main part."
    )
    if done.reused:
        print(f"  {done.reused:,} answers to clean pictures come from other studies.")
    if done.excluded:
        how = "were kept all the same" if include_excluded else "do not count"
        print(f"  {done.excluded:,} sessions break a rule and {how}: see exclusions.csv.")
    if done.left_out:
        print(f"  {done.left_out:,} single trials do not count: see trial_left_out in trials.csv.")
    if not done.counted:
        print("  Nothing that counts yet, so there is nothing to compare with.")
    elif folder.config.kind == "same-different":
        print(f"  eyechart humans similar {done.out}")
    else:
        print(f"  eyechart evaluate --humans {done.out} …")
