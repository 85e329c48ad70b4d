"""Options of the study of rulers, each declared once.

This module imports nothing slow, because the command line is built from these records.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from eyechart.core.errors import UsageError
from eyechart.core.options import Device, Option, Seed


@dataclass(frozen=True, kw_only=True)
class StudySettings:
    """Options of `eyechart rulers study`."""

    human: Annotated[
        Path,
        Option(
            help="CSV file with human counts: columns experiment, condition, subj, trials and"
            " correct (such as those of Geirhos et al. 2021).",
            group="Human reference",
            metavar="FILE.csv",
            path="folder or file",
        ),
    ]
    images: Annotated[
        Path,
        Option(
            help="Clean images, in which the experiments' conditions are regenerated.",
            group="Data",
            path="folder or file",
        ),
    ]
    max_images: Annotated[
        int,
        Option(help="Maximum number of images (class-balanced subset).", group="Data", minimum=2),
    ] = 40
    rulers: Annotated[
        tuple[str, ...],
        Option(
            help="A ruler to study; repeatable; all rulers that are installed if omitted.",
            group="Study",
            flags=("--ruler",),
        ),
    ] = ()
    experiments: Annotated[
        tuple[str, ...],
        Option(
            help="A human experiment; repeatable; by default those with several conditions and a"
            " known definition.",
            group="Study",
            flags=("--experiment",),
        ),
    ] = ()
    fit: Annotated[
        bool,
        Option(
            help="Also fit the parameters of VIF after registration (takes longest).",
            group="Study",
        ),
    ] = False
    n_bootstrap: Annotated[
        int, Option(help="Number of bootstrap replicates.", group="Curves and statistics")
    ] = 1000
    seed: Seed = 0
    device: Device = "cpu"
    out: Annotated[
        Path,
        Option(help="Folder for results; an unfinished study resumes.", group="Output",
               path="folder"),
    ] = Path("eyechart-rulers")  # fmt: skip

    def check(self) -> None:
        """Raise a UsageError if a setting is invalid."""
        from eyechart.stats.bootstrap import check_bootstrap

        check_bootstrap(self.n_bootstrap, self.seed, low=20)
        if not self.human.is_file():
            raise UsageError(f"--human must be a CSV file of human counts, got {self.human}.")
