"""Names of models as tables and legends show them."""

from collections.abc import Sequence
from pathlib import PurePath

from eyechart.models.card import SUFFIXES as CARDS
from eyechart.models.defences.defended import split_name
from eyechart.models.find import FILES

ENDINGS = (*FILES, *CARDS)


def short_names(models: Sequence[str]) -> list[str]:
    """Return names that fit into a table: of files without folder and ending, if they differ."""
    short = [_short(name) for name in models]
    return short if len(set(short)) == len(short) else list(models)


def _short(name: str) -> str:
    defences, bare = split_name(name)
    return defences + PurePath(bare).stem if PurePath(bare).suffix.lower() in ENDINGS else name
