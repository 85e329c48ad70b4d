"""`eyechart overlap calibrate`: find strengths at which 95 % and 50 % of the accuracy remain."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from eyechart.cli.overlap.run import CANDIDATES
from eyechart.cli.shared.derived_options import derived_options, examples
from eyechart.cli.shared.printing import print_written, wide_console
from eyechart.cli.shared.progress import ProgressBars
from eyechart.cli.shared.stop import Stop
from eyechart.core.errors import UsageError
from eyechart.core.options import Device, Option
from eyechart.overlap.overlap_settings import CalibrationSettings
from eyechart.pipeline.settings import LoadingSettings

if TYPE_CHECKING:
    from eyechart.images.imageset import ImageSet
    from eyechart.overlap.calibrate import Calibrated, RangeEnd


@examples(
    "eyechart overlap calibrate resnet50.pt --images val --out calibrated.yaml",
    "eyechart overlap calibrate resnet50.pt --images val --upper 0.3 --out b.yaml",
)
@derived_options
def calibrate(
    *,
    model: Annotated[
        str,
        Option(
            help="Model: timm:NAME, hf:REPO, onnx:FILE, module:attribute, a file or a card.",
            group="Models",
            metavar="MODEL",
            is_argument=True,
        ),
    ],
    label_maps: Annotated[
        tuple[str, ...],
        Option(
            help="Classes of a model without ImageNet's 1,000 outputs: background-first, or a file"
            " with a line per output.",
            group="Models",
            flags=("--label-map",),
        ),
    ] = (),
    images: Annotated[
        Path,
        Option(
            help="Labeled clean images: class folders, or a CSV or Parquet file with path and"
            " label.",
            group="Data",
            metavar="PATH",
            path="folder or file",
        ),
    ],
    stimulus: Annotated[
        str,
        Option(
            help="Side in px (resize to 8/7 of it, then center crop), WIDTHxHEIGHT (resize only),"
            " or native.",
            group="Data",
        ),
    ] = "224",
    suites: Annotated[
        tuple[str, ...],
        Option(
            help="Suite name or YAML file to calibrate; repeatable.",
            group="Corruptions",
            flags=("--suite",),
        ),
    ] = (CANDIDATES,),
    corruptions: Annotated[
        tuple[str, ...],
        Option(
            help="Calibrate only this corruption; repeatable.",
            group="Corruptions",
            flags=("--corruption",),
        ),
    ] = (),
    device: Device = "cpu",
    out: Annotated[
        Path,
        Option(
            help="Suite to write, with a table (.csv) and a record for resuming (.json).",
            group="Output",
            metavar="FILE.yaml",
            path="folder or file",
        ),
    ],
    settings: CalibrationSettings,
    loading: LoadingSettings,
) -> None:
    """Calibrate the strengths of corruptions for a model; write them as a suite.

    For every corruption, finds the strengths at which R (accuracy divided by clean accuracy) is
    0.95 and 0.5.
    """
    from rich.table import Table

    from eyechart.core.devices import find_device
    from eyechart.corruptions.suites.suite import load_suite
    from eyechart.corruptions.suites.suite_file import choose_entries, write_suite
    from eyechart.models.find import load_model, reject_unused
    from eyechart.models.label_map import find_map
    from eyechart.overlap.calibrate import (
        CalibrationRecord,
        calibrate_entry,
        calibrated_suite,
        check_entries,
        check_out,
        record_path,
        settings_of,
        write_table,
    )
    from eyechart.overlap.strengths import RobustnessProbe

    settings.check()
    loaded_suites = [load_suite(name) for name in suites]
    every = list(dict.fromkeys(entry.name for suite in loaded_suites for entry in suite))
    title = f"{' and '.join(suite.name for suite in loaded_suites)}, calibrated"
    origin = " ".join(f"{suite.name}: {suite.source}" for suite in loaded_suites)
    chosen = choose_entries(loaded_suites, corruptions or every, out.stem, title, origin)
    check_entries(chosen.entries)
    check_out(out)
    where = find_device(device)
    maps = [find_map(name) for name in label_maps]
    loaded = load_model(
        model, where, trust=loading.trust, download=loading.download, label_maps=maps
    )
    with ProgressBars() as bars:
        listed = _load(images, stimulus, settings, bars)
        judge = RobustnessProbe(loaded, listed, settings.seed)
        reject_unused(maps, [loaded])
        record = CalibrationRecord(out, settings_of(judge, settings))
        step = bars.begin("corruptions", len(chosen))
        calibrated: list[Calibrated] = []
        try:
            for entry in chosen:
                known = record.known(entry, judge.side)
                if known is None:
                    known = calibrate_entry(judge, entry, settings)
                    record.add(entry, known)
                calibrated.append(known)
                step(1, "")
        except KeyboardInterrupt:
            raise Stop(
                f"Stopped: {len(calibrated)} of {len(chosen)} corruptions are in {record.path};"
                " run the same command again to resume."
            ) from None
    summary = (
        f"Strengths at which {loaded.name} keeps {settings.lower:g} and {settings.upper:g} of its"
        f" clean accuracy, {judge.clean_accuracy:.3f} on {len(judge.images):,} images of"
        f" {judge.side} px"
    )
    print(f"{summary}, with R and its 95 % confidence interval:")
    table = Table("Corruption", "Mildest strength", "R", "Strongest strength", "R", "Note")
    for corruption in calibrated:
        ends = (*_cells(corruption.lower), *_cells(corruption.upper))
        table.add_row(corruption.name, *ends, corruption.note)
    wide_console().print(table)
    source = f"{summary}. {chosen.source}"
    write_suite(calibrated_suite(calibrated, chosen.name, chosen.title, source), out)
    write_table(calibrated, out.with_suffix(".csv"))
    print_written((out, out.with_suffix(".csv"), record_path(out)))


def _load(
    images: Path, stimulus: str, settings: CalibrationSettings, bars: ProgressBars
) -> "ImageSet":
    """Return the labeled images that are used; other images are not read."""
    from eyechart.images.image_sources import find_listing
    from eyechart.images.imageset import load_listing
    from eyechart.pipeline.image_source import find_source
    from eyechart.testsets.plan import Plan
    from eyechart.testsets.samples import choose_images

    if settings.max_images < 1:
        raise UsageError(f"--max-images must be at least 1, got {settings.max_images}.")
    if find_source(images, stimulus).published is not None:
        raise UsageError(f"{images} contains corrupted images: give clean images.")
    listing = find_listing(images)
    labeled = [image for image in listing.images if image.label is not None]
    if not labeled:
        raise UsageError(
            f"No image in {images} has a label: give class folders, or a manifest with labels."
        )
    plan = Plan(seed=settings.seed, max_images=min(settings.max_images, len(labeled)))
    used = [labeled[index] for index in choose_images(labeled, plan)]
    step = bars.begin("images", len(used))
    return load_listing(replace(listing, images=used), stimulus, step)


def _cells(end: "RangeEnd") -> tuple[str, str]:
    robustness = end.robustness
    return end.words, f"{robustness.value:.3f} [{robustness.low:.3f}, {robustness.high:.3f}]"
