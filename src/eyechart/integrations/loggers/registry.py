"""The loggers, each declared once: name, package, extra, and the module that stores results.

Nothing slow is imported here, because the command line lists the names.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

from eyechart.core.errors import UsageError, install_hint
from eyechart.core.options import Option
from eyechart.core.registry import Registry, one_of

if TYPE_CHECKING:
    from eyechart.integrations.loggers.log_results import LogRecord


@dataclass(frozen=True, kw_only=True)
class Logger:
    """Stores results with the function `log(record)` of the module `home`.

    `packages` must be importable; `extra` is the eyechart extra that installs them.
    """

    name: str
    title: str
    home: str
    extra: str
    packages: tuple[str, ...]

    def check(self) -> None:
        """Raise a UsageError if a package is missing; nothing is imported."""
        missing = [package for package in self.packages if find_spec(package) is None]
        if missing:
            raise UsageError(
                f"Logging to {self.name} needs {' and '.join(missing)}: {install_hint(self.extra)}."
            )

    def log(self, record: "LogRecord") -> str:
        """Store the record; return a sentence that says where it is."""
        module = import_module(f"eyechart.integrations.loggers.{self.home}")
        # The packages emit deprecation warnings of their own dependencies.
        with warnings.catch_warnings(action="ignore"):
            place: str = module.log(record)
        return place


LOGGERS: Registry[Logger] = Registry("logger")

for _logger in (
    Logger(
        name="mlflow",
        title="MLflow",
        home="mlflow_logger",
        extra="mlflow",
        # the last two for its default store, a local SQLite file
        packages=("mlflow", "sqlalchemy", "alembic"),
    ),
    Logger(
        name="wandb",
        title="Weights & Biases",
        home="wandb_logger",
        extra="wandb",
        packages=("wandb",),
    ),
    Logger(
        name="tensorboard",
        title="TensorBoard",
        home="tensorboard_logger",
        extra="tensorboard",
        packages=("tensorboard",),
    ),
):
    LOGGERS.add(_logger.name, _logger)

Log = Annotated[
    tuple[str, ...],
    Option(
        help=f"Also log the results to {one_of(LOGGERS)}; repeatable.",
        group="Output",
        metavar="NAME",
        is_advanced=True,
    ),
]
"""The option `--log` of commands that write results or reports."""


def check_loggers(names: Sequence[str]) -> None:
    """Raise a UsageError if a logger is unknown or its package is missing.

    Example:
        >>> check_loggers(["mflow"])
        Traceback (most recent call last):
        ...
        eyechart.core.errors.UsageError: Unknown logger 'mflow'. Did you mean 'mlflow'?
    """
    for name in names:
        LOGGERS[name].check()
