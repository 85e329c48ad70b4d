"""Builds the pages of the experiment before they are packed.

An editable install needs no pages and no npm: `make frontend` builds them when they are wanted.
"""

import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PAGES = ("app.js", "app.css")
STATIC = Path("src", "eyechart_experiment", "static")
SOURCES = ("src", "build.js", "package.json", "package-lock.json", "tsconfig.json", "NOTICES.txt")
TEXTS = Path("src", "eyechart_experiment", "languages")


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
