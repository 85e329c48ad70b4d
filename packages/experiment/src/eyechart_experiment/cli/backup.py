"""`eyechart experiment backup` and `restore`: keep a study safe."""

from pathlib import Path
from typing import Annotated

import typer

from eyechart.cli.shared.derived_options import folder as folder_path
from eyechart.cli.shared.help import examples
from eyechart.core.phrases import count_of, verb
from eyechart_experiment.cli.serve import StudyPath


@examples(
    "eyechart experiment backup study --out /var/backups/eyechart",
    "eyechart experiment backup study --out backups --keep 48",
)
def backup(
    study: StudyPath,
    out: Annotated[
        Path,
        typer.Option(metavar="FOLDER", parser=folder_path, help="Folder for backups."),
    ],
    keep: Annotated[int, typer.Option(help="Number of backups to keep.", min=1)] = 14,
) -> None:
    """Back up a study while it is in use, and check that it can be restored."""
    from eyechart_experiment.backup.study_backup import back_up
    from eyechart_experiment.storage.experiment_folder import open_study

    done = back_up(open_study(study), out, keep)
    print(
        f"{done.folder}: {count_of(done.contents.n_responses, 'response')} and"
        f" {len(done.contents.stimuli):,} stimuli; restored and compared."
    )


@examples(
    "eyechart experiment restore /var/backups/eyechart/study-20260401T120000000000Z",
    "eyechart experiment restore backups/study-20260401T120000000000Z study",
)
def restore(
    backup: Annotated[
        Path,
        typer.Argument(
            metavar="BACKUP", parser=folder_path, help="Backup, written by experiment backup."
        ),
    ],
    study: Annotated[
        Path | None,
        typer.Argument(
            metavar="STUDY",
            parser=folder_path,
            help="Study folder, which may be missing; where the study was if omitted.",
        ),
    ] = None,
) -> None:
    """Restore a study from a backup, after stopping its server."""
    from eyechart_experiment.backup.study_restore import restore as put_back

    done = put_back(backup, study)
    contents = done.backup.contents
    made = f"{contents.created_at:%Y-%m-%d %H:%M} UTC"
    if done.command:
        print(
            f"{done.folder.path}: the files are restored; PostgreSQL has its own tools for the"
            f" database of {made}: {done.command}"
        )
        print("Then start the server, which deletes participants who have withdrawn since.")
        return
    responses = count_of(contents.n_responses, "response")
    are = verb(contents.n_responses, "is")
    print(f"{done.folder.path}: {responses} of {made} {are} restored.")
    if done.n_withdrawn:
        print(f"  Withdrawals applied again: {done.n_withdrawn:,}.")
    if done.aside is not None:
        print(f"  The former database is in {done.aside}; delete it when you do not need it.")
