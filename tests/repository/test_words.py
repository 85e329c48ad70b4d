"""Texts use the words of the field: those that `tests/data/dropped_words.csv` lists are gone.

Names of options, fields and stored values are code, not prose, and are not looked at here.
"""

import ast
import csv
import re
from collections.abc import Iterator

import pytest

from places import TESTS

ROOT = TESTS.parent
SOURCE = ROOT / "src" / "eyechart"

STORED = {
    # participants agreed to these texts, and studies know their settings by a digest
    "experiment/study_config.py",
    # rules that were used in a study are never edited
    "experiment/quality/rules_v1.py",
    # the name of the demo images in results and manifests
    "images/demo.py",
    # the prompt by which the published study asked CLIP
    "models/adapters/clip_models.py",
    # the head of a packaged file
    "humans/placement.py",
}
"""Modules whose texts are kept as they were, since something outside depends on them."""

KEPT_PHRASES = ('"people ahead"', '"people"', "people ahead", "a model, people,", "baseline people")
"""Stored values that texts quote."""

CODE = re.compile(
    r"```.*?```|`[^`]*`|--[a-z-]+|https?://\S+|</?picture>|/pictures\b"
    # examples, and errors that begin with the name of an argument
    r"|^\s*(>>>|\.\.\.).*$|^\w+ must ",
    re.S | re.M,
)
ATTRIBUTE = re.compile(r"^\s+(`?\w+`?):\s", re.M)
"""The name of an attribute or argument in a docstring."""


def dropped_words() -> re.Pattern[str]:
    with (ROOT / "tests" / "data" / "dropped_words.csv").open(encoding="utf-8") as file:
        patterns = [line["pattern"] for line in csv.DictReader(file)]
    return re.compile(rf"\b({'|'.join(patterns)})\b", re.I)


def prose(text: str) -> str:
    """Return a text without code, names of arguments and stored values."""
    for phrase in KEPT_PHRASES:
        text = text.replace(phrase, " ")
    return ATTRIBUTE.sub(" ", CODE.sub(" ", text))


def source_texts() -> Iterator[tuple[str, str]]:
    """Yield the place of each text of the package, and the text; a text holds a space."""
    for path in sorted(SOURCE.rglob("*.py")):
        name = str(path.relative_to(SOURCE))
        if name in STORED:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
                yield f"{name}:{node.lineno}", node.value


def found_in(texts: Iterator[tuple[str, str]]) -> list[str]:
    words = dropped_words()
    return [
        f"{where}: {match.group(0)}"
        for where, text in texts
        if (match := words.search(prose(text))) is not None
    ]


def test_texts_of_the_package_use_the_words_of_the_field():
    texts = list(source_texts())
    assert len(texts) > 5_000
    assert found_in(iter(texts)) == []


@pytest.mark.parametrize(
    "path",
    [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"],
    ids=lambda path: path.name,
)
def test_pages_of_the_documentation_use_the_words_of_the_field(path):
    text = CODE.sub(lambda code: "\n" * code.group(0).count("\n"), path.read_text(encoding="utf-8"))
    lines = ((f"{path.name}:{n}", line) for n, line in enumerate(text.splitlines(), start=1))
    assert found_in(lines) == []


@pytest.mark.parametrize("word", ["Pictures of cats.", "It was refused.", "The run goes on."])
def test_a_dropped_word_is_found(word):
    assert found_in(iter([("here", word)])) != []


@pytest.mark.parametrize("text", ["`pictures`: their number", "--pictures 3", ">>> f(pictures=2)"])
def test_code_is_no_prose(text):
    assert found_in(iter([("here", text)])) == []
