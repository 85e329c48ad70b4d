"""What a study is: decided before the first participant, written down, and never changed after."""

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Self

import yaml
from pydantic import Field, ValidationError, model_validator
from pydantic_core import ErrorDetails

from eyechart.core.errors import UsageError
from eyechart.core.records import Record
from eyechart.core.registry import unknown_name
from eyechart.core.yaml_text import parse_yaml
from eyechart.experiment.recruiters import recruiter_settings

KINDS = ("categorise", "same-different")
NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
CONSENT = """\
You will see pictures for a fraction of a second and say what is on them. This takes about {minutes}
minutes. You can stop at any time by closing this page, without giving a reason. We store your
answers, when and how fast you gave them, and the size and speed of your screen; if you come from a
recruiting site, also your id there until you are paid. Nothing that says who you are is published.
With the code that you see at the end, or your id, you can have all of it deleted. There are no
known risks. You must be at least 18 and see normally, with glasses if you wear them."""

PAIRS_CONSENT = CONSENT.replace(
    "You will see pictures for a fraction of a second and say what is on them. This takes about"
    " {minutes}\nminutes.",
    "You will see two pictures at a time and say whether they were changed in the same way. This"
    " takes about\n{minutes} minutes.",
)
Minutes = Annotated[int | float, Field(ge=0.01)]
TITLES = {"categorise": "What is in the picture?", "same-different": "Same or different?"}


class StudyConfig(Record, extra="allow", strict=True):
    """Everything that decides what a participant sees.

    Beside these fields it holds the recruiting sites' settings, whose names they declare. A number
    stays an integer or not as it was given: the digest of a study that was made must not change.
    """

    __pydantic_extra__: dict[str, str]

    name: str
    title: str
    kind: str = "categorise"
    k: Annotated[int, Field(ge=1)] = 5
    """Responses wanted for each corrupted stimulus, or pair."""
    clean_k: Annotated[int, Field(ge=0)] = 5
    """Responses wanted for each clean image."""
    trials: Annotated[int, Field(ge=1)] = 100
    """Of the main part for each participant, without the `catch` trials among them."""
    practice: Annotated[int, Field(ge=0)] = 16
    qualification: Annotated[int, Field(ge=0)] = 16
    catch: Annotated[int, Field(ge=0)] = 8
    pass_share: int | float = 0.75
    """Share of the qualification trials that must be correct."""
    block: Annotated[int, Field(ge=1)] = 64
    """Main trials between breaks."""
    fixation_ms: Annotated[int, Field(ge=0)] = 300
    stimulus_ms: Annotated[int, Field(ge=16)] = 200
    mask_ms: Annotated[int, Field(ge=0)] = 200
    response_ms: Annotated[int, Field(ge=0)] = 1500
    """0: until there is a response."""
    show_ms: Annotated[int, Field(ge=0)] = 0
    """Of same/different; 0 shows both images until the response."""
    side: Annotated[int, Field(ge=18)] = 224
    lease_minutes: Minutes = 15.0
    """After that a trial without a response goes to somebody else."""
    token_minutes: Minutes = 120.0
    minutes: Annotated[int, Field(ge=1)] = 8
    """What a participant is told that it takes."""
    consent: str = CONSENT
    contact: str = ""
    payment: str = ""
    rules: Annotated[int, Field(ge=1)] = 1
    """Version of the quality rules."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not NAME.fullmatch(self.name):
            raise UsageError(
                f"A study's name goes into its address: small letters, digits and hyphens, got"
                f" '{self.name}'."
            )
        if self.kind not in KINDS:
            raise unknown_name("kind of experiment", self.kind, KINDS)
        if not 0 <= self.pass_share <= 1:
            raise UsageError(f"pass_share must be in [0, 1], got {self.pass_share}.")
        return self

    @property
    def recruiter_settings(self) -> dict[str, str]:
        """The recruiting sites' settings, empty where the study has none."""
        return {name: self.__pydantic_extra__.get(name, "") for name in recruiter_settings()}

    @property
    def digest(self) -> str:
        """16 hexadecimal digits for all of it."""
        text = json.dumps(self.model_dump(), sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def config_from(settings: Mapping[str, object], origin: str) -> StudyConfig:
    """Return the study that settings describe.

    Args:
        settings: the fields of a study, and the recruiting sites' settings.
        origin: the file or database that they are from, for errors.

    Raises:
        UsageError: if a setting is missing, unknown, of a wrong type or out of bounds.
    """
    known = {*StudyConfig.model_fields, *recruiter_settings()}
    for name in settings:
        if name not in known:
            raise unknown_name(f"setting in {origin}", str(name), known)
    try:
        return StudyConfig.model_validate(settings)
    except ValidationError as error:
        raise _usage_error(error.errors()[0], origin) from None


def _usage_error(problem: ErrorDetails, origin: str) -> UsageError:
    """Return the sentence for a setting that pydantic rejects."""
    context = problem.get("ctx", {})
    if isinstance(context.get("error"), UsageError):
        return UsageError(str(context["error"]))
    name, value = problem["loc"][0] if problem["loc"] else "", problem["input"]
    if problem["type"] == "missing":
        return UsageError(f"{origin} is no study: {name} is missing.")
    if "ge" in context:
        return UsageError(f"{name} must be at least {context['ge']}, got {value}.")
    # of a number that may be either, the first member of the union is reported
    is_union = len(problem["loc"]) > 1
    kind = "float" if is_union else problem["type"].removesuffix("_type").replace("string", "str")
    return UsageError(f"{name} in {origin} must be {kind}, got {value!r}.")


def read_config(path: Path) -> StudyConfig:
    """Return the study in a YAML file."""
    try:
        settings = parse_yaml(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(
            f"{path.parent} is no study: make one with eyechart experiment new."
        ) from None
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise UsageError(f"{path} cannot be read: {reason}.") from None
    if not isinstance(settings, dict):
        raise UsageError(f"{path} is no study: it must hold names and values.")
    return config_from(settings, str(path))


def config_text(config: StudyConfig) -> str:
    """Return the YAML text of a study."""
    return yaml.safe_dump(config.model_dump(), sort_keys=False, allow_unicode=True, width=90)


GRID = (
    "knife", "airplane", "keyboard", "elephant", "bicycle", "clock", "oven", "chair",
    "bear", "boat", "cat", "bottle", "truck", "car", "bird", "dog",
)  # fmt: skip
"""The 16 categories in the order of the answer grid, filled by column, as in the laboratory."""


def choices_of(config: StudyConfig) -> tuple[str, ...]:
    """Return the answers of a study."""
    return GRID if config.kind == "categorise" else ("same", "different")
