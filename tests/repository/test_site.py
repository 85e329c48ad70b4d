"""The pages of the documentation can be used by everyone: in both color schemes, on a phone.

A few pages are built here with the theme, style sheet, script and hooks of the whole site.
"""

import logging
import re

import pytest
from mkdocs.commands.build import build
from mkdocs.config import load_config

from browser import AXE, launched, opened, skip_without_browser, violations
from places import ROOT

NOTEBOOK = "notebooks/compare_two_models"
NAMES = ("index", "reference/corruptions", "experiment/experiment", NOTEBOOK)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the built pages; links to pages that are left out lead nowhere."""
    folder = tmp_path_factory.mktemp("site")
    logging.getLogger("mkdocs").setLevel(logging.ERROR)
    pages = [f"{name}.{'ipynb' if name == NOTEBOOK else 'md'}" for name in NAMES]
    config = load_config(
        str(ROOT / "mkdocs.yml"),
        site_dir=str(folder),
        strict=False,
        plugins=["search"],
        nav=pages,
        exclude_docs="\n".join(["*.py", "*.md", "*.ipynb", *(f"!/{page}" for page in pages)]),
    )
    build(config)
    return folder


@pytest.mark.parametrize("name", [*NAMES, "404"])
def test_dialogs_pictures_and_headings_of_tables_have_a_name(site, name):
    page = (site / f"{name}.html").read_text("utf-8")
    dialogs = re.findall(r'<[^>]*role="dialog"[^>]*>', page)
    assert dialogs and all("aria-label=" in dialog for dialog in dialogs)
    assert not re.findall(r"<th[^>]*>\s*</th>", page)
    assert all(re.search(r'alt="[^"]', image) for image in re.findall(r"<img[^>]*>", page))


def test_axe_finds_nothing_serious_and_nothing_is_wider_than_a_page(site):
    skip_without_browser()
    with launched() as browser:
        for name in ("experiment/experiment", NOTEBOOK):
            for width, scheme in ((1440, "light"), (390, "dark")):
                path = site / f"{name}.html"
                with opened(browser, path, width, color_scheme=scheme) as found:
                    assert found.page.evaluate("document.scrollingElement.scrollWidth") <= width
                    if AXE.is_file():
                        assert violations(found.page) == []
    if not AXE.is_file():
        pytest.skip("no axe-core: tests/support/browser_setup.sh gets it where there is npm")
