"""Links lead to a file that exists, and to a heading of its page. Nothing is fetched."""

import re
import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import yaml
from markdown import Markdown

from places import EXPERIMENT, ROOT

DOCS = ROOT / "docs"
OUTSIDE = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
OTHERS = sorted((EXPERIMENT / "docs").glob("*.md"))
PAGES = [
    *OUTSIDE, *sorted(DOCS.rglob("*.md")), *sorted((DOCS / "notebooks").glob("*.ipynb")), *OTHERS,
]  # fmt: skip
GENERATED = {
    DOCS / "reference" / "results.schema.json": ROOT / "src/eyechart/results/results.schema.json",
    **{DOCS / "experiment" / path.name: path for path in OTHERS},
}
"""Files that the site has from elsewhere."""


class Page(HTMLParser):
    """The links of a page, and the names of the places on it."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(html)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            if name in ("href", "src", "srcset") and value:
                self.links.append(value)
            elif name == "id" and value:
                self.anchors.add(value)


def configuration() -> dict:
    return yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))


def markdown_of(path: Path) -> str:
    """The Markdown of a page as MkDocs gets it, with generated tables."""
    sys.path.insert(0, str(DOCS))
    try:
        import generate
        import render_notebooks
    finally:
        sys.path.remove(str(DOCS))
    if path.suffix == ".ipynb":
        return render_notebooks.render(path)[0]
    # the page that shows CONTRIBUTING.md has its links, which are checked there
    if path == DOCS / "contributing.md":
        return path.read_text("utf-8")
    text = path.read_text("utf-8")
    return generate.on_page_markdown(text) if path.is_relative_to(DOCS) else text


def read_markdown(text: str) -> Page:
    extensions, settings = [], {}
    for entry in configuration()["markdown_extensions"]:
        name, values = next(iter(entry.items())) if isinstance(entry, dict) else (entry, {})
        extensions.append(name)
        settings[name] = values
    settings["toc"] = {}  # without the links of headings to themselves
    page = Page(Markdown(extensions=extensions, extension_configs=settings).convert(text))
    # mkdocstrings puts the reference of a name in the place of such a line
    page.anchors |= set(re.findall(r"^::: (\S+)", text, re.MULTILINE))
    return page


@cache
def read_page(path: Path) -> Page:
    return read_markdown(markdown_of(path))


def problem(link: str, path: Path, page: Page) -> str:
    """Why a link on a page leads nowhere; empty if it leads somewhere."""
    parts = urlsplit(link)
    if parts.scheme:
        is_valid = parts.scheme in ("http", "https") and re.fullmatch(r"[\w.-]+\.\w+", parts.netloc)
        return "" if is_valid and " " not in link else "no valid address"
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    target = GENERATED.get(target, target)
    if not target.exists():
        return "no such file"
    if not parts.fragment:
        return ""
    goal = page if target == path else read_page(target)
    return "" if unquote(parts.fragment) in goal.anchors else "no such heading"


def dead_links(path: Path, page: Page) -> list[str]:
    found = ((link, problem(link, path, page)) for link in page.links)
    return [f"{link}: {why}" for link, why in found if why]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path):
    # the images in a notebook's outputs are written with its page
    own = f"{path.stem}_files/"
    dead = dead_links(path, read_page(path))
    assert [link for link in dead if not link.startswith(own)] == []


def test_many_links_and_headings_are_looked_at():
    links = [link for path in PAGES for link in read_page(path).links]
    assert len(links) > 200
    assert sum("#" in link for link in links) > 50


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[a](nowhere.md)", "no such file"),
        ("[a](tutorial/install.md#nowhere)", "no such heading"),
        ("[a](#nowhere)", "no such heading"),
        ("![a](nowhere.png)", "no such file"),
        ("[a](https:/example.org)", "no valid address"),
        ("[a](#there)\n\n## There", ""),
        ("`[a](nowhere.md)`", ""),
    ],
)
def test_a_dead_link_is_found(text, why):
    dead = dead_links(DOCS / "index.md", read_markdown(text))
    assert [entry.rpartition(": ")[2] for entry in dead] == ([why] if why else [])


def nav_files(entry: object) -> list[str]:
    if isinstance(entry, str):
        return [entry]
    children = entry.values() if isinstance(entry, dict) else entry
    return [name for child in children for name in nav_files(child)]


def test_every_entry_of_the_navigation_exists():
    names = nav_files(configuration()["nav"])
    assert len(names) > 40
    files = (GENERATED.get(DOCS / name, DOCS / name) for name in names)
    assert [path for path in files if not path.is_file()] == []
