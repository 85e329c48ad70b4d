"""What the experimenter requests besides the study's settings: options of `experiment new`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from eyechart.core.errors import UsageError
from eyechart.core.options import Device, Option
from eyechart.experiment.study_config import STUDY, TRIALS

PER_PAIR = 40


@dataclass(frozen=True, kw_only=True)
class StudyRequest:
    """Which test set a study uses, where it is written, and how its stimuli are chosen."""

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
            help="Images it was sampled from; the demo images by default.",
            group="Data",
            metavar="FOLDER|FILE",
            path="folder or file",
        ),
    ] = None
    catch_pool: Annotated[
        int | None,
        Option(
            help="Number of catch stimuli; twice the catch trials by default.",
            group=TRIALS,
            is_advanced=True,
        ),
    ] = None
    pairs: Annotated[
        tuple[str, ...],
        Option(
            help="Two corruptions to compare; repeatable; all pairs.",
            group=TRIALS,
            flags=("--pair",),
            metavar="A:B",
        ),
    ] = ()
    per_pair: Annotated[
        int | None,
        Option(
            help=f"Stimuli for each pair of corruptions; {PER_PAIR}.",
            group=TRIALS,
            is_advanced=True,
        ),
    ] = None
    settings_file: Annotated[
        Path | None,
        Option(
            help="YAML file with any settings of a study; options override it.",
            group=STUDY,
            flags=("--settings",),
            metavar="FILE",
            path="folder or file",
        ),
    ] = None
    consent_file: Annotated[
        Path | None,
        Option(
            help="The text participants agree to; {minutes} in it is filled in.",
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
            help="Secret file or folder of an earlier study with the same database.",
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

        `has_clean_k` is whether `clean-k` was given.
        """
        if kind == "categorise" and (self.pairs or self.per_pair is not None):
            raise UsageError(
                "--pair and --per-pair apply to --kind same-different only: omit them."
            )
        if kind == "same-different" and has_clean_k:
            raise UsageError("--clean-k applies to --kind categorise only: omit it.")
