"""`eyechart train`: train networks on clean and corrupted images."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eyechart.cli.overlap.run import entries_of
from eyechart.cli.retrain import enhancements, retrain
from eyechart.cli.shared.derived_options import (
    Only,
    derived_options,
    examples,
    folder,
    folder_or_file,
)
from eyechart.cli.shared.help import CommandLine
from eyechart.cli.shared.output_files import check_file_to_write, check_latex
from eyechart.cli.shared.printing import print_table, print_written
from eyechart.cli.shared.progress import ProgressBars
from eyechart.cli.shared.stop import on_interrupt
from eyechart.cli.shared.training_options import (
    CHECKPOINT_SUFFIXES,
    ChangeRange,
    ChosenCorruptions,
    Every,
    SeverityRange,
    Stimulus,
    TrainImages,
    images_option,
)
from eyechart.core.arguments import resolved_path
from eyechart.core.errors import UsageError
from eyechart.core.options import Device, Option
from eyechart.core.phrases import count_of
from eyechart.core.progress import NO_PROGRESS
from eyechart.core.storage.files import write_text
from eyechart.core.storage.locks import lock_file
from eyechart.models.registries import ARCH_HELP
from eyechart.pipeline.settings import LoadingSettings
from eyechart.training.recipe import Recipe, StyleRecipe

if TYPE_CHECKING:
    from eyechart.core.progress import Progress
    from eyechart.images.imageset import ImageSet


@examples(
    "eyechart train network resnet18 --train-images train --images val",
    "eyechart train network resnet18 --train-images train --suite imagenet-c",
)
@derived_options
def network(
    arch: Annotated[
        str,
        Option(
            help=f"{ARCH_HELP}.",
            group="Models",
            metavar="ARCH",
            is_argument=True,
        ),
    ],
    train_images: TrainImages,
    images: Annotated[
        Path | None,
        images_option("Test images, used after training."),
    ] = None,
    stimulus: Stimulus = "224",
    every: Every = 1,
    suites: Annotated[
        tuple[str, ...],
        Option(
            help="Train on corruptions of this suite (a name or a YAML file); repeatable.",
            group="Corruptions",
            flags=("--suite",),
        ),
    ] = (),
    corruptions: ChosenCorruptions = (),
    severity: SeverityRange = None,
    delta_v: ChangeRange = None,
    device: Annotated[
        str, Option(help="cpu, cuda or auto; torchrun uses all GPUs.", group="Compute")
    ] = "cpu",
    out: Annotated[
        Path,
        Option(help="Checkpoint to write.", group="Output", metavar="FILE", path="folder or file"),
    ] = Path("network.pt"),
    *,
    recipe: Recipe,
) -> None:
    """Train a network on clean or corrupted images and write a checkpoint.

    Run the same command again to resume an interrupted training.
    """
    from eyechart.core.devices import find_device
    from eyechart.models.model import Preprocessing
    from eyechart.training.corruption_mixture import Mixture
    from eyechart.training.data import mean_and_deviation, training_data
    from eyechart.training.distributed import for_first, is_first_process, own_device
    from eyechart.training.image_blocks import clean_accuracy
    from eyechart.training.training_loop import Training, new_network, train

    check_file_to_write(out)
    if out.suffix not in CHECKPOINT_SUFFIXES:
        raise UsageError(f"A checkpoint's name must end in .pt, got '{out.name}'.")
    if corruptions and not suites:
        raise UsageError("--corruption needs --suite: give the suite that contains it.")
    if (severity or delta_v) and not suites:
        raise UsageError("--severity and --delta-v need --suite: give the suite to train on.")
    recipe.check()
    entries = entries_of(suites, corruptions) if suites else ()
    mixture = Mixture(entries, severity, delta_v)
    mixture.check()
    where = own_device(find_device(device))
    with for_first(lock_file(out)), ProgressBars() as bars:
        progress = bars if is_first_process() else NO_PROGRESS
        with on_interrupt(
            f"Stopped: the training state is next to {out}; run the same command again to resume."
        ):
            train_set, test_set = _load_images(train_images, images, stimulus, every, progress)
            data = training_data(train_set)
            # numbered by the classes of the training set, some of which the test set may lack
            test = (
                None
                if test_set is None
                else training_data(test_set, data.class_names, min_per_class=1)
            )
            steps = Preprocessing(None, *mean_and_deviation(data))
            start = new_network(arch, data, recipe.seed, steps)
            train(Training(start, data, recipe, mixture), where, out, progress)
    if not is_first_process():
        return
    print(f"Written: {out}, trained on {', '.join(mixture.names) or 'clean images'}.")
    if test is not None:
        accuracy, (low, high) = clean_accuracy(out, test, where)
        print(
            f"Accuracy {accuracy:.3f} on {count_of(len(test), 'clean image')} (95 %"
            f" interval {low:.3f} to {high:.3f})."
        )


def _load_images(
    train_images: Path, images: Path | None, stimulus: str, every: int, progress: "Progress"
) -> "tuple[ImageSet, ImageSet | None]":
    from eyechart.training.data import TrainingSources, load_labeled

    if images is None:
        return load_labeled(train_images, "training images", every, stimulus, progress), None
    return TrainingSources(images, train_images, stimulus, every).load(progress)


@examples(
    "eyechart train style-transfer --train-images photos --styles paintings",
    "eyechart train style-transfer --train-images photos --styles art --device cuda",
)
@derived_options
def style_transfer(
    train_images: Annotated[
        Path,
        images_option("Content images to repaint; labels are ignored."),
    ],
    styles: Annotated[
        Path,
        images_option("Style images, such as paintings, textures or icons."),
    ],
    stimulus: Stimulus = "256",
    model: Annotated[
        str,
        Option(
            help="Model whose features define content and style, named as for evaluate.",
            group="Models",
        ),
    ] = "efficientnet_lite0",
    device: Device = "cpu",
    out: Annotated[
        Path,
        Option(
            help="Network file to write.", group="Output", metavar="FILE", path="folder or file"
        ),
    ] = Path("style-transfer.pt"),
    *,
    recipe: Annotated[
        StyleRecipe, Only("steps", "batch_size", "lr", "side", "style_weight", "seed")
    ],
    loading: LoadingSettings,
) -> None:
    """Train the network for the corruption style_transfer.

    The corruption is part of the suite imagenet-c-extra. Run the same command again to resume.
    """
    from eyechart.core.devices import find_device
    from eyechart.corruptions.suites.assets import VARIABLE, write_styles
    from eyechart.images.image_sources import find_images
    from eyechart.images.imageset import load_listed
    from eyechart.models.find import load_model
    from eyechart.training.style_transfer import train_style_transfer

    check_file_to_write(out)
    if out.suffix not in CHECKPOINT_SUFFIXES:
        raise UsageError(f"The name of a style transfer file must end in .pt, got '{out.name}'.")
    recipe.check()
    where = find_device(device)
    with lock_file(out), ProgressBars() as bars:
        # under the lock, because another process may have finished it meanwhile
        if out.exists():
            raise UsageError(f"{out} already exists: choose another --out, or delete it.")
        # in full precision, because the loss is computed from its features
        judge = load_model(model, where, half=False, trust=loading.trust, download=loading.download)
        listed = [
            (find_images(path), path, title)
            for path, title in ((train_images, "images"), (styles, "styles"))
        ]
        contents, looks = (
            load_listed(images, str(path), stimulus, bars.begin(title, len(images)))
            for images, path, title in listed
        )
        with on_interrupt(
            f"Stopped: the training state is next to {out}; run the same command again to resume."
        ):
            trained = train_style_transfer(
                judge, contents, looks, recipe, device=where, path=out, progress=bars
            )
        write_styles(trained, out)
        # only once the result is written, so that an interrupt in between loses nothing
        out.with_suffix(".state").unlink(missing_ok=True)
    print(f"Written: {out}, with {len(trained):,} styles.")
    print(f"To use it: export {VARIABLE}={resolved_path(out)}")


@examples(
    "eyechart train table retrained-resnet retrained-vit",
    "eyechart train table retrained/* --latex table3.tex",
)
def table(
    folders: Annotated[
        list[Path],
        typer.Argument(
            metavar="FOLDER...", parser=folder, help="Folders written by eyechart train retrain."
        ),
    ],
    latex: Annotated[
        Path | None,
        typer.Option(metavar="FILE.tex", parser=folder_or_file, help="Also write a LaTeX table."),
    ] = None,
) -> None:
    """Print the scores of retrained models before and after retraining."""
    from eyechart.reports.terminal.retraining_tables import (
        read_retrainings,
        retrained_cells,
        retrained_latex,
        shown_scores,
    )
    from eyechart.training.retrain import TABLE

    check_latex(latex)
    rows = read_retrainings([folder / TABLE for folder in folders])
    scores = [score.title for score in shown_scores(rows)]
    head = [
        "model",
        "corruption",
        *(f"{n} before" for n in scores),
        *(f"{n} after" for n in scores),
    ]
    print_table((head, retrained_cells(rows)), left=(0, 1), kept=2)
    if latex is not None:
        write_text(latex, retrained_latex(rows))
        print_written([latex])


app = CommandLine(
    help="Train networks on clean and corrupted images.",
    commands={
        "network": network,
        "style-transfer": style_transfer,
        "enhancements": enhancements,
        "table": table,
        "retrain": retrain,
    },
)
