"""Find the subclasses to hold out, as named by the user or by the authors of ICONS-50.

Complete names are compared, never parts of a path.
"""

import difflib
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from eyechart.core.arguments import regular_file
from eyechart.core.csv_table import packaged_rows
from eyechart.core.errors import UsageError
from eyechart.core.registry import unknown_name
from eyechart.structure.holdout_images import HoldoutImages

TABLE = "icons50_held_out.csv"
"""Names that the published code of ICONS-50 holds out, in its order, each with the current Unicode
name of the same emoji if the name has changed. The published cartwheel has a skin tone, which
current names do not distinguish.
"""

MIN_SIMILARITY = 0.85
"""Minimum similarity ratio (difflib) at which two names match."""

MIN_SHARE = 0.5
"""Minimum fraction of the published subclasses that a dataset needs for the published order."""


def read_names(entries: Sequence[str]) -> list[str]:
    """Return the names of subclasses; each entry is a name, or a file that contains names.

    Names in files are separated by spaces, commas or line breaks; # starts a comment.
    """
    names: list[str] = []
    for text in entries:
        path = Path(text)
        if path.is_file():
            try:
                content = regular_file(path).read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError):
                raise UsageError(f"{path} must be a text file with names of subclasses.") from None
            listed = re.sub(r"#.*", "", content).replace(",", " ").split()
            if not listed:
                raise UsageError(f"{path} must name at least one subclass.")
            names += listed
        # A missing file must not be mistaken for the name of a subclass.
        elif path.suffix == ".txt":
            raise UsageError(f"No such file: {text}.")
        else:
            names.append(text)
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise UsageError(f"Every subclass must be named only once, got {twice[0]!r} twice.")
    return names


def hold_named(kinds: HoldoutImages, names: Sequence[str]) -> tuple[str, ...]:
    """Return the subclasses with these names; raise a UsageError for unknown names.

    They are returned as named in `HoldoutImages.names`. A name is a subclass, or class/subclass if
    two classes have a subclass with that name. Case, spaces and hyphens are ignored.
    """
    known = _by_name(kinds)
    held: dict[str, None] = {}
    for name in names:
        matches = known.get(_plain(name))
        if matches is None:
            raise unknown_name("subclass", name, sorted(known))
        held.update(dict.fromkeys(matches))
    return tuple(sorted(held))


def hold_published(kinds: HoldoutImages) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the subclasses that the ICONS-50 authors held out, and notes.

    Subclasses without images are left out. The notes list these, and subclasses that were found
    under a different name.
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
    # With fewer matches it is a different dataset, to which the published result does not apply.
    if total - len(missing) < MIN_SHARE * total:
        raise UsageError(
            f"--order published applies to ICONS-50 and CIFAR-100, but {kinds.data.images.source} "
            f"has {total - len(missing)} of the {total} subclasses that ICONS-50's authors held "
            "out:"
            " name others with --hold, or use --order random."
        )
    notes = []
    if renamed:
        notes.append(
            f"{len(renamed)} of the {total} published subclasses have other names here and were"
            f" matched with the closest ones: {', '.join(renamed)}."
        )
    if missing:
        notes.append(
            "These published subclasses are missing here and are therefore not held out:"
            f" {', '.join(missing)} ({len(missing)} of the {total})."
        )
    return tuple(sorted(held)), tuple(notes)


@cache
def published_names() -> Mapping[str, str]:
    """Return the 50 published names, each with the emoji's current name; "" if it is unchanged."""
    rows = packaged_rows("eyechart.structure", TABLE)
    return {row["published"]: row["present"] for row in rows}


def _closest(name: str, present: str, known: Mapping[str, Sequence[str]]) -> str | None:
    # The table of renamed emoji comes first; fuzzy matching is a last resort and always reported.
    for candidate in (name, present):
        if candidate in known:
            return candidate
    # A subclass with a published name must not be used for another one.
    unpublished = [candidate for candidate in known if candidate not in published_names()]
    near = difflib.get_close_matches(name, unpublished, 1, MIN_SIMILARITY)
    return near[0] if near else None


def _by_name(kinds: HoldoutImages) -> dict[str, tuple[str, ...]]:
    """Return the subclasses by name; each is listed under its name with and without its class."""
    full = kinds.names("subclass")
    bare = [str(key.subclass) for key in kinds.data.images.listed]
    by_name: dict[str, dict[str, None]] = {}
    for name, subclass in zip(bare, full, strict=True):
        # A name is found with and without its class.
        for key in (name, subclass):
            by_name.setdefault(_plain(key), {})[subclass] = None
    return {name: tuple(members) for name, members in by_name.items()}


def _plain(name: str) -> str:
    """Return a name in lower case, with words joined by underscores."""
    return re.sub(r"[^\w/]+", "_", name.strip().lower().replace("'", "").replace("’", ""))
