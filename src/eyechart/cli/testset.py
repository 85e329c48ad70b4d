"""`eyechart testset`: make, describe and render test sets."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eyechart.cli.shared.derived_options import derived_options, examples, folder_or_file
from eyechart.cli.shared.help import CommandLine
from eyechart.cli.shared.output_files import check_file_to_write
from eyechart.cli.shared.printing import wide_console
from eyechart.cli.shared.progress import ProgressBars
from eyechart.cli.shared.stop import on_interrupt
from eyechart.core.errors import UsageError
from eyechart.core.options import Device, Option
from eyechart.core.phrases import count_of
from eyechart.core.storage.locks import lock_file
from eyechart.corruptions.suites.published import TESTS, preset_line
from eyechart.testsets.testset_settings import MIN_PER_BIN, SampleSettings

if TYPE_CHECKING:
    from eyechart.testsets.coverage import SampleCoverage

app = CommandLine(help="Make, describe and render test sets.")

HEIGHT = "▁▂▃▄▅▆▇█"

Manifest = Annotated[
    Path, typer.Argument(metavar="FILE", parser=folder_or_file, help="A test set (.parquet).")
]


@app.command("make")
@examples(
    "eyechart testset make --images photos --n 2000 --out photos.parquet",
    "eyechart testset make --images photos --suite imagenet-c --corruption fog",
)
@derived_options
def make(
    settings: SampleSettings,
    out: Annotated[
        Path,
        Option(
            help="Test set to write (.parquet).",
            group="Output",
            metavar="FILE",
            path="folder or file",
        ),
    ] = Path("testset.parquet"),
) -> None:
    """Make a test set, and write it as a manifest that defines the same images on every machine."""
    from eyechart.core.devices import find_device
    from eyechart.images.stimulus import with_window
    from eyechart.pipeline.image_source import find_source
    from eyechart.testsets.testset import count_steps, make_testset, open_parts, remove_parts

    if out.suffix != ".parquet":
        raise UsageError(f"--out must end in .parquet, got '{out}'.")
    check_file_to_write(out)
    # before the images are read, which takes long
    plan = settings.plan
    if settings.preset is not None:
        print(preset_line(settings.preset, TESTS, vars(settings), len(plan.entries())))
    source = find_source(settings.images, with_window(settings.stimulus, settings.window))
    if source.published is not None:
        raise UsageError(
            f"{settings.images} contains corrupted images: make a test set from clean images, or"
            " evaluate these with eyechart evaluate --images."
        )
    where = find_device(settings.device)
    # the lock keeps other processes from writing this test set or removing its part files
    with lock_file(out), ProgressBars() as bars:
        # under the lock, because another process may have finished it meanwhile
        if out.exists():
            raise UsageError(f"{out} already exists: delete it, or choose another --out.")
        images = source.load(plan, bars)
        steps = count_steps(images, plan)
        parts = open_parts(out, images, plan)
        step = bars.begin("test set", steps)
        resume = f"Stopped: finished samples are in {parts}; run the same command again to resume."
        with on_interrupt(resume):
            try:
                drawn = make_testset(images, plan, where, parts, step)
            except UsageError:
                # without finished samples, the folder would only reject a next attempt with other
                # settings
                if not any(parts.glob("*.parquet")):
                    remove_parts(parts)
                raise
            drawn.save(out)
            # only now that the manifest is on disk: a run that is killed earlier resumes from parts
            remove_parts(parts, drawn.table["corruption"].unique().to_pylist())
    samples = count_of(len(drawn), "sample")
    print(f"{out}: {samples} of {', '.join(drawn.corruptions)} and clean images.")
    _print_coverage(drawn.coverage())


@app.command("describe")
@examples(
    "eyechart testset describe testset.parquet",
    "eyechart testset describe testset.parquet > testset.txt",
)
def describe(testset: Manifest) -> None:
    """Print how a test set was sampled and what it contains."""
    from eyechart.testsets.manifest_rows import VERSION
    from eyechart.testsets.testset import read_testset

    described = read_testset(testset)
    plan, header = described.plan, described.header
    samples = count_of(len(described), "sample")
    images = count_of(len(described.table["digest"].unique()), "image")
    print(f"{testset}: {samples} of {images} ({header.images})")
    print(f"suite {plan.suite}, sampling {plan.sampling}, n {plan.n}, seed {plan.seed}")
    print(f"stimulus {header.stimulus}, visual change {plan.ruler}, labels {plan.labels}")
    if plan.jpeg is not None:
        print(f"corrupted images stored as JPEG of quality {plan.jpeg}")
    print(f"drawn by eyechart {header.versions['eyechart']}, schema {VERSION}")
    if header.damaged:
        print(f"skipped as damaged: {', '.join(header.damaged)}")
    for name in described.corruptions:
        print(f"  {name}: {count_of(described.count(name), 'sample')}, {described.ranges(name)}")


@app.command("coverage")
@examples(
    "eyechart testset coverage testset.parquet",
    "eyechart testset coverage testset.parquet --min-per-bin 50",
)
def coverage(
    testset: Manifest,
    min_per_bin: Annotated[
        int, typer.Option(help="Minimum number of samples for a bin to count as covered.", min=1)
    ] = MIN_PER_BIN,
) -> None:
    """Print how much of the range of visual change each corruption covers."""
    from eyechart.testsets.testset import read_testset

    _print_coverage(read_testset(testset).coverage(min_per_bin), min_per_bin)


def _print_coverage(coverages: "list[SampleCoverage]", min_per_bin: int = MIN_PER_BIN) -> None:
    from rich import box
    from rich.markup import escape
    from rich.table import Column, Table

    from eyechart.core.phrases import at_least
    from eyechart.testsets.coverage import TEXT_BINS

    numbers = ("of 39 bins", "of 40 bins", "of reached", "largest Δv")
    table = Table(
        Column("corruption", no_wrap=True),
        *(Column(name, justify="right") for name in numbers),
        Column("samples by Δv, 0 to 1", no_wrap=True),
        box=box.SIMPLE_HEAD,
    )
    for sampled in coverages:
        most = max(sampled.histogram) or 1
        heights = [count * len(HEIGHT) // (most + 1) for count in sampled.histogram]
        table.add_row(
            escape(sampled.corruption),
            f"{sampled.paper:.3f}",
            f"{sampled.equal:.3f}",
            f"{sampled.reached:.3f}",
            f"{sampled.largest:.3f}",
            "".join(
                HEIGHT[height] if count else " "
                for count, height in zip(sampled.histogram, heights, strict=True)
            ),
        )
    wide_console(120).print(table)
    print(
        f"A bin is covered if it has {at_least([min_per_bin], 'sample')}. 39 bins: as in the"
        " published tables; 40 bins: as in the text of the paper; reached: bins with at least one"
        " sample."
    )
    n_samples = max((sampled.rows for sampled in coverages), default=0)
    needed = TEXT_BINS * min_per_bin
    if n_samples < needed:
        print(
            f"{count_of(n_samples, 'sample')} per corruption cannot cover all {TEXT_BINS} bins,"
            f" which need {count_of(min_per_bin, 'sample')} each: make the test set with --n"
            f" {needed} or more."
        )


@app.command("render")
@examples(
    "eyechart testset render testset.parquet --images photos --out rendered",
    "eyechart testset render testset.parquet --images photos --corruption fog",
)
@derived_options
def render(
    testset: Annotated[
        Path,
        Option(
            help="A test set.",
            group="Data",
            metavar="FILE",
            path="folder or file",
            is_argument=True,
        ),
    ],
    images: Annotated[
        Path | None,
        Option(
            help="Images that the test set was sampled from; 20 demo images if omitted.",
            group="Data",
            metavar="PATH",
            path="folder or file",
        ),
    ] = None,
    corruptions: Annotated[
        tuple[str, ...],
        Option(
            help="Render only this corruption; repeatable.",
            group="Corruptions",
            flags=("--corruption",),
        ),
    ] = (),
    device: Device = "cpu",
    out: Annotated[
        Path, Option(help="Output folder.", group="Output", metavar="FOLDER", path="folder")
    ] = Path("rendered"),
) -> None:
    """Write the images of a test set as PNG files and check their digests."""
    from eyechart.core.devices import find_device
    from eyechart.pipeline.image_source import find_source
    from eyechart.testsets.plan import Plan
    from eyechart.testsets.render import render_testset
    from eyechart.testsets.testset import read_testset

    chosen = read_testset(testset).only(corruptions)
    where = find_device(device)
    with ProgressBars() as bars:
        sources = find_source(images, chosen.header.stimulus).load(Plan(), bars)
        step = bars.begin("images", len(chosen))
        with on_interrupt(
            f"Stopped: finished images are in {out}; run the same command again to resume."
        ):
            count = render_testset(chosen, sources, where, out, step)
    print(f"{count_of(count, 'image')} in {out}, identical to the images of the test set.")
