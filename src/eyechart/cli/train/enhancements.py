"""`eyechart train enhancements`: compare ways to make a network more robust."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from eyechart.cli.shared.console import note_left_out
from eyechart.cli.shared.derived_options import Only, derived_options
from eyechart.cli.shared.help import examples
from eyechart.cli.shared.stop import stopped
from eyechart.core.errors import UsageError
from eyechart.pipeline.settings import EvaluateSettings, LoadingSettings
from eyechart.training.recipe import Recipe
from eyechart.training.training_settings import EnhancementSettings

if TYPE_CHECKING:
    from eyechart.models.model import Model
    from eyechart.training.enhancements import EnhancementResults


@examples(
    "eyechart train enhancements resnet18 --train-images train --images val",
    "eyechart train enhancements resnet9 --train-images train --images val --crop 4",
)
@derived_options
def enhancements(
    settings: EnhancementSettings,
    test: Annotated[EvaluateSettings, Only("corruptions", "jpeg", "max_images", "n_bootstrap")],
    recipe: Annotated[
        Recipe,
        Only(
            "epochs", "batch_size", "lr", "nesterov", "weight_decay", "schedule", "warmup", "crop",
            "precision", "deterministic", "seed",
        ),
    ],
    loading: LoadingSettings,
) -> None:  # fmt: skip
    """Apply the enhancements of the ImageNet-C paper to a network and compare the errors.

    Tests CLAHE, denoising, stability training, ten-crop and other networks. The network is trained
    first unless --pretrained is given. Run the same command again to resume.
    """
    from eyechart.cli.shared.progress import ProgressBars
    from eyechart.core.devices import find_device
    from eyechart.core.storage.locks import lock_folder
    from eyechart.models.find import load_model
    from eyechart.results.writing import write_results
    from eyechart.training.enhancements import (
        EnhancementStudy,
        compare_enhancements,
        usual_enhancements,
    )
    from eyechart.training.sources import TrainingSources

    # compared with the defaults: a default that was typed has no effect either
    names = ("epochs", "lr", "schedule", "warmup")
    if settings.pretrained and any(
        getattr(recipe, name) != getattr(Recipe(), name) for name in names
    ):
        raise UsageError(
            "--epochs, --lr, --schedule and --warmup are for training from scratch: with"
            " --pretrained give --tuning-epochs and --tuning-lr."
        )
    recipe.check()
    tuning = replace(
        recipe,
        epochs=settings.tuning_epochs,
        lr=settings.tuning_lr,
        schedule="cosine",
        warmup=0.0,
    )
    try:
        tuning.check()
    except UsageError as error:
        raise UsageError(f"--tuning-epochs and --tuning-lr: {error}") from None
    chosen = usual_enhancements(settings.larger, tuning, settings.widths, settings.weights)
    titles = [enhancement.title for enhancement in chosen]
    if len(set(titles)) < len(titles):
        raise UsageError("Each network, width and weight must be given only once.")
    test = replace(
        test, images=settings.images, suite=settings.suite, seed=recipe.seed, humans=None
    )
    arch, out = settings.arch, settings.out
    asked = EnhancementStudy(
        arch, recipe, tuple(chosen), test, out, settings.pretrained, settings.baseline
    )
    asked.check()
    note_left_out(test.plan.left_out())
    where = find_device(settings.device)

    def load(spec: str, half: bool | None = None) -> "Model":
        # a checkpoint written by this run is trusted: it names only code that was called before
        is_made_here = Path(spec).parent == out and spec not in (
            arch, settings.baseline, *settings.larger,
        )  # fmt: skip
        return load_model(
            spec, where, half, trust=loading.trust or is_made_here, download=loading.download
        )

    sources = TrainingSources(
        settings.images, settings.train_images, settings.stimulus, leave_out=out
    )
    with lock_folder(out), ProgressBars() as bars:
        try:
            compared = compare_enhancements(asked, sources, load, where, bars)
        except KeyboardInterrupt:
            raise stopped(out, "finished work") from None
    _show(compared, arch, settings.tuning_epochs)
    for folder, evaluation in compared.evaluations.items():
        write_results(evaluation, folder)
    written = " and ".join(map(str, compared.evaluations))
    print(f"Written: {written}, for eyechart report and compare.")


def _show(compared: "EnhancementResults", arch: str, epochs: int) -> None:
    from rich import box
    from rich.table import Table

    from eyechart.cli.shared.console import share_text, wide_console

    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("enhancement")
    for name in ("clean error (%)", "mCE (%)", "relative mCE (%)"):
        table.add_column(name, justify="right")
    for row in compared.rows:
        title = {"standard": f"none ({arch})", "trained on": f"{epochs} more epochs"}.get(row.title)
        cells = (share_text(share) for share in (row.clean_error, row.mce, row.relative_mce))
        table.add_row(title or row.title, *cells)
    wide_console().print(table)
    print(f"mCE and relative mCE use the errors of {compared.baseline} as the baseline.")
    for note in compared.notes:
        print(f"Note: {note}")
