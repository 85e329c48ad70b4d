"""Which subclasses are held out by name: those of a user, or the 50 of the ICONS-50 authors.

Names are compared as a whole, never as a part of a path.
"""

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from eyechart.core.csv_table import packaged_rows
from eyechart.core.errors import UsageError
from eyechart.core.registry import unknown_name
from eyechart.structure.holdout_images import HoldoutImages

TABLE = "icons50_held_out.csv"
"""The names that the published code of ICONS-50 holds out, in its order, and the present Unicode
name of the same emoji where that is another one. The published cartwheel has one skin tone, which
present names do not tell apart."""

MIN_SIMILARITY = 0.85
"""From which ratio of equal letters on a name stands for another one."""

MIN_SHARE = 0.5
"""The share of the published subclasses that data must have for their order to mean anything."""


@dataclass(frozen=True)
class HeldOut:
    """Subclasses to hold out, as `HoldoutImages.names` has them, and how they were found."""

    subclasses: tuple[str, ...]
    notes: tuple[str, ...] = ()


def read_names(entries: Sequence[str]) -> list[str]:
    """Return the names of subclasses: each given text is a name, or a file of names.

    Files have names between spaces, commas or ends of lines, and # before what is none.
    """
    names: list[str] = []
    for text in entries:
        path = Path(text)
        if path.is_file():
            names += _names_in(path)
        elif path.suffix == ".txt":
            raise UsageError(f"No such file: {text}.")
        else:
            names.append(text)
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise UsageError(f"Every subclass must be named once, got {twice[0]!r} twice.")
    return names


def _names_in(path: Path) -> list[str]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise UsageError(f"{path} must be a text file with names of subclasses.") from None
    names = re.sub(r"#.*", "", text).replace(",", " ").split()
    if not names:
        raise UsageError(f"{path} must name at least one subclass.")
    return names


def hold_named(kinds: HoldoutImages, names: Sequence[str]) -> HeldOut:
    """Return the subclasses of these names; a name that no subclass has is an error.

    A name is that of the subclass, or class/subclass where two classes have one of that name;
    upper case, spaces and dashes do not count.
    """
    known = _by_name(kinds)
    held: dict[str, None] = {}
    for name in names:
        matches = known.get(_plain(name))
        if matches is None:
            raise unknown_name("subclass", name, sorted(known))
        held.update(dict.fromkeys(matches))
    return HeldOut(tuple(sorted(held)))


def hold_published(kinds: HoldoutImages) -> HeldOut:
    """Return the 50 subclasses of the ICONS-50 authors, as far as the data has them.

    Notes say which were found under another name, and which were not.
    """
    known = _by_name(kinds)
    held: dict[str, None] = {}
    renamed: list[str] = []
    missing: list[str] = []
    for name, present in published_names().items():
        match = _closest(name, present, known)
        if match is None:
            missing.append(name)
            continue
        held.update(dict.fromkeys(known[match]))
        if match != name:
            renamed.append(f"{name} is {match}")
    total = len(published_names())
    if total - len(missing) < MIN_SHARE * total:
        raise UsageError(
            f"--order published is of ICONS-50 and CIFAR-100, and {kinds.data.images.source} has"
            f" {total - len(missing)} of the {total} subclasses that ICONS-50's authors held out:"
            " name others with --hold, or use --order random."
        )
    notes = []
    if renamed:
        notes.append(
            f"Closest match for {len(renamed)} of the {total} published subclasses, which have"
            f" other names here: {', '.join(renamed)}."
        )
    if missing:
        notes.append(
            f"Not held out, for there are no such subclasses here: {', '.join(missing)}"
            f" ({len(missing)} of the {total} published ones)."
        )
    return HeldOut(tuple(sorted(held)), tuple(notes))


@cache
def published_names() -> Mapping[str, str]:
    """Return the 50 published names, each with the present name of the same emoji, or ""."""
    rows = packaged_rows("eyechart.structure", TABLE)
    return {row["published"]: row["present"] for row in rows}


def _closest(name: str, present: str, known: Mapping[str, Sequence[str]]) -> str | None:
    for candidate in (name, present):
        if candidate in known:
            return candidate
    # what has a published name itself stands for no other
    unpublished = [candidate for candidate in known if candidate not in published_names()]
    near = difflib.get_close_matches(name, unpublished, 1, MIN_SIMILARITY)
    return near[0] if near else None


def _by_name(kinds: HoldoutImages) -> dict[str, tuple[str, ...]]:
    """Return the subclasses of each name, alone and behind their class."""
    full = kinds.names("subclass")
    bare = [str(key.subclass) for key in kinds.data.images.pictures]
    by_name: dict[str, dict[str, None]] = {}
    for name, subclass in zip(bare, full, strict=True):
        for key in (name, subclass):
            by_name.setdefault(_plain(key), {})[subclass] = None
    return {name: tuple(members) for name, members in by_name.items()}


def _plain(name: str) -> str:
    """Return a name in lower case, its words joined by underscores."""
    return re.sub(r"[^\w/]+", "_", name.strip().lower().replace("'", "").replace("’", ""))
