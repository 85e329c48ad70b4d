"""Run the server of a study until it is stopped."""

import errno
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import uvicorn
from sqlalchemy import select

from eyechart.core.errors import UsageError
from eyechart.core.storage.locks import try_lock
from eyechart_experiment.design.budget import Prices
from eyechart_experiment.quality.judging import apply_rules
from eyechart_experiment.server.request_limits import (
    JOINS,
    PER_ADDRESS,
    PER_TOKEN,
    HeaderTimeoutProtocol,
)
from eyechart_experiment.server.routes import is_built, make_app
from eyechart_experiment.server.status_page import add_status_routes
from eyechart_experiment.storage.database_tables import StimulusImageRow, StimulusRow
from eyechart_experiment.storage.experiment_folder import (
    OpenStudy,
    StudyFolder,
    connect_study,
    image_path,
)
from eyechart_experiment.storage.stimulus_counts import recount
from eyechart_experiment.storage.withdrawal import apply_withdrawals


def reserve(host: str, port: int) -> socket.socket:
    """Return a socket with its port, on which nobody can connect yet; port 0 selects any free one.

    Until the server is ready, a proxy must learn that it is not, and ask another process.
    """
    # Of all hosts that can be given, only IPv6 addresses contain a colon.
    kind = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Name IPPROTO_TCP explicitly: asyncio sets TCP_NODELAY only then, and without it every reply is
    # delayed by 40 ms.
    listener = socket.socket(kind, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    # A restart need not wait until the connections of the last run have timed out.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except (socket.gaierror, UnicodeError):
        listener.close()
        raise UsageError(f"--host {host} is not an address of this machine.") from None
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRNOTAVAIL:
            raise UsageError(f"--host {host} is not an address of this machine.") from None
        raise _occupied(host, port, error) from None
    return listener


def accept_on(listener: socket.socket) -> None:
    """Let clients connect to a reserved socket."""
    try:
        listener.listen(512)
    except OSError as error:
        host, port = listener.getsockname()[:2]
        listener.close()
        raise _occupied(host, port, error) from None


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 selects any free port."""
    listener = reserve(host, port)
    accept_on(listener)
    return listener


def _occupied(host: str, port: int, error: OSError) -> UsageError:
    reason = (error.strerror or str(error)).lower()
    return UsageError(f"Cannot serve on port {port} of {host} ({reason}): choose another --port.")


@contextmanager
def ready_server(
    folder: StudyFolder,
    listener: socket.socket,
    *,
    more_hosts: Sequence[str] = (),
    behind_proxy: bool = False,
    prices: Prices | None = None,
) -> Iterator[uvicorn.Server]:
    """Yield a server that only needs to be run on its socket, which accepts connections by now."""
    with exclusive_server(folder):
        server, study = make_server(
            folder, more_hosts=more_hosts, behind_proxy=behind_proxy, prices=prices
        )
        with study:
            # Last, so that nobody can connect before the study has been checked.
            accept_on(listener)
            yield server


@contextmanager
def exclusive_server(folder: StudyFolder) -> Iterator[None]:
    """Raise `UsageError` if another process serves the same SQLite file.

    Each process counts requests and queues writers by itself, so that two of them would wait for
    each other's locks. PostgreSQL is made for several processes.
    """
    if folder.sqlite_file is None:
        yield
        return
    with try_lock(folder.sqlite_file) as is_free:
        if not is_free:
            raise UsageError(
                f"Another process serves {folder.sqlite_file}: stop it first, or use PostgreSQL,"
                " which several processes can share."
            )
        yield


def make_server(
    folder: StudyFolder,
    *,
    more_hosts: Sequence[str] = (),
    behind_proxy: bool = False,
    pace: float = 1.0,
    prices: Prices | None = None,
) -> tuple[uvicorn.Server, OpenStudy]:
    """Return a server that is ready to run, and the study to which it writes.

    Args:
        folder: The study.
        more_hosts: Additional hosts that may receive forms and embed the pages.
        behind_proxy: Whether to trust the client address that a proxy on this machine reports.
        pace: Factor by which rate limits are multiplied, for simulated participants.
        prices: Prices from which the status page computes the cost; None for the usual ones.
    """
    if not is_built():
        raise UsageError("The pages of the experiment are not built: run make frontend first.")
    study = connect_study(folder)
    _check_images(study)
    # Participants who withdrew are back if a backup was restored.
    apply_withdrawals(study)
    # Sessions that were abandoned are judged now, since no request ended them.
    apply_rules(study)
    with study.database.writing() as db:
        # The last run may have been interrupted, so recompute the counts from the stored trials.
        recount(db, StimulusRow.study_id == study.id)
    app = make_app(
        study,
        more_hosts=more_hosts,
        per_token=PER_TOKEN.times(pace),
        per_address=PER_ADDRESS.times(pace),
        joins=JOINS.times(pace),
    )
    add_status_routes(app, study, prices or Prices())
    config = uvicorn.Config(
        app,
        # Participants' addresses are not recorded, not even in a log.
        access_log=False,
        log_level="warning",
        server_header=False,
        proxy_headers=behind_proxy,
        # From anywhere else, a client could claim any address and evade the rate limits.
        forwarded_allow_ips=["127.0.0.1", "::1"],
        # Fixed, so that it does not depend on installed packages: the HTTP parser decides which
        # requests are rejected and how long a connection may take.
        http=HeaderTimeoutProtocol,
        loop="asyncio",
        ws="none",
        timeout_keep_alive=30,
        timeout_graceful_shutdown=5,
    )
    return uvicorn.Server(config), study


def _check_images(study: OpenStudy) -> None:
    """Raise `UsageError` if an image file is missing, before any participant needs it."""
    with study.database.reading() as db:
        names = db.scalars(
            select(StimulusImageRow.sha256)
            .join(StimulusRow)
            .where(StimulusRow.study_id == study.id)
            .distinct()
        ).all()
    folder = study.folder.path
    missing = [name for name in names if not image_path(folder, name).is_file()]
    if missing:
        study.database.close()
        raise UsageError(
            f"{len(missing)} of {len(names)} images of the study are missing, such as"
            f" {image_path(folder, missing[0])}: to regenerate them, re-run the command that"
            " created the study."
        )
