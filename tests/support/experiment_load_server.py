"""A study's server as a process: `python experiment_load_server.py STUDY PORT PACE MODE`.

MODE is usual; careless, which allocates as one must not; dies-handing-out and dies-storing, which
are killed after a transaction and before anybody is told of it.
"""

import os
import signal
import sys
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any

from eyechart.experiment import allocation, serve, server
from eyechart.experiment.config import StudyConfig
from eyechart.experiment.database import Database
from eyechart.experiment.folder import open_study
from eyechart.experiment.progress import progress_of
from eyechart.experiment.tables import Session


def count_then_choose(
    database: Database,
    config: StudyConfig,
    session_id: int,
    key: str,
    now: datetime,
    admit: allocation.Admit,
) -> allocation.Step:
    """Allocate as it must not be done: what was chosen is taken only in the next transaction."""
    with database.reading() as db:
        session = db.get_one(Session, session_id)
        progress = progress_of(db, session)
        found = allocation._choose(db, config, session, progress)
    if isinstance(found, str):
        return allocation.Step(found)
    # the server's few threads seldom meet here by themselves
    time.sleep(0.02)
    with database.writing() as db:
        trial = allocation._hand_out(db, config, session, progress, found, key, now)
    return allocation.Step("trial", trial)


def deadly(work: Callable[..., Any]) -> Callable[..., Any]:
    """Return what does the same, is killed then, and so never says that it was done."""

    def done_and_dead(*given: Any) -> Any:
        work(*given)
        os.kill(os.getpid(), signal.SIGKILL)

    return done_and_dead


MODES = {
    "careless": ("allocate", count_then_choose),
    "dies-handing-out": ("allocate", deadly(server.allocate)),
    "dies-storing": ("store", deadly(server.store)),
}


def main(path: str, port: int, pace: float, mode: str) -> None:
    # nobody here opens the pages, which are built apart
    serve.is_built = lambda: True
    if mode in MODES:
        setattr(server, *MODES[mode])
    own = serve.listen("127.0.0.1", port)
    print(own.getsockname()[1], flush=True)
    one, database = serve.make_server(open_study(path), pace=pace)
    try:
        one.run(sockets=[own])
    finally:
        database.close()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4])
