"""What the documentation shows works: its Python and its commands are run."""

import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from eyechart.cli.app import main
from eyechart.suites.suite import all_entries

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page: Path, language: str) -> list[str]:
    return [text for name, text in BLOCK.findall(page.read_text("utf-8")) if name == language]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the files that the examples speak of."""
    levels = np.random.default_rng(0).integers(0, 256, (48, 64, 3), dtype=np.uint8)
    Image.fromarray(levels).save(tmp_path / "photo.jpg")
    (tmp_path / "photos").mkdir()
    Image.fromarray(levels[:32]).save(tmp_path / "photos" / "one.png")
    (table,) = blocks(ROOT / "docs" / "overlap.md", "csv")
    (tmp_path / "accuracies.csv").write_text(table, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_examples_run(page, folder):
    names: dict[str, object] = {}
    for block in blocks(page, "python"):
        exec(compile(block, str(page), "exec"), names)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_command_examples_run(page, folder):
    for block in blocks(page, "bash"):
        for line in block.splitlines():
            if line.startswith("eyechart "):
                with pytest.raises(SystemExit) as stop:
                    main(shlex.split(line, comments=True)[1:])
                assert stop.value.code == 0, line


def test_there_are_examples():
    assert blocks(ROOT / "README.md", "python")
    assert len(blocks(ROOT / "docs" / "quickstart.md", "python")) > 3
    assert blocks(ROOT / "docs" / "quickstart.md", "bash")


def test_the_tables_hold_every_corruption(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    sys.modules.pop("generate", None)
    import generate

    page = generate.on_page_markdown((ROOT / "docs" / "corruptions.md").read_text("utf-8"))
    assert "<!--" not in page
    for name in all_entries():
        assert page.count(f"### `{name}`\n") == 1, name
    assert "| `sigma` |" in page
    suites = generate.on_page_markdown((ROOT / "docs" / "suites.md").read_text("utf-8"))
    assert "`saturate`" in suites.split("not for these")[1]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)", page.read_text("utf-8")):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target
