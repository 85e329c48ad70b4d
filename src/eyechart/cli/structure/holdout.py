"""`eyechart structure style` and `subclass`: train without some kinds, test on them."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eyechart.cli.shared.derived_options import Only, derived_options
from eyechart.cli.shared.paths import folder, folder_or_file
from eyechart.cli.shared.stop import stopped
from eyechart.cli.shared.training_options import (
    Stimulus,
)
from eyechart.core.errors import UsageError
from eyechart.training.recipe import Recipe

if TYPE_CHECKING:
    from collections.abc import Callable

    from eyechart.structure.folds import Fold
    from eyechart.structure.holdout_images import HoldoutImages, Trait
    from eyechart.structure.study_results import HoldoutResults

PUBLISHED_STIMULUS = "32x32"
"""Of ICONS-50, whose authors resize every icon to it."""

Arch = Annotated[
    str,
    typer.Option(
        help="resnet9, resnet18, wrn_16_4, wrn_40_2, multigrid, timm:NAME, torchvision:NAME or"
        " module:function."
    ),
]
Seeds = Annotated[int, typer.Option(help="Networks of each fold.")]
FirstSeed = Annotated[int, typer.Option(help="The first network's.")]
Device = Annotated[str, typer.Option(help="cpu or cuda.")]
Out = Annotated[
    Path, typer.Option(metavar="FOLDER", parser=folder, help="Where all that is made goes.")
]


@derived_options
def style(
    images: Annotated[
        Path,
        typer.Option(
            metavar="PATH",
            parser=folder_or_file,
            help="A CSV or Parquet file with the columns path, label and style, as structure icons"
            " build writes.",
        ),
    ],
    hold: Annotated[
        list[str] | None,
        typer.Option(metavar="STYLE", help="Only this style; repeatable; without it each in turn."),
    ] = None,
    arch: Arch = "wrn_16_4",
    seeds: Seeds = 1,
    seed: FirstSeed = 0,
    stimulus: Stimulus = "native",
    device: Device = "cpu",
    out: Out = Path("eyechart-style"),
    *,
    recipe: Annotated[
        Recipe,
        Only(
            "rate",
            "weight_decay",
            "flip",
            "precision",
            "deterministic",
            epochs=50,
            batch=128,
            schedule="cosine",
            crop=4,
        ),
    ],
) -> None:
    """Train without a style and test on it: is a known thing recognised in a new style?

    Beside it, familiar pictures of the same classes, which were not trained with either. The
    defaults are those of ICONS-50. The same command goes on with what was stopped.
    """
    from eyechart.structure.folds import style_folds

    recipe = replace(recipe, nesterov=True)

    def folds(kinds: "HoldoutImages") -> "tuple[list[Fold], tuple[str, ...]]":
        return style_folds(kinds, hold or [], seed), ()

    _run("style", images, None, folds, arch, recipe, seeds, seed, stimulus, device, out)


@derived_options
def subclass(
    images: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            parser=folder_or_file,
            help="Folders class/subclass/, or a CSV or Parquet file with the columns path, label"
            " and subclass.",
        ),
    ] = None,
    cifar100: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            parser=folder,
            help="CIFAR-100's python version (train, test, meta) instead.",
        ),
    ] = None,
    per_class: Annotated[int, typer.Option(help="Subclasses of each class to hold out.")] = 1,
    in_all: Annotated[
        int | None, typer.Option(help="Hold out so many over all classes instead, such as 50.")
    ] = None,
    folds: Annotated[
        int | None,
        typer.Option(
            help="How often, each time others as long as there are any; 3, or 1 where the"
            " subclasses are given."
        ),
    ] = None,
    order: Annotated[
        str,
        typer.Option(
            help="Which ones: random, or published (those of the paper's authors, of CIFAR-100 or"
            " ICONS-50)."
        ),
    ] = "random",
    hold: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME|FILE",
            help="Hold out this subclass, or those that a text file names; repeatable.",
        ),
    ] = None,
    arch: Annotated[
        str | None,
        typer.Option(help="As of structure style; wrn_16_4, for CIFAR-100 wrn_40_2."),
    ] = None,
    epochs: Annotated[
        int | None,
        typer.Option(help="How often each picture is trained with; 50, for CIFAR-100 100."),
    ] = None,
    weight_decay: Annotated[
        float | None, typer.Option(help="Of SGD; 1e-4, for CIFAR-100 5e-4.")
    ] = None,
    mixup: Annotated[
        float | None, typer.Option(help="The a of mixup's Beta(a, a); 0, for CIFAR-100 1.")
    ] = None,
    seeds: Seeds = 1,
    seed: FirstSeed = 0,
    stimulus: Annotated[
        str | None,
        typer.Option(
            help="Of --images: 224 (shorter side 256, middle 224) or another side, 32x32 (plain"
            " resize) or another WIDTHxHEIGHT, or native, which is the default."
        ),
    ] = None,
    device: Device = "cpu",
    out: Out = Path("eyechart-subclass"),
    *,
    recipe: Annotated[
        Recipe,
        Only("rate", "flip", "precision", "deterministic", batch=128, schedule="cosine", crop=4),
    ],
) -> None:
    """Train without some subclasses and test on them: is a new kind of a known thing recognised?

    Beside it, familiar kinds. The defaults are those of the published experiments. The same command
    goes on with what was stopped.
    """
    from eyechart.core.registry import unknown_name
    from eyechart.structure.cifar100 import published_order
    from eyechart.structure.folds import named_fold, subclass_folds
    from eyechart.structure.held_out_names import hold_named, hold_published, read_names

    if (images is None) == (cifar100 is None):
        raise UsageError("Give --images or --cifar100, one of them.")
    if order not in ("random", "published"):
        raise unknown_name("order", order, ("random", "published"))
    if stimulus is not None and cifar100 is not None:
        raise UsageError("CIFAR-100's pictures are taken as they are: leave out --stimulus.")
    if in_all is not None and per_class != 1:
        raise UsageError("Give --per-class or --in-all, not both.")
    is_published = order == "published"
    is_listed = hold is not None or (is_published and cifar100 is None)
    if hold is not None and is_published:
        raise UsageError("Give --hold or --order published, not both.")
    if is_listed and (in_all is not None or per_class != 1 or folds not in (None, 1)):
        raise UsageError(
            "The subclasses to hold out are given by name, in one fold: leave out --per-class,"
            " --in-all and --folds."
        )
    if folds is not None and folds < 1:
        raise UsageError(f"folds must be a whole number from 1, got {folds}.")
    names = read_names(hold or ())
    own = cifar100 is not None
    mixed = mixup if mixup is not None else float(own)
    recipe = replace(
        recipe,
        epochs=epochs if epochs is not None else 100 if own else 50,
        nesterov=True,
        weight_decay=weight_decay if weight_decay is not None else 5e-4 if own else 1e-4,
        mixup=mixed,
        # as the published code does; elsewhere one weight for a batch, as in the paper on mixup
        mixup_per_image=is_published and mixed > 0,
    )

    def made(kinds: "HoldoutImages") -> "tuple[list[Fold], tuple[str, ...]]":
        if is_listed:
            held = hold_named(kinds, names) if names else hold_published(kinds)
            return [named_fold(kinds, held.subclasses, seed)], held.notes
        if is_published and cifar100 is not None:
            known = published_order(kinds, cifar100)
            folds_held = subclass_folds(
                kinds, per_class, in_all=in_all, folds=folds or 1, order=known, seed=seed
            )
            return folds_held, ()
        return subclass_folds(kinds, per_class, in_all=in_all, folds=folds or 3, seed=seed), ()

    network = arch or ("wrn_40_2" if own else "wrn_16_4")
    size = stimulus or (PUBLISHED_STIMULUS if is_published and not own else "native")
    _run("subclass", images, cifar100, made, network, recipe, seeds, seed, size, device, out)


def _run(
    kind: "Trait",
    images: Path | None,
    cifar100: Path | None,
    folds: "Callable[[HoldoutImages], tuple[list[Fold], tuple[str, ...]]]",
    network: str,
    recipe: "Recipe",
    seeds: int,
    seed: int,
    stimulus: str,
    device: str,
    out: Path,
) -> None:
    from eyechart.cli.shared.progress import ProgressBars
    from eyechart.core.devices import find_device
    from eyechart.structure.cifar100 import load_cifar100
    from eyechart.structure.holdout_images import load_holdout_images
    from eyechart.structure.holdout_scores import score_study
    from eyechart.structure.holdout_study import HoldoutStudy, run_study

    if seeds < 1:
        raise UsageError(f"seeds must be a whole number from 1, got {seeds}.")
    recipe.check()
    where = find_device(device)
    with ProgressBars() as bars:
        try:
            if cifar100 is not None:
                kinds = load_cifar100(cifar100, bars)
            else:
                assert images is not None
                place = images.parent if images.is_file() else images
                if out.exists() and out.resolve() == place.resolve():
                    raise UsageError(f"{out} holds the pictures: choose another --out.")
                kinds = load_holdout_images(images, kind, stimulus, bars, out)
            chosen, notes = folds(kinds)
            study = HoldoutStudy(
                kind,
                tuple(chosen),
                network,
                recipe,
                tuple(range(seed, seed + seeds)),
                normalise=cifar100 is not None,
                notes=notes,
            )
            run_study(study, kinds, where, out, bars)
        except KeyboardInterrupt:
            raise stopped(out, "what was trained") from None
    results = score_study(study, kinds, out)
    show_results(results)
    print(_counted(kinds, kind))
    damaged = kinds.data.images.damaged
    if damaged:
        pictures = "1 picture was" if len(damaged) == 1 else f"{len(damaged):,} pictures were"
        print(f"Note: {pictures} left out; the first: {damaged[0].why}")
    print(f"Written: {out / 'results.json'}; a page on it: eyechart structure report {out}")


def _counted(kinds: "HoldoutImages", kind: "Trait") -> str:
    """Return a sentence on how many pictures, classes and styles or subclasses there are."""
    several = len(set(kinds.names(kind)))
    what = "styles" if kind == "style" else "subclasses"
    classes = len(kinds.data.class_names)
    return f"{len(kinds.data):,} pictures of {classes:,} classes and {several:,} {what}."


def show_results(results: "HoldoutResults") -> None:
    """Print the accuracies of a study, a line for each fold and one for their mean."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    from eyechart.cli.shared.console import share_text, wide_console
    from eyechart.reports.words import plural
    from eyechart.structure.holdout_scores import notes_on

    title = "held-out style" if results.kind == "style" else "held-out subclasses"
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column(title)
    on_it = f"accuracy on {'it' if results.kind == 'style' else 'them'} (%)"
    for name in (on_it, "on familiar ones (%)", "gap (points)", "pictures", "familiar"):
        table.add_column(name, justify="right")
    for fold in results.folds:
        name = escape(fold.name)
        if results.kind != "style":
            name = f"{name}: {len(fold.held)} held out"
        shares = (share_text(each) for each in (fold.held_out, fold.familiar, fold.gap))
        table.add_row(name, *shares, *(f"{count:,}" for count in fold.pictures[:2]))
    if len(results.folds) > 1:
        table.add_section()
        shares = (share_text(each) for each in (results.held_out, results.familiar, results.gap))
        counts = (sum(fold.pictures[which] for fold in results.folds) for which in (0, 1))
        table.add_row("mean", *shares, *(f"{count:,}" for count in counts))
    wide_console().print(table)
    for fold in results.folds:
        if fold.missing:
            print(
                f"Note: {fold.name} has no pictures of {_listed(fold.missing)}, so nothing is said"
                " of those."
            )
    for note in notes_on(results):
        print(f"Note: {note}")
    copies = sum(fold.copies for fold in results.folds)
    if copies:
        print(
            f"Not trained with, because they show the same as a picture to test with: {copies:,}"
            f" {plural(copies, 'picture')} over {len(results.folds)}"
            f" {plural(len(results.folds), 'training')}."
        )


def _listed(names: "tuple[str, ...]") -> str:
    if len(names) > 5:
        return f"{', '.join(names[:4])} and {len(names) - 4} other classes"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
