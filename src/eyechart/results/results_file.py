"""Read results.json, and say what is wrong with a file that cannot be read."""

from pathlib import Path

from pydantic import Field, ValidationError

from eyechart.core.errors import UsageError
from eyechart.core.records import Record, first_problem
from eyechart.results.schema import RESULTS_FILE, SCHEMA_VERSION, Results


class _Version(Record, extra="ignore"):
    """Version of a results file, which is read before the other fields."""

    schema_version: int = Field(alias="schema")


def read_results(folder: Path) -> Results:
    """Return the results of a finished run in a folder.

    Raises:
        UsageError: If the folder has no results, or the file is damaged, has a different version or
            was not written by eyechart.
    """
    path = folder / RESULTS_FILE
    if folder.is_file():
        raise UsageError(f"Give the folder of a run, {folder.parent}, not the file {folder.name}.")
    if not path.is_file():
        raise UsageError(
            f"{folder} has no finished run ({RESULTS_FILE} is missing): give the --out folder of a "
            "completed eyechart evaluate."
        )
    try:
        content = path.read_bytes()
    except OSError:
        raise UsageError(f"{path} cannot be read: run the evaluation again.") from None
    # The version is read first: a file of another version may fail validation for other reasons.
    version = _version_of(content, path)
    if version != SCHEMA_VERSION:
        raise UsageError(
            f"{folder} was written by another version of eyechart (schema {version}, not"
            f" {SCHEMA_VERSION}): evaluate again into another folder."
        )
    try:
        # Strict: a number in quotes is damage, not a number.
        return Results.model_validate_json(content, strict=True).kept_in(folder)
    except ValidationError as error:
        problem = first_problem(error).rstrip(".")
        raise UsageError(f"{path} is damaged ({problem}): run the evaluation again.") from None


def _version_of(content: bytes, path: Path) -> int:
    try:
        return _Version.model_validate_json(content, strict=True).schema_version
    except ValidationError as error:
        # Distinguish a damaged file from a valid JSON file of another program.
        if error.errors()[0]["type"] == "json_invalid":
            raise UsageError(f"{path} cannot be read: run the evaluation again.") from None
        raise UsageError(
            f"{path} was not written by eyechart evaluate: give another folder."
        ) from None
