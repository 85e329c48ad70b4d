"""What `eyechart structure superclass` prints: a line for each model, and for each superclass."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from eyechart.structure.study_results import SuperclassResults

MOST_SHOWN = 4
"""Models up to which superclasses are printed too; there is no room for more."""


def show_superclasses(results: "SuperclassResults") -> None:
    """Print a line for each model, and one for each superclass if there is room."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    from eyechart.cli.tables import share_text, wide_console
    from eyechart.reports.names import short_names

    console = wide_console()
    names = [escape(name) for name in short_names([each.name for each in results.models])]
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("model")
    for name in ("ImageNet-1K (%)", "seen kinds (%)", "unseen kinds (%)", "gap (points)",
                 "gap, mean over superclasses"):  # fmt: skip
        table.add_column(name, justify="right")
    for shown, each in zip(names, results.models, strict=True):
        known = each.imagenet_accuracy
        table.add_row(
            shown,
            "–" if known is None else f"{100 * known:.1f}",
            *(share_text(own) for own in (each.seen, each.unseen, each.gap, each.mean_gap)),
        )
    console.print(table)
    if len(results.models) <= MOST_SHOWN:
        by = Table(box=box.SIMPLE_HEAD)
        by.add_column("superclass")
        for name in ("seen synsets", "unseen synsets"):
            by.add_column(name, justify="right")
        for shown in names:
            by.add_column(f"{shown}: seen (%)", justify="right")
            by.add_column("unseen (%)", justify="right")
        for place, first in enumerate(results.models[0].superclasses):
            own = [each.superclasses[place] for each in results.models]
            cells = [share_text(share) for one in own for share in (one.seen, one.unseen)]
            by.add_row(first.name, *(f"{count:,}" for count in first.synsets), *cells)
        console.print(by)
    trained, seen, unseen = results.pictures
    print(
        f"Trained with {trained:,} pictures, tested with {seen:,} of {results.synsets[0]:,} seen"
        f" synsets and {unseen:,} of {results.synsets[1]:,} unseen ones. Behind each number its"
        " 95 % interval, from resampled synsets."
    )
    for note in results.notes:
        print(f"Note: {note}")
