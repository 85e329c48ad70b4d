"""Ranges from the command line, such as 1-5."""

import re

from eyechart.core.errors import UsageError

RANGE = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*(?:[-–]\s*(\d+(?:\.\d*)?|\.\d+)\s*)?")
"""A number, or two with a dash between them."""


def parse_range(name: str, text: str | None) -> tuple[float, float] | None:
    """Return the two ends of a range, or a number twice; None if there is none."""
    if text is None:
        return None
    found = RANGE.fullmatch(text)
    if found is None:
        raise UsageError(f"--{name} must be a range, such as 1-5, or a number, got '{text}'.")
    return float(found[1]), float(found[2] or found[1])
