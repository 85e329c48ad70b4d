"""`eyechart overlap calibrate`: strengths at which a model keeps 95 % and 50 % of its accuracy."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eyechart.cli.shared.derived_options import derived_options
from eyechart.cli.shared.paths import folder_or_file
from eyechart.cli.shared.stop import Stop
from eyechart.core.errors import UsageError
from eyechart.pipeline.settings import LoadingSettings

if TYPE_CHECKING:
    from eyechart.cli.shared.progress import ProgressBars
    from eyechart.images.imageset import ImageSet
    from eyechart.overlap.calibrate import Calibrated, RangeEnd
    from eyechart.overlap.robustness_probe import RobustnessProbe
    from eyechart.suites.suite import Suite


@derived_options
def calibrate(
    model: Annotated[
        str,
        typer.Argument(help="A name, kind:name, module:attribute, a file or a card (.yaml)."),
    ],
    images: Annotated[
        Path,
        typer.Option(
            metavar="PATH",
            parser=folder_or_file,
            help="Labelled clean pictures: class folders, or a CSV or Parquet file with path and"
            " label.",
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            metavar="FILE.yaml",
            parser=folder_or_file,
            help="The suite to write; a table (.csv) and what is needed to go on (.json) go beside"
            " it.",
        ),
    ],
    suite: Annotated[
        list[str] | None,
        typer.Option(
            help="Suites or suite files whose corruptions are calibrated, all into one; repeatable."
            " Without it noc-candidates."
        ),
    ] = None,
    corruption: Annotated[
        list[str] | None, typer.Option(help="Only these corruptions; repeatable.")
    ] = None,
    stimulus: Annotated[
        str,
        typer.Option(
            help="A side in px (shorter side to 8/7 of it, then the middle), WIDTHxHEIGHT (plain"
            " resize), or native."
        ),
    ] = "224",
    lower: Annotated[float, typer.Option(help="R at the mild end.")] = 0.95,
    upper: Annotated[float, typer.Option(help="R at the strong end.")] = 0.5,
    pictures: Annotated[int, typer.Option(help="Pictures at most, as many of every class.")] = 2000,
    seed: Annotated[int, typer.Option(help="Of all random numbers.")] = 0,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    label_map: Annotated[
        list[str] | None,
        typer.Option(
            help="What the outputs are of a model that has not ImageNet's 1,000: background-first,"
            " or a file with a line for each."
        ),
    ] = None,
    *,
    loading: LoadingSettings,
) -> None:
    """Find how strong corruptions must be for a model and pictures, and write them as a suite.

    For every corruption: where R, accuracy divided by clean accuracy, is 0.95 and where it is 0.5.
    """
    from eyechart.cli.shared.progress import ProgressBars
    from eyechart.core.devices import find_device
    from eyechart.models.find import load_model, refuse_unused
    from eyechart.models.label_map import find_map
    from eyechart.overlap.calibrate import check_entries, check_targets
    from eyechart.overlap.calibration_record import check_out
    from eyechart.overlap.robustness_probe import RobustnessProbe

    check_targets(lower, upper)
    chosen = _chosen(suite or ["noc-candidates"], corruption or [], out.stem)
    check_entries(chosen.entries)
    check_out(out)
    where = find_device(device)
    maps = [find_map(name) for name in label_map or ()]
    loaded = load_model(
        model, where, trust=loading.trust, download=loading.download, label_maps=maps
    )
    with ProgressBars() as bars:
        judge = RobustnessProbe(
            loaded, _load(images, stimulus, pictures, seed, bars), pictures, seed
        )
        refuse_unused(maps, [loaded])
        found = _calibrate(judge, chosen, lower, upper, out, bars)
    _report(judge, chosen, found, lower, upper, out)


def _chosen(suites: Sequence[str], names: Sequence[str], own: str) -> "Suite":
    """Return the corruptions of all suites, or those named, as one suite."""
    from eyechart.suites.suite import load_suite
    from eyechart.suites.suite_file import choose_entries

    loaded = [load_suite(name) for name in suites]
    every = list(dict.fromkeys(entry.name for each in loaded for entry in each))
    title = f"{' and '.join(each.name for each in loaded)}, calibrated"
    source = " ".join(f"{each.name}: {each.source}" for each in loaded)
    return choose_entries(loaded, names or every, own, title, source)


def _load(
    images: Path, stimulus: str, pictures: int, seed: int, bars: "ProgressBars"
) -> "ImageSet":
    """Return the labelled pictures that are used; others are not even read."""
    from eyechart.images.dataset import find_images
    from eyechart.images.imageset import load_pictures
    from eyechart.pipeline.image_source import find_source
    from eyechart.testsets.plan import Plan
    from eyechart.testsets.samples import choose_pictures

    if pictures < 1:
        raise UsageError(f"--pictures must be at least 1, got {pictures}.")
    if find_source(images, stimulus).published is not None:
        raise UsageError(f"{images} holds corrupted pictures: give clean ones.")
    labelled = [picture for picture in find_images(images) if picture.label is not None]
    if not labelled:
        raise UsageError(
            f"None of the pictures of {images} has a label: give class folders, or a manifest with"
            " labels."
        )
    plan = Plan(seed=seed, pictures=min(pictures, len(labelled)))
    used = [labelled[place] for place in choose_pictures(labelled, plan)]
    return load_pictures(used, str(images), stimulus, bars.begin("pictures", len(used)))


def _calibrate(
    judge: "RobustnessProbe",
    chosen: "Suite",
    lower: float,
    upper: float,
    out: Path,
    bars: "ProgressBars",
) -> list["Calibrated"]:
    """Return what was found for every corruption, before or now."""
    from eyechart.overlap.calibrate import STEPS, calibrate_entry
    from eyechart.overlap.calibration_record import CalibrationRecord, settings_of

    record = CalibrationRecord(out, settings_of(judge, lower, upper, STEPS))
    found: list[Calibrated] = []
    step = bars.begin("corruptions", len(chosen))
    try:
        for entry in chosen:
            known = record.known(entry, judge.side)
            if known is None:
                known = calibrate_entry(judge, entry, lower, upper)
                record.add(entry, known)
            found.append(known)
            step(1, "")
    except KeyboardInterrupt:
        raise Stop(
            f"Stopped: {len(found)} of {len(chosen)} corruptions are in {record.path}; the same"
            " command goes on from there.",
            130,
        ) from None
    return found


def _report(
    judge: "RobustnessProbe",
    chosen: "Suite",
    found: Sequence["Calibrated"],
    lower: float,
    upper: float,
    out: Path,
) -> None:
    from rich.table import Table

    from eyechart.cli.shared.console import wide_console
    from eyechart.overlap.calibrate import calibrated_suite
    from eyechart.overlap.calibration_record import record_path, write_table
    from eyechart.suites.suite_file import write_suite

    about = (
        f"{judge.model.name} keeps {lower:g} and {upper:g} of its clean accuracy,"
        f" {judge.clean_accuracy:.3f} on {len(judge.images):,} pictures of {judge.side} px"
    )
    print(f"Strengths at which {about}, and R there with its 95 % interval:")
    table = Table("Corruption", "Mild end", "R", "Strong end", "R", "Note")
    for each in found:
        table.add_row(each.name, *_cells(each.lower), *_cells(each.upper), each.note)
    wide_console().print(table)
    source = f"Strengths at which {about}. {chosen.source}"
    write_suite(calibrated_suite(found, chosen.name, chosen.title, source), out)
    write_table(found, out.with_suffix(".csv"))
    print("Written:")
    for path in (out, out.with_suffix(".csv"), record_path(out)):
        print(f"  {path}")


def _cells(end: "RangeEnd") -> tuple[str, str]:
    own = end.robustness
    return end.words, f"{own.value:.3f} [{own.low:.3f}, {own.high:.3f}]"
