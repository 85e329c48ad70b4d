"""Where things of the repository lie, for tests that read them."""

from pathlib import Path

SUPPORT = Path(__file__).parent
TESTS = SUPPORT.parent
DATA = TESTS / "data"
ROOT = TESTS.parent
SOURCE = ROOT / "src" / "eyechart"
EXPERIMENT = ROOT / "packages" / "experiment"
PACKAGE = EXPERIMENT / "src" / "eyechart_experiment"


def python_files() -> dict[str, Path]:
    """Return the modules of both distributions by name: `cli/app.py`, `eyechart_experiment/…`."""
    own = {path.relative_to(SOURCE).as_posix(): path for path in sorted(SOURCE.rglob("*.py"))}
    for path in sorted(PACKAGE.rglob("*.py")):
        own[path.relative_to(PACKAGE.parent).as_posix()] = path
    return own
