"""Markdown that shows any text as it is: escaped words, code, lists and tables."""

import re
from collections.abc import Iterable, Sequence

SPECIAL = re.compile(r"[\\`*{}\[\]#]|(?<![^\W_])_|_(?![^\W_])")
"""What Markdown may take for mark-up, as all its kinds escape it; of underscores those at the ends
of words."""

ENTITIES = {character: f"&#{ord(character)};" for character in "|~$@"} | {
    "&": "&amp;",
    "<": "&lt;",
    ">": "&gt;",
}
"""What only some kinds of Markdown take for mark-up, and HTML."""

LINE_START = re.compile(r"^(\d*)([-+.)])")
"""What would be the start of a list."""


def one_line(text: str) -> str:
    """Return text without what cannot be printed, such as line ends, and without double spaces."""
    return " ".join(
        "".join(character if character.isprintable() else " " for character in text).split()
    )


def escape(text: str) -> str:
    """Return text that reads as given, on one line: no mark-up, no HTML, no link."""
    line = "".join(ENTITIES.get(letter, letter) for letter in one_line(text))
    # in entities, # is at home
    line = re.sub(r"&#\d+;|" + SPECIAL.pattern, _literal, line)
    line = LINE_START.sub(lambda match: f"{match[1]}\\{match[2]}", line)
    # bare addresses become links without being asked to
    return line.replace("://", "&#58;//").replace("www.", "www&#46;")


def _literal(match: re.Match[str]) -> str:
    return match[0] if len(match[0]) > 1 else f"\\{match[0]}"


def code(text: str) -> str:
    """Return text as code within a line, not for a cell of a table."""
    line = one_line(text)
    fence = "`" * (_longest_run(line) + 1)
    space = " " if line.startswith("`") or line.endswith("`") or not line else ""
    return f"{fence}{space}{line}{space}{fence}"


def block(text: str, language: str = "") -> str:
    """Return text as a block of code that nothing within can end."""
    fence = "`" * max(3, _longest_run(text) + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def bullets(lines: Iterable[str]) -> str:
    """Return a list of lines that are Markdown already."""
    return "\n".join(f"- {line}" for line in lines)


def table(head: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """Return a table of cells that are Markdown already; the first `left` columns flush left."""
    rule = [":--" if index < left else "--:" for index in range(len(head))]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *rows))


def _longest_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)
