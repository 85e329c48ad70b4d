"""The option `--log`: log finished results; a logger that fails does not end the command."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from eyechart.core.errors import UsageError

if TYPE_CHECKING:
    from eyechart.results.schema import Results


def log_to(results: "Results", loggers: Sequence[str], report: Path | None = None) -> list[str]:
    """Log results, print where they are, and return a sentence for each logger that failed."""
    if not loggers:
        return []
    from eyechart.integrations.loggers.log_results import log_results

    failed = []
    for name in dict.fromkeys(loggers):
        try:
            print(log_results(results, name, report))
        except UsageError as error:
            failed.append(str(error))
    return failed
