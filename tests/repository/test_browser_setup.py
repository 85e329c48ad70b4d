"""browser_setup.sh: installs what is missing where that can be, and says in a line where not."""

import shutil
import subprocess
from pathlib import Path

import pytest

from places import SUPPORT

SCRIPT = SUPPORT / "browser_setup.sh"
TOOLS = ("sh", "dirname", "id", "grep", "mkdir", "timeout", "true", "touch", "chmod", "cat")

pytestmark = pytest.mark.skipif(
    any(shutil.which(tool) is None for tool in TOOLS), reason="needs a POSIX system with coreutils"
)

AXE = 'mkdir -p "$3/node_modules/axe-core"; echo \'"version": "4.14.0"\' >"$3/$PACKAGE"'
PACKAGE = "node_modules/axe-core/package.json"


class Machine:
    """A checkout with this script alone, and a PATH with nothing but what is put there."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.bin = folder, folder / "bin"
        self.bin.mkdir()
        (folder / "checkout" / "tests" / "support").mkdir(parents=True)
        self.script = shutil.copy(SCRIPT, folder / "checkout" / "tests" / "support")
        for tool in TOOLS:
            (self.bin / tool).symlink_to(shutil.which(tool))
        self.server = folder / "postgresql" / "15" / "bin" / "initdb"
        self.server.parent.mkdir(parents=True)
        self.server.touch(mode=0o755)

    def add(self, name: str, does: str = "") -> None:
        """Put a program there that notes how it was called and then does something."""
        path = self.bin / name
        path.unlink(missing_ok=True)
        path.write_text(f'#!/bin/sh\necho {name} "$@" >>"{self.folder}/calls"\n{does}\n')
        path.chmod(0o755)

    def run(self) -> str:
        done = subprocess.run(
            [self.bin / "sh", self.script],
            env={
                "PATH": str(self.bin), "PACKAGE": PACKAGE, "BIN": str(self.bin),
                "POSTGRESQL": str(self.folder / "postgresql"),
            },
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30,
        )  # fmt: skip
        assert done.returncode == 0 and done.stderr == ""
        return done.stdout

    @property
    def calls(self) -> list[str]:
        path = self.folder / "calls"
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def be(machine: Machine, user: int) -> None:
    machine.add("id", f"echo {user}")


def test_where_nothing_can_be_installed_each_thing_is_said_in_a_line(machine):
    first, second = machine.run().splitlines()
    assert "chromium is missing" in first and "no apt-get" in first
    assert "axe-core" in second and "no npm" in second


def test_what_is_there_is_left_alone(machine):
    machine.add("chromium-browser")
    machine.add("apt-get")
    machine.add("npm")
    package = machine.folder / "checkout" / "build" / "npm" / PACKAGE
    package.parent.mkdir(parents=True)
    package.write_text('{"version": "4.14.0"}')
    assert machine.run() == "" and machine.calls == []


def test_chromium_and_axe_are_installed_without_questions(machine):
    be(machine, 0)
    machine.add("apt-get", 'touch "$BIN/chromium"; chmod +x "$BIN/chromium"')
    machine.add("npm", AXE)
    assert machine.run() == ""
    # lists of packages are not fetched where those that are there do
    (apt,) = (call for call in machine.calls if call.startswith("apt-get"))
    assert apt.endswith("-y --no-install-recommends install chromium")
    assert any("axe-core@4.14.0" in call for call in machine.calls)
    called = len(machine.calls)
    assert machine.run() == "" and len(machine.calls) == called


def test_postgresql_is_installed_where_its_server_is_missing(machine):
    be(machine, 0)
    machine.server.unlink()
    machine.add("chromium")
    machine.add("npm", AXE)
    machine.add(
        "apt-get", 'touch "$BIN/initdb" "$BIN/pg_ctl"; chmod +x "$BIN/initdb" "$BIN/pg_ctl"'
    )
    assert machine.run() == ""
    (apt,) = (call for call in machine.calls if call.startswith("apt-get"))
    assert apt.endswith("-y --no-install-recommends install postgresql")
    called = len(machine.calls)
    assert machine.run() == "" and len(machine.calls) == called


def test_without_postgresql_that_is_said_in_a_line(machine):
    machine.server.unlink()
    machine.add("chromium")
    machine.add("npm", AXE)
    (line,) = machine.run().splitlines()
    assert line.startswith("No tests of PostgreSQL: postgresql is missing")


def test_old_lists_of_packages_are_fetched_again(machine):
    be(machine, 0)
    machine.add("npm", AXE)
    newer = 'case "$*" in *update) touch "$BIN/newer" ;; esac\n'
    machine.add("apt-get", f'{newer}test -e "$BIN/newer"')
    assert machine.run() == ""
    steps = [call.split()[-1] for call in machine.calls if call.startswith("apt-get")]
    assert steps == ["chromium", "update", "chromium"]


def test_who_is_not_root_is_told_so(machine):
    be(machine, 1000)
    machine.add("apt-get")
    machine.add("npm", AXE)
    assert "that takes root" in machine.run()
    assert not any(call.startswith("apt-get") for call in machine.calls)


def test_sudo_is_used_where_it_asks_for_no_password(machine):
    be(machine, 1000)
    machine.add("apt-get")
    machine.add("npm", AXE)
    machine.add("sudo", 'shift 2; "$@"')
    assert machine.run() == ""
    assert any(call.startswith("sudo -n") and "chromium" in call for call in machine.calls)


def test_downloads_that_fail_are_said_in_a_line(machine):
    be(machine, 0)
    machine.add("apt-get", "echo E: no network >&2; exit 100")
    machine.add("npm", "echo npm error >&2; exit 1")
    first, second = machine.run().splitlines()
    assert "apt-get could not" in first and "npm could not" in second
