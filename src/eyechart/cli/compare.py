"""`eyechart compare`: a leaderboard of finished runs, and where rankings disagree."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from eyechart.cli.paths import folder
from eyechart.core.errors import UsageError

Result = TypeVar("Result")

if TYPE_CHECKING:
    from rich.console import Console

    from eyechart.evaluation.comparison import Standings
    from eyechart.evaluation.rankings import Discrete, Rankings


def compare(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN...", parser=folder, help="Folders that eyechart evaluate wrote (--out)."
        ),
    ],
    by: Annotated[
        str | None,
        typer.Option(
            help="Rank by this score: mce, relative_mce, error, r_a, r_p, hmri_a, clean_accuracy, …"
        ),
    ] = None,
    labels: Annotated[
        str | None, typer.Option(help="In this label space: native or entry16.")
    ] = None,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the tables as Markdown.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            parser=folder,
            help="Also write leaderboard.csv, pairs.csv and, of several suites, rankings.json.",
        ),
    ] = None,
) -> None:
    """Print models in order, with intervals of their ranks and paired tests, from finished runs.

    Runs of the same test are put together. With runs of ImageNet-C and VCR, also how fixed and
    continuous severities rank the models; with ImageNet-C and ImageNet-NOC, how both benchmarks do.
    """
    from eyechart.cli.tables import wide_console
    from eyechart.evaluation.comparison import stand
    from eyechart.evaluation.rankings import (
        fixed_against_continuous,
        pictures_note,
        two_benchmarks,
    )
    from eyechart.evaluation.runs import make_boards, read_run

    if out is not None and Path(out).exists() and not Path(out).is_dir():
        raise UsageError(f"Cannot write into {out}: it is a file, not a folder.")
    found = make_boards([read_run(Path(run)) for run in runs])
    boards = [stand(board, labels, by) for board in found]
    console = wide_console(markdown)
    for standings in boards:
        print_board(console, standings, markdown, by)
    discrete = _or_say(lambda: fixed_against_continuous(found, labels))
    if discrete is not None:
        _print_discrete(console, discrete, markdown)
    benchmarks = _or_say(lambda: two_benchmarks(found, labels)) or []
    if benchmarks:
        print("ImageNet-C against ImageNet-NOC, each line by one and the same metric")
        pair = [board for board in found if board.suite in ("imagenet-c", "imagenet-noc")]
        _print_note(pictures_note(pair))
        _print_rankings(console, benchmarks, markdown)
    if out is not None:
        from eyechart.reports.leaderboard import write_comparison

        print("Written:")
        for path in write_comparison(Path(out), boards, discrete, benchmarks):
            print(f"  {path}")


def _or_say(compare: "Callable[[], Result]") -> "Result | None":
    """Return what a further comparison finds; boards are worth having without it."""
    try:
        return compare()
    except UsageError as error:
        _print_note(str(error))
        return None


def _print_note(text: str) -> None:
    if text:
        print(f"Note: {text}")


def print_board(
    console: "Console", standings: "Standings", markdown: bool = False, by: str | None = None
) -> None:
    """Print one board, and what its last column means."""
    from eyechart.evaluation.trained_on import MARK
    from eyechart.reports.leaderboard import board_tables, board_title

    print(board_title(standings))
    for table in board_tables(standings, console.width, markdown):
        console.print(table)
    count = len(standings.pairs)
    for model in standings.order:
        if known := standings.board.marked(model):
            names = ", ".join(known)
            _print_note(f"{MARK} {model} was trained on {names}: no test of unforeseen corruption.")
    if by is not None and by != standings.by:
        _print_note(f"These runs have no {by}, so models are ranked by {standings.by}.")
    if standings.verdict:
        pictures = standings.board.pictures(standings.space)
        _print_note(f"{pictures} pictures: {standings.verdict}.")
    elif count:
        pairs = "1 pair" if count == 1 else f"{count} pairs"
        print(
            "Ahead of: paired bootstrap tests over pictures, p < 0.05 after Holm's correction for"
            f" {pairs}."
        )
    print()


def _print_discrete(console: "Console", found: "Discrete", markdown: bool) -> None:
    from eyechart.reports.leaderboard import coverage_table

    print("Fixed severities (ImageNet-C) against continuous ones (VCR)")
    _print_note(found.note)
    if found.missing:
        extra = " (gaussian_blur is one of ImageNet-C's extras)"
        which = extra if "gaussian_blur" in found.missing else ""
        print(f"Not in both: {', '.join(found.missing)}{which}.")
    if not found.corruptions:
        return
    _print_rankings(console, found.corruptions, markdown)
    print(f"Share of 39 bins of Δv that hold at least {found.least} pictures:")
    console.print(coverage_table(found, markdown))


def _print_rankings(console: "Console", found: "Sequence[Rankings]", markdown: bool) -> None:
    from eyechart.reports.leaderboard import rankings_tables, swap_lines

    for table in rankings_tables(found, console.width, markdown):
        console.print(table)
    lines = swap_lines(found)
    count = sum(len(each.swaps) for each in found)
    few = next((each.verdict for each in found if each.verdict), "")
    sure = few or f"{len(lines)} of them by more than chance in both"
    print(f"Pairs of models in opposite orders: {count}; {sure}.")
    for line in lines:
        print(f"  {line}")
    print()
