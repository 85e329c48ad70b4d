"""Writes what a package index shows: the long description and the project's addresses."""

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

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
