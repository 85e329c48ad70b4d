"""Read the icons of one style, SVG drawings in a package: their classes, and their pixels."""

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray
from PIL import Image

from eyechart.structure.npm_packages import Package

TABLE = "icon_classes.yaml"


@dataclass(frozen=True)
class Rule:
    """Name patterns of the emoji in a class, as words; names that match `but` are excluded.

    If `group` is given, all emoji must be in this group. Names and groups are defined by Unicode,
    such as "hot_beverage" in "Food & Drink".
    """

    names: str
    but: str = ""
    group: str = ""

    def holds(self, name: str, group: str) -> bool:
        """Return whether an emoji belongs to the class."""
        if self.group and group != self.group:
            return False
        return _matches(name, self.names) and not _matches(name, self.but)


def _matches(name: str, patterns: str) -> bool:
    # fnmatchcase: fnmatch would ignore case on some systems.
    return any(fnmatchcase(name, pattern) for pattern in patterns.split())


@cache
def icon_classes() -> Mapping[str, Rule]:
    """Return the classes in alphabetical order, each with its rule."""
    text = (files("eyechart.structure") / TABLE).read_text(encoding="utf-8")
    return {
        name: Rule(entry) if isinstance(entry, str) else Rule(**entry)
        for name, entry in sorted(yaml.safe_load(text).items())
    }


def class_of(name: str, group: str) -> str | None:
    """Return the class of an emoji, or None if it does not belong to any."""
    # Classes are visited in alphabetical order; the first match is used.
    return next((label for label, rule in icon_classes().items() if rule.holds(name, group)), None)


SIDE = 16
"""Default width and height of an icon, in units of the drawing."""

SELECTOR = 0xFE0F
"""Unicode's variation selector for color presentation; only some packages include it."""


@dataclass(frozen=True)
class Emoji:
    """An emoji: its Unicode name ("hot_beverage"), its class, and its character codes."""

    name: str
    label: str
    code: str


def find_emoji(package: Package) -> list[Emoji]:
    """Return all emoji that belong to a class, in Unicode's order."""
    by_emoji = package.read("data-by-emoji.json")
    if not isinstance(by_emoji, dict) or not by_emoji:
        raise package.changed("data-by-emoji.json lists no emoji")
    emoji = []
    for characters, facts in by_emoji.items():
        try:
            name, group = facts["slug"], facts["group"]
        except (KeyError, TypeError):
            raise package.changed(f"{characters} has no slug or no group") from None
        # The slug becomes a file name.
        if not isinstance(name, str) or not re.fullmatch(r"[\w-]+", name):
            raise package.changed(f"the slug of {characters} is not a name")
        label = class_of(name, group)
        if label is not None:
            emoji.append(Emoji(name, label, code_of(characters)))
    if not emoji:
        raise package.changed("no emoji in it belongs to a known class")
    return emoji


def code_of(characters: str) -> str:
    """Return the hexadecimal codes of characters, joined by hyphens, without selectors.

    Example:
        >>> code_of("☕️")
        '2615'
    """
    return "-".join(f"{ord(character):x}" for character in characters if ord(character) != SELECTOR)


