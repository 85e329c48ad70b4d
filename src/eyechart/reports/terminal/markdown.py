"""Markdown that shows any text literally: escaped words, code, lists and tables."""

import re
from collections.abc import Iterable, Sequence

SPECIAL = re.compile(r"[\\`*{}\[\]#]|(?<![^\W_])_|_(?![^\W_])")
"""Characters that every dialect of Markdown treats as markup and can escape; underscores only at
the ends of words.
"""

ENTITIES = {character: f"&#{ord(character)};" for character in "|~$@"} | {
    "&": "&amp;",
    "<": "&lt;",
    ">": "&gt;",
}
"""Characters that are markup only in HTML or in some dialects of Markdown."""

LINE_START = re.compile(r"^(\d*)([-+.)])")
"""Text at the start of a line that would begin a list."""


def one_line(text: str) -> str:
    """Return text without unprintable characters (such as line breaks) or double spaces."""
    return " ".join(
        "".join(character if character.isprintable() else " " for character in text).split()
    )


def escape(text: str) -> str:
    """Return text that is shown literally on one line: no markup, no HTML, no link."""
    line = "".join(ENTITIES.get(letter, letter) for letter in one_line(text))
    # Entities are matched first, so that the "#" inside them is not escaped.
    line = re.sub(r"&#\d+;|" + SPECIAL.pattern, _literal, line)
    line = LINE_START.sub(lambda match: f"{match[1]}\\{match[2]}", line)
    # Bare addresses would become links.
    return line.replace("://", "&#58;//").replace("www.", "www&#46;")


def _literal(match: re.Match[str]) -> str:
    return match[0] if len(match[0]) > 1 else f"\\{match[0]}"


def code(text: str) -> str:
    """Return text as inline code, which cannot be used in a table cell."""
    line = one_line(text)
    fence = "`" * (_longest_run(line) + 1)
    space = " " if line.startswith("`") or line.endswith("`") or not line else ""
    return f"{fence}{space}{line}{space}{fence}"


def block(text: str, language: str = "") -> str:
    """Return text as a code block whose closing fence cannot occur in the text."""
    fence = "`" * max(3, _longest_run(text) + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def bullets(lines: Iterable[str]) -> str:
    """Return a list of lines that are already Markdown."""
    return "\n".join(f"- {line}" for line in lines)


def table(head: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """Return a table of cells that are already Markdown.

    `left` is the number of left-aligned columns; the columns after them are right-aligned.
    """
    rule = [":--" if index < left else "--:" for index in range(len(head))]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *rows))


def _longest_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)
