"""docs/papers.md lists every figure and table of the papers, with a command or a reason."""

import re

import pytest

from places import ROOT

PAGE = (ROOT / "docs" / "papers.md").read_text("utf-8")

LAST = {
    "VCR-Bench": {"Fig.": 33, "Table": 3, "Fig. of 2023": 5, "Table of 2023": 1},
    "ImageNet-C and ICONS-50": {"Fig.": 8, "Table": 2},
    "ImageNet-NOC": {"Fig.": 8, "Table": 8},
}
"""The last numbers, counted in the papers; "of 2023" is the earlier version of VCR-Bench."""

NUMBERS = re.compile(r"\b(Fig|Table)s?\.? (\d+(?:[–, ]+\d+)*)")
OLD = " of 2023"
NOTHING = "–"


def rows_of(section):
    """Return the cells of each row below a heading, without the head of the table."""
    text = PAGE.split(f"\n## {section}\n")[1].split("\n## ")[0]
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[1:]]


def listed(names):
    """Return what a first cell lists: ("Fig.", 4) of "Fig. 4", ("Fig. of 2023", 1), …"""
    found = []
    for part in names.split(";"):
        for kind, numbers in NUMBERS.findall(part):
            title = ("Fig." if kind == "Fig" else kind) + (OLD if OLD in part else "")
            for item in re.split(r", *", numbers):
                low, *high = map(int, item.split("–"))
                found += [(title, number) for number in range(low, (high or [low])[0] + 1)]
    return found


def test_numbers_are_read_with_their_ranges():
    assert listed("Fig. 5, Figs 13–15; Figs 3, 4 of 2023") == [
        ("Fig.", 5), ("Fig.", 13), ("Fig.", 14), ("Fig.", 15),
        ("Fig. of 2023", 3), ("Fig. of 2023", 4),
    ]  # fmt: skip
    assert listed("Table 2, Tables 7, 8") == [("Table", 2), ("Table", 7), ("Table", 8)]


def test_the_page_has_every_paper():
    assert set(re.findall(r"^## (.+)$", PAGE, re.MULTILINE)) == {*LAST, "Citations"}


@pytest.mark.parametrize("section", LAST)
def test_every_figure_and_table_is_listed_once(section):
    found = [name for row in rows_of(section) for name in listed(row[0])]
    wanted = [(kind, n) for kind, last in LAST[section].items() for n in range(1, last + 1)]
    assert sorted(found) == sorted(wanted)


@pytest.mark.parametrize("section", LAST)
def test_every_row_has_a_command_or_says_why_not(section):
    for row in rows_of(section):
        assert len(row) == 4, row
        _, shows, here, differs = row
        assert shows
        # `eyechart report --figures figures`, at the top of the page, writes figures/
        is_made = "`eyechart " in here or "`figures/" in here
        assert is_made or differs not in ("", NOTHING), row
        # what is no command is a page that explains it, or nothing
        assert is_made or here == NOTHING or re.fullmatch(r"\[[^\]]+\]\(\S+\.md\S*\)", here), row
