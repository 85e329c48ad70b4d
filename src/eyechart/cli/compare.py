"""`eyechart compare`: a leaderboard of finished runs, and where rankings disagree."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from eyechart.cli.shared.paths import folder
from eyechart.core.errors import UsageError

Result = TypeVar("Result")

if TYPE_CHECKING:
    from rich.console import Console

    from eyechart.results.comparison import Standings
    from eyechart.results.published_results import PublishedTable
    from eyechart.results.rankings import Discrete, Rankings


def compare(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="RUN...", parser=folder, help="Folders that eyechart evaluate wrote (--out)."
        ),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(
            help="Rank by this score: mce, relative_mce, error, r_a, r_p, hmri_a, clean_accuracy, …"
        ),
    ] = None,
    labels: Annotated[
        str | None, typer.Option(help="In this label space: native or entry16.")
    ] = None,
    published: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Also show published results: of a suite (imagenet-c, imagenet-noc,"
            " imagenet-3dcc, vcr), of one table (eyechart list published), or a CSV file of"
            " accuracies at each severity; repeatable.",
        ),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(
            help="Only results relative to these errors, which a CSV file of accuracies is divided"
            " by: alexnet, noc-alexnet, robustbench-alexnet. Default for files:"
            " robustbench-alexnet."
        ),
    ] = None,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the tables as Markdown.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            parser=folder,
            help="Also write leaderboard.csv, pairs.csv and, of several suites, rankings.json; of"
            " published results published.csv and published-errors.csv.",
        ),
    ] = None,
) -> None:
    """Print models in order, with intervals of their ranks and paired tests, from finished runs.

    Runs of the same test are put together. With runs of ImageNet-C and VCR, also how fixed and
    continuous severities rank the models; with ImageNet-C and ImageNet-NOC, how both benchmarks do.
    Published results are ranked with runs on the same images, and stand apart otherwise.
    """
    from eyechart.cli.shared.console import wide_console
    from eyechart.results.comparison import check_rankable, stand
    from eyechart.results.published_rows import check_baseline, choose_published
    from eyechart.results.runs import make_boards, read_run

    if not runs and not published:
        raise UsageError(
            "Give the folder of at least one run, or --published NAME for published results."
        )
    if by is not None:
        check_rankable(by)
    if out is not None and Path(out).exists() and not Path(out).is_dir():
        raise UsageError(f"Cannot write into {out}: it is a file, not a folder.")
    tables = choose_published(published or [], baseline)
    found = make_boards([read_run(Path(run)) for run in runs or []])
    check_baseline(found, baseline)
    boards = [stand(board, labels, by) for board in found]
    console = wide_console(markdown)
    written = _print_runs(console, boards, labels, by, markdown) if boards else {}
    written |= _print_published(console, boards, tables, markdown) if tables else {}
    if out is not None:
        from eyechart.reports.terminal.leaderboard import write_texts

        print("Written:")
        for path in write_texts(Path(out), written):
            print(f"  {path}")


def _print_runs(
    console: "Console",
    boards: "Sequence[Standings]",
    labels: str | None,
    by: str | None,
    markdown: bool,
) -> dict[str, str]:
    """Print the boards and how rankings differ; return what files would hold."""
    from eyechart.reports.terminal.leaderboard import comparison_texts
    from eyechart.results.rankings import (
        fixed_against_continuous,
        pictures_note,
        two_benchmarks,
    )

    for standings in boards:
        print_board(console, standings, markdown, by)
    found = [standings.board for standings in boards]
    discrete = _or_say(lambda: fixed_against_continuous(found, labels))
    if discrete is not None:
        _print_discrete(console, discrete, markdown)
    benchmarks = _or_say(lambda: two_benchmarks(found, labels)) or []
    if benchmarks:
        print("ImageNet-C against ImageNet-NOC, each line by one and the same metric")
        pair = [board for board in found if board.suite in ("imagenet-c", "imagenet-noc")]
        _print_note(pictures_note(pair))
        _print_rankings(console, benchmarks, markdown)
    return comparison_texts(boards, discrete, benchmarks)


def _print_published(
    console: "Console",
    boards: "Sequence[Standings]",
    tables: "Sequence[PublishedTable]",
    markdown: bool,
) -> dict[str, str]:
    """Print published results, ranked with runs or apart; return what files would hold."""
    from eyechart.reports.terminal.leaderboard import csv_text
    from eyechart.reports.terminal.published_tables import (
        error_lines,
        published_lines,
        published_rows,
        published_source,
        published_title,
        ranked_rows,
        ranked_title,
    )
    from eyechart.results.published_rows import rank_together

    together = [own for board in boards if (own := rank_together(board, tables)) is not None]
    for ranked in together:
        print(ranked_title(ranked))
        for part in ranked_rows(ranked, console.width, markdown):
            console.print(part)
        for table in ranked.tables:
            print(published_source(table))
        print()
    is_ranked = {table.name for ranked in together for table in ranked.tables}
    for table in tables:
        if table.name in is_ranked:
            continue
        print(published_title(table))
        for part in published_rows(table, console.width, markdown):
            console.print(part)
        print(published_source(table))
        _print_note(table.note)
        if any(board.board.suite == table.suite for board in boards):
            _print_note("other images or another baseline than the runs: not ranked with them.")
        print()
    return {
        "published.csv": csv_text(published_lines(tables, together)),
        "published-errors.csv": csv_text(error_lines(tables)),
    }


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
    from eyechart.pipeline.caveats import MARK
    from eyechart.reports.terminal.leaderboard import board_tables, board_title

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
    from eyechart.reports.terminal.leaderboard import coverage_table

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
    from eyechart.reports.terminal.leaderboard import rankings_tables, swap_lines

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
