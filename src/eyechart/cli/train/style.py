"""`eyechart train style-transfer`: the network behind the corruption style_transfer."""

from pathlib import Path
from typing import Annotated

import typer

from eyechart.cli.shared.derived_options import derived_options
from eyechart.cli.shared.paths import check_file_to_write, folder_or_file
from eyechart.cli.shared.stop import Stop
from eyechart.cli.shared.training_options import Seed, Stimulus
from eyechart.core.errors import UsageError
from eyechart.pipeline.settings import LoadingSettings


@derived_options
def style_transfer(
    images: Annotated[
        Path,
        typer.Option(
            metavar="PATH", parser=folder_or_file, help="Photographs to repaint; labels count not."
        ),
    ],
    styles: Annotated[
        Path,
        typer.Option(
            metavar="PATH",
            parser=folder_or_file,
            help="Pictures whose styles are learnt: paintings, textures, icons.",
        ),
    ],
    model: Annotated[
        str,
        typer.Option(help="In whose features content and style are judged, as of evaluate."),
    ] = "efficientnet_lite0",
    steps: Annotated[int, typer.Option(help="Of training.")] = 4000,
    batch: Annotated[int, typer.Option(help="Pictures in one step.")] = 16,
    rate: Annotated[float, typer.Option(help="Highest learning rate, of Adam.")] = 1e-3,
    side: Annotated[int, typer.Option(help="Of the cut-outs that are trained with, in px.")] = 160,
    style_weight: Annotated[float, typer.Option(help="Of style beside content.")] = 10.0,
    seed: Seed = 0,
    stimulus: Stimulus = "256",
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    out: Annotated[
        Path, typer.Option(metavar="FILE", parser=folder_or_file, help="The trained network.")
    ] = Path("style-transfer.pt"),
    *,
    loading: LoadingSettings,
) -> None:
    """Train a style transfer, for the corruption style_transfer of the suite imagenet-c-extra.

    The same command goes on with what was stopped.
    """
    from eyechart.cli.shared.progress import ProgressBars
    from eyechart.core.devices import find_device
    from eyechart.core.locks import lock_file
    from eyechart.images.dataset import find_images
    from eyechart.images.imageset import load_pictures
    from eyechart.models.find import load_model
    from eyechart.suites.assets import VARIABLE, write_styles
    from eyechart.training.style_transfer import StyleRecipe, train_style_transfer

    check_file_to_write(out)
    if out.suffix not in (".pt", ".pth"):
        raise UsageError(f"The file of a style transfer must end in .pt, got '{out.name}'.")
    recipe = StyleRecipe(steps, batch, rate, side, style_weight, seed=seed)
    recipe.check()
    where = find_device(device)
    with lock_file(out), ProgressBars() as bars:
        if out.exists():
            raise UsageError(f"{out} is there already: choose another --out, or delete it.")
        judge = load_model(model, where, half=False, trust=loading.trust, download=loading.download)
        listed = [find_images(each) for each in (images, styles)]
        contents, looks = (
            load_pictures(own, str(path), stimulus, bars.begin(title, len(own)))
            for own, path, title in zip(
                listed, (images, styles), ("photographs", "styles"), strict=True
            )
        )
        try:
            made = train_style_transfer(
                judge, contents, looks, recipe, device=where, path=out, progress=bars
            )
        except KeyboardInterrupt:
            raise Stop(
                f"Stopped: what was learnt is beside {out}; the same command goes on from there.",
                130,
            ) from None
        write_styles(made, out)
        out.with_suffix(".state").unlink(missing_ok=True)
    print(f"Written: {out}, with {len(made):,} styles.")
    print(f"To use it: export {VARIABLE}={out.resolve()}")
