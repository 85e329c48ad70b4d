"""Options of the gate, each declared once; `eyechart gate` and `ec.gate` are derived from them.

This module imports nothing slow, because the command line is built from these options.
"""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from eyechart.core.arguments import FilePath, as_path, as_text
from eyechart.core.errors import UsageError
from eyechart.core.options import Option
from eyechart.core.registry import one_of

if TYPE_CHECKING:
    from eyechart.results.schema import Results

INCONCLUSIVE = ("fail", "pass")
"""What an inconclusive outcome can count as; the first one is the default."""


@dataclass(frozen=True)
class GateSettings:
    """The runs that a gate reads, its rules, and what an inconclusive outcome counts as."""

    new: Annotated[
        "FilePath | Results",
        Option(
            help="Run folder of the new model (--out of eyechart evaluate).",
            group="Data",
            python="Also accepts Results that are stored in a folder.",
            metavar="NEW",
            path="folder",
            is_argument=True,
        ),
    ]
    _: KW_ONLY
    against: Annotated[
        "FilePath | Results | None",
        Option(
            help="Run folder of the old model, on the same samples; for rules with"
            " no_worse_than_old.",
            group="Data",
            python="Also accepts Results that are stored in a folder.",
            metavar="OLD",
            path="folder",
        ),
    ] = None
    rules: Annotated[
        "FilePath | Sequence[Mapping[str, Any]]",
        Option(
            help="YAML file with the rules; see the documentation of the gate.",
            group="Data",
            python="Also accepts a list of dictionaries, one per rule.",
            metavar="FILE",
            path="folder or file",
        ),
    ]
    inconclusive: Annotated[
        str,
        Option(
            help=f"What an inconclusive outcome counts as: {one_of(INCONCLUSIVE)}.",
            group="Output",
        ),
    ] = INCONCLUSIVE[0]

    def check(self) -> None:
        """Raise a UsageError if a setting is invalid."""
        _ = self.new_folder, self.old_folder
        if as_text(self.inconclusive, "inconclusive") not in INCONCLUSIVE:
            raise UsageError(
                f"inconclusive must be {one_of(INCONCLUSIVE)}, got '{self.inconclusive}'."
            )

    @property
    def new_folder(self) -> Path:
        """Run folder of the new model."""
        return _folder(self.new, "new")

    @property
    def old_folder(self) -> Path | None:
        """Run folder of the old model; None if there is none."""
        return None if self.against is None else _folder(self.against, "against")


def _folder(run: object, name: str) -> Path:
    """Return a run folder, given as a path or as results that are stored there."""
    # not by isinstance, because the record is slow to import
    if type(run).__name__ == "Results" and hasattr(run, "folder"):
        if run.folder is None:
            raise UsageError(
                f"{name} must be stored in a folder: call evaluate with out=FOLDER, and save the"
                " results there."
            )
        return Path(run.folder)
    return Path(as_path(run, name, "the path of a run folder"))
