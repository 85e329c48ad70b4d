"""Where tables are printed: as wide as the terminal, or wide enough for a file."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

WIDE, ENDLESS = 160, 2000


def wide_console(markdown: bool = False) -> "Console":
    """Return a console; a file or a pipe has no edge to wrap at, and Markdown must not wrap."""
    from rich.console import Console

    if markdown:
        return Console(width=ENDLESS)
    console = Console()
    return console if console.is_terminal else Console(width=WIDE)
