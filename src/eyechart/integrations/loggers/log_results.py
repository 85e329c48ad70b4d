"""Store results with a logger; an error in the logger never damages the results."""

import shlex
from pathlib import Path
from tempfile import TemporaryDirectory

from eyechart.core.errors import UsageError
from eyechart.integrations.loggers.log_record import log_record
from eyechart.integrations.loggers.registry import LOGGERS
from eyechart.models.model import in_one_line
from eyechart.results.schema import Results


def log_results(results: Results, name: str, report: Path | None = None) -> str:
    """Store results with a logger; return a sentence that says where they are.

    Args:
        results: The results.
        name: The logger.
        report: The report to store; by default report.html in the run folder, if it exists.

    Raises:
        UsageError: If the logger is unknown, its package is missing, or it fails.
    """
    logger = LOGGERS[name]
    logger.check()
    with TemporaryDirectory() as scratch:
        try:
            return logger.log(log_record(results, Path(scratch), report))
        # Any error of these packages: a server that does not respond, a full disk, a lost login.
        except Exception as error:
            raise UsageError(
                f"Logging to {name} failed ({in_one_line(error)}): {_later(results, name)}."
            ) from error


def _later(results: Results, name: str) -> str:
    """Return instructions for logging the results after a failure."""
    if results.folder is None:
        return f'the results are unchanged; call results.log("{name}") again'
    folder = shlex.quote(str(results.folder))
    return f"the results are in {folder}; log them with  eyechart report {folder} --log {name}"
