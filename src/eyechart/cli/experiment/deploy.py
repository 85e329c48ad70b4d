"""`eyechart experiment deploy` and `backup`: run a study on your server."""

from pathlib import Path
from typing import Annotated

import typer

from eyechart.cli.experiment.serve import StudyPath, need_experiment
from eyechart.cli.shared.derived_options import derived_options
from eyechart.cli.shared.help import examples
from eyechart.cli.shared.paths import folder as folder_path
from eyechart.experiment.deploy.deploy_settings import DeploySettings

OutFolder = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER", parser=folder_path, help="Output folder; STUDY/deploy if omitted."
    ),
]


@examples(
    "eyechart experiment deploy study --domain lab.example.org",
    "eyechart experiment deploy study --domain lab.example.org --out deploy",
)
@derived_options
def deploy(study: StudyPath, settings: DeploySettings, out: OutFolder = None) -> None:
    """Write systemd units, an nginx site, PostgreSQL set-up, backups and a go-live checklist."""
    need_experiment()
    from eyechart.experiment.deploy.deploy_files import write_deployment
    from eyechart.experiment.storage.experiment_folder import connect_study, open_study

    target = out or study / "deploy"
    with connect_study(open_study(study)) as opened:
        written = write_deployment(opened, settings, target)
    for path in written:
        print(path)
    print(f"Next: follow {target / 'GO-LIVE.md'}.")


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
    """Back up a study's database while it is in use, and check that it can be restored."""
    need_experiment()
    from eyechart.experiment.deploy.study_backup import back_up
    from eyechart.experiment.storage.experiment_folder import open_study

    done = back_up(open_study(study), out, keep)
    print(f"{done.file}: {done.n_responses:,} responses; restored and compared.")
