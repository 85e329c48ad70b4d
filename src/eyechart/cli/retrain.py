"""`eyechart train retrain` and `enhancements`: make a model more robust, and measure how much."""

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eyechart.cli.shared.derived_options import Only, derived_options, examples
from eyechart.cli.shared.printing import note_left_out, print_notes, print_written, wide_console
from eyechart.cli.shared.progress import ProgressBars
from eyechart.cli.shared.stop import resumable
from eyechart.cli.shared.training_options import (
    ChangeRange,
    OutFolder,
    SeverityRange,
    Stimulus,
    TrainImages,
    images_option,
)
from eyechart.core.errors import UsageError
from eyechart.core.options import Device, Option
from eyechart.core.progress import NO_PROGRESS
from eyechart.core.storage.locks import lock_folder
from eyechart.corruptions.suites.published import TESTS, TestPreset, preset_line
from eyechart.humans.human_settings import HumanReferences
from eyechart.images.labels.spaces import ENTRY16, NATIVE
from eyechart.models.registries import ARCH_HELP
from eyechart.pipeline.settings import EvaluateSettings, LoadingSettings
from eyechart.reports.number_text import share_text
from eyechart.reports.terminal.columns import number_table
from eyechart.scores.baseline_names import ALEXNET
from eyechart.testsets.testset_settings import N_SAMPLES, SUITE, Suite
from eyechart.training.recipe import RETRAINING, Recipe

if TYPE_CHECKING:
    from eyechart.models.model import Model


