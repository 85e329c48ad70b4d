"""Build wheels as `python -m build` does, in the environment of the tests."""

import os
import shutil
import subprocess
import sys
import zipfile


def build(checkout, target="wheel", programs=None):
    """Build as `python -m build` does, in the environment of the tests; return what was said.

    `programs`: a folder with an npm; without it there is none.
    """
    tools = checkout.parent / "tools"
    tools.mkdir(exist_ok=True)
    for name in ("sh", "dirname", "du", "tail", "cut", "mkdir", "touch"):
        if not (tools / name).exists():
            (tools / name).symlink_to(shutil.which(name))
    path = os.pathsep.join([*([str(programs)] if programs else []), str(tools)])
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", "../dist"]
    return subprocess.run(
        command, cwd=checkout, env={**os.environ, "PATH": path}, capture_output=True, text=True
    )


def names_in(folder):
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())
