"""Records with some fields changed, whichever kind of record they are."""

import dataclasses
from typing import Any

from eyechart.core.records import Record


def replace(record: Any, **changes: Any) -> Any:
    """Return a dataclass or a Record with some of its fields changed, unchecked."""
    if isinstance(record, Record):
        return record.model_copy(update=changes)
    return dataclasses.replace(record, **changes)
