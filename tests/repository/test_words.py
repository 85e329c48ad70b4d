"""Texts use the words of the field: those that `tests/data/dropped_words.csv` lists are gone.

Names of options, fields and stored values are code, not prose, and are not looked at here.
"""

import ast
import csv
import json
import re
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest

from places import EXPERIMENT, PACKAGE, ROOT, SOURCE, python_files

STORED = {
    # the name of the demo images in results and manifests
    "images/image_sources.py",
    # the prompt by which the published study asked CLIP
    "models/adapters/transformers_models.py",
    # the head of a packaged file
    "humans/placement.py",
    # names of groups in Unicode
    "structure/icon_classes.yaml",
}
"""Files whose texts are kept as they were, since something outside depends on them."""

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


JINJA = re.compile(r"{%.*?%}|{{.*?}}", re.S)
SCRIPT = re.compile(
    r"//[^\n]*|/\*.*?\*/"
    r"|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\])*`",
    re.S,
)
"""Comments and strings of TypeScript and JavaScript."""

PROMISE = re.compile(r"\bpromises?\b", re.I)
"""In these languages the name of a type."""


def blank(match: re.Match[str]) -> str:
    """Return as many line breaks as the match has, so that lines keep their numbers."""
    return "\n" * match.group(0).count("\n")


def texts_of(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and the words of each text in a file, by the type of the file."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        # a text holds a space; other strings are names and stored values
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
                yield node.lineno, node.value
        return
    if path.suffix == ".ipynb":
        for cell in json.loads(text)["cells"]:
            outputs = (output.get("text", []) for output in cell.get("outputs", []))
            for line in (*cell["source"], *chain.from_iterable(outputs)):
                yield 0, line
        return
    if path.suffix in (".ts", ".js"):
        for match in SCRIPT.finditer(text):
            first = text.count("\n", 0, match.start()) + 1
            # without the quotes: those of a template would make it code
            words = PROMISE.sub(" ", match.group(0).strip("`"))
            yield from enumerate(words.splitlines(), start=first)
        return
    if path.suffix == ".md":
        text = CODE.sub(blank, text)
    elif path.suffix == ".html":
        text = JINJA.sub(blank, text)
    # Markdown, templates, style sheets (with names of classes), YAML and JSON
    yield from enumerate(text.splitlines(), start=1)


def source_texts() -> Iterator[tuple[str, str]]:
    """Yield the place of each text of the package, and the text."""
    for name, path in python_files().items():
        if name not in STORED:
            yield from ((f"{name}:{line}", text) for line, text in texts_of(path))


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


def other_files() -> list[Path]:
    """Return the documentation, and sources of pages, styles and suites that are not Python."""
    patterns = {
        ROOT: ("README.md", "CONTRIBUTING.md", "docs/**/*.md", "docs/notebooks/*.ipynb"),
        EXPERIMENT: ("docs/*.md", "frontend/src/**/*.ts", "frontend/src/**/*.css"),
        PACKAGE: ("pages/*.html", "languages/en.json"),
        SOURCE / "reports" / "html" / "templates": ("*.html", "*.css", "*.js"),
        SOURCE: ("**/*.yaml",),
    }
    found = (path for root, globs in patterns.items() for glob in globs for path in root.glob(glob))
    stored = {SOURCE / name for name in STORED}
    return sorted(set(found) - stored)


@pytest.mark.parametrize("path", other_files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_other_files_use_the_words_of_the_field(path):
    texts = ((f"{path.relative_to(ROOT)}:{line}", text) for line, text in texts_of(path))
    assert found_in(texts) == []


def test_files_of_every_type_are_looked_at():
    endings = Counter(path.suffix for path in other_files())
    assert {".md", ".ipynb", ".html", ".css", ".js", ".json", ".ts", ".yaml"} == set(endings)
    assert endings[".ts"] > 30 and endings[".html"] > 5


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("page.md", "One\nof the pictures."),
        ("page.html", "{% if a %}\n<p>{{ b }} pictures</p>"),
        ("page.html", "<p>\n<img alt='two pictures'>"),
        ("page.css", "a { }\n.pictures-box { color: red; }"),
        ("page.ts", "f();\n// one of the pictures"),
        ("page.ts", "/* One\n   of the pictures. */"),
        ("page.js", "f();\ng(`${n} pictures`);"),
        ("page.ts", 'f();\nmake("div", { class: "pictures" });'),
        ("page.py", "a = 1\nb = 'one of the pictures'"),
        ("suite.yaml", "a: 1\nnote: Two pictures."),
    ],
)
def test_a_dropped_word_in_a_file_is_found_in_its_line(tmp_path, name, text):
    (tmp_path / name).write_text(text, encoding="utf-8")
    texts = ((str(line), words) for line, words in texts_of(tmp_path / name))
    assert found_in(texts) == ["2: pictures"]


def test_a_dropped_word_in_a_notebook_is_found(tmp_path):
    cell = {"source": ["Text.", "pictures"], "outputs": [{"text": ["more pictures"]}]}
    (tmp_path / "a.ipynb").write_text(json.dumps({"cells": [cell]}), encoding="utf-8")
    texts = ((str(line), words) for line, words in texts_of(tmp_path / "a.ipynb"))
    assert found_in(texts) == ["0: pictures"] * 2


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("page.html", "{{ pictures }}"),
        ("page.ts", "const pictures = 1;"),
        ("page.md", "`pictures`"),
    ],
)
def test_names_in_code_are_not_looked_at(tmp_path, name, text):
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert found_in((str(line), words) for line, words in texts_of(tmp_path / name)) == []


@pytest.mark.parametrize("word", ["Pictures of cats.", "It was refused.", "The run goes on."])
def test_a_dropped_word_is_found(word):
    assert found_in(iter([("here", word)])) != []


@pytest.mark.parametrize(
    "text", ["`pictures`: their number", "--max-images 3", ">>> f(pictures=2)"]
)
def test_code_is_no_prose(text):
    assert found_in(iter([("here", text)])) == []
