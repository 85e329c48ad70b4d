"""The settings of a study, which are fixed before the first participant and never change."""

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import UnionType
from typing import Annotated, TypeVar, get_args

from eyechart.core.arguments import regular_file
from eyechart.core.errors import UsageError
from eyechart.core.options import Option, fields_of
from eyechart.core.registry import one_of, unknown_name
from eyechart_experiment.languages import DEFAULT, LANGUAGES, read_texts
from eyechart_experiment.recruiters import RECRUITER_SETTINGS

Parsed = TypeVar("Parsed")

KINDS = ("categorise", "same-different")
SURVEYS = ("none", "eyesight")
NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
STUDY, TRIALS = "Study", "Trials"


@dataclass(frozen=True, kw_only=True)
class StudyConfig:
    """All settings that determine what a participant sees.

    Numbers keep the type with which they were passed (int or float), because the digest of an
    existing study must not change. `site_settings` are declared by the recruitment platforms; files
    and the database store them together with the other settings. This module imports no heavy
    library, so that commands start quickly.
    """

    name: Annotated[
        str, Option(help="Name in the study's URL; the folder's name by default.", group=STUDY)
    ]
    title: Annotated[
        str, Option(help="Title that participants read first.", group=STUDY, metavar="TEXT")
    ]
    kind: Annotated[str, Option(help=f"{one_of(KINDS)}.", group=STUDY)] = KINDS[0]
    k: Annotated[
        int, Option(help="Responses per corrupted image or pair.", group=TRIALS, minimum=1)
    ] = 5
    clean_k: Annotated[
        int,
        Option(help="Responses per clean image.", group=TRIALS, is_advanced=True, minimum=0),
    ] = 5
    trials: Annotated[int, Option(help="Main trials per participant.", group=TRIALS, minimum=1)] = (
        100
    )
    practice: Annotated[
        int, Option(help="Practice trials.", group=TRIALS, is_advanced=True, minimum=0)
    ] = 16
    qualification: Annotated[
        int, Option(help="Qualification trials.", group=TRIALS, is_advanced=True, minimum=0)
    ] = 16
    catch: Annotated[
        int,
        Option(help="Catch trials per participant.", group=TRIALS, is_advanced=True, minimum=0),
    ] = 8
    pass_share: Annotated[
        int | float,
        Option(help="Minimum accuracy in the qualification trials, in [0, 1].", group=TRIALS),
    ] = 0.75
    block: Annotated[int, Option(help="Main trials between breaks.", group=TRIALS, minimum=1)] = 64
    fixation_ms: Annotated[
        int, Option(help="Duration of the fixation mark, in ms.", group=TRIALS, minimum=0)
    ] = 300
    stimulus_ms: Annotated[
        int, Option(help="Duration of the stimulus, in ms.", group=TRIALS, minimum=16)
    ] = 200
    mask_ms: Annotated[
        int, Option(help="Duration of the mask, in ms.", group=TRIALS, minimum=0)
    ] = 200
    response_ms: Annotated[
        int, Option(help="Time to respond, in ms; 0 for no limit.", group=TRIALS, minimum=0)
    ] = 1500
    show_ms: Annotated[
        int,
        Option(
            help="Duration of the images in a same-different study, in ms; 0 shows them until the"
            " participant responds.",
            group=TRIALS,
            minimum=0,
        ),
    ] = 0
    side: Annotated[
        int, Option(help="Width and height of the stimulus, in px.", group=TRIALS, minimum=18)
    ] = 224
    lease_minutes: Annotated[
        int | float,
        Option(
            help="Minutes after which a trial without a response goes to another participant.",
            group=TRIALS,
            minimum=0.01,
        ),
    ] = 15.0
    token_minutes: Annotated[
        int | float,
        Option(help="Maximum duration of a session, in minutes.", group=TRIALS, minimum=0.01),
    ] = 120.0
    minutes: Annotated[
        int, Option(help="Duration that participants are told, in minutes.", group=STUDY, minimum=1)
    ] = 8
    consent: Annotated[str, Option(help="Text that participants agree to.", group=STUDY)] = (
        read_texts(DEFAULT)["study.consent.categorise"]
    )
    language: Annotated[
        str, Option(help=f"Language of the pages: {one_of(LANGUAGES)}.", group=STUDY)
    ] = DEFAULT
    institution: Annotated[
        str, Option(help="Institution that runs the study.", group=STUDY, metavar="TEXT")
    ] = ""
    approval: Annotated[
        str, Option(help="Number of the ethics approval.", group=STUDY, metavar="TEXT")
    ] = ""
    contact: Annotated[
        str, Option(help="Contact address for participants.", group=STUDY, metavar="TEXT")
    ] = ""
    payment: Annotated[
        str,
        Option(
            help="What participants are told about their pay.",
            group=STUDY,
            metavar="TEXT",
            is_advanced=True,
        ),
    ] = ""
    survey: Annotated[
        str,
        Option(
            help=f"Question after the consent: {one_of(SURVEYS)}.", group=STUDY, is_advanced=True
        ),
    ] = SURVEYS[0]
    min_trials: Annotated[
        int,
        Option(
            help="Number of main trials that must be left for a participant to be admitted; 0 for"
            " half of --trials.",
            group=TRIALS,
            is_advanced=True,
            minimum=0,
        ),
    ] = 0
    site_settings: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, setting in fields_of(StudyConfig).items():
            minimum, value = setting.option.minimum, getattr(self, name)
            if minimum is not None and not value >= minimum:
                raise UsageError(f"{name} must be at least {minimum}, got {value}.")
        if not NAME.fullmatch(self.name):
            raise UsageError(
                "A study's name must consist of lower-case letters, digits and hyphens, got"
                f" '{self.name}'."
            )
        for what, value, known in (
            ("kind of experiment", self.kind, KINDS),
            ("language", self.language, LANGUAGES),
            ("survey", self.survey, SURVEYS),
        ):
            if value not in known:
                raise unknown_name(what, value, known)
        if not 0 <= self.pass_share <= 1:
            raise UsageError(f"pass_share must be in [0, 1], got {self.pass_share}.")

    @property
    def recruiter_settings(self) -> dict[str, str]:
        """All settings of the recruitment platforms; a setting that the study lacks is ""."""
        return {name: self.site_settings.get(name, "") for name in RECRUITER_SETTINGS}

    def plain(self) -> dict[str, str | int | float]:
        """Return all settings by name, as stored in files and in the database."""
        by_name = {name: getattr(self, name) for name in fields_of(StudyConfig)}
        return {**by_name, **self.site_settings}

    @property
    def min_main(self) -> int:
        """Number of main trials that must be left for a participant to be admitted."""
        return self.min_trials or (self.trials + 1) // 2

    @property
    def digest(self) -> str:
        """Digest of all settings, 16 hexadecimal digits."""
        # Sorted, so that the digest does not depend on the order of the fields.
        text = json.dumps(self.plain(), sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def config_from(settings: Mapping[str, object], origin: str) -> StudyConfig:
    """Return the study configuration built from these settings.

    Args:
        settings: The fields of `StudyConfig`, and settings of recruitment platforms.
        origin: The file or database that contains the settings, for error messages.

    Raises:
        UsageError: If a setting is missing, is unknown, has the wrong type or is out of range.
    """
    declared, site_names = fields_of(StudyConfig), RECRUITER_SETTINGS
    for name, value in settings.items():
        if name not in {**declared, **site_names}:
            raise unknown_name(f"setting in {origin}", str(name), {**declared, **site_names})
        kind = declared[name].type if name in declared else str
        assert isinstance(kind, type | UnionType)
        # A bool is an instance of int, but no setting is one.
        if isinstance(value, bool) or not isinstance(value, kind):
            # For `int | float`, name the wider type.
            word = (get_args(kind) or (kind,))[-1].__name__
            raise UsageError(f"{name} in {origin} must be {word}, got {value!r}.")
    for name in ("name", "title"):
        if name not in settings:
            raise UsageError(f"{origin} is not a study: {name} is missing.")
    by_name = {name: settings[name] for name in declared if name in settings}
    sites = {name: str(settings[name]) for name in site_names if name in settings}
    return StudyConfig(**by_name, site_settings=sites)  # type: ignore[arg-type]


def read_config(path: Path) -> StudyConfig:
    """Return the study configuration in a YAML file."""
    from eyechart.core.yaml_text import parse_yaml

    try:
        is_missing = not path.exists()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error}.") from None
    if is_missing:
        raise UsageError(f"{path.parent} is not a study: create one with eyechart experiment new.")
    settings: object = read_file(path, parse_yaml)
    if not isinstance(settings, dict):
        raise UsageError(f"{path} is not a study: it must be a mapping of names to values.")
    return config_from(settings, str(path))


def read_file(path: Path, parse: Callable[[str], Parsed]) -> Parsed:
    """Return what a text file contains; `parse` raises a ValueError if that is invalid."""
    try:
        return parse(regular_file(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"No such file: {path}.") from None
    except UsageError:
        raise
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {' '.join(str(error).split())}.") from None


def config_text(config: StudyConfig) -> str:
    """Return a study configuration as YAML text."""
    import yaml

    return yaml.safe_dump(config.plain(), sort_keys=False, allow_unicode=True, width=90)


GRID = (
    "knife", "airplane", "keyboard", "elephant", "bicycle", "clock", "oven", "chair",
    "bear", "boat", "cat", "bottle", "truck", "car", "bird", "dog",
)  # fmt: skip
"""The 16 categories in the order of the response grid, column by column, as in the lab study."""


def choices_of(config: StudyConfig) -> tuple[str, ...]:
    """Return the responses that participants of a study can choose from."""
    return GRID if config.kind == "categorise" else ("same", "different")
