"""Options of `experiment new`, and the settings of a study that they and its files give.

This module imports nothing slow, because the command line is built from these records.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from eyechart.core.errors import UsageError
from eyechart.core.options import Device, Option
from eyechart.core.registry import unknown_name
from eyechart_experiment.languages import DEFAULT, read_texts
from eyechart_experiment.recruiters import RECRUITER_SETTINGS
from eyechart_experiment.study_config import (
    KINDS,
    STUDY,
    TRIALS,
    StudyConfig,
    config_from,
    read_file,
)

PER_PAIR = 40

MINUTES = "{minutes}"
"""Placeholder in a consent text for the duration of the session."""


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


def gather_settings(
    request: StudyRequest, options: Mapping[str, object]
) -> tuple[StudyConfig, frozenset[str]]:
    """Return the settings of a study, and the names of those that the experimenter chose.

    `options` override the file, which overrides the defaults. The study is named after its folder
    unless a name is given.
    """
    file = request.settings_file
    chosen = {**({} if file is None else _read_settings(file)), **options}
    if request.consent_file is not None:
        chosen["consent"] = read_prose(
            request.consent_file, "participants must be told what they agree to"
        )
    kind = str(chosen.get("kind", KINDS[0]))
    if kind not in KINDS:
        raise unknown_name("kind of experiment", kind, KINDS)
    texts = read_texts(str(chosen.get("language", DEFAULT)))
    words = re.sub(r"[^a-z0-9]+", "-", request.folder.resolve().name.lower())
    defaults: dict[str, object] = {
        # The longest name that `NAME` in study_config accepts.
        "name": words.strip("-")[:63].strip("-") or "study",
        "title": texts[f"study.title.{kind}"],
        "consent": texts[f"study.consent.{kind}"],
        "survey": "eyesight",
        **dict.fromkeys(RECRUITER_SETTINGS, ""),
    }
    if "consent" not in chosen and chosen.get("survey", "eyesight") == "eyesight":
        defaults["consent"] = f"{defaults['consent']}\n\n{texts['study.consent.eyesight']}"
    if kind == "same-different":
        # Images stay until the response: these studies measure discrimination, not speed.
        defaults["response_ms"] = 0
    config = config_from(defaults | chosen, "the settings" if file is None else str(file))
    return config, frozenset(chosen)


def with_side(config: StudyConfig, stimulus: str, is_chosen: bool) -> StudyConfig:
    """Return the settings with `side` set to the size of the test set's images in px.

    `stimulus` describes how the test set's images are resized. If images keep their
    original size, which is unknown until they are opened, the settings are returned unchanged.
    `is_chosen`: whether the experimenter chose the side.
    """
    from eyechart.images.stimulus import find_stimulus

    size = find_stimulus(stimulus).width_and_height
    if size is None:
        return config
    side, height = size
    if side != height:
        raise UsageError(
            f"The test set's images must be square, got {stimulus} px: make the test set with"
            f" --stimulus {max(size)}, which crops images, or with {max(size)}x{max(size)}, which"
            " does not."
        )
    if is_chosen and config.side != side:
        raise UsageError(
            f"side must equal the size of the test set's images, {side} px, got {config.side}: "
            "omit it."
        )
    return replace(config, side=side)


def _read_settings(path: Path) -> dict[str, object]:
    from eyechart.core.yaml_text import parse_yaml

    content: object = read_file(path, parse_yaml)
    if not isinstance(content, dict):
        raise UsageError(f"{path} must contain study settings, such as 'block: 50'.")
    return content


def read_prose(path: Path, why: str) -> str:
    """Return the text in a file; `why` is the reason for which it must not be empty."""
    text = read_file(path, str).strip()
    if not text:
        raise UsageError(f"{path} is empty: {why}.")
    return text
