"""What a study is: decided before the first participant, written down, and never changed after."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import yaml

from eyechart.core.errors import UsageError
from eyechart.core.registry import unknown_name
from eyechart.core.yaml_text import parse_yaml

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
TITLES = {"categorise": "What is in the picture?", "same-different": "Same or different?"}


@dataclass(frozen=True)
class StudyConfig:
    """Everything that decides what a participant sees.

    `k`: answers wanted for each corrupted stimulus, or pair; `clean_k`: for each clean picture.
    `trials`: of the main part for each participant, without the `catch` trials among them.
    `pass_share`: of the qualification trials that must be right. `block`: main trials between
    breaks. Times in ms; `response_ms` 0: until there is an answer. `show_ms` of same/different: 0
    shows both pictures until the answer. `lease_minutes`: after that a trial without an answer goes
    to somebody else. `prolific_code` and `prolific_failed`: the codes of Prolific's study page.
    `minutes`: what a participant is told that it takes. `rules`: version of the quality rules.
    """

    name: str
    title: str
    kind: str = "categorise"
    k: int = 5
    clean_k: int = 5
    trials: int = 100
    practice: int = 16
    qualification: int = 16
    catch: int = 8
    pass_share: float = 0.75
    block: int = 64
    fixation_ms: int = 300
    stimulus_ms: int = 200
    mask_ms: int = 200
    response_ms: int = 1500
    show_ms: int = 0
    side: int = 224
    lease_minutes: float = 15.0
    token_minutes: float = 120.0
    minutes: int = 8
    consent: str = CONSENT
    contact: str = ""
    payment: str = ""
    prolific_code: str = ""
    prolific_failed: str = ""
    rules: int = 1

    def check(self) -> None:
        """Refuse what cannot be a study."""
        if not NAME.fullmatch(self.name):
            raise UsageError(
                f"A study's name goes into its address: small letters, digits and hyphens, got"
                f" '{self.name}'."
            )
        if self.kind not in KINDS:
            raise unknown_name("kind of experiment", self.kind, KINDS)
        for name, least in LEAST.items():
            value = getattr(self, name)
            if not value >= least:
                raise UsageError(f"{name} must be at least {least}, got {value}.")
        if not 0 <= self.pass_share <= 1:
            raise UsageError(f"pass_share must be in [0, 1], got {self.pass_share}.")

    @property
    def digest(self) -> str:
        """16 hexadecimal digits for all of it."""
        text = json.dumps(asdict(self), sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


LEAST = {
    "k": 1, "clean_k": 0, "trials": 1, "practice": 0, "qualification": 0, "catch": 0, "block": 1,
    "fixation_ms": 0, "stimulus_ms": 16, "mask_ms": 0, "response_ms": 0, "show_ms": 0, "side": 18,
    "lease_minutes": 0.01, "token_minutes": 0.01, "minutes": 1, "rules": 1,
}  # fmt: skip


def config_from(settings: Mapping[str, Any], where: str) -> StudyConfig:
    """Return the study that settings of a file or a database describe; others are refused."""
    known = {field.name: field.type for field in fields(StudyConfig)}
    for name in settings:
        if name not in known:
            raise unknown_name(f"setting in {where}", str(name), known)
    try:
        config = StudyConfig(**settings)
        for name, kind in known.items():
            value = getattr(config, name)
            if kind is float and isinstance(value, int) and not isinstance(value, bool):
                continue
            if not isinstance(value, kind) or isinstance(value, bool):  # type: ignore[arg-type]
                raise UsageError(f"{name} in {where} must be {kind.__name__}, got {value!r}.")  # type: ignore[union-attr]
    except TypeError as error:
        raise UsageError(f"{where} is no study: {error}.") from None
    config.check()
    return config


def read_config(path: Path) -> StudyConfig:
    """Return the study in a YAML file."""
    try:
        settings = parse_yaml(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(
            f"{path.parent} is no study: make one with eyechart experiment new."
        ) from None
    except (OSError, ValueError) as error:
        what = " ".join(str(error).split())
        raise UsageError(f"{path} cannot be read: {what}.") from None
    if not isinstance(settings, dict):
        raise UsageError(f"{path} is no study: it must hold names and values.")
    return config_from(settings, str(path))


def config_text(config: StudyConfig) -> str:
    """Return the YAML text of a study."""
    return yaml.safe_dump(asdict(config), sort_keys=False, allow_unicode=True, width=90)


GRID = (
    "knife", "airplane", "keyboard", "elephant", "bicycle", "clock", "oven", "chair",
    "bear", "boat", "cat", "bottle", "truck", "car", "bird", "dog",
)  # fmt: skip
"""The 16 categories in the order of the answer grid, filled by column, as in the laboratory."""


def choices_of(config: StudyConfig) -> tuple[str, ...]:
    """Return the answers of a study."""
    return GRID if config.kind == "categorise" else ("same", "different")
