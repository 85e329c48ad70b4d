"""Shared parts of LaTeX tables: header comment, rows, and escaped text."""

import re
from collections.abc import Sequence

MADE_BY = "% Made by eyechart."
"""First words of every table, by which files written by eyechart are recognized."""

SPECIAL = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#",
    "%": r"\%", "_": r"\_", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}",
}  # fmt: skip
LAST = 0x17F
"""Last code point that LaTeX typesets without additional packages."""


def lines_of_table(
    caption: str, columns: str, heads: Sequence[str], rows: Sequence[Sequence[str]]
) -> str:
    """Return a table whose header and rows are already LaTeX, ready to be included."""
    needs = r"% This table needs \usepackage{booktabs}."
    return "\n".join([f"{MADE_BY} {plain(caption)}", needs, *tabular(columns, heads, rows), ""])


def tabular(columns: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return only the lines of the tabular environment."""
    return [
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        *heads,
        r"\midrule",
        *map(table_line, rows),
        r"\bottomrule",
        r"\end{tabular}",
    ]


def upright(text: str) -> str:
    """Return text rotated by 90°, for narrow columns."""
    return rf"\rotatebox{{90}}{{{tex(text)}}}"


def table_line(cells: Sequence[str]) -> str:
    """Return one line of a table."""
    return " & ".join(cells) + r" \\"


def tex(text: str) -> str:
    """Return text escaped for LaTeX; unsupported characters become "?"."""
    escaped = "".join(SPECIAL.get(letter, letter) for letter in plain(text))
    # Two hyphens would be typeset as a dash.
    return re.sub(r"-(?=-)", "-{}", escaped)


def plain(text: str) -> str:
    """Return text on one line, without characters that LaTeX does not support."""
    return "".join(
        letter if ord(letter) <= LAST and letter.isprintable() else "?"
        for letter in " ".join(text.split())
    )
