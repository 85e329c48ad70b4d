"""Where tables are printed: as wide as the terminal, or wide enough for a file."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

WIDE = 160


def wide_console() -> "Console":
    """Return a console; a file or a pipe has no edge to wrap at."""
    from rich.console import Console

    console = Console()
    return console if console.is_terminal else Console(width=WIDE)
