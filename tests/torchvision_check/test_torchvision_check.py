"""Runs the checks of `check.py` where torchvision can be imported."""

import importlib.util
from pathlib import Path

import pytest

NAMES = [
    "check_geometry_is_that_of_torchvision",
    "check_types_are_kept",
    "check_formats_of_boxes_agree",
    "check_compose",
    "check_what_cannot_follow_is_rejected",
    "check_cuda_gives_the_same",
]


@pytest.fixture(scope="module")
def checks():
    try:
        import torchvision  # noqa: F401
    except ModuleNotFoundError:
        pytest.skip("needs torchvision")
    except RuntimeError:
        # it belongs to another torch; tests/support/adapters_check.sh knows these words
        pytest.skip("needs torchvision, which is installed but cannot be imported")
    spec = importlib.util.spec_from_file_location("check", Path(__file__).parent / "check.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return {check.__name__: check for check in module.CHECKS}


@pytest.mark.parametrize("name", NAMES)
def test_torchvision(name, checks):
    assert list(checks) == NAMES
    checks[name]()