@examples(
    "eyechart train retrain resnet50.pt --train-images train --images val",
    "eyechart train retrain a.pt --train-images train --images val --preset vcr",
)
@derived_options
def retrain(
    context: typer.Context,
    model: Annotated[
        str,
        Option(
            help="Model: timm:NAME, hf:REPO, module:attribute, a checkpoint or a card, as for"
            " evaluate; it must be a torch module.",
            group="Models",
            metavar="MODEL",
            is_argument=True,
        ),
    ],
    train_images: TrainImages,
    images: Annotated[
        Path,
        images_option("Test images, used before and after retraining."),
    ],
    max_train_images: Annotated[
        int,
        Option(
            help="Use at most this number of training images, balanced over classes.", group="Data"
        ),
    ] = 12_000,  # the VCR study used about as many from ImageNet's training set
    stimulus: Stimulus = "224",
    labels: Annotated[
        str,
        Option(
            help=f"Label space of the test: {NATIVE} or {ENTRY16} (16 categories).",
            group="Data",
            is_advanced=True,
        ),
    ] = NATIVE,
    suite: Suite = SUITE,
    corruptions: Annotated[
        tuple[str, ...],
        Option(
            help="Train on this corruption of the suite; repeatable; default: all.",
            group="Corruptions",
            flags=("--corruption",),
        ),
    ] = (),
    also: Annotated[
        tuple[str, ...],
        Option(
            help="Also test on this corruption, without training on it; repeatable.",
            group="Corruptions",
            is_advanced=True,
        ),
    ] = (),
    severity: SeverityRange = None,
    delta_v: ChangeRange = None,
    preset: TestPreset = None,
    n: Annotated[
        int, Option(help="Number of test samples per corruption.", group="Corruptions")
    ] = N_SAMPLES,
    humans: HumanReferences = "geirhos",
    device: Device = "cpu",
    out: OutFolder = Path("eyechart-retrained"),
    *,
    test: Annotated[
        EvaluateSettings,
        Only(
            "bins", "min_per_bin", "binning", "estimator", "right_anchor", "n_bootstrap", "jpeg",
            "label_maps",
        ),
    ],
    recipe: Annotated[
        Recipe,
        Only(
            "epochs", "batch_size", "lr", "momentum", "weight_decay", "share", "flip", "mixup",
            "stability", "precision", "deterministic", "seed", usual=RETRAINING,
        ),
    ],
    loading: LoadingSettings,
) -> None:  # fmt: skip
    """Retrain a model on corruptions; print its scores before and after.

    The defaults of the training are those of the VCR paper: 12,000 images, five epochs, all
    parameters; --preset vcr tests as in the paper. Run the same command again to resume.
    """
    from eyechart.core.devices import find_device
    from eyechart.models.find import load_model
    from eyechart.pipeline.image_source import find_source
    from eyechart.reports.terminal.retraining_tables import retraining_tables, write_changes
    from eyechart.results.results_file import write_results
    from eyechart.training.corruption_mixture import Mixture
    from eyechart.training.distributed import for_first, is_first_process, own_device
    from eyechart.training.retrain import CHECKPOINT, EVALUATION, TABLE, Retraining
    from eyechart.training.retrain import retrain as retrain_model

    test = replace(
        test, images=images, suite=suite, n=n, labels=labels,
        corruptions=corruptions, humans=humans, seed=recipe.seed,
        # read once, because `reject_unused` compares maps by identity
        label_maps=test.loaded_maps,
    )  # fmt: skip
    plan = test.plan
    entries = tuple(plan.entries())
    tested_too = replace(plan, corruptions=also).entries() if also else ()
    names = dict.fromkeys(entry.name for entry in (*entries, *tested_too))
    retraining = Retraining(
        model,
        train_images,
        find_source(images, stimulus, None, out),
        replace(test, corruptions=tuple(names)),
        Mixture(entries, severity, delta_v),
        out,
        recipe,
        max_train_images,
    )
    retraining.check()
    if preset is not None:
        values = {**vars(test.at_published_strengths()), "stimulus": stimulus}
        print(preset_line(preset, TESTS, values, len(names)))
    note_left_out(plan.left_out())
    where = own_device(find_device(device))

    def load(spec: str, half: bool | None = None) -> "Model":
        # a checkpoint written by this run is trusted: it names only code that was called before
        known = loading.trust or (spec != model and Path(spec) == out / CHECKPOINT)
        return load_model(
            spec,
            where,
            half,
            trust=known,
            download=loading.download,
            label_maps=test.loaded_maps,
        )

    with for_first(lock_folder(out)), resumable(out, "finished work"), ProgressBars() as bars:
        progress = bars if is_first_process() else NO_PROGRESS
        finished = retrain_model(retraining, load, where, progress)
    if finished is not None:
        from eyechart.reports.figures.curve_plot import draw_curves

        results, changes = finished
        # stored as typed, so that it can be run again
        results = results.with_command(shlex.join(["eyechart", *(context.obj or ())]))
        console = wide_console()
        for title, parts in retraining_tables(results, changes, console.width):
            print(title)
            for table in parts:
                console.print(table)
        print(
            "Each score is followed by its 95 % confidence interval (bootstrap over images); p:"
            " paired tests with Holm correction over all lines."
        )
        print_notes(results.warnings)
        written = [out / CHECKPOINT, write_changes(results, changes, out / TABLE)]
        written += draw_curves(results, out / EVALUATION)
        written += write_results(results, out / EVALUATION)
        print_written(written)


