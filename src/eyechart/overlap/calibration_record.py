"""Record of a calibration in progress: a JSON file and a table, stored next to the suite file."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from pydantic import TypeAdapter

from eyechart.core.arguments import regular_file
from eyechart.core.csv_table import write_cells
from eyechart.core.errors import UsageError
from eyechart.core.randomness import hash64
from eyechart.core.storage.files import write_text
from eyechart.corruptions.suites.assets import entry_mark
from eyechart.corruptions.suites.suite import Entry
from eyechart.corruptions.suites.suite_file import check_suite_path
from eyechart.overlap.calibrate import (
    Calibrated,
    CalibratedRange,
    RangeEnd,
    range_values,
    with_range,
)
from eyechart.overlap.overlap_settings import CalibrationSettings
from eyechart.overlap.robustness_probe import RobustnessProbe
from eyechart.overlap.strengths import StrengthScale

CalibrationFacts = Mapping[str, str | int | float]
"""Named inputs on which a calibration depends."""

SCHEMA = 1
COLUMNS = (
    "corruption", "lower", "lower_robustness", "lower_low", "lower_high",
    "upper", "upper_robustness", "upper_low", "upper_high", "reach", "evaluations", "note",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class CalibratedRow(CalibratedRange):
    """A corruption's calibrated range; `published` is a digest of its entry before calibration."""

    published: str


@dataclass(frozen=True)
class CalibrationContent:
    """Content of the JSON file."""

    settings: CalibrationFacts
    corruptions: Mapping[str, CalibratedRow]


class CalibrationRecord:
    """The JSON file, to which corruptions are added one at a time; `settings` are the inputs."""

    def __init__(self, out: Path, settings: CalibrationFacts) -> None:
        self.path = record_path(out)
        self.content = CalibrationContent(settings, {})
        # An interrupted calibration resumes, but only with the same settings.
        if self.path.exists():
            self.content = _read(self.path)
            _check_same(self.path, self.content.settings, settings)

    def known(self, entry: Entry, side: int) -> Calibrated | None:
        """Return the stored range of a corruption, or None if there is none."""
        row = self.content.corruptions.get(entry.name)
        # A changed definition of the corruption makes the stored range invalid.
        if row is None or row.published != _stand_in(entry):
            return None
        return with_range(StrengthScale(entry, side), row)

    def add(self, entry: Entry, calibrated: Calibrated) -> None:
        """Add a corruption, and write the file to disk."""
        row = CalibratedRow(published=_stand_in(entry), **range_values(calibrated))
        # The whole file is rewritten atomically: it is small, and never half-written.
        rows = {**self.content.corruptions, entry.name: row}
        self.content = replace(self.content, corruptions=rows)
        content = {"schema": SCHEMA, **asdict(self.content)}
        write_text(self.path, json.dumps(content, indent=1))


def record_path(out: Path) -> Path:
    """Return the path of the record that belongs to a suite file."""
    return out.with_suffix(".json")


def check_out(out: Path) -> None:
    """Raise a UsageError if the file exists and is not from a calibration."""
    check_suite_path(out)
    record, table = record_path(out), out.with_suffix(".csv")
    if record.exists():
        _read(record)
        return
    for path in (out, table):
        if path.exists():
            raise UsageError(
                f"{path} already exists and is not from a calibration: choose another --out, or "
                "delete it."
            )


def settings_of(judge: RobustnessProbe, settings: CalibrationSettings) -> CalibrationFacts:
    """Return the inputs on which a calibration depends, except for the corruptions."""
    return {
        "model": f"{judge.model.name} {judge.model.identity} {judge.model.dtype}",
        "images": f"{len(judge.images)} {judge.images.fingerprint}",
        "stimulus": judge.images.stimulus.name,
        "seed": judge.seed,
        "lower": settings.lower,
        "upper": settings.upper,
        "steps": settings.steps,
    }


def write_table(calibrated: Sequence[Calibrated], path: Path) -> None:
    """Write one row per corruption as CSV."""
    rows: list[Sequence[str]] = [COLUMNS]
    for corruption in calibrated:
        reach = "" if corruption.reach is None else f"{corruption.reach:.4f}"
        ends = (*_cells(corruption.lower), *_cells(corruption.upper))
        count = str(corruption.evaluations)
        rows.append([corruption.name, *ends, reach, count, corruption.note])
    write_cells(path, rows)


def _cells(end: RangeEnd) -> list[str]:
    robustness = end.robustness
    return [
        end.words,
        *(f"{number:.4f}" for number in (robustness.value, robustness.low, robustness.high)),
    ]


def _stand_in(entry: Entry) -> str:
    # The name of the suite does not affect the corruption.
    return f"{hash64(entry_mark(replace(entry, suite=''))):016x}"


def _read(path: Path) -> CalibrationContent:
    try:
        text = regular_file(path).read_text(encoding="utf-8")
        content = json.loads(text)
        if not isinstance(content, dict) or content.get("schema") != SCHEMA:
            raise ValueError("another schema")
        # Strict: numbers in quotes mean that the file was edited or damaged.
        return TypeAdapter(CalibrationContent).validate_json(text, strict=True)
    except OSError as error:
        raise UsageError(f"Cannot read {path}: {error.strerror or error}.") from None
    except ValueError:
        raise UsageError(
            f"{path} already exists and is not from a calibration: choose another --out, or delete "
            "it."
        ) from None


def _check_same(path: Path, known: CalibrationFacts, asked: CalibrationFacts) -> None:
    for name, value in asked.items():
        if known.get(name) != value:
            raise UsageError(
                f"{path} is from a calibration with other settings ({name}: {known.get(name)}, not "
                f"{value}): choose another --out, or delete it."
            )
