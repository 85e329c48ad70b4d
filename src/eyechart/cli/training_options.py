"""The options that commands which train have in common."""

from pathlib import Path
from typing import Annotated

import typer

from eyechart.cli.paths import folder_or_file

TrainImages = Annotated[
    Path,
    typer.Option(
        metavar="PATH",
        parser=folder_or_file,
        help="Pictures to train with: class folders, or a CSV or Parquet file.",
    ),
]
Severity = Annotated[
    str | None,
    typer.Option(
        metavar="LOW-HIGH",
        help="Train at severities from this range, such as 1-5; without it as the suite draws.",
    ),
]
DeltaV = Annotated[
    str | None,
    typer.Option(
        metavar="LOW-HIGH", help="Train at visual changes from this range, such as 0.2-0.8."
    ),
]
Share = Annotated[float, typer.Option(help="Of each batch, that is corrupted.")]
Epochs = Annotated[int, typer.Option(help="How often each picture is trained with.")]
Batch = Annotated[int, typer.Option(help="Pictures in one step.")]
Rate = Annotated[float, typer.Option(help="Highest learning rate.")]
Momentum = Annotated[float, typer.Option(help="Of SGD.")]
Nesterov = Annotated[bool, typer.Option("--nesterov", help="Nesterov's momentum.")]
WeightDecay = Annotated[float, typer.Option(help="Of SGD.")]
Schedule = Annotated[
    str, typer.Option(help="step (a tenth at half and three quarters), cosine or constant.")
]
Warmup = Annotated[float, typer.Option(help="Epochs in which the rate rises from 0.")]
Flip = Annotated[float, typer.Option(help="Chance that a picture is mirrored.")]
Crop = Annotated[int, typer.Option(help="Shift pictures at random by up to so many pixels.")]
Mixup = Annotated[float, typer.Option(help="The a of mixup's Beta(a, a); 0 for none.")]
Stability = Annotated[float, typer.Option(help="Weight of stability training; 0 for none.")]
Precision = Annotated[
    str, typer.Option(help="Of training: float32, bfloat16, or auto (bfloat16 on a GPU).")
]
Deterministic = Annotated[
    bool, typer.Option("--deterministic", help="The same bits again on the same machine.")
]
Seed = Annotated[int, typer.Option(help="Of all random numbers.")]
Stimulus = Annotated[
    str,
    typer.Option(
        help="224 (shorter side 256, middle 224) or another side, 224x224 (plain resize) or another"
        " WIDTHxHEIGHT, or native."
    ),
]
Every = Annotated[
    int, typer.Option(help="Only every so-many-th class by name: 10 makes ImageNet-100 of it.")
]
