"""`eyechart rulers study`: how well humans agree with each ruler."""

from functools import partial
from typing import TYPE_CHECKING

from eyechart.cli.shared.derived_options import derived_options
from eyechart.cli.shared.help import examples
from eyechart.cli.shared.stop import stopped
from eyechart.rulers.study_settings import StudySettings

if TYPE_CHECKING:
    from eyechart.core.progress import Progress
    from eyechart.rulers.ruler_study import FinishedStudy
    from eyechart.rulers.study_record import StudyRecord


@examples(
    "eyechart rulers study --human counts.csv --images photos",
    "eyechart rulers study --human counts.csv --images photos --ruler vif --fit",
)
@derived_options
def study(settings: StudySettings) -> None:
    """Compare rulers with human accuracy in published experiments.

    Regenerates the experiments' conditions on your images, measures each ruler, and asks how much
    of the variance of human accuracy one monotone curve of the ruler explains, and how well it
    predicts an experiment that it has not seen.
    """
    settings.check()
    from eyechart.cli.shared.progress import ProgressBars
    from eyechart.rulers.ruler_study import run_study

    with ProgressBars() as bars:
        try:
            finished = run_study(settings, bars)
        except KeyboardInterrupt:
            raise stopped(settings.out, "every measured value") from None
    _show(finished.record)
    with ProgressBars() as bars:
        try:
            _draw(finished, settings, bars)
        except KeyboardInterrupt:
            raise stopped(settings.out, "everything but the images at equal Δv") from None


def _show(record: "StudyRecord") -> None:
    from eyechart.cli.shared.printing import print_notes, print_table
    from eyechart.reports.terminal.ruler_tables import agreement_table, fit_table, study_sentences

    print_table(agreement_table(record))
    if record.fit is not None:
        print_table(fit_table(record.fit))
    for sentence in study_sentences(record):
        print(sentence)
    print_notes(record.notes)


def _draw(finished: "FinishedStudy", settings: StudySettings, progress: "Progress") -> None:
    from eyechart.cli.shared.printing import print_written
    from eyechart.core.devices import find_device
    from eyechart.reports.figures.figure_files import write_figure
    from eyechart.reports.figures.ruler_figure import (
        draw_equal,
        draw_scatter,
        equal_caption,
        scatter_caption,
    )
    from eyechart.rulers.equal_change import EXAMPLE_CHANGE, SERIES, equal_rows
    from eyechart.rulers.ruler_study import RESULTS, TABLE

    scatter, equal = settings.out / "agreement.png", settings.out / "equal_change.png"
    record = finished.record
    write_figure(partial(draw_scatter, record), scatter, scatter_caption(record))
    advance = progress.begin("images at equal Δv", len(finished.rulers) * len(SERIES))
    example = finished.example.to(find_device(settings.device))
    rows = equal_rows(example, finished.rulers, EXAMPLE_CHANGE, advance)
    caption = equal_caption(EXAMPLE_CHANGE)
    write_figure(partial(draw_equal, rows, EXAMPLE_CHANGE), equal, caption)
    print_written((settings.out / RESULTS, settings.out / TABLE, scatter, equal))
