"""Typed records: what files and settings hold, declared once, checked when it is read.

A record's attribute docstrings are its field documentation and go into its JSON Schema.
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
"""A number to calculate with: NaN where it is undetermined, which JSON has as null."""

Known = Annotated[
    float | None,
    BeforeValidator(lambda value: None if isinstance(value, float) and isnan(value) else value),
]
"""A number to show: None where there is none, also if it is given as NaN."""


class Record(BaseModel):
    """A frozen record, constructed by keyword; unknown fields are rejected.

    Numbers that do not exist (NaN, infinity) are written as null.
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
        # what a record keeps privately is no part of what it says
        return type(self) is type(other) and self.__dict__ == other.__dict__

    @classmethod
    def from_plain(cls, value: object, name: str = "") -> Self:
        """Return the record that plain values (of JSON or YAML) describe.

        Args:
            value: a mapping with the record's fields.
            name: what the values are of, such as a file's path; it begins the error's sentence.

        Raises:
            UsageError: with the first field that is missing, unknown or of a wrong type.
        """
        try:
            return cls.model_validate(value)
        except ValidationError as error:
            raise UsageError(f"{name or cls.__name__}: {first_problem(error)}") from None


def first_problem(error: ValidationError) -> str:
    """Return the first problem of a failed validation as one sentence: where, and what."""
    problem = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in problem["loc"])
    message = problem["msg"].removeprefix("Value error, ").rstrip(".")
    return f"{where}: {message}." if where else f"{message}."
