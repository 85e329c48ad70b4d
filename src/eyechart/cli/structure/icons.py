"""`eyechart structure icons`: build icon datasets from free packages or the original ICONS-50."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eyechart.cli.shared.help import CommandLine, examples
from eyechart.cli.shared.paths import folder, folder_or_file
from eyechart.cli.shared.stop import Stop
from eyechart.core.arguments import resolved_path
from eyechart.core.errors import UsageError
from eyechart.core.phrases import count_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from eyechart.structure.icons.icon_builder import Built

app = CommandLine(help="Build icon datasets with 50 classes in several styles.")


@app.command("build")
@examples(
    "eyechart structure icons build",
    "eyechart structure icons build --size 64 --from packages --out icons64",
)
def build(
    out: Annotated[
        Path,
        typer.Option(metavar="FOLDER", parser=folder, help="Output folder."),
    ] = Path("icons"),
    source: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="FOLDER",
            parser=folder,
            help="Folder of packages made with npm pack, instead of downloading them.",
        ),
    ] = None,
    size: Annotated[int, typer.Option(help="Width and height of each icon in px.")] = 32,
    style: Annotated[
        list[str] | None,
        typer.Option(help="Draw only this style; repeatable; all eight if omitted."),
    ] = None,
) -> None:
    """Draw icons for the 50 classes of ICONS-50 in eight styles.

    Without --from, npm downloads nine packages (27 MB) into FOLDER.npm, where the next run finds
    them. Run the same command again to resume.
    """
    from eyechart.cli.shared.progress import ProgressBars
    from eyechart.structure.icons.icon_builder import LICENSES, LIST, build_icons
    from eyechart.structure.icons.npm_packages import STYLES

    if source is not None and source.is_file():
        raise UsageError(f"{source} is a file: give --from the folder that contains the packages.")
    if source is not None and not source.is_dir():
        raise UsageError(f"No such folder: {source}.")
    # "." and ".." have no name
    named = out if out.name not in ("", "..") else resolved_path(out)
    packages = source or named.parent / f"{named.name}.npm"
    if source is None:
        print(f"Packages are downloaded with npm into {packages}.")
    with ProgressBars() as bars:
        try:
            built = build_icons(
                out,
                packages,
                side=size,
                styles=style or list(STYLES),
                is_fetched=source is None,
                progress=bars,
            )
        except KeyboardInterrupt:
            raise Stop("Stopped: run the same command again to resume.") from None
    print(f"Written: {built.icons:,} icons of {len(built.classes)} classes to {out / LIST}.")
    _tell(built)
    print(f"Authors and licenses: {out / LICENSES}.")


@app.command("original")
@examples(
    "eyechart structure icons original Icons-50",
    "eyechart structure icons original Icons-50.npy --out icons50",
)
def original(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="PATH",
            parser=folder_or_file,
            help="The published ICONS-50: the folder with its class folders, or its .npy file.",
        ),
    ],
    out: Annotated[
        Path, typer.Option(metavar="FOLDER", parser=folder, help="Output folder.")
    ] = Path("icons50"),
) -> None:
    """Prepare the original ICONS-50 dataset for structure studies."""
    from eyechart.cli.shared.progress import ProgressBars
    from eyechart.structure.icons.icon_builder import LIST
    from eyechart.structure.icons.icons50 import import_icons50

    with ProgressBars() as bars:
        try:
            count = import_icons50(source, out, bars)
        except KeyboardInterrupt:
            raise Stop("Stopped: run the same command again to resume.") from None
    print(f"Written: {count_of(count, 'icon')} to {out / LIST}.")


def _tell(built: "Built") -> None:
    """Print the properties of the dataset that affect results."""
    print("Icons by style: " + _counts(built.styles.items()) + ".")
    thin = sorted(built.classes.items(), key=lambda item: item[1])[:5]
    print("Fewest icons by class: " + _counts(thin) + ".")
    if built.repeated:
        pairs = ", ".join(
            f"{count} in {first} (not {second})"
            for (first, second), count in built.repeated.most_common()
        )
        print(f"Drawings shared by two styles, kept in one style only: {pairs}.")
    else:
        print("No two styles share a drawing.")
    if built.broken:
        print(f"Skipped as broken: {', '.join(built.broken)}.")


def _counts(by_name: "Iterable[tuple[str, int]]") -> str:
    return ", ".join(f"{name} {count:,}" for name, count in by_name)
