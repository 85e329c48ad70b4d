"""Where things of the repository lie, for tests that read them."""

from pathlib import Path

SUPPORT = Path(__file__).parent
TESTS = SUPPORT.parent
DATA = TESTS / "data"
ROOT = TESTS.parent
