"""The locked environment: everything that development needs, in exact versions, by its hash."""

import re
import subprocess
import tomllib
from importlib.metadata import PackageNotFoundError, requires

import pytest
from packaging.requirements import Requirement

from places import ROOT

MACHINE_BUILDS = ("torch", "triton", "nvidia-", "cuda-")


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(file):
    lines = re.findall(r"^(\S+?)==([^\s\\]+)", (ROOT / file).read_text("utf-8"), re.MULTILINE)
    return {normal(name): version for name, version in lines}


def needed(extra):
    """The names of all packages that an extra of eyechart needs here, as their metadata say."""
    found, left = set(), [("eyechart", frozenset([extra]))]
    seen = set()
    while left:
        name, extras = left.pop()
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        found.add(name)
        try:
            listed = [Requirement(each) for each in requires(name) or ()]
        except PackageNotFoundError:
            continue
        for each in listed:
            if each.marker is None or any(
                each.marker.evaluate({"extra": own}) for own in ("", *extras)
            ):
                left.append((normal(each.name), frozenset(each.extras)))
    return found - {"eyechart"}


def test_every_package_is_pinned_with_a_hash_of_its_files():
    text = (ROOT / "requirements.lock").read_text("utf-8")
    entries = re.split(r"^(?=\w)", text, flags=re.MULTILINE)[1:]
    assert len(entries) > 100
    for entry in entries:
        assert re.fullmatch(r"[a-z0-9-]+==\S+ \\\n(    --hash=sha256:[0-9a-f]{64}( \\)?\n)+", entry)
    assert "http" not in text.replace("httpcore", "").replace("httpx", "")


def test_the_lock_holds_all_that_development_needs_but_builds_for_an_accelerator():
    wanted = {name for name in needed("dev") if not name.startswith(MACHINE_BUILDS)}
    assert len(wanted) > 60
    assert wanted - pins("requirements.lock").keys() == set()
    assert not any(name.startswith(MACHINE_BUILDS) for name in pins("requirements.lock"))


def test_the_demo_needs_less_than_development_in_the_same_versions():
    locked, for_demo = pins("requirements.lock"), pins("requirements-demo.lock")
    assert for_demo.items() < locked.items() and len(for_demo) < len(locked) / 2
    wanted = {name for name in needed("demo") if not name.startswith(MACHINE_BUILDS)}
    assert wanted - for_demo.keys() == set()
    assert not {"mypy", "ruff", "pytest", "mkdocs-material", "fastapi"} & for_demo.keys()


def test_lock_and_constraints_have_the_same_versions():
    locked, constrained = pins("requirements.lock"), pins("constraints.txt")
    # extras for model zoos need another setuptools
    assert locked.keys() - constrained.keys() <= {"setuptools"}
    both = locked.keys() & constrained.keys()
    assert {name: locked[name] for name in both} == {name: constrained[name] for name in both}
    assert "torch" in constrained


@pytest.mark.parametrize("extra", ["cloud", "coverage", "energy", "ray"])
def test_extras_that_development_does_not_install_are_pinned_too(extra):
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    names = {normal(Requirement(each).name) for each in listed["optional-dependencies"][extra]}
    assert names and names <= pins("constraints.txt").keys()
    # fsspec comes with torch
    assert names & pins("requirements.lock").keys() <= {"fsspec"}


def test_the_list_of_licenses_has_every_package_in_its_version():
    page = (ROOT / "docs" / "reference" / "licenses.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| (\S+) \| (\S+) \| \S.* \|$", page, re.MULTILINE))
    rows.pop("package")
    assert rows == {**pins("requirements.lock"), "torch": pins("constraints.txt")["torch"]}


@pytest.mark.parametrize("extra", ["dev", "demo"])
@pytest.mark.parametrize("is_known", [True, False])
def test_a_machine_without_a_lock_gets_exact_versions_and_is_told(tmp_path, is_known, extra):
    python = tmp_path / "python"
    log = tmp_path / "log"
    python.write_text(
        f'#!/bin/sh\n[ "$1" = -c ] && exit {0 if is_known else 1}\necho "$@" >>{log}\n'
    )
    python.chmod(0o755)
    command = ["sh", str(ROOT / "install.sh"), str(python), *([extra] if extra == "demo" else [])]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    calls = [line for line in log.read_text().splitlines() if "pip install" in line]
    if is_known:
        assert done.stdout == ""
        assert ["--require-hashes" in call for call in calls] == [True, False, False]
        lock = "requirements.lock" if extra == "dev" else "requirements-demo.lock"
        assert calls[0].endswith(f"-r {lock}")
        assert calls[1].endswith("-c constraints.txt torch")
        assert "--no-build-isolation" in calls[2] and "--no-deps" in calls[2]
    else:
        assert "without hashes" in done.stdout
        experiment = "packages/experiment" if extra == "demo" else "packages/experiment[dev]"
        assert len(calls) == 1
        assert calls[0].endswith(f"-c constraints.txt -e .[{extra}] -e {experiment}")
