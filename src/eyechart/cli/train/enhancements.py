"""`eyechart train enhancements`: what makes a network more robust, side by side."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eyechart.cli.shared.console import note_left_out
from eyechart.cli.shared.derived_options import Only, derived_options
from eyechart.cli.shared.paths import folder, folder_or_file
from eyechart.cli.shared.stop import stopped
from eyechart.cli.shared.training_options import (
    Stimulus,
    TrainImages,
)
from eyechart.core.errors import UsageError
from eyechart.curves.curve_settings import REPLICATES
from eyechart.pipeline.settings import EvaluateSettings, LoadingSettings
from eyechart.testsets.testset_settings import TestsetSettings
from eyechart.training.recipe import Recipe

if TYPE_CHECKING:
    from eyechart.models.model import Model
    from eyechart.training.enhancements import EnhancementResults


@derived_options
def enhancements(
    arch: Annotated[
        str,
        typer.Argument(
            metavar="ARCH",
            help="The standard network: resnet9, resnet18, wrn_16_4, wrn_40_2, multigrid,"
            " timm:NAME, torchvision:NAME or module:function; with --pretrained a model or"
            " checkpoint, as of evaluate.",
        ),
    ],
    train_images: TrainImages,
    images: Annotated[
        Path,
        typer.Option(metavar="PATH", parser=folder_or_file, help="Other pictures, to test with."),
    ],
    pretrained: Annotated[
        bool,
        typer.Option(
            "--pretrained",
            help="Fine-tune ARCH with the weights that it has, instead of training it first.",
        ),
    ] = False,
    larger: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ARCH",
            help="Also train this other network, or with --pretrained test it; repeatable.",
        ),
    ] = None,
    baseline: Annotated[
        str,
        typer.Option(
            help="Whose errors mCE divides by: standard (the network before it is enhanced),"
            " alexnet, a model or a .csv file, as of evaluate."
        ),
    ] = "standard",
    suite: Annotated[str, typer.Option(help="A suite's name or YAML file.")] = "imagenet-c",
    pictures: Annotated[
        int | None, typer.Option(help="Test with so many pictures, as many of every class.")
    ] = None,
    tuning_epochs: Annotated[int, typer.Option(help="How long it is trained further.")] = 5,
    tuning_rate: Annotated[float, typer.Option(help="Highest rate of that.")] = 0.005,
    width: Annotated[
        list[float] | None,
        typer.Option(help="Noise of stability training, ± of full scale; repeatable; 0.05."),
    ] = None,
    weight: Annotated[
        list[float] | None, typer.Option(help="Weight of stability training; repeatable; 0.05.")
    ] = None,
    replicates: Annotated[int, typer.Option(help="Resampled sets behind intervals.")] = REPLICATES,
    stimulus: Stimulus = "224",
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    out: Annotated[
        Path, typer.Option(metavar="FOLDER", parser=folder, help="Where all that is made goes.")
    ] = Path("eyechart-enhancements"),
    *,
    recipe: Annotated[
        Recipe,
        Only(
            "epochs",
            "batch",
            "rate",
            "nesterov",
            "weight_decay",
            "schedule",
            "warmup",
            "crop",
            "precision",
            "deterministic",
            "seed",
        ),
    ],
    sampling: Annotated[TestsetSettings, Only("corruptions", "jpeg")],
    loading: LoadingSettings,
) -> None:
    """Enhance a network in the ways of the ImageNet-C paper, and compare their errors.

    CLAHE, denoising, stability training, ten-crop and other networks. The network is trained first,
    or with --pretrained taken as it is. The same command goes on with what was stopped.
    """
    from eyechart.cli.shared.progress import ProgressBars
    from eyechart.core.devices import find_device
    from eyechart.core.locks import lock_folder
    from eyechart.models.find import load_model
    from eyechart.results.writing import write_results
    from eyechart.training.enhancements import (
        EnhancementStudy,
        compare_enhancements,
        usual_enhancements,
    )
    from eyechart.training.sources import TrainingSources

    names = ("epochs", "rate", "schedule", "warmup")
    if pretrained and any(getattr(recipe, name) != getattr(Recipe(), name) for name in names):
        raise UsageError(
            "--epochs, --rate, --schedule and --warmup are of a network that is trained from"
            " scratch: with --pretrained give --tuning-epochs and --tuning-rate."
        )
    recipe.check()
    tuning = replace(recipe, epochs=tuning_epochs, rate=tuning_rate, schedule="cosine", warmup=0.0)
    try:
        tuning.check()
    except UsageError as error:
        raise UsageError(f"Of --tuning-epochs and --tuning-rate: {error}") from None
    chosen = usual_enhancements(larger or [], tuning, width or [0.05], weight or [0.05])
    titles = [enhancement.title for enhancement in chosen]
    if len(set(titles)) < len(titles):
        raise UsageError("Name every network, noise and weight once.")
    settings = EvaluateSettings(
        images=images, suite=suite, seed=recipe.seed, corruptions=sampling.corruptions,
        jpeg=sampling.jpeg, pictures=pictures, replicates=replicates, humans=None,
    )  # fmt: skip
    asked = EnhancementStudy(arch, recipe, tuple(chosen), settings, out, pretrained, baseline)
    asked.check()
    note_left_out(settings.plan.left_out())
    where = find_device(device)

    def load(spec: str, half: bool | None = None) -> "Model":
        # what was made here may name code that was called before
        is_own = Path(spec).parent == out and spec not in (arch, baseline, *(larger or ()))
        return load_model(
            spec, where, half, trust=loading.trust or is_own, download=loading.download
        )

    with lock_folder(out), ProgressBars() as bars:
        try:
            compared = compare_enhancements(
                asked,
                TrainingSources(images, train_images, stimulus, leave_out=out),
                load,
                where,
                bars,
            )
        except KeyboardInterrupt:
            raise stopped(out, "what was done") from None
    _show(compared, arch, tuning_epochs)
    for folder_of_it, evaluation in compared.evaluations.items():
        write_results(evaluation, folder_of_it)
    written = " and ".join(map(str, compared.evaluations))
    print(f"Written: {written}, which eyechart report and compare take.")


def _show(compared: "EnhancementResults", arch: str, epochs: int) -> None:
    from rich import box
    from rich.table import Table

    from eyechart.cli.shared.console import share_text, wide_console

    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("enhancement")
    for name in ("clean error (%)", "mCE (%)", "relative mCE (%)"):
        table.add_column(name, justify="right")
    for row in compared.rows:
        title = {"standard": f"none ({arch})", "trained on": f"{epochs} epochs more"}.get(row.title)
        cells = (share_text(each) for each in (row.clean_error, row.mce, row.relative_mce))
        table.add_row(title or row.title, *cells)
    wide_console().print(table)
    print(f"mCE and relative mCE divide by the errors of {compared.baseline}.")
    for note in compared.notes:
        print(f"Note: {note}")
