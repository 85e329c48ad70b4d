"""Examples in docstrings are true, and every public function of `stats` has one."""

import doctest
import inspect
from importlib import import_module
from pathlib import Path

import pytest

import eyechart

SOURCE = Path(eyechart.__file__).parent


def module_name(path: Path) -> str:
    return ".".join(("eyechart", *path.relative_to(SOURCE).with_suffix("").parts))


MODULES = [
    module_name(path)
    for path in sorted(SOURCE.rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]
STATS = sorted(module_name(path) for path in (SOURCE / "stats").glob("[a-z]*.py"))


def test_there_are_examples():
    assert set(STATS) <= set(MODULES) and len(MODULES) > len(STATS)


@pytest.mark.parametrize("name", MODULES)
def test_examples_are_true(name):
    outcome = doctest.testmod(import_module(name), optionflags=doctest.ELLIPSIS)
    assert outcome.attempted > 0 and outcome.failed == 0


@pytest.mark.parametrize("name", STATS)
def test_every_public_function_of_stats_has_an_example(name):
    module = import_module(name)
    functions = [
        function
        for _, function in inspect.getmembers(module, inspect.isfunction)
        if function.__module__ == name and not function.__name__.startswith("_")
    ]
    assert functions
    assert [f.__name__ for f in functions if ">>> " not in (f.__doc__ or "")] == []
