"""`eyechart overlap select`: find the largest benchmark without overlap, as a suite."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from eyechart.cli.overlap.matrices import draw_panel, matrix_among
from eyechart.cli.shared.derived_options import Only, derived_options, examples
from eyechart.cli.shared.output_files import FigureFile, check_figure_file, check_table
from eyechart.cli.shared.printing import print_notes, print_table, print_written
from eyechart.core.arguments import resolved_path
from eyechart.core.errors import UsageError
from eyechart.core.options import Option
from eyechart.core.registry import unknown_name
from eyechart.corruptions.suites.published import PUBLISHED
from eyechart.overlap.overlap_settings import MatrixSettings

if TYPE_CHECKING:
    from eyechart.corruptions.suites.suite import Suite
    from eyechart.overlap.selection import Selection

TIES = 5
"""Maximum number of equally good sets that are printed."""


@examples(
    "eyechart overlap select eyechart-overlap --threshold 0.1 --out selected.yaml",
    "eyechart overlap select overlap.csv --among imagenet-c --threshold 0.5",
)
@derived_options
def select(
    matrix: Annotated[
        Path,
        Option(
            help="Overlap matrix (.csv), accuracy table (.csv), or study folder.",
            group="Data",
            metavar="MATRIX",
            path="folder or file",
            is_argument=True,
        ),
    ],
    threshold: Annotated[
        float | None,
        Option(
            help="Maximum overlap of two corruptions, such as 0.1.",
            group="Curves and statistics",
        ),
    ] = None,
    every: Annotated[
        bool,
        Option(
            help="Print the selection for every threshold.",
            group="Curves and statistics",
            flags=("--all",),
        ),
    ] = False,
    among: Annotated[
        tuple[str, ...],
        Option(
            help="Select only from corruptions of this suite; repeatable.",
            group="Corruptions",
            metavar="SUITE",
        ),
    ] = (),
    suites: Annotated[
        tuple[str, ...],
        Option(
            help="With --out: suite that defines the corruptions; repeatable; if omitted, the"
            " study's suite or all published suites.",
            group="Corruptions",
            flags=("--suite",),
        ),
    ] = (),
    out: Annotated[
        Path | None,
        Option(
            help="Write the selection as a suite for eyechart evaluate --suite.",
            group="Output",
            metavar="FILE.yaml",
            path="folder or file",
        ),
    ] = None,
    marked: Annotated[
        Path | None,
        Option(
            help="Write the matrix with a column that marks selected corruptions.",
            group="Output",
            metavar="FILE.csv",
            path="folder or file",
        ),
    ] = None,
    figure: FigureFile = None,
    *,
    settings: Annotated[MatrixSettings, Only("min_gain", "classes")],
) -> None:
    """Select the largest set of corruptions that do not overlap.

    The search is exact, and equally good sets are printed too. --figure draws the heat map with
    the selection marked or, with --all, the size of the selection for every threshold.
    """
    from eyechart.corruptions.suites.suite import load_suite
    from eyechart.corruptions.suites.suite_file import check_suite_path

    is_written = out is not None or marked is not None
    read = [resolved_path(Path(name)) for name in suites]
    if threshold is None and not every:
        raise UsageError("Give --threshold, such as 0.1, or --all.")
    if threshold is None and is_written:
        raise UsageError(
            "--out and --marked write the selection for one threshold: give --threshold."
        )
    if out is None and suites:
        raise UsageError("--suite needs --out: add it, or omit --suite.")
    if out is not None and resolved_path(out) in read:
        raise UsageError(f"--out would overwrite {out}, which --suite reads: choose another file.")
    if out is not None:
        check_suite_path(out)
    check_figure_file(figure)
    check_table(marked, matrix)
    from eyechart.overlap.accuracy_table import count_classes
    from eyechart.overlap.matrix_file import find_matrix, write_matrix
    from eyechart.overlap.selection import select_at_every_threshold, select_non_overlapping
    from eyechart.overlap.study_execution import SUITE
    from eyechart.reports.series.overlap import as_overlap
    from eyechart.reports.terminal.study_tables import step_table, up

    # without --suite, the study's suite if it has one, otherwise all published suites
    of_study = matrix / SUITE
    defining = suites or ([str(of_study)] if of_study.is_file() else PUBLISHED)
    overlaps = find_matrix(matrix, settings.with_classes(count_classes(matrix)))
    overlaps = matrix_among(overlaps, among)
    loaded = [load_suite(name) for name in defining] if out is not None else []
    steps = select_at_every_threshold(overlaps) if every else ()
    if steps:
        print_table(step_table(steps), left=(5,))
        if steps[0].low > 0:
            low = up(steps[0].low)
            print(f"At thresholds below {low}, no two corruptions can be selected together.")
    selection = None
    if threshold is not None:
        selection = select_non_overlapping(overlaps, threshold)
        _print_selection(selection)
    print_notes(overlaps.notes)
    if loaded and defining is PUBLISHED:
        print_notes(
            ["The suite has the published strengths: give --suite if you used other strengths."]
        )
    if selection is not None and out is not None:
        _write_benchmark(selection, loaded, out, matrix)
    if selection is not None and marked is not None:
        write_matrix(overlaps, marked, selection.members)
    if figure is not None and steps:
        # slow to import
        from eyechart.reports.figures.figure_files import write_figure
        from eyechart.reports.figures.overlap_figure import draw_sizes

        caption = "Size and mean overlap of the largest benchmark for every threshold."
        write_figure(partial(draw_sizes, steps, threshold), figure, caption)
    elif figure is not None and selection is not None:
        draw_panel(as_overlap(overlaps, selection.members, selection.threshold), figure)
    print_written((out, marked, figure))


def _print_selection(selection: "Selection[str]") -> None:
    print(
        f"{len(selection)} corruptions overlap by {selection.threshold:g} or less, by"
        f" {selection.mean_overlap:.4f} on average:"
    )
    print(f"  {', '.join(selection.members)}")
    if selection.ties:
        count = f"{len(selection.ties):,}{' and more' if selection.more_ties else ''}"
        print(f"Equally good ({count}):")
        for members in selection.ties[:TIES]:
            print(f"  {', '.join(members)}")
        if len(selection.ties) > TIES:
            print(f"  … and {len(selection.ties) - TIES:,} more")
    if selection.left_out:
        names = ", ".join(selection.left_out)
        print(f"Not selectable, because their overlaps are undetermined: {names}.")


def _write_benchmark(
    selection: "Selection[str]", suites: "list[Suite]", out: Path, source: Path
) -> None:
    from eyechart.corruptions.suites.suite_file import choose_entries, write_suite

    known = {entry.name for suite in suites for entry in suite}
    for name in selection.members:
        # the same name in a different suite is a different corruption
        if name not in known:
            raise unknown_name("corruption in these suites:", name, known)

    suite = choose_entries(
        suites,
        selection.members,
        out.stem,
        f"{len(selection)} corruptions that overlap by {selection.threshold:g} or less",
        f"Selected from {source.name} by eyechart overlap select --threshold"
        f" {selection.threshold:g}; mean overlap {selection.mean_overlap:.4f}.",
    )
    write_suite(suite, out)
