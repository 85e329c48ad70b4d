"""`eyechart models`: check a model's preprocessing and accuracy; score files of predictions."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from eyechart.cli.shared.derived_options import Only, derived_options, examples
from eyechart.cli.shared.help import CommandLine
from eyechart.cli.shared.printing import print_notes, wide_console
from eyechart.cli.shared.progress import ProgressBars
from eyechart.cli.shared.stop import FAILED, Stop
from eyechart.core.errors import UsageError
from eyechart.core.options import Device, Option
from eyechart.core.phrases import count_of, verb
from eyechart.humans.human_settings import ComparisonSettings
from eyechart.pipeline.settings import LoadingSettings, ModelCheckSettings
from eyechart.stats.curve_settings import CurveSettings

if TYPE_CHECKING:
    from eyechart.images.imageset import ImageSet
    from eyechart.pipeline.model_check import ModelCheck


app = CommandLine(help="Check models before evaluating them, or score files of predictions.")


@app.command("check")
@examples(
    "eyechart models check resnet50.pt --images imagenet/val",
    "eyechart models check timm:resnet50 --images val --expect 0.76",
)
@derived_options
def check(
    models: Annotated[
        tuple[str, ...],
        Option(
            help="Model: timm:NAME, hf:REPO, onnx:FILE, module:attribute, a file or a .yaml card.",
            group="Models",
            metavar="MODEL...",
            is_argument=True,
        ),
    ],
    images: Annotated[
        Path | None,
        Option(
            help="Labeled images: class folders, or a CSV or Parquet file with path and label; 20"
            " demo images if omitted.",
            group="Data",
            metavar="PATH",
            path="folder or file",
        ),
    ] = None,
    label_maps: Annotated[
        tuple[str, ...],
        Option(
            help="Classes of the outputs: background-first, or a file with a line per output;"
            " repeatable.",
            group="Models",
            flags=("--label-map",),
            metavar="NAME|FILE",
        ),
    ] = (),
    device: Device = "cpu",
    *,
    settings: ModelCheckSettings,
    loading: LoadingSettings,
) -> None:
    """Check a model's preprocessing and accuracy before an evaluation.

    Exit with status 1 if top-1 accuracy is below the published accuracy, or if different
    preprocessing gives significantly higher accuracy.
    """
    from eyechart.core.devices import find_device
    from eyechart.models.find import load_model, reject_unused
    from eyechart.models.label_map import find_map
    from eyechart.pipeline.model_check import check_model, passes

    where = find_device(device)
    maps = [find_map(name) for name in label_maps]
    load = partial(
        load_model, device=where, trust=loading.trust, download=loading.download, label_maps=maps
    )
    loaded = [load(spec) for spec in models]
    failures: list[str] = []
    with ProgressBars() as bars:
        labeled = _images(images, bars)
        # the first call counts the outputs, and a label map is chosen by their number
        for model in loaded:
            model(labeled.batch([0]))
        reject_unused(maps, loaded)
        for model in loaded:
            step = bars.begin(model.name, passes(model, labeled, settings.n))
            checked = check_model(model, labeled, settings, step)
            _report(checked)
            failures += _failures(checked)
    if images is None:
        print("Note: 20 demo images are only a smoke test; give --images.")
    if failures:
        raise Stop(" ".join(failures), FAILED)


@app.command("score")
@examples(
    "eyechart models score resnet50.csv --corruption vcr/frost",
    "eyechart models score net.csv --corruption frost --humans lab.parquet",
)
@derived_options
def score(
    files: Annotated[
        tuple[Path, ...],
        Option(
            help="Files of one model, .csv or .csv.gz, with the columns orig_pred, transf_pred,"
            " label, vd_score; and corruption, image if known.",
            group="Data",
            metavar="FILE…",
            path="folder or file",
            is_argument=True,
        ),
    ],
    corruption: Annotated[
        str | None,
        Option(help="Corruption of the images, if the files do not name it.", group="Data"),
    ] = None,
    choices: Annotated[
        int | None,
        Option(
            help="Number of classes that the model chose from; 16 if the labels are the categories"
            " of the human experiments.",
            group="Data",
            minimum=2,
        ),
    ] = None,
    *,
    humans: Annotated[
        ComparisonSettings, Only("humans", "similar", "chance_correct", "clean_responses")
    ],
    curves: CurveSettings,
) -> None:
    """Score a model's predictions in files with the columns of the VCR study's code.

    Prints R_a and R_p and, if the labels are the 16 categories, HMRI and MRSI.
    """
    from eyechart.pipeline.scoring.result_file import score_result_files
    from eyechart.reports.number_text import estimate_text
    from eyechart.reports.terminal.result_tables import human_lines, space_tables
    from eyechart.scores.registry import SCORES
    from eyechart.scores.scoring import make_fit

    scores, notes = score_result_files(files, humans, make_fit(curves), corruption, choices)
    console, clean = wide_console(), scores.clean_accuracy
    accuracy = "" if clean is None else estimate_text(clean, SCORES["clean_accuracy"])
    names = ", ".join(path.name for path in files)
    print(f"{names}: {count_of(scores.n_images, 'image')}, clean accuracy {accuracy}")
    for table in space_tables(scores, console.width):
        console.print(table)
    print("Each score is followed by its 95 % confidence interval (bootstrap over images).")
    for line in human_lines(scores.corruptions.items()):
        print(line)
    print_notes(f"{note}." for note in notes)


def _images(images: Path | None, bars: "ProgressBars") -> "ImageSet":
    """Return the labeled images, or the demo images if there is no path; skip unlabeled images."""
    from eyechart.images.image_list import ImageListing
    from eyechart.images.image_sources import SOURCE, demo_images, find_listing
    from eyechart.images.imageset import load_listing

    listing = ImageListing(SOURCE, demo_images()) if images is None else find_listing(images)
    labeled = [image for image in listing.images if image.label is not None]
    if not labeled:
        raise UsageError(f"No image in {images} has a label: give labeled images.")
    step = bars.begin("images", len(labeled))
    return load_listing(replace(listing, images=labeled), "224", step)


def _report(checked: "ModelCheck") -> None:
    print(checked.model.name)
    print(f"  input: {checked.model.preprocessing}")
    model = checked.model
    if model.label_map is not None:
        outputs = str(model.label_map)
    elif model.has_imagenet:
        outputs = "1,000, assumed to be ImageNet's classes in order"
    else:
        outputs = f"{model.classes:,}" + ("" if model.class_names is None else ", with names")
    print(f"  outputs: {outputs}")
    print(f"  top-1: {_top1(checked)}")
    for source, published_accuracy in checked.published_accuracies.items():
        print(
            f"  published accuracy ({source}): {published_accuracy:.1%};"
            f" {_kept(checked, published_accuracy)}"
        )
    if not checked.published_accuracies:
        print("  published accuracy: unknown; give --expect, or top1 in a card")
    better = [f"{trial.name} {trial.after / trial.n_images:.1%}" for trial in checked.better]
    print(
        f"  other preprocessing, {len(checked.trials)} variants on"
        f" {count_of(checked.trials[0].n_images, 'image')}:"
        f" {', '.join(better) or 'none is significantly better'}"
    )
    best = max(checked.trials, key=lambda trial: trial.after)
    if not better and best.after > best.before:
        print(
            f"  best variant, {best.name}: {best.after} instead of {best.before} correct;"
            " not significant with this number of images"
        )


def _top1(checked: "ModelCheck") -> str:
    low, high = checked.interval
    share = f"{checked.top1:.1%} of {count_of(checked.n_images, 'image')}"
    return f"{share} (95 % interval {low:.1%} to {high:.1%})"


def _kept(checked: "ModelCheck", published_accuracy: float) -> str:
    low, high = checked.interval
    if checked.breaks(published_accuracy):
        return "not reached"
    if low > published_accuracy:
        return "exceeded; these images may be easier"
    return "reached" if high >= published_accuracy else "reached within one percentage point"


def _failures(checked: "ModelCheck") -> list[str]:
    """Return a sentence for each failed check."""
    failures = []
    for source, published_accuracy in checked.published_accuracies.items():
        if checked.breaks(published_accuracy):
            failures.append(
                f"{checked.model.name}: top-1 is {_top1(checked)}, below the published"
                f" {published_accuracy:.1%} ({source}): check its preprocessing and its label map."
            )
    for best in checked.better[:1]:
        p = "< 1e-12" if best.p_value < 1e-12 else f"= {best.p_value:.1g}"
        failures.append(
            f"{checked.model.name}: with {best.name}, {best.after} of"
            f" {count_of(best.n_images, 'image')} {verb(best.after, 'is')}"
            f" correct instead of {best.before} (p {p}): {best.advice}."
        )
    return failures
