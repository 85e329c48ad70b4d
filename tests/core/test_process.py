"""Large imports are not interrupted by collections, and afterwards all is as before."""

import gc
import sys

import pytest

from eyechart.core.process import quick_imports


@pytest.fixture
def before_torch(monkeypatch):
    """A process that has not imported torch yet, and in which nothing is frozen for good."""
    monkeypatch.delitem(sys.modules, "torch")
    frozen = []
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append(gc.isenabled()))
    return frozen


def test_nothing_is_collected_during_the_imports_and_never_among_them(before_torch):
    with quick_imports():
        assert not gc.isenabled()
    assert gc.isenabled()
    # frozen before the first collection
    assert before_torch == [False]


def test_a_failed_import_leaves_collections_enabled(before_torch):
    with pytest.raises(ModuleNotFoundError), quick_imports():
        raise ModuleNotFoundError
    assert gc.isenabled()


def test_in_a_process_with_torch_nothing_of_the_caller_is_frozen(monkeypatch):
    frozen = []
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append(True))
    with quick_imports():
        assert gc.isenabled()
    assert frozen == []


def test_who_disabled_collections_finds_them_disabled(before_torch):
    gc.disable()
    try:
        with quick_imports():
            pass
        assert not gc.isenabled() and before_torch == []
    finally:
        gc.enable()
