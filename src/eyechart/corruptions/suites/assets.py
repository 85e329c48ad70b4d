"""Data that some corruptions need besides the image: frost textures, style transfer networks."""

import os
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

import torch

from eyechart.core.arguments import regular_file
from eyechart.core.errors import UsageError
from eyechart.core.storage.files import write_torch
from eyechart.corruptions.declaration import Assets
from eyechart.corruptions.style import Styles, StyleTransfer
from eyechart.corruptions.suites.suite import Entry, Suite
from eyechart.corruptions.suites.textures import frost_textures
from eyechart.images.identity import file_digest

VARIABLE = "EYECHART_STYLE_TRANSFER"
"""The environment variable with the path of a trained style transfer network."""

MARK, VERSION = "eyechart_style_transfer", 1


def assets_of(entry: Entry, frost: str | None = None) -> Assets:
    """Return an entry's assets; `frost`: a texture folder to use instead of generated textures."""
    needs = entry.corruption.needs
    if needs == "textures":
        return Assets(textures=frost_textures(frost))
    if needs == "styles":
        return Assets(styles=read_styles(style_file()))
    return Assets()


def is_ready(entry: Entry) -> bool:
    """Return whether an entry can be used; style transfer needs a trained network."""
    return entry.corruption.needs != "styles" or bool(os.environ.get(VARIABLE))


def ready_entries(suite: Suite) -> list[Entry]:
    """Return the entries of a suite that can be used."""
    return [entry for entry in suite if is_ready(entry)]


def assets_mark(entry: Entry) -> str:
    """Return the identifier of an entry's assets; "" if it needs no trained network."""
    return file_digest(style_file()) if entry.corruption.needs == "styles" else ""


def entry_mark(entry: Entry) -> str:
    """Return an identifier computed from an entry's declaration in the suite and its assets."""
    return f"{entry.fingerprint}{assets_mark(entry)}"


def left_out(suite: Suite) -> list[str]:
    """Return the names of the entries that cannot be used."""
    return [entry.name for entry in suite if not is_ready(entry)]


def left_out_notes(names: Iterable[str]) -> list[str]:
    """Return a note for each corruption that is left out because its assets are missing."""
    return [
        f"{name} is left out because it needs a trained network (see docs/structure.md)."
        for name in dict.fromkeys(names)
    ]


def style_file() -> Path:
    """Return the path of the style transfer network; raise a UsageError if none is configured."""
    name = os.environ.get(VARIABLE)
    if not name:
        raise UsageError(
            "style_transfer needs a trained network: train one with eyechart train style-transfer,"
            f" and set the environment variable {VARIABLE} to its file."
        )
    return Path(name)


def write_styles(styles: Styles, path: Path) -> None:
    """Write a trained style transfer network atomically."""
    channels = styles.means.shape[1]
    weights = {name: value.cpu() for name, value in styles.network.state_dict().items()}
    held = {
        MARK: VERSION,
        "channels": channels,
        "weights": weights,
        "means": styles.means.cpu(),
        "deviations": styles.deviations.cpu(),
    }
    write_torch(held, path)


def read_styles(path: Path) -> Styles:
    """Return the trained style transfer network in a file."""
    try:
        changed = path.stat().st_mtime_ns
    except OSError as error:
        raise UsageError(
            f"Cannot read the style transfer network {path}, which the environment variable"
            f" {VARIABLE} names: {error.strerror}."
        ) from None
    # the time of the last change is part of the cache key, so that a new file is read again
    return _read(path, changed)


@lru_cache(maxsize=2)
def _read(path: Path, changed: int) -> Styles:
    try:
        # weights_only: a pickle from elsewhere must not run code
        held = torch.load(regular_file(path), map_location="cpu", weights_only=True)
        if held[MARK] != VERSION:
            raise ValueError
        network = StyleTransfer(held["channels"])
        network.load_state_dict(held["weights"])
        styles = Styles(network.eval().requires_grad_(False), held["means"], held["deviations"])
        if not len(styles) or styles.means.shape != styles.deviations.shape:
            raise ValueError
        return styles
    # torch.load raises many types of exceptions for other files
    except Exception:
        raise UsageError(
            f"{path} is not a style transfer network that this version can read: train one with"
            " eyechart train style-transfer."
        ) from None
