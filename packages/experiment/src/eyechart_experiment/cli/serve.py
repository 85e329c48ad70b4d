"""Commands for a running study.

`eyechart experiment serve`, `close`, `pilot`, `withdraw`, `forget`, `backup` and `restore`.
"""

import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eyechart.cli.shared.derived_options import Only, derived_options, examples
from eyechart.cli.shared.derived_options import folder as folder_path
from eyechart.core.errors import UsageError
from eyechart.core.options import Option
from eyechart.core.phrases import count_of, verb
from eyechart_experiment.design.budget import Prices

if TYPE_CHECKING:
    from eyechart_experiment.storage.experiment_folder import OpenStudy

GROUP = "Server"
StudyPath = Annotated[
    Path, typer.Argument(metavar="STUDY", parser=folder_path, help="Study folder.")
]


@dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """The address and port at which a study is served."""

    host: Annotated[str, Option(help="Address to listen on.", group=GROUP)] = "127.0.0.1"
    port: Annotated[
        int, Option(help="Port to listen on.", group=GROUP, minimum=0, maximum=65535)
    ] = 8000
    url: Annotated[
        str | None,
        Option(help="Public address of the server, such as https://lab.example.org.", group=GROUP),
    ] = None
    behind_proxy: Annotated[
        bool, Option(help="Trust the client address that a local proxy sends.", group=GROUP)
    ] = False
    submit_hosts: Annotated[
        tuple[str, ...],
        Option(
            help="For tests: a host that replaces Mechanical Turk; repeatable.",
            group=GROUP,
            flags=("--submit-host",),
        ),
    ] = ()


def connect(study: Path) -> "OpenStudy":
    """Return a study with its database, whose modules are imported only when they are needed."""
    from eyechart_experiment.storage.experiment_folder import connect_study, open_study

    return connect_study(open_study(study))


@examples(
    "eyechart experiment serve study",
    "eyechart experiment serve study --port 8080 --url https://study.example.org",
)
@derived_options
def serve(
    study: StudyPath,
    settings: ServerSettings,
    prices: Annotated[Prices, Only("pay", "fee", "fee_of", "currency")],
) -> None:
    """Serve a study to participants until Ctrl-C."""
    from eyechart_experiment.recruiters import RECRUITERS, platform_warnings
    from eyechart_experiment.recruiters.recruiter import origin
    from eyechart_experiment.server.serve import ready_server, reserve
    from eyechart_experiment.storage.experiment_folder import open_study

    for host in settings.submit_hosts:
        if origin(host) != host:
            raise UsageError(f"--submit-host must be http://HOST:PORT, got '{host}'.")
    folder = open_study(study)
    # Ctrl-C is the usual end of a server, not an error
    with (
        suppress(KeyboardInterrupt),
        reserve(settings.host, settings.port) as listener,
        ready_server(
            folder,
            listener,
            more_hosts=settings.submit_hosts,
            behind_proxy=settings.behind_proxy,
            prices=prices,
        ) as server,
    ):
        # from the socket, because port 0 selects any free port
        port = listener.getsockname()[1]
        name = f"[{settings.host}]" if ":" in settings.host else settings.host
        address = (settings.url or f"http://{name}:{port}").rstrip("/")
        for recruiter in RECRUITERS.values():
            text = recruiter.address_help(f"{address}/s/{folder.config.name}")
            print(f"{recruiter.title + ':':<18}{text}")
        print(f"{'Status page:':<18}{address}/status")
        for warning in platform_warnings(folder.config.recruiter_settings):
            print(f"Note: {warning}")
        # flushed, because the server does not return until it is stopped
        print("Stop with Ctrl-C; run the same command again to resume.", flush=True)
        server.run(sockets=[listener])
    print("Stopped. All confirmed responses are stored.")


@examples(
    "eyechart experiment close study",
    "eyechart experiment close study --reopen",
)
def close(
    study: StudyPath,
    again: Annotated[
        bool, typer.Option("--reopen", help="Open the study to participants again.")
    ] = False,
) -> None:
    """Close a study to new participants; those who have begun can finish."""
    from eyechart_experiment.storage.database_tables import StudyRow

    with connect(study) as opened, opened.database.writing() as db:
        db.get_one(StudyRow, opened.id).status = "open" if again else "closed"
    print(f"{opened.config.name} is {'open' if again else 'closed to new participants'}.")


@examples(
    "eyechart experiment pilot study PK7MQ2XWPA4",
    "eyechart experiment pilot study --all",
)
def pilot(
    study: StudyPath,
    codes: Annotated[
        list[str] | None,
        typer.Argument(metavar="[CODE]…", help="Participant codes or completion codes."),
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="All sessions so far, such as before going live.")
    ] = False,
) -> None:
    """Mark sessions as a pilot: they do not count as data, and others get their trials."""
    from eyechart_experiment.quality.judging import mark_pilot

    if every == bool(codes):
        raise UsageError("Pass the codes of the pilot's sessions, or --all.")
    with connect(study) as opened:
        count = mark_pilot(opened, None if every else codes)
    print(f"{opened.config.name}: sessions newly marked as a pilot: {count:,}.")


@examples(
    "eyechart experiment withdraw study P017",
    "eyechart experiment withdraw runs/study 5f3c9a --yes",
)
def withdraw(
    study: StudyPath,
    participant: Annotated[
        str, typer.Argument(help="A code of the participant, or the platform id.")
    ],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Delete all data of a participant from the database, after naming what is deleted."""
    from eyechart_experiment.storage import withdrawal

    with connect(study) as opened:
        data = withdrawal.find_participant(opened, participant)
        if not _is_confirmed(f"This deletes {data}. Delete them?", yes):
            return
        # By the code, which cannot mean somebody else by now.
        data = withdrawal.withdraw(opened, data.code)
    print(f"Deleted {data}. Export the study again to update its exported files.")


@examples(
    "eyechart experiment forget study",
    "eyechart experiment forget study --yes",
)
def forget(
    study: StudyPath,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do not ask, even if sessions are active.")
    ] = False,
) -> None:
    """Delete the platform ids of all participants; keep their responses."""
    from eyechart_experiment.storage.withdrawal import active_identities, forget_identities

    with connect(study) as opened:
        n_active = active_identities(opened.database, opened.id)
        question = (
            f"{count_of(n_active, 'session')} with platform ids {verb(n_active, 'is')} not"
            " finished: without the ids, participants cannot return to the platform. Delete the"
            " ids anyway?"
        )
        if n_active and not _is_confirmed(question, yes):
            return
        count = forget_identities(opened.database, opened.id)
    print(f"Deleted the platform ids of {count_of(count, 'session')}.")


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
    from eyechart_experiment.backup import back_up
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
    from eyechart_experiment.backup import restore as put_back

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


def _is_confirmed(question: str, yes: bool) -> bool:
    """Return whether the user agrees that something is deleted, by `--yes` or when asked."""
    if yes:
        return True
    if not sys.stdin.isatty():
        raise UsageError(f"{question} Then pass --yes.")
    if typer.confirm(question):
        return True
    print("Nothing was deleted.")
    return False
