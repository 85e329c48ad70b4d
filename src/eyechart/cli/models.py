"""`eyechart models`: whether a model gets its input as it wants it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eyechart.cli.shared.paths import folder_or_file
from eyechart.cli.shared.stop import Stop
from eyechart.core.errors import UsageError

if TYPE_CHECKING:
    from eyechart.cli.shared.progress import ProgressBars
    from eyechart.images.imageset import ImageSet
    from eyechart.models.model import Model
    from eyechart.pipeline.model_check import ModelCheck

FAILED = 1

app = typer.Typer(help="Look at models before they are evaluated.", no_args_is_help=True)


@app.callback()
def _models() -> None:
    """Look at models before they are evaluated."""


@app.command("check")
def check(
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL...", help="Names, kind:name, module:attribute, files or cards (.yaml)."
        ),
    ],
    images: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            parser=folder_or_file,
            help="Labelled pictures: class folders, or a CSV or Parquet file with path and label;"
            " without it 20 demo photographs.",
        ),
    ] = None,
    expect: Annotated[
        float | None, typer.Option(help="The top-1 that the models should have, as 0.75.")
    ] = None,
    label_map: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME|FILE",
            help="What outputs stand for: background-first, or a file with a line per output;"
            " repeatable, each for the models with as many outputs.",
        ),
    ] = None,
    n: Annotated[int, typer.Option("--n", help="Pictures to try other inputs on.")] = 500,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    trust: Annotated[
        bool, typer.Option("--trust", help="Read files that can run code (pickled modules).")
    ] = False,
    download: Annotated[
        bool, typer.Option("--download", help="Fetch weights that are not here yet.")
    ] = False,
) -> None:
    """Say how pictures become a model's input, its top-1, and whether another input were better.

    Ends with 1 if top-1 is below what is promised, or if another input is clearly better.
    """
    from eyechart.cli.shared.progress import ProgressBars
    from eyechart.core.devices import find_device
    from eyechart.models.find import load_model, refuse_unused
    from eyechart.models.label_map import find_map
    from eyechart.pipeline.model_check import check_model, passes

    where = find_device(device)
    maps = [find_map(name) for name in label_map or ()]
    loaded = [
        load_model(spec, where, trust=trust, download=download, label_maps=maps) for spec in models
    ]
    failures: list[str] = []
    with ProgressBars() as bars:
        pictures = _pictures(images, bars)
        for model in loaded:
            model(pictures.batch([0]))
        refuse_unused(maps, loaded)
        for model in loaded:
            step = bars.begin(model.name, passes(model, pictures, n))
            found = check_model(model, pictures, expect=expect, n=n, step=step)
            _report(found)
            failures += _failures(found)
    if images is None:
        print("Note: 20 demo photographs are too few for more than a smoke test; give --images.")
    if failures:
        raise Stop(" ".join(failures), FAILED)


def _pictures(images: Path | None, bars: "ProgressBars") -> "ImageSet":
    """Return the labelled pictures, or the demo's; others are not even read."""
    from eyechart.images.dataset import find_images
    from eyechart.images.demo import SOURCE, demo_pictures
    from eyechart.images.imageset import load_pictures

    listed = demo_pictures() if images is None else find_images(images)
    labelled = [picture for picture in listed if picture.label is not None]
    if not labelled:
        raise UsageError(f"None of the pictures in {images} has a label: give labelled ones.")
    step = bars.begin("pictures", len(labelled))
    return load_pictures(labelled, SOURCE if images is None else str(images), "224", step)


def _report(found: "ModelCheck") -> None:
    print(found.model.name)
    print(f"  input: {found.model.preprocessing}")
    print(f"  outputs: {_outputs(found.model)}")
    print(f"  top-1: {_top1(found)}")
    for who, promise in found.promises.items():
        print(f"  promised by {who}: {promise:.1%}; {_kept(found, promise)}")
    if not found.promises:
        print("  promised: nothing; give --expect, or top1 in a card")
    tried = len(found.trials)
    print(f"  tried otherwise on {found.trials[0].pictures} pictures, {tried} ways:", end=" ")
    if not found.better:
        best = max(found.trials, key=lambda trial: trial.after)
        print("none is clearly better")
        if best.after > best.before:
            print(
                f"  the best of them, {best.name}: {best.after} instead of {best.before} right;"
                " more pictures would tell"
            )
    else:
        print(
            ", ".join(f"{trial.name} {trial.after / trial.pictures:.1%}" for trial in found.better)
        )


def _outputs(model: "Model") -> str:
    if model.label_map is not None:
        return str(model.label_map)
    if model.has_imagenet:
        return "1,000, taken for ImageNet's classes in their order"
    return f"{model.classes:,}" + ("" if model.class_names is None else ", with names")


def _top1(found: "ModelCheck") -> str:
    least, most = found.interval
    return (
        f"{found.top1:.1%} of {found.pictures} pictures (95 % interval {least:.1%} to {most:.1%})"
    )


def _kept(found: "ModelCheck", promise: float) -> str:
    least, most = found.interval
    if found.breaks(promise):
        return "not kept"
    if least > promise:
        return "kept, and more, as these pictures may be easier than most"
    return "kept" if most >= promise else "kept within a point"


def _failures(found: "ModelCheck") -> list[str]:
    """Return a sentence for each thing that is wrong."""
    failures = []
    for who, promise in found.promises.items():
        if found.breaks(promise):
            failures.append(
                f"{found.model.name}: top-1 is {_top1(found)}, less than the {promise:.1%} that"
                f" {who} promised: check its preprocessing and its label map."
            )
    for best in found.better[:1]:
        failures.append(
            f"{found.model.name}: {best.name} it gets {best.after} instead of {best.before} of"
            f" {best.pictures} pictures right (p {_small(best.p_value)}): write  {best.advice}"
            "  into its card."
        )
    return failures


def _small(p: float) -> str:
    return "< 1e-12" if p < 1e-12 else f"= {p:.1g}"
