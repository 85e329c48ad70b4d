"""What commands print: tables as wide as the terminal or wide enough for a file, cells, notes."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from eyechart.stats.estimate import Estimate
    from eyechart.structure.study_results import AccuracyEstimate

WIDE, ENDLESS = 160, 2000


def wide_console(markdown: bool = False) -> "Console":
    """Return a console; a file or a pipe has no edge to wrap at, and Markdown must not wrap."""
    from rich.console import Console

    if markdown:
        return Console(width=ENDLESS)
    console = Console()
    return console if console.is_terminal else Console(width=WIDE)


def share_text(share: "AccuracyEstimate | Estimate | None") -> str:
    """Return a share and its interval in percent: "61.5 (50.3–71.6)"; a dash for none."""
    if share is None:
        return "–"
    low, high = share.interval if isinstance(share.interval, tuple) else share.interval()
    return f"{100 * share.value:.1f} ({100 * low:.1f}–{100 * high:.1f})".replace("-", "−")


def note_left_out(names: Iterable[str]) -> None:
    """Say of each of these corruptions that it is left out, because it lacks what it needs."""
    from eyechart.suites.assets import left_out_notes

    for note in left_out_notes(names):
        print(f"Note: {note}")
