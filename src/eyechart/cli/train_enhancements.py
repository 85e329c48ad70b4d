"""`eyechart train enhancements`: what makes a network more robust, side by side."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eyechart.cli.notes import note_left_out
from eyechart.cli.paths import folder, folder_or_file
from eyechart.cli.stop import stopped
from eyechart.cli.training_options import (
    Batch,
    Crop,
    Deterministic,
    Epochs,
    Nesterov,
    Precision,
    Rate,
    Schedule,
    Seed,
    Stimulus,
    TrainImages,
    Warmup,
    WeightDecay,
)
from eyechart.core.errors import UsageError

if TYPE_CHECKING:
    from eyechart.training.enhancements import Row


def enhancements(
    arch: Annotated[
        str,
        typer.Argument(
            metavar="ARCH",
            help="The standard network: resnet9, resnet18, wrn_16_4, wrn_40_2, multigrid,"
            " timm:NAME, torchvision:NAME or module:function.",
        ),
    ],
    train_images: TrainImages,
    images: Annotated[
        Path,
        typer.Option(metavar="PATH", parser=folder_or_file, help="Other pictures, to test with."),
    ],
    larger: Annotated[
        list[str] | None,
        typer.Option(metavar="ARCH", help="Also train this other network; repeatable."),
    ] = None,
    suite: Annotated[str, typer.Option(help="A suite's name or YAML file.")] = "imagenet-c",
    corruption: Annotated[
        list[str] | None, typer.Option(help="Only this corruption of the suite; repeatable.")
    ] = None,
    pictures: Annotated[
        int | None, typer.Option(help="Test with so many pictures, as many of every class.")
    ] = None,
    epochs: Epochs = 40,
    batch: Batch = 256,
    rate: Rate = 0.1,
    nesterov: Nesterov = False,
    weight_decay: WeightDecay = 1e-4,
    schedule: Schedule = "step",
    warmup: Warmup = 0.0,
    crop: Crop = 0,
    tuning_epochs: Annotated[int, typer.Option(help="How long it is trained further.")] = 5,
    tuning_rate: Annotated[float, typer.Option(help="Highest rate of that.")] = 0.005,
    width: Annotated[
        list[float] | None,
        typer.Option(help="Noise of stability training, ± of full scale; repeatable; 0.05."),
    ] = None,
    weight: Annotated[
        list[float] | None, typer.Option(help="Weight of stability training; repeatable; 0.05.")
    ] = None,
    replicates: Annotated[int, typer.Option(help="Resampled sets behind intervals.")] = 1000,
    precision: Precision = "auto",
    deterministic: Deterministic = False,
    seed: Seed = 0,
    stimulus: Stimulus = "224",
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    out: Annotated[
        Path, typer.Option(metavar="FOLDER", parser=folder, help="Where all that is made goes.")
    ] = Path("eyechart-enhancements"),
) -> None:
    """Train a network, enhance it in the ways of the ImageNet-C paper, and compare their errors.

    CLAHE, denoising, stability training, ten-crop and other networks. The same command goes on with
    what was stopped.
    """
    from eyechart.cli.progress import Bars
    from eyechart.core.devices import find_device
    from eyechart.evaluation.task import Task
    from eyechart.reports.results import write_results
    from eyechart.scores.scoring import Fit
    from eyechart.testsets.drawing import Plan
    from eyechart.training.enhancements import (
        EVALUATION,
        Comparison,
        compare_enhancements,
        usual_enhancements,
    )
    from eyechart.training.recipe import Recipe
    from eyechart.training.sources import Sources

    recipe = Recipe(
        epochs, batch, rate, nesterov=nesterov, weight_decay=weight_decay, schedule=schedule,
        warmup=warmup, crop=crop, precision=precision, deterministic=deterministic, seed=seed,
    )  # fmt: skip
    recipe.check()
    tuning = replace(recipe, epochs=tuning_epochs, rate=tuning_rate, schedule="cosine", warmup=0.0)
    try:
        tuning.check()
    except UsageError as error:
        raise UsageError(f"Of --tuning-epochs and --tuning-rate: {error}") from None
    chosen = usual_enhancements(larger or [], tuning, width or [0.05], weight or [0.05])
    names = [each.title for each in chosen]
    if len(set(names)) < len(names):
        raise UsageError("Name every network, noise and weight once.")
    plan = Plan(suite, seed=seed, corruptions=tuple(corruption or ()), pictures=pictures)
    task = Task(plan, Fit(replicates=replicates), humans=None)
    asked = Comparison(arch, recipe, tuple(chosen), task, out)
    note_left_out(plan.left_out())
    where = find_device(device)
    with Bars() as bars:
        try:
            found, rows = compare_enhancements(
                asked, Sources(images, train_images, stimulus, leave_out=out), where, bars
            )
        except KeyboardInterrupt:
            raise stopped(out, "what was done") from None
    _show(rows, arch, tuning_epochs)
    evaluation = out / EVALUATION
    write_results(found, evaluation)
    print(f"Written: {evaluation}, which eyechart report and compare take.")


def _show(rows: "list[Row]", arch: str, epochs: int) -> None:
    from rich import box
    from rich.table import Table

    from eyechart.cli.tables import share_text, wide_console

    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("enhancement")
    for name in ("clean error (%)", "mCE (%)", "relative mCE (%)"):
        table.add_column(name, justify="right")
    for row in rows:
        title = {"standard": f"none ({arch})", "trained on": f"{epochs} epochs more"}.get(row.title)
        cells = (share_text(each) for each in (row.clean_error, row.mce, row.relative_mce))
        table.add_row(title or row.title, *cells)
    wide_console().print(table)
    print(f"mCE and relative mCE divide by the errors of {arch} as it was trained first.")
