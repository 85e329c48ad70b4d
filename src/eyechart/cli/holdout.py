"""`eyechart structure style` and `subclass`: train without styles or subclasses, test on them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from eyechart.cli.shared.derived_options import Only, derived_options
from eyechart.cli.shared.help import examples
from eyechart.cli.shared.printing import share_text, wide_console
from eyechart.cli.shared.progress import ProgressBars
from eyechart.cli.shared.stop import resumable, shard_done
from eyechart.core.arguments import resolved_path
from eyechart.core.errors import UsageError
from eyechart.core.phrases import count_of, first_names, plural, verb
from eyechart.structure.structure_settings import (
    HOLDOUT_RECIPE,
    PUBLISHED,
    PUBLISHED_STIMULUS,
    StyleSettings,
    SubclassSettings,
    describe_protocol,
)
from eyechart.training.recipe import Recipe

if TYPE_CHECKING:
    from collections.abc import Callable

    from eyechart.core.progress import Progress
    from eyechart.structure.folds import Fold
    from eyechart.structure.holdout_images import HoldoutImages, Trait
    from eyechart.structure.holdout_study import HoldoutStudy
    from eyechart.structure.study_results import HoldoutResults


@examples(
    "eyechart structure style --images icons/icons.csv",
    "eyechart structure style --images icons/icons.csv --hold noto --epochs 30",
)
@derived_options
def style(
    settings: StyleSettings,
    recipe: Annotated[
        Recipe,
        Only(
            "epochs", "batch_size", "lr", "weight_decay", "schedule", "flip", "crop", "precision",
            "deterministic", usual=HOLDOUT_RECIPE,
        ),
    ],
) -> None:  # fmt: skip
    """Train a network without one style and test it on that style.

    The network is also tested on familiar styles of the same classes, with images that were held
    out of training, unless --protocol is published. The defaults of training are the settings used
    for ICONS-50. Run the same command again to resume.
    """
    from eyechart.structure.folds import style_folds
    from eyechart.structure.holdout_study import HoldoutStudy

    settings.check()
    recipe.check()

    def load(progress: "Progress") -> "HoldoutImages":
        is_published = settings.chosen_protocol == PUBLISHED
        stimulus = settings.stimulus or _usual_stimulus(settings.images, is_published)
        return _load(settings.images, "style", stimulus, settings.out, progress)

    def plan(kinds: "HoldoutImages") -> "HoldoutStudy":
        folds = style_folds(kinds, settings.hold, settings.seed, settings.chosen_protocol)
        return HoldoutStudy(
            "style",
            tuple(folds),
            settings.arch,
            recipe,
            settings.all_seeds,
            protocol=settings.chosen_protocol,
        )

    _run(settings, load, plan)


@examples(
    "eyechart structure subclass --images icons/icons.csv",
    "eyechart structure subclass --cifar100 cifar-100-python --folds 5",
)
@derived_options
def subclass(
    settings: SubclassSettings,
    recipe: Annotated[
        Recipe,
        Only(
            "batch_size", "lr", "schedule", "flip", "crop", "precision", "deterministic",
            usual=HOLDOUT_RECIPE,
        ),
    ],
) -> None:  # fmt: skip
    """Train a network without some subclasses and test it on them.

    The network is also tested on familiar subclasses, unless --protocol is published. The defaults
    of training are the settings of the published experiments. Run the same command again to resume.
    """
    from eyechart.structure.cifar100 import load_cifar100
    from eyechart.structure.held_out_names import read_names
    from eyechart.structure.holdout_study import HoldoutStudy

    settings.check()
    names = read_names(settings.hold)
    recipe = settings.complete(recipe)
    recipe.check()

    def load(progress: "Progress") -> "HoldoutImages":
        if settings.cifar100 is not None:
            return load_cifar100(settings.cifar100, progress)
        assert settings.images is not None
        is_published = settings.is_published or settings.chosen_protocol == PUBLISHED
        stimulus = settings.stimulus or _usual_stimulus(settings.images, is_published)
        return _load(settings.images, "subclass", stimulus, settings.out, progress)

    def plan(kinds: "HoldoutImages") -> "HoldoutStudy":
        folds, notes = _subclass_folds(kinds, settings, names)
        return HoldoutStudy(
            "subclass",
            tuple(folds),
            settings.network,
            recipe,
            settings.all_seeds,
            normalize=settings.cifar100 is not None,
            notes=notes,
            protocol=settings.chosen_protocol,
        )

    _run(settings, load, plan)


def _subclass_folds(
    kinds: "HoldoutImages", settings: SubclassSettings, names: list[str]
) -> "tuple[list[Fold], tuple[str, ...]]":
    """Return the folds to hold out, and notes; `names` are the requested subclasses."""
    from eyechart.structure.cifar100 import published_order
    from eyechart.structure.folds import named_fold, subclass_folds
    from eyechart.structure.held_out_names import hold_named, hold_published

    if settings.is_listed:
        held, notes = (hold_named(kinds, names), ()) if names else hold_published(kinds)
        return [named_fold(kinds, held, settings.seed, settings.chosen_protocol)], notes
    order, usual_folds = None, 3
    if settings.is_published and settings.cifar100 is not None:
        # one fold, because the published number is for one choice of subclasses
        order, usual_folds = published_order(kinds, settings.cifar100), 1
    folds = subclass_folds(
        kinds,
        settings.per_class,
        in_all=settings.in_all,
        folds=settings.folds or usual_folds,
        order=order,
        seed=settings.seed,
        protocol=settings.chosen_protocol,
    )
    return folds, ()


def _usual_stimulus(images: Path, is_published: bool) -> str:
    """Return the default stimulus: the published size for ICONS-50, otherwise "native"."""
    from eyechart.structure.icons50 import is_icons50

    return PUBLISHED_STIMULUS if is_published or is_icons50(images) else "native"


def _load(
    images: Path, kind: "Trait", stimulus: str, out: Path, progress: "Progress"
) -> "HoldoutImages":
    from eyechart.structure.holdout_images import load_holdout_images

    folder = images.parent if images.is_file() else images
    if out.exists() and resolved_path(out) == resolved_path(folder):
        raise UsageError(f"{out} contains the images: choose another --out.")
    return load_holdout_images(images, kind, stimulus, progress, out)


def _run(
    settings: StyleSettings | SubclassSettings,
    load: "Callable[[Progress], HoldoutImages]",
    plan: "Callable[[HoldoutImages], HoldoutStudy]",
) -> None:
    """Load images, run the planned study, and print its results."""
    from eyechart.core.devices import find_device
    from eyechart.structure.holdout_scores import score_study
    from eyechart.structure.holdout_study import open_study, run_study

    device, out = find_device(settings.device), settings.out
    with resumable(out, "finished work"), ProgressBars() as bars:
        kinds = load(bars)
        study = plan(kinds)
        # Nothing is planned unless the study can run in this folder.
        open_study(study, kinds, out)
        print(_planned(study))
        is_done = run_study(study, kinds, device, out, bars, settings.shard)
    if not is_done:
        print(shard_done(settings.shard, out))
        return
    results = score_study(study, kinds, out)
    show_results(results)
    print(_counted(kinds, study.kind))
    damaged = kinds.data.images.damaged
    if damaged:
        images = f"{count_of(len(damaged), 'image')} {verb(len(damaged), 'was')}"
        names = first_names([image.name for image in damaged])
        print(f"Note: {images} skipped: {names}; the first: {damaged[0].why}")
    print(f"Written: {out / 'results.json'}; report: eyechart structure report {out}")


def _planned(study: "HoldoutStudy") -> str:
    """Return what the study trains on: its protocol and the number of images."""
    has_familiar = all(len(fold.familiar) for fold in study.folds)
    counts = [len(fold.train) for fold in study.folds]
    low, high = f"{min(counts):,}", f"{max(counts):,}"
    images = low if low == high else f"{low} to {high}"
    return f"{describe_protocol(study.protocol, has_familiar)} Training images: {images}."


def _counted(kinds: "HoldoutImages", kind: "Trait") -> str:
    """Return a sentence with the number and size of images, and their classes and subclasses."""
    n_kinds = len(set(kinds.names(kind)))
    noun = "styles" if kind == "style" else "subclasses"
    classes = len(kinds.data.class_names)
    height, width = kinds.data.size
    return (
        f"{len(kinds.data):,} images ({width} × {height} px) of {classes:,} classes and"
        f" {n_kinds:,} {noun}."
    )


def show_results(results: "HoldoutResults") -> None:
    """Print the accuracies of a study: a line for each fold, and a line for their mean."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    from eyechart.structure.holdout_scores import notes_on

    title = "held-out style" if results.kind == "style" else "held-out subclasses"
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column(title)
    scores = ("accuracy held out (%)", "accuracy familiar (%)", "gap (points)")
    for name in (*scores, "images held out", "images familiar", "images trained on"):
        table.add_column(name, justify="right")
    for fold in results.folds:
        name = escape(fold.name)
        if results.kind != "style":
            name = f"{name}: {len(fold.held)} held out"
        shares = (share_text(share) for share in (fold.held_out, fold.familiar, fold.gap))
        table.add_row(name, *shares, *(f"{count:,}" for count in fold.n_images))
    if len(results.folds) > 1:
        table.add_section()
        shares = (share_text(share) for share in (results.held_out, results.familiar, results.gap))
        counts = (sum(fold.n_images[part] for fold in results.folds) for part in (0, 1))
        table.add_row("mean", *shares, *(f"{count:,}" for count in counts), "")
    wide_console().print(table)
    for fold in results.folds:
        if fold.missing:
            print(
                f"Note: {fold.name} has no images of {_listed(fold.missing)}, so these are not"
                " tested."
            )
    for note in notes_on(results):
        print(f"Note: {note}")
    copies = sum(fold.copies for fold in results.folds)
    if copies:
        print(
            f"Removed from training as duplicates of test images: {copies:,}"
            f" {plural(copies, 'image')} in {len(results.folds)}"
            f" {plural(len(results.folds), 'training run')}."
        )


def _listed(names: "tuple[str, ...]") -> str:
    if len(names) > 5:
        return f"{', '.join(names[:4])} and {len(names) - 4} other classes"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
