"""What retraining changed, as a table for the terminal and as a file: before, after, and by chance?

The scores are those of Table 3 of the VCR paper, with intervals and tests.
"""

import csv
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eyechart.core.errors import UsageError
from eyechart.core.files import atomic_file
from eyechart.pipeline.caveats import MARK
from eyechart.reports.terminal.columns import stacked
from eyechart.reports.words import space_title
from eyechart.scores.registry import SCORES
from eyechart.stats.estimate import Estimate
from eyechart.training.changes import ScoreChange
from eyechart.training.retrain import Retrained

if TYPE_CHECKING:
    from rich.table import Table

HEAD = ("corruption", "score", "before", "after", "after − before", "p, Holm", "95 % intervals")


def retraining_tables(retrained: Retrained, width: int) -> Iterator[tuple[str, list["Table"]]]:
    """Yield a title and tables no wider than `width` for each label space."""
    marked = retrained.evaluation.models[1].marked
    for space in dict.fromkeys(change.space for change in retrained.changes):
        scores = retrained.evaluation.models[0].spaces.get(space)
        assert scores is not None
        changes = [change for change in retrained.changes if change.space == space]
        rows = [_row(change, change.corruption in marked, scores.verdict) for change in changes]
        title = f"Before and after retraining, {space_title(space)} ({scores.pictures} pictures)"
        yield title, list(stacked(HEAD, rows, width=width, kept=2, left=(0, 1, 6)))


def _row(change: ScoreChange, is_marked: bool, verdict: str) -> list[str]:
    from rich.markup import escape

    low, high = change.difference.interval
    name = escape(change.corruption or "clean") + (f" {MARK}" if is_marked else "")
    return [
        name,
        SCORES[change.score].title,
        _number(change.before),
        _number(change.after),
        f"{change.difference.difference:+.3f} [dim]{low:+.2f} to {high:+.2f}[/dim]",
        "no claim" if verdict else _chance(change.corrected),
        "no claim" if verdict else "apart" if change.is_apart else "overlap",
    ]


def _number(estimate: Estimate) -> str:
    low, high = estimate.interval95
    return f"{estimate.value:.3f} [dim]{low:.2f}–{high:.2f}[/dim]"


def _chance(p_value: float) -> str:
    return "< 0.001" if p_value < 0.001 else f"{p_value:.3f}"


def write_changes(retrained: Retrained, path: Path) -> Path:
    """Write one line per label space, corruption and score, and return the path."""
    rows = [_line(retrained, change) for change in retrained.changes]
    file = StringIO()
    writer = csv.DictWriter(file, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    try:
        with atomic_file(path) as temporary:
            temporary.write_text(file.getvalue(), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"Cannot write {path}: {error.strerror or error}.") from None
    return path


def _line(retrained: Retrained, change: ScoreChange) -> dict[str, Any]:
    before, after = retrained.evaluation.models
    line: dict[str, Any] = {
        "before": before.name,
        "after": after.name,
        "space": change.space,
        "corruption": change.corruption or "clean",
        "trained_on": "yes" if change.corruption in after.marked else "no",
        "score": change.score,
    }
    for when, estimate in (("before", change.before), ("after", change.after)):
        line |= {f"{when}_value": estimate.value}
        line |= dict(zip((f"{when}_low95", f"{when}_high95"), estimate.interval95, strict=True))
    low, high = change.difference.interval
    line |= {"difference": change.difference.difference, "low95": low, "high95": high}
    line |= {"p_value": change.difference.p_value, "p_corrected": change.corrected}
    line = {
        name: round(value, 6) if isinstance(value, float) else value for name, value in line.items()
    }
    note = before.spaces[change.space].verdict
    return {**line, "intervals_overlap": "no" if change.is_apart else "yes", "note": note}
