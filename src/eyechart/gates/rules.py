"""The rules of a gate, read from a YAML file or from Python objects.

Error messages name the line and the key. The module `rule_samples` applies rules to runs.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from eyechart.core.arguments import (
    as_list,
    as_path,
    as_text,
    as_texts,
    as_within,
    regular_file,
    short_repr,
)
from eyechart.core.errors import UsageError
from eyechart.core.records import Record
from eyechart.core.registry import one_of, unknown_name
from eyechart.core.yaml_text import ValuePath, parse_yaml_lines
from eyechart.corruptions.suites.suite import STRONGEST
from eyechart.images.labels.spaces import SCORED_SPACES

ALL = "all"
"""Name that stands for every corruption of the run."""

METRICS = ("accuracy", "consistency")

Range = tuple[float, float]


class Rule(Record):
    """One requirement: the rate that a model must reach, and the conditions that it applies to."""

    name: str
    """Name of the rule."""
    corruptions: tuple[str, ...] = ()
    """Corruptions that the rule applies to; empty for all, or if families are named."""
    families: tuple[str, ...] = ()
    """Families of corruptions that the rule applies to."""
    delta_v: Range | None = None
    """Range of visual change, both ends included; null for any."""
    severity: Range | None = None
    """Range of severity, both ends included; null for any."""
    classes: tuple[str, ...] = ()
    """Classes of images that the rule applies to; empty for all."""
    where: Mapping[str, tuple[str, ...]] = Field(default_factory=dict)
    """Maps columns of the list of images to their allowed values; other images are left out."""
    metric: Literal["accuracy", "consistency"] = "accuracy"
    """What is measured: correct predictions, or predictions that equal the clean prediction."""
    labels: str | None = None
    """Label space; null for the first one of the run."""
    model: str | None = None
    """Model of the new run; null for its only model."""
    old_model: str | None = None
    """Model of the old run; null for its only model, or for the one with the new model's name."""
    at_least: float | None = None
    """Floor that the lower confidence bound must reach."""
    margin: float | None = None
    """Accepted drop below the old model's rate; the confidence bound must exclude larger drops."""
    file: str = Field("", exclude=True)
    """File that contains the rule; "" if it was given in Python."""
    lines: Mapping[str, int] = Field(default_factory=dict, exclude=True)
    """Line of each key in the file; the key "" stands for the rule itself."""

    @property
    def limit(self) -> float:
        """The limit that the estimate is compared with: the rule's floor or its negated margin."""
        if self.at_least is not None:
            return self.at_least
        assert self.margin is not None
        return -self.margin

    def problem(self, key: str, text: str) -> UsageError:
        """Return the error for one of the rule's keys, with its line."""
        line = self.lines.get(key, self.lines.get("", 0))
        where = f"{self.file}, line {line}" if self.file else f"Rule {short_repr(self.name)}"
        return UsageError(f"{where}: {key}: {text}" if key else f"{where}: {text}")


def load_rules(rules: object) -> tuple[tuple[Rule, ...], str]:
    """Return the rules from a YAML file or from a list of dictionaries, and what they are for.

    The second value states the conditions that the model is intended for, in the user's words; ""
    if they are not stated.

    Raises:
        UsageError: The file cannot be read, or a rule is invalid; the message names the line and
            the key.

    Example:
        >>> (rule,), intended = load_rules([
        ...     {"name": "fog", "corruptions": ["fog"], "delta_v": [0, 0.5], "at_least": 0.6}
        ... ])
        >>> rule.at_least
        0.6
    """
    if isinstance(rules, Mapping) or (
        isinstance(rules, Sequence) and not isinstance(rules, str | bytes)
    ):
        return _Reader("", {}).rules(rules)
    path = Path(as_path(rules, "rules", "the path of a file or a list of rules"))
    try:
        text = regular_file(path).read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"Cannot read {rules}: {error.strerror or error}.") from None
    except ValueError:
        raise UsageError(f"{rules} is not a text file in UTF-8: give a YAML file.") from None
    try:
        values, lines = parse_yaml_lines(text)
    except ValueError as error:
        raise UsageError(f"{path}: {error}.") from None
    return _Reader(str(path), lines).rules(values)


