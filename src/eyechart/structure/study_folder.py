"""The folder of a study: what was asked for, networks, answers, and in the end its results."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from eyechart.core.errors import UsageError
from eyechart.core.files import atomic_file
from eyechart.core.run_folder import Settings, open_run_folder

MODELS, TESTS, RESULTS = "models", "tests", "results.json"


def open_folder(settings: Settings, out: Path) -> None:
    """Make the folder of a study, or check that it holds the same one."""
    open_run_folder(out, settings, work="study", folders=(MODELS, TESTS))


def write_results(results: Any, out: Path) -> None:
    """Write the results of a study, a dataclass, whole or not at all."""
    try:
        with atomic_file(out / RESULTS) as temporary:
            text = json.dumps(asdict(results), indent=1, ensure_ascii=False)
            temporary.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"Cannot write into {out}: {error.strerror or error}.") from None
