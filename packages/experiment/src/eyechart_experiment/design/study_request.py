"""Options of `experiment new` that are not settings of the study itself."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from eyechart.core.errors import UsageError
from eyechart.core.options import Device, Option
from eyechart_experiment.study_config import STUDY, TRIALS

PER_PAIR = 40


@dataclass(frozen=True, kw_only=True)
class StudyRequest:
    """Options for a study's test set, its output folder and the choice of its stimuli."""

    folder: Annotated[
        Path,
        Option(
            help="Folder to create.",
            group=STUDY,
            metavar="STUDY",
            path="folder",
            is_argument=True,
        ),
    ]
    testset: Annotated[
        Path,
        Option(help="A test set's manifest.", group="Data", metavar="FILE", path="folder or file"),
    ]
    images: Annotated[
        Path | None,
        Option(
            help="Images from which the test set was made; the demo images by default.",
            group="Data",
            metavar="FOLDER|FILE",
            path="folder or file",
        ),
    ] = None
    catch_pool: Annotated[
        int | None,
        Option(
            help="Number of catch stimuli; by default twice the number of catch trials.",
            group=TRIALS,
            is_advanced=True,
        ),
    ] = None
    qualification_images: Annotated[
        Path | None,
        Option(
            help="Images of the test set for the qualification, such as easy ones; drawn at random"
            " by default.",
            group=TRIALS,
            is_advanced=True,
            metavar="FOLDER|FILE",
            path="folder or file",
        ),
    ] = None
    catch_images: Annotated[
        Path | None,
        Option(
            help="Images of the test set for catch trials; drawn at random by default.",
            group=TRIALS,
            is_advanced=True,
            metavar="FOLDER|FILE",
            path="folder or file",
        ),
    ] = None
    pairs: Annotated[
        tuple[str, ...],
        Option(
            help="Two corruptions to compare; repeatable; all pairs by default.",
            group=TRIALS,
            flags=("--pair",),
            metavar="A:B",
        ),
    ] = ()
    per_pair: Annotated[
        int | None,
        Option(
            help=f"Stimuli for each pair of corruptions; {PER_PAIR} by default.",
            group=TRIALS,
            is_advanced=True,
        ),
    ] = None
    settings_file: Annotated[
        Path | None,
        Option(
            help="YAML file with study settings; options override it.",
            group=STUDY,
            flags=("--settings",),
            metavar="FILE",
            path="folder or file",
        ),
    ] = None
    consent_file: Annotated[
        Path | None,
        Option(
            help="File with the consent text; {minutes} is replaced by the duration.",
            group=STUDY,
            is_advanced=True,
            flags=("--consent",),
            metavar="FILE",
            path="folder or file",
        ),
    ] = None
    database: Annotated[
        str | None,
        Option(
            help="Database for responses; an SQLite file in STUDY by default.",
            group=STUDY,
            is_advanced=True,
            metavar="URL",
        ),
    ] = None
    secret: Annotated[
        Path | None,
        Option(
            help="Folder or secret file of an earlier study in the same database.",
            group=STUDY,
            is_advanced=True,
            metavar="FILE",
            path="folder or file",
        ),
    ] = None
    seed: Annotated[int, Option(help="Random seed.", group="Compute", minimum=0)] = 0
    device: Device = "cpu"

    def check(self, kind: str, has_clean_k: bool) -> None:
        """Raise `UsageError` for options that do not apply to this kind of study.

        `has_clean_k`: whether --clean-k was passed.
        """
        if kind == "categorise" and (self.pairs or self.per_pair is not None):
            raise UsageError(
                "--pair and --per-pair apply to --kind same-different only: omit them."
            )
        if kind == "same-different" and has_clean_k:
            raise UsageError("--clean-k applies to --kind categorise only: omit it.")
        if kind == "same-different" and (self.qualification_images or self.catch_images):
            raise UsageError(
                "--qualification-images and --catch-images apply to --kind categorise only: omit"
                " them."
            )
        if self.catch_images is not None and self.catch_pool is not None:
            raise UsageError(
                "--catch-images decides how many catch stimuli there are: omit --catch-pool."
            )
