"""Runs the server of a study until it is told to stop."""

import errno
import socket
from collections.abc import Sequence

import uvicorn
from sqlalchemy import select

from eyechart.core.errors import UsageError
from eyechart.experiment.quality.rules import apply_rules
from eyechart.experiment.server.request_limits import JOINS, PER_ADDRESS, PER_TOKEN
from eyechart.experiment.server.routes import is_built, make_app
from eyechart.experiment.storage.database import Database
from eyechart.experiment.storage.database_tables import PictureRow, StimulusRow, StudyRow
from eyechart.experiment.storage.experiment_folder import StudyFolder, open_answers
from eyechart.experiment.storage.leases import recount


def listen(host: str, port: int) -> socket.socket:
    """Return a socket on which the server will answer; 0 takes any free port."""
    kind = socket.AF_INET6 if ":" in host else socket.AF_INET
    # said to be TCP, or asyncio does not know that small packets are to be sent at once, and every
    # reply is 40 ms late
    own = socket.socket(kind, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        own.bind((host, port))
        own.listen(512)
    except (socket.gaierror, UnicodeError):
        own.close()
        raise UsageError(f"--host {host} is no address of this machine.") from None
    except OSError as error:
        own.close()
        if error.errno == errno.EADDRNOTAVAIL:
            raise UsageError(f"--host {host} is no address of this machine.") from None
        what = (error.strerror or str(error)).lower()
        raise UsageError(
            f"Cannot serve on port {port} of {host} ({what}): choose another --port."
        ) from None
    return own


def serve(
    folder: StudyFolder,
    own: socket.socket,
    *,
    more_hosts: Sequence[str] = (),
    behind_proxy: bool = False,
) -> None:
    """Serve a study on a socket until a signal ends it."""
    server, database = make_server(folder, more_hosts=more_hosts, behind_proxy=behind_proxy)
    try:
        server.run(sockets=[own])
    finally:
        database.close()


def make_server(
    folder: StudyFolder,
    *,
    more_hosts: Sequence[str] = (),
    behind_proxy: bool = False,
    pace: float = 1.0,
) -> tuple[uvicorn.Server, Database]:
    """Return a server that is ready to run, and the database that it writes to.

    `behind_proxy`: believe the address that a proxy on this machine says a request came from.
    `pace`: how much more often than usual one address and one token may ask, for robots.
    """
    if not is_built():
        raise UsageError("The pages of the experiment are not built: run make frontend first.")
    database, study = open_answers(folder)
    _check_pictures(folder, database, study)
    apply_rules(database, study)
    with database.writing() as db:
        # whatever ended the last run, what is still wanted is counted from the answers
        recount(db, study.id)
    app = make_app(
        folder,
        database,
        study,
        more_hosts=more_hosts,
        per_token=PER_TOKEN.times(pace),
        per_address=PER_ADDRESS.times(pace),
        joins=JOINS.times(pace),
    )
    config = uvicorn.Config(
        app,
        # addresses of participants are not kept, not even in a log
        access_log=False,
        log_level="warning",
        server_header=False,
        proxy_headers=behind_proxy,
        forwarded_allow_ips=["127.0.0.1", "::1"],
        # always the same, whatever else is installed: what is refused depends on it
        http="h11",
        loop="asyncio",
        ws="none",
        timeout_keep_alive=30,
        timeout_graceful_shutdown=5,
    )
    return uvicorn.Server(config), database


def _check_pictures(folder: StudyFolder, database: Database, study: StudyRow) -> None:
    """Refuse to begin without a picture that somebody would wait for."""
    with database.reading() as db:
        names = db.scalars(
            select(PictureRow.sha256)
            .join(StimulusRow)
            .where(StimulusRow.study_id == study.id)
            .distinct()
        ).all()
    missing = [name for name in names if not folder.picture_path(name).is_file()]
    if missing:
        database.close()
        raise UsageError(
            f"{len(missing)} of {len(names)} pictures of the study are missing, such as"
            f" {folder.picture_path(missing[0])}: the command that made the study makes them again."
        )
