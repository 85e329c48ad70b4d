"""Calibrate strengths to a model: find the range in which it keeps 95 % to 50 % of its accuracy.

Both ends are found by bisection over a strength that is the same for all images. The random numbers
of each image are held fixed, so that R decreases with strength, except for small fluctuations. A
record next to the suite file lets a stopped calibration resume.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter

from eyechart.core.arguments import regular_file
from eyechart.core.csv_table import write_cells
from eyechart.core.errors import UsageError
from eyechart.core.randomness import hash64
from eyechart.core.storage.files import write_text
from eyechart.corruptions.suites.assets import entry_mark
from eyechart.corruptions.suites.suite import Entry, Suite
from eyechart.corruptions.suites.suite_file import check_suite_path
from eyechart.overlap.overlap_settings import CalibrationSettings
from eyechart.overlap.strengths import (
    MILD,
    STRONG,
    Robustness,
    RobustnessProbe,
    SettledValues,
    StrengthScale,
)

CLOSE = 0.001
"""Tolerance of R at the ends of a range, or the effect of half an image on R if that is larger."""

HALVINGS = 60
"""Maximum number of bisections, after which the ends are adjacent floating-point numbers."""

CalibrationFacts = Mapping[str, str | int | float]
"""Named inputs on which a calibration depends."""

COLUMNS = (
    "corruption", "lower", "lower_robustness", "lower_low", "lower_high",
    "upper", "upper_robustness", "upper_low", "upper_high", "reach", "evaluations", "note",
)  # fmt: skip


@dataclass(frozen=True)
class RangeEnd:
    """One end of a range: the strength, parameter values in the entry's units, and R.

    `values` contains the varied parameters, or the severity.
    """

    strength: float
    values: Mapping[str, float]
    robustness: Robustness

    @property
    def words(self) -> str:
        """Parameter values as text, such as "across 15, down 15"."""
        return ", ".join(f"{name} {value:g}" for name, value in self.values.items())


@dataclass(frozen=True, kw_only=True)
class CalibratedRange:
    """A calibrated range of strengths.

    Attributes:
        lower: Mild end.
        upper: Strong end.
        reach: R at the maximum strength if R does not fall to the target, in which case the range
            ends at the maximum strength; otherwise None.
        note: A note for the reader; "" if there is nothing to note.
        evaluations: Number of evaluations.
        published: Digest of the corruption's entry before calibration.
    """

    lower: RangeEnd
    upper: RangeEnd
    reach: float | None
    note: str
    evaluations: int
    published: str


@dataclass(frozen=True, kw_only=True)
class Calibrated(CalibratedRange):
    """A calibrated corruption: its range, and its suite entry with this range."""

    entry: Entry

    @property
    def name(self) -> str:
        """Name of the corruption."""
        return self.entry.name


def check_entries(entries: Sequence[Entry]) -> None:
    """Raise a UsageError unless each entry has a strength that can be varied and a unique name."""
    names = [entry.name for entry in entries]
    for entry in entries:
        StrengthScale(entry, 224).check()
        if names.count(entry.name) > 1:
            raise UsageError(f"{entry.name} is passed twice: pass every corruption only once.")


def calibrate_entry(
    judge: RobustnessProbe, entry: Entry, settings: CalibrationSettings
) -> Calibrated:
    """Return the calibrated range of one corruption."""
    lower, upper = settings.lower, settings.upper
    search = _RangeSearch(judge, StrengthScale(entry, judge.side), settings.steps)
    # Bracket first: every evaluated strength narrows both searches.
    far = search.bracket_strength(upper)
    # R at the strong end must be below the target of the mild end, or the range would be empty.
    strong = search.crossing(upper, too_mild=lower)
    mild = search.crossing(lower, too_mild=1.0)
    reach = search.at(far).value if strong is None else None
    strong = far if strong is None else strong
    notes = []
    if mild is None:
        # The corruption never reaches the mild target: use the published mild end.
        mild = min(MILD, strong)
        notes.append(f"harmless: R is {search.at(far).value:.2f} at the maximum strength")
    elif reach is not None:
        notes.append(f"R {upper:g} cannot be reached: it is {reach:.3f} at the maximum strength")
    if search.is_mildest(mild) and search.at(mild).value < lower - search.close:
        notes.append(f"the mildest step already lowers R to {search.at(mild).value:.2f}")
    strengths = CalibratedRange(
        lower=search.end(mild),
        upper=search.end(strong),
        reach=reach,
        note="; ".join(notes),
        evaluations=len(search.known),
        published=_stand_in(entry),
    )
    return with_range(search.scale, strengths)


def with_range(scale: StrengthScale, strengths: CalibratedRange) -> Calibrated:
    """Return a calibrated corruption for a range that has already been found."""
    lower, upper, note = strengths.lower, strengths.upper, strengths.note
    entry = scale.between(lower.strength, upper.strength)
    if not scale.by_severity:
        # Entries that differ from the published ones only in severity are written on one line,
        # without a note.
        ends = f"R {lower.robustness.value:.3f} at the mild end, {upper.robustness.value:.3f} at"
        sentence = f"Calibrated: {ends} the strong end{f' ({note})' if note else ''}."
        entry = replace(entry, note=f"{entry.note} {sentence}".strip())
    return Calibrated(entry=entry, **vars(strengths))


def calibrated_suite(calibrated: Sequence[Calibrated], name: str, title: str, source: str) -> Suite:
    """Return the calibrated corruptions as a suite to be written."""
    return Suite(
        name,
        title,
        source,
        tuple(replace(corruption.entry, suite=name) for corruption in calibrated),
    )


class _RangeSearch:
    """Evaluates R at strengths, but only once for strengths that yield the same images."""

    def __init__(self, judge: RobustnessProbe, scale: StrengthScale, steps: int) -> None:
        self.judge, self.scale, self.steps = judge, scale, steps
        # R changes in steps of one image; no search can be finer than that.
        self.close = max(CLOSE, 0.5 / judge.clean_right)
        self.known: dict[SettledValues, Robustness] = {}
        # Strength 0 is the clean image, where R is 1 by definition.
        self.visited: dict[float, Robustness] = {0.0: Robustness(1.0, 1.0, 1.0)}

    def at(self, strength: float) -> Robustness:
        """Return R at a strength."""
        if strength not in self.visited:
            if self.scale.is_clean(strength):
                self.visited[strength] = self.visited[0.0]
            else:
                step = self.scale.step(strength)
                # Strengths that round to the same parameters yield the same images.
                if step not in self.known:
                    self.known[step] = self.judge.robustness(self.scale, strength)
                self.visited[strength] = self.known[step]
        return self.visited[strength]

    def bracket_strength(self, target: float) -> float:
        """Return a strength with R below the target, or the maximum strength if none is found.

        The search starts at the strong end of the published range. Each step doubles the distance
        from the mild end.
        """
        strength, farthest = STRONG, max(STRONG, self.scale.farthest)
        while self.at(strength).value >= target and strength < farthest:
            # Doubling finds a bracket in few evaluations even if the published range is far too
            # mild.
            strength = min(MILD + 2 * (strength - MILD), farthest)
        return strength

    def crossing(self, target: float, too_mild: float) -> float | None:
        """Return the strength at which R falls to the target, or None if it never does.

        If R jumps past the target, the strength before or after the jump is returned, whichever has
        the closer R. The strength before the jump is not used if it leaves the image clean or its R
        is at least `too_mild`.
        """
        strengths = sorted(self.visited)
        below = next(
            (strength for strength in strengths if self.visited[strength].value < target), None
        )
        if below is None:
            return None
        # One always exists: strength 0 has an R of 1, which is above every target.
        above = strengths[strengths.index(below) - 1]
        # The budget counts evaluations, not halvings: known strengths are free.
        most = len(self.known) + self.steps
        for _ in range(HALVINGS):
            if len(self.known) >= most:
                break
            middle = (above + below) / 2
            value = self.at(middle).value
            if abs(value - target) <= self.close and not self.scale.is_clean(middle):
                return middle
            if value < target:
                below = middle
            else:
                above = middle
        # Integer parameters make R jump: the milder side may not change the image at all.
        if self.scale.is_clean(above) or self.at(above).value >= too_mild:
            return below
        nearer = self.at(above).value - target < target - self.at(below).value
        return above if nearer else below

    def is_mildest(self, strength: float) -> bool:
        """Return whether every milder strength that was evaluated leaves the image clean."""
        settled = self.scale.step(strength)
        return all(
            visited >= strength
            or self.scale.is_clean(visited)
            or self.scale.step(visited) == settled
            for visited in self.visited
        )

    def end(self, strength: float) -> RangeEnd:
        """Return the end of a range at this strength."""
        values = self.scale.values(strength)
        if self.scale.by_severity:
            values = {"severity": self.scale.step(strength)[0]}
        return RangeEnd(strength, values, self.at(strength))


@dataclass(frozen=True)
class CalibrationContent:
    """Content of the JSON file."""

    schema: Literal[1]
    settings: CalibrationFacts
    corruptions: Mapping[str, CalibratedRange]


class CalibrationRecord:
    """The JSON file, to which corruptions are added one at a time; `settings` are the inputs."""

    def __init__(self, out: Path, settings: CalibrationFacts) -> None:
        self.path = record_path(out)
        self.content = CalibrationContent(1, settings, {})
        # An interrupted calibration resumes, but only with the same settings.
        if self.path.exists():
            self.content = _read(self.path)
            known = self.content.settings
            for name, value in settings.items():
                if known.get(name) != value:
                    raise UsageError(
                        f"{self.path} is from a calibration with other settings ({name}:"
                        f" {known.get(name)}, not {value}): choose another --out, or delete it."
                    )

    def known(self, entry: Entry, side: int) -> Calibrated | None:
        """Return the stored range of a corruption, or None if there is none."""
        row = self.content.corruptions.get(entry.name)
        # A changed definition of the corruption makes the stored range invalid.
        if row is None or row.published != _stand_in(entry):
            return None
        return with_range(StrengthScale(entry, side), row)

    def add(self, entry: Entry, calibrated: Calibrated) -> None:
        """Add a corruption, and write the file to disk."""
        values = {name: value for name, value in vars(calibrated).items() if name != "entry"}
        # The whole file is rewritten atomically: it is small, and never half-written.
        rows = {**self.content.corruptions, entry.name: CalibratedRange(**values)}
        self.content = replace(self.content, corruptions=rows)
        write_text(self.path, json.dumps(asdict(self.content), indent=1))


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
        # Strict: numbers in quotes mean that the file was edited or damaged.
        return TypeAdapter(CalibrationContent).validate_json(text, strict=True)
    except OSError as error:
        raise UsageError(f"Cannot read {path}: {error.strerror or error}.") from None
    except ValueError:
        raise UsageError(
            f"{path} already exists and is not from a calibration: choose another --out, or delete "
            "it."
        ) from None
