"""Typed records for files and settings, declared once and validated when they are read.

A record's attribute docstrings document its fields and become part of its JSON Schema.
"""

from math import isnan, nan
from typing import Annotated, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, WithJsonSchema

from eyechart.core.errors import UsageError

NUMBER_OR_NULL = {"anyOf": [{"type": "number"}, {"type": "null"}]}

Real = Annotated[
    float,
    BeforeValidator(lambda value: nan if value is None else value),
    WithJsonSchema(NUMBER_OR_NULL),
]
"""A number for calculations: NaN if it is undetermined; NaN is written to JSON as null."""

Known = Annotated[
    float | None,
    BeforeValidator(lambda value: None if isinstance(value, float) and isnan(value) else value),
]
"""A number for display: None if it does not exist; NaN is converted to None."""


class Record(BaseModel):
    """A frozen record, constructed by keyword; unknown fields are rejected.

    NaN and infinity are written as null.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        use_attribute_docstrings=True,
        ser_json_inf_nan="null",
        arbitrary_types_allowed=False,
        json_schema_serialization_defaults_required=True,
    )

    def __eq__(self, other: object) -> bool:
        # private attributes are caches and do not count
        return type(self) is type(other) and self.__dict__ == other.__dict__

    @classmethod
    def from_plain(cls, value: object, name: str = "") -> Self:
        """Return a record from plain values (as read from JSON or YAML).

        Args:
            value: a mapping with the record's fields.
            name: the source of the values, such as a file's path; error messages start with it.

        Raises:
            UsageError: a field is missing, unknown or has the wrong type; the first one is named.
        """
        try:
            return cls.model_validate(value)
        except ValidationError as error:
            raise UsageError(f"{name or cls.__name__}: {first_problem(error)}") from None


def first_problem(error: ValidationError) -> str:
    """Return the first problem of a failed validation as one sentence with the field's name."""
    problem = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in problem["loc"])
    # pydantic puts this before the message of a validator
    message = problem["msg"].removeprefix("Value error, ").rstrip(".")
    return f"{where}: {message}." if where else f"{message}."
