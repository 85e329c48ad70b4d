"""`eyechart testset`: drawing, looking at, and writing out test sets."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eyechart.cli.shared.derived_options import derived_options
from eyechart.cli.shared.paths import check_file_to_write, folder, folder_or_file
from eyechart.cli.shared.stop import Stop
from eyechart.core.errors import UsageError
from eyechart.testsets.testset_settings import TestsetSettings

if TYPE_CHECKING:
    from eyechart.testsets.coverage import SampleCoverage

app = typer.Typer(help="Draw, describe and write out test sets.", no_args_is_help=True)

HEIGHT = "▁▂▃▄▅▆▇█"

Manifest = Annotated[
    Path, typer.Argument(metavar="FILE", parser=folder_or_file, help="A test set.")
]


@app.callback()
def _testset() -> None:
    """Draw, describe and write out test sets."""


@app.command("make")
@derived_options
def make(
    settings: TestsetSettings,
    images: Annotated[
        Path | None,
        typer.Argument(
            metavar="[IMAGES]",
            parser=folder_or_file,
            help="Class folders, or a CSV or Parquet file; without it 20 demo photographs.",
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option(metavar="FILE", parser=folder_or_file, help="A .parquet file.")
    ] = Path("testset.parquet"),
    suite: Annotated[str, typer.Option(help="A suite's name or YAML file.")] = "vcr",
    n: Annotated[int, typer.Option("--n", help="Rows per corruption.")] = 2000,
    labels: Annotated[str, typer.Option(help="native, entry16 or none.")] = "native",
    stimulus: Annotated[
        str, typer.Option(help="224 or another side, WIDTHxHEIGHT (plain resize), or native.")
    ] = "224",
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
) -> None:
    """Draw a test set: a manifest from which anybody makes the same pictures."""
    from eyechart.cli.shared.progress import ProgressBars
    from eyechart.core.devices import find_device
    from eyechart.core.locks import lock_file
    from eyechart.pipeline.image_source import find_source
    from eyechart.testsets.plan import Plan
    from eyechart.testsets.testset import count_steps, keep_testset, open_parts, remove_parts

    if out.suffix != ".parquet":
        raise UsageError(f"--out must end in .parquet, got '{out}'.")
    check_file_to_write(out)
    plan = Plan(suite, n, labels=labels, **vars(settings))
    plan.check()
    source = find_source(images, stimulus)
    if source.published is not None:
        raise UsageError(
            f"{images} holds corrupted pictures: a test set is drawn from clean ones; eyechart"
            " evaluate --images takes it as it is."
        )
    where = find_device(device)
    # from here to the end nobody else makes this test set, nor removes what is gathered for it
    with lock_file(out), ProgressBars() as bars:
        if out.exists():
            raise UsageError(f"{out} is there already: delete it, or choose another --out.")
        own = source.load(plan, bars)
        steps = count_steps(own, plan)
        parts = open_parts(out, own, plan)
        step = bars.begin("test set", steps)
        try:
            made = keep_testset(own, plan, where, parts, out, step=step)
        except KeyboardInterrupt:
            raise Stop(
                f"Stopped: what was made is in {parts}; the same command goes on from there.", 130
            ) from None
        except UsageError:
            if not any(parts.glob("*.parquet")):
                remove_parts(parts)
            raise
    print(f"{out}: {len(made)} rows of {', '.join(made.corruptions)} and clean pictures.")
    _print_coverage(made.coverage())


@app.command("describe")
def describe(testset: Manifest) -> None:
    """Print how a test set was drawn and what it holds."""
    from eyechart.testsets.manifest import VERSION
    from eyechart.testsets.testset import read_testset

    found = read_testset(testset)
    plan, header = found.plan, found.header
    pictures = len(found.table["digest"].unique())
    print(f"{testset}: {len(found)} rows from {pictures} pictures ({header.images})")
    print(f"suite {plan.suite}, sampling {plan.sampling}, n {plan.n}, seed {plan.seed}")
    print(f"stimulus {header.stimulus}, visual change {plan.definition}, labels {plan.labels}")
    if plan.jpeg is not None:
        print(f"corrupted pictures stored as JPEG of quality {plan.jpeg}")
    print(f"drawn by eyechart {header.versions['eyechart']}, schema {VERSION}")
    if header.damaged:
        print(f"left out as damaged: {', '.join(header.damaged)}")
    for name in found.corruptions:
        print(f"  {name}: {found.count(name)} rows, {found.ranges(name)}")


@app.command("coverage")
def coverage(
    testset: Manifest,
    least: Annotated[int, typer.Option(help="Rows that make a bin covered.", min=1)] = 20,
) -> None:
    """Print how much of visual change 0…1 each corruption covers."""
    from eyechart.testsets.testset import read_testset

    _print_coverage(read_testset(testset).coverage(least), least)


def _print_coverage(found: "list[SampleCoverage]", least: int = 20) -> None:
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("corruption", no_wrap=True)
    for name in ("of 39 bins", "of 40 bins", "of reached", "largest Δv"):
        table.add_column(name, justify="right")
    table.add_column("rows by Δv, 0 to 1", no_wrap=True)
    for own in found:
        table.add_row(
            escape(own.corruption),
            f"{own.paper:.3f}",
            f"{own.equal:.3f}",
            f"{own.reached:.3f}",
            f"{own.largest:.3f}",
            _bars(own.histogram),
        )
    console = Console()
    console = console if console.is_terminal else Console(width=120)
    console.print(table)
    print(
        f"A bin is covered by {least} rows. 39 bins: as published tables count; 40: as their text"
        " says; reached: of the bins in which there is any row."
    )


def _bars(histogram: tuple[int, ...]) -> str:
    most = max(histogram) or 1
    return "".join(
        HEIGHT[min(len(HEIGHT) - 1, count * len(HEIGHT) // (most + 1))] if count else " "
        for count in histogram
    )


@app.command("render")
def render(
    testset: Manifest,
    images: Annotated[
        Path | None,
        typer.Argument(
            metavar="[IMAGES]", parser=folder_or_file, help="The pictures it was drawn from."
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option(metavar="FOLDER", parser=folder, help="Where pictures go.")
    ] = Path("rendered"),
    corruption: Annotated[
        list[str] | None, typer.Option(help="Only this corruption; repeatable.")
    ] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
) -> None:
    """Write the pictures of a test set as PNG files, each checked against its digest."""
    from eyechart.cli.shared.progress import ProgressBars
    from eyechart.core.devices import find_device
    from eyechart.pipeline.image_source import find_source
    from eyechart.testsets.plan import Plan
    from eyechart.testsets.render import render_testset
    from eyechart.testsets.testset import read_testset

    found = read_testset(testset).only(corruption or ())
    where = find_device(device)
    with ProgressBars() as bars:
        pictures = find_source(images, found.header.stimulus).load(Plan(), bars)
        step = bars.begin("pictures", len(found))
        try:
            count = render_testset(found, pictures, where, out, step)
        except KeyboardInterrupt:
            raise Stop(f"Stopped: the same command goes on in {out}.", 130) from None
    print(f"{count} pictures in {out}, with the pixels of the test set.")
