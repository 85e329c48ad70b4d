"""`eyechart overlap run`: train with each corruption, test on every other, score the overlap."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eyechart.cli.shared.derived_options import Only, derived_options
from eyechart.cli.shared.paths import folder, folder_or_file
from eyechart.cli.shared.stop import stopped
from eyechart.cli.shared.training_options import (
    Every,
    Stimulus,
)
from eyechart.core.errors import UsageError
from eyechart.training.recipe import Recipe

if TYPE_CHECKING:
    from eyechart.overlap.presets import Option
    from eyechart.suites.suite import Entry


def take_preset(context: typer.Context, name: str | None) -> str | None:
    """Make a preset's values the defaults of all other options; what is typed goes before."""
    if name is None:
        return None
    from eyechart.core.registry import unknown_name
    from eyechart.overlap.presets import PRESETS

    if name not in PRESETS:
        raise unknown_name("preset", name, PRESETS)
    context.default_map = {**(context.default_map or {}), **PRESETS[name]}
    return name


@derived_options
def run(
    context: typer.Context,
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
            help="resnet9, resnet18 (3×3 stem), imagenet_resnet18 (7×7 stem), imagenet_resnet50,"
            " wrn_16_4, wrn_40_2, timm:NAME, torchvision:NAME or module:function; resnet18."
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
    preset: Annotated[
        str | None,
        typer.Option(
            is_eager=True,
            callback=take_preset,
            help="Settings of a published study: paper (ImageNet-100, ResNet-18 with a 7×7 stem,"
            " 224x224, 40 epochs, ImageNet-C and the candidates of ImageNet-NOC); options that you"
            " give go before.",
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(help="Repetitions of everything.")] = 1,
    seed: Annotated[int, typer.Option(help="The first repetition's.")] = 0,
    stimulus: Stimulus = "224",
    every: Every = 1,
    device: Annotated[str, typer.Option(help="cpu or cuda; cuda:0,cuda:1 share the work.")] = "cpu",
    trust: Annotated[
        bool, typer.Option("--trust", help="Let --start name code of your own that is called.")
    ] = False,
    out: Annotated[
        Path, typer.Option(metavar="FOLDER", parser=folder, help="Where all that is made goes.")
    ] = Path("eyechart-overlap"),
    *,
    recipe: Annotated[
        Recipe,
        Only(
            "epochs",
            "batch",
            "rate",
            "schedule",
            "warmup",
            "weight_decay",
            "nesterov",
            "share",
            "crop",
            "precision",
            "deterministic",
        ),
    ],
) -> None:
    """Train a network with each corruption and test it on all: which measure the same thing?"""
    values = preset_values(context)
    if "arch" in values and start is not None:
        raise UsageError(f"--preset {preset} trains from scratch: leave out --start.")
    if "together" in values and not ("suite" in values and not corruption):
        # the benchmarks of the preset are not all in a study of other corruptions
        together = None
        del values["together"]
    if arch is not None and start is not None:
        raise UsageError("Give --arch to train from scratch or --start to tune, not both.")
    if seeds < 1:
        raise UsageError(f"seeds must be a whole number from 1, got {seeds}.")
    from eyechart.cli.overlap.tables import show_study
    from eyechart.cli.shared.progress import ProgressBars
    from eyechart.overlap.overlap_study import OverlapStudy
    from eyechart.overlap.presets import IMAGENET_CLASSES, preset_line
    from eyechart.overlap.study_run import run_study
    from eyechart.training.sources import TrainingSources

    entries = entries_of(suite or ["noc-candidates"], corruption or [])
    study = OverlapStudy(
        entries,
        recipe,
        "" if start is not None else arch or "resnet18",
        "" if start is None else str(start),
        benchmarks_of(together or [], entries),
        tuple(range(seed, seed + seeds)),
        trust,
    )
    n_classes = IMAGENET_CLASSES if "every" in values else None
    sources = TrainingSources(
        images, train_images, stimulus, every, leave_out=out, n_classes=n_classes
    )
    if preset is not None:
        print(preset_line(preset, values))
    with ProgressBars() as bars:
        try:
            run_study(study, sources, [name.strip() for name in device.split(",")], out, bars)
        except KeyboardInterrupt:
            raise stopped(out, "what was trained") from None
    show_study(out)


def preset_values(context: typer.Context) -> "dict[str, Option]":
    """Return the options that a preset decided, and not the command line."""
    found = {}
    for name, value in (context.default_map or {}).items():
        source = context.get_parameter_source(name)
        # by its name, for some versions of typer bring a click of their own
        if source is not None and source.name == "DEFAULT_MAP":
            found[name] = value
    return found


def entries_of(suites: list[str], corruptions: list[str]) -> "tuple[Entry, ...]":
    """Return the corruptions of all suites, or those chosen of them; each name once."""
    from eyechart.cli.shared.console import note_left_out
    from eyechart.suites.assets import left_out, ready_entries
    from eyechart.suites.suite import load_suite
    from eyechart.suites.suite_file import choose_entries

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
