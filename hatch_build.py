"""Builds the experiment's pages before they are packed, and writes what a package index shows.

An editable install needs no pages and no npm: `make frontend` builds them when they are wanted.
"""

import os
import re
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

PAGES = ("app.js", "app.css")
STATIC = Path("src", "eyechart", "experiment", "static")
SOURCES = ("src", "build.js", "package.json", "package-lock.json", "tsconfig.json", "NOTICES.txt")
TEXTS = Path("src", "eyechart", "experiment", "languages")


class PagesHook(BuildHookInterface):
    """Runs frontend/build.sh where pages are missing or older than what they are built from."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the pages, or end with a sentence that says why they cannot be built."""
        root = Path(self.root)
        if version == "editable" or _is_current(root):
            return
        try:
            done = subprocess.run(
                ["sh", str(root / "frontend" / "build.sh")], capture_output=True, text=True
            )
            lines = f"{done.stdout}\n{done.stderr}".strip().splitlines() or ["no reason was given"]
            why = lines[0] if done.returncode == 0 else lines[-1]
        except OSError as error:
            why = str(error)
        if not _is_current(root):
            self.app.abort(
                f"{why} A wheel must contain the pages: install Node 20 or later with npm and build"
                " again, or use an editable install (pip install -e .), which needs none."
            )


def _is_current(root: Path) -> bool:
    """Whether all pages are there and none is older than a file that it is built from."""
    pages = [root / STATIC / name for name in PAGES]
    if not all(page.is_file() for page in pages):
        return False
    given = [*(root / TEXTS).glob("*.json"), *(root / "frontend" / name for name in SOURCES)]
    files = [path for each in given for path in (each, *each.rglob("*")) if path.is_file()]
    newest = max((path.stat().st_mtime for path in files), default=0.0)
    return min(page.stat().st_mtime for page in pages) >= newest


REPOSITORY, REVISION = "REPOSITORY_URL", "REVISION"
"""Environment variables that the release sets: the repository's address, and the tag."""

PICTURE = re.compile(r"<picture>.*?</picture>\n*", re.DOTALL)
LINK = re.compile(r"(!?)\[([^\]]*)\]\((?![a-z]+:|#)([^)]+)\)")


class IndexHook(MetadataHookInterface):
    """Writes the long description and the project's URLs.

    On a package index, relative links and images lead nowhere. They become absolute where the
    repository's address is known; elsewhere images are left out, and links become text.
    """

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the fields to the metadata of a build."""
        url, revision = os.environ.get(REPOSITORY, ""), os.environ.get(REVISION, "HEAD")
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": absolute_links(text, url.rstrip("/"), revision),
        }
        metadata["urls"] = project_urls(url.rstrip("/"), revision) if url else {}


def absolute_links(text: str, url: str, revision: str) -> str:
    """Return Markdown whose links do not depend on the repository's folder."""

    def link(match: re.Match[str]) -> str:
        is_image, words, target = match[1], match[2], match[3]
        if not url:
            return "" if is_image else words
        return f"{is_image}[{words}]({url}/{'raw' if is_image else 'blob'}/{revision}/{target})"

    return LINK.sub(link, PICTURE.sub("", text))


def project_urls(url: str, revision: str) -> dict[str, str]:
    """Return the addresses that an index shows beside the description."""
    return {
        "Repository": url,
        "Documentation": f"{url}/blob/{revision}/docs/index.md",
        "Changelog": f"{url}/blob/{revision}/CHANGELOG.md",
        "Issues": f"{url}/issues",
    }
