"""The folder of a study: what was asked for, networks, answers, and in the end its results."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from eyechart.core.errors import UsageError
from eyechart.core.files import atomic_file
from eyechart.core.settings import refuse_other, write_settings

MODELS, TESTS, RECORD, RESULTS = "models", "tests", "run.json", "results.json"


def open_folder(settings: Mapping[str, Any], out: Path) -> None:
    """Make the folder of a study, or see that it holds the same one."""
    if out.exists() and not out.is_dir():
        raise UsageError(f"Cannot write into {out}: it is a file, not a folder.")
    record = out / RECORD
    if record.exists():
        refuse_other(record, settings, "another study")
    else:
        foreign = [each for each in (MODELS, TESTS) if (out / each).exists()]
        if foreign:
            raise UsageError(
                f"{out / foreign[0]} is there already and of no study: choose another --out."
            )
    try:
        # the record first: whoever else begins then finds a study, not something foreign
        out.mkdir(parents=True, exist_ok=True)
        write_settings(record, settings)
        for each in (MODELS, TESTS):
            (out / each).mkdir(exist_ok=True)
    except OSError as error:
        raise UsageError(f"Cannot write into {out}: {error.strerror or error}.") from None


def write_results(results: Any, out: Path) -> None:
    """Write the results of a study, a dataclass, whole or not at all."""
    try:
        with atomic_file(out / RESULTS) as temporary:
            text = json.dumps(asdict(results), indent=1, ensure_ascii=False)
            temporary.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"Cannot write into {out}: {error.strerror or error}.") from None