class Style:
    """The icons in a package, by name."""

    def __init__(self, name: str, package: Package) -> None:
        self.name, self.package = name, package
        content = package.read("icons.json")
        if not isinstance(content, dict) or not isinstance(content.get("icons"), dict):
            raise package.changed("icons.json has no icons")
        self._told: Mapping[str, Any] = content
        self._icons: Mapping[str, Any] = content["icons"]
        self._aliases: Mapping[str, Any] = content.get("aliases") or {}
        if not isinstance(self._aliases, dict):
            raise package.changed("icons.json lists no aliases")
        codes = package.read("chars.json", needed=False)
        try:
            self.codes: dict[str, str] = {
                _bare(code): name for code, name in codes.items() if name in self
            }
        except (AttributeError, TypeError, ValueError):
            raise package.changed("chars.json does not map characters to icons") from None

    def __contains__(self, name: str) -> bool:
        return name in self._icons or name in self._aliases

    @property
    def license_row(self) -> str:
        """Row of a Markdown table: the style, its author, its license and its package."""
        info = self.package.read("info.json")
        try:
            terms, author = info["license"], info["author"]
            by = _linked(author["name"], author.get("url", ""))
            under = _linked(terms.get("spdx") or terms["title"], terms.get("url", ""))
        except (KeyError, TypeError, AttributeError):
            raise self.package.changed("info.json has no license and author") from None
        return f"| {self.name} | {by} | {under} | {self.package.name} {self.package.version} |"

    def svg(self, name: str) -> str:
        """Return an icon as an SVG document."""
        records = self._resolve(name)
        body = records[-1].get("body")
        if not isinstance(body, str):
            raise self.package.changed(f"the icon {name} has no body")
        try:
            left, top, width, height = (
                float(
                    # The most specific value is used: the alias's, then the icon's, then the
                    # package's default.
                    next((record[key] for record in (*records, self._told) if key in record), usual)
                )
                for key, usual in (("left", 0), ("top", 0), ("width", SIDE), ("height", SIDE))
            )
            turns = [
                # Aliases can flip a flipped icon again: an even number of flips cancels out.
                key
                for key in ("hFlip", "vFlip")
                if sum(bool(record.get(key)) for record in records) % 2
            ]
            turns += ["quarter"] * (sum(int(record.get("rotate", 0)) for record in records) % 4)
        except (TypeError, ValueError):
            raise self.package.changed(
                f"the frame or the rotation of {name} is not a number"
            ) from None
        for turn in turns:
            body = f'<g transform="{_turned(turn, left, top, width, height)}">{body}</g>'
        # Center the drawing on a square.
        side = max(width, height)
        left, top = left - (side - width) / 2, top - (side - height) / 2
        return (
            '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
            f' viewBox="{left:g} {top:g} {side:g} {side:g}">{body}</svg>'
        )

    def _resolve(self, name: str) -> list[Mapping[str, Any]]:
        """Return the records of all aliases between a name and its icon, then the icon's record."""
        records: list[Mapping[str, Any]] = []
        seen = set()
        # Aliases of a damaged package may form a cycle.
        while name not in self._icons:
            alias = self._aliases.get(name)
            if name in seen or not isinstance(alias, dict) or "parent" not in alias:
                raise self.package.changed(f"the alias {name} does not lead to an icon")
            seen.add(name)
            records.append(alias)
            name = str(alias["parent"])
        icon = self._icons[name]
        if not isinstance(icon, dict):
            raise self.package.changed(f"the icon {name} is not a record")
        return [*records, icon]


def _linked(text: str, url: str) -> str:
    return f"[{text}]({url})" if url else text


def _bare(code: str) -> str:
    return "-".join(part for part in code.lower().split("-") if int(part, 16) != SELECTOR)


def _turned(turn: str, left: float, top: float, width: float, height: float) -> str:
    """Return the SVG transformation that flips or rotates a drawing within its frame."""
    if turn == "hFlip":
        return f"translate({2 * left + width:g} 0) scale(-1 1)"
    if turn == "vFlip":
        return f"translate(0 {2 * top + height:g}) scale(1 -1)"
    return f"rotate(90 {left + width / 2:g} {top + height / 2:g})"


def drawn(
    style: Style, emoji: Sequence[Emoji], styles: Sequence[Style]
) -> Iterator[tuple[Emoji, str]]:
    """Yield each emoji in a style with the name of its icon.

    If a package has no table of characters, its icons are found by the names that other packages or
    Unicode use.
    """
    for one in emoji:
        names = [style.codes.get(one.code)]
        # Packages without character codes use the same icon names as similar packages.
        names += [other.codes.get(one.code) for other in styles]
        names += _spellings(one.name)
        icon = next((name for name in names if name is not None and name in style), None)
        if icon is not None:
            yield one, icon


def _spellings(name: str) -> list[str]:
    """Return the spellings that packages may use for a Unicode name."""
    plain = name.replace("_", "-")
    spellings = [plain, plain.replace("-o-clock", "-oclock"), plain.replace("-s-", "s-")]
    if plain.startswith("flag-"):
        land = plain.removeprefix("flag-")
        spellings += [f"flag-for-{land}", f"flag-for-flag-{land}"]
    return spellings


def rasterize(svg: str, side: int) -> NDArray[np.uint8]:
    """Return a drawing on white, (side, side, 3); raise a ValueError if it is broken."""
    import resvg_py

    try:
        # Without system fonts: icons with text would otherwise differ from machine to machine.
        png = resvg_py.svg_to_bytes(
            svg_string=svg, width=side, height=side, background="#ffffff", skip_system_fonts=True
        )
        with Image.open(io.BytesIO(png)) as image:
            pixels = np.asarray(image.convert("RGB"))
    except OSError as error:
        raise ValueError(str(error)) from None
    # Nothing but white: the drawing is empty or could not be rendered.
    if pixels.min() == 255:
        raise ValueError("the drawing is blank")
    return pixels