@examples(
    "eyechart train enhancements resnet18 --train-images train --images val",
    "eyechart train enhancements resnet9 --train-images train --images val --crop 4",
)
@derived_options
def enhancements(
    arch: Annotated[
        str,
        Option(
            help=f"The standard network: {ARCH_HELP}; with --pretrained, a model or checkpoint, as"
            " for evaluate.",
            group="Models",
            metavar="ARCH",
            is_argument=True,
        ),
    ],
    train_images: TrainImages,
    images: Annotated[
        Path,
        images_option("Test images."),
    ],
    stimulus: Stimulus = "224",
    pretrained: Annotated[
        bool,
        Option(
            help="Fine-tune ARCH with its pretrained weights, instead of training it first.",
            group="Models",
        ),
    ] = False,
    larger: Annotated[
        tuple[str, ...],
        Option(
            help="Also train this network (with --pretrained: only test it); repeatable.",
            group="Models",
            is_advanced=True,
            metavar="ARCH",
        ),
    ] = (),
    baseline: Annotated[
        str,
        Option(
            help="Baseline of mCE: standard (the network without enhancements),"
            f" {ALEXNET}, a model or a .csv file, as for evaluate.",
            group="Curves and statistics",
        ),
    ] = "standard",
    suite: Suite = "imagenet-c",
    tuning_epochs: Annotated[
        int, Option(help="Number of fine-tuning epochs.", group="Training")
    ] = 5,
    tuning_lr: Annotated[
        float,
        Option(help="Highest learning rate of fine-tuning.", group="Training", is_advanced=True),
    ] = 0.005,
    widths: Annotated[
        tuple[float, ...],
        Option(
            help="Noise width of stability training, as a fraction of full scale; repeatable.",
            group="Training",
            is_advanced=True,
            flags=("--width",),
        ),
    ] = (0.05,),
    weights: Annotated[
        tuple[float, ...],
        Option(
            help="Loss weight of stability training; repeatable.",
            group="Training",
            is_advanced=True,
            flags=("--weight",),
        ),
    ] = (0.05,),
    device: Device = "cpu",
    out: OutFolder = Path("eyechart-enhancements"),
    *,
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
    from eyechart.core.devices import find_device
    from eyechart.models.find import load_model
    from eyechart.results.results_file import write_results
    from eyechart.training.data import TrainingSources
    from eyechart.training.enhancements import (
        EnhancementStudy,
        compare_enhancements,
        usual_enhancements,
    )

    # compared with the defaults: a default that was typed has no effect either
    names = ("epochs", "lr", "schedule", "warmup")
    if pretrained and any(getattr(recipe, name) != getattr(Recipe(), name) for name in names):
        raise UsageError(
            "--epochs, --lr, --schedule and --warmup are for training from scratch: with"
            " --pretrained give --tuning-epochs and --tuning-lr."
        )
    recipe.check()
    tuning = replace(
        recipe,
        epochs=tuning_epochs,
        lr=tuning_lr,
        schedule="cosine",
        warmup=0.0,
    )
    try:
        tuning.check()
    except UsageError as error:
        raise UsageError(f"--tuning-epochs and --tuning-lr: {error}") from None
    chosen = usual_enhancements(larger, tuning, widths, weights)
    if len({enhancement.title for enhancement in chosen}) < len(chosen):
        raise UsageError("Each network, width and weight must be given only once.")
    test = replace(test, images=images, suite=suite, seed=recipe.seed, humans=None)
    study = EnhancementStudy(arch, recipe, tuple(chosen), test, out, pretrained, baseline)
    study.check()
    note_left_out(test.plan.left_out())
    where = find_device(device)

    def load(spec: str, half: bool | None = None) -> "Model":
        # a checkpoint written by this run is trusted: it names only code that was called before
        is_made_here = Path(spec).parent == out and spec not in (
            arch, baseline, *larger,
        )  # fmt: skip
        return load_model(
            spec, where, half, trust=loading.trust or is_made_here, download=loading.download
        )

    sources = TrainingSources(images, train_images, stimulus, leave_out=out)
    with lock_folder(out), resumable(out, "finished work"), ProgressBars() as bars:
        compared = compare_enhancements(study, sources, load, where, bars)
    evaluations, scores, baseline_name, notes = compared
    table = number_table("enhancement", "clean error (%)", "mCE (%)", "relative mCE (%)")
    shown = {"standard": f"none ({arch})", "trained on": f"{tuning_epochs} more epochs"}
    for title, shares in scores.items():
        table.add_row(shown.get(title, title), *map(share_text, shares))
    wide_console().print(table)
    print(f"mCE and relative mCE use the errors of {baseline_name} as the baseline.")
    print_notes(notes)
    for folder, evaluation in evaluations.items():
        write_results(evaluation, folder)
    written = " and ".join(map(str, evaluations))
    print(f"Written: {written}, for eyechart report and compare.")
