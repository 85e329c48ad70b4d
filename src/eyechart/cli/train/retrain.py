"""`eyechart train retrain`: a model trained on corrupted pictures, before and after."""

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eyechart.cli.shared.console import note_left_out
from eyechart.cli.shared.derived_options import Only, derived_options
from eyechart.cli.shared.paths import folder, folder_or_file
from eyechart.cli.shared.stop import stopped
from eyechart.cli.shared.training_options import (
    DeltaV,
    Severity,
    Stimulus,
    TrainImages,
    parse_range,
)
from eyechart.curves.curve_settings import BINS, LEAST, REPLICATES
from eyechart.pipeline.settings import EvaluateSettings, LoadingSettings
from eyechart.testsets.testset_settings import N_SAMPLES
from eyechart.training.recipe import Recipe

if TYPE_CHECKING:
    import torch

    from eyechart.models.model import Model
    from eyechart.training.retrain import Load, Retrained, Retraining


@derived_options
def retrain(
    context: typer.Context,
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="timm:NAME, hf:REPO, module:attribute, a checkpoint or a card, as of evaluate;"
            " it must be a torch module.",
        ),
    ],
    train_images: TrainImages,
    images: Annotated[
        Path,
        typer.Option(
            metavar="PATH",
            parser=folder_or_file,
            help="Other pictures, to test with before and after.",
        ),
    ],
    suite: Annotated[str, typer.Option(help="A suite's name or YAML file.")] = "vcr",
    corruption: Annotated[
        list[str] | None,
        typer.Option(help="Train on this corruption of the suite; repeatable; without it on all."),
    ] = None,
    also: Annotated[
        list[str] | None,
        typer.Option(help="Test on this corruption too, without training on it; repeatable."),
    ] = None,
    out: Annotated[
        Path,
        typer.Option(metavar="FOLDER", parser=folder, help="Where all that is made goes."),
    ] = Path("eyechart-retrained"),
    pictures: Annotated[
        int, typer.Option(help="Pictures to train with, as many of every class.")
    ] = 12_000,
    severity: Severity = None,
    delta_v: DeltaV = None,
    n: Annotated[
        int, typer.Option("--n", help="Pictures per corruption to test with.")
    ] = N_SAMPLES,
    labels: Annotated[
        str, typer.Option(help="Test by native (own classes) or entry16 (people's 16 categories).")
    ] = "native",
    humans: Annotated[
        str, typer.Option(help="Whose answers to compare with: geirhos, a file, or none.")
    ] = "geirhos",
    stimulus: Stimulus = "224",
    bins: Annotated[int | None, typer.Option(help=f"Bins of visual change, {BINS}.")] = None,
    least: Annotated[int, typer.Option(help="Answers that a bin needs.")] = LEAST,
    replicates: Annotated[int, typer.Option(help="Resampled sets behind intervals.")] = REPLICATES,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    label_map: Annotated[
        list[str] | None,
        typer.Option(help="What the outputs of the model are, as of evaluate; repeatable."),
    ] = None,
    *,
    recipe: Annotated[
        Recipe,
        Only(
            "momentum",
            "share",
            "mixup",
            "stability",
            "precision",
            "deterministic",
            "seed",
            epochs=5,
            batch=32,
            rate=1e-3,
            weight_decay=0.0,
            flip=0.0,
        ),
    ],
    loading: LoadingSettings,
) -> None:
    """Train a model on corruptions, and print its scores under them before and after.

    The defaults are those of the VCR paper: 12,000 pictures, five epochs, all parameters. The same
    command goes on with what was stopped.
    """
    from eyechart.core.devices import find_device
    from eyechart.models.find import load_model
    from eyechart.pipeline.image_source import find_source
    from eyechart.training.distributed import own_device
    from eyechart.training.mixture import Mixture
    from eyechart.training.retrain import CHECKPOINT, Retraining

    settings = EvaluateSettings(
        images=images, suite=suite, n=n, seed=recipe.seed, labels=labels,
        corruptions=tuple(corruption or ()), bins=bins, least=least, replicates=replicates,
        humans=humans, label_maps=tuple(label_map or ()),
    )  # fmt: skip
    settings = replace(settings, label_maps=settings.loaded_maps)
    plan = settings.plan
    entries = tuple(plan.entries())
    others = replace(plan, corruptions=tuple(also)).entries() if also else ()
    names = dict.fromkeys(entry.name for entry in (*entries, *others))
    asked = Retraining(
        model,
        train_images,
        find_source(images, stimulus, None, out),
        replace(settings, corruptions=tuple(names)),
        Mixture(entries, parse_range("severity", severity), parse_range("delta-v", delta_v)),
        out,
        replace(recipe, schedule="constant", milestones=()),
        pictures,
    )
    asked.check()
    note_left_out(plan.left_out())
    where = own_device(find_device(device))

    def load(spec: str, half: bool | None = None) -> "Model":
        # what was made here may name code that was called before
        known = loading.trust or (spec != model and Path(spec) == out / CHECKPOINT)
        return load_model(
            spec,
            where,
            half,
            trust=known,
            download=loading.download,
            label_maps=settings.loaded_maps,
        )

    found = _run(asked, load, where)
    if found is not None:
        # as it was typed, to be typed again
        command = shlex.join(["eyechart", *(context.obj or ())])
        _report(replace(found, evaluation=found.evaluation.with_command(command)), out)


def _run(asked: "Retraining", load: "Load", device: "torch.device") -> "Retrained | None":
    from eyechart.cli.shared.progress import ProgressBars
    from eyechart.core.locks import lock_folder
    from eyechart.core.progress import NoProgress
    from eyechart.training.distributed import for_first, is_first_process
    from eyechart.training.retrain import retrain

    with for_first(lock_folder(asked.out)), ProgressBars() as bars:
        try:
            return retrain(asked, load, device, bars if is_first_process() else NoProgress())
        except KeyboardInterrupt:
            raise stopped(asked.out, "what was trained and tested") from None


def _report(found: "Retrained", out: Path) -> None:
    from eyechart.cli.shared.console import wide_console
    from eyechart.reports.figures.curve_plot import draw_curves
    from eyechart.reports.terminal.retraining import retraining_tables, write_changes
    from eyechart.results.writing import write_results
    from eyechart.training.retrain import EVALUATION, TABLE

    console = wide_console()
    for title, parts in retraining_tables(found, console.width):
        print(title)
        for table in parts:
            console.print(table)
    print(
        "Behind each number its 95 % interval, from resampled pictures; p of paired tests, by"
        " Holm's method for all lines."
    )
    for warning in found.evaluation.warnings:
        print(f"Note: {warning}")
    written = [found.checkpoint, write_changes(found, out / TABLE)]
    written += draw_curves(found.evaluation, out / EVALUATION)
    written += write_results(found.evaluation, out / EVALUATION)
    print("Written:")
    for path in written:
        print(f"  {path}")
