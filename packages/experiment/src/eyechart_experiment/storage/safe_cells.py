"""Cells of CSV tables with texts from participants' browsers, which must not become formulas."""

Cell = str | int | float | bool | None

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""First characters that make a spreadsheet treat a text as a formula."""

BREAKS = str.maketrans("\r\n\0", "   ")


def safe(cell: Cell) -> str:
    """Return a cell's text: numbers unchanged, texts on one line, and formulas quoted."""
    if cell is None or cell != cell:  # NaN
        return ""
    # Before numbers, because a bool is an int.
    if isinstance(cell, bool):
        return str(int(cell))
    if isinstance(cell, int | float):
        return str(cell)
    line = cell.translate(BREAKS)
    # By the original text: a leading line break is a space in `line` already.
    return f"'{line}" if cell.startswith(FORMULA) else line
