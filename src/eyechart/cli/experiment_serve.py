"""`eyechart experiment serve`, `withdraw` and `forget`: what whoever runs a study does."""

from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from eyechart.cli.paths import folder
from eyechart.core.errors import UsageError

StudyPath = Annotated[
    Path, typer.Argument(metavar="STUDY", parser=folder, help="A study's folder.")
]


def need_experiment() -> None:
    """Say what to install where the experiment's packages are missing."""
    from importlib.util import find_spec

    missing = [
        name for name in ("fastapi", "uvicorn", "sqlalchemy", "alembic") if not find_spec(name)
    ]
    if missing:
        raise UsageError(
            f"The experiment needs {', '.join(missing)}: pip install 'eyechart[experiment]'."
        )


def serve(
    study: StudyPath,
    host: Annotated[str, typer.Option(help="The address to answer on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port to answer on.", min=0, max=65535)] = 8000,
    url: Annotated[
        str | None,
        typer.Option(help="Where participants reach it, such as https://lab.example.org."),
    ] = None,
    behind_proxy: Annotated[
        bool,
        typer.Option("--behind-proxy", help="Believe a proxy on this machine who is asking."),
    ] = False,
    submit_host: Annotated[
        list[str] | None,
        typer.Option(help="For tests: another host that plays Mechanical Turk; repeatable."),
    ] = None,
) -> None:
    """Serve a study to participants until Ctrl-C; every answer is on disk when it is confirmed."""
    need_experiment()
    from eyechart.experiment.recruiters.recruiter import origin
    from eyechart.experiment.server.serve import listen
    from eyechart.experiment.server.serve import serve as run
    from eyechart.experiment.storage.experiment_folder import open_study

    for name in submit_host or ():
        if origin(name) != name:
            raise UsageError(
                f"--submit-host is a scheme and a host, http://HOST:PORT, got '{name}'."
            )
    found = open_study(study)
    own = listen(host, port)
    with own:
        base = url or f"http://{host if ':' not in host else f'[{host}]'}:{own.getsockname()[1]}"
        address = f"{base.rstrip('/')}/s/{found.config.name}"
        print(f"Plain link:       {address}")
        print(f"Mechanical Turk:  {address} as the ExternalURL of an ExternalQuestion")
        print(
            f"Prolific:         {address}?PROLIFIC_PID={{{{%PROLIFIC_PID%}}}}"
            "&STUDY_ID={{%STUDY_ID%}}&SESSION_ID={{%SESSION_ID%}}"
        )
        print("Ctrl-C ends it; the same command goes on.", flush=True)
        with suppress(KeyboardInterrupt):
            run(found, own, more_hosts=tuple(submit_host or ()), behind_proxy=behind_proxy)
    print("Stopped. Every answer that was confirmed is kept.")


def close(
    study: StudyPath,
    again: Annotated[bool, typer.Option("--reopen", help="Let people come again.")] = False,
) -> None:
    """Let nobody new take part; whoever is at it goes on."""
    need_experiment()
    from eyechart.experiment.storage.database_tables import StudyRow
    from eyechart.experiment.storage.experiment_folder import open_answers, open_study

    database, row = open_answers(open_study(study))
    try:
        with database.writing() as db:
            db.get_one(StudyRow, row.id).status = "open" if again else "closed"
    finally:
        database.close()
    print(f"{row.name} is {'open' if again else 'closed to anybody new'}.")


def withdraw(
    study: StudyPath,
    participant: Annotated[
        str, typer.Argument(help="The participant's code, or the platform's id.")
    ],
) -> None:
    """Delete everything of a participant from the database; others are asked in their place."""
    need_experiment()
    from eyechart.experiment.storage.experiment_folder import open_answers, open_study
    from eyechart.experiment.storage.withdrawal import withdraw as delete

    found = open_study(study)
    database, _ = open_answers(found)
    try:
        count = delete(database, found.secret, participant)
    finally:
        database.close()
    print(f"Deleted {participant} with {count} answers. Export again what was exported before.")


def forget(study: StudyPath) -> None:
    """Delete the platforms' ids of all participants, once they were paid; answers stay."""
    need_experiment()
    from eyechart.experiment.storage.experiment_folder import open_answers, open_study
    from eyechart.experiment.storage.withdrawal import forget_identities

    database, row = open_answers(open_study(study))
    try:
        count = forget_identities(database, row.id)
    finally:
        database.close()
    print(f"Deleted the platform ids of {count} sessions.")
