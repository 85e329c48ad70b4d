"""Printing for commands: consoles that fit the terminal or a file, table cells, notes."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from eyechart.stats.estimate import Estimate
    from eyechart.structure.study_results import AccuracyEstimate

WIDE, ENDLESS = 160, 2000


def wide_console(markdown: bool = False) -> "Console":
    """Return a console as wide as the terminal, or wider if the output is a pipe or Markdown."""
    from rich.console import Console

    if markdown:
        return Console(width=ENDLESS)
    console = Console()
    # rich assumes 80 columns where there is no terminal
    return console if console.is_terminal else Console(width=WIDE)


def share_text(share: "AccuracyEstimate | Estimate | None") -> str:
    """Return a fraction with its interval in percent: "61.5 (50.3–71.6)"; "–" for None."""
    if share is None:
        return "–"
    low, high = share.interval if isinstance(share.interval, tuple) else share.interval()
    return f"{100 * share.value:.1f} ({100 * low:.1f}–{100 * high:.1f})".replace("-", "−")


def note_left_out(names: Iterable[str]) -> None:
    """Print a note for each corruption that is skipped because a file it needs is missing."""
    from eyechart.corruptions.suites.assets import left_out_notes

    for note in left_out_notes(names):
        print(f"Note: {note}")
