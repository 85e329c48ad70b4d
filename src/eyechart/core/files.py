"""Files that are whole or not there at all."""

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

LEFTOVER = re.compile(r"\..+\.(?:png|jpg|json|csv|parquet)\.(\d{1,9})\.tmp")


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Give a temporary path beside `path`; what is written there takes its place at the end."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def remove_leftovers(folders: Iterable[Path]) -> None:
    """Remove the temporary files that runs left in these folders when they were killed."""
    for folder in folders:
        for path in folder.glob(".*.tmp"):
            ours = LEFTOVER.fullmatch(path.name)
            if ours and not _is_alive(int(ours[1])):
                path.unlink(missing_ok=True)


def _is_alive(process: int) -> bool:
    if os.name != "posix":
        return True  # elsewhere asking would end the process
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass  # it is somebody else's
    return True
