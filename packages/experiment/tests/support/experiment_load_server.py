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

from eyechart_experiment.server import routes, serve
from eyechart_experiment.server import trial_allocation as allocation
from eyechart_experiment.server.session_progress import progress_of
from eyechart_experiment.server.trial_allocation import StoredStimuli
from eyechart_experiment.server.wire import NextTrial
from eyechart_experiment.storage.database_tables import SessionRow
from eyechart_experiment.storage.experiment_folder import OpenStudy, open_study


def count_then_choose(
    study: OpenStudy, session_id: int, key: str, now: datetime, admit: allocation.Admit
) -> NextTrial:
    """Allocate as it must not be done: what was chosen is taken only in the next transaction."""
    with study.database.reading() as db:
        session = db.get_one(SessionRow, session_id)
        progress, stored = progress_of(db, session), StoredStimuli(db, session)
        choice = allocation.next_stimulus(study.config, session, progress, stored)
    if isinstance(choice, str):
        return NextTrial(next=choice, trial=None)
    # the server's few threads seldom meet here by themselves
    time.sleep(0.02)
    with study.database.writing() as db:
        return allocation.hand_out(
            db, study.config, session, choice, number=progress.handed, key=key, now=now
        )


def deadly(work: Callable[..., Any]) -> Callable[..., Any]:
    """Return what does the same, is killed then, and so never says that it was done."""

    def done_and_dead(*arguments: Any, **options: Any) -> Any:
        work(*arguments, **options)
        os.kill(os.getpid(), signal.SIGKILL)

    return done_and_dead


MODES = {
    "careless": ("allocate", count_then_choose),
    "dies-handing-out": ("allocate", deadly(routes.allocate)),
    "dies-storing": ("store", deadly(routes.store)),
}


def main(path: str, port: int, pace: float, mode: str) -> None:
    # nobody here opens the pages, which are built apart
    serve.is_built = lambda: True
    if mode in MODES:
        setattr(routes, *MODES[mode])
    own = serve.listen("127.0.0.1", port)
    print(own.getsockname()[1], flush=True)
    server, study = serve.make_server(open_study(path), pace=pace)
    with study:
        server.run(sockets=[own])


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4])
