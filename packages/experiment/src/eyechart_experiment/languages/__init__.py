"""Texts that participants read, one catalogue per language; the pages in `frontend/` use them too.

To add a language, translate `en.json` and list the new file in `frontend/src/texts.ts`.
"""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from eyechart.core.registry import unknown_name

FOLDER = Path(__file__).parent
DEFAULT = "en"
# The default comes first; the others are sorted, since glob's order depends on the disk.
LANGUAGES = (DEFAULT, *sorted(path.stem for path in FOLDER.glob("*.json") if path.stem != DEFAULT))
"""Languages of the pages, as the language tags of HTML."""


@cache
def read_texts(language: str) -> Mapping[str, str]:
    """Return the texts of a language by their keys.

    Example:
        >>> read_texts("de")["category.dog"]
        'Hund'
    """
    # Before a path is made of the name, which must not lead out of the folder.
    if language not in LANGUAGES:
        raise unknown_name("language", language, LANGUAGES)
    texts: dict[str, str] = json.loads((FOLDER / f"{language}.json").read_text(encoding="utf-8"))
    return texts