class _Reader:
    """Turns plain values into rules; `lines` says where each value is in the file."""

    def __init__(self, file: str, lines: Mapping[ValuePath, int]) -> None:
        self.file, self.lines = file, lines

    def rules(self, values: object) -> tuple[tuple[Rule, ...], str]:
        intended = ""
        path: ValuePath = ()
        if isinstance(values, Mapping):
            known = ("rules", "intended_conditions")
            for key in values:
                if key not in known:
                    raise self.problem((key,), str(unknown_name("key", str(key), known)))
            stated = values.get("intended_conditions", "")
            intended = self._checked(("intended_conditions",), _text, stated) if stated else ""
            values, path = values.get("rules"), ("rules",)
        if not isinstance(values, Sequence) or isinstance(values, str) or not values:
            raise self.problem(path, "rules must be a list with at least one rule.")
        rules = tuple(self._rule((*path, index), value) for index, value in enumerate(values))
        names = [rule.name for rule in rules]
        for index, rule in enumerate(rules):
            if rule.name in names[:index]:
                raise rule.problem(
                    "name", f"rules must have different names, got {short_repr(rule.name)} twice."
                )
        return rules, " ".join(intended.split())

    def _rule(self, path: ValuePath, value: object) -> Rule:
        if not isinstance(value, Mapping):
            raise self.problem(path, f"a rule must be a mapping of keys, got {short_repr(value)}.")
        fields: dict[str, Any] = {}
        for key, given in value.items():
            if key not in KEYS:
                raise self.problem((*path, key), str(unknown_name("key", str(key), KEYS)))
            field, read = KEYS[key]
            fields[field] = self._checked((*path, key), read, given)
        lines = {str(key): self._line((*path, key)) for key in value}
        if "name" not in fields:
            raise self.problem(path, "name is missing: give the rule a name.")
        rule = Rule(**fields, file=self.file, lines={**lines, "": self._line(path)})
        _check_together(rule, set(map(str, value)))
        return rule

    def _checked(self, path: ValuePath, read: Callable[[str, object], Any], value: object) -> Any:
        try:
            return read(str(path[-1]), value)
        except UsageError as error:
            raise self.problem(path, str(error)) from None

    def problem(self, path: ValuePath, text: str) -> UsageError:
        if self.file:
            return UsageError(f"{self.file}, line {self._line(path)}: {text}")
        index = next((step for step in path if isinstance(step, int)), None)
        return UsageError(f"rules: {text}" if index is None else f"Rule {index + 1}: {text}")

    def _line(self, path: ValuePath) -> int:
        """Return the line of a value, or of the nearest enclosing value whose line is known."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


def _check_together(rule: Rule, keys: set[str]) -> None:
    """Raise a UsageError unless the keys of a rule make sense together."""
    for one, two in (("corruptions", "families"), ("at_least", "no_worse_than_old")):
        if {one, two} <= keys:
            raise rule.problem("", f"give {one} or {two}, not both.")
        if not {one, two} & keys:
            raise rule.problem("", f"{one} or {two} is missing.")
    if rule.old_model is not None and rule.margin is None:
        raise rule.problem("", "old_model needs no_worse_than_old: omit old_model.")


def _text(key: str, value: object) -> str:
    text = as_text(value, key).strip()
    if not text:
        raise UsageError(f"{key} must not be empty.")
    return text


def _texts(key: str, value: object) -> tuple[str, ...]:
    """Return a tuple of names from a list or a single name; numbers are accepted as names."""
    values = [value] if isinstance(value, str | int | float) else as_list(value, key)
    # YAML does not read yes, no, 7 and 0.5 as text
    plain = [str(item).lower() if isinstance(item, bool) else item for item in values]
    plain = [f"{item:g}" if isinstance(item, int | float) else item for item in plain]
    names = as_texts(plain, key)
    if not names:
        raise UsageError(f"{key} must not be empty: omit it to select all.")
    return names


def _range(key: str, value: object, high: float) -> Range:
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = [value, value]
    ends = [as_within(end, f"each end of {key}", 0, high) for end in as_list(value, key)]
    if len(ends) != 2 or ends[0] > ends[1]:
        raise UsageError(
            f"{key} must be a range of two numbers, the lower one first, got"
            f" [{', '.join(f'{end:g}' for end in ends)}]."
        )
    return ends[0], ends[1]


def _columns(key: str, value: object) -> dict[str, tuple[str, ...]]:
    if not isinstance(value, Mapping) or not value:
        raise UsageError(f"{key} must be a mapping of columns to values, got {short_repr(value)}.")
    return {str(column): _texts(f"{key}.{column}", values) for column, values in value.items()}


def _choice(key: str, value: object, names: Sequence[str]) -> str:
    name = as_text(value, key)
    if name not in names:
        raise UsageError(f"{key} must be {one_of(names)}, got {short_repr(name)}.")
    return name


def _margin(key: str, value: object) -> float:
    if not isinstance(value, Mapping) or set(value) != {"margin"}:
        raise UsageError(f"{key} must be {{margin: NUMBER}}, got {short_repr(value)}.")
    margin = as_within(value["margin"], f"{key}.margin", 0, 1)
    if margin == 0:
        raise UsageError(f"{key}.margin must be above 0: no amount of data can show a margin of 0.")
    return margin


KEYS: Mapping[str, tuple[str, Callable[[str, object], Any]]] = {
    "name": ("name", _text),
    "corruptions": ("corruptions", lambda key, value: () if value == ALL else _texts(key, value)),
    "families": ("families", _texts),
    "delta_v": ("delta_v", lambda key, value: _range(key, value, 1)),
    "severity": ("severity", lambda key, value: _range(key, value, STRONGEST)),
    "classes": ("classes", _texts),
    "where": ("where", _columns),
    "metric": ("metric", lambda key, value: _choice(key, value, METRICS)),
    "labels": ("labels", lambda key, value: _choice(key, value, SCORED_SPACES)),
    "model": ("model", _text),
    "old_model": ("old_model", _text),
    "at_least": ("at_least", lambda key, value: as_within(value, key, 0, 1)),
    "no_worse_than_old": ("margin", _margin),
}
"""Maps each key of a rule to the field of `Rule` that it sets and to the key's reader function."""
