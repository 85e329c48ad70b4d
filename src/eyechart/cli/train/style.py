"""`eyechart train style-transfer`: train the network for the corruption style_transfer."""

from typing import Annotated

from eyechart.cli.shared.derived_options import Only, derived_options
from eyechart.cli.shared.help import examples
from eyechart.cli.shared.paths import check_file_to_write
from eyechart.cli.shared.stop import Stop
from eyechart.core.arguments import resolved_path
from eyechart.core.errors import UsageError
from eyechart.pipeline.settings import LoadingSettings
from eyechart.training.recipe import StyleRecipe
from eyechart.training.training_settings import StyleTransferSettings


@examples(
    "eyechart train style-transfer --train-images photos --styles paintings",
    "eyechart train style-transfer --train-images photos --styles art --device cuda",
)
@derived_options
def style_transfer(
    settings: StyleTransferSettings,
    recipe: Annotated[
        StyleRecipe, Only("steps", "batch_size", "lr", "side", "style_weight", "seed")
    ],
    loading: LoadingSettings,
) -> None:
    """Train the network for the corruption style_transfer.

    The corruption is part of the suite imagenet-c-extra. Run the same command again to resume.
    """
    from eyechart.cli.shared.progress import ProgressBars
    from eyechart.core.devices import find_device
    from eyechart.core.storage.locks import lock_file
    from eyechart.corruptions.suites.assets import VARIABLE, write_styles
    from eyechart.images.image_sources import find_images
    from eyechart.images.imageset import load_listed
    from eyechart.models.find import load_model
    from eyechart.training.style_transfer import train_style_transfer

    out = settings.out
    check_file_to_write(out)
    settings.check()
    recipe.check()
    where = find_device(settings.device)
    with lock_file(out), ProgressBars() as bars:
        # under the lock, because another process may have finished it meanwhile
        if out.exists():
            raise UsageError(f"{out} already exists: choose another --out, or delete it.")
        # in full precision, because the loss is computed from its features
        judge = load_model(
            settings.model, where, half=False, trust=loading.trust, download=loading.download
        )
        listed = [
            (find_images(path), path, title)
            for path, title in ((settings.train_images, "images"), (settings.styles, "styles"))
        ]
        contents, looks = (
            load_listed(images, str(path), settings.stimulus, bars.begin(title, len(images)))
            for images, path, title in listed
        )
        try:
            styles = train_style_transfer(
                judge, contents, looks, recipe, device=where, path=out, progress=bars
            )
        except KeyboardInterrupt:
            raise Stop(
                f"Stopped: the training state is next to {out}; run the same command again to"
                " resume."
            ) from None
        write_styles(styles, out)
        # only once the result is written, so that an interrupt in between loses nothing
        out.with_suffix(".state").unlink(missing_ok=True)
    print(f"Written: {out}, with {len(styles):,} styles.")
    print(f"To use it: export {VARIABLE}={resolved_path(out)}")
