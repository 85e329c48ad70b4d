"""`eyechart overlap run`: train with each corruption, test on every other, score the overlap."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eyechart.cli.paths import folder, folder_or_file
from eyechart.cli.stop import stopped
from eyechart.cli.training_options import (
    Batch,
    Crop,
    Deterministic,
    Epochs,
    Every,
    Nesterov,
    Precision,
    Rate,
    Schedule,
    Share,
    Stimulus,
    Warmup,
    WeightDecay,
)
from eyechart.core.errors import UsageError

if TYPE_CHECKING:
    from eyechart.suites.suite import Entry


def run(
    images: Annotated[
        Path,
        typer.Option(
            metavar="PATH",
            parser=folder_or_file,
            help="Class folders, or a CSV or Parquet file: pictures to test with; without"
            " --train-images a fifth of every class.",
        ),
    ],
    train_images: Annotated[
        Path | None,
        typer.Option(metavar="PATH", parser=folder_or_file, help="Other pictures to train with."),
    ] = None,
    suite: Annotated[
        list[str] | None,
        typer.Option(help="A suite's name or YAML file; repeatable; noc-candidates."),
    ] = None,
    corruption: Annotated[
        list[str] | None, typer.Option(help="Only this corruption of the suites; repeatable.")
    ] = None,
    together: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SUITE",
            help="Also train one network on all corruptions of this suite, for eyechart overlap"
            " coverage; repeatable.",
        ),
    ] = None,
    arch: Annotated[
        str | None,
        typer.Option(
            help="resnet9, resnet18, wrn_16_4, wrn_40_2, timm:NAME, torchvision:NAME or"
            " module:function; resnet18."
        ),
    ] = None,
    start: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            parser=folder_or_file,
            help="Tune this checkpoint instead of training from scratch.",
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(help="Repetitions of everything.")] = 1,
    seed: Annotated[int, typer.Option(help="The first repetition's.")] = 0,
    epochs: Epochs = 40,
    batch: Batch = 256,
    rate: Rate = 0.1,
    schedule: Schedule = "step",
    warmup: Warmup = 0.0,
    weight_decay: WeightDecay = 1e-4,
    nesterov: Nesterov = False,
    share: Share = 0.5,
    crop: Crop = 0,
    stimulus: Stimulus = "224",
    every: Every = 1,
    precision: Precision = "auto",
    deterministic: Deterministic = False,
    device: Annotated[str, typer.Option(help="cpu or cuda; cuda:0,cuda:1 share the work.")] = "cpu",
    trust: Annotated[
        bool, typer.Option("--trust", help="Let --start name code of your own that is called.")
    ] = False,
    out: Annotated[
        Path, typer.Option(metavar="FOLDER", parser=folder, help="Where all that is made goes.")
    ] = Path("eyechart-overlap"),
) -> None:
    """Train a network with each corruption and test it on all: which measure the same thing?"""
    if arch is not None and start is not None:
        raise UsageError("Give --arch to train from scratch or --start to tune, not both.")
    if seeds < 1:
        raise UsageError(f"seeds must be a whole number from 1, got {seeds}.")
    from eyechart.cli.overlap_tables import show_study
    from eyechart.cli.progress import Bars
    from eyechart.overlap.run import run_study
    from eyechart.overlap.study import Study
    from eyechart.training.recipe import Recipe
    from eyechart.training.sources import Sources

    recipe = Recipe(
        epochs, batch, rate, weight_decay=weight_decay, nesterov=nesterov, schedule=schedule,
        warmup=warmup, share=share, crop=crop, precision=precision, deterministic=deterministic,
    )  # fmt: skip
    entries = entries_of(suite or ["noc-candidates"], corruption or [])
    study = Study(
        entries,
        recipe,
        "" if start is not None else arch or "resnet18",
        "" if start is None else str(start),
        benchmarks_of(together or [], entries),
        tuple(range(seed, seed + seeds)),
        trust,
    )
    sources = Sources(images, train_images, stimulus, every, leave_out=out)
    with Bars() as bars:
        try:
            run_study(study, sources, [name.strip() for name in device.split(",")], out, bars)
        except KeyboardInterrupt:
            raise stopped(out, "what was trained") from None
    show_study(out)


def entries_of(suites: list[str], corruptions: list[str]) -> "tuple[Entry, ...]":
    """Return the corruptions of all suites, or those chosen of them; each name once."""
    from eyechart.cli.notes import note_left_out
    from eyechart.suites.assets import left_out, ready_entries
    from eyechart.suites.suite import load_suite
    from eyechart.suites.write import choose_entries

    given = [load_suite(name) for name in suites]
    if not corruptions:
        note_left_out(name for suite in given for name in left_out(suite))
    usual = (entry.name for suite in given for entry in ready_entries(suite))
    names = corruptions or list(dict.fromkeys(usual))
    return choose_entries(given, names, "study", "Corruptions to train on", "chosen").entries


def benchmarks_of(suites: list[str], entries: "tuple[Entry, ...]") -> dict[str, tuple[str, ...]]:
    """Return the corruptions of each suite, which must all be in the study."""
    from eyechart.suites.assets import ready_entries
    from eyechart.suites.suite import load_suite

    known = {entry.name for entry in entries}
    found = {}
    for name in suites:
        suite = load_suite(name)
        members = tuple(entry.name for entry in ready_entries(suite))
        missing = [each for each in members if each not in known]
        if missing:
            raise UsageError(
                f"--together {name} has {missing[0]}, which is not in this study: give its suite"
                " as --suite too."
            )
        if suite.name in found:
            raise UsageError(f"Two suites given by --together are called {suite.name}: rename one.")
        found[suite.name] = members
    return found
