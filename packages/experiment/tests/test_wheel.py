"""The experiment's wheel holds the pages, or none is built."""

import os
import shutil

import pytest

from places import EXPERIMENT
from wheels import build, names_in

STATIC = "src/eyechart_experiment/static"
PAGES = ("app.css", "app.js")

NPM = """#!/bin/sh
case "$*" in
ci*) mkdir -p node_modules ;;
*build*) mkdir -p ../{static} && touch ../{static}/app.js ../{static}/app.css ;;
esac
"""
"""Stands in for npm where only the way to it is tested."""


@pytest.fixture
def checkout(tmp_path):
    """A copy of what git has, as far as a build needs it: no pages."""
    pytest.importorskip("hatchling")
    left_out = shutil.ignore_patterns("node_modules", "static", "tests", "__pycache__")
    return shutil.copytree(EXPERIMENT, tmp_path / "checkout", ignore=left_out)


def test_the_wheel_holds_every_file_of_the_package_and_the_pages(checkout):
    (checkout / STATIC).mkdir()
    for name in PAGES:
        (checkout / STATIC / name).write_text("built")
    done = build(checkout)
    assert done.returncode == 0, done.stderr
    held = {name for name in names_in(checkout.parent / "dist") if ".dist-info/" not in name}
    source = checkout / "src"
    assert held == {str(p.relative_to(source)) for p in source.rglob("*") if p.is_file()}
    assert {f"eyechart_experiment/static/{name}" for name in PAGES} < held


@pytest.mark.parametrize("target", ["wheel", "sdist"])
def test_without_npm_and_pages_nothing_is_built_and_a_sentence_says_why(checkout, target):
    done = build(checkout, target)
    assert done.returncode != 0
    assert "there is no npm here" in done.stderr and "install Node 20" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(checkout.parent.glob("dist/*"))


@pytest.mark.parametrize("old", [False, True])
def test_pages_that_are_missing_or_old_are_built_first(checkout, tmp_path, old):
    if old:
        (checkout / STATIC).mkdir()
        for name in PAGES:
            (checkout / STATIC / name).write_text("older than its sources")
            os.utime(checkout / STATIC / name, (0, 0))
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "npm").write_text(NPM.format(static=STATIC))
    (programs / "npm").chmod(0o755)
    done = build(checkout, programs=programs)
    assert done.returncode == 0, done.stderr
    held = names_in(checkout.parent / "dist")
    assert {f"eyechart_experiment/static/{name}" for name in PAGES} < held
    assert all((checkout / STATIC / name).stat().st_mtime > 1 for name in PAGES)
