"""A real PostgreSQL for tests: a cluster in a folder of its own, on a socket, without a port."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

PLACES = "/usr/lib/postgresql"


def find_server() -> Path | None:
    """Return the folder of PostgreSQL's programs, the newest there is."""
    own = shutil.which("initdb")
    if own and shutil.which("pg_ctl"):
        return Path(own).parent
    found = sorted(Path(PLACES).glob("*/bin/initdb"), key=lambda path: float(path.parts[-3]))
    return found[-1].parent if found else None


def can_run() -> bool:
    """Whether there is a PostgreSQL, and somebody to run it as, for it rejects root."""
    return find_server() is not None and (os.geteuid() != 0 or _user() is not None)


def _user() -> str | None:
    for name in ("postgres", "nobody"):
        try:
            pwd.getpwnam(name)
        except KeyError:
            continue
        return name
    return None


@contextmanager
def postgresql() -> Iterator[str]:
    """Give the URL of an empty database in a cluster of its own, which is gone afterwards."""
    programs = find_server()
    if programs is None:
        pytest.skip("install postgresql, which tests/support/browser_setup.sh does where it can")
    user = _user() if os.geteuid() == 0 else None
    # pytest's own folders are closed to the user that the server runs as
    folder = Path(tempfile.mkdtemp(prefix="eyechart-pg-"))
    if user is not None:
        shutil.chown(folder, user)
    data, log = folder / "data", folder / "log"

    def run(*words: str) -> None:
        # the server inherits no pipe: whoever reads it would wait for the server to end
        with (folder / "out").open("ab") as out:
            subprocess.run(
                words, check=True, user=user, stdout=out, stderr=out, cwd=folder, timeout=60
            )

    if user is not None:
        (folder / "out").touch()
        shutil.chown(folder / "out", user)
    run(str(programs / "initdb"), "-D", str(data), "-U", "eyechart", "-A", "trust", "-E", "UTF8",
        "--no-sync")  # fmt: skip
    options = f"-c listen_addresses= -c unix_socket_directories={folder}"
    run(str(programs / "pg_ctl"), "-D", str(data), "-l", str(log), "-o", options, "-w", "start")
    try:
        yield f"postgresql+psycopg://eyechart@/postgres?host={quote(str(folder))}"
    finally:
        run(str(programs / "pg_ctl"), "-D", str(data), "-m", "immediate", "-w", "stop")
        shutil.rmtree(folder, ignore_errors=True)


def psql(url: str, *words: Any) -> str:
    """Return what psql prints for a database of a test's own cluster."""
    from experiment_invariants import address

    known = address(url)
    done = subprocess.run(
        ["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-h", known["host"], "-U", known["user"],
         "-d", known["dbname"], *words],
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout
