"""Build a freely licensed dataset of icons like ICONS-50, with 50 classes in several styles."""

import csv
import io
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from PIL import Image

from eyechart.core.errors import UsageError, install_hint
from eyechart.core.progress import Progress
from eyechart.core.registry import unknown_name
from eyechart.core.storage.files import atomic_file, remove_leftovers
from eyechart.core.storage.run_folder import Settings, check_same, write_settings
from eyechart.models.model import in_one_line
from eyechart.structure.duplicates import Pixels, near_duplicates
from eyechart.structure.emoji_svg import (
    Emoji,
    Style,
    drawn,
    find_emoji,
    icon_classes,
    rasterize,
)
from eyechart.structure.npm_packages import NAMES, STYLES, fetch_packages, find_package

LIST, LICENSES, RECORD = "icons.csv", "LICENSES.md", "build.json"
COLUMNS = ("path", "label", "style", "subclass")
TITLE = "# Where the icons come from"
LICENSE_TEXT = f"""{TITLE}

Each style was drawn by its authors and may be used under their license. The icons here\
 are their SVG drawings, rendered as pixels on white without any other change.

| style | drawn by | license | package |
|---|---|---|---|
"""
MOST_BROKEN = 0.01
"""Maximum fraction of broken drawings; a larger fraction indicates a problem with a package."""

LOOKED_AT = 32
"""Size in pixels at which broken drawings and duplicates are detected, for any output size."""


@dataclass(frozen=True, eq=False)
class Icon:
    """A drawing in one style; `rendition` distinguishes several drawings of a style.

    `draw` returns its pixels (H, W, 3) on demand, because the icons may not all fit into memory.
    """

    label: str
    style: str
    subclass: str
    draw: Callable[[], Pixels]
    rendition: str = ""

    @property
    def path(self) -> str:
        """Path within the dataset's folder."""
        number = f".{self.rendition}" if self.rendition else ""
        return f"{self.label}/{self.subclass}.{self.style}{number}.png"


def build_icons(
    out: Path,
    source: Path,
    *,
    side: int,
    styles: Sequence[str],
    is_fetched: bool,
    progress: Progress,
) -> tuple[list[Icon], Counter[tuple[str, str]], list[str]]:
    """Draw the icons into class folders in `out`, with a list and the licenses.

    Args:
        out: Folder of the dataset.
        source: Folder of the npm packages.
        side: Size in pixels.
        styles: Styles to draw.
        is_fetched: Whether to download missing packages to `source`.
        progress: Receives the progress.

    Returns:
        The icons; for two styles, the number of drawings that the second was left without because
        the first has them; and the names of icons that could not be drawn.
    """
    styles = tuple(dict.fromkeys(styles))
    settings = {"icons": "drawn from packages", "size": side, "styles": list(styles)}
    # Smaller images are not supported in training.
    if not 18 <= side <= 1024:
        raise UsageError(f"size must be from 18 to 1024 px, got {side}.")
    for style in styles:
        if style not in STYLES:
            raise unknown_name("style", style, STYLES)
    if len(styles) < 2:
        raise UsageError(
            "Pass at least two styles: one is held out, the others are used for training."
        )
    check_folder(out, settings)
    if find_spec("resvg_py") is None:
        raise UsageError(f"Icons are drawn with resvg_py: {install_hint('icons')}.")
    if is_fetched:
        fetch_packages([NAMES, *(STYLES[style] for style in styles)], source, progress)
    emoji = find_emoji(find_package(NAMES, source))
    sets = [Style(style, find_package(STYLES[style], source)) for style in styles]
    licenses = LICENSE_TEXT + "".join(f"{style_set.license_row}\n" for style_set in sets)
    icons, looks, broken = _draw(emoji, sets, side, progress)
    kept, repeated = _once(icons, looks)
    write_icons(kept, out, licenses, settings, progress)
    return kept, repeated, broken


def check_folder(out: Path, settings: Settings) -> None:
    """Raise a UsageError unless the folder is empty or contains icons built with these settings."""
    if out.exists() and not out.is_dir():
        raise UsageError(f"Cannot write into {out}: it is a file, not a folder.")
    if out.is_dir() and any(out.iterdir()) and not _ours(out):
        raise UsageError(f"{out} contains other files: choose another --out.")
    check_same(out / RECORD, settings, "other icons")


def _ours(out: Path) -> bool:
    """Return whether a folder contains a complete or partial dataset of icons.

    The list of images alone is not enough, because other datasets may have the same columns.
    """
    try:
        with (out / LICENSES).open(encoding="utf-8", errors="replace") as file:
            return file.readline().strip() == TITLE
    except OSError:
        return False


def _draw(
    emoji: Sequence[Emoji], sets: Sequence[Style], side: int, progress: Progress
) -> tuple[list[Icon], list[Pixels], list[str]]:
    """Return the icons, their pixels at the common size, and the names of broken icons."""
    wanted = [(style, *pair) for style in sets for pair in drawn(style, emoji, sets)]
    step = progress.begin("drawing icons", len(wanted))
    icons, looks, broken = [], [], []
    for style, pair, name in wanted:
        drawing = style.svg(name)
        try:
            looks.append(rasterize(drawing, LOOKED_AT))
            draw = partial(_drawn, drawing, side, looks[-1])
            icons.append(Icon(pair.label, style.name, pair.name, draw))
        except ValueError as error:
            broken.append(f"{style.name}/{name}")
            # Stop early: with a damaged package, nearly all icons would fail.
            if len(broken) > MOST_BROKEN * len(wanted):
                raise UsageError(
                    f"At least {len(broken)} of {len(wanted):,} icons (more than 1 %) cannot be"
                    f" drawn; the last error is for {style.name}, {name}: {in_one_line(error)};"
                    " download the packages again."
                ) from None
        step(1, "")
    if not icons:
        raise UsageError("The packages have no icons of the 50 classes: download them again.")
    return icons, looks, broken


def _drawn(drawing: str, side: int, look: Pixels) -> Pixels:
    """Return a drawing's pixels at size `side`; `look` is reused if it already has that size."""
    return look if side == LOOKED_AT else rasterize(drawing, side)


def _once(
    icons: Sequence[Icon], looks: Sequence[Pixels]
) -> tuple[list[Icon], Counter[tuple[str, str]]]:
    """Return the icons, except near-duplicates of the same emoji in an earlier style."""
    by_class: dict[str, list[int]] = {}
    for index, icon in enumerate(icons):
        by_class.setdefault(icon.subclass, []).append(index)
    gone: set[int] = set()
    repeated: Counter[tuple[str, str]] = Counter()
    for indices in by_class.values():
        for one, two in near_duplicates([looks[index] for index in indices]).tolist():
            first, second = indices[one], indices[two]
            # The earlier style keeps the drawing; removed icons do not remove others.
            if first not in gone and second not in gone:
                gone.add(second)
                repeated[icons[first].style, icons[second].style] += 1
    return [icon for index, icon in enumerate(icons) if index not in gone], repeated


def write_icons(
    icons: Sequence[Icon],
    out: Path,
    licenses: str,
    settings: Settings,
    progress: Progress,
) -> None:
    """Write class folders, the list, the licenses and the settings."""
    step = progress.begin("writing icons", len(icons))
    try:
        out.mkdir(parents=True, exist_ok=True)
        # Written first, so that an interrupted folder is recognized.
        (out / LICENSES).write_text(licenses, encoding="utf-8")
        write_settings(out / RECORD, settings)
        _tidy(out, icons)
        for icon in icons:
            path = out / icon.path
            path.parent.mkdir(exist_ok=True)
            png = io.BytesIO()
            Image.fromarray(icon.draw()).save(png, "png")
            # Unchanged icons keep their modification time.
            if not path.is_file() or path.read_bytes() != png.getvalue():
                with atomic_file(path) as temporary:
                    temporary.write_bytes(png.getvalue())
            step(1, "")
        # Last, so that the list never names an icon that is missing.
        with (
            atomic_file(out / LIST) as temporary,
            temporary.open("w", newline="", encoding="utf-8") as file,
        ):
            writer = csv.writer(file)
            writer.writerow(COLUMNS)
            for icon in sorted(icons, key=lambda icon: icon.path):
                writer.writerow((icon.path, icon.label, icon.style, icon.subclass))
    except OSError as error:
        raise UsageError(f"Cannot write into {out}: {error.strerror or error}.") from None


def _tidy(out: Path, icons: Sequence[Icon]) -> None:
    """Remove icons of an earlier run that are not part of this one.

    Otherwise they would be used by anyone who reads the folder instead of the list.
    """
    wanted = {out / icon.path for icon in icons}
    styles = {*STYLES, *(icon.style for icon in icons)}
    for label in {*icon_classes(), *(icon.label for icon in icons)}:
        folder = out / label
        remove_leftovers([folder])
        for path in folder.glob("*.png"):
            # Only files named like icons are removed; other files in the folder belong to the user.
            if path not in wanted and styles & set(path.name.split(".")[1:-1]):
                path.unlink()
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
