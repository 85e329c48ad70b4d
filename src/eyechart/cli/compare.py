"""`eyechart compare`: a leaderboard of finished runs, and differences between rankings."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

from eyechart.cli.shared.derived_options import derived_options, examples
from eyechart.cli.shared.output_files import Latex, check_latex
from eyechart.cli.shared.printing import print_notes, print_written, wide_console
from eyechart.core.csv_table import csv_text
from eyechart.core.errors import UsageError
from eyechart.core.options import Option
from eyechart.core.phrases import at_least, count_of
from eyechart.core.registry import one_of
from eyechart.core.storage.files import write_text
from eyechart.images.labels.spaces import SCORED_SPACES
from eyechart.scores.baseline_names import BASELINES, ROBUSTBENCH_ALEXNET

Result = TypeVar("Result")

ENDLESS = 2000
"""Width of tables in Markdown."""

if TYPE_CHECKING:
    from rich.console import Console

    from eyechart.results.published_results import PublishedTable
    from eyechart.results.ranking_comparison import Rankings
    from eyechart.results.standings import Standings


Runs = Annotated[
    tuple[Path, ...],
    Option(
        help="Run folders (--out of eyechart evaluate).",
        group="Data",
        metavar="RUN...",
        path="folder",
        is_argument=True,
    ),
]


@examples(
    "eyechart compare runs/vcr runs/imagenet-c --out comparison",
    "eyechart compare runs/imagenet-c --published imagenet-c --by mce",
)
@derived_options
def compare(
    runs: Runs = (),
    published: Annotated[
        tuple[str, ...],
        Option(
            help="Also show published results: a suite (imagenet-c, imagenet-noc, "
            "imagenet-3dcc,"
            " vcr), a table from eyechart list published, or a CSV file of accuracies by severity;"
            " repeatable.",
            group="Data",
            metavar="NAME",
        ),
    ] = (),
    labels: Annotated[
        str | None, Option(help=f"Label space: {one_of(SCORED_SPACES)}.", group="Data")
    ] = None,
    by: Annotated[
        str | None,
        Option(
            help="Score to rank by: mce, relative_mce, error, r_a, r_p, hmri_a, clean_accuracy, …",
            group="Curves and statistics",
        ),
    ] = None,
    baseline: Annotated[
        str | None,
        Option(
            help=f"Show only results with this CE baseline: {one_of(BASELINES)}; default for CSV"
            f" files: {ROBUSTBENCH_ALEXNET}.",
            group="Curves and statistics",
        ),
    ] = None,
    markdown: Annotated[bool, Option(help="Print the tables as Markdown.", group="Output")] = False,
    out: Annotated[
        Path | None,
        Option(
            help="Also write leaderboard.csv and pairs.csv, rankings.json (with several suites),"
            " and published.csv and published-errors.csv (with published results).",
            group="Output",
            metavar="FOLDER",
            path="folder",
        ),
    ] = None,
    latex: Latex = None,
) -> None:
    """Rank the models of finished runs, with paired tests.

    Runs on the same test set are ranked together. With runs on ImageNet-C and VCR, rankings by
    fixed and by continuous severities are compared. With runs on ImageNet-C and ImageNet-NOC,
    rankings by the two benchmarks are compared. Published results are ranked together with runs on
    the same images.
    """
    from rich.console import Console

    from eyechart.results.ranking_comparison import check_baseline, choose_published
    from eyechart.results.runs import make_leaderboards, read_run
    from eyechart.results.standings import check_rankable, rank_models

    if not runs and not published:
        raise UsageError("Give at least one run folder, or --published NAME for published results.")
    if out is not None and out.exists() and not out.is_dir():
        raise UsageError(f"Cannot write into {out}: it is a file, not a folder.")
    if latex is not None and not runs:
        raise UsageError("--latex writes leaderboards of runs: give at least one run folder.")
    if by is not None:
        check_rankable(by)
    check_latex(latex)
    tables = choose_published(published, baseline)
    boards = make_leaderboards([read_run(run) for run in runs])
    check_baseline(boards, baseline)
    standings = [rank_models(board, labels, by) for board in boards]
    # lines of Markdown are not broken
    console = Console(width=ENDLESS) if markdown else wide_console()
    written, benchmarks = (
        _print_runs(console, standings, labels, by, markdown) if standings else ({}, [])
    )
    if tables:
        written |= _print_published(console, standings, tables, markdown)
    paths = [write_text(out / name, text) for name, text in written.items()] if out else []
    if latex is not None:
        from eyechart.reports.latex import comparison_latex

        write_text(latex, comparison_latex(standings, benchmarks))
    print_written((*paths, latex))


def _print_runs(
    console: "Console",
    ranked: "Sequence[Standings]",
    labels: str | None,
    by: str | None,
    markdown: bool,
) -> "tuple[dict[str, str], list[Rankings]]":
    """Print the leaderboards and the differences between rankings.

    Returns the contents of the files to write, by file name, and the rankings by two benchmarks (an
    empty list if there is only one benchmark).
    """
    from eyechart.reports.terminal.leaderboard import comparison_texts, coverage_table
    from eyechart.results.ranking_comparison import (
        TWO_BENCHMARKS,
        fixed_against_continuous,
        images_note,
        two_benchmarks,
    )

    for standings in ranked:
        print_board(console, standings, markdown, by)
        if standings.verdict:
            print_notes([f"{standings.verdict}."])
        print()
    boards = [standings.board for standings in ranked]
    discrete = _or_say(lambda: fixed_against_continuous(boards, labels))
    if discrete is not None:
        print("Fixed severities (ImageNet-C) compared with continuous ones (VCR)")
        print_notes([discrete.note])
        if discrete.missing:
            extra = " (gaussian_blur is one of ImageNet-C's extras)"
            note = extra if "gaussian_blur" in discrete.missing else ""
            print(f"Corruptions in only one of the suites: {', '.join(discrete.missing)}{note}.")
        if discrete.coverage:
            if discrete.corruptions:
                _print_rankings(console, discrete.corruptions, markdown)
            fewest = at_least(discrete.fewest_in_covered, "sample")
            print(f"Fraction of the 39 Δv bins that have {fewest}:")
            console.print(coverage_table(discrete, markdown))
    benchmarks = _or_say(lambda: two_benchmarks(boards, labels)) or []
    if benchmarks:
        print("ImageNet-C compared with ImageNet-NOC, one metric per line")
        pair = [board for board in boards if board.suite in TWO_BENCHMARKS]
        print_notes([images_note(pair)])
        _print_rankings(console, benchmarks, markdown)
    return comparison_texts(ranked, discrete, benchmarks), benchmarks


def _print_published(
    console: "Console",
    boards: "Sequence[Standings]",
    tables: "Sequence[PublishedTable]",
    markdown: bool,
) -> dict[str, str]:
    """Print published results, ranked together with comparable runs; return files to write.

    The files are returned as a mapping from file name to content.
    """
    from eyechart.corruptions.suites.suite import split_variant
    from eyechart.reports.terminal.leaderboard import (
        error_lines,
        published_lines,
        published_rows,
        published_source,
        published_title,
        ranked_rows,
        ranked_title,
    )
    from eyechart.results.ranking_comparison import rank_together

    together = [ranked for board in boards if (ranked := rank_together(board, tables)) is not None]
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
        is_like_a_run = any(split_variant(board.board.suite)[0] == table.suite for board in boards)
        unranked = "these results are not ranked with the runs: images or baseline differ."
        print_notes([table.note, unranked if is_like_a_run else ""])
        print()
    return {
        "published.csv": csv_text(published_lines(tables, together)),
        "published-errors.csv": csv_text(error_lines(tables)),
    }


def _or_say(compare: "Callable[[], Result]") -> "Result | None":
    """Return the comparison; if it is not possible, print the reason and return None."""
    try:
        return compare()
    except UsageError as error:
        print_notes([str(error)])
        return None


def print_board(
    console: "Console", standings: "Standings", markdown: bool = False, by: str | None = None
) -> None:
    """Print one leaderboard and the meaning of its column of leads."""
    from eyechart.pipeline.scoring.caveats import MARK
    from eyechart.reports.terminal.leaderboard import board_tables, board_title

    print(board_title(standings))
    for table in board_tables(standings, console.width, markdown):
        console.print(table)
    print_notes(
        f"{MARK} {model} was trained on {', '.join(known)}, so its scores do not measure robustness"
        " to unseen corruptions."
        for model in standings.order
        if (known := standings.board.marked(model))
    )
    if by is not None and by != standings.by:
        print_notes([f"These runs have no {by}, so models are ranked by {standings.by}."])
    if standings.pairs:
        pairs = count_of(len(standings.pairs), "pair")
        print(
            "Ahead of: models with a significantly worse score (paired bootstrap tests over images,"
            f" p < 0.05 after Holm correction for {pairs})."
        )


def _print_rankings(console: "Console", rankings: "Sequence[Rankings]", markdown: bool) -> None:
    from eyechart.reports.terminal.leaderboard import rankings_tables, swap_lines

    for table in rankings_tables(rankings, console.width, markdown):
        console.print(table)
    lines = swap_lines(rankings)
    count = sum(len(ranking.swaps) for ranking in rankings)
    print(
        f"Pairs of models that the two rankings order differently: {count}; {len(lines)} of them"
        " are significant in both rankings."
    )
    for line in lines:
        print(f"  {line}")
    print()
