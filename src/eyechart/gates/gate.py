"""`gate`: decide whether a model meets its release requirements, and its settings.

`ec.gate` and `eyechart gate` are derived from `GateSettings`; `decision` decides. Importing this
module imports nothing slow, because the command line is built from the settings.
"""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from eyechart.core.arguments import FilePath, as_path, as_text
from eyechart.core.errors import UsageError
from eyechart.core.options import Option, takes_fields_of
from eyechart.core.registry import one_of

if TYPE_CHECKING:
    from eyechart.gates.gate_results import GateResults
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


@takes_fields_of(GateSettings)
def gate(settings: GateSettings) -> "GateResults":
    """Decide from finished runs whether a model passes its release rules.

    Every argument is also an option of `eyechart gate`. A rule passes if its lower confidence bound
    is above its limit, and fails if its upper bound is below it; the gate passes if every rule
    passes. Bounds are one-sided (5 %), with images as sampling units. A rule with insufficient data
    is inconclusive and does not pass.

    Returns:
        The outcome, with each rule's estimate, bounds and advice; see `.passed` and `.save(path)`.

    Raises:
        UsageError: If an argument or a rule is invalid, or the runs have different samples.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> import numpy as np
        >>> from PIL import Image
        >>> import eyechart as ec
        >>> def mean_color(images):  # a toy model: one score per channel
        ...     return images.mean(dim=(2, 3))
        >>> rule = {"name": "blur", "corruptions": ["gaussian_blur"], "metric": "consistency",
        ...         "at_least": 0.05}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for index in range(40):
        ...         noise = np.random.default_rng(index).random((80, 80, 3))
        ...         pixels = (255 * noise).astype(np.uint8)
        ...         Image.fromarray(pixels).save(Path(folder, f"{index}.png"))
        ...     run = Path(folder, "run")
        ...     results = ec.evaluate(
        ...         mean_color, folder, n=40, corruptions=["gaussian_blur"], labels="none",
        ...         stimulus="64", bins=4, min_per_bin=2, n_bootstrap=10, out=run,
        ...     )
        ...     _ = results.save(run)
        ...     results = ec.gate(run, rules=[rule])
        >>> results
        <GateResults of 1 rule: pass>
    """
    from eyechart.gates.decision import decide_gate

    return decide_gate(settings)
