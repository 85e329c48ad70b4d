"""Typed records: what files and settings hold, declared once, checked when it is read.

A record's attribute docstrings are its field documentation and go into its JSON Schema.
"""

from typing import Self

from pydantic import BaseModel, ConfigDict, ValidationError

from eyechart.core.errors import UsageError


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
    )

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
