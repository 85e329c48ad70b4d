"""Pages in a real browser: chromium without a window, driven by Playwright.

What a page fetches, and whatever goes wrong in it, is noted from the first moment on.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from places import ROOT

SCREENSHOTS = ROOT / "build" / "screenshots"
AXE = ROOT / "build" / "npm" / "node_modules" / "axe-core" / "axe.min.js"

NAMES = ("chromium", "chromium-browser", "google-chrome")
OPTIONS = (
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync",
    "--disable-component-update", "--no-first-run",
)  # fmt: skip


@dataclass
class Opened:
    """A page that is open. `problems`: errors of scripts, messages of error, dialogs."""

    page: Any
    problems: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def shoot(self, name: str, whole: bool = True) -> Path:
        """Keep a picture of the page and return its path."""
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        path = SCREENSHOTS / f"{name}.png"
        self.page.screenshot(path=path, full_page=whole)
        return path


def skip_without_browser() -> None:
    """Skip all tests of a module, with one line that says why, where they cannot be run."""
    if find_spec("playwright") is None:
        _skip("install playwright, which the extra dev has")
    if _browser() is None:
        _skip("install chromium, which tests/support/browser_setup.sh does where it can")


def _skip(what: str) -> None:
    pytest.skip(f"no tests in a browser: {what}", allow_module_level=True)


def _browser() -> str | None:
    return next(filter(None, map(shutil.which, NAMES)), None)


@contextmanager
def launched(*options: str) -> Iterator[Any]:
    """Give a browser, and close it in the end; `options`: further ones of its command line."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        arguments = [*OPTIONS, *options]
        browser = playwright.chromium.launch(executable_path=_browser(), args=arguments)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opened(browser: Any, path: Path, width: int = 1440, **settings: Any) -> Iterator[Opened]:
    """Open a file in a window of so many px; `settings`: of Playwright's contexts."""
    size = {"width": width, "height": 900 if width > 600 else 844}
    context = browser.new_context(viewport=size, reduced_motion="reduce", **settings)
    try:
        page = context.new_page()
        page.set_default_timeout(20_000)
        found = Opened(page)
        page.on("pageerror", lambda error: found.problems.append(str(error)))
        page.on("console", lambda said: _note(found, said))
        page.on("dialog", lambda dialog: _reject(found, dialog))
        page.on("request", lambda request: found.requests.append(request.url))
        page.goto(path.resolve().as_uri())
        yield found
    finally:
        context.close()


def _note(found: Opened, said: Any) -> None:
    if said.type in ("error", "warning"):
        found.problems.append(f"{said.type}: {said.text}")


def _reject(found: Opened, dialog: Any) -> None:
    found.problems.append(f"dialog: {dialog.message}")
    dialog.dismiss()


def violations(page: Any, *rules: str) -> list[str]:
    """Return what axe-core finds that keeps some people from using the page as it is shown.

    By all of its rules, unless some are named; what it calls serious or critical.
    """
    # the driver puts it there, so that the page's own policy needs no hole
    page.evaluate(AXE.read_text(encoding="utf-8"))
    asked = {"resultTypes": ["violations"], **({"runOnly": list(rules)} if rules else {})}
    found = page.evaluate("asked => axe.run(asked)", asked)
    return [
        f"{each['id']} ({each['impact']}): {each['help']}: {node['target']}"
        for each in found["violations"]
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"]
    ]
